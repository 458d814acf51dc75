"""Shape inference: what an operation gives, from its operands' shapes and its attributes.

`infer` gives the result shape of the opcodes whose shape the text may leave out, `check` compares a written shape
with the rules of its opcode.  Rules: XLA's operation semantics (``docs/operation_semantics.md``).  Layouts are not
looked at; inferred arrays have the default one.  Bounded dynamic dimensions are carried along.

Rules that are not about elements are loaded when there is an instruction for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from hlotool.ir.opcodes import OPCODES
from hlotool.ir.shape import Shape
from hlotool.ir.shape_checks import Rule, ShapeError, expect, require, require_count
from hlotool.ir.shape_elementwise import ELEMENTWISE
from hlotool.ir.shape_written import WRITTEN, Check

__all__ = ["ShapeError", "check", "infer"]


@cache
def _rules() -> Mapping[str, Rule]:
    from hlotool.ir.shape_contractions import CONTRACTIONS
    from hlotool.ir.shape_movement import MOVEMENT
    from hlotool.ir.shape_reductions import REDUCTIONS

    return {**MOVEMENT, **REDUCTIONS, **CONTRACTIONS}


@cache
def _checks() -> Mapping[str, Check]:
    from hlotool.ir.shape_collectives import COLLECTIVES

    return COLLECTIVES


def _rule(opcode: str) -> Rule | None:
    return ELEMENTWISE.get(opcode) or _rules().get(opcode)


def infer(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """The result shape.

    Raises ShapeError where operands and attributes do not fit together, and where the opcode's shape cannot be
    inferred because it is part of the operation (constant, reshape, custom-call...).
    """
    rule = _rule(opcode)
    if rule is None:
        raise ShapeError(f"the result shape of {opcode} cannot be inferred")
    arity = OPCODES[opcode].arity
    if arity is not None:
        require_count(opcode, operands, arity, arity)
    return rule(opcode, operands, attributes)


def check(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """Raise ShapeError unless `shape` is a result that `opcode` can have for these operands and attributes."""
    arity = OPCODES[opcode].arity
    if arity is not None:
        require_count(opcode, operands, arity, arity)
    if opcode == "parameter":  # it has the shape that it says
        replicated = attributes.get("parameter_replication")
        if replicated is not None:
            count = len(list(shape.leaves()))
            message = f"parameter_replication has {len(replicated)} values, {shape} has {count} arrays"
            require(len(replicated) == count, message, "attribute:parameter_replication")
        return
    own = WRITTEN.get(opcode) or (None if opcode in ELEMENTWISE else _checks().get(opcode))
    if own is not None:
        own(opcode, shape, operands, attributes)
        return
    rule = _rule(opcode)
    if rule is not None:
        expect(opcode, shape, rule(opcode, operands, attributes))
