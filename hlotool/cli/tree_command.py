"""``hlotool tree``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

import hlotool
from hlotool.cli.options import file_argument, format_option
from hlotool.cli.tables import amount, at_least, byte_text
from hlotool.cli.viewing import view_module
from hlotool.cli.words import say
from hlotool.inspect.labels import short
from hlotool.inspect.tree import ORDERS, TreeRow, as_json, call_tree, scope_tree
from hlotool.text.visible import visible

__all__ = ["command"]

_HEADINGS = ("instructions", "runs", "flops", "bytes")
_STYLES = {
    "while": "bold magenta", "conditional": "bold magenta", "fusion": "bold cyan", "call": "bold cyan",
    "computation": "bold", "module": "bold", "scope": "bold", "others": "dim",
}  # fmt: skip
_WIDEST = 72  # characters of the first column


@click.command("tree")
@file_argument
@click.option(
    "--by", type=click.Choice(["computation", "scope"]), default="computation", show_default=True,
    help="What makes the tree: which computation calls which, or the scopes of op_name.",
)  # fmt: skip
@click.option("--depth", type=click.IntRange(0), metavar="N", help="Only the first N levels under the top.")
@click.option("--all", "every", is_flag=True, help="A line for each instruction, not only for those that call others.")
@click.option(
    "--sort", "order", type=click.Choice(ORDERS), default="program", show_default=True,
    help="What comes first: as in the program, or what costs most.",
)  # fmt: skip
@format_option
def command(file: str, by: str, depth: int | None, every: bool, order: str, form: str) -> None:
    """Show FILE as a tree: computations, loops, fusions and calls, or scopes, with what they cost.

    Flops and bytes are those of all runs of a part in one run of the module, as for stats: what is in a loop counts as
    often as it runs, and what is in a fusion moves no bytes of its own.  Flops include transcendentals.  Of branches
    the one that costs most counts.

    \b
        hlotool tree model.hlo
        hlotool tree --by scope --depth 3 --sort flops model.hlo
        hlotool opt --passes default model.hlo | hlotool tree -
    """
    if every and by == "scope":
        raise click.UsageError("--all goes with --by computation")
    view = view_module(file)
    if by == "scope":
        rows = scope_tree(view.module, depth=depth, order=order)
    else:
        rows = call_tree(view.module, depth=depth, every=every, order=order)
    if form == "json":
        head = {"schema_version": 1, "kind": "tree", "tool_version": hlotool.__version__, "file": file, "by": by}
        click.echo(json.dumps({**head, "module": view.module.name, "rows": as_json(rows), **view.as_json()}, indent=1))
    else:
        _show(rows)


def _show(rows: Sequence[TreeRow]) -> None:
    branches = _branches(rows)
    titles = [short(row.title, max(16, _WIDEST - len(branch))) for branch, row in zip(branches, rows, strict=True)]
    names = [branch + title for branch, title in zip(branches, titles, strict=True)]
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first = max(map(len, names))
    lines = [" " * first + "".join("  " + word.rjust(width) for word, width in zip(_HEADINGS, widths, strict=True))]
    for name, numbers, row in zip(names, cells[1:], rows, strict=True):
        words = [row.note] if row.note else []
        words += [f"{row.hidden:,} more below"] if row.hidden else []
        text = "".join("  " + word.rjust(width) for word, width in zip(numbers, widths, strict=True))
        lines.append(f"{name.ljust(first)}{text}" + (f"  ({'; '.join(words)})" if words else ""))
    if sys.stdout.isatty():
        _show_rich(lines, branches, titles, rows)
    else:
        say("\n".join(lines))


def _show_rich(
    lines: Sequence[str], branches: Sequence[str], titles: Sequence[str], rows: Sequence[TreeRow]
) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(lines[0], style="dim"), soft_wrap=True)
    most = max((row.cost.flops + row.cost.transcendentals for row in rows), default=0)
    for line, branch, title, row in zip(lines[1:], branches, titles, rows, strict=True):
        end = len(branch) + len(title)
        much = 4 * (row.cost.flops + row.cost.transcendentals) >= most > 0 and row.depth > 0
        text = Text(branch, style="dim")
        text.append(visible(title), style=_STYLES.get(row.kind, "default"))
        text.append(visible(line[end:]), style="red" if much else "default")
        console.print(text, soft_wrap=True)


def _cells(row: TreeRow) -> tuple[str, ...]:
    cost = row.cost
    missing = cost.unknown + cost.loops
    return (
        f"{row.instructions:,}",
        amount(row.runs),
        at_least(amount(cost.flops + cost.transcendentals), missing),
        at_least(byte_text(cost.bytes), missing),
    )


def _branches(rows: Sequence[TreeRow]) -> list[str]:
    """What stands before each title: lines from what it is under."""
    found: list[str] = []
    open_: list[bool] = []  # by depth: whether another row of this depth follows under the same one
    for row in reversed(rows):
        depth = row.depth
        open_ += [False] * (depth + 1 - len(open_))
        ahead = "".join("│  " if follows else "   " for follows in open_[1:depth])
        found.append(ahead + ("├─ " if open_[depth] else "└─ ") if depth else "")
        del open_[depth + 1 :]
        open_[depth] = True
    return found[::-1]
