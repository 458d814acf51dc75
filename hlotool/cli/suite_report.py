"""What ``hlotool bench --suite`` prints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

from hlotool.cli.tables import Table, plain_table, time_text
from hlotool.inspect.suite_run import CaseResult, SuiteRun, run_to_json

__all__ = ["REPORTS", "ratio_text"]


def ratio_text(run: SuiteRun, case: CaseResult, peer: str) -> str:
    """hlotool's time over the peer's, or the word for why there is none."""
    ratio, result = case.ratio(peer), case.result(peer)
    if ratio is not None:
        return f"{ratio:.3g}"
    if result is None:
        return ""
    return "not available" if result.status == "ok" else result.status


def _headings(run: SuiteRun) -> tuple[str, ...]:
    return ("suite", "case", "hlotool", "GFLOP/s", "of roof", *(f"/ {name}" for name in run.peers()))


def _row(run: SuiteRun, case: CaseResult) -> tuple[str, ...]:
    seconds, share, own = case.seconds, run.of_roof(case), case.own
    if seconds is None:
        word = "left out" if case.left_out else own.status if own is not None else ""
        return (case.suite, case.name, word, *[""] * (len(run.peers()) + 2))
    warm = "" if own is None or own.warm else " (not steady)"
    return (
        case.suite,
        case.name,
        time_text(seconds) + warm,
        f"{case.flops / seconds / 1e9:.2f}",
        "" if share is None else f"{share:.0%}",
        *(ratio_text(run, case, peer) for peer in run.peers()),
    )


def _means(run: SuiteRun) -> list[tuple[str, ...]]:
    rows = []
    for suite in [*run.suites(), None] if len(run.suites()) > 1 else run.suites():
        cells = []
        for peer in run.peers():
            ratio, count = run.mean(peer, suite)
            cells.append("" if ratio is None else f"{ratio:.3g} of {count}")
        rows.append((suite or "all", "geometric mean", "", "", "", *cells))
    return rows


def _text(run: SuiteRun) -> str:
    headings = _headings(run)
    rows = [_row(run, case) for case in run.cases] + (_means(run) if run.peers() else [])
    lines = [plain_table(Table("timings; below 1 hlotool is faster", headings, rows, frozenset(headings[2:])))]
    lines += [f"{case.suite}/{case.name}: left out: {case.left_out}" for case in run.cases if case.left_out]
    lines += [f"{case.suite}/{case.name}: timed on {case.machine}" for case in run.cases if case.machine]
    whys: dict[str, list[str]] = {}
    for case in run.cases:
        for result in case.results:
            if result.status != "ok":
                whys.setdefault(f"{result.name}: {result.status}: {result.why}", []).append(f"{case.suite}/{case.name}")
    for why, names in whys.items():
        lines.append(f"{why} ({names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''})")
    return "\n".join(lines) + "\n"


def _json(run: SuiteRun) -> str:
    return json.dumps(run_to_json(run), indent=1) + "\n"


def _csv(run: SuiteRun) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    peers = run.peers()
    writer.writerow(("suite", "case", "flops", "bytes", "hlotool s", *(f"{name} s" for name in peers)))
    for case in run.cases:
        others = [case.result(name) for name in peers]
        seconds = [case.seconds, *(None if one is None else one.median for one in others)]
        writer.writerow((case.suite, case.name, case.flops, case.bytes, *("" if s is None else s for s in seconds)))
    return stream.getvalue()


def _markdown(run: SuiteRun) -> str:
    headings = _headings(run)
    rows = [headings, ("---", "---", *["--:"] * (len(headings) - 2)), *(_row(run, case) for case in run.cases)]
    rows += _means(run) if run.peers() else []
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


REPORTS: dict[str, Callable[[SuiteRun], str]] = {"text": _text, "json": _json, "csv": _csv, "markdown": _markdown}
