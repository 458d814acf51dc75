"""``hlotool diff``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

import hlotool
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import form_of, output_options
from hlotool.cli.output import write_text
from hlotool.cli.tables import Table, amount, at_least, byte_text, plain_table
from hlotool.cli.viewing import view_module
from hlotool.inspect.match_keys import ASPECTS, USUALLY_IGNORED
from hlotool.inspect.module_diff import ModuleDiff, diff
from hlotool.inspect.module_diff_report import CostRow, as_json, cost_rows, lines, summary
from hlotool.text.visible import visible

__all__ = ["command"]

_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "moved": "cyan", "head": "bold"}
_FORMS = ("text", "json", "html")
_SHOWN = 200


class _Aspects(click.ParamType[tuple[str, ...]]):
    """Words with commas between them, each one of `words`."""

    name = "aspects"

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = tuple(filter(None, (word.strip() for word in str(value).split(","))))
        for word in found:
            if word not in self.words:
                self.fail(f"{word!r} is none of {', '.join(self.words)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        head, comma, last = incomplete.rpartition(",")
        return [CompletionItem(head + comma + word) for word in self.words if word.startswith(last)]


@click.command("diff")
@click.argument("a", type=click.Path(dir_okay=False, allow_dash=True))
@click.argument("b", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--ignore", multiple=True, type=_Aspects(ASPECTS), metavar="ASPECT,...",
    help="What makes no difference: layouts, constants, backend-config; names and metadata never do without --heed.",
)  # fmt: skip
@click.option(
    "--heed", multiple=True, type=_Aspects(sorted(USUALLY_IGNORED)), metavar="ASPECT,...",
    help="What makes a difference although it computes nothing: names, metadata.",
)  # fmt: skip
@click.option("--only-summary", is_flag=True, help="Only how many instructions differ, and the costs.")
@click.option(
    "--max", "most", type=click.IntRange(0), metavar="N",
    help=f"Show at most N changes of instructions. [default: {_SHOWN} in text, all in JSON]",
)  # fmt: skip
@output_options(*_FORMS, words="html is a page that shows both side by side.")
def command(
    a: str,
    b: str,
    ignore: tuple[tuple[str, ...], ...],
    heed: tuple[tuple[str, ...], ...],
    only_summary: bool,
    most: int | None,
    output: str | None,
    form: str | None,
) -> None:
    """Show how module B differs from module A: what was added, removed, changed and moved, and what that costs.

    Instructions are matched by what they compute and by their neighbours, not by name: an inserted instruction is one
    change, and a module that only has other names is the same, also where independent instructions stand in another
    order.  A changed instruction says what changed; shapes that only follow from those of operands come last.
    Flops, bytes and peak memory are those of one run in program order, as for stats.

    \b
        hlotool diff before.hlo after.hlo
        hlotool diff --ignore layouts,constants before.hlo after.hlo
        hlotool diff before.hlo after.hlo -o difference.html
        hlotool opt --passes default model.hlo | hlotool diff model.hlo -

    Exits 0 when nothing differs and 1 when something does.
    """
    if a == b == "-":
        raise click.UsageError("standard input can be only one of A and B")
    ignored, heeded = (tuple(dict.fromkeys(word for words in given for word in words)) for given in (ignore, heed))
    both = [word for word in heeded if word in ignored]
    if both:
        raise click.UsageError(f"--ignore {both[0]} and --heed {both[0]} do not go together")
    form = form_of(form, output, _FORMS)
    views = [view_module(file) for file in (a, b)]
    found = diff(views[0].module, views[1].module, ignored, heeded)
    if form == "json":
        head = {"schema_version": 1, "kind": "diff", "tool_version": hlotool.__version__, "files": [a, b]}
        notes = {f"{side}_notes": view.as_json()["notes"] for side, view in zip(("old", "new"), views) if view.notes}  # noqa: B905
        write_text(output, json.dumps({**head, **as_json(found, 0 if only_summary else most), **notes}, indent=1))
    elif form == "html":
        from hlotool.inspect.module_diff_page import diff_page

        write_text(output, diff_page(found, a, b))
    else:
        rows = [("removed", f"--- {a}"), ("added", f"+++ {b}")] if not found.is_same else []
        rows += [] if only_summary else lines(found, _SHOWN if most is None else most)
        rows += [("head", summary(found)), ("table", plain_table(_costs(found)))]
        _show(rows, output)
    if not found.is_same:
        raise CheckFailed


def _costs(found: ModuleDiff) -> Table:
    headings = ("cost", "A", "B", "difference")
    rows = [(row.what, *_cells(row)) for row in cost_rows(found)]
    return Table("", headings, rows, frozenset(headings[1:]))


def _cells(row: CostRow) -> tuple[str, str, str]:
    def words(number: int) -> str:
        if row.what == "instructions":
            return f"{number:,}"
        return byte_text(number) if row.is_bytes else amount(number)

    change = row.new - row.old
    share = f" ({100 * change / row.old:+.3g} %)" if change and row.old else ""
    sign = "+" if change > 0 else "-" if change < 0 else ""
    return (
        at_least(words(row.old), row.old_missing),
        at_least(words(row.new), row.new_missing),
        f"{sign}{words(abs(change))}{share}",
    )


def _show(rows: Iterable[tuple[str, str]], output: str | None) -> None:
    if output in (None, "-") and sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for kind, text in rows:
            console.print(Text(visible(text), style=_STYLES.get(kind, "")), soft_wrap=True)
    else:
        write_text(output, "\n".join(visible(text).strip("\n") for _, text in rows) + "\n")
