#!/usr/bin/env python3
"""Write the manual pages: hlotool.1 and one page per command, from what the commands say about themselves, hlo.5,
hlotool-accuracy.7 and hlotool-opcodes.7.

    man/build.py [DIRECTORY]     writes into the directory of this script unless told otherwise

The pages are a function of the code alone; a test compares them with what this script gives.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import click

from hlotool import __version__
from hlotool.cli import COMMANDS, cli
from hlotool.cli.errors import EXIT_CODES
from hlotool.cli.variables import VARIABLES

sys.path.insert(0, str(Path(__file__).parent))
from accuracy_page import page as accuracy_page
from hlo_page import page as hlo_page
from opcodes_page import page as opcodes_page


def escape(text: str) -> str:
    """Text for roff: backslashes, hyphens, and dots and quotes at the start of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def paragraphs(text: str) -> list[str]:
    """A docstring as roff: blocks after a click bar keep their lines."""
    lines: list[str] = []
    for block in inspect.cleandoc(text).split("\n\n"):
        verbatim = block.startswith("\b\n")
        body = escape(block.removeprefix("\b\n"))
        lines += [".PP", *([".nf", body, ".fi"] if verbatim else [" ".join(body.split("\n"))])]
    return lines


def synopsis(command: click.Command, name: str) -> str:
    words = [f"\\fB{escape(name)}\\fR"]
    if any(isinstance(p, click.Option) for p in command.params):
        words.append("[\\fIOPTIONS\\fR]")
    if isinstance(command, click.Group) and command is not cli:
        words.append("\\fICOMMAND\\fR")
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            word = f"\\fI{escape((parameter.name or '').upper())}\\fR" + ("..." if parameter.nargs == -1 else "")
            words.append(word if parameter.required else f"[{word}]")
    return " ".join(words)


def options(command: click.Command, context: click.Context) -> list[str]:
    lines: list[str] = []
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option) or parameter.hidden:
            continue
        metavar = "" if parameter.is_flag else f" \\fI{escape(parameter.make_metavar(context))}\\fR"
        names = ", ".join(f"\\fB{escape(name)}\\fR" for name in [*parameter.opts, *parameter.secondary_opts])
        default = f" Default: {parameter.default}." if parameter.show_default else ""
        lines += [".TP", names + metavar, escape((parameter.help or "") + default)]
    return lines


def subcommands(group: click.Group, context: click.Context) -> list[str]:
    """The commands of a command, each with its synopsis, what it says of itself, and its options."""
    lines = [".SH COMMANDS"]
    for name, command in sorted(group.commands.items()):
        inside = click.Context(command, context, name)
        lines += [".SS", synopsis(command, f"{context.command_path} {name}"), *paragraphs(command.help or "")]
        lines += options(command, inside)
    return lines


def page(command: click.Command, name: str, summary: str) -> str:
    """The manual page of a command."""
    parent = None if command is cli else click.Context(cli, info_name="hlotool", **cli.context_settings)
    settings = cli.context_settings if parent is None else {}
    context = click.Context(command, parent, name.split()[-1], **settings)
    title = name.replace(" ", "-").upper()
    lines = [f'.TH "{title}" "1" "" "hlotool {__version__}" "hlotool manual"', ".SH NAME"]
    lines += [f"{escape(name.replace(' ', '-'))} \\- {escape(summary)}", ".SH SYNOPSIS", synopsis(command, name)]
    lines += [".SH DESCRIPTION", *paragraphs(command.help or "")[1:]]
    lines += [".SH OPTIONS", *options(command, context)]
    if isinstance(command, click.Group) and command is not cli:
        lines += subcommands(command, context)
    if command is cli:
        lines.append(".SH COMMANDS")
        for word, text in sorted(COMMANDS.items()):
            lines += [".TP", f"\\fBhlotool\\-{word}\\fR(1)", escape(text)]
    lines.append(".SH EXIT STATUS")
    for code, text in EXIT_CODES.items():
        lines += [".TP", f"\\fB{code}\\fR", escape(text)]
    lines.append(".SH ENVIRONMENT")
    for variable, text in VARIABLES.items():
        lines += [".TP", f"\\fB{variable}\\fR", escape(text)]
    others = [f"hlotool-{word}" for word in sorted(COMMANDS)] if name == "hlotool" else ["hlotool"]
    lines += [".SH SEE ALSO", ", ".join([*(f"\\fB{escape(other)}\\fR(1)" for other in others), "\\fBhlo\\fR(5)"])]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """File name -> text of all pages."""
    found = {"hlotool.1": page(cli, "hlotool", "compile, run and inspect HLO, the graph language of XLA")}
    context = click.Context(cli, info_name="hlotool")
    for word, text in COMMANDS.items():
        command = cli.get_command(context, word)
        assert command is not None
        summary = text[0].lower() + text[1:].rstrip(".")
        found[f"hlotool-{word}.1"] = page(command, f"hlotool {word}", summary)
    found["hlo.5"] = hlo_page()
    found["hlotool-accuracy.7"] = accuracy_page()
    found["hlotool-opcodes.7"] = opcodes_page()
    return found


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
