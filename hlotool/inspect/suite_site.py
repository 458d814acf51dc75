"""Pages about runs of benchmark suites: an overview and a page for each suite, written anew from a history.

The history is a file of JSON lines, a run each.  The pages are a function of it alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from hlotool.inspect.cost_table import CostRow
from hlotool.inspect.files import write_file
from hlotool.inspect.roofline_picture import roofline_picture
from hlotool.inspect.site import Markup, cards, link, page, table
from hlotool.inspect.suite_run import CaseResult, SuiteRun, run_from_json, run_to_json
from hlotool.inspect.svg import count_words, escaped, picture, text, time_words
from hlotool.ir import ExecutionError

__all__ = ["add_to_site", "read_history", "write_pages"]

HISTORY = "history.jsonl"
_COLOURS = ("#2f7bd1", "#c9741c", "#2f9a4e", "#8b54c9", "#c94a72", "#2a8aa3", "#97841b", "#69788c")


def add_to_site(folder: Path, run: SuiteRun) -> list[str]:
    """Add a run to the history of a folder and write its pages; what is wrong with lines of the history.

    ExecutionError where a file cannot be written.
    """
    path = folder / HISTORY
    try:
        folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps(run_to_json(run), separators=(",", ":")).encode() + b"\n"
        if path.exists() and not path.read_bytes().endswith(b"\n"):
            line = b"\n" + line  # somebody was cut off: what is half there stays a line of its own
        with open(path, "ab", buffering=0) as stream:  # in one piece, so that runs at once do not mix
            stream.write(line)
            os.fsync(stream.fileno())
        runs, problems = read_history(path)
        write_pages(folder, runs, problems)
    except OSError as error:
        raise ExecutionError(f"cannot write {error.filename or folder}: {error.strerror or error}") from error
    return problems


def read_history(path: Path) -> tuple[list[SuiteRun], list[str]]:
    """The runs of a history, and what is wrong with the lines that are skipped."""
    runs, problems = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            runs.append(run_from_json(json.loads(line.decode("utf-8"))))
        except ValueError as error:
            what = "it is no JSON" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else str(error)
            problems.append(f"{path.name}:{number}: skipped: {what}")
    return runs, problems


def write_pages(folder: Path, runs: Sequence[SuiteRun], problems: Sequence[str] = ()) -> None:
    """``index.html`` and a page for each suite, each whole or not at all."""
    suites = sorted({suite for run in runs for suite in run.suites()})
    links = [("index.html", "overview"), *((f"{suite}.html", suite) for suite in suites)]
    for suite in suites:
        write_file(folder / f"{suite}.html", _suite_page(suite, [run for run in runs if suite in run.suites()], links))
    write_file(folder / "index.html", _index(suites, runs, problems, links))


def _index(
    suites: Sequence[str], runs: Sequence[SuiteRun], problems: Sequence[str], links: Sequence[tuple[str, str]]
) -> str:
    last = runs[-1] if runs else None
    parts = ["<h1>Benchmarks<small>hlotool bench --suite</small></h1>"]
    parts.append(cards((("runs", str(len(runs))), ("suites", str(len(suites))), ("last", last.time if last else "")))
                 )  # fmt: skip
    rows = []
    for suite in suites:
        newest = next(run for run in reversed(runs) if suite in run.suites())
        count = sum(case.suite == suite and case.seconds is not None for case in newest.cases)
        rows.append((link(suite, f"{suite}.html"), newest.time, str(count), _means(newest, suite)))
    parts.append("<h2>Suites, as of their last runs</h2>")
    parts.append(table(("suite", "run", "cases", "geometric means, below 1 hlotool is faster"), rows, ("cases",)))
    parts += [f'<p class="problem">{escape(problem)}</p>' for problem in problems]
    parts += _machines(runs)
    return page("index.html", "Benchmarks", "\n".join(parts), links=links)


def _means(run: SuiteRun, suite: str) -> str:
    found = [(peer, *run.mean(peer, suite)) for peer in run.peers()]
    return ", ".join(f"{ratio:.3g} of {peer} ({count})" for peer, ratio, count in found if ratio is not None)


def _machines(runs: Sequence[SuiteRun]) -> Iterator[str]:
    yield "<h2>Runs</h2>"
    rows = []
    for number, run in reversed(list(enumerate(runs, 1))):
        load = "" if run.load is None else " ".join(f"{one:.2f}" for one in run.load)
        versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
        rows.append((str(number), run.time, ", ".join(run.suites()), run.machine.get("name", ""), load,
                     run.build[:12], versions))  # fmt: skip
    yield table(("run", "time", "suites", "processor", "load", "build", "versions"), rows, ("run",))
    if runs:
        yield "<h2>The machine of the last run</h2>"
        yield table(("fact", "value"), sorted(runs[-1].machine.items()))


def _suite_page(suite: str, runs: Sequence[SuiteRun], links: Sequence[tuple[str, str]]) -> str:
    last = runs[-1]
    cases = [case for case in last.cases if case.suite == suite]
    parts = [f"<h1>{escape(suite)}<small>{escape(last.time)}, {escape(last.machine.get('name', ''))}</small></h1>"]
    means = [(peer, *last.mean(peer, suite)) for peer in last.peers()]
    parts.append(cards((f"time over {peer}, mean of {count}", f"{ratio:.3g}")
                       for peer, ratio, count in means if ratio is not None))  # fmt: skip
    rows = [
        CostRow(name=case.name, cost=case.cost, seconds=case.seconds,
                roof_seconds=last.roof.seconds(case.cost, case.touched))
        for case in sorted(cases, key=lambda case: -(case.seconds or 0)) if case.seconds is not None
    ] if last.roof is not None else []  # fmt: skip
    if rows and last.roof is not None:
        parts.append(f"<figure>{roofline_picture(rows, last.roof, f'{suite}: what is reached')}</figure>")
    if len(runs) > 1:
        parts.append(f"<figure>{_history_picture(suite, runs)}</figure>")
    peers = last.peers()
    headings = ("case", "hlotool", "GFLOP/s", "of roof", *(f"/ {peer}" for peer in peers), "before", "from")
    parts.append("<!-- find -->" + table(headings, [_row(last, case, peers, runs) for case in cases],
                                         headings[1:-2]))  # fmt: skip
    return page(f"{suite}.html", f"{suite}: benchmarks", "\n".join(parts), searched=True, links=links)


def _row(
    run: SuiteRun, case: CaseResult, peers: Sequence[str], runs: Sequence[SuiteRun]
) -> list[str | Markup]:
    seconds, share, own = case.seconds, run.of_roof(case), case.own
    earlier = [other.seconds for one in runs for other in one.cases
               if (other.suite, other.name) == (case.suite, case.name) and other.seconds is not None]  # fmt: skip
    cells: list[str | Markup] = [case.name]
    if seconds is None:
        cells += [case.left_out or (own.status if own else ""), "", ""]
    else:
        cells += [time_words(seconds), count_words(case.flops / seconds / 1e9), "" if share is None else f"{share:.0%}"]
    for peer in peers:
        ratio, result = case.ratio(peer), case.result(peer)
        if ratio is not None:
            cells.append(f"{ratio:.3g}")
        else:
            why = "" if result is None else f"{result.status}: {result.why}"
            word = "" if result is None else result.status
            cells.append(Markup(f'<span class="dim" title="{escape(why)}">{escape(word)}</span>'))
    return [*cells, Markup(_spark(earlier)), case.source]


def _spark(values: Sequence[float]) -> str:
    """Times of earlier runs as a line, the last at the right."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or high or 1.0
    points = " ".join(
        f"{2 + 76 * n / (len(values) - 1):.1f},{16 - 14 * (value - low) / span:.1f}" for n, value in enumerate(values)
    )
    words = escape(", ".join(map(time_words, values)))
    return (
        f'<svg width="80" height="18" role="img" aria-label="{words}"><title>{words}</title>'
        f'<polyline points="{points}" fill="none" stroke="{_COLOURS[0]}" stroke-width="1.5"/></svg>'
    )


def _history_picture(suite: str, runs: Sequence[SuiteRun]) -> str:
    """Geometric means against each peer, run by run."""
    peers = list(dict.fromkeys(peer for run in runs for peer in run.peers()))
    lines = {peer: [(n, run.mean(peer, suite)[0]) for n, run in enumerate(runs)] for peer in peers}
    known = [value for points in lines.values() for _, value in points if value is not None]
    width, height, left, top, wide, high = 1000, 260, 60, 40, 760, 180
    most = max([1.2, *known])

    def place(number: int, value: float) -> tuple[float, float]:
        return left + wide * number / (len(runs) - 1), top + high * (1 - value / most)

    parts = [text(left, 22, f"{suite}: time over that of peers, geometric means, run by run", "title")]
    for value in (0.0, 0.5, 1.0, *([2.0] if most > 2 else [])):
        y = place(0, value)[1]
        parts.append(f'<line class="grid" x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(left - 8, y + 4, f"{value:g}", "axis", "end"))
    for number, run in enumerate(runs):
        if number in (0, len(runs) - 1):
            parts.append(text(place(number, 0)[0], top + high + 18, run.time, "axis", "end" if number else "start"))
    for number, (peer, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        found = [place(n, value) for n, value in points if value is not None]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in found)
        parts.append(f'<g><title>{escaped(peer)}</title><polyline points="{line}" fill="none" stroke="{colour}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in found]
        parts.append("</g>")
        parts.append(f'<circle cx="{left + wide + 24}" cy="{top + 18 * number}" r="5" fill="{colour}"/>')
        parts.append(text(left + wide + 36, top + 18 * number + 4, f"over {peer}"))
    return picture(width, height, f"{suite}: history", parts)
