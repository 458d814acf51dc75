"""Async collective creator: what devices exchange begins in one place and is waited for in another."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, Shape, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import places
from hlotool.passes.framework.graph import replace_with

__all__ = ["AsyncCollectiveCreator"]

_WRAPPED = frozenset({"all-to-all", "collective-broadcast", "ragged-all-to-all", "reduce-scatter"})
_OWN = frozenset({"all-gather", "all-reduce", "collective-permute"})


@dataclass(frozen=True, slots=True)
class AsyncCollectiveCreator:
    """Makes a start and a done of every collective, side by side: `latency-hiding-scheduler` moves them apart.

    all-reduce, all-gather and collective-permute have starts of their own; others are the computation of an
    ``async-start``.  Those that move fewer than `min-bytes` stay.
    """

    name: ClassVar[str] = "async-collective-creator"
    opcodes: ClassVar[frozenset[str]] = _OWN | _WRAPPED
    min_bytes: int = 8

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        wrapped: set[Computation] = set()
        for build, collective in places(module, log, self.opcodes):
            if collective.parent in wrapped or _is_inside(collective):
                continue
            if not all(leaf.is_array and leaf.is_static for leaf in collective.shape.leaves()):
                continue
            size = sum(leaf.byte_size for leaf in collective.shape.leaves())
            if size < self.min_bytes:
                log.refuse("small", collective, "it moves less than min-bytes", bytes=size)
                continue
            if collective.opcode == "collective-permute" and "slice_sizes" in collective.attributes:
                log.refuse("in-place", collective, "it writes into an operand")
                continue
            if collective.opcode in _OWN:
                start, done = _own_pair(build, collective)
            else:
                start, done = _wrapped_pair(module, build, collective)
                wrapped.add(start.attributes["calls"])
            for before in list(collective.control_predecessors):
                start.add_control_predecessor(before)
            for after in list(collective.control_successors):
                after.add_control_predecessor(done)
            log.rewrite("start", collective, [start.name, done.name], "it can be waited for later", bytes=size)
            replace_with(collective, done)
            changed = True
        return changed


def _is_inside(collective: Instruction) -> bool:
    """Whether it is what an async-start wraps."""
    computation = collective.parent
    module = None if computation is None else computation.module
    if computation is None or module is None:
        return False
    return any(
        call.opcode == "async-start" and call.attributes.get("calls") is computation
        for other in module.computations.values()
        for call in other.calls
    )


def _own_pair(build: Builder, collective: Instruction) -> tuple[Instruction, Instruction]:
    opcode, operands = collective.opcode, collective.operands
    if opcode == "all-reduce":
        shape = collective.shape
    else:
        shapes = [operand.shape for operand in operands]
        given = shapes[0] if len(shapes) == 1 else tuple_shape(shapes)
        shape = Shape("tuple", elements=(given, collective.shape))
    attributes = {name: value for name, value in collective.attributes.items() if name != "sharding"}
    start = build.add(f"{opcode}-start", shape, operands, attributes)
    return start, build.add(f"{opcode}-done", collective.shape, (start,))


def _wrapped_pair(module: Module, build: Builder, collective: Instruction) -> tuple[Instruction, Instruction]:
    body = Computation(module.unique_name(f"async_{collective.opcode}"))
    inner = Builder(body, like=collective)
    shapes = [operand.shape for operand in collective.operands]
    parameters = [inner.parameter(number, shape) for number, shape in enumerate(shapes)]
    attributes = {name: value for name, value in collective.attributes.items() if name != "sharding"}
    body.root = inner.add(collective.opcode, collective.shape, parameters, attributes)
    module.add(body)
    shape = Shape("tuple", elements=(tuple_shape(shapes), collective.shape))
    start = build.add("async-start", shape, collective.operands, {"calls": body})
    return start, build.add("async-done", collective.shape, (start,), {"calls": body})
