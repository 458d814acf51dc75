"""Is the first wrong value to blame for wrong results?  The program runs once more with the right one in its place.

Where a pass is to blame, the evaluator runs the optimised module, and the instruction gives what the truth says of its
counterpart.  Where native code is, the instruction becomes a parameter that gets what the evaluator makes of it, and
the rest runs as native code.  If the results that were wrong are right then, the blame is confirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.context import Rule
from hlotool.evaluate.interpreter import Interpreter, guarded
from hlotool.evaluate.truth import bounded_results, observed_bounds
from hlotool.evaluate.values import Operands, Value, leaves_of, value_from_leaves
from hlotool.harness.compare import MAX_UNDECIDED, Comparison, compare_with_truth
from hlotool.harness.native_values import ABOUT_RESULTS
from hlotool.ir import Instruction, Module, clone_module, dtype_of
from hlotool.ir.depth import room
from hlotool.lazy_dataclass import dataclass

__all__ = ["Confirmation", "Judge", "confirm_kernel", "confirm_passes", "truth_of_results"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]
Judge: TypeAlias = Callable[[Sequence[npt.NDArray[Any]]], list[Comparison]]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether the results that were wrong are right with the right value in the place of the first wrong one; `why`
    says it in words."""

    verdict: Literal["confirmed", "not confirmed", "undecided"]
    why: str


def truth_of_results(
    original: Module,
    arrays: Sequence[npt.NDArray[Any]],
    excess_precision: bool = False,
    max_undecided: float = MAX_UNDECIDED,
) -> Judge:
    """Holds results against what `original` means."""
    draws = partial(bounded_results, original, arrays, None, excess_precision)
    bounds = draws()
    return lambda got: compare_with_truth(got, bounds, max_undecided=max_undecided, again=draws)


def confirm_passes(
    made: Module,
    wrong: Mapping[Instruction, Instruction],
    original: Module,
    arrays: Sequence[npt.NDArray[Any]],
    forms: Callable[[npt.NDArray[Any], tuple[int, ...]], Iterable[npt.NDArray[Any]]],
    judge: Judge,
    excess_precision: bool = False,
) -> Confirmation:
    """For instructions of `made` that a pass is to blame for, with their counterparts; `forms` gives an array in the
    sizes of another, in all orders of dimensions that there may be."""
    found: dict[Instruction, tuple[Bounded, ...]] = {}
    observed_bounds(original, arrays, set(wrong.values()), found.__setitem__, excess_precision)
    if not all(counterpart in found for counterpart in wrong.values()):
        return Confirmation("undecided", "the original does not come by its counterpart")
    if any(bound.error is not None and not np.isfinite(bound.error).all() for row in found.values() for bound in row):
        return Confirmation("undecided", "the truth knows too little of the right value")
    choices = {one: _choices(one, found[counterpart], forms) for one, counterpart in wrong.items()}
    before = judge(evaluate(made, arrays))
    best, often = before, 0
    for number in range(max(map(len, choices.values()))):
        values = {one: given[min(number, len(given) - 1)] for one, given in choices.items()}
        results, often = _substituted(made, values, arrays)
        after = judge(results)
        if best is before or _wrong(after) < _wrong(best):
            best = after
        if not _wrong(after):
            break
    confirmation = _compared(before, best)
    if confirmation.verdict == "not confirmed" and often > 1:
        why = f"it runs {often:,} times, and only the first value is known; {confirmation.why}"
        return Confirmation("undecided", why)
    return confirmation


def _choices(
    one: Instruction,
    truth: Sequence[Bounded],
    forms: Callable[[npt.NDArray[Any], tuple[int, ...]], Iterable[npt.NDArray[Any]]],
) -> list[Arrays]:
    """The right value in all forms that the instruction may have it in."""
    found = []
    for bound, leaf in zip(truth, (leaf for leaf in one.shape.leaves() if leaf.is_array), strict=True):
        with np.errstate(all="ignore"):
            array = np.asarray(bound.value).astype(dtype_of(leaf.element_type))
        found.append(list(forms(array, leaf.dimensions)))
    return [
        tuple(row[min(number, len(row) - 1)] for row in found) for number in range(max(map(len, found)))
    ]


def confirm_kernel(
    made: Module,
    wrong: Instruction,
    arrays: Sequence[npt.NDArray[Any]],
    compile_: Callable[[Module], Callable[..., Arrays]],
    judge: Judge,
    results: Sequence[npt.NDArray[Any]] = (),
) -> Confirmation:
    """For an instruction of the entry that its native code is to blame for; `results` are those of the native program,
    if they are known."""
    before = judge(results or compile_(made)(*arrays))
    right: list[Arrays] = []

    def see(instruction: Instruction, value: Value) -> None:
        if instruction is wrong and not right:
            right.append(tuple(np.array(leaf, order="C", copy=True) for leaf in leaves_of(value)))

    evaluate(made, arrays, see)
    if not right:
        return Confirmation("undecided", "the evaluator does not come by it")
    variant = _as_parameter(made, wrong)
    return _compared(before, judge(compile_(variant)(*arrays, *right[0])))


def _compared(before: Sequence[Comparison], after: Sequence[Comparison]) -> Confirmation:
    """What results say that were judged before, and with the right value."""
    wrong = [number for number, row in enumerate(before) if row.verdict == "MISMATCH"]
    if not wrong:
        return Confirmation("undecided", "no result is wrong because of it")
    still = [number for number, row in enumerate(after) if row.verdict == "MISMATCH"]
    unsure = [number for number in wrong if after[number].verdict == "UNDECIDED"]
    words = f"{len(wrong)} of {len(before)} results {'is' if len(wrong) == 1 else 'are'} wrong"
    if still:
        names = ", ".join(f"out{number}" for number in still[:4]) + (" ..." if len(still) > 4 else "")
        right = len([number for number in wrong if number not in still])
        also = f", {right} of them no longer" if right else ""
        return Confirmation("not confirmed", f"{words}{also}; {names} still with the right value in its place")
    if unsure:
        return Confirmation("undecided", f"{words}; with the right value in its place out{unsure[0]} is undecided")
    return Confirmation("confirmed", f"{words}, and none with the right value in its place")


def _wrong(rows: Sequence[Comparison]) -> int:
    return sum(row.verdict == "MISMATCH" for row in rows)


def _substituted(
    module: Module, given: Mapping[Instruction, Arrays], arguments: Sequence[npt.NDArray[Any]]
) -> tuple[Arrays, int]:
    """The results where the first value of some instructions is the one given, and how often one of them runs at
    most."""
    run = _Substituting({one: value_from_leaves(one.shape, iter(value)) for one, value in given.items()})
    leaves = iter(arguments)
    values = [value_from_leaves(parameter.shape, leaves) for parameter in module.entry.parameters]
    with room(module):
        root = guarded(lambda: run.apply(module.entry, values))
    often = max(run.counts.values(), default=0)
    return tuple(np.array(leaf, order="C", copy=True) for leaf in leaves_of(root)), often


class _Substituting(Interpreter):
    """Takes values for the first that some instructions give."""

    __slots__ = ("counts", "values")

    def __init__(self, values: Mapping[Instruction, Value]) -> None:
        super().__init__(None, None)
        self.values = values
        self.counts: Counter[Instruction] = Counter()

    def step(self, instruction: Instruction, rule: Rule, operands: Operands, sized: bool = False) -> Value:
        if instruction in self.values:
            self.counts[instruction] += 1
            if self.counts[instruction] == 1:
                return self.values[instruction]
        return super().step(instruction, rule, operands, sized)


def _as_parameter(module: Module, wrong: Instruction) -> Module:
    """A copy in which an instruction of the entry is a further parameter."""
    copy = clone_module(module)
    for name in ABOUT_RESULTS:
        copy.attributes.pop(name, None)
    there = dict(zip(module.entry, copy.entry, strict=True))[wrong]
    entry = copy.entry
    number = 1 + max((one.parameter_number for one in entry.parameters), default=-1)
    new = entry.add(Instruction("parameter", wrong.shape, (), {"parameter_number": number}), before=next(iter(entry)))
    there.replace_all_uses(new)
    entry.erase(there)
    return copy


