"""What the commands share: reading modules and showing diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hlotool.analysis.elided import elided_constants, elided_message
from hlotool.cli.session import Session, current
from hlotool.cli.words import say
from hlotool.ir import Diagnostic, Module, UnsupportedError
from hlotool.ir.verifier import check
from hlotool.text.diagnostics import render
from hlotool.text.load import Snapshot, Source, one_module, open_source, read_modules, read_snapshot
from hlotool.text.sources import with_source

__all__ = [
    "read_all_modules",
    "read_module",
    "read_run",
    "read_source",
    "show_diagnostics",
]

def read_source(file: str) -> Source:
    """What is in `file` (``-`` is standard input); its text is kept to show errors with."""
    source = open_source(file)
    if source.text is not None:
        current().sources[source.name] = source.text
    return source


def read_module(file: str, verify: bool = True, runs: bool = False) -> Module:
    """The only module in `file`, in any form that `hlotool.text.load` knows, verified unless told otherwise.

    Where it is verified but not to run, a constant without contents is warned of.
    """
    module = one_module(read_source(file))
    if verify:
        check(module)
        if not runs:
            warn_of_elided(module)
    return module


def warn_of_elided(module: Module) -> None:
    found = elided_constants(module)
    if found:
        hint = "they are taken for zeros where code is made; run and bench take --elided zeros or random"
        message = elided_message(found)
        show_diagnostics([Diagnostic(message, found[0].location, hint, UnsupportedError.code, "warning")])


def read_run(
    file: str, given: Callable[[Source], Mapping[str, Any]] = lambda source: {}
) -> tuple[Source, Snapshot]:
    """The file, and the only module in it, verified, with the arguments and the result that a snapshot records.

    `given` is what is known of the inputs of a model that is not HLO.
    """
    source = read_source(file)
    snapshot = read_snapshot(source, **given(source))
    check(snapshot.module)
    return source, snapshot


def read_all_modules(file: str, verify: bool = True) -> list[Module]:
    """All modules in `file`, which lines ``// -----`` may separate."""
    modules = read_modules(read_source(file))
    if verify:
        for module in modules:
            check(module)
            warn_of_elided(module)
    return modules


def show_diagnostics(diagnostics: Iterable[Diagnostic], session: Session | None = None) -> None:
    """Print diagnostics with their source lines to standard error."""
    session = session or current()
    for diagnostic in diagnostics:
        source = session.sources.get(diagnostic.location.file) if diagnostic.location else None
        noted = with_source(diagnostic, source) if source is not None else diagnostic
        text = render(noted, source, colour=session.use_colour())
        say(text, err=True)
