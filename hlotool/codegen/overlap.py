"""Which steps of a program run side by side: those that do not wait for each other, where that takes less time.

A step is what runs at one place of a computation's order: a kernel, or a whole loop or conditional.  A *region* is a
number of steps of which none needs what another one makes, nor writes where another one reads.  It is run as one
parallel job: kernels whose tasks are many are cut, small ones put together, loops are one task.  What stands between
its first step and its last goes before it, or after it where it needs something of it.

Steps depend on each other by the storage that they read and write, as buffer assignment has merged it: who updates an
array in place comes after its readers.  All storage of a region's steps, and of what has moved, is taken from the
region's first place to its last, so that the arena gives no two of them the same bytes, in whatever order they run.
The initial state of a region's loops is copied before it begins: another loop may go on where it came from.

Times are those of two threads: with more, loops are still at least as quick, and splitting alone would seldom use them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.in_place import updates_part
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.arena import is_temporary
from hlotool.codegen.buffers import ALIASES, branch_computations, occupy
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.values import Assignment, Value
from hlotool.ir import Computation, Instruction

__all__ = ["ASLEEP", "CONTROL", "LOOPED", "Part", "Region", "Schedule", "inside", "schedule"]

ASLEEP = 20_000
"""Work is given to several threads when it is estimated to take longer than this (a fork-join costs about 1 us, a
sleeping worker about 10)."""

LOOPED = 2_500
"""The same inside of loops, where the workers are still awake from the trip before (half a microsecond)."""

_AWAKE = 10_000
"""The same for independent steps soon after several threads had work.  What is split then has to fetch what another
thread has just made."""

_SPIN = 30_000.0
"""Workers stay awake for 70 us; estimates may be too low by half."""

_FORK = 1_000.0
"""Nanoseconds of a fork-join."""

_PER_BYTE = 0.1
"""Nanoseconds for a byte that another core has just written.  (Half of them are where they are wanted, but the times
of what moves bytes within one core's cache are estimated at twice what they are.)"""

_PER_SHARED_BYTE = 0.07
"""Nanoseconds for a byte that was just written or will be read next, of which half are in the cache of another core
(measured: 0.9 us for 12.8 KB)."""

_SMALL = 300.0
"""A kernel quicker than this is not worth a task: it runs before the region, or after it."""

_LARGE = 60_000.0
"""A kernel that takes longer, and can be split, has nothing to gain from others beside it."""

_PLAIN = 2.0
"""Nanoseconds of arithmetic on single elements, and of a step on the way of a loop."""

_TRIPS = 10
"""What a loop is taken for when nobody knows how often it runs."""

_SHARED = 0.7
"""The share of its time that a loop takes whose few tasks two threads go through: what they have in common, the weights
of a recurrent network, is read for fewer rows at a time."""

_FEW = 4
"""More tasks than that had better be for as many threads."""

_LEAST_SHARE = 0.1
_LEAST_GAIN = 4_000.0
"""The share of the time that a region must save, and nanoseconds outside of loops: costs are estimates."""

_TASKS = 15
"""Tasks of a region, about, if it has parts enough."""

_TASK = 2_000.0
"""Nanoseconds that a part of a kernel takes at least."""

_AHEAD = 16
"""Steps that a region may wait for: how far ahead of them its own may come."""

_MORE_BYTES = 256 << 10
_MORE_SHARE = 1 / 16
"""What may be alive at once beyond the peak: so many bytes, and this share of the peak."""

CONTROL = frozenset({"while", "conditional", "call"})


@dataclass(frozen=True, slots=True)
class Part:
    """Tasks of a step's only function, or a whole step (`end` is 0)."""

    instruction: Instruction
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Steps that run side by side: what each task of the parallel job does, one part after the other."""

    steps: tuple[Instruction, ...]
    tasks: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What threads do: the order of computations that have regions, and the functions of kernels, by their numbers,
    whose tasks several threads share, always or while they are awake."""

    orders: Mapping[Computation, Sequence[Instruction | Region]]
    split: Set[tuple[Instruction, int]]
    split_awake: Set[tuple[Instruction, int]]


def schedule(
    entry: Computation,
    assignment: Assignment,
    kernels: Mapping[Instruction, Kernel],
    scratch: Mapping[Instruction, Value],
    shared: Container[Instruction],
    stays: Callable[[Instruction], bool],
    log: DecisionLog,
) -> Schedule:
    """Find the regions of a program and reserve their storage; `place` is still to come.

    Loops in `shared` are shared between threads as they are.  Nothing goes past an instruction that `stays` where it
    is: those that talk to the runtime, and loops that poll.
    """
    log.pass_name = "overlap"
    return _Scheduler(entry, assignment, kernels, scratch, shared, stays, log).run()


_Waits = Mapping[Instruction, set[Instruction]]


@dataclass(slots=True)
class _Window:
    """The next instructions of a computation: steps that could be a region, and what goes before and after them."""

    ahead: list[Instruction]  # before the first step
    steps: list[Instruction]
    moved: list[Instruction]  # between steps, but none of them has to come first
    after: list[Instruction]


@dataclass(slots=True)
class _Touched:
    """What an instruction reads and writes; what a loop copies for its state before it begins (`copied`).

    Of parts with a place of their own in a whole, `wholes` are those in which some part is written, `looks` those in
    which some part is read.  Of other parts, which are views, it is the address that an instruction makes or reads.
    """

    reads: set[Value] = field(default_factory=set)
    writes: set[Value] = field(default_factory=set)
    copied: set[Value] = field(default_factory=set)
    wholes: set[Value] = field(default_factory=set)
    looks: set[Value] = field(default_factory=set)

    def read(self, value: Value) -> None:
        root = value.find()
        self.reads.add(root)
        while root.whole is not None and root.start is None:
            root = root.whole.find()
            self.reads.add(root)
        if root.whole is not None:
            self.looks.add(root.storage())

    def write(self, value: Value) -> None:
        root = value.find()
        self.writes.add(root)
        if root.whole is not None and root.start is not None:
            self.wholes.add(root.storage())

    def storage(self) -> list[Value]:
        """Everything, in a fixed order."""
        found = {value.storage() for value in (*self.reads, *self.writes, *self.copied)}
        return sorted(found, key=lambda value: value.number)


class _Scheduler:
    def __init__(
        self,
        entry: Computation,
        assignment: Assignment,
        kernels: Mapping[Instruction, Kernel],
        scratch: Mapping[Instruction, Value],
        shared: Container[Instruction],
        stays: Callable[[Instruction], bool],
        log: DecisionLog,
    ) -> None:
        self.entry = entry
        self.assignment = assignment
        self.kernels = kernels
        self.scratch = scratch
        self.shared = shared
        self.stays = stays
        self.log = log
        self.orders: dict[Computation, list[Instruction | Region]] = {}
        self.split: set[tuple[Instruction, int]] = set()
        self.split_awake: set[tuple[Instruction, int]] = set()
        self.idle = float("inf")  # nanoseconds since several threads had work
        self.serial: dict[Instruction, float] = {}
        self.transport: dict[Instruction, float] = {}
        self.fixed: dict[Instruction, bool] = {}
        self.around: list[Instruction] = []  # loops and conditionals that are open
        self.refused: set[Instruction] = set()
        self.alive: list[int] = []  # bytes of the arena, by position
        self.most = 0

    def run(self) -> Schedule:
        self.computation(self.entry, looped=False)
        return Schedule(self.orders, self.split, self.split_awake)

    def computation(self, computation: Computation, looped: bool) -> None:
        """Decide about a computation, and those that its loops and branches call outside of regions."""
        items: list[Instruction | Region] = []
        regions = False
        for item in self._items(computation, looped):
            items.append(item)
            if isinstance(item, Region):
                regions = True
                self.idle = 0.0
            elif item in self.kernels:
                steps = self.kernels[item].steps
                # Workers are awake beside a long step, too; what comes ahead of that wakes them in time for it.
                awake = looped or any(self._is_split(step, looped) for step in steps)
                for number, step in enumerate(steps):
                    self.idle += step.cost
                    if self._is_split(step, awake):
                        self.split.add((item, number))
                        self.idle = 0.0
                    elif not looped and self._pays(item, step):
                        self.split_awake.add((item, number))
            elif item in self.shared:
                self.idle = 0.0
            else:
                self.around.append(item)
                for called in _called(item):
                    self.computation(called, looped or item.opcode == "while")
                self.around.pop()
        if regions:
            self.orders[computation] = items

    def _items(self, computation: Computation, looped: bool) -> Iterator[Instruction | Region]:
        """The instructions of a computation and its regions, in order; each is to be dealt with before the next."""
        order = [i for i in computation if self._is_there(i)]
        steps = {i for i in order if self._is_step(i, looped)}
        if len(steps) < 2 or sum(self._serial(i) for i in steps) <= (LOOPED if looped else _AWAKE):
            yield from order
            return
        waits, enters = self._dependencies(order)
        pending = deque(order)
        while pending:
            window = self._window(pending, steps, waits, enters)
            yield from window.ahead
            region = self._region(window, looped) if len(window.steps) > 1 else None
            if region is not None:
                yield from window.moved
                yield region
                pending.extendleft(reversed(window.after))
            elif window.steps:  # the first goes alone
                first, *others = window.steps
                yield first
                others += window.moved + window.after
                pending.extendleft(sorted(others, key=self.assignment.positions.__getitem__, reverse=True))

    def _is_split(self, step: Step, looped: bool) -> bool:
        """Whether several threads share the tasks of a function."""
        return step.tasks > 1 and step.cost > (LOOPED if looped else ASLEEP)

    def _pays(self, instruction: Instruction, step: Step) -> bool:
        """Whether sharing a shorter step saves more than it costs while workers are awake; a quarter of its time is
        what it should save at least.

        Arguments and constants are the same in every run: each core has read them before.
        """
        leaves = self.assignment.leaves
        values = {v.find() for i in (*instruction.operands, instruction) for v in leaves[i]}
        moved = sum(value.size for value in values if value.writable and value.parameter is None)
        return step.tasks > 1 and step.cost / 4 > _FORK + _PER_SHARED_BYTE * moved

    def _window(
        self, pending: deque[Instruction], steps: set[Instruction], waits: _Waits, enters: _Waits
    ) -> _Window:
        """Take instructions off `pending`, up to the last that could be in a region with the first."""
        window = _Window([], [], [], [])
        blocked: set[Instruction] = set()
        late: set[Instruction] = set()
        taken: list[Instruction] = []
        heavy = 0
        last = 0
        while pending and heavy < _AHEAD and len(window.steps) < 4 * _TASKS:
            instruction = pending[0]
            if self._is_fixed(instruction):
                break
            taken.append(pending.popleft())
            if not (waits[instruction].isdisjoint(blocked) and enters[instruction].isdisjoint(late)):
                blocked.add(instruction)
                late.add(instruction)
                heavy += self._serial(instruction) > _SMALL
            elif instruction in steps:
                blocked.add(instruction)
                window.steps.append(instruction)
                last = len(taken)
            elif window.steps:
                heavy += self._serial(instruction) > _LARGE
        if not window.steps:
            window.ahead = taken or [pending.popleft()]
            return window
        pending.extendleft(reversed(taken[last:]))
        chosen = set(window.steps)
        first = self.assignment.positions[window.steps[0]]
        for instruction in taken[:last]:
            if instruction in chosen:
                continue
            if instruction in late:
                window.after.append(instruction)
            elif self.assignment.positions[instruction] < first:
                window.ahead.append(instruction)
            else:
                window.moved.append(instruction)
        return window

    # ---- what depends on what

    def _is_step(self, instruction: Instruction, looped: bool) -> bool:
        """Whether an instruction may be in a region."""
        if self._is_fixed(instruction) or self._serial(instruction) < _SMALL:
            return False
        kernel = self.kernels.get(instruction)
        if kernel is None:
            return instruction.opcode in CONTROL and not self._stays_outside(instruction)
        if len(kernel.steps) == 1:
            return kernel.steps[0].tasks == 1 or kernel.steps[0].cost <= _LARGE
        return not any(self._is_split(step, looped) for step in kernel.steps)

    def _is_fixed(self, instruction: Instruction) -> bool:
        """Whether an instruction, or one that it calls, has to stay where it is."""
        found = self.fixed.get(instruction)
        if found is None:
            found = self.stays(instruction) or bool(instruction.control_predecessors)
            found = found or any(self._is_fixed(i) for c in _called(instruction) for i in c)
            self.fixed[instruction] = found
        return found

    def _stays_outside(self, instruction: Instruction) -> bool:
        """Whether a loop or conditional is better no task.

        Kernels inside may gain more from all threads, and another function knows neither the place of a loop's state
        that moves from trip to trip nor that of views.
        """
        inner = list(inside(instruction))
        if any(i in self.shared for i in inner):
            return True
        steps = [step for i in inner if i in self.kernels for step in self.kernels[i].steps]
        if any(step.tasks > 1 and step.cost > _LARGE for step in steps):
            return True
        if instruction in self.shared and any(step.tasks > _FEW for step in steps):
            return True
        around = (copy for loop in self.around for copy in self.assignment.swaps.get(loop, ()))
        moving = {value.find() for copy in around for value in (copy.source, copy.target)}
        touched = self._touched(instruction)
        values = touched.reads | touched.writes | touched.copied | touched.wholes
        made = {self.assignment.leaves[i][0].find() for i in inner if i in self.assignment.views}
        made.update(value.find() for i in inner for value, _ in self.assignment.targets.get(i, ()))
        return any(v in moving or (v.whole is not None and v.start is None and v not in made) for v in values)

    def _is_there(self, instruction: Instruction) -> bool:
        """Whether there is something to do for an instruction."""
        if instruction.opcode in ALIASES or instruction.opcode in ("parameter", "constant"):
            return False
        return instruction not in self.assignment.unread

    def _dependencies(self, order: Iterable[Instruction]) -> tuple[_Waits, _Waits]:
        """For every instruction those that come before, of those that concern the same storage: those that must be
        complete, and loops that must have their initial state."""
        writer: dict[Value, Instruction] = {}
        readers: dict[Value, list[Instruction]] = {}
        lookers: dict[Value, list[Instruction]] = {}
        fillers: dict[Value, list[Instruction]] = {}
        copiers: dict[Value, list[Instruction]] = {}
        waits: dict[Instruction, set[Instruction]] = {}
        enters: dict[Instruction, set[Instruction]] = {}
        for instruction in order:
            touched = self._touched(instruction)
            anything = touched.reads | touched.writes | touched.copied | touched.wholes
            waits[instruction] = before = {writer[value] for value in anything if value in writer}
            entered: set[Instruction] = set()
            enters[instruction] = entered
            for value in touched.wholes:
                before.update(readers.get(value, ()))
                entered.update(copiers.get(value, ()))
                fillers.setdefault(value, []).append(instruction)
            for value in touched.reads | touched.copied:
                before.update(fillers.get(value, ()))
            for value in touched.writes:
                for earlier in (readers, lookers, fillers):
                    before.update(earlier.pop(value, ()))
                entered.update(copiers.pop(value, ()))
                writer[value] = instruction
            before.discard(instruction)
            for found, values in ((readers, touched.reads), (lookers, touched.looks), (copiers, touched.copied)):
                for value in values:
                    found.setdefault(value, []).append(instruction)
        return waits, enters

    def _touched(self, instruction: Instruction) -> _Touched:
        """The storage that an instruction, and all inside of it, has to do with."""
        leaves, touched = self.assignment.leaves, _Touched()
        for inner in (instruction, *inside(instruction)):
            if not self._is_there(inner):
                continue
            read = [value for operand in inner.operands for value in leaves[operand]]
            made = list(leaves[inner])
            if inner.opcode == "while":
                pairs = list(zip(leaves[inner], read, strict=True))
                read = [initial for own, initial in pairs if own is initial]
                made = [own for own, initial in pairs if own is not initial]
                entering, repeating = self.assignment.loop_copies[inner]
                if inner is instruction:
                    touched.copied.update(copy.source.find() for copy in entering)
                    touched.looks.update(source.storage() for source in touched.copied if source.whole is not None)
                else:
                    read += [copy.source for copy in entering]
                for copy in (*repeating, *self.assignment.swaps.get(inner, ())):
                    read.append(copy.source)
                    made += [copy.source, copy.target] if copy not in repeating else [copy.target]
            elif inner.opcode == "conditional":
                for number in range(len(branch_computations(inner))):
                    copies = self.assignment.branch_copies[inner, number]
                    read += [copy.source for copy in copies]
                    made += [copy.target for copy in copies]
            if inner in self.scratch:
                made.append(self.scratch[inner])
            for value, stacking in self.assignment.targets.get(inner, ()):
                read += [place for start in stacking.starts for place in leaves.get(start, ())]
                touched.writes.add(value.storage())
            for value in read:
                touched.read(value)
            for value in made:
                touched.write(value)
        return touched

    # ---- what pays

    def _serial(self, instruction: Instruction) -> float:
        """Nanoseconds of an instruction on one thread."""
        found = self.serial.get(instruction)
        if found is None:
            kernel = self.kernels.get(instruction)
            if kernel is not None:
                found = sum(step.cost for step in kernel.steps)
            elif instruction.opcode == "conditional":
                found = max(self._sum(branch) for branch in branch_computations(instruction))
            else:
                found = _PLAIN + _trips(instruction) * sum(self._sum(called) for called in _called(instruction))
            self.serial[instruction] = found
        return found

    def _sum(self, computation: Computation) -> float:
        return sum(self._serial(i) for i in computation if i.opcode not in ALIASES and i.opcode != "parameter")

    def _alone(self, instruction: Instruction, looped: bool) -> float:
        """Nanoseconds of an instruction that has all threads to itself."""
        kernel = self.kernels.get(instruction)
        if kernel is not None:
            return sum(s.cost / 2 + _FORK if self._is_split(s, looped) else s.cost for s in kernel.steps)
        if instruction.opcode not in CONTROL:
            return _PLAIN
        if instruction in self.shared:
            return self._serial(instruction) * _SHARED + _FORK
        looped = looped or instruction.opcode == "while"
        times = (sum(self._alone(i, looped) for i in c if i.opcode not in ALIASES) for c in _called(instruction))
        return max(times) if instruction.opcode == "conditional" else _trips(instruction) * sum(times)

    def _moved(self, instruction: Instruction) -> float:
        """Nanoseconds for what goes from core to core when any thread may run an instruction: what others made, and
        what it makes for others."""
        found = self.transport.get(instruction)
        if found is None:
            leaves = self.assignment.leaves
            results = leaves[instruction]
            own = {value.find() for value in results}
            read = {value.storage(): value.size for operand in instruction.operands for value in leaves[operand]}
            moved = 0
            for root, size in read.items():
                if root not in own and root.parameter is None and root.constant is None:
                    moved += size
            for number, value in enumerate(results):
                if value.find().output is None and not updates_part(instruction, number):
                    moved += value.size
            found = self.transport[instruction] = moved * _PER_BYTE
        return found

    def _beside(self, instruction: Instruction, looped: bool) -> float:
        """Nanoseconds of an instruction on one thread, whichever that is.

        What would be split anyway has its operands anywhere.
        """
        kernel = self.kernels.get(instruction)
        split = kernel is not None and any(self._is_split(step, looped) for step in kernel.steps)
        split = split or instruction in self.shared
        return self._serial(instruction) + (0.0 if split else self._moved(instruction))

    def _region(self, window: _Window, looped: bool) -> Region | None:
        """The steps of a window as a region; None where that would save too little, or take too much memory."""
        steps = window.steps
        serial = sum(self._serial(i) for i in steps)
        if serial <= (LOOPED if looped else _AWAKE if self.idle < _SPIN else ASLEEP):
            return None
        now = sum(self._alone(i, looped) for i in steps)
        tasks = self._tasks({instruction: self._beside(instruction, looped) for instruction in steps})
        then = _two_threads([time for time, _ in tasks]) + _FORK
        numbers = {"tasks": len(tasks), "nanoseconds_before": round(now), "nanoseconds_after": round(then)}
        little = now - then < max(_LEAST_SHARE * now, 0.0 if looped else _LEAST_GAIN)
        if little or not self._reserve([*steps, *window.moved]):
            if self.refused.isdisjoint(steps):  # the next window has most of them again
                if little:
                    self.log.refuse("little-gain", steps, "it takes hardly longer than side by side", **numbers)
                else:
                    self.log.refuse("memory", steps, "all that they need and make would be alive at once", **numbers)
            self.refused.update(steps)
            return None
        self.log.note("side-by-side", steps, "they do not wait for each other", **numbers)
        return Region(tuple(steps), tuple(map(tuple, _dealt(tasks))))

    def _tasks(self, times: Mapping[Instruction, float]) -> list[tuple[float, list[Part]]]:
        """The tasks of a region, longest first, and their times; from the times of its steps.

        Steps are cut, and small parts put together, to make about as many tasks as wanted.
        """
        parts: list[tuple[float, Part]] = []
        least = max(_TASK, sum(times.values()) / _TASKS)
        for instruction, time in times.items():
            kernel = self.kernels.get(instruction)
            if kernel is not None and len(kernel.steps) == 1 and kernel.steps[0].tasks > 1:
                total = kernel.steps[0].tasks
                count = max(1, min(total, int(time / least)))
                edges = [total * n // count for n in range(count + 1)]
                parts += [(time * (b - a) / total, Part(instruction, a, b)) for a, b in pairwise(edges)]
            else:
                parts.append((time, Part(instruction)))
        parts.sort(key=lambda part: -part[0])
        capacity = sum(times.values()) / _TASKS
        tasks: list[tuple[float, list[Part]]] = []
        for time, part in parts:
            for number, (filled, own) in enumerate(tasks):
                if filled + time <= capacity:
                    tasks[number] = (filled + time, [*own, part])
                    break
            else:
                tasks.append((time, [part]))
        return sorted(tasks, key=lambda task: -task[0])

    def _reserve(self, moved: list[Instruction]) -> bool:
        """Take the storage of what moves for as long as it moves, if that is not too much."""
        if not self.alive:
            self._count()
        start = min(self.assignment.positions[i] for i in moved)
        end = max(self._end(i) for i in moved)
        storage = dict.fromkeys(value for i in moved for value in self._touched(i).storage() if value.intervals)
        longer = [value for value in storage if value.intervals[0][0] > start or value.intervals[-1][1] < end]
        there = {value: range(value.intervals[0][0], value.intervals[-1][1] + 1) for value in longer}
        more = self.alive[start : end + 1]
        for value in longer:
            if is_temporary(value):
                for position in range(start, end + 1):
                    if position not in there[value]:
                        more[position - start] += value.size
        if max(more) > self.most * (1 + _MORE_SHARE) + _MORE_BYTES:
            return False
        self.alive[start : end + 1] = more
        for value in longer:
            occupy(value, start, end)
        return True

    def _count(self) -> None:
        """Count the bytes that are alive at each position."""
        roots = {value.find() for value in self.assignment.values}
        changes = [0] * (max(value.intervals[-1][1] for value in roots if value.intervals) + 2)
        for value in roots:
            if is_temporary(value) and value.intervals:
                changes[value.intervals[0][0]] += value.size
                changes[value.intervals[-1][1] + 1] -= value.size
        self.alive = list(accumulate(changes))
        self.most = max(self.alive)

    def _end(self, instruction: Instruction) -> int:
        """The last position that belongs to an instruction."""
        if instruction.opcode not in CONTROL:
            return self.assignment.positions[instruction]
        *_, last = _called(instruction)[-1]
        return self._end(last) + 4


def _dealt(tasks: list[tuple[float, list[Part]]]) -> list[list[Part]]:
    """What tasks do, in the order in which the pool deals them out: the first half is for one thread, the second for
    another one, each with the longest tasks first, which nobody else takes.  Empty tasks make halves of the same size.
    """
    halves: tuple[list[list[Part]], ...] = ([], [])
    filled = [0.0, 0.0]
    for time, parts in tasks:
        number = filled.index(min(filled))
        filled[number] += time
        halves[number].append(parts)
    size = max(map(len, halves))
    return [parts for half in halves for parts in half + [[]] * (size - len(half))]


def _two_threads(times: Iterable[float]) -> float:
    """How long two threads take that take tasks in this order, whenever they are free."""
    first = second = 0.0
    for time in times:
        first, second = sorted((first + time, second)) if first <= second else sorted((first, second + time))
    return max(first, second)


def _trips(instruction: Instruction) -> int:
    if instruction.opcode != "while":
        return 1
    trips = known_trip_count(instruction)
    return _TRIPS if trips is None else trips


def _called(instruction: Instruction) -> tuple[Computation, ...]:
    """The computations of a loop, conditional or call, in order; those of a kernel are no steps."""
    match instruction.opcode:
        case "while":
            return instruction.attributes["condition"], instruction.attributes["body"]
        case "conditional":
            return branch_computations(instruction)
        case "call":
            return (instruction.attributes["to_apply"],)
    return ()


def inside(instruction: Instruction) -> Iterator[Instruction]:
    """All instructions inside of a loop, conditional or call."""
    for computation in _called(instruction):
        for inner in computation:
            yield inner
            yield from inside(inner)
