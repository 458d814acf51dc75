"""The pages of a report that are text and tables: the frame around them, and tables with bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hlotool.inspect.page import asset
from hlotool.lazy_dataclass import dataclass

__all__ = ["Markup", "bar", "cards", "link", "page", "table"]

NAVIGATION = (
    ("index.html", "overview"),
    ("steps/index.html", "steps and drawings"),
    ("decisions.html", "decisions"),
    ("passes.html", "passes"),
    ("cost.html", "cost"),
    ("memory.html", "memory"),
)

_FILTER = """<script>
const rows = [...document.querySelectorAll("tbody tr")], find = document.querySelector("input[type=search]");
const texts = rows.map(row => row.textContent.toLowerCase()), count = document.getElementById("count");
function filter() {
  const words = find.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  rows.forEach((row, i) => { row.hidden = !words.every(word => texts[i].includes(word)); shown += !row.hidden; });
  count.textContent = `${shown} of ${rows.length}`;
}
find.addEventListener("input", filter);
addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== find) { event.preventDefault(); find.focus(); }
});
find.value = decodeURIComponent(location.hash.slice(1)).replace(/^find=/, "");
filter();
</script>"""


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that is one already; plain strings are escaped."""

    html: str


_Cell = str | Markup


def page(
    name: str, title: str, body: str, searched: bool = False, links: Sequence[tuple[str, str]] = NAVIGATION
) -> str:
    """A page of the report, or one with other `links`; with `searched` the rows of its table can be filtered."""
    navigation = "".join(
        f'<a href="{address}"{" class=on" if address == name else ""}>{words}</a>' for address, words in links
    )
    find = '<input type="search" placeholder="filter  ( / )" aria-label="filter"> <span id="count" class="dim"></span>'
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title>
<style>
{asset("report.css")}</style></head>
<body>
{f"<nav>{navigation}</nav>" if links else ""}
{body.replace("<!-- find -->", find if searched else "")}
{_FILTER if searched else ""}
</body></html>
"""


def table(headings: Sequence[str], rows: Iterable[Sequence[_Cell]], right: Iterable[str] = ()) -> str:
    """A table; the columns named in `right` are numbers."""
    numbers = {headings.index(name) for name in right}
    kind = [' class="n"' if number in numbers else "" for number in range(len(headings))]
    head = "".join(f"<th{kind[n]}>{escape(name)}</th>" for n, name in enumerate(headings))
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind[n]}>{_html(cell)}</td>" for n, cell in enumerate(row)) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def cards(rows: Iterable[tuple[str, str]]) -> str:
    """Large numbers with what they are."""
    boxes = "".join(f"<div><b>{escape(value)}</b><span>{escape(words)}</span></div>" for words, value in rows)
    return f'<div class="cards">{boxes}</div>'


def bar(fraction: float) -> Markup:
    """A bar of the given part of its column."""
    return Markup(f'<i class="bar" style="width:{100 * min(1.0, max(0.0, fraction)):.1f}%"></i>')


def link(words: str, address: str) -> Markup:
    return Markup(f'<a href="{escape(address)}">{escape(words)}</a>')


def _html(cell: _Cell) -> str:
    return cell.html if isinstance(cell, Markup) else escape(cell)
