"""Rules between instructions: what ends an asynchronous operation, and what a channel is used for."""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.ir.damage import POISON
from hlotool.ir.errors import Diagnostic, Location
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
_P2P = frozenset({"send-done", "recv-done"})
"""These may stand a trip of a loop after their start, and then read it from the loop's state."""
_CARRIED = frozenset({"send", "recv"})


def pair_diagnostics(module: Module, places: Places, whole: bool = True) -> Iterator[Diagnostic]:
    """Asynchronous operations that are not ended once, or by something else, and channels with two uses.

    Unless the module is `whole`, what ends an operation may be what could not be read.
    """
    channels: dict[int, Instruction] = {}
    started: dict[Computation, Instruction] = {}
    concerned = (c for c in module.computations.values() if not _CONCERNED.isdisjoint(c.opcodes))
    for instruction in (i for computation in concerned for i in computation):
        opcode = instruction.opcode
        if opcode in _ENDS and instruction.operands:
            source = instruction.operands[0]
            carried = opcode in _P2P and source.opcode in ("get-tuple-element", "parameter", "opt-barrier")
            if source.opcode not in _ENDS[opcode] and not carried and source.shape != POISON:
                wanted = " or ".join(_ENDS[opcode])
                message = f"{instruction.name}: {opcode} ends {wanted}, its operand is {source.opcode}"
                yield Diagnostic(message, places.of(instruction, "operand:0"), code="HLO0206")
        if opcode in ("async-update", "async-done") and (wrong := _other_than_started(instruction)):
            yield Diagnostic(f"{instruction.name}: {wrong}", places.of(instruction, "opcode"), code="HLO0206")
        if opcode in _P2P and instruction.operands and instruction.operands[0].opcode in _ENDS[opcode]:
            yield from _other_transfer(instruction, instruction.operands[0], places)
        if opcode in _STARTS:
            yield from _consumers(instruction, places, whole)
        if opcode == "async-start" and isinstance(called := instruction.attributes.get("calls"), Computation):
            yield from _wrapped(instruction, called, started.setdefault(called, instruction), places)
        channel = instruction.attributes.get("channel_id")
        if isinstance(channel, int):
            other = channels.setdefault(channel, instruction)
            before, use = channel_use(other), channel_use(instruction)
            if before != use:
                message = f"{instruction.name}: channel {channel} serves {before} already, not {use}"
                related = _related("first used here", other, places)
                yield Diagnostic(message, places.of(instruction), code="HLO0207", related=related)


def _consumers(start: Instruction, places: Places, whole: bool) -> Iterator[Diagnostic]:
    """One instruction reads what a start gives, and that ends it; only transfers may end after a trip of a loop."""
    ends = [user for user in start.users if user.opcode in _ENDS]
    others = [user for user in start.users if user.opcode not in _ENDS]
    wanted = " or ".join(end for end, starts in _ENDS.items() if start.opcode in starts)
    for again in ends[1:]:
        message = f"{again.name}: {start.name} is ended already, by {ends[0].name}"
        related = _related("ended here first", ends[0], places)
        yield Diagnostic(message, places.of(again), code="HLO0206", related=related)
    if others and (ends or start.opcode not in _CARRIED or len(others) > 1):
        message = f"{others[0].name}: what {start.opcode} gives is only for {wanted}"
        related = _related("started here", start, places)
        yield Diagnostic(message, places.of(others[0]), code="HLO0206", related=related)
    if not start.users and whole:
        hint = f"what ends it: {wanted.split()[0]}({start.name})"
        place = places.of(start, "opcode")
        yield Diagnostic(f"{start.name}: nothing ends this {start.opcode}", place, hint, "HLO0206")


def _wrapped(start: Instruction, called: Computation, first: Instruction, places: Places) -> Iterator[Diagnostic]:
    """What an async-start runs is run by no other."""
    if first is not start:
        message = f"{start.name}: {first.name} starts {called.name} already; each start has its own computation"
        place = places.of(start, "attribute:calls")
        yield Diagnostic(message, place, code="HLO0206", related=_related("started here first", first, places))


def _other_transfer(done: Instruction, start: Instruction, places: Places) -> Iterator[Diagnostic]:
    """The end of a transfer says the same of it as its beginning."""
    for name in ("channel_id", "is_host_transfer"):
        given, said = start.attributes.get(name), done.attributes.get(name)
        if (given or None) != (said or None):
            words = [f"{name}={str(value).lower()}" if value else f"no {name}" for value in (said, given)]
            message = f"{done.name}: {done.opcode} has {words[0]}, {start.name} has {words[1]}"
            place = places.of(done, f"attribute:{name}" if name in done.attributes else "opcode")
            yield Diagnostic(message, place, code="HLO0207", related=_related("started here", start, places))


def _related(message: str, instruction: Instruction, places: Places) -> tuple[tuple[str, Location], ...]:
    place = places.of(instruction)
    return ((message, place),) if place is not None else ()


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
