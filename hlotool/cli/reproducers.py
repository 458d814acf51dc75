"""Where reproducers are written."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from hlotool.cli.words import say
from hlotool.inspect.files import write_file

__all__ = ["write_reproducer"]


def write_reproducer(pass_name: str, text: str) -> None:
    """Leave a reproducer in the working directory, or where that cannot be written to in the temporary one, and say
    so on standard error."""
    name = f"hlotool-repro-{pass_name}.hlo"
    for path in (Path(name), Path(tempfile.gettempdir()) / name):
        with suppress(OSError):
            write_file(path, text)
            say(f"a module that shows it is in {path}; to run it again: hlotool repro {path}", err=True)
            return
