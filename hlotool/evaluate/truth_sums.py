"""Reductions, windows, scatter, and products of matrices on values with error bounds.

A reduction by one opcode carries along what its bound needs, as further arrays reduced in the same way: a sum also
sums up absolute values and errors (Higham, sections 3.1 and 4.2: in any order the error is below gamma times the sum of
absolute values).  Any other reduction is done on pairs of values and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.evaluate import convolution, dot, gather, reduction, windows
from hlotool.evaluate.bounds import Bounded, bounded, growth, is_inexact, largest, rounded, smallest, unit, wide_dtype
from hlotool.evaluate.combiner import Combiner, choice_of, combiner_of, combiners_of
from hlotool.evaluate.context import Rule
from hlotool.evaluate.reduction import tree_reduce
from hlotool.evaluate.rounding import convert
from hlotool.evaluate.rules import RULES
from hlotool.evaluate.truth_elementwise import multiply
from hlotool.evaluate.values import AnyArray
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Shape, Window
from hlotool.ir.dot_algorithms import ALGORITHMS, scaled_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["SUMS", "ProductParts", "accumulated", "product_parts", "repeats", "retyped", "total"]


def retyped(instruction: Instruction, shape: Shape) -> Instruction:
    """The instruction as a rule sees it, with a result of another shape."""
    made = Instruction(instruction.opcode, shape, (), instruction.attributes, instruction.name)
    made.operands = instruction.operands
    return made


def accumulated(kind: str) -> str:
    """The type that sums of a type are taken in: below f32 it is f32."""
    return "f32" if ELEMENT_TYPES[kind].bits <= 16 else kind


def _finite_size(value: AnyArray) -> AnyArray:
    """Absolute values, 0 for those that are not finite (of complex numbers, such parts): what they make of a sum is
    decided."""
    size = np.abs(value).astype(np.float64, copy=False)
    if np.isfinite(size.sum()):
        return size
    parts = [value.real, value.imag] if value.dtype.kind == "c" else [value]
    finite = [np.where(np.isfinite(part), part, 0) for part in parts]
    return np.asarray(np.hypot(*finite) if len(finite) > 1 else np.abs(*finite)).astype(np.float64)


_SHORT = 64
"""Sums of so many terms have the bound that holds always, whatever their terms (see `growth`)."""


def repeats(values: AnyArray, axes: Sequence[int]) -> float:
    """How many terms of a sum over `axes` round alike: 1 where all are different, their number where they are equal.

    Equal terms are cut off alike as long as a sum stays between two powers of two, so that their roundings add up; of
    terms that come in groups the standard deviation is that of their squared numbers' sum.  Zeros do not round.
    """
    order = [axis for axis in range(values.ndim) if axis not in axes] + list(axes)
    length = prod(values.shape[axis] for axis in axes)
    if not length or not values.size:
        return 1.0
    rows = np.abs(values.transpose(order).reshape(-1, length)).astype(np.float64, copy=False)
    largest_share = 1.0
    for start in range(0, rows.shape[0], max(1, (1 << 22) // length)):
        block = np.sort(rows[start : start + max(1, (1 << 22) // length)], axis=1)
        fresh = np.ones(block.shape, np.bool_)
        np.not_equal(block[:, 1:], block[:, :-1], out=fresh[:, 1:])
        if fresh.all():
            continue
        firsts = np.flatnonzero(fresh)
        counts = np.diff(np.append(firsts, fresh.size)).astype(np.float64)
        counts[block.reshape(-1)[firsts] == 0] = 0
        squares = np.add.reduceat(counts**2, np.flatnonzero(firsts % length == 0))
        largest_share = max(largest_share, float(squares.max()) / length)
    return largest_share


def _repeats_at(targets: AnyArray, values: AnyArray) -> float:
    """As `repeats`, of terms that are added up at `targets`."""
    size = np.abs(values.reshape(-1)).astype(np.float64)
    places, size = targets.reshape(-1)[size != 0], size[size != 0]
    if not size.size:
        return 1.0
    order = np.lexsort((size, places))
    places, size = places[order], size[order]
    fresh = np.ones(size.shape, np.bool_)
    fresh[1:] = (places[1:] != places[:-1]) | (size[1:] != size[:-1])
    firsts = np.flatnonzero(fresh)
    counts = np.diff(np.append(firsts, size.size)).astype(np.float64)
    ends = places[firsts]
    heads = np.flatnonzero(np.append(True, ends[1:] != ends[:-1]))
    return float((np.add.reduceat(counts**2, heads) / np.add.reduceat(counts, heads)).max())


# ---- reductions by one opcode


@dataclass(frozen=True, slots=True)
class _Sum:
    """Value, sum of absolute values, whether any term has a fraction, and sum of errors: those of terms may all go the
    same way, as they do where terms are equal or come from one number.  Where that says too little of layer after
    layer, `hlotool.evaluate.stochastic` says more."""

    functions = (np.add, np.add, np.logical_or, np.add)
    identities = (0, 0, False, 0)

    def states(self, x: Bounded, kind: str) -> list[AnyArray]:
        return [x.value, _finite_size(x.value), np.asarray(x.value != np.rint(x.value)), x.errors()]

    def result(
        self, states: Sequence[AnyArray], count: float, kind: str, steps: str, often: float = 1.0
    ) -> Bounded:
        value, size, fractions, errors = states
        if not errors.any() and not fractions.any() and float(size.max(initial=0.0)) < 1 / unit(kind):
            return Bounded(value)  # partial sums are whole numbers that the type can hold
        error = errors + growth(count, unit(steps), often) * size
        return rounded(value, np.where(size > largest(kind), np.inf, error), kind)


@dataclass(frozen=True, slots=True)
class _Multiplication:
    """Value, the largest that it may be, and the largest and smallest that a part of it may be."""

    functions = (np.multiply, np.multiply, np.multiply, np.multiply)
    identities = (1, 1, 1, 1)

    def states(self, x: Bounded, kind: str) -> list[AnyArray]:
        size = np.where(np.isfinite(x.value), _finite_size(x.value), np.maximum(_finite_size(x.value), 1.0))
        most = size + x.errors()
        return [x.value, most, np.maximum(most, 1.0), np.minimum(size - np.minimum(x.errors(), size), 1.0)]

    def result(
        self, states: Sequence[AnyArray], count: float, kind: str, steps: str, often: float = 1.0
    ) -> Bounded:
        value, most, part, least = states
        # Products of complex numbers as in `multiply`; in f64 `most` itself errs as much as what it bounds.
        factor = (2.25 if ELEMENT_TYPES[kind].is_complex else 1) + (2 if kind in ("f64", "c128") else 0)
        size = np.where(np.isfinite(value), np.abs(value), 0).astype(np.float64)
        error = np.maximum(most * (1 + factor * growth(count, unit(steps))) - size, 0)
        error = error + count * smallest(steps) * part
        # A part that overflows, or is so small that it may be zero where another is infinite.
        lost = (part > largest(kind)) | (np.isinf(value) & (least < 2 * count * smallest(kind)))
        if ELEMENT_TYPES[kind].is_complex:  # what infinities and NaN in parts make of others is a matter of order
            lost = lost | ~np.isfinite(value)
        return rounded(value, np.where(lost | np.isnan(error), np.inf, error), kind)


@dataclass(frozen=True, slots=True)
class _Extreme:
    """Value, and how far up and down it may lie."""

    functions: tuple[Any, Any, Any]
    identities: tuple[float, float, float]

    def states(self, x: Bounded, kind: str) -> list[AnyArray]:
        return [x.value, x.value + x.errors(), x.value - x.errors()]

    def result(
        self, states: Sequence[AnyArray], count: float, kind: str, steps: str, often: float = 1.0
    ) -> Bounded:
        value, high, low = states
        error = np.maximum(high - value, value - low).astype(np.float64)
        error = np.where((high == value) & (low == value), 0.0, np.where(np.isnan(error), np.inf, error))
        error = np.where(np.isnan(value) & np.isfinite(error), 0.0, error)
        return Bounded(value, np.where(np.isnan(value), _nan_error(high, low), error) if error.any() else None)


def _nan_error(high: AnyArray, low: AnyArray) -> AnyArray:
    return np.where(np.isnan(high) & np.isnan(low), 0.0, np.inf)


_Kept = _Sum | _Multiplication | _Extreme
_KEPT: dict[str, _Kept] = {
    "add": _Sum(),
    "multiply": _Multiplication(),
    "maximum": _Extreme((np.maximum,) * 3, (-np.inf,) * 3),
    "minimum": _Extreme((np.minimum,) * 3, (np.inf,) * 3),
}


def _kept(combiner: Combiner) -> _Kept | None:
    """How values with bounds are combined; None of integers and predicates."""
    return _KEPT[combiner.opcode] if is_inexact(combiner.element_type) else None


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Computations on values and errors, each half of the arrays, by way of `Bounded` ones.

    Results are rounded to `kept`, where the computation gives wider types than those they are kept in.
    """

    context: Any
    count: int
    kept: Sequence[str] = ()

    def map(self, computation: Computation, arrays: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
        count = self.count
        given: list[Bounded] = []
        for side in range(0, len(arrays), 2 * count):
            values, errors = arrays[side : side + count], arrays[side + count : side + 2 * count]
            given += [bounded(v, e) for v, e in zip(values, errors, strict=True)]
        results = self.context.map(computation, given)
        given_types = [leaf.element_type for leaf in computation.root.shape.leaves()]
        results = [
            r if own == kind or not is_inexact(kind) else rounded(r.value, r.error, kind)
            for r, own, kind in zip(results, given_types, self.kept or given_types, strict=True)
        ]
        return (*(r.value for r in results), *(r.errors() for r in results))


def _paired(operands: Sequence[Bounded]) -> list[AnyArray]:
    return [*(o.value for o in operands), *(o.errors() for o in operands)]


def _unpaired(arrays: Sequence[AnyArray]) -> list[Bounded]:
    count = len(arrays) // 2
    return [bounded(np.asarray(v), np.asarray(e)) for v, e in zip(arrays[:count], arrays[count:], strict=True)]


def _one_or_tuple(instruction: Instruction, results: Any) -> Any:
    return tuple(results) if instruction.shape.is_tuple else results[0]


def _is_plain(instruction: Instruction, operands: Sequence[Bounded]) -> bool:
    """Nothing rounds and nothing is undecided."""
    return not any(is_inexact(leaf.element_type) for leaf in instruction.shape.leaves()) and not any(
        is_inexact(o.shape.element_type) or given.error is not None
        for o, given in zip(instruction.operands, operands, strict=True)
    )


def _by_evaluator(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Any:
    found: Any = RULES[instruction.opcode](instruction, [o.value for o in operands], context.plain)
    return tuple(map(Bounded, found)) if isinstance(found, tuple) else Bounded(found)


def total(x: Bounded, axes: Sequence[int], kind: str) -> Bounded:
    """The sum over some axes."""
    kept = _Sum()
    parts = zip(kept.functions, kept.states(x, kind), strict=True)
    sums = [np.asarray(function.reduce(state, axis=tuple(axes))) for function, state in parts]
    return kept.result(sums, prod(x.shape[axis] for axis in axes), kind, accumulated(kind), _often(x, axes))


def _often(x: Bounded, axes: Sequence[int]) -> float:
    """`repeats`, of sums whose bound depends on it."""
    return repeats(x.value, axes) if prod(x.shape[axis] for axis in axes) > _SHORT else 1.0


def _spread_out(values: Sequence[Bounded], sizes: Sequence[int]) -> list[Bounded]:
    """Scalars as arrays."""
    return [
        Bounded(np.broadcast_to(v.value, sizes), None if v.error is None else np.broadcast_to(v.error, sizes))
        for v in values
    ]


def _reduce(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Any:
    if _is_plain(instruction, operands):
        return _by_evaluator(instruction, operands, context)
    count = len(operands) // 2
    arrays, initial = operands[:count], operands[count:]
    axes, computation = tuple(instruction.attributes["dimensions"]), instruction.attributes["to_apply"]
    sizes = [size for axis, size in enumerate(arrays[0].shape) if axis not in axes]
    if 0 in arrays[0].shape:
        return _one_or_tuple(instruction, _spread_out(initial, sizes))
    combiners = combiners_of(computation)
    if combiners is not None:
        each = zip(combiners, arrays, initial, strict=True)
        return _one_or_tuple(instruction, [_reduce_with(how, array, start, axes) for how, array, start in each])
    order = [axis for axis in range(len(arrays[0].shape)) if axis not in axes] + sorted(axes)
    lined = [a.transpose(order).reshape(*sizes, -1) for a in _paired(arrays)]
    pairs = _Pairing(context, count)
    totals: Sequence[AnyArray] = _paired(_spread_out(initial, sizes))
    if choice_of(computation, context.plain.map) is not None:
        totals = pairs.map(computation, [*totals, *tree_reduce(lambda two: pairs.map(computation, two), lined)])
    else:
        for position in range(lined[0].shape[-1]):
            totals = pairs.map(computation, [*totals, *(a[..., position] for a in lined)])
    return _one_or_tuple(instruction, _unpaired(totals))


def _reduce_with(combiner: Combiner, array: Bounded, initial: Bounded, axes: tuple[int, ...]) -> Bounded:
    kept, kind = _kept(combiner), combiner.element_type
    if kept is None:
        error = initial.errors() + np.add.reduce(array.errors(), axis=axes)
        return bounded(np.asarray(reduction.reduce_with(combiner, array.value, initial.value, axes)), np.asarray(error))
    parts = zip(kept.functions, kept.states(array, kind), kept.states(initial, kind), strict=True)
    states = [np.asarray(function(start, function.reduce(state, axis=axes))) for function, state, start in parts]
    often = _often(array, axes) if isinstance(kept, _Sum) else 1.0
    return kept.result(states, 1 + prod(array.shape[axis] for axis in axes), kind, accumulated(kind), often)


def _reduce_window(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Any:
    if _is_plain(instruction, operands):
        return _by_evaluator(instruction, operands, context)
    count = len(operands) // 2
    arrays, initial = operands[:count], operands[count:]
    window, computation = windows.window_of(instruction, len(arrays[0].shape)), instruction.attributes["to_apply"]
    sizes = tuple(d.output_size(n) for d, n in zip(window.dimensions, arrays[0].shape, strict=True))
    totals = _spread_out(initial, sizes)
    if 0 in sizes or not arrays[0].value.size:
        return _one_or_tuple(instruction, totals)
    combiners = combiners_of(computation)
    if combiners is not None:
        each = zip(combiners, arrays, initial, strict=True)
        reduced = [_window_with(how, array, start, window, sizes) for how, array, start in each]
        return _one_or_tuple(instruction, reduced)
    pairs, flats = _Pairing(context, count), [np.ascontiguousarray(a).reshape(-1) for a in _paired(arrays)]
    states = _paired(totals)
    for position, inside in windows.window_positions(arrays[0].shape, sizes, window):
        merged = pairs.map(computation, [*states, *(np.broadcast_to(flat[position], sizes) for flat in flats)])
        states = [np.where(inside, new, old) for new, old in zip(merged, states, strict=True)]
    return _one_or_tuple(instruction, _unpaired(states))


def _window_with(
    combiner: Combiner, array: Bounded, initial: Bounded, window: Window, sizes: Sequence[int]
) -> Bounded:
    kept, kind = _kept(combiner), combiner.element_type
    if kept is None:
        value = windows.reduce_window_with(combiner, array.value, initial.value, window, sizes)
        base = windows.padded_base(array.errors(), 0, window)
        (error,) = windows.reduce_windows(_pairwise(np.add), [base], window, sizes)
        return bounded(value, initial.errors() + error)
    states = []
    parts = zip(kept.functions, kept.identities, kept.states(array, kind), kept.states(initial, kind), strict=True)
    for function, identity, state, start in parts:
        base = windows.padded_base(np.asarray(state), identity, window)
        (sums,) = windows.reduce_windows(_pairwise(function), [base], window, sizes)
        states.append(np.array(function(start, sums)))
    length = 1 + prod(d.size for d in window.dimensions)
    axes = [axis for axis, d in enumerate(window.dimensions) if d.size > 1]
    often = min(float(length), repeats(array.value, axes)) if isinstance(kept, _Sum) and length > _SHORT else 1.0
    return kept.result(states, length, kind, accumulated(kind), often)


def _pairwise(function: Any) -> Callable[[Sequence[AnyArray]], list[AnyArray]]:
    return lambda two: [function(*two)]


def _scatter(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Any:
    """Updates come one after the other, each result rounded to the type."""
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    if indices.error is not None:
        return _one_or_tuple(instruction, [Bounded(a.value, np.full(a.shape, np.inf)) for a in arrays])
    if _is_plain(instruction, operands):
        return _by_evaluator(instruction, operands, context)
    if 0 in (arrays[0].value.size, updates[0].value.size):
        return _one_or_tuple(instruction, arrays)
    computation, sizes = instruction.attributes["to_apply"], arrays[0].shape

    def places(given: Sequence[AnyArray]) -> tuple[AnyArray, list[AnyArray]]:
        return gather.scatter_places(instruction.attributes, sizes, indices.value, given)

    combiner = combiner_of(computation)
    kept = _kept(combiner) if combiner is not None else None
    if kept is not None:
        kind = instruction.operands[0].shape.element_type
        targets, rows = places(kept.states(updates[0], kind))
        states = [np.array(s).reshape(-1) for s in kept.states(arrays[0], kind)]
        made = _combine_at(kept, kind, states, targets, rows, arrays[0])
        return Bounded(made.value.reshape(sizes), None if made.error is None else made.error.reshape(sizes))
    targets, rows = places(_paired(updates))
    flats = [np.array(a).reshape(-1) for a in _paired(arrays)]
    pairs: Any = _Pairing(context, count, [leaf.element_type for leaf in instruction.shape.leaves()])
    results = gather.combine_at(flats, targets, rows, computation, pairs)
    return _one_or_tuple(instruction, [bounded(*pair) for pair in _halves([r.reshape(sizes) for r in results])])


def _halves(arrays: Sequence[AnyArray]) -> list[tuple[AnyArray, AnyArray]]:
    count = len(arrays) // 2
    return list(zip(arrays[:count], arrays[count:], strict=True))


def _combine_at(
    kept: _Kept, kind: str, states: Sequence[AnyArray], targets: AnyArray, rows: Sequence[AnyArray], base: Bounded
) -> Bounded:
    """`states` with `rows` combined into them at `targets`; what no update reaches stays as it is in `base`."""
    for function, state, row in zip(kept.functions, states, rows, strict=True):
        function.at(state, targets, row)
    times = np.bincount(targets, minlength=states[0].size)
    most = float(times.max(initial=0))
    often = _repeats_at(targets, rows[0]) if isinstance(kept, _Sum) and most > _SHORT else 1.0
    found = kept.result(states, 1 + most, kind, kind, often)
    value = np.where(times == 0, base.value.reshape(-1), found.value)
    return bounded(value, np.where(times == 0, base.errors().reshape(-1), found.errors()))


def _select_and_scatter(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Bounded:
    """Where the selection of a window is undecided, any of its elements may have the update or miss it."""
    array, source, initial = operands
    if _is_plain(instruction, operands):
        return Bounded(np.asarray(_by_evaluator(instruction, operands, context).value))
    (base,) = _spread_out([initial], array.shape)
    if not array.value.size:
        return base
    window, scatter = windows.window_of(instruction, len(array.shape)), instruction.attributes["scatter"]
    place, found, doubt = _selected(array, source.shape, window, instruction.attributes["select"], context)
    chosen = found.reshape(-1)
    targets = place.reshape(-1)[chosen]
    updates = Bounded(source.value.reshape(-1)[chosen], source.errors().reshape(-1)[chosen])
    combiner = combiner_of(scatter)
    kept = _kept(combiner) if combiner is not None else None
    kind = instruction.shape.element_type
    if kept is None:
        flats = [np.array(a).reshape(-1) for a in _paired([base])]
        pairs: Any = _Pairing(context, 1, [kind])
        result = bounded(*gather.combine_at(flats, targets, _paired([updates]), scatter, pairs))
    else:
        states = [np.array(s).reshape(-1) for s in kept.states(base, kind)]
        result = _combine_at(kept, kind, states, targets, kept.states(updates, kind), base)
    error = np.array(result.errors())
    if doubt.any():
        adds = isinstance(kept, _Sum) and ELEMENT_TYPES[kind].bits > 16
        # Twice, for what one term more or less makes of the roundings; narrow types may lose whole terms in them.
        gap = 2 * np.abs(source.value) + source.errors() if adds else np.full(source.shape, np.inf)
        for position, inside in windows.window_positions(array.shape, source.shape, window):
            touched = np.broadcast_to(doubt & inside, source.shape)
            np.add.at(error, np.broadcast_to(position, source.shape)[touched], gap.astype(np.float64)[touched])
        if adds:
            error = np.where(np.abs(result.value) + error > largest(kind), np.inf, error)
    return bounded(result.value.reshape(array.shape), error.reshape(array.shape))


def _selected(
    array: Bounded, counts: tuple[int, ...], window: Window, select: Computation, context: Any
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The flat index that each window selects, whether it has any element, and whether the selection is undecided."""
    flat, flat_errors = np.ascontiguousarray(array.value).reshape(-1), np.ascontiguousarray(array.errors()).reshape(-1)
    place, found, doubt = np.zeros(counts, np.int64), np.zeros(counts, np.bool_), np.zeros(counts, np.bool_)
    best = Bounded(np.zeros(counts, array.dtype), np.zeros(counts))
    for position, inside in windows.window_positions(array.shape, counts, window):
        value, error = np.broadcast_to(flat[position], counts), np.broadcast_to(flat_errors[position], counts)
        (keeps,) = context.map(select, [bounded(best.value, best.errors()), bounded(value, error)])
        unsure = found & inside & (keeps.errors() != 0)
        takes = inside & (~found | ~keeps.value)
        # A surely better element ends all doubt; else the best so far may be either of the two.
        doubt = (doubt & ~(takes & ~unsure)) | unsure
        either = np.abs(value - best.value) + np.maximum(best.errors(), error)
        reach = np.where(unsure, either, np.where(takes, error, best.errors())).astype(np.float64)
        best = Bounded(np.where(takes, value, best.value), np.where(np.isnan(reach), np.inf, reach))
        place, found = np.where(takes, position, place), found | inside
    return place, found, doubt


def _map(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Any:
    return _one_or_tuple(instruction, context.map(instruction.attributes["to_apply"], operands))


# ---- products


@dataclass(frozen=True, slots=True)
class ProductParts:
    """A sum of products of two operands, `count` at most, as its bounds need it.

    `more` is the relative error of operands that are rounded first; `repeats` how many products may round alike.
    """

    rule: Rule
    instruction: Instruction
    kind: str
    sum_kind: str
    is_complex: bool
    count: int
    more: float
    repeats: float
    is_whole: bool

    def evaluate(self, a: AnyArray, b: AnyArray, rest: Sequence[AnyArray], context: Any) -> AnyArray:
        """The sums in f64 (c128)."""
        return self._run(_numbers(a), _numbers(b), rest, context, "c128" if self.is_complex else "f64")

    def sizes(self, a: AnyArray, b: AnyArray, rest: Sequence[AnyArray], context: Any) -> AnyArray:
        """Sums of products of what is in f64."""
        return self._run(a, b, rest, context, "f64")

    def _run(self, a: AnyArray, b: AnyArray, rest: Sequence[AnyArray], context: Any, kind: str) -> AnyArray:
        shape = self.instruction.shape.with_type(kind)
        return np.asarray(self.rule(retyped(self.instruction, shape), [a, b, *rest], context))


def _bilinear(
    parts: ProductParts, left: Bounded, right: Bounded, rest: Sequence[AnyArray], context: Any
) -> Bounded:
    """The error is gamma times the product of absolute values (Higham, section 3.5), with `more` for operands that are
    rounded first, and what the operands' own errors add (see `_Sum`)."""
    kind, sum_kind, count = parts.kind, parts.sum_kind, parts.count
    kinds = [o.shape.element_type for o in parts.instruction.operands[:2]]
    a, b = _numbers(left.value), _numbers(right.value)
    value = parts.evaluate(a, b, rest, context)
    roundoff = max((unit(accumulated(k)) for k in (kind, *kinds) if is_inexact(k)), default=0.0)
    # The wide product itself is in f64.
    gamma = growth(count + 1, roundoff, parts.repeats) + growth(count + 1, 2.0**-53) + parts.more
    gamma *= 3 if parts.is_complex else 1
    size, other = _finite_size(a), _finite_size(b)
    sums = parts.sizes(size, other, rest, context)
    error = gamma * sums + count * smallest(accumulated(sum_kind))
    if left.error is not None:
        error = error + parts.sizes(_bounds_of(left), other + _bounds_of(right), rest, context)
    if right.error is not None:
        error = error + parts.sizes(size, _bounds_of(right), rest, context)
    error = np.where(np.isnan(error) | (sums > largest(sum_kind)), np.inf, error)
    # What infinities and NaN in parts of complex numbers make of others is a matter of order.
    if not np.isfinite(value).all() and (left.error is not None or right.error is not None or parts.is_complex):
        error = np.where(np.isfinite(value), error, np.inf)
    if not is_inexact(kind):
        return _to_integer(value, error, kind)
    exact = not left.errors().any() and not right.errors().any() and not parts.more
    if exact and parts.is_whole and float(sums.max(initial=0.0)) * 2 < 1 / unit(accumulated(sum_kind)):
        return rounded(value, None, kind)  # partial sums are whole numbers that the type can hold
    return rounded(value, error, kind)


def _bounds_of(x: Bounded) -> AnyArray:
    return np.asarray(x.errors())


def _numbers(array: AnyArray) -> AnyArray:
    if array.dtype.kind == "c":
        return array.astype(np.complex128, copy=False)
    return array.astype(np.float64) if array.dtype.kind in "bfiu" else array.astype(np.int64).astype(np.float64)


def _are_whole(array: AnyArray) -> bool:
    """Whether all elements (all their parts) are whole numbers."""
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return all(bool((part == np.rint(part)).all()) for part in parts)


def _to_integer(value: AnyArray, error: AnyArray, kind: str) -> Bounded:
    whole = convert(value, kind)
    same = convert(value - error, kind) == convert(value + error, kind)
    return Bounded(whole, np.where(same & np.isfinite(error), 0.0, np.inf))


def product_parts(instruction: Instruction, values: Sequence[AnyArray]) -> ProductParts | None:
    """Of an instruction that sums products of its first two operands; None where nothing rounds."""
    kinds = [o.shape.element_type for o in instruction.operands[:2]]
    kind = instruction.shape.element_type
    if not any(map(is_inexact, (kind, *kinds))):
        return None
    left, right = values[:2]
    count = _length(instruction, left, right)
    often = min(_alike(instruction, left, 0), _alike(instruction, right, 1)) if count > _SHORT else 1.0
    plain = retyped(instruction, instruction.shape)
    plain.attributes = {k: v for k, v in instruction.attributes.items() if k != "algorithm"}
    rule = {"convolution": convolution.RULES}.get(instruction.opcode, dot.RULES)[_PRODUCTS[instruction.opcode]]
    return ProductParts(
        rule=rule,
        instruction=plain,
        kind=kind,
        sum_kind=next((k for k in (kind, *kinds) if is_inexact(k)), kind),
        is_complex=any(ELEMENT_TYPES[k].is_complex for k in (*kinds, kind)),
        count=count,
        more=_algorithm_error(instruction),
        repeats=often,
        is_whole=_are_whole(_numbers(left)) and _are_whole(_numbers(right)),
    )


_PRODUCTS = {"dot": "dot", "ragged-dot": "ragged-dot", "convolution": "convolution", "scaled-dot": "dot"}


def _alike(instruction: Instruction, values: AnyArray, side: int) -> float:
    """How many numbers of one sum are equal in an operand; as many as there are where that is not known."""
    attributes = instruction.attributes
    if instruction.opcode == "convolution":
        if side == 0:
            return float(values.size)
        outputs = attributes["dim_labels"].kernel_output_feature
        return repeats(values, [axis for axis in range(values.ndim) if axis != outputs])
    axes = attributes.get(("lhs", "rhs")[side] + "_contracting_dims") or ()
    return repeats(values, axes)


def _product(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Bounded:
    if _is_plain(instruction, operands):
        return Bounded(_by_evaluator(instruction, operands, context).value)
    left, right, *rest = operands
    parts = product_parts(instruction, [o.value for o in operands])
    if parts is None:
        return _whole_product(RULES[instruction.opcode], instruction, operands, context.plain)
    if any(r.error is not None for r in rest):
        value = np.zeros(instruction.shape.dimensions, wide_dtype(instruction.shape.element_type))
        return Bounded(value, np.full(value.shape, np.inf))
    return _bilinear(parts, left, right, [r.value for r in rest], context.plain)


def _whole_product(rule: Rule, instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Bounded:
    """Of integers or predicates: what an undecided element takes part in is undecided."""
    left, right, *rest = operands
    value = np.asarray(rule(instruction, [o.value for o in operands], context))
    if any(r.error is not None for r in rest):
        return Bounded(value, np.full(value.shape, np.inf))
    others = [r.value for r in rest]
    counted = retyped(instruction, instruction.shape.with_type("f64"))
    unknown = [(o.errors() != 0).astype(np.float64) for o in (left, right)]
    touched = np.asarray(rule(counted, [unknown[0], np.ones(right.shape), *others], context))
    touched = touched + rule(counted, [np.ones(left.shape), unknown[1], *others], context)
    return bounded(value, np.where(touched != 0, np.inf, 0.0))


_UNITS = {"tf32": 2.0**-11, "bf16": unit("bf16"), "f16": unit("f16")}


def _algorithm_error(instruction: Instruction) -> float:
    """Relative to the sum of absolute products: what rounding operands to parts loses, and a narrow type of the sum."""
    algorithm = ALGORITHMS.get(str(instruction.attributes.get("algorithm")))
    if algorithm is None:
        return 0.0
    kinds = [o.shape.element_type for o in instruction.operands[:2]]
    lost = 0.0 if not algorithm.operand or kinds == [algorithm.operand] * 2 else _UNITS.get(algorithm.operand, 0.0)
    return (algorithm.order + 1) * 1.1 * lost**algorithm.order + _UNITS.get(algorithm.total, 0.0)


def _length(instruction: Instruction, left: AnyArray, right: AnyArray) -> int:
    """How many products are summed up at most."""
    if instruction.opcode == "convolution":
        outputs: int = instruction.attributes["dim_labels"].kernel_output_feature
        return prod(size for d, size in enumerate(right.shape) if d != outputs)
    lengths: list[int] = [left.shape[d] for d in instruction.attributes.get("lhs_contracting_dims") or ()]
    groups: list[int] = [right.shape[d] for d in instruction.attributes.get("rhs_group_dims") or ()]
    return prod(lengths) * prod(groups)


def _scaled_dot(instruction: Instruction, operands: Sequence[Bounded], context: Any) -> Bounded:
    """The operands times their scales, each product rounded."""
    steps = scaled_type([o.shape.element_type for o in instruction.operands], instruction.shape.element_type)
    sides: list[Bounded] = []
    for side in (0, 1):
        operand, scale = operands[side], operands[side + 2]
        spread = dot.spread(scale.value, operand.shape)
        error = None if scale.error is None else np.broadcast_to(dot.spread(scale.error, operand.shape), operand.shape)
        wide = Bounded(np.broadcast_to(spread, operand.shape).astype(np.float64), error)
        sides.append(multiply(Bounded(operand.value.astype(np.float64), operand.error), wide, steps))
    parts = product_parts(instruction, [o.value for o in sides])
    assert parts is not None
    left, right = sides
    return _bilinear(parts, left, right, [], context.plain)


SUMS: dict[str, Any] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "map": _map,
    **dict.fromkeys(("dot", "ragged-dot", "convolution"), _product),
    "scaled-dot": _scaled_dot,
}
