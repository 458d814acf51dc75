"""What is in a module: opcodes, computations, constants, loops, element types and the largest values, in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, field
from heapq import nsmallest
from typing import Any

from hlotool.analysis.cost import Cost, ModuleCost
from hlotool.analysis.traffic import shape_bytes
from hlotool.inspect.signature import Signature, signature
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass

__all__ = ["ComputationRow", "LargeRow", "LoopRow", "OpcodeRow", "Stats", "TypeRow", "as_json", "stats"]


@dataclass(slots=True)
class OpcodeRow:
    """An opcode: how often it is written, how often it runs, and what all its runs cost."""

    opcode: str
    group: str
    count: int = 0
    runs: int = 0
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class ComputationRow:
    """A computation: what it is for, its instructions, how often it runs, and the cost of one run."""

    name: str
    role: str
    instructions: int
    runs: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class LoopRow:
    name: str
    computation: str
    trips: int | None
    runs: int
    cost: Cost


@dataclass(slots=True)
class TypeRow:
    """An element type: how many values have it, and their bytes."""

    element_type: str
    values: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class LargeRow:
    name: str
    computation: str
    opcode: str
    shape: str
    bytes: int
    line: int | None


@dataclass(slots=True)
class Stats:
    """The answer.  The opcode rows add up to `total`."""

    name: str
    instructions: int = 0
    constants: int = 0
    constant_bytes: int = 0
    total: Cost = field(default_factory=Cost)
    signature: Signature = field(default_factory=lambda: Signature((), ()))
    opcodes: list[OpcodeRow] = field(default_factory=list)
    computations: list[ComputationRow] = field(default_factory=list)
    loops: list[LoopRow] = field(default_factory=list)
    element_types: list[TypeRow] = field(default_factory=list)
    custom_calls: dict[str, int] = field(default_factory=dict)
    largest: list[LargeRow] = field(default_factory=list)

    def __repr__(self) -> str:
        words = f"{self.instructions} instructions, {self.total.flops} flops, {self.total.bytes} bytes"
        return f"Stats('{one_line(self.name)}', {words})"

    @property
    def input_bytes(self) -> int | None:
        return _sum(port.bytes for port in self.signature.inputs)

    @property
    def output_bytes(self) -> int | None:
        return _sum(port.bytes for port in self.signature.outputs)


def stats(module: Module, largest: int = 10) -> Stats:
    """The statistics of a valid module; the `largest` values are listed."""
    costs = ModuleCost(module)
    runs = costs.executions()
    found = Stats(module.name, module.instruction_count(), total=costs.total, signature=signature(module))
    opcodes: dict[str, OpcodeRow] = {}
    types: dict[str, TypeRow] = {}
    targets: Counter[str] = Counter()
    fused = {c for i in module.instructions() if i.opcode == "fusion" for c in i.called}
    for computation in module.computations.values():
        times = runs.get(computation, 0)
        for instruction in computation:
            _count(opcodes, instruction, costs.own(instruction), times, computation in fused)
            _measure(found, types, instruction)
            if instruction.opcode == "custom-call":
                targets[str(instruction.attributes.get("custom_call_target", ""))] += 1
            elif instruction.opcode == "while":
                trips = costs.trips(instruction)
                found.loops.append(LoopRow(instruction.name, computation.name, trips, times, costs.of(instruction)))
    found.opcodes = sorted(opcodes.values(), key=lambda row: (-row.count, row.opcode))
    found.element_types = sorted(types.values(), key=lambda row: (-row.bytes, row.element_type))
    found.custom_calls = dict(sorted(targets.items(), key=lambda item: (-item[1], item[0])))
    found.computations = _computations(module, costs, runs)
    found.largest = _largest(module, largest)
    return found


def _count(rows: dict[str, OpcodeRow], instruction: Instruction, cost: Cost, times: int, fused: bool) -> None:
    row = rows.get(instruction.written)
    if row is None:
        row = rows[instruction.written] = OpcodeRow(instruction.written, instruction.info.group)
    row.count += 1
    row.runs += times
    row.flops += cost.flops * times
    row.transcendentals += cost.transcendentals * times
    row.bytes += 0 if fused else cost.bytes * times
    row.unknown += cost.unknown if times else 0


def _measure(found: Stats, types: dict[str, TypeRow], instruction: Instruction) -> None:
    """Element types of all values, and the constants."""
    shape = instruction.shape
    if shape.is_tuple:
        return
    row = types.setdefault(shape.element_type, TypeRow(shape.element_type))
    size = shape_bytes(shape) or 0
    row.values += 1
    row.bytes += size
    if instruction.opcode == "constant":
        found.constants += 1
        found.constant_bytes += size


def _computations(module: Module, costs: ModuleCost, runs: dict[Computation, int]) -> list[ComputationRow]:
    roles = {module.entry: "entry"}
    for instruction in module.instructions():
        for name, value in instruction.attributes.items() if instruction.called else ():
            for callee in value if isinstance(value, tuple) else (value,):
                if isinstance(callee, Computation):
                    roles.setdefault(callee, _role(instruction.opcode, name))
    return [
        ComputationRow(c.name, roles.get(c, "unused"), len(c), runs.get(c, 0), costs.computation(c))
        for c in module.computations.values()
    ]


def _role(opcode: str, attribute: str) -> str:
    if opcode in ("while", "select-and-scatter"):
        return f"{opcode} {attribute}"
    return f"{opcode} branch" if opcode == "conditional" else opcode


def _largest(module: Module, count: int) -> list[LargeRow]:
    sized = ((shape_bytes(i.shape) or 0, i) for i in module.instructions() if not i.shape.is_tuple)
    order = enumerate(sized)
    chosen = nsmallest(count, order, key=lambda item: (-item[1][0], item[0]))
    return [
        LargeRow(
            i.name, i.parent.name if i.parent else "", i.written, str(i.shape), size,
            i.location.line if i.location else None,
        )
        for _, (size, i) in chosen
    ]  # fmt: skip


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def as_json(found: Stats) -> dict[str, Any]:
    """The statistics for programs; costs that are only lower bounds say what is missing (`unknown`, `loops`)."""
    data = asdict(found)
    ports = data.pop("signature")
    return {**data, "input_bytes": found.input_bytes, "output_bytes": found.output_bytes, **ports}
