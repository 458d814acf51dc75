"""What becomes of a program, or a part of one, that is not compiled: ``HLOTOOL_FALLBACK``.

``warn`` (the default) has the framework, or another backend, run it and says so in one line, ``silent`` runs it
without a word, and ``error`` raises what hlotool has against it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from hlotool.ir import HloError, InputError, Instruction, Module, UnsupportedError

if TYPE_CHECKING:
    from hlotool.analysis.clusters import Report

__all__ = ["fall_back", "fall_back_in_part", "fallback_mode", "reason_of"]

_VARIABLE = "HLOTOOL_FALLBACK"
_MODES = ("warn", "error", "silent")


def fallback_mode() -> str:
    """What the environment asks for: ``warn``, ``error`` or ``silent``; InputError where it is none of them."""
    mode = os.environ.get(_VARIABLE, "").strip().lower() or "warn"
    if mode not in _MODES:
        raise InputError(f"{_VARIABLE}: expected one of {', '.join(_MODES)}, not {mode!r}")
    return mode


def reason_of(error: Exception, module: Module | None = None, place: Callable[[str], str] | None = None) -> str:
    """What hlotool has against a program, in one line, with the user's own line of source.

    That line is the one of the instruction which the message names, as far as the metadata of `module` tells; where
    they say nothing, `place` is asked, with the instruction's name (it gives "" where it does not know either).
    """
    why = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, HloError):
        why = f"{type(error).__name__}: {why}"
    found = None if module is None else _named(module, why)
    if module is None or found is None:
        return why
    from hlotool.text.sources import Sources

    source = Sources(module).of(found)
    line = "" if place is None else place(found.name)
    if source is not None:
        line = f"{source.file}:{source.line}"
    what = f"{why} [{found.opcode}: {found.shape}]"
    return f"{what}, written in {line}" if line else what


def _named(module: Module, message: str) -> Instruction | None:
    """The instruction whose name begins the message."""
    name = message.partition(":")[0].removeprefix("%")
    return next((instruction for instruction in module.instructions() if instruction.name == name), None)


def fall_back(program: str, reason: str, instead: str, cause: Exception | None = None) -> None:
    """Say that `program` is not compiled, for this `reason`, and what is done `instead`.

    Where the environment asks for errors: UnsupportedError with all of that, from `cause`.
    """
    mode = fallback_mode()
    said = f"{program} is not compiled: {reason}"
    if mode == "error":
        raise UnsupportedError(said) from cause
    if mode == "warn":
        print(f"hlotool: {said}; {instead}", file=sys.stderr)


def fall_back_in_part(part: str, report: Report, instead: str) -> None:
    """The same of what a partition leaves: `part` says of what.  Clusters that are not worth a call are no fault."""
    rows = [row for row in report.fallbacks if not row.by_choice]
    if rows:
        places = [f" ({row.where[0]})" if row.where else "" for row in rows]
        listed = [f"{r.count} x {r.op}{place}: {r.reason}" for r, place in zip(rows, places, strict=True)]
        more = f", and {len(listed) - 3} more kinds" if len(listed) > 3 else ""
        fall_back(part, "; ".join(listed[:3]) + more, instead)
