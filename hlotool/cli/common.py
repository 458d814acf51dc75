"""What the commands share: reading modules, showing diagnostics, writing files whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click

from hlotool.cli.session import Session, current
from hlotool.inspect.files import write_file
from hlotool.ir import Diagnostic, ExecutionError, HloError, Module, UnsupportedError
from hlotool.ir.verifier import check
from hlotool.passes.manager import Progress
from hlotool.text.diagnostics import render
from hlotool.text.load import Source, one_module, open_source, read_modules
from hlotool.text.sources import with_source

__all__ = [
    "dump_options",
    "dumping",
    "file_argument",
    "format_option",
    "optional_file_argument",
    "passes_option",
    "read_all_modules",
    "read_module",
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


def dump_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that write the module after every pass that changed it."""
    options = [
        click.option("--dump-to", type=click.Path(file_okay=False), metavar="DIR", help="Write every step into DIR."),
        click.option(
            "--dump-format",
            default="text,dot",
            show_default=True,
            metavar="LIST",
            help="Of text, dot and svg; svg needs Graphviz's program dot, and brings the other two.",
        ),
        click.option("--dump-filter", metavar="RE", help="Only after passes whose name the regular expression finds."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def dumping(
    module: Module, directory: str | None, formats: str, pattern: str | None, progress: Progress | None = None
) -> Iterator[list[Any]]:
    """The instruments that the dump options ask for (none without --dump-to); on leaving, the pictures are made."""
    if directory is None:
        yield []
        return
    from hlotool.inspect.dump import DUMP_FORMATS, Dump

    chosen = tuple(name.strip() for name in formats.split(",") if name.strip())
    unknown = [name for name in chosen if name not in DUMP_FORMATS]
    if unknown or not chosen:
        raise click.UsageError(f"--dump-format takes a list of {', '.join(DUMP_FORMATS)}, not {formats!r}")
    try:
        matcher = re.compile(pattern) if pattern else None
    except re.error as error:
        raise click.UsageError(f"--dump-filter: {error}") from None
    dump = Dump(module, Path(directory), chosen, matcher, progress)
    try:
        yield [dump]
    except HloError:
        with suppress(UnsupportedError):  # the error that is on its way matters more
            dump.finish()
        raise
    dump.finish()
    for step in dump.steps:
        if step.note.startswith("no picture"):
            click.echo(f"{directory}: step {step.number}, {step.pass_name}: {step.note}", err=True)


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
