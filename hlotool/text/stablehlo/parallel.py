"""``interpreter.run_parallel``, by which tests of StableHLO run a program on several devices: the whole module runs on
these, each of them takes the arguments that are its own, and all get all results."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Instruction, ReplicaGroups, array
from hlotool.text.stablehlo.control import called
from hlotool.text.stablehlo.elementwise import result
from hlotool.text.stablehlo.scope import Refusal, Scope, attribute, unsupported
from hlotool.text.stablehlo.tree import Operation, Symbol

__all__ = ["run_parallel"]

_FIRST_CHANNEL = 1 << 20
"""Of the exchanges that make results known to all: beyond the channels that programs name."""


def run_parallel(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """A call of the one function that ``programs`` has, whose rows are replicas and whose columns are partitions."""
    name, replicas, partitions = _program(operation)
    count = replicas * partitions
    if operation.attributes.get("infeed"):
        raise unsupported("interpreter.run_parallel feeds its programs, for which HLO has no counterpart")
    program = scope.program
    if program.devices not in ((1, 1), (replicas, partitions)):
        raise unsupported(f"programs run on {replicas} x {partitions} devices, and others on {program.devices}")
    program.devices = replicas, partitions
    operands = scope.operands(operation)
    width = len(operation.results) // count
    if len(operands) % count or len(operation.results) % count:
        raise Refusal(f"{count} programs have {len(operands)} arguments and {len(operation.results)} results")
    if not all(result(operation, n).is_array for n in range(len(operation.results))):
        raise unsupported("interpreter.run_parallel gives tokens, which no device has of another")
    arguments, own = len(operands) // count, _device(scope, partitions)
    taken = [_own(scope, operands[number::arguments], own) for number in range(arguments)]
    results = called(scope, name, taken, width, {}) if width else _without_results(scope, name, taken)
    spread = [_known_to_all(scope, one, count) for one in results]
    return [spread[number][device] for device in range(count) for number in range(width)]


def _program(operation: Operation) -> tuple[str, int, int]:
    rows = attribute(operation, "programs")
    if not (isinstance(rows, list) and rows and all(isinstance(row, list) and row for row in rows)):
        raise Refusal("'programs' is a table of functions", code="HLO0130")
    names = {one.name if isinstance(one, Symbol) else one for row in rows for one in row}
    if len({len(row) for row in rows}) != 1 or not all(isinstance(name, str) for name in names):
        raise Refusal("'programs' is a table of functions", code="HLO0130")
    if len(names) > 1:
        raise unsupported(
            "interpreter.run_parallel runs several programs, an HLO module is one",
            "import one of the functions: hlotool import --function NAME, and run it with --replicas or --partitions",
        )
    return names.pop(), len(rows), len(rows[0])


def _without_results(scope: Scope, name: str, taken: Sequence[Instruction]) -> Sequence[Instruction]:
    called(scope, name, taken, 0, {})
    return ()


def _device(scope: Scope, partitions: int) -> Instruction:
    """The number of this device, replicas first."""
    number, builder = array("u32", ()), scope.builder
    replica, partition = builder.add("replica-id", number), builder.add("partition-id", number)
    first = builder.binary("multiply", replica, builder.scalar_constant(partitions, "u32"))
    return builder.binary("add", first, partition)


def _own(scope: Scope, values: Sequence[Instruction], device: Instruction) -> Instruction:
    """Of values for the devices, in order, the one for this."""
    shape, builder = values[0].shape, scope.builder
    row = 1, *shape.dimensions
    together = builder.concatenate([builder.reshape(one, row) for one in values], 0)
    zeros = [builder.scalar_constant(0, "u32") for _ in shape.dimensions]
    return builder.reshape(builder.dynamic_slice(together, [device, *zeros], row), shape)


def _known_to_all(scope: Scope, value: Instruction, count: int) -> list[Instruction]:
    """What the devices have of a value, in order."""
    shape, builder = value.shape, scope.builder
    scope.program.exchanges += 1
    values = {
        "channel_id": _FIRST_CHANNEL + scope.program.exchanges, "use_global_device_ids": True,
        "dimensions": (0,), "replica_groups": ReplicaGroups((tuple(range(count)),)),
    }  # fmt: skip
    rows = array(shape.element_type, (count, *shape.dimensions))
    together = builder.add("all-gather", rows, [builder.reshape(value, (1, *shape.dimensions))], values)
    zeros = [0] * shape.rank
    return [
        builder.reshape(builder.slice(together, [device, *zeros], [device + 1, *shape.dimensions]), shape)
        for device in range(count)
    ]
