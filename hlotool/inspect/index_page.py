"""The page that lists the steps of a dump without drawings: one file, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from hlotool.inspect.page import asset

__all__ = ["index_page"]


def index_page(module: str, steps: Sequence[dict[str, Any]]) -> str:
    """The HTML page for the steps of a manifest."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(module)}: steps</title>
<style>
{asset("report.css")}</style></head>
<body>
<h1>{escape(module)}</h1>
<p>The module as it came in, and after every pass that changed it.</p>
<table>
<tr><th>step</th><th>pass</th><th>instructions</th><th>added</th><th>removed</th><th>changed</th><th>files</th></tr>
{"".join(map(_row, steps))}</table>
</body></html>
"""


def _row(step: dict[str, Any]) -> str:
    links = " ".join(f'<a href="{escape(n)}">{escape(n.rpartition(".")[2])}</a>' for n in step["files"])
    note = f' <span class="problem">{escape(step["note"])}</span>' if step["note"] else ""
    before, after = step["instructions_before"], step["instructions_after"]
    counts = f"{after}" if before == after else f"{before} → {after}"
    numbers = "".join(f'<td class="n">{step[key] or ""}</td>' for key in ("added", "removed", "changed"))
    return (
        f'<tr id="step{step["step"]}"><td class="n">{step["step"]}</td><td>{escape(step["pass"])}</td>'
        f'<td class="n">{counts}</td>{numbers}<td>{links}{note}</td></tr>\n'
    )
