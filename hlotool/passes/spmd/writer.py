"""Writing of a computation for one device of many: its number, its tiles, masks, and collectives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Module, array, dtype_of, scalar
from hlotool.ir.attributes import ReplicaGroups
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.tiling import Axis, Groups, tile_size
from hlotool.passes.spmd.values import Part

__all__ = ["Work", "Writer", "partial_type"]


@dataclass(slots=True)
class Work:
    """What is known while a module is partitioned among `devices`, of which there are `replicas` such sets.

    Operands of products that would be gathered to `passed_from` bytes are passed on in tiles; none where it is None.
    """

    module: Module
    devices: int
    replicas: int
    log: DecisionLog
    channel: int
    passed_from: int | None
    combiners: dict[tuple[str, str], Computation] = field(default_factory=dict)
    written: dict[Hashable, Any] = field(default_factory=dict)
    named: set[Instruction] = field(default_factory=set)

    def next_channel(self) -> int:
        self.channel += 1
        return self.channel

    def combiner(self, opcode: str, element_type: str) -> Computation:
        """A computation that combines two scalars."""
        key = opcode, element_type
        if key not in self.combiners:
            made = binary_computation(opcode, element_type, self.module.unique_name(opcode))
            self.combiners[key] = self.module.add(made)
        return self.combiners[key]


class Writer:
    """Writes into one computation."""

    def __init__(self, work: Work, computation: Computation) -> None:
        self.work = work
        self.build = Builder(computation)
        self._made: dict[Hashable, Instruction] = {}

    def once(self, key: Hashable, make: Callable[[], Instruction]) -> Instruction:
        """An instruction that is written where it is asked for first."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    # ---- numbers that differ from device to device

    def table(self, numbers: Sequence[int]) -> Instruction:
        """The number of this device, as s32[]: a constant where all are the same."""
        values = tuple(numbers)
        if len(set(values)) == 1:
            return self.once(values[0], lambda: self.build.scalar_constant(values[0], "s32"))
        return self.once(values, lambda: self._looked_up(values))

    def _looked_up(self, values: tuple[int, ...]) -> Instruction:
        device = self.once("partition-id", lambda: self.build.add("partition-id", scalar("u32")))
        rows = self.build.constant(np.array(values, np.int32))
        return self.build.reshape(self.build.dynamic_slice(rows, [device], [1]), ())

    def offset(self, axis: Axis, size: int) -> Instruction:
        """Where the tile of this device begins in a dimension of `size`."""
        step = tile_size(size, axis.count)
        return self.table([place * step for place in axis.places])

    # ---- pieces of what a device has

    def at(self, x: Instruction, starts: Mapping[int, Sequence[int]], sizes: Mapping[int, int]) -> Instruction:
        """A piece of `x`: of each dimension of `starts`, from where this device's number says on, `sizes` elements.

        Behind the ends of `x` anything may stand.
        """
        starts = {d: tuple(numbers) for d, numbers in starts.items()}
        padding = []
        for d, n in enumerate(x.shape.dimensions):
            low = max(0, -min(starts[d])) if d in starts else 0
            high = max(0, max(starts[d]) + sizes[d] - n) if d in starts else 0
            padding.append((low, high))
        if any(low or high for low, high in padding):
            x = self.padded(x, padding)
            starts = {d: tuple([n + padding[d][0] for n in numbers]) for d, numbers in starts.items()}
        dims = x.shape.dimensions
        wanted = [sizes.get(d, n) for d, n in enumerate(dims)]
        if tuple(wanted) == dims and all(set(numbers) == {0} for numbers in starts.values()):
            return x
        if all(len(set(numbers)) == 1 for numbers in starts.values()):
            begin = [starts[d][0] if d in starts else 0 for d in range(len(dims))]
            return self.build.slice(x, begin, [b + n for b, n in zip(begin, wanted, strict=True)])
        zero = (0,) * self.work.devices
        return self.build.dynamic_slice(x, [self.table(starts.get(d, zero)) for d in range(len(dims))], wanted)

    def padded(self, x: Instruction, padding: Sequence[Sequence[int]], fill: Instruction | None = None) -> Instruction:
        value = fill if fill is not None else self.zero(x.shape.element_type)
        return self.build.pad(x, value, padding)

    def zero(self, element_type: str) -> Instruction:
        """Bytes of zero, as a scalar."""
        blank = np.zeros((), dtype_of(element_type))
        return self.once(("zero", element_type), lambda: self.build.constant(blank, element_type))

    def grown(self, x: Instruction, dimension: int, size: int) -> Instruction:
        """`x` with at least `size` elements along a dimension; anything may stand in what is new."""
        missing = size - x.shape.dimensions[dimension]
        if missing <= 0:
            return x
        return self.padded(x, [(0, missing if d == dimension else 0) for d in range(x.shape.rank)])

    def cut(self, x: Instruction, dimension: int, size: int) -> Instruction:
        """The first `size` elements along a dimension."""
        if x.shape.dimensions[dimension] == size:
            return x
        limits = [size if d == dimension else n for d, n in enumerate(x.shape.dimensions)]
        return self.build.slice(x, [0] * x.shape.rank, limits)

    # ---- masks

    def masked(self, part: Part, dimensions: Sequence[int], fill: Instruction | None = None) -> Instruction:
        """What this device has, with `fill` (zero) behind the end of the array along some dimensions."""
        x = part.local
        for d in dimensions:
            size, axis = part.shape.dimensions[d], part.tiling.axes[d]
            if size % axis.count:
                places = [place * tile_size(size, axis.count) for place in axis.places]
                x = self.within(x, d, places, size, fill)
        return x

    def within(
        self, x: Instruction, dimension: int, starts: Sequence[int], size: int, fill: Instruction | None = None
    ) -> Instruction:
        """`x`, whose elements have the numbers from `starts` on, with `fill` where these are not in 0 to `size`: a
        number, zero if none is given, or an array like `x`."""
        count = x.shape.dimensions[dimension]
        if all(n >= 0 and n + count <= size for n in starts):
            return x
        build = self.build
        index = array("s32", x.shape.dimensions)
        first = build.broadcast(self.table(starts), (), index)
        number = build.binary("add", build.iota(index, dimension), first)
        inside = build.compare(number, build.splat(size, index), "LT")
        if min(starts) < 0:
            inside = build.binary("and", inside, build.compare(number, build.splat(0, index), "GE"))
        value = fill if fill is not None else self.zero(x.shape.element_type)
        if value.shape.dimensions != x.shape.dimensions:
            value = build.broadcast(value, (), x.shape.dimensions)
        return build.select(inside, x, value)

    # ---- collectives

    def all_gather(self, x: Instruction, dimension: int, groups: Groups) -> Instruction:
        sizes = list(x.shape.dimensions)
        sizes[dimension] *= len(groups[0])
        attributes = {**self._global(groups), "dimensions": (dimension,)}
        return self.build.add("all-gather", array(x.shape.element_type, sizes), [x], attributes)

    def all_reduce(self, values: Sequence[Instruction], groups: Groups, combine: Computation) -> list[Instruction]:
        """The values of all devices of a group, combined; each array by itself."""
        return [
            self.build.add("all-reduce", x.shape.without_layout(), [x], {**self._global(groups), "to_apply": combine})
            for x in values
        ]

    def reduce_scatter(self, x: Instruction, dimension: int, groups: Groups, combine: Computation) -> Instruction:
        sizes = list(x.shape.dimensions)
        sizes[dimension] //= len(groups[0])
        attributes = {**self._global(groups), "dimensions": (dimension,), "to_apply": combine}
        return self.build.add("reduce-scatter", array(x.shape.element_type, sizes), [x], attributes)

    def all_to_all(self, x: Instruction, dimension: int, groups: Groups) -> Instruction:
        """Part n along a dimension goes to the n-th device of the group, and what comes stands in the same order."""
        attributes = {
            "channel_id": self.work.next_channel(),
            "replica_groups": ReplicaGroups(groups),
            "dimensions": (dimension,),
        }
        return self.build.add("all-to-all", x.shape.without_layout(), [x], attributes)

    def permute(self, x: Instruction, pairs: Sequence[tuple[int, int]]) -> Instruction:
        """Devices get what others have; those that nobody sends to, zeros."""
        attributes = {"channel_id": self.work.next_channel(), "source_target_pairs": tuple(pairs)}
        return self.build.add("collective-permute", x.shape.without_layout(), [x], attributes)

    def broadcast(self, x: Instruction, devices: Sequence[int]) -> Instruction:
        """What the first of these devices has, on all of them."""
        attributes = {"channel_id": self.work.next_channel(), "replica_groups": ReplicaGroups((tuple(devices),))}
        return self.build.add("collective-broadcast", x.shape.without_layout(), [x], attributes)

    def _global(self, groups: Groups) -> dict[str, Any]:
        """Groups of partitions, in each replica, as numbers of devices."""
        count = self.work.devices
        every = tuple([tuple([r * count + d for d in group]) for r in range(self.work.replicas) for group in groups])
        return {
            "channel_id": self.work.next_channel(),
            "replica_groups": ReplicaGroups(every),
            "use_global_device_ids": True,
        }

    # ---- bits

    def as_bits(self, x: Instruction) -> tuple[Instruction, str]:
        """An array, and the operation that makes of it and bytes of zero the array again, exactly."""
        row = ELEMENT_TYPES[x.shape.element_type]
        if row.is_float and row.bits in (8, 16, 32, 64):
            return self.build.bitcast_convert(x, array(f"u{row.bits}", x.shape.dimensions)), "or"
        return x, "or" if row.is_integer or row.kind == "pred" else "add"

    def from_bits(self, x: Instruction, element_type: str) -> Instruction:
        """The array of which `as_bits` has made `x`."""
        if x.shape.element_type == element_type:
            return x
        return self.build.bitcast_convert(x, array(element_type, x.shape.dimensions))


def partial_type(element_type: str) -> str:
    """The type of partial sums: those of narrow floats are rounded once, after they were combined."""
    row = ELEMENT_TYPES[element_type]
    return "f32" if row.is_float and row.bits < 32 else element_type
