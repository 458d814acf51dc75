"""The parser's fast path: an instruction of the usual form, a line, is read in one match and a few lookups.

``[ROOT] %name = shape opcode(operands), attributes, metadata={...}, more attributes``

It checks nothing itself.  `instructions.py`, the slow path, reads each text of a shape, of attributes and of a literal
the first time, and the result is remembered by the exact text.  The fast path takes a line if all its texts are known,
its operands are names that are defined, and its metadata holds only strings and numbers; others take the slow path.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from hlotool.ir import Computation, Instruction
from hlotool.ir.literal import Literal
from hlotool.ir.shape import Shape, UnknownShape
from hlotool.text.lexer import NAME, Cursor
from hlotool.text.literals import read_usual_literal
from hlotool.text.shapes import ARRAY
from hlotool.text.state import REQUIRED, Scope, State
from hlotool.text.values import read_metadata

__all__ = ["USUAL", "read_usual", "remember"]

_TUPLE = r"\([^()\n\r\"]*+\)"
for _ in range(4):  # parentheses in parentheses: tuples in tuples, and tiles of layouts
    _TUPLE = rf"\((?:[^()\n\r\"]++|{_TUPLE})*+\)"

USUAL = re.compile(
    rf"[ \t\r\n]*+(ROOT[ \t]+)?%?({NAME})[ \t]*=[ \t]*({ARRAY}|{_TUPLE})[ \t]+([a-z][a-z0-9\-]*)"
    r"\(((?:[^(){}\[\]\"]++|\[[^(){}\[\]\"]*+\]|\{[^(){}\[\]\"]*+\})*+)\)([^\r\n]*+)(?=[\r\n]\s*+[A-Za-z_%}])",
    re.ASCII,
)
"""ROOT, name, shape, opcode, operands, and the rest of the line."""

_METADATA = re.compile(
    r", metadata=\{((?:(?:(?:op_type|op_name|source_file|deduplicated_name|scheduling_name)=\"(?:[^\"\\\r\n]++|\\.)*+\""
    r"|(?:source_line|source_end_line|source_column|source_end_column|stack_frame_id)=\d{1,9}+) ?)*+)\}",
    re.ASCII,
)
_COMMENT = re.compile(r"/\*[^*]*+\*/")
_TYPED = re.compile(rf"[ \t]*({ARRAY})[ \t]+%?({NAME})(?:,|\Z)", re.ASCII)
_LONGEST = 1000  # characters of attributes that are remembered
_ELSEWHERE = ("control-predecessors", "sparsity=")  # what does more than to give an attribute
_OWN = {"parameter": "parameter_number", "constant": "literal"}  # what their parentheses hold


def read_usual(state: State, scope: Scope, match: re.Match[str]) -> bool:
    """Read the instruction of a match of `USUAL` into `scope`; where it is not usual nothing happens."""
    root, name, shape_text, opcode, inside, tail = match.groups()
    cursor, names, rest = state.cursor, scope.names, ""
    metadata: Any = None
    if tail:
        cut = tail.find(", metadata={")
        if cut >= 0:
            found = _METADATA.match(tail, cut)
            if found is None:
                return False
            metadata, rest, tail = found[1], tail[found.end() :], tail[:cut]
    attributes, own = state.tails.get((opcode, tail, None if metadata is None else rest), (None, ()))
    shape = cursor.shapes.get(shape_text)
    if attributes is None or shape is None or name in names or (root and scope.root is not None):
        return False
    operands: list[Instruction] = []
    if opcode == "parameter":
        if not inside.isdecimal() or len(inside) > 9:
            return False
        attributes = {"parameter_number": int(inside), **attributes}
    elif opcode == "constant":
        literal = state.literals.get((shape_text, inside)) or _scalar(state, match, shape)
        if literal is None:
            return False
        attributes = {"literal": literal, **attributes}
    elif inside:
        known = _operands(state, names, inside)
        if known is None:
            return False
        operands = known
    if cursor.notes and any(isinstance(operand.shape, UnknownShape) for operand in operands):
        return False
    if own:
        attributes = {**attributes, **{key: deepcopy(attributes[key]) for key in own}}
    if metadata is not None and "\\" in metadata:
        metadata = read_metadata(Cursor(f"{{{metadata}}}", ""))
    place = cursor.lines, match.start(2), match.end(4)
    instruction = Instruction(opcode, shape, operands, attributes, name, metadata, place)
    scope.computation.add(instruction)
    names[name] = instruction
    if root:
        begin = match.start(1)
        scope.root = (begin, begin + 4)
        scope.computation.root = instruction
    cursor.position = match.end()
    return True


def _scalar(state: State, match: re.Match[str], shape: Shape) -> Literal | None:
    """The literal of a scalar constant, if it is usual, which is remembered."""
    if not shape.is_scalar:
        return None
    cursor = state.cursor
    before, cursor.position = cursor.position, match.start(5)
    literal = read_usual_literal(cursor, shape)
    found = literal if cursor.position == match.end(5) else None
    cursor.position = before
    if found is not None:
        state.literals[match[3], match[5]] = found
    return found


def _operands(state: State, names: dict[str, Instruction], inside: str) -> list[Instruction] | None:
    """Operands that are names, or names with arrays as shapes."""
    if "/" in inside:
        inside = _COMMENT.sub("", inside)
    if "[" in inside:
        return _typed_operands(state, names, inside)
    if "%%" in inside or "% " in inside:
        return None
    try:
        return [names[operand.lstrip(" %")] for operand in inside.split(",")]
    except KeyError:
        return None


def _typed_operands(state: State, names: dict[str, Instruction], inside: str) -> list[Instruction] | None:
    shapes, found, position = state.cursor.shapes, [], 0
    while position < len(inside):
        match = _TYPED.match(inside, position)
        if match is None:
            return None
        shape, operand = shapes.get(match[1]), names.get(match[2])
        if shape is None or operand is None or not shape.compatible(operand.shape):
            return None
        found.append(operand)
        position = match.end()
    return found if inside[-1] != "," else None


def remember(state: State, match: re.Match[str], instruction: Instruction) -> None:
    """Keep what the careful way made of the attributes of a match of `USUAL`, which it read to its end."""
    tail, opcode = match[6], instruction.opcode
    rest = None
    if instruction.metadata is not None:
        cut = state.metadata_start - 2 - match.start(6)
        found = _METADATA.match(tail, cut) if tail.startswith(", metadata={", cut) else None
        if found is None or tail.find(", metadata={") != cut:
            return
        rest, tail = tail[found.end() :], tail[:cut]
    if opcode != match[4] or len(match[6]) > _LONGEST or any(word in match[6] for word in _ELSEWHERE):
        return
    attributes = {key: value for key, value in instruction.attributes.items() if key != _OWN.get(opcode)}
    if any(name not in tail + (rest or "") for name in REQUIRED[opcode]):
        return  # one that may be left out for these operands
    if all(_is_fixed(state, value) for value in attributes.values()):
        own = tuple(key for key, value in attributes.items() if isinstance(value, (dict, list)))
        state.tails[opcode, tail, rest] = {**attributes, **{key: deepcopy(attributes[key]) for key in own}}, own


def _is_fixed(state: State, value: Any) -> bool:
    """Whether a text means the same value everywhere: bodies in braces do not."""
    if isinstance(value, Computation):
        return state.computations.get(value.name) is value
    if isinstance(value, tuple):
        return all(_is_fixed(state, part) for part in value)
    return True
