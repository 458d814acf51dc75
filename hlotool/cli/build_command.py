"""``hlotool build``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from hlotool.analysis.donation import Donate
from hlotool.cli.common import read_source
from hlotool.cli.compiling import compiling
from hlotool.cli.completion import cpus
from hlotool.cli.options import donate_option, form_option, numerics_options, strict_option, tune_option
from hlotool.cli.output import write_bytes
from hlotool.cli.passes_options import passes_options
from hlotool.cli.sizes import Size
from hlotool.cli.words import say
from hlotool.codegen.machine import WASM, Machine, Numerics, default_machine, named, of_triple
from hlotool.driver.library import LibraryOptions, build_library
from hlotool.ir import ExecutionError
from hlotool.passes import parse_pipeline
from hlotool.runtime.aot.files import KINDS, files_of
from hlotool.runtime.aot.identifiers import identifier
from hlotool.runtime.aot.interface import Source
from hlotool.runtime.aot.library import Library
from hlotool.text.load import one_module

__all__ = ["command"]


def _machines(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names with their properties: ``x86-64-v3,l2=512K,x86-64-v4`` are two."""
    names: list[str] = []
    for part in (value or "").split(","):
        if "=" in part and names:
            names[-1] += f",{part}"
        elif part.strip():
            names.append(part.strip())
    return tuple(names)


def _entries(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, sign, file = value.partition("=")
        if not (name and sign and file):
            raise click.BadParameter(f"{value!r}: expected NAME=FILE", context, parameter)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", context, parameter)
        found[name] = file
    return found


@click.command("build")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), required=False)
@click.option(
    "-o", "--output", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Write the files here."
)
@click.option(
    "--kind", type=click.Choice(KINDS), default="static", show_default=True,
    help="An archive, an object, a shared library, or a module of WebAssembly; the last two take a linker.",
)
@click.option(
    "--name", metavar="NAME", help="What the library is called, and its functions begin with. [default: as FILE]"
)
@click.option(
    "--entry", "entries", multiple=True, callback=_entries, metavar="NAME=FILE",
    help="An entry; several share weights and equal kernels.  Without, FILE is the entry run.",
)
@click.option(
    "--cpu", "processors", callback=_machines, metavar="NAME,...", shell_complete=cpus,
    help="Processor to compile for, if not this one, as for compile; several levels of x86-64 make a library that "
    "chooses among them when it runs.",
)
@click.option("--triple", metavar="TRIPLE", help="System to compile for, as LLVM calls it: aarch64-unknown-linux-gnu.")
@click.option(
    "--weights-above", type=Size(), default="64KiB", show_default=True, metavar="SIZE",
    help="Constants of more than this, all together, are a file of their own, NAME.weights; 0: always.",
)
@click.option(
    "--demo", is_flag=True, help="With --kind wasm: write NAME.html, too, one page that runs the entries, offline."
)
@donate_option
@passes_options()
@numerics_options
@tune_option
@strict_option
@form_option("text", "json")
def command(
    file: str | None, output: str, kind: str, name: str | None, entries: Mapping[str, str],
    processors: Sequence[str], triple: str | None, weights_above: int, demo: bool, donate: Donate, passes: str,
    excess_precision: bool, flush_denormals: bool, form: str,
) -> None:  # fmt: skip
    """Build a library of FILE, for programs in C, C++, Rust, Python and JavaScript that know nothing of hlotool.

    Its functions take pointers to arguments, results and one workspace; they allocate nothing, keep nothing, may be
    called by any number of threads, and give a code where something is wrong.  DIR gets the library, its header NAME.h,
    wrappers (NAME.hpp, NAME.rs; NAME.py for a shared library), the manifest NAME.json, and NAME.weights where the
    constants are large.  For WebAssembly it gets NAME.wasm, with NAME.mjs, which runs it in browsers and in Node.

    \b
        hlotool build model.hlo -o model/ --cpu x86-64-v2,x86-64-v3,x86-64-v4
        hlotool build --entry prefill=a.hlo --entry decode=b.hlo --name llm -o llm/
        cc main.c model/libmodel.a
        hlotool build model.hlo -o model/ --kind wasm --demo
    """
    if (file is None) == (not entries):
        raise click.UsageError("give a FILE, or entries by --entry NAME=FILE")
    if demo and kind != "wasm":
        raise click.UsageError("--demo goes with --kind wasm")
    files = entries if file is None else {"run": file}
    if name is None:
        first = next(iter(files.values()))
        name = identifier("model" if first == "-" else Path(first).name.partition(".")[0])
    numerics = Numerics(excess_precision, flush_denormals)
    machines = tuple(replace(machine, numerics=numerics) for machine in _chosen(kind, processors, triple))
    sources = {entry: _source(path) for entry, path in files.items()}
    options = LibraryOptions(
        machines=machines, pipeline=parse_pipeline(passes), donate=donate, weights_above=weights_above
    )
    with compiling(name):
        library = build_library(name, sources, options)
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExecutionError(f"cannot write {output}: {error.strerror or error}") from error
    written = files_of(library, kind, demo)
    for path, parts in written.items():
        write_bytes(folder / path, partial(_write, parts))
    summary = _summary(library, output, kind, {path: sum(map(len, parts)) for path, parts in written.items()})
    if form == "json":
        click.echo(json.dumps(summary))
    else:
        _show(summary)


def _write(parts: Sequence[bytes], stream: IO[bytes]) -> None:
    for part in parts:
        stream.write(part)


def _chosen(kind: str, processors: Sequence[str], triple: str | None) -> tuple[Machine, ...]:
    found = _machines_of(processors, WASM if kind == "wasm" and triple is None else triple)
    for machine in found:
        if machine.is_wasm != (kind == "wasm"):
            raise click.UsageError(f"--kind {kind} is not for {machine.triple}: the kind of WebAssembly is wasm")
    return found


def _machines_of(processors: Sequence[str], triple: str | None) -> tuple[Machine, ...]:
    try:
        if triple is not None:
            return tuple(of_triple(triple, name) for name in processors or (None,))
        return tuple(named(name) for name in processors) or (default_machine(),)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _source(file: str) -> Source:
    read = read_source(file)
    return Source(Path(read.name).name, read.digest, one_module(read))


def _summary(library: Library, output: str, kind: str, files: Mapping[str, int]) -> dict[str, Any]:
    manifest = library.manifest
    return {
        "schema_version": 1,
        "kind": "build",
        "name": manifest["name"],
        "output": output,
        "library": kind,
        "triple": manifest["triple"],
        "processors": manifest["processors"],
        "entries": {entry["name"]: entry["workspace_bytes"] for entry in manifest["entries"]},
        "code_bytes": sum(library.functions.values()),
        "constant_bytes": manifest["constant_bytes"],
        "files": dict(files),
    }


def _show(summary: Mapping[str, Any]) -> None:
    for name, size in summary["files"].items():
        say(f"{summary['output'].rstrip('/')}/{name}: {size:,} bytes")

