"""What a gradient keeps, and what it computes again, so that it fits into so many bytes.

The program is cut into segments, each as large as the others by what the gradient wants of it; what one segment hands
to later ones is kept, and when the gradient comes to a segment, the rest of it is computed again from that, behind a
barrier that waits for the cotangent (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost",
2016).  Of the rest, what takes the most work for its bytes is kept, too, as long as there is room.  Of the numbers of
segments, powers of two, that one is taken which repeats the least work.

Peaks are predicted from shapes in program order, as `analysis.peak_memory` does it: fusions, which leave values out,
are still to come, so that the compiled program takes less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.peak_memory import owned_bytes
from hlotool.analysis.views import is_view
from hlotool.ir import Computation, Instruction, Module, UnsupportedError, clone_instruction
from hlotool.ir.builder import Builder
from hlotool.ir.effects import is_pure
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.autodiff.control import held_apart
from hlotool.passes.framework.graph import has_sizes

__all__ = ["rematerialise"]

_VIEWS = frozenset({"tuple", "get-tuple-element", "bitcast", "reshape", "opt-barrier", "add-dependency", "domain"})
_FREE = frozenset({"constant", "iota"})


@dataclass(frozen=True, slots=True)
class _Group:
    """Instructions of the program that are computed again ahead of instruction `ahead_of` of the gradient."""

    ahead_of: int
    again: tuple[int, ...]


class _Tape:
    """The entry as numbers: instructions of the program first, those of the gradient from `border` on."""

    def __init__(self, module: Module, program: Collection[Instruction]) -> None:
        costs = ModuleCost(module)
        own = [one for one in module.entry if one in program or one.opcode == "parameter"]
        inside = set(own)
        self.order = [*own, *(one for one in module.entry if one not in inside)]
        self.border = len(own)
        number = {instruction: n for n, instruction in enumerate(self.order)}
        self.operands = [tuple([number[operand] for operand in one.operands]) for one in self.order]
        self.view = [one.opcode in _VIEWS or is_view(one) for one in self.order]
        self.free = self._without_memory()
        self.bytes = [
            0 if view or free else owned_bytes(one)
            for one, view, free in zip(self.order, self.view, self.free, strict=True)
        ]
        total = [costs.of(one) for one in own]
        self.work = [cost.flops + cost.transcendentals for cost in total]
        self.root = next(n for n in range(len(self.order) - 1, -1, -1) if self.order[n].is_root)
        self.fixed = self._fixed()
        self.wanted = self._wanted()

    def _without_memory(self) -> list[bool]:
        """Constants, and what repeats numbers: every reader computes it for itself."""
        found: list[bool] = []
        for one, operands in zip(self.order, self.operands, strict=True):
            spread = one.opcode == "broadcast" and (found[operands[0]] or not one.operands[0].shape.dimensions)
            found.append(one.opcode in _FREE or spread)
        return found

    def _fixed(self) -> set[int]:
        """What is there anyway, or cannot be computed twice: parameters, results, effects."""
        pure: dict[Computation, bool] = {}
        found = {
            n for n, one in enumerate(self.order[: self.border])
            if one.opcode == "parameter" or not is_pure(one, pure) or has_sizes(one)
        }  # fmt: skip
        waiting = [self.root]
        while waiting:
            n = waiting.pop()
            if n < self.border:
                found.add(n)
            if self.view[n]:
                waiting += self.operands[n]
        return found

    def owners(self, n: int) -> list[int]:
        """The instructions whose memory holds the value."""
        found, waiting = [], [n]
        while waiting:
            n = waiting.pop()
            if self.view[n] and self.operands[n]:
                waiting += self.operands[n]
            else:
                found.append(n)
        return found

    def _wanted(self) -> list[int]:
        """What the gradient keeps of the program, but for what is `fixed`, in order."""
        found: set[int] = set()
        for operands in self.operands[self.border :]:
            for operand in operands:
                if operand < self.border:
                    found.update(self.owners(operand))
        return sorted(n for n in found - self.fixed if self.bytes[n])

    def handed_on(self, segments: int) -> set[int]:
        """What segments hand to later ones; borders are where that is little, near where segments are of a size."""
        if segments < 2:
            return set()
        last = list(range(self.border))  # where a value of the program is read last, by the program
        owners = [self.owners(n) if self.view[n] else [n] for n in range(self.border)]
        for n in range(self.border):
            for operand in self.operands[n]:
                for owner in owners[operand]:
                    last[owner] = n
        crossing = [0] * (self.border + 1)
        for n in range(self.border):
            if n not in self.fixed and self.bytes[n]:
                crossing[n + 1] += self.bytes[n]
                crossing[last[n] + 1 if last[n] > n else n + 1] -= self.bytes[n]
        for n in range(self.border):
            crossing[n + 1] += crossing[n]
        sizes = [0]
        for n in self.wanted:
            sizes.append(sizes[-1] + self.bytes[n])
        places = []
        for k in range(1, segments):
            low, high = ((2 * k + side) * sizes[-1] / (2 * segments) for side in (-1, 1))
            first, end = (min(bisect_left(sizes, at), len(self.wanted) - 1) for at in (low, high))
            span = range(self.wanted[first], self.wanted[end] + 1)
            places.append(min(span, key=lambda place: (crossing[place + 1], place)) + 1)
        kept: set[int] = set()
        places = sorted(set(places))
        for n in range(self.border):
            if n not in self.fixed and self.bytes[n]:
                after = bisect_left(places, n + 1)
                if after < len(places) and places[after] <= last[n]:
                    kept.add(n)
        return kept

    def there(self, kept: Collection[int]) -> list[bool]:
        """Which values of the program need not be computed again."""
        found: list[bool] = []
        for n in range(self.border):
            through = self.view[n] and self.order[n].opcode != "tuple" and all(found[o] for o in self.operands[n])
            found.append(n in self.fixed or n in kept or through or self.order[n].opcode == "constant")
        return found

    def groups(self, kept: Collection[int]) -> list[_Group]:
        """What is computed again, and when, if `kept` and what is fixed are all that is kept."""
        there, found = self.there(kept), []
        for n in range(self.border, len(self.order)):
            again: set[int] = set()
            waiting = [o for o in self.operands[n] if o < self.border and not there[o]]
            while waiting:
                one = waiting.pop()
                if not there[one]:
                    there[one] = True
                    again.add(one)
                    waiting += self.operands[one]
            if again:
                found.append(_Group(n, tuple(sorted(again))))
        return found

    def repeated(self, groups: Sequence[_Group]) -> int:
        """The work of what is computed again."""
        return sum(self.work[n] for group in groups for n in group.again)

    def peak(self, groups: Sequence[_Group]) -> int:
        """The most bytes that are alive at once.  What is computed again has the numbers behind those of the order."""
        count = len(self.order)
        steps: list[int] = list(range(self.border))
        copies: dict[int, int] = {}
        by_place = {group.ahead_of: group for group in groups}
        for n in range(self.border, count):
            if n in by_place:
                for one in by_place[n].again:
                    copies[one] = count + one
                    steps.append(count + one)
            steps.append(n)
        stored: dict[int, tuple[int, ...]] = {}
        last: dict[int, int] = {}
        for time, step in enumerate(steps):
            n = step % count
            copied = step >= count or n >= self.border
            operands = [copies.get(o, o) if copied else o for o in self.operands[n]]
            owned = tuple([owner for o in operands for owner in stored[o]])
            for owner in owned:
                last[owner] = time
            stored[step] = owned if self.view[n] else (step,)
            last[step] = time
        for owner in stored[self.root]:
            last[owner] = len(steps)
        freed = [0] * (len(steps) + 1)
        alive = 0
        for owner, time in last.items():
            if self.order[owner % count].opcode == "parameter":
                alive += self.bytes[owner % count]
            else:
                freed[time] += self.bytes[owner % count]
        most = alive
        for time, step in enumerate(steps):
            if self.order[step % count].opcode != "parameter":
                alive += self.bytes[step % count]
            most = max(most, alive)
            alive -= freed[time]
        return most


def rematerialise(module: Module, program: Collection[Instruction], bound: int, log: DecisionLog) -> None:
    """Let the entry, whose instructions but for those of `program` compute gradients, need at most `bound` bytes.

    UnsupportedError where computing everything again does not help enough.
    """
    tape = _Tape(module, program)
    before = tape.peak(())
    if before <= bound:
        return
    best: tuple[int, list[_Group]] | None = None
    least = before
    for segments in _powers(len(tape.wanted)):
        handed = tape.handed_on(segments)
        groups = tape.groups(handed)
        peak = tape.peak(groups)
        least = min(least, peak)
        if peak <= bound:
            groups = _with_more_kept(tape, handed, bound)
            work = tape.repeated(groups)
            if best is None or work < best[0]:
                best = work, groups
    if best is None:
        raise UnsupportedError(
            f"the gradient of {module.name} does not fit into {bound} bytes: it takes {before} as it is, and {least} "
            "where what it needs of the program is computed again"
        )
    _write(tape, best[1], log, before)


def _powers(count: int) -> list[int]:
    return [1 << n for n in range(max(1, count).bit_length() + 1)]


def _with_more_kept(tape: _Tape, handed: set[int], bound: int) -> list[_Group]:
    """Keep as much as there is room for, of what takes the most work for its bytes."""
    rest = sorted(
        (n for n in tape.wanted if n not in handed), key=lambda n: (-tape.work[n] / tape.bytes[n], n)
    )  # fmt: skip
    low, high, found = 0, len(rest), tape.groups(handed)
    while low < high:
        middle = (low + high + 1) // 2
        groups = tape.groups(handed | set(rest[:middle]))
        if tape.peak(groups) <= bound:
            low, found = middle, groups
        else:
            high = middle - 1
    return found


def _write(tape: _Tape, groups: Sequence[_Group], log: DecisionLog, before: int) -> None:
    """Write what is computed again ahead of its first reader, behind a barrier that waits for what is read with it."""
    after = tape.peak(groups)
    copies: dict[int, Instruction] = {}
    by_place = {group.ahead_of: group for group in groups}
    for n in range(tape.border, len(tape.order)):
        reader = tape.order[n]
        group = by_place.get(n)
        if group is not None:
            made = _again(tape, group, reader, copies)
            work, freed = tape.repeated([group]), sum(tape.bytes[one] for one in group.again)
            reason = f"{freed} bytes are computed again with {work} operations, so that they need not be kept"
            names = [tape.order[one] for one in group.again]
            log.rewrite(
                "compute-again", names, [one.name for one in made], reason,
                bytes=freed, operations=work, peak_before=before, peak_after=after,
            )  # fmt: skip
        for position, operand in enumerate(tape.operands[n]):
            if operand in copies:
                reader.replace_operand(position, copies[operand])


def _again(tape: _Tape, group: _Group, reader: Instruction, copies: dict[int, Instruction]) -> list[Instruction]:
    entry = reader.parent
    assert entry is not None
    build = Builder(entry, reader, like=reader)
    again = set(group.again)
    given = dict.fromkeys(o for n in group.again for o in tape.operands[n] if o not in copies and o not in again)
    inputs = [o for o in given if tape.order[o].opcode != "constant"]
    later = [position for position, o in enumerate(tape.operands[group.ahead_of]) if o >= tape.border][:1]
    held = held_apart(
        build, [*(tape.order[o] for o in inputs), *(reader.operands[position] for position in later)]
    )
    behind = dict(zip(inputs, held, strict=False))
    for position in later:
        reader.replace_operand(position, held[-1])
    made = []
    for n in group.again:
        operands = [copies.get(o) or behind.get(o) or tape.order[o] for o in tape.operands[n]]
        copies[n] = build.put(clone_instruction(tape.order[n], operands))
        made.append(copies[n])
    return made
