"""How many devices a program runs on, and which of them a collective brings together.

A program runs on ``replicas x partitions`` devices, all of which run the same code; replica r and partition p are
device ``r * partitions + p``.  What the numbers in ``replica_groups`` and ``source_target_pairs`` mean follows from
``channel_id`` and ``use_global_device_ids``, as in XLA:

===================  =======================  ==================================================================
channel_id           use_global_device_ids    the numbers are
===================  =======================  ==================================================================
absent               false                    replicas; every partition has groups of its own
present              (attribute unknown)      partitions; every replica has groups of its own
present              false                    replicas; a group holds all partitions of its replicas
present              true                     devices
===================  =======================  ==================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hlotool.ir.errors import Diagnostic, UnsupportedError
from hlotool.ir.module import Instruction, Module
from hlotool.ir.shape import UNBOUNDED
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "OVERLAPPED",
    "Topology",
    "check_devices",
    "device_groups",
    "device_pairs",
    "is_collective",
    "is_grouped",
    "is_overlapped",
    "is_started",
    "topology_of",
]

_GLOBAL = frozenset({"all-reduce", "all-gather", "reduce-scatter"})
_GROUPED = _GLOBAL | {"all-to-all", "ragged-all-to-all", "collective-broadcast"}
_SYNCHRONOUS = _GROUPED | {"collective-permute"}
_AMONG_DEVICES = _SYNCHRONOUS | {f"{opcode}-start" for opcode in _SYNCHRONOUS} | {"send", "recv"}
OVERLAPPED = ("overlap", "keep")
"""The entry of ``frontend_attributes`` of the first half of a collective that is to stay apart from the second one."""

_SEND_RECV_PAIRS = "_xla_send_recv_source_target_pairs"
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """The devices that run a program."""

    replicas: int = 1
    partitions: int = 1

    @property
    def devices(self) -> int:
        return self.replicas * self.partitions

    def __str__(self) -> str:
        return f"{_count(self.replicas, 'replica')} and {_count(self.partitions, 'partition')}"


def topology_of(module: Module) -> Topology:
    """What the module's header says: ``replica_count`` and ``num_partitions``, one each where it says nothing."""
    return Topology(module.attributes.get("replica_count", 1), module.attributes.get("num_partitions", 1))


def is_grouped(opcode: str) -> bool:
    """Whether the opcode has ``replica_groups``."""
    return opcode.removesuffix("-start") in _GROUPED


def is_collective(opcode: str) -> bool:
    """Whether devices meet for it: collectives, and the first halves of asynchronous ones."""
    return opcode.removesuffix("-start") in _SYNCHRONOUS


def is_started(instruction: Instruction) -> bool:
    """Whether a collective is the first half of an asynchronous one, and the second half follows, with nothing between
    the two that could look at its value."""
    if not (is_collective(instruction.opcode) and instruction.opcode.endswith("-start")):
        return False
    users = list(instruction.users)
    return len(users) == 1 and users[0].opcode == instruction.opcode.removesuffix("-start") + "-done"


def is_overlapped(instruction: Instruction) -> bool:
    """Whether a collective goes on while others run, up to its second half: it is marked so."""
    attributes = instruction.attributes.get("frontend_attributes", {})
    return is_started(instruction) and attributes.get(OVERLAPPED[0]) == OVERLAPPED[1]


def device_groups(instruction: Instruction, topology: Topology) -> Groups:
    """The groups of devices in which a collective with ``replica_groups`` works, in order."""
    written = instruction.attributes.get("replica_groups")
    replicas, partitions = topology.replicas, topology.partitions
    numbers = _numbering(instruction)
    groups: Groups = written.groups if written is not None else ()
    if not groups:
        everyone = {"partition": partitions, "device": topology.devices}.get(numbers, replicas)
        groups = (tuple(range(everyone)),)
    match numbers:
        case "replica":
            return tuple(tuple(r * partitions + p for r in group) for group in groups for p in range(partitions))
        case "partition":
            return tuple(tuple(r * partitions + p for p in group) for group in groups for r in range(replicas))
        case "replica of every partition":
            return tuple(tuple(r * partitions + p for r in group for p in range(partitions)) for group in groups)
        case _:
            return groups


def device_pairs(instruction: Instruction, topology: Topology) -> tuple[tuple[int, int], ...]:
    """The (source, target) devices of a collective-permute, a send or a recv."""
    replicas, partitions = topology.replicas, topology.partitions
    pairs = _written_pairs(instruction)
    if pairs is None:
        raise UnsupportedError(f"{instruction.name}: {_nobody(instruction)}")
    if _numbering(instruction, topology) == "replica":
        return tuple((s * partitions + p, t * partitions + p) for s, t in pairs for p in range(partitions))
    return tuple((r * partitions + s, r * partitions + t) for s, t in pairs for r in range(replicas))


def _numbering(instruction: Instruction, topology: Topology | None = None) -> str:
    """What the numbers in the attributes count: the table above."""
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in ("send", "recv"):
        # XLA sends between replicas on channel 0.  Where there is one partition, or one replica, there is no choice.
        if topology is not None and 1 in (topology.replicas, topology.partitions):
            return "replica" if topology.partitions == 1 else "partition"
        return "partition" if instruction.attributes.get("channel_id", 0) > 0 else "replica"
    if instruction.attributes.get("channel_id") is None:
        return "replica"
    if opcode not in _GLOBAL:
        return "partition"
    return "device" if instruction.attributes.get("use_global_device_ids") else "replica of every partition"


def _written_pairs(instruction: Instruction) -> tuple[tuple[int, int], ...] | None:
    if instruction.opcode not in ("send", "recv"):
        pairs: tuple[tuple[int, int], ...] = instruction.attributes["source_target_pairs"]
        return pairs
    text = instruction.attributes.get("frontend_attributes", {}).get(_SEND_RECV_PAIRS)
    if text is None:
        return None
    return tuple((int(s), int(t)) for s, t in re.findall(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}", text.strip('"')))


# ---- whether a module fits its devices


def check_devices(module: Module) -> None:
    """Raise UnsupportedError, naming every instruction, unless the collectives of `module` fit its topology."""
    topology = topology_of(module)
    hint = "say with --replicas and --partitions (replicas=, partitions= of hlotool.compile) how many devices there are"
    found = [
        Diagnostic(
            f"{instruction.name}: {why}", instruction.location, hint if "runs on" in why else None,
            code=UnsupportedError.code,
        )
        for computation in module.callees_first()
        for instruction in computation
        if instruction.opcode in _AMONG_DEVICES
        for why in _misfits(instruction, topology)
    ]
    if found:
        raise UnsupportedError(found[0].message, found)


def _nobody(instruction: Instruction) -> str:
    says = f"{instruction.opcode} says neither is_host_transfer=true nor {_SEND_RECV_PAIRS}"
    return f"{says}: nobody is at the other end"


def _misfits(instruction: Instruction, topology: Topology) -> Iterator[str]:
    opcode, attributes = instruction.opcode, instruction.attributes
    here = f"the program runs on {topology}"
    if opcode in ("send", "recv"):
        if attributes.get("is_host_transfer"):
            return
        if _written_pairs(instruction) is None:
            yield _nobody(instruction)
            return
    if attributes.get("use_global_device_ids") and attributes.get("channel_id") is None:
        yield f"{opcode} with use_global_device_ids needs a channel_id"
        return
    numbers = _numbering(instruction, topology)
    noun = numbers.partition(" ")[0]
    limit = {"replica": topology.replicas, "partition": topology.partitions}.get(noun, topology.devices)
    written = attributes.get("replica_groups")
    named: Any = written.groups if written is not None else ()
    if not is_grouped(opcode):
        named = _written_pairs(instruction) or ()
    unknown = sorted({number for group in named for number in group if not 0 <= number < limit})
    if unknown:
        yield f"{opcode} among several participants: {here}, there is no {noun} {unknown[0]}"
    elif is_grouped(opcode):
        groups = device_groups(instruction, topology)
        missing = sorted(set(range(topology.devices)).difference(*groups))
        if missing and opcode != "collective-broadcast":
            yield f"{opcode}: {here}, and device {missing[0]} is in none of the replica groups"
        elif wrong := _wrong_size(instruction, groups):
            yield f"{opcode} {wrong}: {here}"


def _wrong_size(instruction: Instruction, groups: Groups) -> str:
    """What the shapes say about the size of a group, where that is another."""
    opcode, attributes = instruction.opcode.removesuffix("-start"), instruction.attributes
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1:
        return "" if opcode in ("all-reduce", "collective-broadcast") else f"in groups of {sizes[0]} and {sizes[-1]}"
    size = sizes[0]
    operand = instruction.operands[0].shape
    match opcode:
        case "all-gather" | "reduce-scatter":
            result = instruction.shape if opcode == instruction.opcode else instruction.shape.elements[1]
            result = result.elements[0] if result.is_tuple else result
            (dimension,) = attributes["dimensions"]
            given, made = operand.dimensions[dimension], result.dimensions[dimension]
            small, large = (given, made) if opcode == "all-gather" else (made, given)
            if UNBOUNDED not in (small, large) and small * size != large:
                return f"of {operand} gives {result}, which is not right for a group of {size}"
        case "all-to-all" if attributes.get("dimensions"):
            (dimension,) = attributes["dimensions"]
            if operand.dimensions[dimension] % size:
                return f"of {operand} cannot be split among a group of {size}"
        case "all-to-all":
            if len(instruction.operands) != size:
                return f"of {_count(len(instruction.operands), 'operand')} in a group of {size}"
        case "ragged-all-to-all":
            parts = instruction.operands[2].shape.size
            if parts % size:
                return f"of {_count(parts, 'part')} in a group of {size}"
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
