"""What may follow at a place of a half-typed text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hlotool.ir import COMMON_ATTRIBUTES, ELEMENT_TYPES, OPCODES, Attribute, Opcode
from hlotool.ir.opcodes import SPELLED
from hlotool.lazy_dataclass import dataclass
from hlotool.lsp.document import Document
from hlotool.lsp.hover import attribute_text, opcode_text, signature
from hlotool.lsp.meanings import HEADER
from hlotool.lsp.scan import NOWHERE, State, Statement, state_at
from hlotool.text.header import HEADER_ATTRIBUTES

__all__ = ["Item", "Offer", "complete"]

_WORD = re.compile(r"%?[A-Za-z_0-9][\w.\-]*\Z|%\Z|\Z", re.ASCII)
_SHAPE = re.compile(r"=[ \t]*((?:[a-z][a-z0-9_]*\[[^\]]*\](?:\{[^}]*\})?)|\([^=\r\n]*?\))[ \t]+[a-z]")
_MOST = 300  # names that are offered: those nearest to the place


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that may stand at `start` to `end`: what is offered, and what is put there.

    `kind` is one of ``opcode attribute operand computation type value keyword``.  In a `snippet`, ``$1`` are places to
    fill in.
    """

    label: str
    kind: str
    start: int
    end: int
    text: str
    detail: str = ""
    documentation: str = ""
    snippet: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """What is offered, the best first where there is an order; of very many, some: `is_cut`."""

    items: tuple[Item, ...] = ()
    is_cut: bool = False


def complete(document: Document, offset: int, snippets: bool = True) -> Offer:
    """What may stand at `offset`."""
    line = document.position(offset)[0]
    before = document.line(line)[: offset - document.starts[line]]
    match = _WORD.search(before)
    start = offset - (len(match.group()) if match is not None else 0)
    place = _Place(document, start, offset, snippets)
    if place.inside_other_words:
        return Offer()
    return Offer(tuple(_OFFERS[place.state.kind](place)), place.is_cut)


class _Place:
    """Where something is to stand, and what is known there."""

    def __init__(self, document: Document, start: int, end: int, snippets: bool) -> None:
        self.document, self.start, self.end, self.snippets = document, start, end, snippets
        self.scope = document.scope_at(start)
        self.statement = self._statement()
        if self.statement is not None:
            self.stack = state_at(document.text, self.statement.start, self.scope, start)
        else:
            head = document.scan.scopes[self.scope].body + 1 if self.scope != NOWHERE else 0
            self.stack = state_at(document.text, min(head, start), self.scope, start)
        self.state = self.stack[-1] if self.stack else State("top", "", NOWHERE)
        self.word = document.text[start:end].lstrip("%")
        self.is_cut = False
        self.percent = "%" if document.has_percent else ""
        part = document.part_at(start)
        self.inside_other_words = (
            part is not None
            and part.start < start
            and (part.kind == "comment" or (part.kind == "string" and start < part.end))
        )

    def _statement(self) -> Statement | None:
        """The instruction that is being written: the last one in this computation that begins ahead of the place."""
        found = None
        for statement in self.document.scan.statements:
            if statement.start > self.start or (statement.start == self.start and statement.opcode == ""):
                break
            if statement.scope == self.scope:
                found = statement
        return found

    @property
    def on_new_line(self) -> bool:
        """Whether an instruction may begin here: only blanks stand ahead of the place in its line."""
        line = self.document.starts[self.document.position(self.start)[0]]
        return not self.document.text[line : self.start].strip()

    def item(self, label: str, kind: str, text: str | None = None, **more: str) -> Item:
        new = label if text is None else text
        snippet = "$" in new and self.snippets
        if "$" in new and not self.snippets:
            new = re.sub(r"\$\{?\d(?::[^}]*\})?", "", new)
        return Item(label=label, kind=kind, start=self.start, end=self.end, text=new, snippet=snippet, **more)

    def followed_by(self, mark: str) -> bool:
        return self.document.text[self.end : self.end + 20].lstrip(" \t").startswith(mark)


# ---- inside a computation


def _in_body(place: _Place) -> Iterator[Item]:
    state = place.state
    if state.phase in ("start", "named") or (place.on_new_line and state.phase == "after"):
        yield place.item("ROOT", "keyword", "ROOT ", detail="the result of the computation")
    elif state.phase == "equals":
        yield from _types(place)
        yield from (one for one in _opcodes(place) if "inferable" in OPCODES[one.label].traits)
    elif state.phase in ("typed", "opcode"):
        yield from _opcodes(place)
    elif state.phase in ("after", "comma"):
        yield from _attributes(place)
    elif state.phase == "value":
        yield from _values(place)


def _types(place: _Place) -> Iterator[Item]:
    for row in ELEMENT_TYPES.values():
        if row.is_array:
            text = row.name if place.followed_by("[") else f"{row.name}[$1]"
            yield place.item(row.name, "type", text, detail=f"{row.bits} bits, {row.kind}")


def _opcodes(place: _Place) -> Iterator[Item]:
    for name in SPELLED:
        row = OPCODES[name]
        text = name if place.followed_by("(") else _snippet(row)
        yield place.item(name, "opcode", text, detail=signature(row), documentation=opcode_text(name) or "")


def _snippet(row: Opcode) -> str:
    """An opcode with places for its operands and the attributes that it needs."""
    count = {None: 1, 0: 0}.get(row.arity, row.arity) or 0
    if row.name in ("constant", "parameter"):
        count = 1
    operands = ", ".join(f"${n + 1}" for n in range(count))
    needed = [a for a in row.attributes if a.required and a.name not in ("literal", "parameter_number")]
    rest = "".join(f", {a.name}={_value_snippet(a, count + n + 1)}" for n, a in enumerate(needed))
    return f"{row.name}({operands}){rest}"


def _value_snippet(row: Attribute, number: int) -> str:
    if row.kind in ("ints", "bools", "words", "window", "pairs", "slice", "names", "computations", "shapes", "map",
                    "metadata", "replica_groups", "aliasing"):  # fmt: skip
        return f"{{${number}}}"
    return f'"${number}"' if row.kind in ("string", "config") else f"${number}"


def _attributes(place: _Place) -> Iterator[Item]:
    statement = place.statement
    opcode = statement.opcode if statement is not None else place.state.opcode
    row = OPCODES.get(opcode) or OPCODES.get(opcode.rpartition("-")[0])
    given = set()
    if statement is not None:
        parts = place.document.parts_between(statement.start, statement.end)
        given = {place.document.word(p) for p in parts if p.kind == "attribute" and not p.start <= place.start <= p.end}
    own = [a for a in row.attributes if a.name not in ("parameter_number", "literal")] if row is not None else []
    comma = "" if place.state.phase == "comma" else ", "
    for attribute in (*sorted(own, key=lambda a: not a.required), *COMMON_ATTRIBUTES.values()):
        if attribute.name not in given:
            tail = "" if place.followed_by("=") else f"={_value_snippet(attribute, 1)}"
            yield place.item(
                attribute.name, "attribute", f"{comma}{attribute.name}{tail}",
                detail="needed" if attribute.required else "",
                documentation=attribute_text(attribute.name, row.name if row is not None else "") or "",
            )  # fmt: skip


def _values(place: _Place) -> Iterator[Item]:
    name = place.state.attribute
    row = OPCODES[place.state.opcode].attribute(name) if place.state.opcode in OPCODES else COMMON_ATTRIBUTES.get(name)
    if row is None:
        return
    if row.kind in ("computation", "computations"):
        yield from _computations(place)
    elif row.kind == "bool":
        yield from (place.item(word, "value") for word in ("true", "false"))
    else:
        yield from (place.item(word, "value") for word in row.choices)


def _computations(place: _Place) -> Iterator[Item]:
    """The computations of the module that end ahead of the place, the nearest first: others cannot be called."""
    scopes = place.document.scan.scopes
    module = scopes[place.scope].module if place.scope != NOWHERE else 0
    for scope in reversed(scopes):
        if scope.name and scope.module == module and scope.end <= place.start and not scope.is_entry:
            yield place.item(f"{place.percent}{scope.name}", "computation")


def _operands(place: _Place) -> Iterator[Item]:
    """The instructions of the computation ahead of the one that is written, the nearest first."""
    if place.state.opcode == "constant":
        yield from (place.item(word, "value") for word in ("true", "false", "inf", "nan"))
        return
    if place.state.opcode == "parameter":
        own = [s for s in place.document.scan.statements if s.scope == place.scope and s.opcode == "parameter"]
        yield place.item(str(sum(s.start < place.start for s in own) - 1), "value", detail="the next parameter")
        return
    limit = place.statement.start if place.statement is not None else place.start
    word = place.word.lower()
    names = [
        s
        for s in place.document.scan.statements
        if s.scope == place.scope and s.start < limit and s.name and word in s.name.lower()
    ]
    place.is_cut |= len(names) > _MOST
    for statement in names[: -_MOST - 1 : -1]:
        match = _SHAPE.search(place.document.text, statement.start, statement.end)
        shape = " ".join(match[1].split())[:80] if match is not None else ""
        yield place.item(
            f"{place.percent}{statement.name}", "operand", detail=" ".join(filter(None, [shape, statement.opcode]))
        )


def _shapes(place: _Place) -> Iterator[Item]:
    yield from _types(place)


def _words(place: _Place) -> Iterator[Item]:
    """Inside the braces of an attribute: its words, where it has a choice of them."""
    body = next((state for state in reversed(place.stack) if state.kind == "body"), None)
    if body is None or body.opcode not in OPCODES:
        return
    row = OPCODES[body.opcode].attribute(body.attribute)
    if row is not None and row.kind == "words":
        yield from (place.item(word, "value") for word in row.choices)


# ---- around computations


def _at_top(place: _Place) -> Iterator[Item]:
    line = place.document.line(place.document.position(place.start)[0])
    if line.lstrip().startswith("HloModule"):
        for name in HEADER_ATTRIBUTES:
            if f"{name}=" not in line:
                yield place.item(name, "attribute", f"{name}=", documentation=HEADER[name])
    elif place.on_new_line:
        if not any(part.kind == "module" for part in place.document.scan.parts[:50]):
            yield place.item("HloModule", "keyword", "HloModule ${1:name}\n")
        if not any(scope.is_entry for scope in place.document.scan.scopes):
            yield place.item("ENTRY", "keyword", "ENTRY ${1:main} {\n  $2\n}")


_OFFERS: dict[str, Callable[[_Place], Iterator[Item]]] = {
    "body": _in_body,
    "operands": _operands,
    "names": _operands,
    "called": _computations,
    "tuple": _shapes,
    "signature": lambda place: iter(()),
    "value": _words,
    "top": _at_top,
}
