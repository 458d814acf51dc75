"""``hlotool explain``."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from hlotool.cli.common import format_option
from hlotool.text.codes import CATALOGUE, find_page, near_codes
from hlotool.text.page import Page

__all__ = ["command"]


@click.command("explain")
@click.argument("code", required=False)
@format_option
def command(code: str | None, form: str) -> None:
    """Explain the error CODE: what it means, with a wrong and a right example.  Without CODE, list all.

    \b
        hlotool explain HLO0102
    """
    pages = list(CATALOGUE.values())
    if code is not None:
        page = find_page(code)
        if page is None:
            near = near_codes(code)
            hint = f"  Did you mean {' or '.join(near)}?" if near else "  'hlotool explain' lists all codes."
            raise click.UsageError(f"There is no code {code!r}.{hint}")
        pages = [page]
    if form == "json":
        click.echo(json.dumps({"schema_version": 1, "kind": "explain", "pages": [asdict(p) for p in pages]}, indent=1))
    elif code is not None:
        click.echo(_page_text(pages[0]))
    else:
        click.echo("\n".join(f"{page.code}  {page.title}" for page in sorted(pages, key=lambda page: page.code)))


def _page_text(page: Page) -> str:
    head = f"{page.code}: {page.title}\n\n{page.meaning}"
    return f"{head}\n\nWrong:\n\n{_shown(page.wrong)}\n\nRight:\n\n{_shown(page.right)}"


def _shown(example: str) -> str:
    clean = "".join(c if c.isprintable() or c == "\n" else "\N{SYMBOL FOR NULL}" for c in example)
    return "\n".join(f"    {line}"[:120].rstrip() for line in clean.rstrip().split("\n"))
