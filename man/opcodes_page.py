"""hlotool-opcodes.7: which opcode is tested on which element type, from the families of tests/semantics."""

from __future__ import annotations

import sys
from pathlib import Path

from hlotool import __version__
from hlotool.ir.opcodes import SPELLED

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import semantics.families  # noqa: F401
from semantics.differences import DIFFERENCES
from semantics.sample import FAMILIES, TYPES

__all__ = ["page"]

_INTRODUCTION = """\
A row for every opcode, a column for every element type of its first operand (of its result, where it has none). x: the
type is legal HLO there, and native code and the evaluator are both tested on it, with random shapes, attributes and
values; a dot: it is not legal HLO, and the verifier refuses it."""

_TESTED = """\
The test suite draws at least 200 examples for each opcode and class of types (predicates, signed and unsigned integers,
floats of up to 8 bits, wider floats, complex numbers), every type of the class among them.
\\fBpython \\-m semantics \\-\\-examples 20000\\fR in the directory of the tests draws more.
Native results must equal those of the evaluator bit for bit where the meaning is exact, and lie within the error bounds
of \\fBhlotool run \\-\\-backend evaluate \\-\\-precision f64\\fR where results are rounded; so must those of the
evaluator."""


_PATTERNS = {"|": ", ", "[su][24]": "s2, s4, u2, u4", "[su].*": "integers", ".*": "*"}
"""Regular expressions of `DIFFERENCES` in words."""


def _column_heads(indent: int) -> list[str]:
    """The names of the types from top to bottom."""
    height = max(map(len, TYPES))
    padded = [name.rjust(height) for name in TYPES]
    return [(" " * indent + " ".join(name[line] for name in padded)).rstrip() for line in range(height)]


def page() -> str:
    """The text of the manual page."""
    width = max(map(len, SPELLED)) + 1
    lines = [f'.TH "HLOTOOL-OPCODES" "7" "" "hlotool {__version__}" "hlotool manual"', ".SH NAME"]
    lines += ["hlotool\\-opcodes \\- opcodes, element types, and how they are tested", ".SH DESCRIPTION"]
    lines += [_INTRODUCTION, ".PP", _TESTED, ".SH OPCODES AND TYPES", ".nf", *_column_heads(width)]
    for opcode in SPELLED:
        legal = {kind for family in FAMILIES.get(opcode, ()) for kind in family.types}
        marks = " ".join("x" if kind in legal else "." for kind in TYPES)
        lines.append(opcode.ljust(width).replace("-", "\\-") + marks)
    lines += [".fi", ".SH DIFFERENCES FROM XLA"]
    lines.append("Where results are not those of XLA's CPU backend, on purpose:")
    for row in DIFFERENCES:
        names = row.opcodes.replace("|", ", ").replace("-", "\\-")
        types = row.types
        for pattern, word in _PATTERNS.items():
            types = types.replace(pattern, word)
        types = "all types" if row.types == ".*" else types
        lines += [".TP", f"{names} ({types})", row.why.replace("-", "\\-")]
    lines += [".SH SEE ALSO", "\\fBhlotool\\-run\\fR(1), \\fBhlo\\fR(5)"]
    return "\n".join(lines) + "\n"
