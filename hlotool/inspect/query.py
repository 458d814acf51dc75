"""Which instructions match: the fields of the query language, and expressions as functions of instructions.

Missing values (no metadata, an attribute that is not there, a cost that nobody knows) match no comparison but ``!=``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.traffic import shape_bytes
from hlotool.inspect.expression import (
    And,
    Comparison,
    Expression,
    Has,
    ListOf,
    Not,
    Number,
    Operand,
    QueryError,
    Text,
    Word,
    closest,
    parse_expression,
)
from hlotool.ir import OPCODES, UNBOUNDED, Computation, Instruction, Module, Verbatim
from hlotool.text.lexer import NAME
from hlotool.text.printer import PrintOptions, print_instruction, print_shape
from hlotool.text.sources import Sources
from hlotool.text.writers import WRITERS

__all__ = ["FIELDS", "Query", "describe", "one_line"]

Value: TypeAlias = float | str | bool | tuple[str, ...] | None
"""What a field is for an instruction; a tuple is a list of names, and a number where one is wanted."""

Getter: TypeAlias = Callable[[Instruction], Value]
Predicate: TypeAlias = Callable[[Instruction], bool]

_TEXT = PrintOptions(metadata=False, backend_config=False, annotations=False, elide_above=8, index_comments=False)
_ATTRIBUTE = re.compile(rf"attr\.({NAME})", re.ASCII)


class Query:
    """An expression, checked against the fields; `matches` gives the instructions for which it holds."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.expression = parse_expression(source)
        _Compiler(source, Module("")).predicate(self.expression)  # errors come before any file is read

    @property
    def needs_cost(self) -> bool:
        """Whether the module must be valid, because its costs are asked for."""
        return _needs_cost(self.expression)

    def matches(self, module: Module) -> Iterator[Instruction]:
        """The instructions of all computations that match, in the order of the text."""
        holds = _Compiler(self.source, module).predicate(self.expression)
        return (instruction for instruction in module.instructions() if holds(instruction))


def _needs_cost(expression: Expression) -> bool:
    """Whether an expression names a field that needs the cost model."""
    if isinstance(expression, Word):
        return expression.name in _COSTS
    if isinstance(expression, Comparison):
        return any(isinstance(side, Word) and side.name in _COSTS for side in (expression.left, expression.right))
    if isinstance(expression, (Not, Has)):
        return _needs_cost(expression.inner)
    return any(_needs_cost(part) for part in expression.parts)


def one_line(instruction: Instruction) -> str:
    """One match for people: the instruction without what only says where it came from."""
    return print_instruction(instruction, _TEXT)


def describe(instruction: Instruction, sources: Sources) -> dict[str, Any]:
    """One match for programs."""
    place, origin = instruction.location, sources.of(instruction)
    metadata = instruction.metadata
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "computation": instruction.parent.name if instruction.parent else None,
        "name": instruction.name,
        "opcode": instruction.written,
        "shape": print_shape(instruction.shape, index_comments=False),
        "bytes": shape_bytes(instruction.shape),
        "operands": [operand.name for operand in instruction.operands],
        "users": [user.name for user in instruction.users],
        "is_root": instruction.is_root,
        "op_name": metadata.op_name or None if metadata else None,
        "source_file": origin.file if origin else None,
        "source_line": origin.line if origin else None,
        "text": one_line(instruction),
    }


# ---- fields


def _size(instruction: Instruction) -> int | None:
    shape = instruction.shape
    return None if not shape.is_array or UNBOUNDED in shape.dimensions else shape.size


def _computation(instruction: Instruction) -> str | None:
    return instruction.parent.name if instruction.parent else None


def _op_name(instruction: Instruction) -> str | None:
    return instruction.metadata.op_name or None if instruction.metadata else None


FIELDS: dict[str, tuple[str, str, Getter]] = {
    "name": ("text", "name of the instruction", lambda i: i.name),
    "opcode": ("text", "opcode", lambda i: i.written),
    "group": ("text", "group of opcodes: elementwise, dot, reduction, data-movement...", lambda i: i.info.group),
    "type": ("text", "element type of the result", lambda i: i.shape.element_type),
    "shape": ("text", "shape of the result: f32[2,3], f32[2,3]{1,0}", lambda i: str(i.shape)),
    "rank": ("number", "number of dimensions", lambda i: i.shape.rank if i.shape.is_array else None),
    "size": ("number", "elements of the result", _size),
    "bytes": ("number", "bytes of the result", lambda i: shape_bytes(i.shape)),
    "computation": ("text", "name of its computation", _computation),
    "operands": ("names", "operands: a count, or names", lambda i: tuple(o.name for o in i.operands)),
    "users": ("names", "users: a count, or names", lambda i: tuple(u.name for u in i.users)),
    "is_root": ("flag", "is the root of its computation", lambda i: i.is_root),
    "op_name": ("text", "op_name of the metadata", _op_name),
}
"""Field -> kind, help and value.  The cost fields and those that need the module's tables are in `_Compiler`."""

_COSTS = {"flops": "arithmetic operations, bodies included", "traffic": "bytes read and written, bodies included"}
_SOURCES = {"source_file": "text", "source_line": "number"}


class _Compiler:
    """Turns an expression into a function, for one module."""

    def __init__(self, source: str, module: Module) -> None:
        self.source = source
        self.module = module
        self._cost: ModuleCost | None = None
        self._sources = Sources(module)

    # ---- conditions

    def predicate(self, expression: Expression) -> Predicate:
        if isinstance(expression, Word):
            return self.flag(expression)
        if isinstance(expression, Comparison):
            return self.comparison(expression)
        if isinstance(expression, Not):
            inner = self.predicate(expression.inner)
            return lambda instruction: not inner(instruction)
        if isinstance(expression, Has):
            return self.neighbour(expression.what, self.predicate(expression.inner))
        parts = [self.predicate(part) for part in expression.parts]
        if isinstance(expression, And):
            return lambda instruction: all(part(instruction) for part in parts)
        return lambda instruction: any(part(instruction) for part in parts)

    def neighbour(self, what: str, inner: Predicate) -> Predicate:
        """An operand or user matches.  Answers are kept: an instruction can be the neighbour of very many others."""
        known: dict[Instruction, bool] = {}

        def holds(instruction: Instruction) -> bool:
            answer = known.get(instruction)
            if answer is None:
                answer = known[instruction] = inner(instruction)
            return answer

        if what == "operand":
            return lambda instruction: any(holds(operand) for operand in instruction.operands)
        return lambda instruction: any(holds(user) for user in instruction.users)

    def flag(self, word: Word) -> Predicate:
        _, getter = self.field(word)
        return lambda instruction: bool(getter(instruction))

    def comparison(self, comparison: Comparison) -> Predicate:
        left, operator, right = comparison.left, comparison.operator, comparison.right
        if operator in ("in", "not in"):
            inside = self.membership(left, right, comparison)
            return inside if operator == "in" else lambda instruction: not inside(instruction)
        if not isinstance(left, Word):
            raise self.error("the left side must be a field", comparison.start, 1)
        kind, getter = self.field(left)
        if operator in ("=~", "!~"):
            found = self.regular(kind, getter, right, comparison)
            return found if operator == "=~" else lambda instruction: not found(instruction)
        if isinstance(right, Word) and self.is_number(right) and kind in ("number", "names"):
            _, other = self.field(right)
            return _numbers(getter, operator, other)
        if isinstance(right, Number):
            if kind in ("text", "flag"):
                raise self.error(f"'{left.name}' is {_KINDS[kind]}, not a number", left.start, len(left.name))
            limit = right.value
            return _numbers(getter, operator, lambda instruction: limit)
        if isinstance(right, ListOf):
            raise self.error("a list goes with 'in'", comparison.start, 1)
        return self.texts(left, kind, getter, operator, right)

    def texts(self, left: Word, kind: str, getter: Getter, operator: str, right: Text | Word) -> Predicate:
        value = right.value if isinstance(right, Text) else right.name
        if kind == "flag":
            if operator not in ("==", "!=") or value not in ("true", "false"):
                raise self.error(f"'{left.name}' is true or false", left.start, len(left.name))
            wanted = (value == "true") == (operator == "==")
            return lambda instruction: bool(getter(instruction)) == wanted
        if kind == "number":
            start = right.start if isinstance(right, Word) else left.start
            raise self.error(f"'{left.name}' is a number, '{value}' is not", start, len(value))
        if operator not in ("==", "!="):
            raise self.error(f"'{operator}' compares numbers, '{value}' is text", left.start, len(left.name))
        plain = _unblank(value)
        if left.name == "shape" and "{" in value:
            getter = _full_shape
        equal = _equals(getter, plain)
        return equal if operator == "==" else lambda instruction: not equal(instruction)

    def regular(self, kind: str, getter: Getter, right: Operand, comparison: Comparison) -> Predicate:
        if kind in ("number", "flag") or not isinstance(right, (Text, Word)):
            raise self.error("=~ and !~ compare text with a regular expression", comparison.start, 1)
        text = right.value if isinstance(right, Text) else right.name
        try:
            search = re.compile(text).search
        except (re.error, OverflowError, RecursionError) as error:
            at = self.source.find(text, comparison.start)
            raise self.error(f"not a regular expression: {error}", max(at, 0), len(text)) from None

        def found(instruction: Instruction) -> bool:
            value = getter(instruction)
            if isinstance(value, tuple):
                return any(search(one) for one in value)
            return value is not None and search(_word(value)) is not None

        return found

    def membership(self, left: Operand, right: Operand, comparison: Comparison) -> Predicate:
        if isinstance(right, ListOf):
            if not isinstance(left, Word):
                raise self.error("the left side must be a field", comparison.start, 1)
            kind, _ = self.field(left)
            parts = [Comparison(left, "==", item, comparison.start) for item in right.items]
            tests = [self.comparison(part) for part in parts]
            if kind == "number" and any(isinstance(item, Text) for item in right.items):
                raise self.error(f"'{left.name}' is a number", left.start, len(left.name))
            return lambda instruction: any(test(instruction) for test in tests)
        if not isinstance(right, Word) or isinstance(left, ListOf):
            raise self.error("'in' wants a list such as [dot, convolution], or a field", comparison.start, 1)
        _, getter = self.field(right)
        wanted = _word(left.value) if isinstance(left, (Number, Text)) else left.name

        def inside(instruction: Instruction) -> bool:
            value = getter(instruction)
            if isinstance(value, tuple):
                return wanted in value
            if isinstance(value, str) and value[:1] == "{":
                return wanted in value[1:-1].split(",")
            return isinstance(value, str) and wanted in value

        return inside

    # ---- fields

    def field(self, word: Word) -> tuple[str, Getter]:
        name = word.name
        if name in FIELDS:
            kind, _, getter = FIELDS[name]
            return kind, getter
        if name in _COSTS:
            return "number", self.cost(name)
        if name in _SOURCES:
            return _SOURCES[name], self.source_field(name)
        match = _ATTRIBUTE.fullmatch(name)
        if match is not None:
            return "attribute", _attribute(match.group(1))
        known = [*FIELDS, *_COSTS, *_SOURCES, "has_operand", "has_user", "attr.NAME"]
        hint = closest(name, known) or f"fields are {', '.join(known)}"
        raise self.error(f"there is no field '{name}'", word.start, len(name), hint)

    def is_number(self, word: Word) -> bool:
        return word.name in _COSTS or FIELDS.get(word.name, ("",))[0] in ("number", "names")

    def cost(self, name: str) -> Getter:
        def get(instruction: Instruction) -> Value:
            if self._cost is None:
                self._cost = ModuleCost(self.module)
            cost = self._cost.of(instruction)
            if name == "traffic":
                return cost.bytes
            return None if cost.unknown and not cost.flops else cost.flops

        return get

    def source_field(self, name: str) -> Getter:
        def get(instruction: Instruction) -> Value:
            place = self._sources.of(instruction)
            if place is None:
                return None
            return place.file if name == "source_file" else place.line

        return get

    def error(self, message: str, start: int, length: int, hint: str | None = None) -> QueryError:
        return QueryError(message, self.source, start, start + length, hint)


_KINDS = {"text": "text", "flag": "true or false"}
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _number(value: Value) -> float | None:
    """A value as a number: lists by their length, text where it is one."""
    if isinstance(value, tuple):
        return len(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value


def _numbers(left: Getter, operator: str, right: Getter) -> Predicate:
    if operator == "!=":
        equal = _numbers(left, "==", right)
        return lambda instruction: not equal(instruction)
    compare = _ORDER[operator]

    def holds(instruction: Instruction) -> bool:
        a, b = _number(left(instruction)), _number(right(instruction))
        return a is not None and b is not None and compare(a, b)

    return holds


def _equals(getter: Getter, wanted: str) -> Predicate:
    def holds(instruction: Instruction) -> bool:
        value = getter(instruction)
        if isinstance(value, tuple):
            return wanted in value
        return value is not None and _unblank(_word(value)) == wanted

    return holds


def _full_shape(instruction: Instruction) -> str:
    return print_shape(instruction.shape, index_comments=False)


def _unblank(text: str) -> str:
    return text.replace(" ", "")


def _word(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _attribute(name: str) -> Getter:
    """The value of an attribute: numbers and bools as they are, everything else as HLO text writes it, unquoted."""

    def get(instruction: Instruction) -> Value:
        value = instruction.attributes.get(name)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Computation):
            return value.name
        if isinstance(value, Verbatim):
            return value.text
        row = OPCODES.get(instruction.written, instruction.info).attribute(name)
        if row is None or row.kind == "literal":
            return None
        if row.kind == "computations":
            return f"{{{','.join(one.name for one in value)}}}"
        return WRITERS[row.kind](value)

    return get
