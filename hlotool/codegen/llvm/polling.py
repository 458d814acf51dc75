"""Long work that can be stopped: where kernels look whether to go on.

The frame of an execution has a word for its status, and what the entry function calls finds the address of that word
ahead of its arguments.  Work that may take long spends a budget of its own, about a nanosecond at a time; when it is
used up, it calls ``i32 @hlo_poll(ptr status, ptr name)``.  That looks at the clock, at most every few
milliseconds asks Python whether somebody wants the execution to end, and gives 1 when it is to end: then `STOPPED` is
the status, and all threads that work for the execution return at their next look.  Behind the status is when it asked
last; ``name`` is what to call the place in an error, or null.  It gives -1 when it is too early to ask; kernels then
take twice the budget, as estimates of what trips take at most are far too high where loops without known bounds are
inside.

A kernel whose loops, as they are written, cannot run for long does not look at all.  In others the loops look whose
trips are long enough for it to cost nothing, and those that are short but run for long by themselves, at few trips.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step, Uses
from hlotool.codegen.llvm.status import POLL
from hlotool.codegen.llvm.writer import ClosedLoop, Function, Unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["BUDGET", "LEAST", "SHORT", "Work", "add_polls", "finish_kernel", "work"]

BUDGET: Annotated[int, Threshold("operations")] = 1_000_000
"""Nanoseconds, as estimated, until the clock is looked at: estimates may be wrong by a factor of hundreds."""

_MOST: Annotated[int, Threshold("operations")] = BUDGET << 6
"""What a budget grows to at most: trips may take much longer later on."""

SHORT: Annotated[int, Threshold("operations")] = 20_000_000
"""Nanoseconds, as estimated, that nobody minds to wait for."""

LEAST: Annotated[int, Threshold("operations")] = 40_000_000
"""Instructions of a kernel that take long enough for it to look."""

_WORTH: Annotated[int, Threshold("operations")] = 500
"""Instructions of a trip, beside which spending some budget is nothing."""

_SHORTER: Annotated[int, Threshold("operations")] = _WORTH // 5  # of a trip, at least, that may have more:
_LONGER: Annotated[int, Threshold("operations")] = 100 * _WORTH  # so many

_FEWEST: Annotated[int, Threshold("trips")] = 30
"""Trips between two looks at the clock, where what a trip takes is not known for sure."""

_CALL: Annotated[int, Threshold("operations")] = 200
"""Instructions that a call is taken for at least."""

_TRUST: Annotated[int, Threshold("times")] = 1000
"""How far an estimate may be wrong."""

_INSTRUCTION: Annotated[float, Threshold("cost")] = 0.1
"""Nanoseconds that an instruction takes at least."""

_UNKNOWN: Annotated[int, Threshold("trips")] = 1 << 10
"""Trips that a loop is taken for at most when its text does not say how many."""


def finish_kernel(unit: Unit, steps: Iterable[Step], scratch: int = 0, uses: Uses = ()) -> Kernel:
    """The kernel of everything that `unit` has gathered; its `scratch` bytes are for `uses`."""
    asks = unit.machine is None or unit.machine.asks
    found = [_polled(unit, step) if asks else step for step in steps]
    if asks and any(step.cost >= SHORT for step in found):  # so may be what they call
        inner = unit.steps.keys() - {step.function for step in found}
        polled = [_polled(unit, Step(name, cost=SHORT)).polls for name in sorted(inner)]
        found = [replace(step, polls=step.polls or any(polled)) for step in found]
    return Kernel(
        unit.declarations, unit.library, tuple(unit.definitions), tuple(found), scratch, tuple(unit.helpers), uses,
        work=unit.work,
    )  # fmt: skip


def _polled(unit: Unit, step: Step) -> Step:
    """`step`, which looks whether to go on if it may take long, and costs what its iterations do at least."""
    f = unit.steps.get(step.function)
    if f is None:
        return step
    found = work(f, step.tasks)
    cost = step.cost if found.least < LEAST else max(step.cost, found.least * _INSTRUCTION)
    if cost < (SHORT // _TRUST if found.most >= LEAST else SHORT) or not add_polls(f, found, step.tasks, cost):
        return replace(step, cost=cost)
    number = next(n for n, definition in enumerate(unit.definitions) if definition.name == step.function)
    unit.function(f.signature, f.lines)
    unit.definitions[number] = unit.definitions.pop()
    return replace(step, cost=cost, polls=True)


@dataclass(slots=True)
class _Nest:
    """A loop and those in it: instructions of a trip, at least and at most."""

    loop: ClosedLoop
    inner: list[_Nest] = field(default_factory=list)
    least: int = 0
    most: int = 0

    @property
    def trips(self) -> int:
        """How often it goes round at most."""
        known = self.loop.trips if self.loop.trips is not None else self.loop.most
        return _UNKNOWN if known is None else known

    def count(self, lines: Sequence[str], calls: Sequence[int]) -> None:
        """Find out how many there are."""
        first, last = self.loop.phi_lines[0], self.loop.last_line
        own = last - first + _CALL * (bisect_left(calls, last) - bisect_left(calls, first))
        self.least = self.most = own
        for nest in self.inner:
            nest.count(lines, calls)
            trips = nest.loop.trips
            self.least += nest.least * (1 if trips is None else trips - 1)  # one was counted with its lines
            self.most += nest.most * nest.trips


@dataclass(slots=True)
class Work:
    """How many instructions a step function runs, at least and at most, roughly: those of a loop as often as it goes
    round.  The first loop is that over its tasks."""

    least: int
    most: int
    nests: list[_Nest]


def work(f: Function, tasks: int) -> Work:
    """The work of step function `f`, which has `tasks` tasks."""
    nests: list[_Nest] = []
    open_: list[_Nest] = []
    for loop in sorted(f.loops, key=lambda loop: loop.phi_lines[0]):
        while open_ and open_[-1].loop.last_line <= loop.phi_lines[0]:
            open_.pop()
        nest = _Nest(loop)
        (open_[-1].inner if open_ else nests).append(nest)
        open_.append(nest)
    calls = [n for n, line in enumerate(f.lines) if "call " in line and "@llvm." not in line] if nests else []
    found = Work(0, 0, nests)
    for number, nest in enumerate(nests):
        nest.count(f.lines, calls)
        trips = nest.loop.trips
        if trips is None and not number:
            trips = tasks
        found.least += nest.least * (trips or 1)
        found.most += nest.most * (nest.trips if trips is None else trips)
    return found


def add_polls(f: Function, found: Work, tasks: int, cost: float) -> bool:
    """Let the loops of a step function look whether to go on, whose `tasks` take `cost` nanoseconds; whether it has any
    loops."""
    scale = cost / max(1, found.least)  # what is called, or bounded by other numbers, may be much more
    chosen = [n for number, nest in enumerate(found.nests) for n in _chosen(nest, number == 0)]
    for number, nest in enumerate(sorted(chosen, key=lambda nest: -nest.loop.latch_line)):
        loop, go = nest.loop, f"poll{number}_on"
        weight = min(max(round(nest.least * scale), nest.most), BUDGET // _FEWEST)
        if nest is found.nests[0] and loop.trips is None:
            weight = round(cost / tasks)
        f.lines[loop.latch_line : loop.latch_line] = _look(nest, number, go, max(1, weight, nest.least))
        for line in loop.phi_lines:
            f.lines[line] = f.lines[line].replace(f"%{loop.latch} ]", f"%{go} ]")
    if chosen:
        f.unit.declare("i32", POLL, ["ptr", "ptr"])
        f.lines[:0] = [
            f"  %poll_at = getelementptr i64, ptr {f.watch}, i64 -1",
            "  %poll_status = load ptr, ptr %poll_at",
            "  %poll_budget = alloca i64",
            "  %poll_granted = alloca i64",
            f"  store i64 {BUDGET}, ptr %poll_budget",
            f"  store i64 {BUDGET}, ptr %poll_granted",
        ]
        f.lines += ["poll_stop:", *(f"  {line}" for line in f.stop or ("ret void",))]
    return bool(chosen)


def _chosen(nest: _Nest, outermost: bool) -> list[_Nest]:
    """The loops of a nest that look: those with long trips, and of what runs long the innermost."""
    inner = [chosen for n in nest.inner if n.most * n.trips >= LEAST for chosen in _chosen(n, False)]
    long = nest.least >= _WORTH or (nest.least >= _SHORTER and nest.most >= _LONGER)
    return [nest, *inner] if outermost or long or not inner else inner


def _look(nest: _Nest, number: int, go: str, weight: int) -> list[str]:
    """The end of a trip that looks, and takes `weight` nanoseconds."""
    loop, name = nest.loop, f"%poll{number}"
    ask = [f"  {name}_told = call i32 @{POLL}(ptr %poll_status, ptr null)"]
    end = [
        f"  {name}_ends = icmp sgt i32 {name}_told, 0",
        f"  br i1 {name}_ends, label %poll_stop, label %{go}",
        f"{go}:",
    ]
    if nest.most < _WORTH and isinstance(loop.step, int):  # a look at the index is all that there is time for
        period = 1 << (BUDGET * loop.step // nest.least).bit_length()
        return [
            f"  {name}_part = and i64 {loop.index}, {period - 1}",
            f"  {name}_due = icmp ult i64 {name}_part, {loop.step}",
            f"  br i1 {name}_due, label %poll{number}, label %{go}",
            f"poll{number}:",
            *ask,
            *end,
        ]
    if weight >= BUDGET:
        return [f"  br label %poll{number}", f"poll{number}:", *ask, *end]
    return [
        f"  {name}_left = load i64, ptr %poll_budget",
        f"  {name}_now = sub i64 {name}_left, {weight}",
        f"  store i64 {name}_now, ptr %poll_budget",
        f"  {name}_due = icmp slt i64 {name}_now, 0",
        f"  br i1 {name}_due, label %poll{number}, label %{go}",
        f"poll{number}:",
        *ask,
        f"  {name}_early = icmp slt i32 {name}_told, 0",
        f"  {name}_before = load i64, ptr %poll_granted",
        f"  {name}_twice = shl i64 {name}_before, 1",
        f"  {name}_most = icmp ugt i64 {name}_twice, {_MOST}",
        f"  {name}_more = select i1 {name}_most, i64 {_MOST}, i64 {name}_twice",
        f"  {name}_grant = select i1 {name}_early, i64 {name}_more, i64 {BUDGET}",
        f"  store i64 {name}_grant, ptr %poll_granted",
        f"  store i64 {name}_grant, ptr %poll_budget",
        *end,
    ]
