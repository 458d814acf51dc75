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
Of types of up to 16 bits every number was tried; of f32 {f32}; of f64 {f64:,} numbers of all sizes, most of them \
where functions change quickly. References of f32 are the same functions in f64, those of f64 in extended precision. \
The columns "tiny" are of operands or results that are subnormal numbers; the others are of all the rest. XLA is its \
CPU backend ({version}), measured in the same way, of f32 with {xla}; it takes subnormal numbers for zeros, and its \
column leaves them out. StableHLO, in which XLA takes its programs, has no inverse trigonometric and, but for tanh, no \
hyperbolic functions: there the column is of what JAX composes."""

_NARROW = """\
In types of 4, 8 and 16 bits every result of every number is correctly rounded but for those that lie within {narrow} \
ulp of the middle between two numbers. They are computed in f32 and rounded once: every operation rounds its result to \
its type, unless \\-\\-excess\\-precision allows more."""

_PRODUCTS = """\
Large matrix products and convolutions of f32 are computed from three bf16 parts of each number where the processor \
multiplies tiles of those (Intel AMX); numbers that are too small or too large for that, or not finite, are multiplied \
as f32. The error of a sum of k products x y is at most (21 + 6 k / 32) 2^-24 times the sum of |x y|, that of a plain \
sum of f32 products k 2^-24 times that. Of 1024 products of normally distributed numbers it is 0.21 2^-24 times that \
sum (root mean square), with f32 arithmetic and OpenBLAS 0.28."""

_COLUMNS = (("f32", "normal"), ("f32", "subnormal"), ("f64", "normal"), ("f64", "subnormal"), ("f16", "normal"),
            ("bf16", "normal"))  # fmt: skip


def page() -> str:
    """The text of the manual page."""
    measured = json.loads((Path(__file__).parent / "accuracy.json").read_text(encoding="utf-8"))
    ours, theirs = ({(r["function"], r["kind"]): r for r in measured[engine]["rows"]} for engine in ("native", "xla"))
    functions = sorted({function for function, _ in ours})
    version = measured["xla"]["version"]
    lines = [f'.TH "HLOTOOL-ACCURACY" "7" "" "hlotool {__version__}" "hlotool manual"', ".SH NAME"]
    lines += ["hlotool\\-accuracy \\- errors of elementwise functions", ".SH DESCRIPTION", _INTRODUCTION, ".PP"]
    f64 = min(row["count"] for (_, kind), row in ours.items() if kind == "f64")
    what = _WHAT.format(f32=_tried(ours), f64=f64, version=version, xla=_tried(theirs))
    lines += [what.replace("-", "\\-"), ".PP"]
    narrow = [max(row["normal"], row["subnormal"]) for (_, kind), row in ours.items() if kind not in ("f32", "f64")]
    lines += [_NARROW.format(narrow=f"{max(narrow) - 0.5:.1g}"), ".PP", _PRODUCTS.replace("-", "\\-")]
    lines += [".SH TABLE", ".nf"]
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


def _tried(rows: dict[tuple[str, str], dict[str, Any]]) -> str:
    """How many f32 were tried."""
    counts = {function: row["count"] for (function, kind), row in rows.items() if kind == "f32"}
    whole = [function for function, count in counts.items() if count == 1 << 32]
    if len(whole) == len(counts):
        return "all 2^32 numbers"
    least = f"at least {min(counts.values()):,} numbers"
    return f"{least}, all 2^32 for {', '.join(sorted(whole))}" if whole else least


def _number(row: dict[str, Any] | None, part: str) -> str:
    """An error with three digits."""
    if row is None:
        return "-"
    value = row[part]
    return f"{value:.2f}" if value < 100 else f"{value:.0f}" if value < 10_000 else f"{value:.0e}"
