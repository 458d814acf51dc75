"""Collectives with one participant disappear."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import OPCODES, Instruction, Module, Shape, array, dtype_of, scalar
from hlotool.ir.builder import Builder
from hlotool.ir.devices import Topology, device_groups, topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["TrivialCollectiveRemover"]

_SAME = frozenset({"all-gather", "all-reduce", "all-to-all", "collective-broadcast", "reduce-scatter"})


@dataclass(frozen=True, slots=True)
class TrivialCollectiveRemover:
    """Replaces collectives whose groups have one participant by their operands, and device numbers by zero.

    How many devices there are, the module's ``replica_count`` and ``num_partitions`` say.  On a lone device a permute
    gives what it sends itself, or zeros when nobody sends to it; a ragged all-to-all moves rows from one operand to
    the other.
    """

    name: ClassVar[str] = "trivial-collective-remover"
    opcodes: ClassVar[frozenset[str]] = frozenset(name for name, row in OPCODES.items() if row.group == "collective")

    def run(self, module: Module, log: DecisionLog) -> bool:
        topology = topology_of(module)

        def alone(build: Builder, instruction: Instruction) -> Instruction | None:
            return _result(build, instruction) if _is_trivial(instruction, topology) else None

        return expand_each(module, log, self.opcodes, alone, "alone", "nobody else takes part")


def _is_trivial(instruction: Instruction, topology: Topology) -> bool:
    match instruction.opcode:
        case "partition-id":
            return topology.partitions == 1
        case "replica-id":
            return topology.replicas == 1
        case "collective-permute":
            lone = topology.devices == 1 and "slice_sizes" not in instruction.attributes
            known = instruction.shape.is_static or _senders(instruction)  # how many zeros there are
            return bool(lone and known) and not any(_senders(instruction))
        case "ragged-all-to-all":
            source, _, *numbers = given = [operand.shape for operand in instruction.operands]
            ones = source.size > 0 and all(shape.size == 1 for shape in numbers)
            return ones and all(shape.is_static for shape in given) and _is_alone(instruction, topology)
        case opcode if opcode in _SAME:
            shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
            given = [operand.shape for operand in instruction.operands]
            same = len(shapes) == len(given) and all(a.compatible(b) for a, b in zip(shapes, given, strict=True))
            parts = opcode == "all-to-all" and not instruction.attributes.get("dimensions")  # one for each participant
            return same and not (parts and len(given) != 1) and _is_alone(instruction, topology)
        case _:
            return False


def _is_alone(instruction: Instruction, topology: Topology) -> bool:
    """Whether every device is in a group of its own."""
    groups = device_groups(instruction, topology)
    return all(len(group) == 1 for group in groups) and {d for d, in groups} == set(range(topology.devices))


def _senders(permute: Instruction) -> list[int]:
    """The devices that send to device 0."""
    return [source for source, target in permute.attributes["source_target_pairs"] if target == 0]


def _result(build: Builder, instruction: Instruction) -> Instruction:
    if instruction.opcode in ("partition-id", "replica-id"):
        return build.splat(0, instruction.shape)
    if instruction.opcode == "ragged-all-to-all":
        return _moved_rows(build, instruction)
    values = list(instruction.operands)
    if instruction.opcode == "collective-permute" and not _senders(instruction):
        values = [_blank(build, value.shape) for value in values]
    return build.tuple(values) if instruction.shape.is_tuple else values[0]


def _blank(build: Builder, shape: Shape) -> Instruction:
    """Bytes of zero, which are not the number 0 in a type that has none."""
    single = build.constant(np.zeros((), dtype_of(shape.element_type)), shape.element_type)
    return single if not shape.dimensions else build.broadcast(single, (), shape)


def _moved_rows(build: Builder, instruction: Instruction) -> Instruction:
    """The second operand with some rows of the first: where they begin, how many, and where they go are operands.

    Rows that do not exist, here or there, are left out.
    """
    source, target = instruction.operands[:2]
    rows, *row = target.shape.dimensions
    index = array("s64", [rows])

    def along(value: Instruction) -> Instruction:
        return build.broadcast(build.reshape(build.convert(value, "s64"), scalar("s64")), (), index)

    begin, count, place = (along(value) for value in instruction.operands[2:5])
    position = build.binary("subtract", build.iota(index), place)
    taken_from = build.binary("add", position, begin)
    inside = build.compare(position, build.splat(0, index), "GE")
    for condition in (
        build.compare(position, count, "LT"),
        build.compare(taken_from, build.splat(0, index), "GE"),
        build.compare(taken_from, build.splat(source.shape.dimensions[0], index), "LT"),
    ):
        inside = build.binary("and", inside, condition)
    attributes = {
        "offset_dims": tuple(range(1, target.shape.rank)),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 1,
        "slice_sizes": (1, *row),
    }
    taken = build.gather(source, taken_from, attributes)
    return build.select(build.broadcast(inside, [0], target.shape.dimensions), taken, target)
