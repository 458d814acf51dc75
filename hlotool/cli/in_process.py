"""Commands of hlotool inside this process, as fast as a call: what they print, and their exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

from hlotool.checks.cases import Result

__all__ = ["run_here"]

_INTERRUPTED = 130


def run_here(words: Sequence[str], text: str, folder: Path) -> Result:
    """Run ``hlotool WORDS`` in `folder` with `text` as standard input, through the entry point of the command.

    For one at a time: streams, the working directory and the environment are those of the process, and restored.
    KeyboardInterrupt ends more than the command.
    """
    from hlotool.cli import run

    given = TextIOWrapper(BytesIO(text.encode("utf-8", "surrogateescape")), "utf-8")
    output, messages = (TextIOWrapper(BytesIO(), "utf-8", newline="\n") for _ in range(2))
    before = sys.argv, sys.stdin, warnings.formatwarning, dict(os.environ)
    try:
        sys.argv, sys.stdin = ["hlotool", *words], given
        with warnings.catch_warnings(), chdir(folder), redirect_stdout(output), redirect_stderr(messages):
            code = run()
    finally:
        sys.argv, sys.stdin, warnings.formatwarning, environment = before
        os.environ.clear()
        os.environ.update(environment)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    return Result(code, *(_text(stream) for stream in (output, messages)))


def _text(stream: TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")
