"""A line on the terminal that says what a long compilation is at: a pass, or native code."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from hlotool.cli.progress import progress
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import Instrument
from hlotool.passes.framework.steps import Pass

__all__ = ["compiling"]

_EVERY = 0.2
"""Seconds between two looks at what is being done."""
_NATIVE = "native code"


@contextmanager
def compiling(file: str) -> Iterator[list[Instrument]]:
    """Gives the instruments to compile `file` with: none where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield []
        return
    stage, done, start = _Stage(), Event(), time.monotonic()

    def show() -> None:
        while not done.wait(_EVERY):
            tell(f"{file}: {stage.words}, {time.monotonic() - start:.0f} s")

    with progress() as tell:
        thread = Thread(target=show, daemon=True)
        thread.start()
        try:
            yield [stage]
        finally:
            done.set()
            thread.join()


@dataclass(slots=True)
class _Stage:
    """An instrument that knows which pass runs; where none does, native code is being made."""

    words: str = _NATIVE

    def before(self, pass_: Pass, module: Module) -> bool:
        self.words = f"pass {pass_.name}"
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.words = _NATIVE
