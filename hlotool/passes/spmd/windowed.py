"""Products of an operand that would have to be gathered: devices pass on its tiles, and multiply by each of them.

What is gathered takes as much memory as there are devices; here a device has two tiles, and multiplies by one while the
next one comes.  Facts: Wang et al. 2023, Overlap communication with dependent computation via decomposition in large
deep learning models (ASPLOS, doi:10.1145/3567955.3567959).
"""

from __future__ import annotations

from hlotool.ir import Instruction, Shape, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.loops.counted_loop import blank, counted_loop
from hlotool.passes.spmd.axes import Axes, Chosen
from hlotool.passes.spmd.partitioner import Partitioner, attributes_of
from hlotool.passes.spmd.reshard import reshard
from hlotool.passes.spmd.tiling import Axis
from hlotool.passes.spmd.values import Part

__all__ = ["Passed", "passed_on", "product_of_tiles"]


@dataclass(frozen=True, slots=True)
class Passed:
    """The operand `number` is passed on along its `dimension`, which is divided as `axis` says and has `label`."""

    number: int
    dimension: int
    axis: Axis
    label: int
    byte_size: int


def passed_on(axes: Axes, parts: list[Part], chosen: Chosen, least: int) -> Passed | None:
    """The operand that would be gathered along one dimension, from even tiles to `least` bytes or more: the largest."""
    found: Passed | None = None
    for number, (part, labels) in enumerate(zip(parts, axes.operands, strict=True)):
        target = chosen.tiling(labels)
        pairs = zip(part.tiling.axes, target.axes, strict=True)
        differing = [d for d, (mine, other) in enumerate(pairs) if mine != other]
        if len(differing) != 1:
            continue
        (d,) = differing
        axis, label, size = part.tiling.axes[d], labels[d], target.local(part.shape).byte_size
        even = part.shape.dimensions[d] % axis.count == 0
        if target.axes[d].count > 1 or not even or label is None or size < max(least, found.byte_size if found else 0):
            continue
        found = Passed(number, d, axis, label, size)
    return found


def product_of_tiles(
    p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, axes: Axes, chosen: Chosen, passed: Passed
) -> Instruction:
    """What a device computes of a dot, an array of `shape`: a loop in which each tile goes round the devices."""
    count, labels = passed.axis.count, axes.operands[1 - passed.number]
    part, other = parts[passed.number], reshard(p, parts[1 - passed.number], chosen.tiling(labels))
    kept = p.masked(other, [d for d, label in enumerate(labels) if label in axes.combined])
    mine = p.masked(part, [d for d, label in enumerate(axes.operands[passed.number]) if label in axes.combined])
    size = mine.shape.dimensions[passed.dimension]
    (result,) = axes.results
    sizes = [size if label == passed.label else n for label, n in zip(result, shape.dimensions, strict=True)]
    channel = p.work.next_channel()

    def multiplied(build: Builder, number: Instruction, state: list[Instruction]) -> Instruction:
        """The result so far, with the product of the tile that a device has after so many steps."""
        first, tile, rest, made = state
        turn = build.binary("remainder", build.binary("add", first, number), build.scalar_constant(count, "s32"))
        start = build.binary("multiply", turn, build.scalar_constant(size, "s32"))
        zero = build.scalar_constant(0, "s32")
        if passed.label in labels:
            pairs = zip(labels, rest.shape.dimensions, strict=True)
            wanted = [size if label == passed.label else n for label, n in pairs]
            rest = build.dynamic_slice(rest, [start if label == passed.label else zero for label in labels], wanted)
        operands = (rest, tile) if passed.number else (tile, rest)
        product = build.add("dot", array(shape.element_type, sizes), operands, attributes_of(i))
        if passed.label not in result:
            return build.binary("add", made, product)
        return build.dynamic_update_slice(made, product, [start if label == passed.label else zero for label in result])

    def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        first, tile, rest, _ = state
        attributes = {"channel_id": channel, "source_target_pairs": _ring(part, passed.dimension)}
        after = build.add("collective-permute", tile.shape.without_layout(), [tile], attributes)
        return [first, after, rest, multiplied(build, number, state)]

    summed = passed.label not in result
    begin = p.build.splat(0, shape) if summed else blank(p.build, shape.element_type, shape.dimensions)
    state = [p.table(passed.axis.places), mine, kept, begin]
    return multiplied(
        p.build, p.build.scalar_constant(count - 1, "s32"), counted_loop(p.work.module, p.build, count - 1, state, step)
    )


def _ring(part: Part, dimension: int) -> tuple[tuple[int, int], ...]:
    """Each device sends to the one whose tile is in front of its own, the first one to the last."""
    groups = part.tiling.groups([dimension])
    return tuple(sorted([(device, group[n - 1]) for group in groups for n, device in enumerate(group)]))
