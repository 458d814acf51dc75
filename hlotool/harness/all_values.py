"""Every value of an optimised module, held against what the original means: which is the first to be wrong?

A value is looked at from two sides.  What the *passes* did: the evaluator runs the optimised module, inside of fusions
and of the first trip of loops too, and each value is held against the error bounds of its counterpart in the original.
What its *kernel* did: the value that native code gives is held against the bounds of the very instruction, those of the
optimised module.  An instruction has a native value where it is the result of a kernel of the entry computation.

The first wrong value is put to the test (`hlotool.harness.blame`): are the results right with the right one in its
place?

A counterpart that was found by name or origin is a guess: a value that differs while all that reads it agrees is taken
for another one, and said to be so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.counterparts import Counterpart, counterparts, entered, run_order
from hlotool.analysis.decisions import Decision
from hlotool.display import shown_by
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.truth import observed_bounds
from hlotool.evaluate.values import Value, leaves_of
from hlotool.harness.blame import Confirmation, Judge, confirm_kernel, confirm_passes, truth_of_results
from hlotool.harness.compare import DRAWS, MAX_UNDECIDED, Comparison, compare_with_truth, may_be_chance
from hlotool.harness.differences import Differences, differences
from hlotool.harness.native_values import native_values
from hlotool.ir import Computation, HloError, Instruction, Module, UnsupportedError
from hlotool.ir.dynamic import is_dynamic
from hlotool.lazy_dataclass import dataclass

__all__ = ["Divergence", "Side", "ValueRow", "ValuesComparison"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]
Callers: TypeAlias = Mapping[Computation, Sequence[Instruction]]

_NO_ROWS = frozenset(["parameter", "tuple", "get-tuple-element", "after-all", "add-dependency", "domain"])

_MOST_AXES = 4
"""Of arrays with more dimensions, other orders of these are not tried."""


@dataclass(frozen=True, slots=True)
class Side:
    """How a value compares with one reference; of several arrays, the one that compares worst."""

    comparison: Comparison
    differences: Differences


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRow:
    """One instruction of the optimised module.

    `passes` is None where it has no counterpart, `kernel` where it has no native value.  `other` says that it was
    taken for another value than its counterpart's: a part on the way there, or the same in another iteration.
    """

    instruction: Instruction
    counterpart: Counterpart | None
    passes: Side | None
    kernel: Side | None
    other: bool = False

    @property
    def sides(self) -> list[Side]:
        """Those that count."""
        return [side for side in (self.passes if not self.other else None, self.kernel) if side is not None]

    @property
    def verdict(self) -> str:
        """The gravest of both sides; empty where nothing was compared."""
        words = {side.comparison.verdict for side in self.sides}
        return next((word for word in ("MISMATCH", "UNDECIDED", "ok") if word in words), "")

    @property
    def shown(self) -> Differences | None:
        """Of the side that is further off."""
        return max((side.differences for side in self.sides), key=lambda found: found.bits, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first wrong value, in the order of the run.

    `cause` is ``passes`` or ``kernel``; `reads` are the rows of what it reads, and `gone` the instructions of the
    original between its counterpart and those that have no counterpart themselves.
    """

    row: ValueRow
    cause: str
    reads: tuple[ValueRow, ...]
    gone: tuple[Instruction, ...]


@dataclass(slots=True, kw_only=True)
class ValuesComparison:
    """Compares the values of `made` with those of `original` on `arrays`; `run` may be interrupted, and `rows` then has
    what is known so far.

    `compile_` makes native code of a module as it stands; without it only what the passes did is looked at.
    `same_names` says that `made` comes from `original`.  `tell` is told what is being done.
    """

    original: Module
    made: Module
    arrays: Sequence[npt.NDArray[Any]]
    decisions: Sequence[Decision] = ()
    compile_: Callable[[Module], Callable[..., Arrays]] | None = None
    same_names: bool = True
    excess_precision: bool = False
    max_undecided: float = MAX_UNDECIDED
    tell: Callable[[str], None] = lambda words: None
    moved: bool = False
    """Whether native code with all values as results gives other results than what it gives alone."""
    complete: bool = False
    _order: list[Instruction] = field(default_factory=list)
    _matches: dict[Instruction, Counterpart] = field(default_factory=dict)
    _passes: dict[Instruction, Side] = field(default_factory=dict)
    _kernels: dict[Instruction, Side] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ValuesComparison({len(self.rows())} values of {self.made!r})"

    _repr_html_ = shown_by("values_html")

    def run(self, results: Sequence[npt.NDArray[Any]] = ()) -> None:
        """Compare all values; `results` are those of the native program.  UnsupportedError for programs that error
        bounds are not defined for."""
        if is_dynamic(self.original):
            raise UnsupportedError("all values: error bounds are not defined for sizes of run time")
        self.tell("matching instructions")
        found = counterparts(self.original, self.made, self.decisions, self.same_names)
        self._order = [one for one in run_order(self.made) if _has_row(one) and _may_differ(one, found.get(one))]
        self._matches = {one: found[one] for one in self._order if one in found}
        self.tell("evaluating the optimised module")
        self._check_passes(self._evaluated())
        if self.compile_ is not None:
            self._check_kernels(self._native(results))
        self.complete = True

    def _evaluated(self) -> dict[Instruction, Arrays]:
        """The first value of every instruction with a counterpart."""
        values: dict[Instruction, Arrays] = {}

        def first(instruction: Instruction, value: Value) -> None:
            if instruction in self._matches and instruction not in values:
                values[instruction] = tuple(leaves_of(value))

        evaluate(self.made, self.arrays, first)
        return values

    def _native(self, results: Sequence[npt.NDArray[Any]]) -> dict[Instruction, Arrays]:
        assert self.compile_ is not None
        values: dict[Instruction, Arrays] = {}
        self.tell("running native code that gives all values")
        for again, found in native_values(self.made, self.arrays, self.compile_):
            pairs = zip(again, results, strict=bool(results))
            self.moved |= any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs)
            values.update(found)
        return values

    def _check_passes(self, values: dict[Instruction, Arrays]) -> None:
        targets: dict[Instruction, list[Instruction]] = {}
        for one in values:
            targets.setdefault(self._matches[one].instruction, []).append(one)
        self._hold(self.original, targets, values, self._passes, "what the passes did")

    def _check_kernels(self, values: dict[Instruction, Arrays]) -> None:
        self._hold(self.made, {one: [one] for one in values}, values, self._kernels, "what the kernels did")

    def _hold(
        self,
        module: Module,
        targets: dict[Instruction, list[Instruction]],
        values: dict[Instruction, Arrays],
        found: dict[Instruction, Side],
        words: str,
    ) -> None:
        """Hold values against the bounds of their targets in `module`; again, with more draws, where they may be off by
        chance."""
        done = 0

        def compared(target: Instruction, bounds: tuple[Bounded, ...]) -> None:
            nonlocal done
            for one in targets[target]:
                found[one] = self._side(values[one], target, bounds)
            done += 1
            self.tell(f"{words}: {done} of {len(targets)}")

        observed_bounds(module, self.arrays, targets, compared, self.excess_precision)
        wrong = {one for made in targets.values() for one in made if one in found and _unsure(found[one].comparison)}
        unsure = {target for target, made in targets.items() if not wrong.isdisjoint(made)}
        if unsure:
            observed_bounds(module, self.arrays, unsure, compared, self.excess_precision, DRAWS)

    def _side(self, got: Arrays, target: Instruction, bounds: tuple[Bounded, ...]) -> Side:
        """The comparison of the array that is off the most."""
        kinds = [leaf.element_type for leaf in target.shape.leaves() if leaf.is_array]
        sides = []
        for array, bound, kind in zip(got, bounds, kinds, strict=True):
            side = None
            for form in _forms(array, bound.shape):
                (comparison,) = compare_with_truth([form], [bound], max_undecided=self.max_undecided)
                if side is None or comparison.ok:
                    side = Side(comparison, differences(form, bound.value, kind))
                if comparison.verdict != "MISMATCH":
                    break
            assert side is not None
            sides.append(side)
        rank = ("ok", "UNDECIDED", "MISMATCH").index
        return max(sides, key=lambda side: (rank(side.comparison.verdict), side.differences.bits))

    def rows(self) -> list[ValueRow]:
        """One for each instruction, in the order of the run."""
        rows = {
            one: ValueRow(
                instruction=one,
                counterpart=self._matches.get(one),
                passes=self._passes.get(one),
                kernel=self._kernels.get(one),
            )
            for one in self._order
        }
        callers = self.made.callers()
        for one in reversed(self._order):
            row = rows[one]
            if row.passes is None or row.counterpart is None or row.passes.comparison.verdict != "MISMATCH":
                continue
            if row.counterpart.how == "structure":
                continue
            words = _read_by(one, rows, callers)
            if not row.counterpart.held or (words and words <= {"ok"}):
                rows[one] = replace(row, other=True)
        return list(rows.values())

    def first_divergence(self) -> Divergence | None:
        """The first wrong value; None where there is none."""
        rows = {row.instruction: row for row in self.rows()}
        row = next((row for row in rows.values() if row.verdict == "MISMATCH"), None)
        if row is None:
            return None
        wrong = row.passes is not None and not row.other and row.passes.comparison.verdict == "MISMATCH"
        reads = tuple(rows[one] for one in _sources(row.instruction, self.made) if one in rows)
        return Divergence(row=row, cause="passes" if wrong else "kernel", reads=reads, gone=self._gone(row, wrong))

    def confirm(self, first: Divergence, results: Sequence[npt.NDArray[Any]] = ()) -> Confirmation:
        """Whether the first wrong value alone makes results wrong; `results` are those of the native program."""
        one = first.row.instruction
        self.tell(f"confirming the blame: the right value in the place of {one.name}")
        try:
            judge = truth_of_results(self.original, self.arrays, self.excess_precision, self.max_undecided)
            if first.cause == "kernel":
                assert self.compile_ is not None
                return confirm_kernel(self.made, one, self.arrays, self.compile_, judge, results)
            return self._confirm_passes(first, judge)
        except HloError as error:
            return Confirmation("undecided", str(error))

    def _confirm_passes(self, first: Divergence, judge: Judge) -> Confirmation:
        """With the right value in the place of the first wrong one, else of all that read what is gone ahead of it."""
        assert first.row.counterpart is not None
        wrong = {first.row.instruction: first.row.counterpart.instruction}

        def confirm() -> Confirmation:
            return confirm_passes(
                self.made, wrong, self.original, self.arrays, _forms, judge, self.excess_precision
            )

        alone = confirm()
        if alone.verdict != "not confirmed" or not first.gone:
            return alone
        gone = set(first.gone)
        for row in self.rows():
            target = row.counterpart.instruction if row.counterpart is not None and not row.other else None
            if target is not None and row.verdict == "MISMATCH" and not gone.isdisjoint(target.operands):
                wrong[row.instruction] = target
        together = confirm()
        if together.verdict != "confirmed":
            return alone
        names = ", ".join(one.name for one in list(wrong)[:4]) + (" ..." if len(wrong) > 4 else "")
        return Confirmation("confirmed", f"{together.why}, that of all which read what is gone: {names}")

    def _gone(self, row: ValueRow, wrong: bool) -> tuple[Instruction, ...]:
        """What the counterpart of a wrong value reads that nothing optimised stands for, nearest first."""
        if not wrong or row.counterpart is None:
            return ()
        there = {match.instruction for match in self._matches.values()}
        gone: dict[Instruction, None] = {}
        pending = list(row.counterpart.instruction.operands)
        while pending:
            one = pending.pop(0)
            if one not in there and one not in gone and _has_row(one):
                gone[one] = None
                pending += [*one.operands, *(inner.root for inner, _ in entered(one))]
        return tuple(gone)


def _has_row(one: Instruction) -> bool:
    leaves = list(one.shape.leaves())
    plain = one.shape.is_static and bool(leaves) and all(leaf.is_array for leaf in leaves)
    return plain and one.opcode not in _NO_ROWS and one.opcode != "rng"


def _may_differ(one: Instruction, match: Counterpart | None) -> bool:
    """Constants are looked at where a pass made them of others."""
    return one.opcode != "constant" or (match is not None and match.how != "structure")


def _unsure(comparison: Comparison) -> bool:
    return comparison.verdict == "MISMATCH" and may_be_chance(comparison)


def _forms(array: npt.NDArray[Any], sizes: tuple[int, ...]) -> Iterable[npt.NDArray[Any]]:
    """The array with these sizes: as it is or with other sizes, then with its dimensions in other orders."""
    if array.shape == sizes:
        yield array
    elif [n for n in array.shape if n != 1] == [n for n in sizes if n != 1]:
        yield array.reshape(sizes)
    if 1 < array.ndim <= _MOST_AXES and array.ndim == len(sizes):
        for order in list(permutations(range(array.ndim)))[1:]:
            if tuple(array.shape[axis] for axis in order) == sizes:
                yield array.transpose(order)
    yield array.reshape(sizes)


def _read_by(one: Instruction, rows: dict[Instruction, ValueRow], callers: Callers) -> set[str]:
    """What the passes did to the nearest values with a counterpart that are computed from one, as verdicts."""
    words: set[str] = set()
    seen = {one}
    pending = list(_readers(one, callers))
    while pending:
        user = pending.pop()
        if user in seen:
            continue
        seen.add(user)
        row = rows.get(user)
        if row is not None and row.passes is not None and not row.other:
            words.add(row.passes.comparison.verdict)
        else:
            pending += _readers(user, callers)
    return words


def _readers(one: Instruction, callers: Callers) -> Iterable[Instruction]:
    """What reads a value: users, the insides of what they enter, and those who read what a computation gives."""
    for user in one.users:
        inner = [parameter for _, pairs in entered(user) for parameter, given in pairs if given is one]
        if user.opcode in ("fusion", "call") and inner:
            for parameter in inner:
                yield from parameter.users or [user]
        else:
            yield user
    if one.is_root and one.parent is not None:
        for caller in callers.get(one.parent, ()):
            if caller.opcode in ("fusion", "call"):
                yield caller


def _sources(one: Instruction, module: Module) -> list[Instruction]:
    """The values that an instruction reads, by way of parameters of fusions, tuples and their elements."""
    callers = module.callers()
    found: dict[Instruction, None] = {}
    seen: set[Instruction] = set()
    pending = list(one.operands)
    while pending:
        operand = pending.pop(0)
        if operand in seen:
            continue
        seen.add(operand)
        if operand.opcode == "parameter" and operand.parent is not None and operand.parent is not module.entry:
            for caller in callers.get(operand.parent, ()):
                pending += [given for _, pairs in entered(caller) for inner, given in pairs if inner is operand]
        elif operand.opcode in ("tuple", "get-tuple-element"):
            pending += operand.operands
        else:
            found[operand] = None
    return list(found)
