"""What the functions that read one text share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlotool.ir import (
    COMMON_ATTRIBUTES,
    OPCODES,
    Attribute,
    Computation,
    Instruction,
    Literal,
    Metadata,
)
from hlotool.ir.damage import POISON, Damage
from hlotool.ir.opcodes import SPELLED
from hlotool.text.lexer import NAME, SPACE, Cursor

__all__ = ["ANONYMOUS", "HEADER_LINE", "OPERAND_NAME", "POISON", "REQUIRED", "ROWS", "START", "Scope", "State"]

START = re.compile(rf"(ROOT\b{SPACE})?%?({NAME}){SPACE}=", re.ASCII)
OPERAND_NAME = re.compile(rf"%?({NAME})", re.ASCII)
HEADER_LINE = re.compile(rf"\s*(ENTRY\s+)?%?({NAME})[ \t]*(\{{|\()", re.ASCII)

ANONYMOUS = "\0"
"""Starts the names of computations that the text does not name; they get theirs at the end."""

ROWS: dict[str, dict[str, Attribute]] = {
    name: {**COMMON_ATTRIBUTES, **{a.name: a for a in row.attributes}} for name, row in OPCODES.items()
}
ROWS["dot"]["sparsity"] = Attribute("sparsity", "sparsity")  # of older texts: see `hlotool.text.sparse_dots`
REQUIRED: dict[str, tuple[str, ...]] = {
    name: tuple(a.name for a in row.attributes if a.required and a.name not in ("parameter_number", "literal"))
    for name, row in OPCODES.items()
}

_WITHOUT: dict[tuple[str, str, str | None], tuple[dict[str, Any], tuple[str, ...]]] = {
    (name, "", behind): ({}, ()) for name in SPELLED if not REQUIRED[name] for behind in (None, "")
}
"""The `State.tails` of instructions without attributes."""


class Scope:
    """What is known while the instructions of one computation are read."""

    __slots__ = ("anonymous", "computation", "controls", "names", "root")

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.names: dict[str, Instruction] = {}
        self.anonymous: dict[str, int] = {}  # numbers used for instructions without names, by opcode
        self.root: tuple[int, int] | None = None  # where ROOT was written
        self.controls: list[tuple[Instruction, list[tuple[str, int]]]] = []


class State:
    """One parse: the cursor, the computations so far, and what was just read for the current instruction."""

    __slots__ = (
        "body", "computations", "controls", "cursor", "damage", "literals", "metadata", "metadata_start", "order",
        "tails", "unread",
    )  # fmt: skip

    def __init__(self, cursor: Cursor, body: Callable[[State, Computation], None]) -> None:
        self.cursor = cursor
        self.body = body  # reads the braces of a computation: attributes can hold whole bodies
        self.computations: dict[str, Computation] = {}
        self.order: list[Computation] = []  # in text order, nested and generated ones included
        self.metadata: Metadata | None = None
        self.controls: list[tuple[str, int]] | None = None
        self.literals: dict[tuple[str, str], Literal] = {}  # scalar constants by shape and text
        self.metadata_start = 0  # where the last metadata was read
        # Attributes by opcode and their text, ahead of metadata and behind it (None: there is none); and those of them
        # of which each instruction gets a copy, as they can change.
        self.tails = dict(_WITHOUT)
        self.damage = Damage()
        self.unread: set[str] = set()  # attributes of the current instruction whose values could not be read

    @property
    def said(self) -> int:
        """How many errors and notes there are."""
        return len(self.cursor.diagnostics) + len(self.cursor.notes or ())
