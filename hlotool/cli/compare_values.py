"""What ``hlotool compare --all-values`` says of single values, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from hlotool.harness.all_values import Divergence, Side, ValueRow
from hlotool.harness.blame import Confirmation
from hlotool.ir import Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.text.sources import Sources

__all__ = ["Values", "values_json", "values_lines"]

_SHOWN = 20
"""Rows that the text lists; JSON has all."""

_CAUSES = {"passes": "a pass changed it", "kernel": "its native code gives something else"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of `made`; not all of them where the comparison is not `complete`.  `confirmation` is of the blame
    of the first wrong one, where there is one."""

    made: Module
    rows: Sequence[ValueRow]
    first: Divergence | None
    confirmation: Confirmation | None
    moved: bool
    complete: bool


def path_of(instruction: Instruction) -> str:
    """``COMPUTATION/NAME``."""
    return f"{instruction.parent.name if instruction.parent is not None else ''}/{instruction.name}"


def values_lines(values: Values) -> list[str]:
    """The text: what there is, the first divergence, and what is not ok."""
    counts = Counter(row.verdict or "not compared" for row in values.rows)
    words = ", ".join(f"{counts[word]} {word}" for word in ("ok", "MISMATCH", "UNDECIDED", "not compared"))
    found = Counter(row.counterpart.how for row in values.rows if row.counterpart is not None)
    how = ", ".join(f"{count} by {name}" for name, count in sorted(found.items(), key=lambda item: -item[1]))
    lines = [
        f"values of the optimised module: {len(values.rows)}: {words}",
        f"  counterparts: {how or 'none'}; {sum(row.counterpart is None for row in values.rows)} have none, "
        f"{sum(row.other for row in values.rows)} are other values than those they are named after",
        f"  native, as results of kernels: {sum(row.kernel is not None for row in values.rows)}; all others evaluated",
    ]
    if not values.complete:
        lines.append("  interrupted: not all was compared")
    if values.moved:
        lines.append("  native code with all values as results gives other results than without: errors may have moved")
    source = _sources(values.made)
    if values.first is not None:
        lines += _first(values.first, source)
        if values.confirmation is not None:
            lines.append(f"  blame {values.confirmation.verdict}: {values.confirmation.why}")
    elif values.complete:
        lines.append("first divergence: none")
    wrong = [row for row in values.rows if row.verdict in ("MISMATCH", "UNDECIDED")]
    lines += [f"  {_line(row, source)}" for row in wrong[:_SHOWN]]
    if len(wrong) > _SHOWN:
        lines.append(f"  and {len(wrong) - _SHOWN} more, all of them with --format json")
    return lines


def _first(first: Divergence, source: Callable[[Instruction], str]) -> list[str]:
    row = first.row
    one = row.instruction
    side = row.passes if first.cause == "passes" else row.kernel
    assert side is not None
    lines = [
        f"first divergence: {path_of(one)}: {one.opcode} {one.shape}: {_CAUSES[first.cause]}",
        f"  {side.comparison}",
    ]
    if row.counterpart is not None:
        lines.append(f"  counterpart: {path_of(row.counterpart.instruction)}, by {row.counterpart.how}")
    if source(one):
        lines.append(f"  source: {source(one)}")
    reads = ", ".join(f"{path_of(read.instruction)} ({read.verdict or 'not compared'})" for read in first.reads[:6])
    if reads:
        lines.append(f"  reads {reads}")
    if first.gone:
        gone = ", ".join(path_of(gone) for gone in first.gone[:6])
        lines.append(f"  ahead of its counterpart, with none of their own: {gone}")
    return lines


def _line(row: ValueRow, source: Callable[[Instruction], str]) -> str:
    by = "kernel" if row.kernel is not None and row.kernel in row.sides else "passes"
    match = "" if row.counterpart is None else f" for {path_of(row.counterpart.instruction)} ({row.counterpart.how})"
    shown = row.shown
    worst = shown.ulp or shown.absolute if shown is not None else None
    far = "" if worst is None or shown is None else f", up to {worst.largest:.3g}{' ulp' if shown.ulp else ''}"
    place = f" at {source(row.instruction)}" if source(row.instruction) else ""
    return f"{row.verdict} {path_of(row.instruction)}{match}: {by}{far}{place}"


def _sources(module: Module) -> Callable[[Instruction], str]:
    sources = Sources(module)

    def source(one: Instruction) -> str:
        place = sources.of(one)
        name = one.metadata.op_name if one.metadata is not None else ""
        return " ".join(filter(None, [f"{place.file}:{place.line}" if place is not None else "", name]))

    return source


def values_json(values: Values, differences: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """The same for JSON; `differences` gives the form of differences there."""
    source = _sources(values.made)

    def side(found: Side | None) -> dict[str, Any] | None:
        return None if found is None else {**found.comparison.row(), "differences": differences(found.differences)}

    rows = [
        {
            "instruction": path_of(row.instruction),
            "opcode": row.instruction.opcode,
            "shape": str(row.instruction.shape),
            "source": source(row.instruction),
            "value": "native" if row.kernel is not None else "evaluated",
            "counterpart": None if row.counterpart is None else path_of(row.counterpart.instruction),
            "how": None if row.counterpart is None else row.counterpart.how,
            "other_value": row.other,
            "verdict": row.verdict or "not compared",
            "passes": side(row.passes),
            "kernel": side(row.kernel),
        }
        for row in values.rows
    ]
    first = values.first
    named = None
    if first is not None:
        match = first.row.counterpart
        named = {
            "instruction": path_of(first.row.instruction),
            "counterpart": None if match is None else path_of(match.instruction),
            "cause": first.cause,
            "source": source(first.row.instruction),
            "reads": [path_of(read.instruction) for read in first.reads],
            "gone": [path_of(one) for one in first.gone],
            "confirmation": None if values.confirmation is None else asdict(values.confirmation),
        }
    return {"complete": values.complete, "moved": values.moved, "first_divergence": named, "rows": rows}
