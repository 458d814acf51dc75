"""The command line.  One short file per command; each is imported when it is called, so that ``hlotool --help``
loads neither NumPy nor llvmlite.  In: arguments, files, standard input.  Out: data on standard output, messages on
standard error, an exit code.  May import everything; nothing imports it.

Exit codes (a contract): 0 success, 1 the check answered no, 2 usage, 3 input cannot be read, parsed or verified,
4 valid but unsupported, 5 execution failed, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path

import click

import hlotool
from hlotool.cli.session import Session
from hlotool.ending import end_quickly
from hlotool.plugins import load_plugin, plugin_names
from hlotool.system import system

__all__ = ["COMMANDS", "cli", "main", "run"]

COMMANDS: dict[str, str] = {
    "advise": "Show which changes to a program would gain most, predicted and measured.",
    "bench": "Time modules, against each other, a baseline or XLA.",
    "bisect": "Find the pass, the rewrite, the passes or the input that makes a module fail.",
    "build": "Build a library of modules, for programs in C and other languages.",
    "cache": "Look into the cache of compiled code, or make room in it.",
    "check": "Run the checks in files of HLO: what commands must print, modules contain and compute.",
    "compare": "Compare what a module gives with what it should, down to single instructions.",
    "compile": "Compile a module to native code; dump and draw every step on the way.",
    "cost": "Show what the parts of a module cost, and what a machine could do at best.",
    "diff": "Show how two modules differ, matched by what they compute.",
    "doctor": "Tell what a report of a bug should say, and test the installation.",
    "emit": "Print a module at a stage: HLO, LLVM IR, assembly.",
    "explain": "Explain a code, why two instructions are fused or not, or where one comes from.",
    "export": "Print modules as StableHLO.",
    "extract": "Cut instructions out of a module, as modules that run; or all, as unit tests.",
    "fmt": "Print modules in the normal form.",
    "graph": "Draw a module: a page to look around in, or a picture.",
    "hash": "Print a hash of what modules compute, names and metadata aside.",
    "import": "Print a program of StableHLO, or a model in ONNX, as HLO.",
    "inspect": "Show what is in a library that build made, or in a program with one.",
    "lint": "Look for numeric and performance smells, and mend some.",
    "lsp": "Serve an editor: errors, names, completion and more, while HLO is written.",
    "memory": "Show what memory a module takes, when, and for what.",
    "new-pass": "Make a package that adds a pass to hlotool, or a rule, a command, a backend.",
    "opt": "Apply passes: HLO in, HLO out.",
    "optimise-app": "Choose how modules run best here; build the library, and an image that serves it.",
    "passes": "List passes and pipelines, or explain one.",
    "profile": "Show where the time goes: native time per instruction, trace, flame graph.",
    "quantise": "Make products cheap: small numbers with scales, by calibration.",
    "query": "Find the instructions that an expression describes.",
    "reduce": "Cut a module down to what a crash, wrong numbers or a failing command needs.",
    "report": "Write a report: steps, drawings, decisions, times, cost and memory as pages.",
    "repro": "Run the pass that a reproducer is about.",
    "run": "Run a module on inputs, print or save the outputs, compare them.",
    "schema": "Print the JSON Schema of what --format json prints.",
    "signature": "Show the inputs and outputs of a module.",
    "simulate": "Predict how a module runs on many devices: time line, memory, scaling.",
    "specialise": "Print a module for other sizes of its parameters.",
    "stats": "Show what is in a module and what it costs.",
    "study": "Measure when compiling pays: training of perceptrons, parts of a module.",
    "tree": "Show a module as a tree, by calls or scopes, with what it costs.",
    "tune": "Search for what makes kernels quickest on this machine, and keep it.",
    "verify": "Check modules and report what is wrong in them.",
}
"""Command -> the line that ``hlotool --help`` shows; the code is in ``hlotool.cli.<command>_command``."""


def _installed() -> list[str]:
    return plugin_names("command", COMMANDS)


class _Commands(click.Group):
    """Finds commands by name, hlotool's own and installed ones, without importing the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*COMMANDS, *_installed()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = import_module(f"hlotool.cli.{cmd_name.replace('-', '_')}_command").command
            return command
        return load_plugin("command", cmd_name, click.Command) if cmd_name in _installed() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and args[0] not in _installed():
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            installed = {name: self._help_of(ctx, name) for name in _installed()}
            formatter.write_dl(sorted({**COMMANDS, **installed}.items()))

    def _help_of(self, ctx: click.Context, name: str) -> str:
        """The line that ``--help`` shows for an installed command: all others stay usable where it cannot be loaded."""
        from hlotool.ir import HloError

        try:
            command = self.get_command(ctx, name)
        except HloError as error:
            return f"({error})"
        return "" if command is None else command.get_short_help_str(80)


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from hlotool.cli.versions import version_text

    click.echo(version_text())
    ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour of messages.")
@click.pass_context
def cli(ctx: click.Context, color: str) -> None:
    """Compile, run and inspect HLO, the graph language of the XLA compiler.

    FILE is HLO text or a protocol buffer; - is standard input.  Data goes to standard output, messages to standard
    error.

    \b
    Exit codes: 0 success; 1 the check answered no; 2 usage; 3 input cannot be
    read, parsed or verified; 4 valid but unsupported; 5 execution failed;
    70 internal error; 130 interrupted.

    \b
    Environment: HLOTOOL_CACHE=off|DIR, HLOTOOL_THREADS=N, HLOTOOL_CPU=NAME to
    compile for another processor (see compile --cpu), HLOTOOL_KEEP=MiB of freed
    array memory kept for reuse, HLOTOOL_CONFIG=FILE in place of the nearest
    hlotool.toml (named pipelines), HLOTOOL_STRICT=1 as --strict, NO_COLOR,
    HLOTOOL_REDUCE=SECONDS|off for reproducers of passes that fail (10),
    HLOTOOL_PORTABLE=1 to do without what Linux has alone.

    Other packages add commands, backends, passes and rules: entry points in the groups hlotool.commands,
    hlotool.backends, hlotool.passes and hlotool.rules.
    """
    ctx.ensure_object(Session).color = color
    for name in ("HLOTOOL_THREADS", "HLOTOOL_KEEP"):
        text = os.environ.get(name, "").strip()
        if text and not (text.isdecimal() and (name == "HLOTOOL_KEEP" or 1 <= int(text) <= 1024)):
            raise click.UsageError(f"{name}={text}: expected a whole number")
    try:
        system()
        if os.environ.get("HLOTOOL_CPU", "").strip():
            from hlotool.codegen.machine import default_machine

            default_machine()
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """What the compiler has to say is one line; warnings of Python's are for those who write Python."""
    if category.__module__.startswith("hlotool."):
        from hlotool.text.visible import visible

        return f"warning: {visible(str(message))}\n"
    return _as_usual(message, category, filename, lineno, line)


_as_usual = warnings.formatwarning


def main() -> None:
    """Run the command line and exit."""
    end_quickly()
    code = run()
    if code == 130:
        # Not sys.exit: threads may work on, and where the interrupt came while Python executed a string, as dataclasses
        # have it do, Python would end by the signal, although that was handled.
        os._exit(code)
    sys.exit(code)


def run() -> int:
    """Run the command line (`sys.argv`); its exit code."""
    from hlotool.cli.errors import open_streams, run_safely

    open_streams()
    session = Session()

    def said(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        path = getattr(message, "reproducer", None)
        if path is not None and Path(path).name.startswith("hlotool-repro-pass-"):
            session.reproducers.append(path)
        return _one_line(message, category, filename, lineno, line)

    warnings.formatwarning = said
    if "_HLOTOOL_COMPLETE" in os.environ:  # a shell asks
        cli.main(prog_name="hlotool")

    def body() -> object:
        # click's own `main` ends with 1 where nobody reads the output.
        with cli.make_context("hlotool", sys.argv[1:], obj=session) as context:
            return cli.invoke(context)

    return run_safely(body, hlotool, session)
