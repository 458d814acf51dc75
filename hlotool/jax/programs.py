"""The record of what became of programs of JAX: compiled here, or left to jax itself, and why.

`hlotool.jax.jit` and the plug-in write into it, and `hlotool.jax.explain` shows it.  What falls back is said once a
program, by the logger ``hlotool.jax`` (which prints to stderr where a program sets up no logging), as
``HLOTOOL_FALLBACK`` wants it: ``warn`` (the default), ``silent``, or ``error``, which raises instead.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hlotool.ir import HloError, InputError, Instruction, Module, UnsupportedError

__all__ = ["Record", "Refusal", "added", "fall_back", "forget", "records", "refusal_of"]

_KEPT = 10_000
_records: deque[Record] = deque(maxlen=_KEPT)
_log = logging.getLogger("hlotool.jax")
_WORDS = re.compile(r"[\w.\-]+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a program is not compiled: in words, and of the operation that it is about its opcode, type and source."""

    reason: str
    operation: str = ""
    type: str = ""
    source: str = ""

    def __str__(self) -> str:
        what = " ".join(part for part in (self.operation, self.type) if part)
        at = f" ({self.source})" if self.source else ""
        return f"{what}{at}: {self.reason}" if what else f"{self.reason}{at}"


@dataclass(slots=True)
class Record:
    """What became of one program.

    `front` is who compiled it: ``jit`` or ``plugin``.  `refusal` is None where hlotool runs it.  `seconds` is the time
    that the `timed` among its `runs` took together: short runs are not all timed.
    """

    name: str
    front: str
    compile_seconds: float = 0.0
    refusal: Refusal | None = None
    runs: int = 0
    timed: int = 0
    seconds: float = 0.0

    @property
    def run_seconds(self) -> float | None:
        """Of one run, on average; None where none was timed."""
        return self.seconds / self.timed if self.timed else None


def added(record: Record) -> Record:
    """`record`, which `records` lists from now on; the oldest of too many goes."""
    _records.append(record)
    return record


def records() -> tuple[Record, ...]:
    """All programs of this process, oldest first."""
    return tuple(_records)


def forget() -> None:
    """Begin again with an empty record."""
    _records.clear()


def refusal_of(error: Exception, module: Module | None = None, source: Callable[[str], str] | None = None) -> Refusal:
    """What `error` says about `module`; `source` finds the line of the user's program that an instruction is from."""
    reason = str(error).strip() or type(error).__name__
    found = None if module is None else _named(reason, module)
    if found is None:
        return Refusal(reason)
    target = found.attributes.get("custom_call_target")
    operation = f"{found.opcode} {target}" if target else found.opcode
    metadata = found.metadata
    line = f"{metadata.source_file}:{metadata.source_line}" if metadata is not None and metadata.source_file else ""
    return Refusal(reason, operation, str(found.shape), line or (source(found.name) if source is not None else ""))


def _named(reason: str, module: Module) -> Instruction | None:
    """The instruction that a message names first."""
    by_name = {instruction.name: instruction for instruction in module.instructions()}
    return next((by_name[word] for text in _WORDS.findall(reason) if (word := text.rstrip(".")) in by_name), None)


def fall_back(record: Record, instead: str, cause: Exception | None = None) -> None:
    """Say that `record` was refused and what happens `instead`, or raise that, as ``HLOTOOL_FALLBACK`` wants it."""
    wanted = os.environ.get("HLOTOOL_FALLBACK", "warn")
    if wanted not in ("warn", "error", "silent"):
        raise InputError(f"HLOTOOL_FALLBACK: expected warn, error or silent, not {wanted!r}")
    text = f"{record.name}: {record.refusal}"
    if wanted == "error":
        raise UnsupportedError(text, cause.diagnostics if isinstance(cause, HloError) else ()) from cause
    if wanted == "warn":
        _log.warning("hlotool: %s; %s", " ".join(text.split()), instead)
