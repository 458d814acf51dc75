"""Refusals that say which instruction they are about, and where it was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hlotool.ir.errors import UnsupportedError
from hlotool.ir.module import Instruction

__all__ = ["named"]


@contextmanager
def named(instruction: Instruction) -> Iterator[None]:
    """Refusals from deep inside name the instruction, and say where it was written."""
    try:
        yield
    except UnsupportedError as error:
        own = error.message.startswith(f"{instruction.name}:")
        message = error.message if own else f"{instruction.name}: {error.message}"
        (first, *_) = error.diagnostics
        found = replace(first, message=message, location=first.location or instruction.location)
        raise UnsupportedError(message, [found]) from error
