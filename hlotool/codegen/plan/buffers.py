"""Buffer assignment: where every array of a program lives.

A `Value` is one piece of storage.  Tuples, get-tuple-elements, bitcasts and the like share the values of their
operands; a while loop's state, its parameters and its result are one value per leaf.  Values whose live ranges do
not overlap are then merged where that saves a copy: in-place updates, loop state with the value computed for the next
trip, branch results with the result of the conditional, roots with the output arrays.  Some are computed as a part of
another (`parts`).  What is left gets an offset in one arena by live range (`arena`).

Parameters are read only, but for donated ones: such a one is storage like any other until a result takes it over, and
the values on the way to that result may lie there too.

Positions on the time line: instruction number t reads and writes at ``2 * t``; an in-place update counts as writing
just after, at ``2 * t + 1``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from itertools import accumulate
from typing import Annotated

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donation
from hlotool.analysis.in_place import updates_part
from hlotool.analysis.stacking import Stacking, stacked_elements, stackings
from hlotool.analysis.thresholds import Threshold
from hlotool.analysis.views import is_view, views_in_order
from hlotool.codegen.plan.parts import join_all, leave_out, stack_all
from hlotool.codegen.plan.values import Assignment, Copy, Value, array_leaves, later, merged, overlap
from hlotool.ir import Computation, Instruction, Shape, byte_size

__all__ = ["ALIASES", "GRAIN", "assign", "branch_computations", "occupy", "start_of"]

SWAPPED_BYTES: Annotated[int, Threshold("bytes")] = 1024
"""Loop state as large as this is not copied for the next trip, but changes places with it; less is soon copied."""

GRAIN = 16
"""Bytes to a multiple of which places are aligned where none moves: what a device reads at once."""

ALIASES = frozenset(
    {"tuple", "get-tuple-element", "bitcast", "reshape", "opt-barrier", "after-all", "add-dependency", "domain"}
)
"""Opcodes whose result is the storage of their operands (reshapes too: buffers are dense and row-major)."""

_Offer = tuple[Instruction, int, int]
"""An instruction, the number of a result leaf and that of the operand whose storage this may take over."""

_Held = dict[Instruction, dict[Value, list[int]]]
"""Of one instruction: by storage, the numbers of the operands that lie there."""


def assign(
    entry: Computation,
    in_place: dict[Instruction, tuple[tuple[int, int], ...]],
    donation: Donation = NOTHING_DONATED,
    log: DecisionLog | None = None,
    moves: bool = True,
    small: Container[Computation] = frozenset(),
) -> Assignment:
    """Assign values to all instructions of `entry` and of its loops and branches; what it calls is a matter of its own.

    `in_place` says which (output leaf, operand) pairs of an instruction may share storage when the operand is dead
    afterwards.  Every while and conditional must own its computations.  Where nothing `moves`, every place is known
    before anything runs, and a multiple of `GRAIN` bytes.  Computations in `small` belong to small loops.  `place`
    completes the result once the kernels have asked for scratch.
    """
    log = DecisionLog() if log is None else log
    log.pass_name = "buffer-assignment"
    result = Assignment()
    walker = _Walker(result, moves)
    walker.entry(entry)
    offers = [(i, *pair) for i, pairs in in_place.items() if i in result.leaves for pair in pairs]
    of_value: dict[Value, list[_Offer]] = {}
    for offer in offers:
        of_value.setdefault(result.leaves[offer[0]][offer[1]], []).append(offer)
    if donation.arguments:
        _claim(result, entry, donation, of_value)
    # Updates of a part first: without their place they cost a copy of everything.  Others matter less than loop state.
    held: _Held = {}
    for offer in offers:
        if updates_part(offer[0], offer[1]):
            _take_over(result, offer, held)
    for instruction in walker.control:
        if instruction.opcode == "while":
            _merge_loop(result, instruction, walker.ends[instruction.attributes["body"]], of_value, log, moves)
        else:
            _merge_branches(result, instruction, walker.ends)
    if walker.joins:
        join_all(result, walker.joins, entry.root, log, 1 if moves else GRAIN)
    if walker.stackings:
        leave_out(result, log)
        if moves:
            stack_all(result, [s for found in walker.stackings.values() for s in found.values()], small, log)
    held.clear()
    for offer in offers:
        _take_over(result, offer, held)
    _merge_outputs(result, entry, donation, walker.now)
    if donation.arguments:
        joined = {value.find() for value in result.values if value.find() is not value}
        result.overwritten = tuple(n for n in sorted(donation.arguments) if result.parameters[n].find() in joined)
    for offer in offers:
        instruction, leaf, _ = offer
        if result.leaves[instruction][leaf].find() is _operand(result, offer).find():
            result.in_place[instruction] = result.in_place.get(instruction, frozenset()) | {leaf}
    return result


class _Walker:
    """Numbers instructions on the time line, creates values and records their uses."""

    def __init__(self, result: Assignment, moves: bool) -> None:
        self.result = result
        self.moves = moves
        self.now = 0
        self.control: list[Instruction] = []  # inner loops and branches before outer ones
        self.stackings: dict[Instruction, dict[int, Stacking]] = {}  # by the loop
        self.joins: list[Instruction] = []  # concatenates whose operands may be computed where they belong
        self.ends: dict[Computation, int] = {}  # where a loop body or branch has computed its result
        self.starts: dict[Instruction, list[int]] = {}  # of tuples, see `_starts`

    def new(self, shape: Shape) -> Value:
        return self.result.value(shape, shape.byte_size, self.now)

    def results(self, instruction: Instruction) -> tuple[Value, ...]:
        """A new value for each of its array leaves."""
        return tuple(self.new(shape) for shape in array_leaves(instruction.shape))

    def use(self, values: Iterable[Value]) -> None:
        for value in values:
            used: Value | None = value
            while used is not None:
                start, _ = used.intervals[-1]
                used.intervals[-1] = (start, self.now)
                used = used.whole

    def entry(self, computation: Computation) -> None:
        for parameter in computation.parameters:
            self.result.leaves[parameter] = self.results(parameter)
            self.result.parameters.extend(self.result.leaves[parameter])
        for number, value in enumerate(self.result.parameters):
            value.parameter = number
        self.body(computation)
        self.now += 2
        self.use(self.result.leaves[computation.root])

    def body(self, computation: Computation) -> None:
        leaves, views = self.result.leaves, self.result.views
        views |= {part for part in views_in_order(computation) if self.can_view(part)}
        for instruction in computation:
            self.now += 2
            self.result.positions[instruction] = self.now
            operands = [leaves[o] for o in instruction.operands]
            if instruction.opcode not in ALIASES:  # views read nothing: those who read them do
                for values in operands:
                    self.use(values)
            match instruction.opcode:
                case "parameter":
                    pass
                case "constant":
                    leaves[instruction] = self.results(instruction)
                    for value in leaves[instruction]:
                        value.constant = instruction
                case "get-tuple-element":
                    leaves[instruction] = operands[0][self.element(instruction)]
                case "after-all":
                    leaves[instruction] = ()  # a token has no memory, though it may wait for arrays
                case opcode if opcode in ALIASES:
                    leaves[instruction] = tuple(value for values in operands for value in values)
                case "while":
                    self.loop(instruction)
                case "conditional":
                    self.branches(instruction)
                case _ if instruction in views or (is_view(instruction) and self.can_view(instruction)):
                    views.add(instruction)
                    value = self.new(instruction.shape)
                    (value.whole,) = operands[0]
                    leaves[instruction] = (value,)
                case _:
                    leaves[instruction] = self.results(instruction)
                    if instruction.opcode == "concatenate" and instruction.shape.is_static:
                        self.joins.append(instruction)

    def can_view(self, part: Instruction) -> bool:
        """Whether the place of a slice may be that of a part of its operand."""
        start = None if self.moves else start_of(part)
        return self.moves or (start is not None and start % GRAIN == 0)

    def element(self, instruction: Instruction) -> slice:
        """The leaves of its operand that a get-tuple-element takes."""
        source = instruction.operands[0]
        if source not in self.starts:
            self.starts[source] = _starts(source.shape)
        index = instruction.attributes["index"]
        return slice(*self.starts[source][index : index + 2])

    def loop(self, instruction: Instruction) -> None:
        leaves = self.result.leaves
        condition, body = instruction.attributes["condition"], instruction.attributes["body"]
        found = stackings(instruction)
        if found:
            self.stackings[instruction] = found
            self.result.stacked[instruction] = stacked_elements(instruction, found)
        kept = invariant_leaves(body)
        shapes = enumerate(array_leaves(instruction.shape))
        initial = leaves[instruction.operands[0]]
        state = tuple(initial[number] if number in kept else self.new(shape) for number, shape in shapes)
        leaves[instruction] = leaves[condition.parameters[0]] = leaves[body.parameters[0]] = state
        self.body(condition)
        self.now += 2
        self.use(leaves[condition.root])
        self.use(state)  # the condition runs once more before the loop is left: it may not overwrite the result
        self.body(body)
        self.now += 2
        self.use(leaves[body.root])
        self.ends[body] = self.now
        self.now += 2
        for number, value in enumerate(state):
            if number in kept:
                self.use([value])
            else:
                value.intervals.append((self.now, self.now))
        self.control.append(instruction)

    def branches(self, instruction: Instruction) -> None:
        leaves = self.result.leaves
        for number, branch in enumerate(branch_computations(instruction)):
            argument = leaves[instruction.operands[number + 1]]
            self.now += 2
            self.use(argument)
            leaves[branch.parameters[0]] = argument
            self.body(branch)
            self.now += 2
            self.use(leaves[branch.root])
            self.ends[branch] = self.now
        self.now += 2
        leaves[instruction] = self.results(instruction)
        self.control.append(instruction)


def invariant_leaves(body: Computation) -> set[int]:
    """Leaves of a loop's state that the body hands on as they came: the loop may read the initial value itself."""
    elements = frozenset(
        index for index, operand in enumerate(body.root.operands if body.root.opcode == "tuple" else ())
        if operand.opcode == "get-tuple-element" and operand.operands[0].opcode == "parameter"
        and operand.attributes["index"] == index
    )  # fmt: skip
    return _leaves_of(body.root.shape, elements)


def branch_computations(conditional: Instruction) -> tuple[Computation, ...]:
    """The branches by number; a pred selector takes branch 0 when true."""
    branches = conditional.attributes.get("branch_computations")
    if branches:
        return tuple(branches)
    return (conditional.attributes["true_computation"], conditional.attributes["false_computation"])


# ---- merging


def _union(into: Value, other: Value) -> Value:
    into, other = into.find(), other.find()
    other.parent = into
    into.size = max(into.size, other.size)
    into.intervals = merged([*into.intervals, *other.intervals])
    if into.parameter is None:
        into.parameter = other.parameter
    if into.result is None:
        into.result = other.result
    if into.claim is None or other.parameter is not None:
        into.claim = other.claim
    return into


def start_of(part: Instruction) -> int | None:
    """The byte of its operand at which a slice begins whose elements lie side by side; None if nobody knows yet."""
    start, stride = 0, byte_size(part.shape.element_type)
    for d in range(part.shape.rank - 1, -1, -1):
        extent = part.operands[0].shape.dimensions[d]
        if part.opcode == "slice":
            own = part.attributes["slice"][d].start
        elif part.operands[1 + d].opcode != "constant":
            return None
        else:
            own = min(max(int(part.operands[1 + d].literal.value()), 0), extent - part.shape.dimensions[d])
        start += own * stride
        stride *= extent
    return start


def _try_merge(first: Value, second: Value, start: int | None = None) -> bool:
    """Let two values share storage if they are never alive together.

    `start`: `second` takes over from `first` at that position (an in-place update, or entering a loop).
    """
    a, b = first.find(), second.find()
    if a is b:
        return True
    if not (a.writable and b.writable) or a.size != b.size or not (_may_join(a, b) and _may_join(b, a)):
        return False
    if overlap(a.intervals, b.intervals if start is None else later(b.intervals, start)):
        return False
    _union(a, b)
    return True


def _may_join(value: Value, other: Value) -> bool:
    """Whether a donated parameter may hold a value: only those on the way to the result that it is for."""
    if other.parameter is None:
        return True
    return value.parameter is None and value.claim == other.claim and value.result in (None, other.claim)


def _operand(result: Assignment, offer: _Offer) -> Value:
    return result.leaves[offer[0].operands[offer[2]]][0]


def _take_over(result: Assignment, offer: _Offer, held: _Held) -> bool:
    """Let a result share the storage of the operand that it replaces, if nothing else needs that.

    `held` is kept between the offers to one instruction.
    """
    instruction, leaf, operand = offer
    if instruction not in held:
        held.clear()
        held[instruction] = {}
        for number, other in enumerate(instruction.operands):
            for value in result.leaves[other]:
                held[instruction].setdefault(value.storage(), []).append(number)
    readers, source, own = held[instruction], _operand(result, offer).find(), result.leaves[instruction][leaf]
    # An elementwise instruction may read one operand twice; an update may not read what it overwrites.
    same = instruction.operands[operand] if instruction.has("elementwise") else None
    if any(number != operand and instruction.operands[number] is not same for number in readers.get(source, ())):
        return False
    before = source, own.storage()
    if not _try_merge(source, own, result.positions[instruction]):
        return False
    readers[source.storage()] = [number for storage in before for number in readers.pop(storage, ())]
    return True


def _merge_loop(
    result: Assignment, loop: Instruction, last: int, offers: dict[Value, list[_Offer]], log: DecisionLog, moves: bool
) -> None:
    """Share storage between loop state, its initial value and the value for the next trip (complete at `last`)."""
    state = result.leaves[loop]
    body = result.leaves[loop.attributes["body"].root]
    entering, repeating = [], []
    for own, following in zip(state, body, strict=True):
        in_place = [o for o in offers.get(following, ()) if _operand(result, o).find() is own.find()]
        if not (_try_merge(own, following) or any(_take_over(result, offer, {}) for offer in in_place)):
            repeating.append(Copy(following, own))
            occupy(own, last, last)
    swaps = _swaps(result, loop, repeating, last) if moves else []
    if swaps:
        result.swaps[loop] = swaps
        repeating = [copy for copy in repeating if copy not in swaps]
        for copy in swaps:
            log.note("state-swapped", loop, "the next trip finds it where it was computed", bytes=copy.source.size)
    written = _leaves_of(loop.shape, result.stacked.get(loop, frozenset()))
    for number, (own, initial) in enumerate(zip(state, result.leaves[loop.operands[0]], strict=True)):
        if own is not initial and not _try_merge(initial, own, result.positions[loop]) and number not in written:
            entering.append(Copy(initial, own))
    result.loop_copies[loop] = (entering, _parallel(result, repeating, last))


def _leaves_of(shape: Shape, elements: frozenset[int]) -> set[int]:
    """The numbers of the array leaves of some elements of a tuple."""
    if not elements:
        return set()
    starts = _starts(shape)
    return {leaf for index in elements for leaf in range(starts[index], starts[index + 1])}


def _starts(shape: Shape) -> list[int]:
    """The number of the first array leaf of each element of a tuple, and the number of all."""
    return list(accumulate((len(array_leaves(element)) for element in shape.elements), initial=0))


def _swaps(result: Assignment, loop: Instruction, repeating: list[Copy], last: int) -> list[Copy]:
    """Copies for the next trip in whose place the storage of state and value are exchanged, trip by trip.

    The value's storage must be for the body alone, and is then taken as long as the loop runs: what is alive at the end
    of one trip is state in the next.  Where a loop is left, state that is not in its own storage is copied there.
    """
    first = result.positions[loop.attributes["body"].parameters[0]]
    uses: dict[Value, int] = {}
    for copy in repeating:
        for value in (copy.source.find(), copy.target.find()):
            uses[value] = uses.get(value, 0) + 1
    inner = result.swapped(result.swaps)
    found = []
    for copy in repeating:
        source, target = copy.source.find(), copy.target.find()
        own = source.writable and source.parameter is None and first <= source.intervals[0][0]
        if target.size < SWAPPED_BYTES or source.size != target.size or not own or inner & {source, target}:
            continue
        if uses[source] == uses[target] == 1 and source.intervals[-1][1] <= last:
            occupy(source, result.positions[loop], last + 2)
            found.append(copy)
    return found


def _parallel(result: Assignment, copies: list[Copy], position: int) -> list[Copy]:
    """Order copies that happen at once, so that none overwrites what a later one reads; cycles go through a spare.

    Each storage is the target of one copy at most.
    """
    waiting = {copy.target.find(): copy for copy in copies if copy.source.find() is not copy.target.find()}
    readers: dict[Value, int] = {}
    for copy in waiting.values():
        readers[copy.source.find()] = readers.get(copy.source.find(), 0) + 1
    free = [target for target in waiting if target not in readers]
    ordered: list[Copy] = []
    spares: dict[Value, Value] = {}
    while waiting:
        if not free:  # only cycles are left: save what one of their copies overwrites
            target = next(iter(waiting))
            lost = waiting[target].target
            spares[target] = result.value(lost.shape, lost.size, position)
            ordered.append(Copy(lost, spares[target]))
            free.append(target)
        copy = waiting.pop(free.pop())
        source = copy.source.find()
        ordered.append(Copy(spares.get(source, copy.source), copy.target))
        readers[source] -= 1
        if readers[source] == 0 and source in waiting and source not in spares:
            free.append(source)
    return ordered


def _merge_branches(result: Assignment, conditional: Instruction, ends: dict[Computation, int]) -> None:
    """Share storage between the results of branches and the result of the conditional."""
    own = result.leaves[conditional]
    for number, branch in enumerate(branch_computations(conditional)):
        pairs = zip(own, result.leaves[branch.root], strict=True)
        copies = [Copy(source, target) for target, source in pairs if not _try_merge(source, target)]
        result.branch_copies[conditional, number] = copies
    for number, branch in enumerate(branch_computations(conditional)):
        copies = result.branch_copies[conditional, number]
        result.branch_copies[conditional, number] = _parallel(result, copies, ends[branch])
    first = result.positions[conditional]
    for value in own:
        occupy(value, first, value.find().intervals[-1][0])


def occupy(value: Value, start: int, end: int) -> None:
    """Mark the storage of `value` as taken from `start` to `end`."""
    _union(value, Value(-1, value.shape, 0, [(start, end)]))


def _claim(result: Assignment, entry: Computation, donation: Donation, offers: dict[Value, list[_Offer]]) -> None:
    """Decide which result each donated parameter is for, and mark the values that lead from one to the other.

    A result that wants no parameter in particular gets one that it can be computed in, else one of its shape.
    """
    roots = result.leaves[entry.root]
    for number, value in enumerate(roots):
        if value.result is None:
            value.result = number
    takers: dict[Value, list[Value]] = {}  # what a loop's state or a conditional's result may take over
    for instruction in result.leaves:
        if instruction.opcode == "while":
            body = result.leaves[instruction.attributes["body"].root]
            initial = result.leaves[instruction.operands[0]]
            for own, *sources in zip(result.leaves[instruction], body, initial, strict=True):
                takers.setdefault(own, []).extend(sources)
        elif instruction.opcode == "conditional":
            for branch in branch_computations(instruction):
                for own, source in zip(result.leaves[instruction], result.leaves[branch.root], strict=True):
                    takers.setdefault(own, []).append(source)
    taken = set(donation.wanted.values())
    seen: set[Value] = set()
    for number, value in enumerate(roots):
        wanted = donation.wanted.get(number)
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if value in seen or value.result not in (None, number):
                continue
            if value.parameter is not None:
                free = wanted is None and value.parameter in donation.arguments and value.parameter not in taken
                if free and _kind(value) == _kind(roots[number]):
                    wanted = value.parameter
                    taken.add(wanted)
                continue
            seen.add(value)
            value.claim = number
            waiting += [_operand(result, offer) for offer in offers.get(value, ())]
            waiting += takers.get(value, ())
        if wanted is not None:
            result.aliases[number] = wanted
    left: dict[object, deque[int]] = {}
    for argument in sorted(donation.arguments - taken):
        left.setdefault(_kind(result.parameters[argument]), deque()).append(argument)
    for number, value in enumerate(roots):
        if number not in result.aliases and left.get(_kind(value)):
            result.aliases[number] = left[_kind(value)].popleft()
    for number, argument in result.aliases.items():
        result.parameters[argument].claim = number
        if roots[number].parameter is None:
            roots[number].claim = number


def _kind(value: Value) -> object:
    """What two values have in common whose arrays may stand for each other."""
    return None if value.shape is None else (value.shape.element_type, value.shape.dimensions)


def _merge_outputs(result: Assignment, entry: Computation, donation: Donation, last: int) -> None:
    """Let results be computed where they are to be, or have them copied there at the end."""
    into_parameters: list[Copy] = []
    for number, value in enumerate(result.leaves[entry.root]):
        output = result.value(value.shape, value.size)
        output.output = number
        result.outputs.append(output)
        if number in result.aliases:
            parameter = result.parameters[result.aliases[number]]
            if value is parameter or _try_merge(parameter, value):
                output.parent = parameter.find()
                continue
            if number in donation.required:
                output.parent = parameter.find()
                into_parameters.append(Copy(value, parameter))
                continue
            del result.aliases[number]
        root = value.find()
        if root.writable and root.parameter is None and root.output is None and root.size == output.size:
            root.output = number
            output.parent = root
        else:
            result.output_copies.append(Copy(value, output))
    # Other results read what these write.
    result.output_copies += _parallel(result, into_parameters, last)

