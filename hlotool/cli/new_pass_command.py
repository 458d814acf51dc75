"""``hlotool new-pass``."""

from __future__ import annotations

from pathlib import Path

import click

from hlotool.cli import COMMANDS
from hlotool.cli.words import say
from hlotool.ir import ExecutionError, InputError
from hlotool.plugins import plugin_names
from hlotool.starters.package import KINDS, new_package

__all__ = ["command"]


@click.command("new-pass")
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(KINDS), default="pass", show_default=True,
    help="What to add: a pass for pipelines, a rule of the algebraic simplifier, a command, or a backend.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), metavar="DIR",
    help="The folder to make, which must not exist.  [default: hlotool-NAME]",
)  # fmt: skip
def command(name: str, kind: str, output: str | None) -> None:
    """Make a package that adds a pass called NAME to hlotool, or something else that packages can add.

    The package works as it is: a small pass with an option, tests in HLO and in Python, and the entry point by which
    hlotool finds it.  Once it is installed, NAME stands in pipelines, in 'hlotool passes' and in completions.

    \b
        hlotool new-pass fold-twice
        pip install -e './hlotool-fold-twice[test]'
        pytest hlotool-fold-twice
        hlotool opt model.hlo -p fold-twice --decisions
    """
    commands = (*COMMANDS, *plugin_names("command", COMMANDS)) if kind == "command" else ()
    folder = Path(output or f"hlotool-{name}")
    try:
        written = new_package(name, kind, folder, commands)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise ExecutionError(f"cannot write {folder}: {error.strerror or error}") from error
    for path in written:
        say(str(path))
    there = folder if folder.is_absolute() else f"./{folder}"
    click.echo(f"next: pip install -e '{there}[test]' && pytest {there}", err=True)
