"""Derivatives of programs, as modules: gradients and cotangents (reverse mode), tangents (forward mode).

    module = hlotool.load("loss.hlo")
    gradient = gradient_module(module, (0, 2), value=True)

Rules are tables, a file per group of opcodes, and each has both modes.  The other way to do it is to have forward mode
for everything, and reverse mode as its transpose; it needs a rule for the transpose of every linear opcode, so that
for products, moves of elements and sums it is the same work: there, forward mode is the opcode itself, on tangents
(`movement.jointly`, `movement.each`), and the rule is the transpose.  Elementwise functions have one formula for both
modes, which multiplies (`elementwise.py`).  What is left, extremes, sorting, factorisations, is written out for both,
and control flow would have to be: what a loop saves for its gradient is chosen when one walks back over its body, from
what rules ask for there, without a linear program in between.  So there are as few rules as with transposes, and a
gradient is written in one walk, in the form that runs.

Opcodes that a pass can put simpler ones in the place of have no rules: that pass runs first (`table.REWRITTEN`).
Reducers that are elementwise, whatever they compute, are differentiated as the tree of operations that they stand for.

Differences to finite differences are deliberate only at corners, where JAX's choices are taken (`elementwise.py`), and
for complex numbers, where cotangents are JAX's: not conjugated.

- `table.py`: what becomes of each opcode; `rule.py`: what a rule is
- `derivative.py`: modules of derivatives; `passes.py`: the same as passes
- `activity.py`: what depends on what; `reverse.py` and `forward.py`: the walks; `writer.py`: formulas
"""

from hlotool.passes.autodiff.custom_calls import register_gradient
from hlotool.passes.autodiff.derivative import (
    gradient_module,
    jvp_module,
    make_gradient,
    make_jvp,
    make_vjp,
    vjp_module,
)
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import differentiable

__all__ = [
    "ByLeaf",
    "Rule",
    "differentiable",
    "gradient_module",
    "jvp_module",
    "make_gradient",
    "make_jvp",
    "make_vjp",
    "register_gradient",
    "vjp_module",
]
