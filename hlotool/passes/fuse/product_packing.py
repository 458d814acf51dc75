"""Lay out operands of products once: constants at compile time, what a loop does not change before the loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np

from hlotool.analysis.contraction import PACKED_TYPES, dot_dimensions, panel_columns
from hlotool.analysis.costs import costs_of
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Literal, Module, array, byte_size
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import has_sizes, replace_with
from hlotool.passes.framework.rewriter import Rewriter
from hlotool.passes.loops.while_loops import invariant_elements, obstacle

__all__ = ["ProductPacking"]

_FIXED = frozenset({"constant", "get-tuple-element"})
"""Opcodes of what is a constant, or may be what a loop does not change."""


@dataclass(frozen=True, slots=True)
class ProductPacking:
    """Transposes operands of dots that are constants, or that a loop does not change, into the form that kernels want.

    A kernel would copy such an operand each time it runs.  Here a right operand ``[k, n]`` becomes panels
    ``[n/16, k, 16]`` (so that 64 bytes of each row lie side by side), and the dot's result ``[m, n/16, 16]`` is
    reshaped; a left operand ``[k, m]`` becomes ``[m, k]``.  Sums keep their order.  Constants are laid out at once;
    ``while-loop-invariant-code-motion`` takes the transposes of others out of loops.
    """

    name: ClassVar[str] = "product-packing"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers: dict[Computation, list[Instruction]] | None = None
        for computation in module.callees_first():
            dots = [i for i in computation if i.opcode == "dot" and any(o.opcode in _FIXED for o in i.operands)]
            dots = [dot for dot in dots if _is_packable(dot)]
            if not dots:
                continue
            callers = module.callers() if callers is None else callers
            kept = _kept(computation, callers)
            for dot in dots:
                for index in (1, 0):
                    packed = _pack(dot, index, kept, log)
                    changed |= packed is not dot
                    dot = packed
        return changed


def _is_packable(dot: Instruction) -> bool:
    """Whether this is a product of two matrices, one of them perhaps with more dimensions of rows, of one type."""
    numbers = dot_dimensions(dot)
    kinds = {dot.shape.element_type, *(o.shape.element_type for o in dot.operands)}
    plain = not numbers.lhs_batch and len(numbers.lhs_contracting) == 1 and not has_sizes(dot)
    return plain and len(kinds) == 1 and kinds <= PACKED_TYPES and dot.shape.size > 0


def _kept(computation: Computation, callers: Mapping[Computation, Sequence[Instruction]]) -> frozenset[Instruction]:
    """What does not change in the loop that `computation` is the body of; nothing where it is not one."""
    loops = callers[computation]
    if not loops or loops[0].opcode != "while" or computation is not loops[0].attributes["body"]:
        return frozenset()
    if obstacle(loops[0], callers) is not None:
        return frozenset()
    indices = set(invariant_elements(loops[0]))
    readers = computation.parameters[0].users
    return frozenset(r for r in readers if r.opcode == "get-tuple-element" and r.attributes["index"] in indices)


def _pack(dot: Instruction, index: int, kept: Collection[Instruction], log: DecisionLog) -> Instruction:
    """`dot` or, where its operand `index` can be laid out once and should be, the dot in its place."""
    operand = dot.operands[index]
    if not (operand in kept or (operand.opcode == "constant" and not operand.literal.elided)):
        return dot
    if not _is_copied(dot, index):
        return dot
    if operand.opcode == "constant" and not all(_reads_copy(user, operand, index) for user in operand.users):
        log.refuse("other-readers", dot, f"{operand.name} would be there in two forms", bytes=operand.shape.byte_size)
        return dot
    columns = panel_columns(dot.shape.element_type)
    if index == 1 and dot.shape.dimensions[-1] % columns:
        log.refuse("odd-columns", dot, f"it has {dot.shape.dimensions[-1]} columns, not a multiple of {columns}")
        return dot
    if not log.allow():
        return dot
    rewriter = Rewriter(dot)
    (contracting,) = dot_dimensions(dot).rhs_contracting
    attributes, dimensions = dict(dot.attributes), dot.shape.dimensions
    if index == 0:
        laid_out = _transposed(operand, operand.shape.dimensions, (1, 0), rewriter)
        attributes["lhs_contracting_dims"] = (1,)
        operands = (laid_out, dot.operands[1])
    else:
        k, n = operand.shape.dimensions[contracting], dimensions[-1]
        if contracting:
            laid_out = _transposed(operand, (n // columns, columns, k), (0, 2, 1), rewriter)
        else:
            laid_out = _transposed(operand, (k, n // columns, columns), (1, 0, 2), rewriter)
        attributes["rhs_contracting_dims"] = (1,)
        operands = (dot.operands[0], laid_out)
        dimensions = (*dimensions[:-1], n // columns, columns)
    made = rewriter.make("dot", array(dot.shape.element_type, dimensions), *operands, **attributes)
    when = "at compile time" if laid_out.opcode == "constant" else "outside of the loop"
    log.rewrite("pack", dot, made, f"its {'right' if index else 'left'} operand is laid out once, {when}")
    replace_with(dot, rewriter.reshape(made, dot.shape.dimensions))
    return made


def _is_copied(dot: Instruction, index: int) -> bool:
    """Whether the kernel of `dot` would copy its operand, a matrix, into another form: see `cpu.products.dot`."""
    operand, numbers, costs = dot.operands[index].shape, dot_dimensions(dot), costs_of(dot)
    if operand.rank != 2:
        return False
    if index == 0:
        k, m = operand.dimensions
        wide = dot.shape.size > costs.columns_in_place * m
        return numbers.lhs_contracting == (0,) and k > costs.terms_in_place and m > costs.rows_along and wide
    n = dot.shape.dimensions[-1]
    m = dot.shape.size // n
    if numbers.rhs_contracting == (1,):
        return m > costs.rows_along
    return n > costs.columns_in_place and m > costs.rows_read_in_place(n * byte_size(dot.shape.element_type))


def _reads_copy(user: Instruction, operand: Instruction, index: int) -> bool:
    """Whether `user` is a dot that would copy `operand`, too, which it reads as its operand `index`."""
    if user.opcode != "dot" or not _is_packable(user):
        return False
    return user.operands[index] is operand and user.operands[1 - index] is not operand and _is_copied(user, index)


def _transposed(operand: Instruction, sizes: Sequence[int], order: Sequence[int], rewriter: Rewriter) -> Instruction:
    """`operand`, reshaped to `sizes` and transposed; a constant again if it is one."""
    if operand.opcode != "constant":
        return rewriter.transpose(rewriter.reshape(operand, sizes), order)
    value = np.ascontiguousarray(operand.literal.value().reshape(sizes).transpose(order))
    shape = array(operand.shape.element_type, value.shape)
    return rewriter.make("constant", shape, literal=Literal(shape, value))
