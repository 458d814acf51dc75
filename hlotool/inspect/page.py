"""Pages with drawings: one HTML file with the data, the layout and the view; it needs neither network nor Graphviz."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from hlotool.inspect.colours import GROUPS
from hlotool.inspect.records import Records
from hlotool.lazy_dataclass import dataclass

__all__ = ["PageOptions", "asset", "drawing_page", "keys_help", "to_json"]

_SCOPE_COLOURS = {"scope": ("scope", "#dbe7f6", "#27364a"), "computation": ("computation", "#e6f1ea", "#20352a")}

_KEYS = (
    ("/", "search names, opcodes, shapes, op_name, source"),
    ("n  N", "the next change, the one before; while something is searched for, the next hit"),
    ("f  F", "fit everything; fit the selected box"),
    ("e  Enter", "open or close the selected box (or double click)"),
    ("x", "open everything in the selected box; once more closes it"),
    ("E  C", "open all; close all"),
    ("o", "the outline: what holds what, and where the work, the hits and the changes are"),
    ("↑  ↓", "along the edges, to what is read and to readers"),
    ("←  →", "to what stands beside it"),
    ("c", "colour by opcode, bytes, flops, time or error"),
    ("+  −", "zoom (or the wheel); drag to move"),
    ("Esc", "let go of the selection"),
    ("?", "this help"),
)
_STAGE_KEYS = (
    ("←  →", "the step before; the next step (with Shift: to what stands beside the selected box)"),
    ("d", "show the difference as text"),
)


@dataclass(frozen=True, slots=True)
class PageOptions:
    """`heat` is the colouring to start with; `links` are (words, address) for the head of the page; `base` is the
    folder of the files that the stages name."""

    title: str
    note: str = ""
    heat: str = "group"
    times: bool = False
    errors: bool = False
    links: Sequence[tuple[str, str]] = ()
    base: str = ""


def asset(name: str) -> str:
    """A file that goes into pages."""
    return files("hlotool.inspect").joinpath("assets", name).read_text(encoding="utf-8")


def drawing_page(records: Records, options: PageOptions) -> str:
    """The page that shows the stages of `records`."""
    staged = len(records.stages) > 1
    settings = {
        "groups": {key: (g.legend, g.light, g.dark) for key, g in GROUPS.items()} | _SCOPE_COLOURS,
        "heat": options.heat, "times": options.times, "errors": options.errors, "base": options.base,
    }  # fmt: skip
    links = "".join(f'<a href="{escape(address)}">{escape(words)}</a>' for words, address in options.links)
    keys = [row for row in _KEYS if not (staged and row[0] == "←  →")] + (list(_STAGE_KEYS) if staged else [])
    colours = "".join(
        f'<option value="{value}">{text}</option>'
        for value, text in (("group", "opcode"), ("bytes", "bytes moved"), ("flops", "flops"), ("time", "time"),
                            ("error", "wrong bits"), ("sharding", "sharding"))
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(options.title)}</title>
<style>
{asset("page.css")}</style></head>
<body>
<header>
<h1>{escape(options.title)}<small>{escape(options.note)}</small></h1><nav>{links}</nav><span class="space"></span>
<span id="count"></span>
<span id="searching"><input id="find" type="search" placeholder="search  ( / )" autocomplete="off" spellcheck="false"
 aria-label="search"><div id="results" hidden></div></span>
<select id="colour" aria-label="colour by" title="colour by ( c )">{colours}</select>
<button id="outlined" title="outline ( o )">outline</button>
<button id="open" title="open all ( E )">open all</button><button id="close" title="close all ( C )">close all</button>
<button id="fit" title="fit ( f )">fit</button><button id="ask" title="help ( ? )">?</button>
</header>
<aside id="side"><div id="stages"></div></aside>
<main>
<div id="stageinfo"><b id="stagehead"></b><span id="stagenote" class="dim"></span><span id="stagefiles"></span>
<button id="showdiff" title="difference ( d )">difference</button></div>
<aside id="outline" aria-label="outline" hidden></aside>
<div id="sheet"><canvas id="canvas" aria-label="drawing"></canvas>
<pre id="listing" hidden></pre><div id="tip" hidden></div><aside id="panel" hidden></aside></div>
<div id="diff" hidden></div>
</main>
<footer><div id="legend"></div><span>? shows the keys</span></footer>
<div id="help" hidden><div><b>Keys</b><dl>{keys_help(keys)}</dl></div></div>
<script type="application/json" id="options">{to_json(settings)}</script>
<script type="application/json" id="data">{to_json(records.data())}</script>
<script>
{asset("layout.js")}{asset("view.js")}</script>
</body></html>
"""


def to_json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def keys_help(keys: Sequence[tuple[str, str]]) -> str:
    """The rows of a list of keys and what they do; keys that do the same have spaces between them."""
    return "".join(f"<dt>{_kbd(key)}</dt><dd>{escape(text)}</dd>" for key, text in keys)


def _kbd(keys: str) -> str:
    return " ".join(f"<kbd>{escape(key)}</kbd>" for key in keys.split())
