"""Writing data: files whole or not at all."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import click

from hlotool.inspect.files import write_file
from hlotool.ir import ExecutionError, Module
from hlotool.text.visible import visible

__all__ = ["folder_of", "write_bytes", "write_text"]


def folder_of(directory: str, module: Module, number: int | None) -> Path:
    """Where files about a module go: `directory`, or, of the `number`-th of several, a folder of its own in it."""
    if number is None:
        return Path(directory)
    return Path(directory) / f"{number:04}.{re.sub(r'[^A-Za-z0-9_.-]', '_', module.name)[:100]}"


def write_bytes(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file through `write(stream)`, whole or not at all; ExecutionError names the file."""
    try:
        write_file(path, write)
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error


def write_text(path: str | None, text: str) -> None:
    """Write `text` to a file, or to standard output when `path` is None or ``-``; a terminal gets no commands."""
    if path is None or path == "-":
        shown = visible(text) if sys.stdout.isatty() else text
        click.echo(shown.encode("utf-8"), nl=not text.endswith("\n"))
    else:
        write_bytes(path, lambda stream: stream.write(text.encode("utf-8")))
