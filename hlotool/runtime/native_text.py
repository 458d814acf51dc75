"""The runtime's own native code: LLVM IR in ``native/*.ll``, with numbers to be filled in."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from hlotool.codegen.machine import Machine

__all__ = ["monotonic_clock", "native_text"]


def native_text(name: str, **values: object) -> str:
    """The text of ``native/<name>.ll`` with `values` in place of ``${NAMES}``; KeyError names one that is missing."""
    text = files("hlotool.runtime").joinpath("native", f"{name}.ll").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def monotonic_clock(machine: Machine) -> int:
    """The number of the clock that never goes back, as ``clock_gettime`` wants it."""
    return 6 if "apple" in machine.triple or "darwin" in machine.triple else 1
