"""Element loop expander: computations that are more than arithmetic on scalars, called for one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import ClassVar, TypeAlias

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.inlining import can_inline
from hlotool.ir import Computation, Instruction, Module, Window, WindowDimension
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.expand import scatter_expander, select_and_scatter_expander
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import applied, blank, counted_loop

__all__ = ["ElementLoopExpander"]

Values: TypeAlias = list[Instruction]


@dataclass(frozen=True, slots=True)
class ElementLoopExpander:
    """Expands what applies a computation with loops, branches or arrays in it: such a computation has no inline code.

    A map and a reduction become a loop that calls the computation for one element after the other, a window reduction
    goes over the elements of its windows, a sort becomes a merge sort, and the scatters are expanded to maps.
    """

    name: ClassVar[str] = "element-loop-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset(
        {"map", "reduce", "reduce-window", "select-and-scatter", "scatter", "sort"}
    )

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        while _round(module, log):  # what one expansion leaves to another: three times at most
            changed = True
        if changed:
            module.remove_unreachable()
        return changed


def _round(module: Module, log: DecisionLog) -> bool:
    known: dict[Computation, bool] = {}
    fused = {i.attributes["calls"] for c in module.computations.values() for i in c.calls if i.opcode == "fusion"}

    def expand(build: Builder, instruction: Instruction) -> Instruction | None:
        if build.computation in fused or _is_plain(instruction, known):
            return None
        return _EXPANSIONS[instruction.opcode](module, build, instruction)

    reason = "its computation is called element by element"
    return expand_each(module, log, _EXPANSIONS, expand, "expand", reason, static=True)


def _is_plain(instruction: Instruction, known: dict[Computation, bool]) -> bool:
    for called in instruction.called:
        if called not in known:
            known[called] = can_inline(called)
    return all(known[called] for called in instruction.called)


# ---- pieces


def _get(build: Builder, flat: Instruction, place: Instruction) -> Instruction:
    return build.reshape(build.dynamic_slice(flat, [place], (1,)), ())


def _set(build: Builder, flat: Instruction, place: Instruction, value: Instruction) -> Instruction:
    return build.dynamic_update_slice(flat, build.reshape(value, (1,)), [place])


def _results(build: Builder, instruction: Instruction, values: Values) -> Instruction:
    return build.tuple(values) if instruction.shape.is_tuple else values[0]


def _number(build: Builder, value: int) -> Instruction:
    return build.scalar_constant(value, "s32")


# ---- expansions


def _map(module: Module, build: Builder, instruction: Instruction) -> Instruction:
    shape, size = instruction.shape, instruction.shape.size
    result = blank(build, shape.element_type, (size,))
    if size:
        flats = [build.reshape(operand, (size,)) for operand in instruction.operands]

        def step(build: Builder, number: Instruction, state: Values) -> Values:
            values = [_get(build, flat, number) for flat in state[1:]]
            (made,) = applied(build, instruction.attributes["to_apply"], values)
            return [_set(build, state[0], number, made), *state[1:]]

        result = counted_loop(module, build, size, [result, *flats], step)[0]
    return build.reshape(result, shape.dimensions)


def _reduce(module: Module, build: Builder, instruction: Instruction) -> Instruction:
    half = len(instruction.operands) // 2
    inputs, initial = instruction.operands[:half], instruction.operands[half:]
    sizes = inputs[0].shape.dimensions
    gone = sorted(instruction.attributes["dimensions"])
    kept = [d for d in range(len(sizes)) if d not in gone]
    count, length = prod(sizes[d] for d in kept), prod(sizes[d] for d in gone)
    state = [build.broadcast(one, (), (count,)) for one in initial]
    if count * length:
        flats = [build.reshape(build.transpose(one, [*kept, *gone]), (count * length,)) for one in inputs]

        def step(build: Builder, number: Instruction, state: Values) -> Values:
            row = build.binary("divide", number, _number(build, length))
            values = [_get(build, one, row) for one in state[:half]]
            values += [_get(build, one, number) for one in state[half:]]
            made = applied(build, instruction.attributes["to_apply"], values)
            return [*(_set(build, state[n], row, one) for n, one in enumerate(made)), *state[half:]]

        state = counted_loop(module, build, count * length, [*state, *flats], step)[:half]
    return _results(build, instruction, [build.reshape(one, [sizes[d] for d in kept]) for one in state])


def _reduce_window(module: Module, build: Builder, instruction: Instruction) -> Instruction:
    half = len(instruction.operands) // 2
    inputs, initial = instruction.operands[:half], instruction.operands[half:]
    sizes = inputs[0].shape.dimensions
    window = instruction.attributes.get("window") or Window((WindowDimension(1),) * len(sizes))
    shape = instruction.shape.elements[0] if instruction.shape.is_tuple else instruction.shape
    count, length = shape.size, prod(d.size for d in window.dimensions)
    state = [build.broadcast(one, (), (count,)) for one in initial]
    if count * prod(sizes):
        flats = [build.reshape(one, (one.shape.size,)) for one in inputs]
        extents = [*shape.dimensions, *(d.size for d in window.dimensions)]

        def step(build: Builder, number: Instruction, state: Values) -> Values:
            places = _places(build, number, extents)
            inside, place = _element(build, sizes, window, places[: len(sizes)], places[len(sizes) :])
            row = build.binary("divide", number, _number(build, length))
            before = [_get(build, one, row) for one in state[:half]]
            values = [*before, *(_get(build, one, place) for one in state[half:])]
            made = applied(build, instruction.attributes["to_apply"], values)
            after = [build.select(inside, new, old) for new, old in zip(made, before, strict=True)]
            return [*(_set(build, state[n], row, one) for n, one in enumerate(after)), *state[half:]]

        state = counted_loop(module, build, count * length, [*state, *flats], step)[:half]
    return _results(build, instruction, [build.reshape(one, shape.dimensions) for one in state])


def _places(build: Builder, number: Instruction, extents: Sequence[int]) -> Values:
    """The position in each dimension of the element `number`, in row-major order."""
    places: Values = []
    for size in reversed(extents):
        places.insert(0, build.binary("remainder", number, _number(build, size)))
        number = build.binary("divide", number, _number(build, size))
    return places


def _element(
    build: Builder, sizes: Sequence[int], window: Window, outer: Values, inner: Values
) -> tuple[Instruction, Instruction]:
    """Whether a place in a window is an element of the array, no padding and no hole, and where that lies flat."""
    inside, flat = build.constant(True, "pred"), _number(build, 0)
    for size, d, at, within in zip(sizes, window.dimensions, outer, inner, strict=True):
        first = build.binary("multiply", at, _number(build, d.stride))
        place = build.binary("add", first, build.binary("multiply", within, _number(build, d.window_dilation)))
        place = build.binary("subtract", place, _number(build, d.padding_low))
        hole = build.binary("remainder", place, _number(build, d.base_dilation))
        place = build.binary("divide", place, _number(build, d.base_dilation))
        for left, right, direction in (
            (hole, _number(build, 0), "EQ"), (place, _number(build, 0), "GE"), (place, _number(build, size), "LT"),
        ):  # fmt: skip
            inside = build.binary("and", inside, build.compare(left, right, direction))
        place = build.clamp(_number(build, 0), place, _number(build, size - 1))
        flat = build.binary("add", build.binary("multiply", flat, _number(build, size)), place)
    return inside, flat


def _sort(module: Module, build: Builder, instruction: Instruction) -> Instruction:
    """Merge sort from the bottom: each step takes one element, the left one unless the right one must come before it.

    So equals never pass each other, and the comparator is called once for every place and round.
    """
    shape = instruction.operands[0].shape
    (axis,) = instruction.attributes["dimensions"]
    length, count = shape.dimensions[axis], len(instruction.operands)
    if length < 2 or not shape.size:
        return _results(build, instruction, instruction.operands)
    order = [*(d for d in range(shape.rank) if d != axis), axis]
    flats = [build.reshape(build.transpose(one, order), (shape.size,)) for one in instruction.operands]

    def merge(build: Builder, number: Instruction, state: Values) -> Values:
        """Runs of 2^number elements of each line, two by two."""
        width = build.binary("shift-left", _number(build, 1), number)
        zero = _number(build, 0)
        state = [*state, zero, zero, width, *state]
        return counted_loop(module, build, shape.size, state, take)[:count]

    def take(build: Builder, number: Instruction, state: Values) -> Values:
        left, right, width = state[count : count + 3]
        before = state[count + 3 :]

        def after(start: Instruction) -> Instruction:
            """Where a run that begins there ends: at the end of the line, if that comes first."""
            return build.binary("minimum", build.binary("add", start, width), end)

        place = build.binary("remainder", number, _number(build, length))
        end = build.binary("add", build.binary("subtract", number, place), _number(build, length))
        pair = build.binary("remainder", place, build.binary("add", width, width))
        first = build.binary("subtract", number, pair)
        middle = after(first)
        last = after(middle)
        begins = build.compare(number, first, "EQ")
        left, right = build.select(begins, first, left), build.select(begins, middle, right)
        ends = _number(build, shape.size - 1)
        lefts, rights = (
            [_get(build, one, build.binary("minimum", at, ends)) for one in before] for at in (left, right)
        )
        pairs = [one for both in zip(rights, lefts, strict=True) for one in both]
        (wanted,) = applied(build, instruction.attributes["to_apply"], pairs)
        wanted = build.binary("or", wanted, build.compare(left, middle, "GE"))
        wanted = build.binary("and", wanted, build.compare(right, last, "LT"))
        step = build.convert(wanted, "s32")
        moved = [
            build.binary("add", left, build.binary("subtract", _number(build, 1), step)),
            build.binary("add", right, step),
        ]
        taken = [build.select(wanted, one, other) for one, other in zip(rights, lefts, strict=True)]
        written = [_set(build, one, number, value) for one, value in zip(state[:count], taken, strict=True)]
        return [*written, *moved, width, *before]

    flats = counted_loop(module, build, (length - 1).bit_length(), flats, merge)
    sizes = [shape.dimensions[d] for d in order]
    back = [order.index(d) for d in range(shape.rank)]
    return _results(build, instruction, [build.transpose(build.reshape(one, sizes), back) for one in flats])


_EXPANSIONS: dict[str, Callable[[Module, Builder, Instruction], Instruction]] = {
    "map": _map,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": scatter_expander.expanded,
    "select-and-scatter": select_and_scatter_expander.expanded,
    "sort": _sort,
}
