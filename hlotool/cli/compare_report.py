"""What ``hlotool compare`` says: the report as text for people and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hlotool.cli.compare_values import Values, values_json, values_lines
from hlotool.harness.compare import Comparison, verdict_of
from hlotool.harness.differences import LAST_BAR, Differences, Quantiles
from hlotool.lazy_dataclass import dataclass

__all__ = ["Output", "Report", "json_report", "text_report"]

_WIDEST = 40
"""Characters of the longest bar of a histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How one output compares; `of_reference` says how the reference itself does, where both were held against the
    truth, and `differences` is None for arrays of other sizes."""

    name: str
    shape: str
    comparison: Comparison
    of_reference: Comparison | None
    differences: Differences | None

    @property
    def verdict(self) -> str:
        """The graver one of both sides."""
        return verdict_of([self.comparison, *([self.of_reference] if self.of_reference is not None else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A comparison of `file` with a `reference`, judged `by` error bounds or tolerance."""

    file: str
    reference: str
    by: str
    outputs: Sequence[Output]
    values: Values | None = None

    @property
    def verdict(self) -> str:
        """Of all outputs: the gravest; MISMATCH too where a value on the way is."""
        sides = [row for output in self.outputs for row in (output.comparison, output.of_reference)]
        inside = self.values is not None and self.values.first is not None
        return "MISMATCH" if inside else verdict_of([row for row in sides if row is not None])


def json_report(report: Report) -> str:
    """One object, of the schema ``compare``."""
    answer: dict[str, Any] = {
        "schema_version": 1,
        "kind": "compare",
        "verdict": report.verdict,
        "file": report.file,
        "reference": report.reference,
        "judged_by": report.by,
        "outputs": [_output(output) for output in report.outputs],
    }
    if report.values is not None:
        answer["values"] = values_json(report.values, differences_row)
    return json.dumps(answer, indent=1) + "\n"


def _output(output: Output) -> dict[str, Any]:
    other = output.of_reference
    return {
        "name": output.name,
        "shape": output.shape,
        **output.comparison.row(),
        "verdict": output.verdict,
        "ok": output.verdict == "ok",
        "reference": None if other is None else {"verdict": other.verdict, "comparison": str(other)},
        "differences": None if output.differences is None else differences_row(output.differences),
    }


def differences_row(found: Differences) -> dict[str, Any]:
    """Differences for JSON, which has no infinity: null."""
    return {
        "absolute": _quantiles(found.absolute),
        "relative": _quantiles(found.relative),
        "ulp": _quantiles(found.ulp),
        "wrong_bits": _number(found.bits),
        "classes": dict(found.classes),
        "histogram": list(found.histogram),
    }


def _quantiles(found: Quantiles | None) -> dict[str, float | None] | None:
    return None if found is None else {name: _number(value) for name, value in asdict(found).items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def text_report(report: Report) -> str:
    """The same for people: the verdict of each output first."""
    how = "error bounds" if report.by == "bounds" else "tolerance"
    lines = [f"{report.verdict}: {report.file} against {report.reference}, by {how}"]
    for output in report.outputs:
        other = output.of_reference
        said = f"{output.comparison}" + (" from the truth" if other is not None else "")
        lines += ["", f"{output.name}: {output.shape}: {output.verdict}: {said}"]
        if other is not None and other.verdict != "ok":
            lines.append(f"  the reference itself is {other.verdict}: {other}")
        if output.comparison.bad and not output.comparison.why:
            lines.append(f"  first bad at {list(output.comparison.first)}, worst at {list(output.comparison.worst)}")
        if output.differences is not None and output.comparison.count:
            lines += ["  " + line for line in _described(output.differences)]
    if report.values is not None:
        lines += ["", *values_lines(report.values)]
    return "\n".join(lines) + "\n"


def _described(found: Differences) -> list[str]:
    lines = []
    rows = {"absolute": found.absolute, "relative": found.relative, "ulp": found.ulp}
    known = {name: row for name, row in rows.items() if row is not None and found.classes["different"]}
    if known:
        lines.append(f"{'':10}{'median':>11}{'90 %':>11}{'99 %':>11}{'largest':>11}")
    for name, row in known.items():
        numbers = (row.median, row.p90, row.p99, row.largest)
        lines.append(f"{name:10}" + "".join(f"{number:>11.3g}" for number in numbers))
    special = {name: count for name, count in found.classes.items() if count and name not in ("equal", "different")}
    if special:
        lines.append("not finite: " + ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in special.items()))
    if known:
        lines += _bars(found)
    elif not special:
        lines.append("all elements are equal")
    return lines


def _bars(found: Differences) -> list[str]:
    """The histogram, one line for a bar that counts some."""
    unit = "ulp" if found.ulp is not None else "apart"
    most, last = max(found.histogram), len(found.histogram) - 1
    words = ["equal", *(f"<= {_power(n)} {unit}" for n in range(-1, last - 1))]
    if last == LAST_BAR:
        words[-1] = f"> {_power(last - 3)} {unit}"
    width = max(map(len, words))
    return [
        f"{word:>{width}}  {'█' * math.ceil(_WIDEST * count / most)} {count}"
        for word, count in zip(words, found.histogram, strict=True)
        if count
    ]


def _power(exponent: int) -> str:
    return f"{2.0**exponent:g}" if exponent <= 12 else f"2^{exponent}"
