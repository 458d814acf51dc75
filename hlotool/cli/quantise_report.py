"""What ``hlotool quantise`` found: as tables, as JSON, and as pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hlotool.cli.tables import Table, byte_text, plain_table, time_text
from hlotool.harness.quantise.engine import Quantised
from hlotool.inspect.accuracy_page import AccuracyPages, LayerRow, ratio_words, write_accuracy
from hlotool.lazy_dataclass import dataclass

__all__ = ["Speed", "facts", "report_json", "report_text", "write_pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Seconds of a run before and after: `predicted` by the model of kernels, `measured` in turns; None if neither."""

    predicted: tuple[float, float] | None = None
    measured: tuple[float, float] | None = None


def facts(found: Quantised, speed: Speed) -> tuple[tuple[str, str], ...]:
    """What was found, in words."""
    before, after = found.bytes
    rows = [("products quantised", f"{len(found.chosen):,} of {len(found.chosen) + _left(found):,}")]
    if found.error is not None:
        rows.append((found.metric, f"{found.error:.4g}"))
    if found.right is not None:
        rows.append(("told right", f"{found.right[0]:.2%} → {found.right[1]:.2%}"))
    rows.append(("constants", f"{byte_text(before)} → {byte_text(after)}"))
    for words, pair in (("predicted", speed.predicted), ("measured", speed.measured)):
        if pair is not None:
            rows.append((words, f"{time_text(pair[0])} → {time_text(pair[1])} ({pair[0] / pair[1]:.2f} x)"))
    return tuple(rows)


def _left(found: Quantised) -> int:
    """How many products keep their type."""
    return sum(one.action == "refuse" and one.pass_name != "integer-products" for one in found.log)


def report_text(found: Quantised, speed: Speed) -> str:
    rows = facts(found, speed)
    width = max(len(words) for words, _ in rows)
    lines = [f"{words.ljust(width)}  {value}" for words, value in rows]
    layers = [
        (row.name, row.types, ratio_words(row.own), ratio_words(row.total), f"{row.error:.3g}") for row in _rows(found)
    ]
    parts = ["\n".join(lines)]
    if layers:
        headings = ("product", "types", "alone", "with all", "error of results")
        parts.append(plain_table(Table("signal to quantisation noise", headings, layers, frozenset(headings[2:]))))
    refused = [(", ".join(one.before), one.code, one.reason) for one in found.log if one.action == "refuse"]
    if refused:
        parts.append(plain_table(Table("not quantised", ("product", "code", "why"), refused)))
    return "\n\n".join(parts)


def report_json(found: Quantised, speed: Speed, files: Sequence[str]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "quantise",
        "module": found.source.name,
        "to": found.options.to,
        "metric": found.metric or None,
        "error": _number(found.error),
        "max_error": found.options.max_error,
        "within": found.within,
        "accuracy": None if found.right is None else list(found.right),
        "bytes": list(found.bytes),
        "predicted_seconds": None if speed.predicted is None else list(speed.predicted),
        "measured_seconds": None if speed.measured is None else list(speed.measured),
        "quantised": list(found.chosen),
        "layers": [
            {
                "name": row.name, "types": row.types, "error": _number(row.error), "sqnr": _number(row.own),
                "sqnr_with_all": _number(row.total),
                "worst_channels": [{"channel": channel, "sqnr": _number(ratio)} for channel, ratio in row.channels],
            }
            for row in _rows(found)
        ],
        "decisions": [
            {"code": one.code, "action": one.action, "rule": one.rule, "about": list(one.before), "reason": one.reason}
            for one in found.log
        ],
        "files": list(files),
    }  # fmt: skip


def write_pages(found: Quantised, speed: Speed, directory: Path) -> None:
    """Write the accuracy pages."""
    decisions = tuple(found.log)
    write_accuracy(
        AccuracyPages(source=found.source, facts=facts(found, speed), layers=_rows(found), decisions=decisions),
        directory,
    )


def _rows(found: Quantised) -> tuple[LayerRow, ...]:
    return tuple(
        LayerRow(
            name=one.name, types=found.types.get(one.name, "as it was"), error=one.error, own=one.own, total=one.total,
            channels=one.channels,
        )
        for one in found.layers
    )  # fmt: skip


def _number(value: float | None) -> float | None:
    """JSON has no infinities: null is written for them."""
    return value if value is not None and math.isfinite(value) else None
