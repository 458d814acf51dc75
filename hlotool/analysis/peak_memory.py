"""Peak memory: the most bytes that are alive at once when a module runs in program order.

An estimate from shapes alone, for comparing modules: a value lives from its definition to its last reader; tuples,
bitcasts and the like are views of their operands; loops keep their state in place; called computations add their own
peak while they run.  What code generation really takes, with its arena and in-place results, is `Executable.memory`.
"""

from __future__ import annotations

from hlotool.ir import Computation, Instruction, Module

__all__ = ["peak_bytes"]

_VIEWS = frozenset({"tuple", "get-tuple-element", "bitcast", "reshape", "opt-barrier", "add-dependency", "domain"})
_STATEFUL = frozenset({"while", "call"})


def peak_bytes(module: Module) -> int:
    """Bytes at the worst moment of one run of the entry computation, parameters and results included."""
    peaks: dict[Computation, int] = {}
    for computation in module.callees_first():
        peaks[computation] = _peak(computation, peaks, entry=computation is module.entry)
    return peaks[module.entry]


def _peak(computation: Computation, peaks: dict[Computation, int], entry: bool) -> int:
    """Without `entry` the parameters are the caller's, and so is the storage of the result."""
    order = list(computation)
    stored: dict[Instruction, tuple[Instruction, ...]] = {}
    for instruction in order:
        stored[instruction] = _storage(instruction, stored, entry)
    last: dict[Instruction, int] = {}
    for number, instruction in enumerate(order):
        for owner in {o for operand in instruction.operands for o in stored[operand]} | set(stored[instruction]):
            last[owner] = number
    for owner in stored[computation.root]:
        last[owner] = len(order)
    ends: dict[int, list[Instruction]] = {}
    for owner, number in last.items():
        ends.setdefault(number, []).append(owner)
    alive = sum(_bytes(i) for i in order if i.opcode == "parameter") if entry else 0
    peak = alive
    for number, instruction in enumerate(order):
        if instruction.opcode != "parameter" and instruction in stored[instruction]:
            alive += _bytes(instruction)
        called = max((peaks[c] for c in instruction.called), default=0) if instruction.opcode != "fusion" else 0
        peak = max(peak, alive + called)
        alive -= sum(_bytes(owner) for owner in ends.get(number, ()) if owner.opcode != "parameter")
    return peak


def _storage(
    instruction: Instruction, stored: dict[Instruction, tuple[Instruction, ...]], entry: bool
) -> tuple[Instruction, ...]:
    """The instructions whose memory holds the value."""
    if instruction.opcode == "parameter" and not entry:
        return ()
    if instruction.opcode in _VIEWS or instruction.opcode in _STATEFUL:
        owners = dict.fromkeys(o for operand in instruction.operands for o in stored[operand])
        if instruction.opcode in _VIEWS or owners:
            return tuple(owners)
    return (instruction,)


def _bytes(instruction: Instruction) -> int:
    return sum(leaf.byte_size for leaf in instruction.shape.leaves() if leaf.is_array and leaf.is_static)
