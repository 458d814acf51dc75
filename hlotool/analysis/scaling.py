"""A program for some devices on another number of them: which groups grow, and what that means.

Devices are numbered as in `ir.devices`.  The outermost axis on which a program works grows or shrinks: the device
number ``d`` is cut into ``(d // block, d % block)``, with the smallest block for which every exchange is either within
blocks, the same in each of them, or among all blocks alike.  Of eight devices that all take part in one all-reduce, as
in data parallel training, the block is 1, and N devices take part then; where four of them each hold a part of the
model, the block is 4, groups within it stay as they are, and those across blocks grow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hlotool.ir import UNBOUNDED, Instruction
from hlotool.ir.errors import UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["MODES", "Scaling", "grown_groups", "grown_pairs", "scaling_of"]

Groups = Sequence[Sequence[int]]
MODES = ("weak", "sharded")


@dataclass(frozen=True, slots=True)
class Scaling:
    """A program for `given` devices on `devices`: blocks of `block` devices, of which there are more or fewer."""

    given: int
    devices: int
    block: int
    mode: str = "weak"

    @property
    def changes(self) -> bool:
        return self.given != self.devices

    def words(self) -> str:
        """What is scaled, for people."""
        if not self.changes:
            return f"the program as it is, on its {self.given} devices"
        before, after = self.given // self.block, self.devices // self.block
        if self.block == self.given:
            return f"copies: {after} of the program, which exchange nothing with each other"
        kind = "weak scaling" if self.mode == "weak" else "sharded"
        what = (
            "a device computes on the same shapes"
            if self.mode == "weak"
            else "results of growing all-gathers and operands of growing reduce-scatters keep their sizes, the parts "
            "that a device holds become others; it computes as before, and memory is that of the program as it is"
        )
        return f"{kind}: {before} blocks of {self.block} become {after}, groups across them grow; {what}"


def scaling_of(given: int, devices: int, groups: Collection[Groups], pairs: Collection[Groups], mode: str) -> Scaling:
    """How a program with these groups and permutes runs on `devices`; UnsupportedError where that is not defined."""
    sizes = [size for size in range(1, given + 1) if given % size == 0]
    fits = (
        size for size in sizes
        if all(_within(g, size, given) or _across(g, size, given) for g in groups)
        and all(_shift(p, size, given) is not None for p in pairs)
    )  # fmt: skip
    block = given if given == devices else next(fits, given)
    if devices % block:
        unit = "a copy of the program" if block == given else "a block that stays together"
        raise UnsupportedError(f"{devices} devices are no multiple of {block}, {unit}")
    return Scaling(given, devices, block, mode)


def grown_groups(instruction: Instruction, groups: Groups, scaling: Scaling) -> Groups:
    """The groups of a collective on the devices of `scaling`; UnsupportedError where its shapes would not fit."""
    if not scaling.changes:
        return groups
    block, count = scaling.block, scaling.devices // scaling.block
    if _within(groups, block, scaling.given):
        first = [group for group in groups if group[0] < block]
        return [tuple(block * n + d for d in group) for n in range(count) for group in first]
    _check(instruction, len(groups[0]) // (scaling.given // block) * count, scaling)
    kept = [[d for d in group if d < block] for group in groups]
    return [tuple(block * n + d for n in range(count) for d in group) for group in kept]


def grown_pairs(pairs: Groups, scaling: Scaling) -> Groups:
    """The pairs of a permute on the devices of `scaling`."""
    if not scaling.changes:
        return pairs
    block, count = scaling.block, scaling.devices // scaling.block
    steps = _shift(pairs, block, scaling.given)
    assert steps is not None  # as `scaling_of` found out
    if steps == 0:
        first = [(s, t) for s, t in pairs if s < block]
        return [(block * n + s, block * n + t) for n in range(count) for s, t in first]
    before = scaling.given // block
    wraps = len({s // block for s, _ in pairs}) == before
    lines = sorted({(s % block, t % block) for s, t in pairs})
    found = []
    for number in range(count):
        target = number + steps
        if wraps or 0 <= target < count:
            found += [(block * number + s, block * (target % count) + t) for s, t in lines]
    return found


def _check(instruction: Instruction, count: int, scaling: Scaling) -> None:
    """UnsupportedError where a group that grows to `count` devices is none that the shapes allow."""
    opcode, name = instruction.opcode.removesuffix("-start"), instruction.name
    if opcode in ("all-gather", "reduce-scatter") and scaling.mode == "weak":
        raise UnsupportedError(
            f"{name}: the shapes of {opcode} depend on the size of its group, which would grow: weak scaling is not "
            "defined; --scaling sharded has whole arrays keep their sizes"
        )
    if opcode == "ragged-all-to-all":
        raise UnsupportedError(f"{name}: the shapes of {opcode} depend on the size of its group, which would grow")
    if opcode == "all-to-all":
        dimensions = instruction.attributes.get("dimensions")
        size = instruction.operands[0].shape.dimensions[dimensions[0]] if dimensions else UNBOUNDED
        if size == UNBOUNDED or size % count:
            raise UnsupportedError(f"{name}: {opcode} cannot divide its operand among a group of {count}")


def _within(groups: Groups, block: int, given: int) -> bool:
    """Whether every group lies in one block, and all blocks have the same groups."""
    if any(d // block != group[0] // block for group in groups for d in group):
        return False
    found = {tuple(group) for group in groups}
    return all(tuple((d + block) % given for d in group) in found for group in found)


def _across(groups: Groups, block: int, given: int) -> bool:
    """Whether every group has the same devices of all blocks, in order of the blocks."""
    return all(
        sorted((d + block) % given for d in group) == sorted(group)
        and [d // block for d in group] == sorted(d // block for d in group)
        for group in groups
    )


def _shift(pairs: Groups, block: int, given: int) -> int | None:
    """How many blocks further all messages go, 0 within blocks; None where blocks differ in that.

    The last ones may send to the first ones, as around a ring, or to nobody.
    """
    found = {tuple(pair) for pair in pairs}
    count = given // block
    if all(s // block == t // block for s, t in found):
        same = all(((s + block) % given, (t + block) % given) in found for s, t in found)
        return 0 if same else None
    ways = {(t // block - s // block) % count for s, t in found}
    if len(ways) != 1:
        return None
    steps = ways.pop()
    steps = steps if steps <= count // 2 else steps - count
    lines = {(s % block, t % block) for s, t in found}
    ring = {(block * n + s, block * ((n + steps) % count) + t) for n in range(count) for s, t in lines}
    line = {(block * n + s, block * (n + steps) + t) for n in range(count) if 0 <= n + steps < count for s, t in lines}
    return steps if found in (ring, line) else None
