"""Flame graphs of weighted stacks: as text that other tools read (folded stacks), and as a page.

A flame graph (Gregg, The Flame Graph, CACM 2016) has a box for every function, as wide as the time in it and all that
it calls, which stands on it.  Here functions are whatever a stack names; a page may have several views of one time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape

from hlotool.inspect.page import asset

__all__ = ["Stacks", "flame_page", "folded"]

Stacks = Mapping[tuple[str, ...], float]
"""Frames, outermost first -> seconds in the last of them alone."""


def folded(stacks: Stacks) -> str:
    """Lines ``outer;inner;innermost NANOSECONDS``, as flamegraph.pl, speedscope and inferno read them."""
    lines = []
    for frames, seconds in stacks.items():
        nanoseconds = round(seconds * 1e9)
        if nanoseconds:
            lines.append(f"{';'.join(_frame(frame) for frame in frames)} {nanoseconds}\n")
    return "".join(lines)


def _frame(text: str) -> str:
    """A frame without what separates frames and lines."""
    return " ".join(text.replace(";", ",").split()) or "?"


def flame_page(title: str, note: str, views: Mapping[str, Stacks]) -> str:
    """A page, in one file, with a flame graph for each of `views`: click a box to zoom, type to search."""
    data = {"views": [{"name": name, "root": _tree(title, stacks)} for name, stacks in views.items()]}
    packed = json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}: where the time goes</title>
<style>
{asset("flame.css")}</style></head>
<body>
<header><h1>{escape(title)}</h1><span id="views" role="tablist"></span>
<input type="search" placeholder="search  ( / )" aria-label="search"><span id="found"></span></header>
<p id="note">{escape(note)}</p>
<main id="graph" tabindex="0" aria-label="flame graph"></main>
<footer id="about" aria-live="polite"></footer>
<script type="application/json" id="data">{packed}</script>
<script>
{asset("flame.js")}</script>
</body></html>
"""


def _tree(title: str, stacks: Stacks) -> list[object]:
    """``[name, own nanoseconds, [children]]``."""
    root: list[object] = [title, 0, []]
    nodes: dict[tuple[str, ...], list[object]] = {(): root}
    for frames, seconds in stacks.items():
        node = root
        for depth in range(1, len(frames) + 1):
            path = frames[:depth]
            found = nodes.get(path)
            if found is None:
                found = nodes[path] = [path[-1], 0, []]
                inner = node[2]
                assert isinstance(inner, list)
                inner.append(found)
            node = found
        own = node[1]
        assert isinstance(own, int)
        node[1] = own + round(seconds * 1e9)
    return root
