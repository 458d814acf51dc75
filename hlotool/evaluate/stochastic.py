"""Statistical error bounds: the program is run several times in step, each time with other roundings.

Bounds that hold in the worst case double from layer to layer until they say nothing.  Here a value is its true one
beside `RUNS` others, in each of which every result was moved at random by what its own rounding may be (Monte Carlo
arithmetic: Parker, UCLA CSD-970002, 1997), and the spread of the results times `SAFETY` is the bound.  As the runs go
in step, what is not smooth (comparisons, roundings to integers, orders) is decided by `SAFETY` times the spread of its
operands, and where that reaches across a border the runs take both sides (discrete stochastic arithmetic: Vignes,
Numerical Algorithms 37, 2004).  Where they go different ways at a loop or branch, each follows its own.

A rounding is moved by a random part of its own and by one that all roundings of an instruction in a run share: those of
equal terms, and of one step after another of a loop, may all go the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.evaluate import control
from hlotool.evaluate.bounds import Bounded, exact, is_inexact, largest, rounded, smallest, unit
from hlotool.evaluate.combiner import combiners_of
from hlotool.evaluate.interpreter import Interpreter, Observer
from hlotool.evaluate.rules import RULES
from hlotool.evaluate.truth_elementwise import convert_loosely, rounding, without_bounds
from hlotool.evaluate.truth_rules import TRUTH
from hlotool.evaluate.truth_sums import accumulated, product_parts, repeats
from hlotool.evaluate.values import AnyArray, Operands, leaves_of, value_from_leaves
from hlotool.ir import Computation, ExecutionError, Instruction, Shape
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass

__all__ = ["RUNS", "SAFETY", "Runs", "Stochastic", "as_runs", "statistical"]

RUNS = 4
"""Runs beside the true one."""

SAFETY = 6.0
"""Bounds are this many times the largest deviation of a run, which itself is 1.5 standard deviations as a rule."""

_PART = 0.5**0.5
"""Of a rounding's bound, for each of its two parts: together they vary as roundings do, evenly up to the bound."""

_ALL = (None, *range(RUNS))
"""The true run, which has no number, and the others."""

_STEPS = 3.0
"""Of a step that a function may take: how often it counts, as a few runs show few of the ways that some may go."""

_LONGER = 16
"""Iterations after which a run is stopped, beside twice as many as the true one made: where roundings keep it from
coming close enough to end it would go round for ever."""

_SEED = 0x5EED


@dataclass(frozen=True, slots=True)
class Runs:
    """The true value, and the one of each run; None where all are the same.

    NaN in a run beside a true value that is none: nothing is known of the element.
    """

    value: AnyArray
    others: tuple[AnyArray, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        sizes: tuple[int, ...] = self.value.shape
        return sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.value.dtype
        return dtype

    def item(self) -> Any:
        """The true value of a scalar."""
        return self.value.item()

    def run(self, number: int | None) -> AnyArray:
        """The value in a run (None: the true one)."""
        return self.value if self.others is None or number is None else self.others[number]


def statistical(runs: Runs, kind: str) -> Bounded:
    """The true value within a bound of what other roundings make of it; inf where nothing is known of an element.

    The largest deviation of a few runs may be small by chance; the median over all elements of an output is not.
    """
    if runs.others is None:
        return Bounded(runs.value)
    if not is_inexact(kind):
        differ = np.zeros(runs.shape, np.bool_)
        for other in runs.others:
            differ |= np.asarray(other != runs.value)
        return Bounded(runs.value, np.where(differ, np.inf, 0.0))
    deviation = _deviation(runs)
    size = np.abs(runs.value).astype(np.float64)
    size = np.where(np.isfinite(size), size, 0.0)
    moved = np.isfinite(deviation) & (deviation > 0)
    if moved.any():
        known = moved & (deviation < size)
        ratio = float(np.median(deviation[known] / size[known])) if known.any() else 0.0
        usual = np.maximum(ratio * size, float(np.median(deviation[moved])))
        deviation = np.where(deviation > 0, np.maximum(deviation, usual), deviation)
    error = SAFETY * deviation + np.where(deviation > 0, 2 * unit(kind) * size + smallest(kind), 0.0)
    return Bounded(runs.value, np.where(np.isnan(error), np.inf, error))


def _deviation(runs: Runs) -> AnyArray:
    """The largest difference of a run from the true value, inf where nothing is known."""
    assert runs.others is not None
    found = np.zeros(runs.shape)
    for other in runs.others:
        same = (other == runs.value) | (np.isnan(other) & np.isnan(runs.value))
        apart = np.where(same, 0.0, np.abs(other - runs.value)).astype(np.float64)
        found = np.maximum(found, np.where(np.isnan(apart), np.inf, apart))
    return found


def _estimated(runs: Runs, kind: str) -> Bounded:
    """As an operand of what is not smooth: as far off as `SAFETY` deviations."""
    if runs.others is None or not is_inexact(kind):
        return Bounded(runs.value, None if runs.others is None else statistical(runs, kind).error)
    return Bounded(runs.value, SAFETY * _deviation(runs))


def _strided(runs: Runs, factor: float) -> Runs:
    """Deviations of floats times `factor`."""
    if runs.others is None or runs.value.dtype.kind not in "fc":
        return runs
    made = []
    for other in runs.others:
        apart = other - runs.value
        made.append(np.where(np.isfinite(apart), runs.value + factor * apart, other))
    return Runs(runs.value, tuple(made))


class Stochastic(Interpreter):
    """Interprets on `Runs` leaves; `local` is the truth mode of one instruction on exact operands."""

    __slots__ = ("_biases", "_random", "going", "local", "rounds")

    def __init__(self, loop_limit: int | None, local: Any, draw: int = 0, observe: Observer | None = None) -> None:
        super().__init__(observe, loop_limit)
        self.local = local
        self.rounds: dict[Instruction, int] = {}
        """Iterations that the true run made in a loop, at most."""
        self.going: tuple[int | None, ...] = _ALL
        """The runs that are here; the others are in another branch, or done with a loop."""
        self._table = _RUNS
        self._biases: dict[Instruction, AnyArray] = {}
        self._random = np.random.Generator(np.random.SFC64(_SEED + draw))

    def map(self, computation: Computation, arrays: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
        raise ExecutionError(f"{computation.name}: runs in step do not apply computations")

    def moved(self, instruction: Instruction, values: Sequence[AnyArray], bound: AnyArray | None) -> Runs:
        """The true value first in `values` (alone: in all runs), each run moved within the bound."""
        value = values[0]
        others = list(values[1:]) or [value] * RUNS
        if bound is None or not bound.any():
            return Runs(value, tuple(others) if len(values) > 1 else None)
        if value.dtype.kind not in "fc":
            unsure = bound != 0
            return Runs(value, tuple(_another(o, unsure, n) for n, o in enumerate(others)))
        biases = self._biases.get(instruction)
        if biases is None:
            biases = self._biases[instruction] = self._random.uniform(-1, 1, (RUNS, 2))
        made, part = [], _PART * np.where(np.isinf(bound), np.nan, bound)
        for other, bias in zip(others, biases, strict=True):
            step = part * self._noise(value.shape, bias[0])
            if value.dtype.kind == "c":
                step = step + 1j * (part * self._noise(value.shape, bias[1]))
            step += other
            made.append(step.astype(value.dtype, copy=False))
        return Runs(value, tuple(made))

    def _noise(self, shape: tuple[int, ...], bias: float) -> AnyArray:
        """Evenly from -1 to 1 around a `bias`."""
        noise = np.asarray(self._random.random(shape, np.float32))
        noise *= np.float32(2)
        noise += np.float32(bias - 1)
        return noise

    def either(self, value: AnyArray, unsure: AnyArray) -> Runs:
        """A predicate; where it is `unsure` the runs take one side or the other, and not all the true one."""
        others = [np.where(unsure, ~value, value)]
        others += [value ^ (unsure & self.some(value.shape)) for _ in range(RUNS - 1)]
        return Runs(value, tuple(others))

    def some(self, shape: tuple[int, ...]) -> AnyArray:
        """True for half of the elements."""
        return np.asarray(self._random.random(shape, np.float32) < 0.5)


def _another(value: AnyArray, unsure: AnyArray, number: int) -> AnyArray:
    """Integers and predicates of a run, others where they are unsure."""
    if value.dtype == np.bool_:
        return value ^ (unsure & (number % 2 == 0))
    return np.where(unsure, (value.astype(np.int64) ^ (number + 1)).astype(value.dtype), value)


def as_runs(value: Any, shape: Shape) -> Any:
    """A value of the declared types as exact ones."""
    leaves = (leaf for leaf in shape.leaves() if leaf.is_array)
    made = [
        found if isinstance(found, Runs) else Runs(exact(found, leaf.element_type).value)
        for found, leaf in zip(_leaves(value), leaves, strict=True)
    ]
    return _value(shape, made)


def _value(shape: Shape, leaves: Sequence[Runs]) -> Any:
    given: Any = iter(leaves)
    return value_from_leaves(shape, given)


def _picked(value: Any, number: int | None) -> Any:
    """A value as truth mode has it, exact: the true one (None) or that of a run."""
    if isinstance(value, tuple):
        return tuple(_picked(part, number) for part in value)
    return Bounded(value.run(number))


def _leaves(value: Any) -> list[Any]:
    return list(leaves_of(value))


def _is_exact(operands: Sequence[Any]) -> bool:
    return all(leaf.others is None for operand in operands for leaf in _leaves(operand))


# ---- rules


def _each(instruction: Instruction, operands: Operands, context: Stochastic, rule: Any = None) -> Any:
    """The rule of truth mode in every run, and the result moved within the bound that it has on exact operands."""
    function = without_bounds(instruction) if rule is None and not _is_exact(operands) else None
    if function is not None and (quick := _quickly(instruction, operands, context, function)) is not None:
        return quick
    rule = rule or TRUTH[instruction.opcode]
    numbers = [None] if _is_exact(operands) else [None, *range(RUNS)]
    scale = 0.25 if instruction.opcode in _GENEROUS else 1.0
    found = [rule(instruction, [_picked(o, number) for o in operands], context.local) for number in numbers]
    columns = zip(*(_leaves(f) for f in found), strict=True)
    made = []
    for column in columns:
        bounds = [leaf.error for leaf in column]
        bound = _largest_bound(bounds)
        bound = None if bound is None else scale * bound
        made.append(context.moved(instruction, [leaf.value for leaf in column], bound))
    return _value(instruction.shape, made)


def _quickly(
    instruction: Instruction, operands: Operands, context: Stochastic, function: Callable[..., Any]
) -> Runs | None:
    """As `_each`, with bounds in two runs alone; None where numbers overflow."""
    rule = TRUTH[instruction.opcode]
    found = [rule(instruction, [_picked(o, number) for o in operands], context.local) for number in (None, 0)]
    true = found[0].value
    if not max(float(true.max(initial=0)), -float(true.min(initial=0))) < largest(instruction.shape.element_type) / 16:
        return None
    rest = [np.asarray(function(*(o.run(n) for o in operands))).astype(true.dtype, copy=False) for n in range(1, RUNS)]
    return context.moved(instruction, [true, found[1].value, *rest], _largest_bound([one.error for one in found]))


def _largest_bound(bounds: Sequence[AnyArray | None]) -> AnyArray | None:
    known = [bound for bound in bounds if bound is not None]
    return None if not known else known[0] if len(known) == 1 else np.maximum(known[0], known[1])


def _jumping(which: Callable[[int], bool] | None = None) -> Any:
    """Of what is not smooth in its operands (those of `which` places): on `SAFETY` times their deviations; floats that
    come of it deviate as much too far."""

    def rule(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
        if _is_exact(operands) or context.going != _ALL:
            return _each(instruction, operands, context)
        given = [_strided(o, SAFETY) if which is None or which(n) else o for n, o in enumerate(operands)]
        found = _each(instruction, given, context)
        if which is not None:
            return found
        return _value(instruction.shape, [_strided(leaf, 1 / SAFETY) for leaf in _leaves(found)])

    return rule


def _compare(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """By the spread of the difference, which of a number and the extreme that it is, say, is none.

    Runs that went different ways compare what they have."""
    left, right = operands
    kind = instruction.operands[0].shape.element_type
    if left is right or context.going != _ALL or _is_exact(operands) or not is_inexact(kind):
        return _each(instruction, operands, context)
    if instruction.attributes.get("type") == "TOTALORDER":
        return _each(instruction, operands, context)
    value = TRUTH["compare"](instruction, [Bounded(left.value), Bounded(right.value)], context.local).value
    apart = left.value - right.value
    spread = SAFETY * _deviation(Runs(apart, tuple(left.run(n) - right.run(n) for n in range(RUNS))))
    special = ~np.isfinite(apart)  # infinities and NaN are so in all runs, or nothing is known
    one_sided = np.zeros(value.shape, np.bool_)
    for number in range(RUNS):
        one_sided |= (np.isnan(left.run(number)) & ~np.isnan(left.value)) | (
            np.isnan(right.run(number)) & ~np.isnan(right.value)
        )
    unsure = np.where(special, one_sided, ~(np.abs(apart) > spread) & (spread != 0))
    return context.either(value, unsure) if unsure.any() else Runs(value)


def _convert(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """Roundings to a narrower type that are sure are made; others may go either way."""
    if not is_inexact(instruction.shape.element_type):
        return _stepped(instruction, operands, context)
    (x,) = operands
    kind = instruction.operands[0].shape.element_type
    sure = None
    if not _is_exact(operands) and not context.local.excess_precision:
        sure = rounding(instruction, _estimated(x, kind))
    if sure is None:
        return _each(instruction, operands, context)
    loose: Runs = _each(instruction, operands, context, convert_loosely)
    near, alike = sure
    if alike.all():
        return Runs(near)
    others = tuple(np.where(alike, near, loose.run(number)) for number in range(RUNS))
    return Runs(np.where(alike, near, loose.value), others)


def _stepped(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """A function that goes up in steps: where a step lies within `SAFETY` deviations of the operand, half of the runs
    are on either side of it, an element's two of them together."""
    (x,) = operands
    kind = instruction.operands[0].shape.element_type
    if _is_exact(operands) or context.going != _ALL or not is_inexact(kind) or x.value.dtype.kind == "c":
        return _each(instruction, operands, context)
    estimate, rule = _estimated(x, kind), TRUTH[instruction.opcode]
    if instruction.shape.element_type == "pred":
        found = rule(instruction, [estimate], context.local)
        return Runs(found.value) if found.error is None else context.either(found.value, found.error != 0)
    ends = [x.value, x.value - estimate.errors(), x.value + estimate.errors()]
    value, low, high = (rule(instruction, [Bounded(end)], context.local).value for end in ends)
    unknown = ~np.isfinite(estimate.errors())
    sides = [side for _ in range(RUNS // 2) for up in (context.some(value.shape),) for side in (up, ~up)]
    others: list[AnyArray] = []
    for number, up in enumerate(sides):
        taken = np.where(up, high, low)
        if value.dtype.kind == "f":
            taken = np.where(taken == value, value, value + _STEPS / SAFETY * (taken - value))
            others.append(np.where(unknown, np.nan, taken))
        else:
            others.append(_another(taken, unknown, number))
    return Runs(value, tuple(others))


def _signed(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """A product or quotient, which is as sure of its sign as its operands are.

    A number over its own absolute value is the same in all runs but for a jump where the number is zero: where that
    lies within `SAFETY` deviations, runs take both signs.
    """
    found: Runs = _each(instruction, operands, context)
    if found.others is None or context.going != _ALL or found.dtype.kind != "f":
        return found
    unsure = np.zeros(found.shape, np.bool_)
    for operand in operands:
        if operand.others is not None:
            unsure |= np.abs(operand.value) <= SAFETY * _deviation(operand)
    unsure &= np.isfinite(found.value) & (np.abs(found.value) > SAFETY * _deviation(found))
    if not unsure.any():
        return found
    across = found.value - 2 * _STEPS / SAFETY * found.value
    sides = [unsure, *(unsure & context.some(found.shape) for _ in range(RUNS - 1))]
    others = tuple(np.where(side, across, other) for side, other in zip(sides, found.others, strict=True))
    return Runs(found.value, others)


def _while(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """Each run goes round as often as its own condition says, within reason: what converges is there by then."""
    condition, body = instruction.attributes["condition"], instruction.attributes["body"]
    state: Any = operands[0]
    before, limit = context.going, context.loop_limit
    iterations = 0
    while True:
        goes_on: Any = context.apply(condition, [state])
        following = tuple(number for number in context.going if goes_on.run(number).item())
        if None in following:
            if limit is not None and iterations >= limit:
                raise ExecutionError(f"{instruction.name}: more than {limit} iterations")
            context.rounds[instruction] = max(context.rounds.get(instruction, 0), iterations + 1)
        elif not following or iterations >= 2 * context.rounds.get(instruction, 0) + _LONGER:
            break
        context.going = following
        after = context.apply(body, [state])
        state = after if following == _ALL else _of_runs(state, after, following)
        iterations += 1
    context.going = before
    return state


def _conditional(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """Each run takes the branch that its own selector says."""
    selector, *arguments = operands
    before = context.going
    chosen = {number: control.branch_of(instruction, selector.run(number)) for number in before}
    found: Any = None
    for place, branch in dict.fromkeys(chosen.values()):
        context.going = tuple(number for number in before if chosen[number][0] == place)
        value = context.apply(branch, [arguments[place]])
        found = value if found is None else _of_runs(found, value, context.going)
    context.going = before
    return found


def _of_runs(value: Any, new: Any, numbers: Sequence[int | None]) -> Any:
    """A value with that of some runs replaced by a new one."""
    if isinstance(value, tuple):
        return tuple(_of_runs(old, part, numbers) for old, part in zip(value, new, strict=True))
    if value is new:
        return value
    chosen = [(new if number in numbers else value).run(number) for number in _ALL]
    return Runs(chosen[0], tuple(chosen[1:]))


def _parts(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    return as_runs(RULES[instruction.opcode](instruction, operands, context), instruction.shape)


def _custom_call(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    from hlotool.evaluate.xla_annotations import is_annotation
    from hlotool.evaluate.xla_custom_calls import library_computation

    if is_annotation(instruction):
        return operands[0]
    meaning = library_computation(instruction)
    return _each(instruction, operands, context) if meaning is None else context.apply(meaning, operands)


def _reduce(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """Sums: each partial sum is rounded, and is as large as the sum or as terms of changing sign make it."""
    combiners = combiners_of(instruction.attributes["to_apply"])
    if combiners is None:
        return _jumping()(instruction, operands, context)
    kind = instruction.shape.element_type if not instruction.shape.is_tuple else ""
    if not kind or combiners[0].opcode != "add" or not is_inexact(kind) or not operands[0].value.size:
        return _each(instruction, operands, context)
    array, initial = operands
    axes = tuple(instruction.attributes["dimensions"])
    if _is_exact(operands):
        found = TRUTH["reduce"](instruction, [_picked(o, None) for o in operands], context.local)
        if found.error is None:
            return Runs(found.value)
    numbers = [None] if _is_exact(operands) else [None, *range(RUNS)]
    values = [
        np.asarray(_picked(initial, n).value + np.add.reduce(_picked(array, n).value, axis=axes)) for n in numbers
    ]
    squares = np.add.reduce(np.abs(array.value).astype(np.float64) ** 2, axis=axes)
    count = 1 + prod(array.shape[axis] for axis in axes)
    often = repeats(array.value, axes) if count > 64 else 1.0
    return _summed(instruction, values, _sum_bound(values[0], squares, count, often, kind, kind), context)


def _sum_bound(value: AnyArray, squares: AnyArray, count: int, often: float, kind: str, terms: str) -> AnyArray:
    """Twice the standard deviation of the roundings of `count` partial sums."""
    size = np.abs(value).astype(np.float64)
    inside = 2 * unit(accumulated(terms)) * (count * often) ** 0.5 * np.sqrt(size**2 + squares) if count > 1 else 0.0
    return np.asarray(np.where(np.isfinite(inside), inside + smallest(kind), 0.0))


def _product(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    """Sums of products, as `_reduce`."""
    parts = None
    if not _is_exact(operands[2:]) or not (parts := product_parts(instruction, [o.value for o in operands])):
        return _each(instruction, operands, context)
    if _is_exact(operands) and parts.is_whole:
        return _each(instruction, operands, context)
    numbers = [None] if _is_exact(operands) else [None, *range(RUNS)]
    rest = [o.value for o in operands[2:]]
    values = [
        parts.evaluate(_picked(operands[0], n).value, _picked(operands[1], n).value, rest, context.local.plain)
        for n in numbers
    ]
    left, right = (np.abs(o.value).astype(np.float64) ** 2 for o in operands[:2])
    squares = parts.sizes(left, right, rest, context.local.plain)
    kind = instruction.shape.element_type
    bound = _sum_bound(values[0], squares, parts.count, parts.repeats, kind, parts.sum_kind)
    bound = bound + parts.more * np.sqrt(np.abs(values[0]).astype(np.float64) ** 2 + squares)
    return _summed(instruction, values, bound, context)


def _summed(instruction: Instruction, values: Sequence[AnyArray], bound: AnyArray, context: Stochastic) -> Runs:
    """Sums that may overflow."""
    found = [rounded(value, bound, instruction.shape.element_type) for value in values]
    return context.moved(instruction, [one.value for one in found], _largest_bound([one.error for one in found]))


_CONTROL = (
    "call fusion tuple get-tuple-element constant after-all add-dependency opt-barrier domain copy-start copy-done "
    "async-start async-update async-done"
)
_JUMPS = "sort topk remainder map"
_GENEROUS = frozenset(["reduce", "reduce-window", "scatter", "select-and-scatter"])
"""Whose bounds are eight standard deviations of the roundings of their sums."""


def _windowed(instruction: Instruction, operands: Operands, context: Stochastic) -> Any:
    smooth = combiners_of(instruction.attributes["to_apply"]) is not None
    return (_each if smooth else _jumping())(instruction, operands, context)


_RUNS: dict[str, Any] = {
    **dict.fromkeys(TRUTH, _each),
    **dict.fromkeys(_CONTROL.split(), _parts),
    **dict.fromkeys(_JUMPS.split(), _jumping()),
    **dict.fromkeys((name for name, row in ELEMENTWISE_OPCODES.items() if row.steps), _stepped),
    **dict.fromkeys(("divide", "multiply"), _signed),
    "compare": _compare,
    "convert": _convert,
    "while": _while,
    "conditional": _conditional,
    "custom-call": _custom_call,
    "reduce": _reduce,
    "reduce-window": _windowed,
    "select-and-scatter": _jumping(lambda place: place == 0),
    **dict.fromkeys(("dot", "convolution"), _product),
}
