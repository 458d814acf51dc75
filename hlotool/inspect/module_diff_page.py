"""The difference of two modules as a page: both texts side by side, one HTML file without network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from html import escape

from hlotool.inspect.module_diff import Change, ComputationPair, ModuleDiff
from hlotool.inspect.module_diff_report import MARKS, cost_rows, detail_text, instruction_text, summary
from hlotool.inspect.page import asset
from hlotool.inspect.site import table
from hlotool.ir import Computation, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["diff_page"]

_AROUND = 3  # instructions shown around a change
_WORD = re.compile(r"[\w.\-]+|\s+|.")


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of both sides; without a `kind` nothing is different."""

    old: Instruction | None
    new: Instruction | None
    change: Change | None = None

    @property
    def kind(self) -> str:
        return self.change.kind if self.change is not None else ""


def diff_page(found: ModuleDiff, old_name: str, new_name: str) -> str:
    """The page; `old_name` and `new_name` are what the modules are called in its head."""
    counts = found.counts
    follow = sum(change.follows for change in found.changes)
    buttons = [(kind, f"{MARKS[kind]} {counts[kind]:,} {kind}", kind) for kind in MARKS if counts[kind]]
    buttons += [("follows", f"{follow:,} shapes that follow", "changed")] if follow else []
    kinds = "".join(
        f'<button class="{look}" data-kind="{kind}" aria-pressed="true" title="show or hide">{escape(words)}</button>'
        for kind, words, look in buttons
    )
    costs = table(
        ("one run", old_name, new_name, "difference"),
        [(row.what, _number(row.old, row.old_missing), _number(row.new, row.new_missing), _signed(row.new - row.old))
         for row in cost_rows(found)],
        (old_name, new_name, "difference") if old_name != new_name else (old_name, "difference"),
    )  # fmt: skip
    title = f"{old_name} and {new_name}"
    body = "\n".join(_sections(found))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title>
<style>
{asset("report.css")}{asset("diff.css")}</style></head>
<body>
<header><h1>{escape(title)}<small>{escape(summary(found))}</small></h1>
{kinds}<button id="previous" title="the change before ( p )">previous</button>
<button id="next" title="the next change ( n )">next</button><span id="count" class="dim"></span></header>
{costs}
{body}
<script>
{asset("diff.js")}</script>
</body></html>
"""


def _number(number: int, missing: int) -> str:
    return f"≥ {number:,}" if missing else f"{number:,}"


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _sections(found: ModuleDiff) -> Iterator[str]:
    if found.header:
        items = "".join(f"<li>{escape(detail_text(detail))}</li>" for detail in found.header)
        yield f"<h2>attributes of the module</h2><ul>{items}</ul>"
    by_old = {change.old: change for change in found.changes if change.old is not None}
    by_new = {change.new: change for change in found.changes if change.new is not None}
    equal: list[str] = []
    for pair in found.computations:
        rows = _rows(pair, found, by_old, by_new)
        text = _section(pair, rows, found)
        if pair.details or any(row.kind for row in rows) or pair.old is None or pair.new is None:
            yield text
        else:
            equal.append(text)
    if equal:
        yield f"<details><summary>{len(equal):,} computations without a difference</summary>{''.join(equal)}</details>"


def _section(pair: ComputationPair, rows: Sequence[_Row], found: ModuleDiff) -> str:
    names = list(dict.fromkeys(one.name for one in (pair.old, pair.new) if one is not None))
    note = "added" if pair.old is None else "removed" if pair.new is None else ""
    notes = "; ".join(filter(None, [note, *map(detail_text, pair.details)]))
    parts = []
    for is_same, run in _runs(rows):
        parts.append(_folded(run, found) if is_same else "".join(_line(row, found) for row in run))
    title = f"{escape(' → '.join(names))}<small>{len(rows):,} instructions</small><small>{escape(notes)}</small>"
    return f"<section><h2>{title}</h2>{''.join(parts)}</section>"


def _rows(
    pair: ComputationPair, found: ModuleDiff, by_old: dict[Instruction, Change], by_new: dict[Instruction, Change]
) -> list[_Row]:
    """The instructions in the order of the new text; what is only in the old one stands where it stood there."""
    if pair.new is None:
        return [_Row(one, None, by_old.get(one)) for one in _instructions(pair.old)]
    if pair.old is None:
        return [_Row(None, one, by_new.get(one)) for one in _instructions(pair.new)]
    partner = {new: old for old, new in found.partners.items() if old.parent is pair.old and new.parent is pair.new}
    matched = set(partner.values())
    gone = [one for one in pair.old if one not in matched]
    place = {one: number for number, one in enumerate(pair.old)}
    rows: list[_Row] = []
    following = 0
    for new in pair.new:
        old = partner.get(new)
        while old is not None and following < len(gone) and place[gone[following]] < place[old]:
            rows.append(_Row(gone[following], None, by_old.get(gone[following])))
            following += 1
        rows.append(_Row(old, new, by_new.get(new)))
    rows += [_Row(one, None, by_old.get(one)) for one in gone[following:]]
    return rows


def _instructions(computation: Computation | None) -> Iterable[Instruction]:
    return computation or ()


def _runs(rows: Sequence[_Row]) -> Iterator[tuple[bool, Sequence[_Row]]]:
    """Parts of the rows that are shown, and such between them that are folded."""
    near = [False] * len(rows)
    for number, row in enumerate(rows):
        if row.kind:
            for k in range(max(0, number - _AROUND), min(len(rows), number + _AROUND + 1)):
                near[k] = True
    start = 0
    for number in range(1, len(rows) + 1):
        if number == len(rows) or near[number] != near[start]:
            yield not near[start], rows[start:number]
            start = number


def _folded(rows: Sequence[_Row], found: ModuleDiff) -> str:
    """Instructions without a difference, two elements for all of them."""
    sides = ["\n".join(_text(one, found) for one in side) for side in ([r.old for r in rows], [r.new for r in rows])]
    texts = "".join(f"<pre>{escape(side)}</pre>" for side in sides)
    return f'<details><summary>{len(rows):,} the same</summary><div class="run">{texts}</div></details>'


def _line(row: _Row, found: ModuleDiff) -> str:
    sides = [_text(one, found) for one in (row.old, row.new)]
    html = _marked(sides[0], sides[1]) if row.kind == "changed" else [escape(side) for side in sides]
    details = row.change.details if row.change is not None else ()
    notes = "<br>".join(escape(detail_text(detail)) for detail in details)
    cells = [f"<i>{_place(one)}</i><b>{text}</b>" for one, text in zip((row.old, row.new), html, strict=True)]
    if row.kind == "moved":
        cells = [cell if side else f"<i></i><u>{notes}</u>" for cell, side in zip(cells, sides, strict=True)]
    elif notes:
        cells.append(f"<p>{notes}</p>")
    follows = " follows" if row.change is not None and row.change.follows else ""
    return f'<div class="row {row.kind}{follows}">{"".join(cells)}</div>\n'


def _place(instruction: Instruction | None) -> str:
    return str(instruction.location.line) if instruction is not None and instruction.location is not None else ""


def _text(instruction: Instruction | None, found: ModuleDiff) -> str:
    if instruction is None:
        return ""
    return ("ROOT " if instruction.is_root else "") + instruction_text(instruction, found)


def _marked(old: str, new: str) -> list[str]:
    """Two lines as HTML, with the words marked that are not in both."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    texts: list[list[str]] = [[], []]
    for kind, i, end_i, j, end_j in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for text, words in zip(texts, (a[i:end_i], b[j:end_j]), strict=True):
            inside = escape("".join(words))
            text.append(inside if kind == "equal" or not inside else f"<mark>{inside}</mark>")
    return ["".join(text) for text in texts]
