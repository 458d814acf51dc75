"""Modules from their messages: computations, instructions by id, the schedule, aliasing, stack frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlotool.ir import OPCODES, Aliasing, Computation, Instruction, Location, Module, StackFrames, Verbatim
from hlotool.text.names import NAME
from hlotool.text.proto.attributes import read_attributes, read_map
from hlotool.text.proto.message import Message
from hlotool.text.proto.sharding import read_metadata
from hlotool.text.proto.values import read_shape

__all__ = ["build_module"]

_NAME = re.compile(NAME, re.ASCII)
_STRANGE = r"[^A-Za-z0-9_.\-]"
_ALIAS_KINDS = {"MAY_ALIAS": "may-alias", "MUST_ALIAS": "must-alias", "UNDEFINED_ALIAS": None}
_LOW = (1 << 32) - 1

Where = Callable[[int], Location]


def build_module(message: Message, where: Where) -> Module:
    """The module of a HloModuleProto; instructions get the places that `where` gives for their offsets."""
    rows = message.messages("computations")
    if not rows:
        raise message.fail("the module has no computations")
    module = Module(_identifier(message.text("name") or "module"))
    sequences = {s.number("key"): s for s in message.message("schedule").messages("sequences")}
    known: dict[int, Computation] = {}
    entry = _entry(message, rows)
    for row in rows:
        computation = _computation(row, known, where)
        sequence = sequences.get(row.number("id"))
        if sequence is not None:
            _schedule(computation, row, sequence.message("value"))
        if row.number("id") in known:
            raise row.fail(f"two computations have the id {row.number('id')}")
        known[row.number("id")] = computation
        module.add(computation, entry=row is entry)
    module.attributes = _header(message)
    if message.message("stack_frame_index").values:
        module.stack_frames = _frames(message.message("stack_frame_index"))
    return module


def _entry(message: Message, rows: list[Message]) -> Message:
    number, name = message.number("entry_computation_id"), message.text("entry_computation_name")
    for row in rows:
        if row.number("id") == number and (not name or row.text("name") == name):
            return row
    named = [row for row in rows if name and row.text("name") == name]
    if not named:
        raise message.fail(f"the entry computation '{name}' (id {number}) is not among the computations")
    return named[0]


def _identifier(name: str) -> str:
    """A name that HLO text can hold: other characters become underscores."""
    if _NAME.fullmatch(name):
        return name
    name = re.sub(_STRANGE, "_", name)
    return name if _NAME.fullmatch(name) else f"_{name}"


def _computation(message: Message, known: dict[int, Computation], where: Where) -> Computation:
    computation = Computation(_identifier(message.text("name") or "computation"))
    computation.location = where(message.at)
    thread = message.text("execution_thread")
    computation.execution_thread = thread if thread not in ("", "main") else None
    found: dict[int, Instruction] = {}
    names: set[str] = set()
    for row in message.messages("instructions"):
        instruction = _instruction(row, found, known, where)
        instruction.name = _unique(instruction.name, names)
        number = row.number("id")
        if number in found:
            raise row.fail(f"two instructions have the id {number}")
        found[number] = computation.add(instruction)
    if not found:
        raise message.fail(f"computation {computation.name} has no instructions, so no root")
    for row in message.messages("instructions"):
        for number in row.numbers("control_predecessor_ids"):
            before = _by_id(found, number)
            if before is None:
                raise row.fail(f"{row.text('name')}: no instruction has the id {number} of its control predecessor")
            found[row.number("id")].add_control_predecessor(before)
    root = _by_id(found, message.number("root_id"))
    if root is None:
        raise message.fail(f"computation {computation.name}: no instruction has the id of the root")
    computation.root = root
    return computation


def _by_id(found: dict[int, Instruction], number: int) -> Instruction | None:
    """Ids are unique in the module or, in some versions, only within the computation (the low 32 bits)."""
    return found.get(number) or found.get(number & _LOW)


def _unique(name: str, names: set[str]) -> str:
    candidate, number = name, 0
    while candidate in names:
        number += 1
        candidate = f"{name}.{number}"
    names.add(candidate)
    return candidate


def _instruction(
    message: Message, found: dict[int, Instruction], known: dict[int, Computation], where: Where
) -> Instruction:
    name, opcode = message.text("name"), message.text("opcode")
    if opcode not in OPCODES:
        from hlotool.text.lexer import did_you_mean

        hint = did_you_mean(opcode, OPCODES) if opcode else None
        failure = message.fail(f"unknown opcode '{opcode[:60]}'")
        failure.hint, failure.code = hint, "HLO0108"
        raise failure
    operands: list[Instruction] = []
    for number in message.numbers("operand_ids"):
        operand = _by_id(found, number)
        if operand is None:
            raise message.fail(f"{name}: no instruction before it has the id {number} of its operand")
        operands.append(operand)
    called: list[Computation] = []
    for number in message.numbers("called_computation_ids"):
        computation = known.get(number)
        if computation is None:
            raise message.fail(f"{name}: no computation before it has the id {number} that it calls")
        called.append(computation)
    shape = read_shape(message.message("shape"))
    attributes = read_attributes(message, opcode, shape, operands, called)
    metadata = read_metadata(message.message("metadata"))
    identifier = _identifier(name or opcode)
    return Instruction(opcode, shape, operands, attributes, identifier, metadata, where(message.at))


def _schedule(computation: Computation, message: Message, sequence: Message) -> None:
    """Put the instructions in the order of the schedule."""
    order = sequence.numbers("instruction_ids")
    by_id = {row.number("id"): one for row, one in zip(message.messages("instructions"), computation, strict=True)}
    chosen = [_by_id(by_id, number) for number in order]
    places = {one: place for place, one in enumerate(chosen) if one is not None}
    if len(places) != len(computation) or len(order) != len(computation):
        raise sequence.fail(f"the schedule of {computation.name} does not name each of its instructions once")
    for instruction, place in places.items():
        if any(places[before] > place for before in (*instruction.operands, *instruction.control_predecessors)):
            raise sequence.fail(f"the schedule of {computation.name} puts {instruction.name} ahead of an operand")
    computation.reorder(places)


def _header(message: Message) -> dict[str, Any]:
    """The attributes of the module that messages hold (replica counts, for one, are not among them)."""
    values: dict[str, Any] = {}
    if "schedule" in message:
        values["is_scheduled"] = True
    aliases = message.message("input_output_alias").messages("entries")
    if aliases:
        values["input_output_alias"] = tuple(
            Aliasing(
                a.numbers("output_shape_index"),
                a.number("parameter_number"),
                a.numbers("parameter_shape_index"),
                _ALIAS_KINDS.get(a.word("kind")),
            )
            for a in aliases
        )
    donors = message.message("buffer_donor").messages("entries")
    if donors:
        rows = [
            f"({d.number('parameter_number')}, {{{','.join(map(str, d.numbers('parameter_shape_index')))}}})"
            for d in donors
        ]
        values["buffer_donor"] = Verbatim(f"{{ {', '.join(rows)} }}")
    if "host_program_shape" in message:
        program = message.message("host_program_shape")
        if "result" in program:
            parameters = tuple(map(read_shape, program.messages("parameters")))
            values["entry_computation_layout"] = parameters, read_shape(program.message("result"))
    attributes = read_map(message.message("frontend_attributes"))
    if attributes:
        values["frontend_attributes"] = attributes
    return values


def _frames(message: Message) -> StackFrames:
    """The tables of stack frames; rows count from 1."""
    places = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    frames = ("file_location_id", "parent_frame_id")

    def table(rows: list[Message], keys: tuple[str, ...]) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
        # The text counts parents one higher than the message does: 1 is no parent there, 0 here.
        return tuple(
            (n, tuple((key, row.number(key) + (key == "parent_frame_id")) for key in keys))
            for n, row in enumerate(rows, 1)
        )

    return StackFrames(
        tuple(enumerate(message.texts("file_names"), 1)),
        tuple(enumerate(message.texts("function_names"), 1)),
        table(message.messages("file_locations"), places),
        table(message.messages("stack_frames"), frames),
    )
