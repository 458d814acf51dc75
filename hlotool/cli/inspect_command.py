"""``hlotool inspect``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from hlotool.cli.options import file_argument, format_option
from hlotool.cli.tables import Table, byte_text, show_tables
from hlotool.cli.words import say
from hlotool.ir import ParseError
from hlotool.runtime.aot.metadata import read_metadata

__all__ = ["command"]

_KERNEL = re.compile(r"(?:^|_)(k[0-9]+_\w+)(\.[0-9]+)?$")


@click.command("inspect")
@file_argument
@format_option
def command(file: str, form: str) -> None:
    """Show what is in a library that `hlotool build` made: archive, object, shared library, WebAssembly, or a
    program with one.

    Its entries with their arguments and results, where they come from, the processors that the code is for, and the
    bytes of every kernel.
    """
    found = read_metadata(_content(file))
    if not found:
        raise ParseError(f"{file}: no library of hlotool build is in it")
    if form == "json":
        head = {"schema_version": 1, "kind": "inspect", "file": file}
        click.echo(json.dumps({**head, "libraries": found}, indent=1))
        return
    for about in found:
        say(_head(about))
        show_tables([*_tables(about)])


def _content(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ParseError(f"cannot read {file}: {error.strerror or error}") from error


def _head(about: Mapping[str, Any]) -> str:
    weights = about["weights"]
    lines = [
        f"{about['name']}: {about['triple']}, {', '.join(about['processors'])}, {about['byte_order']}-endian; "
        f"hlotool {about['hlotool']}, interface {about['abi']}",
        f"code {byte_text(sum(about['functions'].values()))}, constants {byte_text(about['constant_bytes'])}"
        + (f" in a file of their own, sha256 {weights['sha256']}" if weights else ""),
        f"pipeline {about['options']['pipeline']}",
    ]
    if about["context_functions"]:
        lines.append(f"its context has to offer {', '.join(about['context_functions'])}")
    return "\n".join(lines)


def _tables(about: Mapping[str, Any]) -> Iterator[Table]:
    for entry in about["entries"]:
        rows = [
            (kind, array["name"], f"{array['type']}[{','.join(map(str, array['dimensions']))}]",
             byte_text(array["bytes"]), _memory(kind, array))
            for kind, arrays in (("argument", entry["arguments"]), ("result", entry["results"]))
            for array in arrays
        ]  # fmt: skip
        title = (
            f"{entry['name']}: {entry['module']} of {entry['file']}, sha256 {entry['sha256'][:16]}, "
            f"workspace {byte_text(entry['workspace_bytes'])}"
        )
        yield Table(title, ("", "name", "shape", "bytes", "memory"), rows, frozenset({"bytes"}))
    sizes = _kernel_sizes(about["functions"])
    uses = {kernel: names for entry in about["entries"] for kernel, names in entry["kernels"].items()}
    kernels = [
        (name, byte_text(size), ", ".join(uses.get(name, ())))
        for name, size in sorted(sizes.items(), key=lambda row: (-row[1], row[0]))
    ]
    yield Table("code", ("kernel", "bytes", "instructions"), kernels, frozenset({"bytes"}))


def _memory(kind: str, array: Mapping[str, Any]) -> str:
    if array["alias"] is not None:
        return f"{'becomes result' if kind == 'argument' else 'that of argument'} {array['alias']}"
    return "overwritten" if array["overwritten"] else ""


def _kernel_sizes(functions: Mapping[str, int]) -> dict[str, int]:
    """Bytes by kernel: its functions, for all processors; the rest is what runs them."""
    found: dict[str, int] = {}
    for name, size in functions.items():
        match = _KERNEL.search(name)
        key = match[1] if match else "(entries)"
        found[key] = found.get(key, 0) + size
    return found
