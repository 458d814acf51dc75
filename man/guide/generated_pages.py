"""Pages of the manual that are functions of the program: what commands, codes, passes... say about themselves."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

import click

import hlotool
from hlotool.analysis.decision_codes import KINDS
from hlotool.cli import COMMANDS, cli
from hlotool.cli.errors import EXIT_CODES
from hlotool.cli.lint_command import page_of
from hlotool.cli.variables import VARIABLES
from hlotool.inspect.thresholds import thresholds
from hlotool.lint import RULES
from hlotool.passes.framework.registry import PASSES, PIPELINES, find_pass, pass_help, pass_options
from hlotool.text.codes import CATALOGUE
from hlotool.text.page import Page

sys.path.insert(0, str(Path(__file__).parents[1]))
from accuracy_page import page as accuracy_page
from hlo_page import page as hlo_page
from opcodes_page import page as opcodes_page

__all__ = ["pages"]

_ROOMS = (
    "hlotool.driver.compile", "hlotool.driver.options", "hlotool.driver.backend", "hlotool.driver.specialise",
    "hlotool.text.load", "hlotool.text.printer", "hlotool.ir.module", "hlotool.ir.builder",
    "hlotool.evaluate.interpreter", "hlotool.evaluate.truth", "hlotool.harness.inputs",
    "hlotool.harness.compare", "hlotool.harness.references", "hlotool.harness.profile",
    "hlotool.harness.capture", "hlotool.analysis.cost", "hlotool.analysis.decisions",
    "hlotool.inspect.module_diff", "hlotool.inspect.reasons", "hlotool.passes.framework.patterns",
    "hlotool.passes.framework.rewriter", "hlotool.passes.framework.expansion",
)  # fmt: skip
"""Modules whose documentation is in the manual, beside what `hlotool` itself exports."""


def pages() -> dict[str, str]:
    """Path -> text, in Markdown."""
    return {
        "reference/commands.md": _commands(),
        "reference/environment.md": _environment(),
        "reference/errors.md": _errors(),
        "reference/decisions.md": _decisions(),
        "reference/lint.md": _lint(),
        "reference/passes.md": _passes(),
        "reference/thresholds.md": _thresholds(),
        "reference/opcodes.md": _from_roff("Opcodes and types", opcodes_page()),
        "reference/accuracy.md": _from_roff("Accuracy", accuracy_page()),
        "reference/hlo.md": _from_roff("HLO text", hlo_page()),
        "reference/schemas.md": _schemas(),
        "reference/python.md": _python(),
    }


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)])


def _cell(text: str) -> str:
    """A bar separates cells, but not in code."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)


def _plain(text: str) -> str:
    """Text of the program as Markdown: a star, an underscore, a brace or an angle bracket is itself."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<>\[\]#])", r"\\\1", p) for p in parts)


def _code(text: str, language: str = "") -> str:
    clean = "".join(c if c.isprintable() or c == "\n" else "\N{SYMBOL FOR NULL}" for c in text.strip("\n"))
    return f"````{language}\n{clean}\n````"


def _block(text: str) -> str:
    """A paragraph of a docstring; what is indented in it is code."""
    out, code = [], False
    for line in text.split("\n"):
        indented = line.startswith("    ")
        if indented != code:
            out.append("\n```text" if indented else "```\n")
            code = indented
        out.append(line[4:] if indented else _plain(line))
    return "\n".join([*out, *(["```"] if code else [])])


# ---- commands


def _help(text: str) -> str:
    blocks = []
    for block in inspect.cleandoc(text).split("\n\n"):
        kept = block.startswith("\b\n")
        body = block.removeprefix("\b\n")
        if kept or all(line.startswith("    ") for line in body.split("\n")):
            blocks.append(_code(inspect.cleandoc(body), "text"))
        else:
            blocks.append(_block(body))
    return "\n\n".join(blocks)


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
            value = "" if option.is_flag else f" `{option.make_metavar(context)}`"
            default = f" Default: {option.default}." if option.show_default else ""
            rows.append((names + value, _plain((option.help or "") + default)))
    return _table(("option", "what it does"), rows)


def _usage(command: click.Command, context: click.Context) -> str:
    return _code(f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}", "text")


def _commands() -> str:
    top = click.Context(cli, info_name="hlotool")
    parts = ["# All commands and options", "What commands say of themselves; see [Commands](../commands.md) first."]
    for name, summary in sorted(COMMANDS.items()):
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, top, name)
        parts += [f"## {name}", f"*{_plain(summary)}*", _usage(command, context), _help(command.help or "")]
        parts.append(_options(command, context))
        if isinstance(command, click.Group):
            for word, inner in sorted(command.commands.items()):
                inside = click.Context(inner, context, word)
                parts += [f"### {name} {word}", _usage(inner, inside), _help(inner.help or ""), _options(inner, inside)]
    return "\n\n".join(parts)


def _environment() -> str:
    codes = _table(("code", "meaning"), ((str(code), _plain(text)) for code, text in EXIT_CODES.items()))
    variables = _table(("variable", "meaning"), ((f"`{name}`", _plain(text)) for name, text in VARIABLES.items()))
    return f"# Environment and exit codes\n\n## Environment\n\n{variables}\n\n## Exit codes\n\n{codes}\n"


def _schemas() -> str:
    head = "---\nsearch: {exclude: true}\n---\n\n# JSON schemas"
    parts = [head, "What `--format json` prints, as `hlotool schema KIND` says; answers name their kind. "
             "Fields may be added while `schema_version` stays the same."]  # fmt: skip
    for entry in sorted((files("hlotool.cli") / "schemas").iterdir(), key=lambda entry: entry.name):
        text = json.dumps(json.loads(entry.read_text(encoding="utf-8")), indent=2)
        parts += [f"## {entry.name.removesuffix('.json')}", _code(text, "json")]
    return "\n\n".join(parts)


# ---- catalogues


def _catalogue(page: Page) -> str:
    parts = [f"## {page.code}: {_plain(page.title)} {{#{page.code}}}", _block(page.meaning)]
    if page.wrong:
        parts += ["Wrong:", _code(page.wrong, "python" if page.language == "python" else "text")]
    return "\n\n".join([*parts, "Right:", _code(page.right, "python" if page.language == "python" else "text")])


def _errors() -> str:
    head = "# Errors\n\nWhat `hlotool explain CODE` says of every error. Codes never change their meaning."
    return "\n\n".join([head, *(_catalogue(page) for page in sorted(CATALOGUE.values(), key=lambda page: page.code))])


def _lint() -> str:
    head = "# Smells\n\nWhat `hlotool lint` looks for; `--select`, `--ignore` and comments in the file choose."
    found = sorted((page_of(rule) for rule in RULES.values()), key=lambda page: page.code)
    return "\n\n".join([head, *map(_catalogue, found)])


def _decisions() -> str:
    parts = ["# Decisions of passes\n\nEvery rewrite and every refusal has a code, which `--decisions`, pages and "
             "`hlotool explain fusion` show. Examples are those of `hlotool explain CODE`."]  # fmt: skip
    for kind in sorted(KINDS.values(), key=lambda kind: kind.code):
        where = "any pass" if kind.pass_name == "*" else f"pass `{kind.pass_name}`"
        rule = "" if kind.rule == "*" else f", `{kind.rule}`"
        parts += [f"## {kind.code}: {_plain(kind.title)} {{#{kind.code}}}", f"*{where}{rule}*", _block(kind.meaning)]
        if kind.example:
            parts += [f"With `-p '{kind.pipeline}'`:", _code(kind.example, "text")]
    return "\n\n".join(parts)


def _passes() -> str:
    rows = [(f"`{name}`", f"`{text}`" if text else "no passes") for name, text in PIPELINES.items()]
    parts = ["# Passes and pipelines", "## Named pipelines", _table(("name", "passes"), rows)]
    for name in sorted(PASSES):
        found = find_pass(name)
        options = [(f"`{o.name}={o.default}`", o.type.__name__) for o in pass_options(found).values()]
        parts += [f"## {name}", _help(pass_help(found))]
        if options:
            parts.append(_table(("option and default", "type"), options))
    return "\n\n".join(parts)


def _thresholds() -> str:
    rows = [
        (f"`{row.owner.removeprefix('hlotool.')}.{row.name}`", f"{row.value:,.9g}", row.unit, _plain(row.meaning))
        for row in thresholds()
    ]
    head = "# Thresholds\n\nNumbers that choose between plans, as `hlotool passes --thresholds` lists them."
    return f"{head}\n\n{_table(('where', 'value', 'unit', 'meaning'), rows)}\n"


# ---- Python


def _python() -> str:
    parts = ["# Python interface", "What `import hlotool` has, and the modules behind it that are meant for use; see "
             "[Python](../python.md)."]  # fmt: skip
    for name in sorted(set(hlotool.__all__) - {"__version__"}):
        home = getattr(hlotool, name)
        parts.append(_documented(f"{home.__module__}.{home.__qualname__}", f"hlotool.{name}"))
    parts += [_documented(room, room) for room in _ROOMS]
    return "\n\n".join(parts)


def _documented(path: str, heading: str) -> str:
    return f"::: {path}\n    options:\n      heading: {heading}\n      toc_label: {heading}"


# ---- manual pages


def _from_roff(title: str, roff: str) -> str:
    """A manual page as Markdown: of roff only what man/build.py writes."""
    lines, verbatim, term = [f"# {title}", ""], False, False
    for line in roff.split("\n")[1:]:
        request, _, rest = line.partition(" ")
        if request == ".nf":
            lines += ["", "````text"]
            verbatim = True
        elif request == ".fi":
            lines += ["````", ""]
            verbatim = False
        elif verbatim:
            if request not in (".RS", ".RE", ".PP"):
                lines.append(_unescaped(line))
        elif request in (".SH", ".SS"):
            heading = rest.strip('"')
            heading = heading.capitalize().replace("xla", "XLA") if request == ".SH" else heading
            lines += ["", f"{'##' if request == '.SH' else '###'} {_unescaped(heading)}", ""]
        elif request == ".PP":
            lines.append("")
        elif request == ".TP":
            lines.append("")
            term = True
        elif request not in (".RS", ".RE"):
            text = _inline(line)
            lines.append(f"**{text.replace('**', '')}**\\" if term else text)
            term = False
    text = "\n".join(lines)
    text = re.sub(r"\n## Name\n\n.*\n", "\n", text).replace("\n## Description\n", "")
    return re.sub(r"\n## See also\n\n.*\n", "\n", text)


def _unescaped(line: str) -> str:
    line = re.sub(r"\\f[BIRP]", "", line)
    return line.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\")


def _inline(line: str) -> str:
    """A line with bold words."""
    parts = re.split(r"\\f[BIRP]", line)
    marks = re.findall(r"\\f([BIRP])", line)
    out = _plain(_unescaped(parts[0]))
    for mark, part in zip(marks, parts[1:], strict=True):
        text = _plain(_unescaped(part))
        out += f"**{text}**" if mark == "B" and text.strip() else text
    return out
