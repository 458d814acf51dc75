"""What a fusion stores: its results by the space that loops have to go over for them."""

from __future__ import annotations

from collections.abc import Collection

from hlotool.analysis.in_place import leaves_border
from hlotool.analysis.indexing import Index, linearize
from hlotool.codegen.loops.nodes import Node
from hlotool.codegen.loops.rules import region_starts
from hlotool.codegen.loops.trace import Tracer
from hlotool.ir import Computation, Instruction, Shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass

__all__ = ["Output", "body_of_one", "groups_of", "output_leaves", "parts_of", "store_output"]


@dataclass(frozen=True, slots=True)
class Output:
    """Result `leaf` of `value`, to be stored in table slot `slot`."""

    value: Instruction
    leaf: int
    slot: int
    shape: Shape
    region: Instruction | None = None  # the dynamic-update-slice whose region alone is written

    @property
    def space(self) -> tuple[int, ...]:
        return self.shape.dimensions if self.region is None else self.region.operands[1].shape.dimensions


def output_leaves(root: Instruction) -> list[tuple[Instruction, int, Shape]]:
    """The results of a body: instruction, number of its leaf and shape."""
    if root.opcode == "tuple":
        return [found for operand in root.operands for found in output_leaves(operand)]
    return [(root, n, shape) for n, shape in enumerate(root.shape.leaves())]


def groups_of(root: Instruction, first: int, in_place: frozenset[int]) -> list[list[Output]]:
    """Outputs by loop space: whole arrays, largest first, then the regions that are updated in them.

    An array of which most is written at a known place, and not where it lies, is computed in one pass: every element
    is one of the region or of the border.

    `first` is the slot of the first output in the argument table; for `in_place` see `emit_fusion`.
    """
    body = root.parent
    reduces = body is None or any(i.opcode in ("reduce", "reduce-window") for i in body)
    spaces: dict[tuple[int, ...], list[Output]] = {}
    regions: dict[tuple[int, ...], list[Output]] = {}
    for number, (value, leaf, shape) in enumerate(output_leaves(root)):
        update = value.opcode == "dynamic-update-slice" and shape.rank > 0
        if update and (number in in_place or reduces or not leaves_border(value)):
            region = Output(value, leaf, first + number, shape, value)
            if value.operands[1].shape.size:
                regions.setdefault(region.space, []).append(region)
            if number in in_place:
                continue
            value, leaf = value.operands[0], 0
        if shape.size:
            spaces.setdefault(shape.dimensions, []).append(Output(value, leaf, first + number, shape))
    whole = sorted(spaces.values(), key=lambda g: -g[0].shape.size)
    return [*whole, *regions.values()]


def store_output(tracer: Tracer, output: Output, index: tuple[Index, ...]) -> Node:
    """The store of the element at `index` of an output's space."""
    at, value, leaf = index, output.value, output.leaf
    if output.region is not None:
        starts = region_starts(tracer, output.region)
        value, leaf = output.region.operands[1], 0
        at = tuple(x + s for x, s in zip(index, starts, strict=True))
    node = tracer.element(value, index, (), leaf)
    position = linearize(at, output.shape.dimensions)
    return tracer.node("store", output.shape.element_type, (node,), index=position, slot=output.slot)


def parts_of(concatenate: Instruction, there: Collection[int], most: int) -> list[list[Output]]:
    """A concatenate as updates of parts of its result, by all operands but those in `there`, which lie there already.

    Those of the same dimensions are a group, of at most so many.
    """
    build = Builder(Computation(concatenate.name))
    shape, slot = concatenate.shape, len(concatenate.operands)
    along = concatenate.attributes["dimensions"][0]
    whole = build.parameter(slot, shape)
    groups: list[list[Output]] = []
    last: dict[tuple[int, ...], list[Output]] = {}
    start = 0
    for number, operand in enumerate(concatenate.operands):
        part = build.parameter(number, operand.shape)
        if number not in there and operand.shape.size:
            starts = [build.constant(start if d == along else 0, "s64") for d in range(shape.rank)]
            update = build.add("dynamic-update-slice", shape, [whole, part, *starts])
            group = last.get(operand.shape.dimensions)
            if group is None or len(group) == most:
                group = last[operand.shape.dimensions] = []
                groups.append(group)
            group.append(Output(update, 0, slot, shape, update))
        start += operand.shape.dimensions[along]
    return groups


def body_of_one(instruction: Instruction) -> Computation:
    """What a fusion calls; of another instruction a computation of it alone."""
    if instruction.opcode == "fusion":
        calls: Computation = instruction.attributes["calls"]
        return calls
    build = Builder(Computation(instruction.name or "single"))
    parameters = [build.parameter(number, operand.shape) for number, operand in enumerate(instruction.operands)]
    own = build.add(instruction.opcode, instruction.shape, parameters, instruction.attributes, instruction.name)
    build.computation.root = own
    return build.computation
