"""What quantising cost and gained, as a folder of pages: errors by layer, worst channels, and a drawing in the colours
of errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from hlotool.analysis.decisions import Decision
from hlotool.inspect.files import write_file
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.inspect.site import bar, cards, page, table
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["AccuracyPages", "LayerRow", "ratio_words", "write_accuracy"]

_BIT = 20 * math.log10(2)
"""What one bit more takes off the noise, in dB."""
_MANTISSA = 24
"""Bits of an f32."""
_LINKS = (("index.html", "accuracy"), ("graph.html", "graph"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """A product of the module: its `types` after quantising, what its rounding alone does to results (`error`), signal
    to quantisation noise of its result alone and with all others (dB), and its worst channels with theirs."""

    name: str
    types: str
    error: float
    own: float
    total: float
    channels: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyPages:
    """What the pages say of `source`, a module before its products were quantised: `facts` are large numbers with what
    they are, `decisions` all that was chosen and why."""

    source: Module
    facts: tuple[tuple[str, str], ...]
    layers: tuple[LayerRow, ...]
    decisions: tuple[Decision, ...]


def write_accuracy(pages: AccuracyPages, directory: Path) -> None:
    """Write index.html and graph.html into `directory`, which is made."""
    directory.mkdir(parents=True, exist_ok=True)
    write_file(directory / "index.html", _index(pages))
    write_file(directory / "graph.html", _graph(pages))


def ratio_words(decibels: float) -> str:
    """A ratio in dB: ``exact`` where there is no noise."""
    if decibels == math.inf:
        return "exact"
    return "none" if decibels == -math.inf else f"{decibels:.1f} dB"


def _index(pages: AccuracyPages) -> str:
    rows = sorted(pages.layers, key=lambda row: (row.total, row.name))
    most = max((row.error for row in rows if math.isfinite(row.error)), default=0.0) or 1.0
    layers = [
        (row.name, row.types, ratio_words(row.own), ratio_words(row.total), f"{row.error:.3g}",
         bar(row.error / most if math.isfinite(row.error) else 1.0))
        for row in rows
    ]  # fmt: skip
    channels = [
        (row.name, str(channel), ratio_words(ratio)) for row in rows for channel, ratio in row.channels
    ]  # fmt: skip
    reasons = [
        (one.code, one.action, ", ".join(one.before), one.reason, _numbers(one.numbers)) for one in pages.decisions
    ]  # fmt: skip
    headings = ("product", "types", "alone", "with all", "error of results", "")
    parts = [
        f"<h1>{escape(pages.source.name)}<small>quantised</small></h1>",
        cards(pages.facts),
        "<h2>Products</h2>",
        "<p>Signal to quantisation noise of each product: with it alone quantised, and with all that are. The error of "
        "results is that with it alone.</p>",
        table(headings, layers, headings[2:5]),
    ]
    if channels:
        parts += ["<h2>The worst channels</h2>", table(("product", "channel", "alone"), channels, ("channel", "alone"))]
    parts += ["<h2>Decisions</h2>", table(("code", "choice", "about", "reason", "numbers"), reasons)]
    return page("index.html", f"{pages.source.name}: accuracy", "\n".join(parts), links=_LINKS)


def _numbers(numbers: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in numbers)


def _graph(pages: AccuracyPages) -> str:
    """The drawing: the more bits of a product's result are wrong, the redder."""
    by_name: Mapping[str, LayerRow] = {row.name: row for row in pages.layers}
    errors = {
        one: (_wrong_bits(by_name[one.name].total), _words(by_name[one.name]))
        for one in pages.source.instructions()
        if one.name in by_name
    }
    scene = build_scene(pages.source)
    add_scopes(scene, always=False)
    records = Records(errors=errors)
    records.add(scene, pages.source.name, decisions=pages.decisions)
    options = PageOptions(
        pages.source.name, f"{len(pages.layers):,} products", heat="error", errors=True,
        links=[("accuracy", "index.html")],
    )  # fmt: skip
    return drawing_page(records, options)


def _wrong_bits(decibels: float) -> float:
    return min(float(_MANTISSA), max(0.0, _MANTISSA - decibels / _BIT))


def _words(row: LayerRow) -> str:
    return f"{row.types}: signal to noise {ratio_words(row.own)} alone, {ratio_words(row.total)} with all"
