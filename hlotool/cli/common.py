"""What the commands share: reading modules, showing diagnostics, writing files whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from hlotool.cli.session import Session, current
from hlotool.inspect.files import write_file
from hlotool.ir import Diagnostic, ExecutionError, Module
from hlotool.ir.verifier import check
from hlotool.text.diagnostics import render
from hlotool.text.load import Snapshot, Source, one_module, open_source, read_modules, read_snapshot
from hlotool.text.sources import with_source

__all__ = [
    "file_argument",
    "format_option",
    "numerics_options",
    "optional_file_argument",
    "passes_option",
    "read_all_modules",
    "read_module",
    "read_run",
    "read_source",
    "show_diagnostics",
    "threads_option",
    "version_text",
    "write_bytes",
    "write_text",
]

file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
optional_file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), required=False)
passes_option = click.option(
    "-p",
    "--passes",
    default="default",
    metavar="PIPELINE",
    show_default=True,
    help="Passes to apply: simplify,fusion{max-ops=64},fixpoint(cse,dce). 'hlotool passes' lists them.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
threads_option = click.option(
    "--threads", type=click.IntRange(1, 1024), metavar="N", help="Threads to use; else HLOTOOL_THREADS, else all cores."
)


def numerics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that trade exactness for speed."""
    options = [
        click.option(
            "--excess-precision",
            is_flag=True,
            help="Native code may keep f16 and bf16 results in f32 between elementwise operations.",
        ),
        click.option(
            "--flush-denormals",
            is_flag=True,
            help="Arithmetic on f32, f64 and bf16 takes subnormal numbers for zeros.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_source(file: str) -> Source:
    """What is in `file` (``-`` is standard input); its text is kept to show errors with."""
    source = open_source(file)
    if source.text is not None:
        current().sources[source.name] = source.text
    return source


def read_module(file: str, verify: bool = True) -> Module:
    """The only module in `file`, in any form that `hlotool.text.load` knows, verified unless told otherwise."""
    module = one_module(read_source(file))
    if verify:
        check(module)
    return module


def read_run(file: str) -> Snapshot:
    """The only module in `file`, verified, with the arguments and the result that a snapshot records."""
    snapshot = read_snapshot(read_source(file))
    check(snapshot.module)
    return snapshot


def read_all_modules(file: str, verify: bool = True) -> list[Module]:
    """All modules in `file`, which lines ``// -----`` may separate."""
    modules = read_modules(read_source(file))
    if verify:
        for module in modules:
            check(module)
    return modules


def show_diagnostics(diagnostics: Iterable[Diagnostic], session: Session | None = None) -> None:
    """Print diagnostics with their source lines to standard error."""
    session = session or current()
    for diagnostic in diagnostics:
        source = session.sources.get(diagnostic.location.file) if diagnostic.location else None
        noted = with_source(diagnostic, source) if source is not None else diagnostic
        text = render(noted, source, colour=session.use_colour())
        click.echo(text.encode("utf-8", "replace"), err=True)


def write_bytes(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file through `write(stream)`, whole or not at all; ExecutionError names the file."""
    try:
        write_file(path, write)
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error


def write_text(path: str | None, text: str) -> None:
    """Write `text` to a file, or to standard output when `path` is None or ``-``."""
    if path is None or path == "-":
        click.echo(text.encode("utf-8"), nl=not text.endswith("\n"))
    else:
        write_bytes(path, lambda stream: stream.write(text.encode("utf-8")))


def version_text() -> str:
    """Versions of everything that matters in a bug report, one per line."""
    import platform

    import hlotool
    from hlotool.codegen.machine import host

    machine = host()
    rows: Sequence[tuple[str, str]] = [
        ("hlotool", hlotool.__version__),
        ("Python", platform.python_version()),
        *((name, _version(name)) for name in ("numpy", "llvmlite", "ml_dtypes", "click", "graphviz", "scipy")),
        ("platform", platform.platform()),
        ("processor", f"{machine.cpu}, {machine.vector_bits}-bit vectors, {machine.cores} cores"),
    ]
    return "\n".join(f"{name} {value}" for name, value in rows)


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
