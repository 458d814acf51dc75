"""hlotool-accuracy.7: how far elementwise functions are from the true results, as tests/accuracy.py measured it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hlotool import __version__

__all__ = ["page"]

_INTRODUCTION = """\
The largest error of each elementwise function, in units of the last place of the true result (ulp): 0.5 is correctly \
rounded, 0 is exact. "tests/accuracy.py" in the source measures it."""

_WHAT = """\
Of f16 and bf16 every number was tried, of f32 every {stride}th bit pattern ({count:,} numbers), of f64 about a \
million numbers of all sizes, most of them where functions change quickly. References are in f64, those of f64 in \
extended precision. The columns "tiny" are of operands or results that are subnormal numbers; the others are of all \
the rest. XLA is its CPU backend ({version}), measured in the same way where it has the function; it takes subnormal \
numbers for zeros, and its column leaves them out."""

_NARROW = """\
In types of 4, 8 and 16 bits every result of every number is correctly rounded but for those that lie within {narrow} \
ulp of the middle between two numbers. They are computed in f32 and rounded once: every operation rounds its result to \
its type, unless \\-\\-excess\\-precision allows more."""

_COLUMNS = (("f32", "normal"), ("f32", "subnormal"), ("f64", "normal"), ("f64", "subnormal"), ("f16", "normal"),
            ("bf16", "normal"))  # fmt: skip


def page() -> str:
    """The text of the manual page."""
    measured = json.loads((Path(__file__).parent / "accuracy.json").read_text(encoding="utf-8"))
    ours, theirs = ({(r["function"], r["kind"]): r for r in measured[engine]["rows"]} for engine in ("native", "xla"))
    functions = sorted({function for function, _ in ours})
    count = max(row["count"] for row in ours.values())
    stride, version = measured["native"]["stride"], measured["xla"]["version"]
    lines = [f'.TH "HLOTOOL-ACCURACY" "7" "" "hlotool {__version__}" "hlotool manual"', ".SH NAME"]
    lines += ["hlotool\\-accuracy \\- errors of elementwise functions", ".SH DESCRIPTION", _INTRODUCTION, ".PP"]
    lines += [_WHAT.format(stride=stride, count=count, version=version).replace("-", "\\-"), ".PP"]
    narrow = [max(row["normal"], row["subnormal"]) for (_, kind), row in ours.items() if kind not in ("f32", "f64")]
    lines += [_NARROW.format(narrow=f"{max(narrow) - 0.5:.1g}"), ".SH TABLE", ".nf"]
    width = max(map(len, functions)) + 1
    heads = ("f32", "tiny", "XLA", "f64", "tiny", "XLA", "f16", "XLA", "bf16", "XLA")
    lines.append((" " * width + "".join(head.rjust(7) for head in heads)).rstrip())
    for function in functions:
        cells = []
        for kind, part in _COLUMNS:
            cells.append(_number(ours.get((function, kind)), part))
            if part == "subnormal" or kind in ("f16", "bf16"):
                cells.append(_number(theirs.get((function, kind)), "normal"))
        line = function.ljust(width) + "".join(cell.rjust(7) for cell in cells)
        lines.append(line.replace("-", "\\-"))
    lines += [".fi", ".SH SEE ALSO", "\\fBhlotool\\-run\\fR(1), \\fBhlotool\\-opcodes\\fR(7)"]
    return "\n".join(lines) + "\n"


def _number(row: dict[str, Any] | None, part: str) -> str:
    """An error with three digits."""
    if row is None:
        return "-"
    value = row[part]
    return f"{value:.2f}" if value < 100 else f"{value:.0f}" if value < 10_000 else f"{value:.0e}"
