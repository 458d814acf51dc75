"""The difference of two modules as lines for people and as values for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hlotool.inspect.labels import short
from hlotool.inspect.module_diff import Change, Detail, ModuleDiff, Totals
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import PrintOptions, print_instruction, print_shape

__all__ = ["MARKS", "CostRow", "as_json", "cost_rows", "detail_text", "instruction_text", "lines", "summary"]

MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_LONGEST = 200
_LONGEST_DETAIL = 120


@dataclass(frozen=True, slots=True)
class CostRow:
    """One number of both modules; `is_bytes` says how it is written, `missing` what it leaves out (parts of unknown
    cost, loops of unknown length counted once): then it is a lower bound."""

    what: str
    old: int
    new: int
    is_bytes: bool = False
    old_missing: int = 0
    new_missing: int = 0


def cost_rows(found: ModuleDiff) -> list[CostRow]:
    """What both modules cost."""
    a, b = found.old_totals, found.new_totals
    gaps = [totals.cost.unknown + totals.cost.loops for totals in (a, b)]
    return [
        CostRow("instructions", a.instructions, b.instructions),
        CostRow("flops", a.cost.flops, b.cost.flops, False, *gaps),
        CostRow("transcendentals", a.cost.transcendentals, b.cost.transcendentals, False, *gaps),
        CostRow("bytes", a.cost.bytes, b.cost.bytes, True, *gaps),
        CostRow("peak memory", a.peak_bytes, b.peak_bytes, True),
    ]


def summary(found: ModuleDiff) -> str:
    """One line: how many instructions are what."""
    if found.is_same:
        return f"no difference: {found.counts['matched']:,} instructions matched"
    counts = found.counts
    words = [f"{counts[kind]:,} {kind}" for kind in MARKS if counts[kind]]
    pairs = [pair for pair in found.computations if pair.old is None or pair.new is None or pair.details]
    if pairs:
        words.append(_count(len(pairs), "computation"))
    if found.header:
        words.append(_count(len(found.header), "attribute") + " of the module")
    return f"{', '.join(words)}; {counts['matched']:,} instructions matched"


def lines(found: ModuleDiff, most: int | None = None) -> Iterator[tuple[str, str]]:
    """(kind, text) per line: ``added``, ``removed``, ``changed``, ``moved``, ``head``, ``detail`` or ``note``.

    Changes stand under their computation; of the changes of single instructions at most `most` are given.  Changes of
    shape that only follow from operands come last.
    """
    if found.header:
        yield "head", "module"
        for detail in found.header:
            yield "detail", f"  ~ {detail_text(detail)}"
    for pair in found.computations:
        if pair.old is None and pair.new is not None:
            yield "added", f"+ computation {pair.new.name}, {_count(len(pair.new), 'instruction')}"
        elif pair.new is None and pair.old is not None:
            yield "removed", f"- computation {pair.old.name}, {_count(len(pair.old), 'instruction')}"
        for detail in pair.details:
            yield "changed", f"~ computation {detail.old}: {detail_text(detail)}"
    causes = [change for change in found.changes if not change.follows]
    follow = [change for change in found.changes if change.follows]
    left = len(found.changes) if most is None else most
    for part, title in ((causes, ""), (follow, "shapes that follow from those of operands")):
        if part and title:
            words = Counter((d.old, d.new) for change in part for d in change.details)
            yield "head", f"{title}: {_count(len(part), 'instruction')}"
            for (a, b), count in words.most_common(3) if not left else ():
                yield "detail", f"  {count:,} times {a} -> {b}"
        shown, part = part[:left], part[left:]
        left -= len(shown)
        yield from _listing(shown, found)
        if part:
            kinds = Counter(change.kind for change in part)
            yield "note", f"... and {', '.join(f'{kinds[kind]:,} {kind}' for kind in MARKS if kinds[kind])} more"


def _listing(changes: Sequence[Change], found: ModuleDiff) -> Iterator[tuple[str, str]]:
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(_home(change), []).append(change)
    for name, inside in groups.items():
        yield "head", name
        for change in sorted(inside, key=_line):
            yield change.kind, f"  {MARKS[change.kind]} {_text(change, found)}"
            if change.kind == "changed":
                for detail in change.details:
                    yield "detail", f"      {detail_text(detail)}"


def _text(change: Change, found: ModuleDiff) -> str:
    one = change.new or change.old
    assert one is not None
    if change.kind == "moved":
        (detail,) = change.details
        what = "in the schedule, " if detail.what == "order" else ""
        return f"{one.name} = {one.written}: {what}from {detail.old} to {detail.new}"
    text = instruction_text(one, found)
    if change.old is not None and change.new is not None and change.old.name != change.new.name:
        return f"{text}  (was {change.old.name})"
    return text


def instruction_text(instruction: Instruction, found: ModuleDiff) -> str:
    """An instruction on one line, with what counts."""
    options = PrintOptions(
        metadata="metadata" not in found.ignored, layouts="layouts" not in found.ignored, index_comments=False,
        backend_config="backend-config" not in found.ignored, elide_above=16,
    )  # fmt: skip
    return short(print_instruction(instruction, options), _LONGEST)


def detail_text(detail: Detail) -> str:
    """What was, and what is, on one line."""
    old, new = (short(text, _LONGEST_DETAIL) or "(none)" for text in (detail.old, detail.new))
    return f"{detail.what}: {old} -> {new}"


def _home(change: Change) -> str:
    """The computation under which a change is shown."""
    one = change.new or change.old
    return one.parent.name if one is not None and one.parent is not None else ""


def _line(change: Change) -> tuple[int, int]:
    one = change.new or change.old
    place = one.location if one is not None else None
    return (place.line, place.column) if place is not None else (0, 0)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# ---- for programs


def as_json(found: ModuleDiff, most: int | None = None) -> dict[str, Any]:
    """The difference for programs; with `most` only so many changes of instructions, and ``omitted`` says how many
    more there are."""
    changes = found.changes if most is None else found.changes[:most]
    return {
        "same": found.is_same,
        "ignored": sorted(found.ignored),
        "counts": found.counts,
        "old": _totals(found.old.name, found.old_totals),
        "new": _totals(found.new.name, found.new_totals),
        "module": [_detail_json(detail) for detail in found.header],
        "computations": [
            {
                "old": pair.old.name if pair.old is not None else None,
                "new": pair.new.name if pair.new is not None else None,
                "details": [_detail_json(detail) for detail in pair.details],
            }
            for pair in found.computations
        ],
        "changes": [_change(change, found) for change in changes],
        "omitted": len(found.changes) - len(changes),
    }


def _totals(name: str, totals: Totals) -> dict[str, Any]:
    cost = totals.cost
    return {
        "module": name, "instructions": totals.instructions, "flops": cost.flops,
        "transcendentals": cost.transcendentals, "bytes_read": cost.bytes_read, "bytes_written": cost.bytes_written,
        "unknown": cost.unknown, "loops": cost.loops, "peak_bytes": totals.peak_bytes,
    }  # fmt: skip


def _change(change: Change, found: ModuleDiff) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "old": _instruction(change.old, found),
        "new": _instruction(change.new, found),
        "details": [_detail_json(detail) for detail in change.details],
        "follows": change.follows,
    }


def _instruction(instruction: Instruction | None, found: ModuleDiff) -> dict[str, Any] | None:
    if instruction is None:
        return None
    return {
        "name": instruction.name,
        "computation": instruction.parent.name if instruction.parent is not None else "",
        "opcode": instruction.written,
        "shape": print_shape(instruction.shape, index_comments=False),
        "text": instruction_text(instruction, found),
        "line": instruction.location.line if instruction.location is not None else None,
    }


def _detail_json(detail: Detail) -> dict[str, str]:
    return {"what": detail.what, "old": detail.old, "new": detail.new}
