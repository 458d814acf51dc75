"""What the devices of a program exchange: bytes, groups, and how long that takes on a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlotool.analysis.collective_formulas import Predicted
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.measured_network import MeasuredNetwork
from hlotool.analysis.network import Network, collective_time, permute_time
from hlotool.analysis.scaling import Scaling, grown_groups, grown_pairs, scaling_of
from hlotool.ir import UNBOUNDED, Instruction, Module, Shape
from hlotool.ir.devices import Topology, device_groups, device_pairs, is_grouped, topology_of
from hlotool.lazy_dataclass import dataclass

__all__ = ["Exchange", "Exchanges", "exchange_bytes", "is_exchange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A collective that runs `runs` times, among `groups` of `members` devices at most, on `bytes` of each.

    Bytes are those of the whole array, as in `analysis.collective_formulas`; `predicted` is one run of the slowest
    group, None without a network.  Pairs of a permute count as groups of two.
    """

    instruction: Instruction
    opcode: str
    runs: int
    bytes: int
    groups: int
    members: int
    predicted: Predicted | None


class Exchanges:
    """The exchanges of a module on the devices of a `network`, or on its own ones: on as many as `devices` says."""

    def __init__(
        self, module: Module, network: Network | MeasuredNetwork | None = None, devices: int | None = None,
        mode: str = "weak",
    ) -> None:  # fmt: skip
        self.module, self.network = module, network
        self._topology = topology_of(module)
        found = [i for i in module.instructions() if is_exchange(i)]
        groups = {tuple(device_groups(i, self._topology)) for i in found if is_grouped(i.opcode)}
        pairs = {tuple(device_pairs(i, self._topology)) for i in found if not is_grouped(i.opcode)}
        given = self._topology.devices
        self.scaling: Scaling = scaling_of(given, devices or given, groups, pairs, mode)
        self._known: dict[object, tuple[int, int, Predicted | None]] = {}

    def of(self, instruction: Instruction, runs: int = 1) -> Exchange:
        """What an instruction exchanges for which `is_exchange`."""
        opcode = instruction.opcode.removesuffix("-start")
        sizes = _array_sizes(instruction)
        groups, members, predicted = self._time(instruction, opcode, sizes)
        return Exchange(
            instruction=instruction, opcode=opcode, runs=runs, bytes=sum(sizes), groups=groups, members=members,
            predicted=predicted,
        )  # fmt: skip

    def all(self, costs: ModuleCost | None = None) -> list[Exchange]:
        """All that run, in program order, callees before their callers."""
        return list(self._running(costs or ModuleCost(self.module)))

    def _running(self, costs: ModuleCost) -> Iterator[Exchange]:
        for computation, runs in costs.executions().items():
            if runs:
                for instruction in computation:
                    if is_exchange(instruction):
                        yield self.of(instruction, runs)

    def _time(self, instruction: Instruction, opcode: str, sizes: tuple[int, ...]) -> tuple[int, int, Predicted | None]:
        members = _members(instruction, self._topology)
        grouped = is_grouped(instruction.opcode)
        shapes = tuple(o.shape for o in instruction.operands) if self.scaling.changes else ()
        key = (opcode, sizes, tuple(members), shapes, str(instruction.attributes.get("dimensions")))
        if key not in self._known:
            if grouped:
                groups = grown_groups(instruction, members, self.scaling)
                most = max(map(len, groups), default=1)
            else:
                groups, most = grown_pairs(members, self.scaling), 2
            self._known[key] = (len(groups), most, self._slowest(opcode, groups, sizes, grouped))
        return self._known[key]

    def _slowest(
        self, opcode: str, groups: Sequence[Sequence[int]], sizes: Sequence[int], grouped: bool
    ) -> Predicted | None:
        network, size = self.network, sum(sizes)
        if network is None:
            return None
        if isinstance(network, MeasuredNetwork):
            members = [len(group) for group in groups] if grouped else [_talking(groups)]
            return _longest([network.time(opcode, count, sizes) for count in members])
        if not grouped:
            return permute_time(network, [(s, t) for s, t in groups], size)
        name = "all-to-all" if opcode == "ragged-all-to-all" else opcode
        return _longest([collective_time(network, name, group, size) for group in groups])


def _longest(times: Sequence[Predicted]) -> Predicted:
    return max(times, key=lambda found: found.seconds, default=Predicted("none", 0, 0.0, 0.0))


def _talking(pairs: Sequence[Sequence[int]]) -> int:
    """How many devices have a pair with another one."""
    return len({device for source, target in pairs if source != target for device in (source, target)})


def is_exchange(instruction: Instruction) -> bool:
    """Whether devices exchange something here: what starts, or does at once, a collective, a permute or a send."""
    opcode = instruction.opcode
    if opcode == "send":
        return not instruction.attributes.get("is_host_transfer")
    return is_grouped(opcode) or opcode.removesuffix("-start") == "collective-permute"


def exchange_bytes(instruction: Instruction) -> int:
    """Bytes of the whole array: the result of an all-gather, the operand of others; of dynamic sizes the most."""
    return sum(_array_sizes(instruction))


def _array_sizes(instruction: Instruction) -> tuple[int, ...]:
    """The bytes of each array that is exchanged; of an all-to-all of several operands, which are parts, of all."""
    opcode = instruction.opcode
    if opcode == "all-gather":
        return _sizes(instruction.shape)
    if opcode == "all-gather-start":
        return _sizes(instruction.shape.elements[1])
    if opcode in ("send", "ragged-all-to-all") or "slice_sizes" in instruction.attributes:
        return _sizes(instruction.operands[0].shape)
    sizes = tuple(size for operand in instruction.operands for size in _sizes(operand.shape))
    return (sum(sizes),) if opcode == "all-to-all" else sizes


def _sizes(shape: Shape) -> tuple[int, ...]:
    return tuple(leaf.byte_size for leaf in shape.leaves() if leaf.is_array and UNBOUNDED not in leaf.dimensions)


def _members(instruction: Instruction, topology: Topology) -> Sequence[Sequence[int]]:
    if is_grouped(instruction.opcode):
        return device_groups(instruction, topology)
    return device_pairs(instruction, topology)
