"""Peak memory: the most bytes that are alive at once when a module runs in program order.

An estimate from shapes alone, for comparing modules: a value lives from its definition to its last reader; tuples,
bitcasts and the like are views of their operands; loops keep their state in place; called computations add their own
peak while they run.  What code generation really takes, with its arena and in-place results, is `Executable.memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlotool.analysis.views import is_view
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.opcodes import CALLING

__all__ = ["Owners", "computation_peaks", "order_peak", "owned_bytes", "owners", "peak_bytes"]

_VIEWS = frozenset({"tuple", "get-tuple-element", "bitcast", "reshape", "opt-barrier", "add-dependency", "domain"})
_VIEWS_OR_STATEFUL = _VIEWS | {"while", "call"}

Owners = dict[Instruction, tuple[Instruction, ...]]
"""For every instruction those whose memory holds its value."""


def peak_bytes(module: Module) -> int:
    """Bytes at the worst moment of one run of the entry computation, parameters and results included."""
    return computation_peaks(module)[module.entry]


def computation_peaks(module: Module) -> dict[Computation, int]:
    """Bytes at the worst moment of each computation, those of its caller aside."""
    peaks: dict[Computation, int] = {}
    for computation in module.callees_first():
        order, entry = list(computation), computation is module.entry
        peaks[computation] = order_peak(computation, order, owners(order, entry), peaks, entry)
    return peaks


def order_peak(
    computation: Computation, order: Sequence[Instruction], stored: Owners, peaks: Mapping[Computation, int],
    entry: bool,
) -> int:
    """The peak of a computation that runs in `order`; without `entry` its parameters are the caller's.

    `stored` has the `owners` of its values, whatever their order, and `peaks` what those take that it calls.
    """
    last: dict[Instruction, int] = {}
    for number, instruction in enumerate(order):
        for operand in instruction.operands:
            for owner in stored[operand]:
                last[owner] = number
        for owner in stored[instruction]:
            last[owner] = number
    for owner in stored[computation.root]:
        last[owner] = len(order)
    alive = sum(owned_bytes(i) for i in order if i.opcode == "parameter") if entry else 0
    peak = alive
    freed = [0] * (len(order) + 1)  # bytes that are free after an instruction
    for owner, number in last.items():
        if owner.opcode != "parameter":
            freed[number] += owned_bytes(owner)
    for number, instruction in enumerate(order):
        if instruction.opcode != "parameter" and instruction in stored[instruction]:
            alive += owned_bytes(instruction)
        calls = instruction.opcode in CALLING and instruction.opcode != "fusion"
        called = max((peaks[c] for c in instruction.called), default=0) if calls else 0
        peak = max(peak, alive + called)
        alive -= freed[number]
    return peak


def owners(order: Sequence[Instruction], entry: bool) -> Owners:
    """The owners of all values; of those of a caller (parameters, without `entry`) nothing is known."""
    stored: Owners = {}
    for instruction in order:
        stored[instruction] = _owners_of(instruction, stored, entry)
    return stored


def _owners_of(instruction: Instruction, stored: Owners, entry: bool) -> tuple[Instruction, ...]:
    if instruction.opcode == "parameter" and not entry:
        return ()
    if is_view(instruction):
        return stored[instruction.operands[0]]
    if instruction.opcode in _VIEWS_OR_STATEFUL:
        found = dict.fromkeys(o for operand in instruction.operands for o in stored[operand])
        if instruction.opcode in _VIEWS or found:
            return tuple(found)
    return (instruction,)


def owned_bytes(instruction: Instruction) -> int:
    """Bytes of the arrays in the value of an instruction."""
    shape = instruction.shape
    if shape.elements:
        return sum(leaf.byte_size for leaf in shape.leaves() if leaf.is_array and leaf.is_static)
    return shape.byte_size if shape.is_array and shape.is_static else 0
