"""Rules between instructions: what ends an asynchronous operation, and what a channel is used for."""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.ir.damage import POISON
from hlotool.ir.errors import Diagnostic
from hlotool.ir.module import Computation, Instruction, Module
from hlotool.ir.opcodes import OPCODES
from hlotool.ir.places import Places

__all__ = ["channel_use", "pair_diagnostics"]

_ENDS: dict[str, tuple[str, ...]] = {
    "all-gather-done": ("all-gather-start",),
    "all-reduce-done": ("all-reduce-start",),
    "collective-permute-done": ("collective-permute-start",),
    "copy-done": ("copy-start",),
    "async-update": ("async-start", "async-update"),
    "async-done": ("async-start", "async-update"),
    "send-done": ("send",),
    "recv-done": ("recv",),
}
"""What ends or carries on an asynchronous operation, and what its operand may be."""

_STARTS = frozenset(start for starts in _ENDS.values() for start in starts)
_WITH_CHANNELS = {name for name, row in OPCODES.items() if row.attribute("channel_id") is not None}
_CONCERNED = _STARTS | _ENDS.keys() | _WITH_CHANNELS
_THROUGH_STATE = frozenset({"send-done", "recv-done"})
"""These may stand a trip of a loop after their start, and then read it from the loop's state."""


def pair_diagnostics(module: Module, places: Places) -> Iterator[Diagnostic]:
    """Asynchronous operations that are ended twice or by something else, and channels with two uses."""
    channels: dict[int, Instruction] = {}
    concerned = (c for c in module.computations.values() if not _CONCERNED.isdisjoint(c.opcodes))
    for instruction in (i for computation in concerned for i in computation):
        opcode = instruction.opcode
        if opcode in _ENDS and instruction.operands:
            source = instruction.operands[0]
            carried = opcode in _THROUGH_STATE and source.opcode in ("get-tuple-element", "parameter", "opt-barrier")
            if source.opcode not in _ENDS[opcode] and not carried and source.shape != POISON:
                wanted = " or ".join(_ENDS[opcode])
                message = f"{instruction.name}: {opcode} ends {wanted}, its operand is {source.opcode}"
                yield Diagnostic(message, places.of(instruction, "operand:0"), code="HLO0206")
        if opcode in ("async-update", "async-done") and (wrong := _other_than_started(instruction)):
            yield Diagnostic(f"{instruction.name}: {wrong}", places.of(instruction, "opcode"), code="HLO0206")
        if opcode in _STARTS:
            ends = [user for user in instruction.users if user.opcode in _ENDS]
            for again in ends[1:]:
                message = f"{again.name}: {instruction.name} is ended already, by {ends[0].name}"
                first = places.of(ends[0])
                related = (("ended here first", first),) if first is not None else ()
                yield Diagnostic(message, places.of(again), code="HLO0206", related=related)
        channel = instruction.attributes.get("channel_id")
        if isinstance(channel, int):
            other = channels.setdefault(channel, instruction)
            before, use = channel_use(other), channel_use(instruction)
            if before != use:
                message = f"{instruction.name}: channel {channel} serves {before} already, not {use}"
                first = places.of(other)
                related = (("first used here", first),) if first is not None else ()
                yield Diagnostic(message, places.of(instruction), code="HLO0207", related=related)


def _other_than_started(instruction: Instruction) -> str:
    """Where an update or the end names another computation or thread than the start did: what."""
    start: Instruction | None = instruction
    while start is not None and start.opcode in ("async-update", "async-done"):
        start = start.operands[0] if start.operands else None
    if start is None or start.opcode != "async-start":
        return ""
    started, said = start.attributes.get("calls"), instruction.attributes.get("calls")
    if isinstance(said, Computation) and isinstance(started, Computation) and said is not started:
        return f"{start.name} started {started.name}, not {said.name}"
    thread, named = (one.attributes.get("async_execution_thread") for one in (start, instruction))
    if named is not None and named != (thread or "main"):
        return f"{start.name} runs on the thread '{thread or 'main'}', not '{named}'"
    return ""


def channel_use(instruction: Instruction) -> str:
    """What a channel is for: collectives (of any kind, as Shardy writes it), or sending from one program to another."""
    return "send and recv" if instruction.opcode.removesuffix("-done") in ("send", "recv") else "collectives"
