"""The language of ``hlotool query``: expressions over one instruction, as values.

    expression  = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | comparison
    comparison  = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "=~" | "!~" | "in" | "not in") operand ]
    operand     = number | "text" | 'text' | word | {0,1} | [ operand, ... ] | "(" expression ")"
                | ("has_operand" | "has_user") "(" expression ")"

A word is a field where one is meant, and text otherwise: ``opcode == dot``.  Numbers take KB, MB, GB and KiB, MiB,
GiB.  Nothing is evaluated here and nothing but these forms is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TypeAlias

from hlotool.ir import Diagnostic, HloError, Location
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "And",
    "Comparison",
    "Expression",
    "Has",
    "ListOf",
    "Not",
    "Number",
    "Operand",
    "Or",
    "QueryError",
    "Text",
    "Word",
    "parse_expression",
]

_DEEPEST = 100
_OPERATORS = ("==", "!=", "<=", ">=", "=~", "!~", "<", ">")
_FUNCTIONS = ("has_operand", "has_user")
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_TOKEN = re.compile(
    r"""(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>[KMGT]i?B\b)?(?![\w.])
      | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
      | (?P<word>%?[A-Za-z_][\w.\-/]*(?:\[[\d,<=?]*\](?:\{[^{}]*\})?)?)
      | (?P<braces>\{[^{}]*\})
      | (?P<operator>==|!=|<=|>=|=~|!~|<|>)
      | (?P<mark>[()\[\],])""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)


class QueryError(HloError):
    """The expression is not one; the diagnostic has the column."""

    def __init__(self, message: str, source: str, start: int, end: int, hint: str | None = None) -> None:
        place = Location("<query>", 1, start + 1, 1, max(end, start + 1) + 1)
        super().__init__(message, [Diagnostic(message, place, hint, "HLO0902")])
        self.source = source


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """Quoted text, or braces with what is in them."""

    value: str


@dataclass(frozen=True, slots=True)
class Word:
    """A field or text, whichever fits; `start` is its column from 0."""

    name: str
    start: int


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Number | Text | Word, ...]


Operand: TypeAlias = Number | Text | Word | ListOf


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of those of the grammar; `start` is its column from 0."""

    left: Operand
    operator: str
    right: Operand
    start: int


@dataclass(frozen=True, slots=True)
class Has:
    """An operand or user (`what`) for which `inner` holds."""

    what: str
    inner: Expression


@dataclass(frozen=True, slots=True)
class Not:
    inner: Expression


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expression, ...]


Expression: TypeAlias = Word | Comparison | Has | Not | And | Or
"""A word alone is a field that is true, or present."""


def parse_expression(source: str) -> Expression:
    """The value of an expression; QueryError with the column where it is not one."""
    parser = _Parser(source)
    found = parser.disjunction()
    if parser.kind != "end":
        raise parser.unexpected("'and', 'or' or the end")
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, text, word, operator, mark, end
    text: str
    start: int
    end: int
    value: float = 0.0


def _tokens(source: str) -> Iterator[_Token]:
    position = 0
    while True:
        while position < len(source) and source[position].isspace():
            position += 1
        if position == len(source):
            yield _Token("end", "", position, position)
            return
        match = _TOKEN.match(source, position)
        if match is None:
            quoted = source[position] in "\"'"
            message = "this text never ends" if quoted else f"unexpected {source[position]!r}"
            hint = "did you mean '=='?" if source[position] == "=" else None
            end = len(source) if quoted else position + 1
            raise QueryError(message, source, position, end, hint)
        position = match.end()
        yield _token(match)


def _token(match: re.Match[str]) -> _Token:
    start, end = match.span()
    kind = match.lastgroup or ""
    if match["number"] is not None:
        unit = _UNITS[match["unit"].upper()] if match["unit"] else 1
        return _Token("number", match.group(), start, end, float(match["number"]) * unit)
    if kind in ("double", "single"):
        return _Token("text", re.sub(r"\\([\"'\\])", r"\1", match[kind]), start, end)
    if kind == "braces":
        return _Token("text", match.group(), start, end)
    return _Token(kind, match.group(), start, end)


class _Parser:
    """One token of look-ahead."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._rest = _tokens(source)
        self.token = next(self._rest)
        self.depth = 0

    @property
    def kind(self) -> str:
        return self.token.kind

    def advance(self) -> _Token:
        token = self.token
        if token.kind != "end":
            self.token = next(self._rest)
        return token

    def accept(self, text: str) -> bool:
        """Go past a mark or a keyword."""
        if self.token.kind in ("mark", "word") and self.token.text == text:
            self.advance()
            return True
        return False

    def unexpected(self, wanted: str) -> QueryError:
        token = self.token
        found = repr(self.source[token.start : token.end][:40]) if token.kind != "end" else "the end"
        hint = None
        if token.kind == "word":
            close = get_close_matches(token.text, ["and", "or", "not", "in"], 1)
            hint = f"did you mean '{close[0]}'?" if close and close[0] != token.text else None
        return QueryError(f"expected {wanted}, found {found}", self.source, token.start, token.end, hint)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise QueryError(f"nested more than {_DEEPEST} levels deep", self.source, self.token.start, self.token.end)

    def disjunction(self) -> Expression:
        parts = [self.conjunction()]
        while self.accept("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def conjunction(self) -> Expression:
        parts = [self.negation()]
        while self.accept("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def negation(self) -> Expression:
        odd = False
        while self.accept("not"):
            odd = not odd
        found = self.comparison()
        return Not(found) if odd else found

    def comparison(self) -> Expression:
        token = self.token
        if self.accept("("):
            self.deeper()
            inner = self.disjunction()
            if not self.accept(")"):
                raise self.unexpected("')'")
            self.depth -= 1
            return inner
        if token.kind == "word" and token.text in _FUNCTIONS:
            return self.function(self.advance())
        left = self.operand("a field, a value or '('")
        operator = self.operator()
        if operator is None:
            if isinstance(left, Word):
                return left
            raise self.unexpected(f"one of {' '.join(_OPERATORS)} in")
        return Comparison(left, operator, self.operand(f"a value after '{operator}'"), token.start)

    def function(self, name: _Token) -> Expression:
        if not self.accept("("):
            raise self.unexpected(f"'(' after {name.text}")
        self.deeper()
        inner = self.disjunction()
        if not self.accept(")"):
            raise self.unexpected("')'")
        self.depth -= 1
        return Has(name.text.removeprefix("has_"), inner)

    def operator(self) -> str | None:
        if self.kind == "operator":
            return self.advance().text
        if self.accept("in"):
            return "in"
        if self.accept("not"):
            if not self.accept("in"):
                raise self.unexpected("'in' after 'not'")
            return "not in"
        return None

    def operand(self, wanted: str) -> Operand:
        if self.kind == "mark" and self.token.text in ("[", "("):
            return self.list(")" if self.advance().text == "(" else "]")
        return self.value(wanted)

    def list(self, closing: str) -> ListOf:
        items: list[Number | Text | Word] = []
        while not self.accept(closing):
            if items and not self.accept(","):
                raise self.unexpected(f"',' or '{closing}'")
            items.append(self.value("a value"))
        return ListOf(tuple(items))

    def value(self, wanted: str) -> Number | Text | Word:
        token = self.token
        if token.kind == "number":
            return Number(self.advance().value)
        if token.kind == "text":
            return Text(self.advance().text)
        if token.kind == "word" and token.text not in ("and", "or", "not", "in"):
            return Word(self.advance().text.removeprefix("%"), token.start)
        raise self.unexpected(wanted)


def closest(word: str, known: Sequence[str]) -> str | None:
    """A hint that names the closest of `known`."""
    close = get_close_matches(word, known, 1)
    return f"did you mean '{close[0]}'?" if close else None
