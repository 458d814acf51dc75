"""Tables for people: drawn by rich on a terminal, aligned columns otherwise."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hlotool.cli.words import say
from hlotool.lazy_dataclass import dataclass
from hlotool.text.visible import visible

__all__ = ["Table", "amount", "at_least", "byte_text", "plain_table", "show_tables", "time_text"]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words under headings; the columns named in `right` are numbers."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[str] = frozenset()


def show_tables(tables: Sequence[Table]) -> None:
    """Print the tables that have rows to standard output."""
    tables = [table for table in tables if table.rows]
    if sys.stdout.isatty():
        _show_rich(tables)
    else:
        say("\n\n".join(plain_table(table) for table in tables))


def _show_rich(tables: Sequence[Table]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for table in tables:
        drawn = RichTable(title=Text(visible(table.title)), title_justify="left", title_style="bold")
        for heading in table.headings:
            drawn.add_column(Text(heading), justify="right" if heading in table.right else "left", overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Text(visible(word)) for word in row))
        console.print(drawn)


def plain_table(table: Table) -> str:
    """Aligned columns under the title."""
    widths = [max(map(len, column)) for column in zip(table.headings, *table.rows, strict=True)]
    lines = [table.title]
    for row in (table.headings, *table.rows):
        cells = [
            word.rjust(width) if heading in table.right else word.ljust(width)
            for word, width, heading in zip(row, widths, table.headings, strict=True)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def amount(number: int) -> str:
    """A count with a unit: 950, 1.25 k, 3.1 M."""
    value = float(number)
    for unit in ("", " k", " M", " G", " T", " P"):
        if value < 1000 or unit == " P":
            return f"{value:.4g}{unit}" if unit else str(number)
        value /= 1000
    raise AssertionError


def byte_text(number: int | None) -> str:
    """Bytes with a binary unit; ``unknown`` for None."""
    if number is None:
        return "unknown"
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{number} B" if unit == "B" else f"{value:.4g} {unit}"
        value /= 1024
    raise AssertionError


def at_least(text: str, unknown: int) -> str:
    """A number of which `unknown` parts are missing."""
    if not unknown:
        return text
    return "unknown" if text == "0" else f">= {text}"


def time_text(seconds: float) -> str:
    """A time in its unit: ``12.3 us``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
