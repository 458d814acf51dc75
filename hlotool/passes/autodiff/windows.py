"""Derivatives of windowed reductions, and of select-and-scatter, which is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from hlotool.analysis.reducers import opcodes
from hlotool.ir import Computation, Instruction, Window, WindowDimension, array, clone_computation
from hlotool.ir.builder import Builder
from hlotool.ir.shape import scalar
from hlotool.passes.autodiff.expanded import in_simpler_opcodes
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.movement import jointly
from hlotool.passes.autodiff.reductions import combine, forward_as_call, reverse_as_call
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Writer, refusal
from hlotool.passes.loops.counted_loop import applied

__all__ = ["RULES"]

_MOST = 1024
"""Elements of a window, of a reducer that is no sum or extreme, up to which it is written out."""


def _rows(instruction: Instruction) -> tuple[WindowDimension, ...]:
    window: Window = instruction.attributes.get("window", Window())
    return window.dimensions or tuple(WindowDimension(1) for _ in range(instruction.operands[0].shape.rank))


def _is_dilated(instruction: Instruction) -> bool:
    return any(row.base_dilation != 1 or row.window_dilation != 1 for row in _rows(instruction))


# ---- reduce-window


def _reverse(at: Reverse, reduction: Instruction, cotangents: ByLeaf) -> None:
    names = opcodes(reduction.attributes["to_apply"])
    operand, start = reduction.operands[0], reduction.operands[-1]
    if names == ("add",):
        g = cotangents[()]
        if at.wants(operand):
            at.give(operand, _spread(at, reduction, g))
        if at.wants(start):
            at.give(start, at.sum_over(g, range(g.shape.rank)))
    elif names in (("maximum",), ("minimum",)) and not at.wants(start) and not _is_dilated(reduction):
        element_type = operand.shape.element_type
        attributes = {
            "window": Window(_rows(reduction)),
            "select": at.module.add(_comparison("GE" if names == ("maximum",) else "LE", element_type)),
            "scatter": at.sum_computation(element_type),
        }
        sources = at.primal(operand), cotangents[()], at.zeros(scalar(element_type))
        at.give(operand, at.build.add("select-and-scatter", None, sources, attributes))
    else:
        reverse_as_call(at, reduction, _written_out(reduction), cotangents)


def _forward(at: Forward, reduction: Instruction) -> ByLeaf:
    names = opcodes(reduction.attributes["to_apply"])
    if names == ("add",):
        return jointly(lambda instruction: (0, 1))(at, reduction)
    operand, start = reduction.operands[0], reduction.operands[-1]
    if names in (("maximum",), ("minimum",)) and at.tangent(start) is None:
        select = _comparison("GE" if names == ("maximum",) else "LE", operand.shape.element_type)
        return {(): _choose(at, _rows(reduction), select, at.primal(operand), at.tangent_or_zeros(operand))}
    return forward_as_call(at, reduction, _written_out(reduction))


def _spread(at: Writer, reduction: Instruction, g: Instruction) -> Instruction:
    """The sum of the cotangents of the windows that an element is in: a windowed sum, too."""
    operand = reduction.operands[0]
    if not operand.shape.size or not g.shape.size:
        return at.zeros(operand.shape)
    padding, rows = [], []
    for row, into, out in zip(_rows(reduction), operand.shape.dimensions, g.shape.dimensions, strict=True):
        low = row.dilated_size - row.padding_low - 1
        whole = (into - 1) * row.base_dilation + row.dilated_size
        padding.append((low, whole - ((out - 1) * row.stride + 1) - low, row.stride - 1))
        rows.append(WindowDimension(row.size, row.base_dilation, window_dilation=row.window_dilation))
    zero = at.zeros(scalar(g.shape.element_type))
    attributes = {"window": Window(tuple(rows)), "to_apply": at.sum_computation(g.shape.element_type)}
    return at.build.add("reduce-window", None, (at.build.pad(g, zero, padding), zero), attributes)


def _comparison(direction: str, element_type: str) -> Computation:
    computation = Computation(f"select_{direction}")
    build = Builder(computation)
    first, second = (build.parameter(number, scalar(element_type)) for number in range(2))
    computation.root = build.compare(first, second, direction)
    return computation


def _choose(
    at: Writer, rows: Sequence[WindowDimension], select: Computation, values: Instruction, carried: Instruction
) -> Instruction:
    """Of each window what `carried` has where `select` chooses from `values`; zero of an empty one.

    Next to both goes whether there is an element at all, so that padding is never chosen.
    """
    reducer = Computation("choose")
    build = Builder(reducer)
    types = "pred", values.shape.element_type, carried.shape.element_type
    first = [build.parameter(number, scalar(name)) for number, name in enumerate(types)]
    second = [build.parameter(number + 3, scalar(name)) for number, name in enumerate(types)]
    (better,) = applied(build, clone_computation(select), (first[1], second[1]))
    keep = build.binary("and", first[0], build.binary("or", build.unary("not", second[0]), better))
    both = build.binary("or", first[0], second[0])
    chosen = [build.select(keep, a, b) for a, b in zip(first[1:], second[1:], strict=True)]
    reducer.root = build.tuple([both, *chosen])
    present = at.build.splat(True, values.shape.with_type("pred").with_layout(None))
    starts = [at.build.scalar_constant(0, name) for name in types]
    attributes = {"window": Window(tuple(rows)), "to_apply": at.module.add(reducer)}
    found = at.build.add("reduce-window", None, (present, values, carried, *starts), attributes)
    return at.build.gte(found, 2)


def _written_out(reduction: Instruction) -> Computation:
    """The same as a computation: the elements of a window one after the other, each as a strided slice.

    Padding does not count.
    """
    rows = _rows(reduction)
    if prod(row.size for row in rows) > _MOST:
        raise refusal(reduction, f"it is no sum or extreme, and its windows have more than {_MOST} elements")
    computation = Computation("windows")
    build = Builder(computation, like=reduction)
    count = len(reduction.operands) // 2
    given = [build.parameter(number, operand.shape) for number, operand in enumerate(reduction.operands)]
    starts = given[count:]
    shapes = reduction.shape.elements if reduction.shape.is_tuple else (reduction.shape,)
    sizes = shapes[0].dimensions
    total = [build.broadcast(start, (), sizes) if sizes else start for start in starts]
    if prod(sizes):
        padding = [(row.padding_low, row.padding_high, row.base_dilation - 1) for row in rows]
        padded = [build.pad(one, start, padding) for one, start in zip(given, starts, strict=False)]
        if is_padded := any(any(row) for row in padding):
            everywhere = build.splat(True, array("pred", given[0].shape.dimensions))
            padded.append(build.pad(everywhere, build.scalar_constant(False, "pred"), padding))
        for place in product(*(range(row.size) for row in rows)):
            first = [n * row.window_dilation for n, row in zip(place, rows, strict=True)]
            limits = [n + (size - 1) * row.stride + 1 for n, size, row in zip(first, sizes, rows, strict=True)]
            part = [build.slice(one, first, limits, [row.stride for row in rows]) for one in padded]
            more = combine(build, reduction, total, part[:count])
            if is_padded:
                more = [build.select(part[count], one, old) for one, old in zip(more, total, strict=True)]
            total = more
    computation.root = build.tuple(total) if reduction.shape.is_tuple else total[0]
    return computation


# ---- select-and-scatter: a sum is linear in what is scattered; any other is a scatter to the selected places


_WITH_PLACES = "select-and-scatter-expander,tuple-simplifier,dce"


def _is_sum(instruction: Instruction) -> bool:
    return opcodes(instruction.attributes["scatter"]) == ("add",)


def _select_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    if not _is_sum(instruction):
        reverse_as_call(at, instruction, in_simpler_opcodes(at, instruction, _WITH_PLACES), cotangents)
        return
    operand, source, start = instruction.operands
    g = cotangents[()]
    if at.wants(source):
        if source.shape.size and operand.shape.size:
            chosen = _choose(at, _rows(instruction), instruction.attributes["select"], at.primal(operand), g)
        else:
            chosen = at.zeros(source.shape)
        at.give(source, chosen)
    if at.wants(start):
        at.give(start, at.sum_over(g, range(g.shape.rank)))
    at.give(operand, at.zeros(operand.shape))


def _select_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    if not _is_sum(instruction):
        return forward_as_call(at, instruction, in_simpler_opcodes(at, instruction, _WITH_PLACES))
    return jointly(lambda one: (1, 2))(at, instruction)


RULES: dict[str, Rule] = {
    "reduce-window": Rule(_reverse, _forward),
    "select-and-scatter": Rule(_select_reverse, _select_forward),
}
