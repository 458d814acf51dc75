"""A report: one folder of pages that need no network: steps, drawings, decisions, passes, cost and memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import quote

from hlotool.analysis.decision_codes import KINDS
from hlotool.analysis.decisions import Decision
from hlotool.analysis.exchanges import Exchange
from hlotool.analysis.roofline import operations
from hlotool.inspect.cost_table import cost_rows, sort_rows
from hlotool.inspect.exchange_table import EXCHANGE_HEADINGS, EXCHANGE_NUMBERS, exchange_cells, exchanges_json
from hlotool.inspect.files import write_file
from hlotool.inspect.labels import short
from hlotool.inspect.measures import measure
from hlotool.inspect.memory import BufferPlan, live_bytes, peak_buffers, plan_picture
from hlotool.inspect.scene import build_scene
from hlotool.inspect.site import Markup, bar, cards, link, page, table
from hlotool.inspect.stats import Stats, stats
from hlotool.inspect.svg import byte_words, count_words, time_words
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.instruments import PassRun

__all__ = ["Report", "write_report"]

_MOST_ROWS = 20_000
_MOST_COSTLY = 60


@dataclass(frozen=True, slots=True)
class Report:
    """What a report tells of: the module before and after the passes, how it got there, and the code that was made.

    `plan` and `kernels` are those of the native code; without them `problem` says why there is none.  `last_step` is
    the step of the dump that draws `result`.  `times` are seconds by computation and instruction of `result`, if any
    were measured, and `exchanges` what its devices exchange.
    """

    source: Module
    result: Module
    pipeline: str
    decisions: Sequence[Decision]
    runs: Sequence[PassRun]
    plan: BufferPlan | None = None
    kernels: Sequence[tuple[str, str, float, bool]] = ()
    problem: str = ""
    last_step: int = 0
    times: Mapping[tuple[str, str], float] = field(default_factory=dict)
    exchanges: Sequence[Exchange] = ()


def write_report(report: Report, directory: Path) -> None:
    """Write the pages into `directory`, beside the folder ``steps`` that a dump has made there."""
    pages = {
        "index.html": _overview, "decisions.html": _decisions, "passes.html": _passes, "cost.html": _cost,
        "memory.html": _memory,
    }  # fmt: skip
    for name, make in pages.items():
        write_file(directory / name, make(report))
    write_file(directory / "summary.json", json.dumps(_summary(report), indent=1) + "\n")


def _summary(report: Report) -> dict[str, object]:
    return {
        "schema_version": 1,
        "kind": "report",
        "module": report.source.name,
        "pipeline": report.pipeline,
        "before": dict(measure(report.source)),
        "after": dict(measure(report.result)),
        "decisions": dict(sorted(Counter(d.code for d in report.decisions).items())),
        "kernels": len(report.kernels),
        "arena_bytes": report.plan.arena_bytes if report.plan is not None else None,
        "problem": report.problem,
        "exchanges": exchanges_json(report.exchanges),
    }


# ---- overview


def _overview(report: Report) -> str:
    before, after = measure(report.source), measure(report.result)
    rows = [
        (words, form(before[key]), form(after[key]), _change(before[key], after[key]))
        for key, words, form in (
            ("instructions", "instructions", _count), ("flops", "operations", _amount),
            ("bytes", "bytes moved", _bytes), ("peak_bytes", "bytes alive at most (estimate)", _bytes),
        )
    ]  # fmt: skip
    top = [
        ("instructions", f"{before['instructions']:,} → {after['instructions']:,}"),
        ("bytes moved", f"{_bytes(before['bytes'])} → {_bytes(after['bytes'])}"),
        ("kernels", f"{len(report.kernels):,}" if not report.problem else "none"),
        ("temporary memory", _bytes(report.plan.arena_bytes) if report.plan is not None else "unknown"),
        ("decisions", f"{len(report.decisions):,}"),
        ("in passes", _time(sum(run.seconds for run in report.runs))),
    ]
    counts = Counter(d.code for d in report.decisions)
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:15]
    problem = f'<p class="problem">No native code: {escape(report.problem)}</p>' if report.problem else ""
    body = [
        f"<h1>{escape(report.source.name)}<small>pipeline {escape(report.pipeline)}</small></h1>",
        problem,
        cards(top),
        "<h2>Before and after the passes</h2>",
        table(("what", "before", "after", "change"), rows, ("before", "after", "change")),
        "<h2>Most frequent decisions</h2>",
        table(
            ("code", "what", "count"),
            [(_code_link(code), KINDS[code].title, f"{count:,}") for code, count in common],
            ("count",),
        ),
    ]
    return page("index.html", f"{report.source.name}: report", "\n".join(body))


def _change(before: int, after: int) -> str:
    return f"{(after - before) / before:+.1%}" if before and after != before else ""


# ---- decisions


def _decisions(report: Report) -> str:
    paths = {box.instruction.name: box.path for box in build_scene(report.result).root.walk() if box.instruction}

    def named(names: Sequence[str]) -> Markup:
        found = [
            f'<a href="{escape(_place(report, paths[name]))}"><code>{escape(name)}</code></a>'
            if name in paths
            else f"<code>{escape(name)}</code>"
            for name in names[:8]
        ]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return Markup(", ".join(found) + more)

    rows = [
        (
            _code_link(d.code), d.pass_name, Markup(f'<span class="{d.action}">{d.action}</span>'), d.rule,
            named(d.before), named(d.after), d.reason, ", ".join(f"{key} {value:g}" for key, value in d.numbers),
        )
        for d in report.decisions[:_MOST_ROWS]
    ]  # fmt: skip
    all_shown = len(rows) == len(report.decisions)
    cut = "" if all_shown else f"<p>The first {_MOST_ROWS:,} of {len(report.decisions):,}.</p>"
    used = sorted({d.code for d in report.decisions})
    pages = "\n".join(
        f'<h2 id="{code}">{code}: {escape(KINDS[code].title)}</h2><p>{escape(KINDS[code].meaning)}</p>' for code in used
    )
    headings = ("code", "pass", "choice", "rule", "about", "made", "reason", "numbers")
    body = f"<h1>Decisions</h1>\n<!-- find -->\n{table(headings, rows)}\n{cut}\n{pages}"
    return page("decisions.html", f"{report.source.name}: decisions", body, searched=True)


def _place(report: Report, path: str) -> str:
    """Where a box of the result is drawn."""
    return f"steps/index.html#stage={report.last_step}&at={quote(path)}"


def _code_link(code: str) -> Markup:
    return link(code, f"decisions.html#{code}")


# ---- passes


def _passes(report: Report) -> str:
    seconds: dict[str, float] = {}
    runs: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    for run in report.runs:
        seconds[run.name] = seconds.get(run.name, 0.0) + run.seconds
        runs[run.name] += 1
        changes[run.name] += run.changed
    total = sum(seconds.values()) or 1.0
    order = sorted(seconds, key=lambda name: (-seconds[name], name))
    most = max(seconds.values(), default=0) or 1.0
    rewrites = Counter(d.pass_name for d in report.decisions if d.action == "rewrite")
    rows = [
        (name, f"{runs[name]}", f"{changes[name]}", f"{rewrites[name]:,}", _time(seconds[name]),
         f"{seconds[name] / total:.1%}", bar(seconds[name] / most))
        for name in order
    ]  # fmt: skip
    steps = [
        (str(number), run.name, _time(run.seconds), *(_delta(run, key, form) for key, form in _MEASURES))
        for number, run in enumerate(report.runs, 1)
        if run.changed
    ]
    names = ("pass", "runs", "changed", "rewrites", "time", "share", "")
    step_names = ("run", "pass", "time", "instructions", "operations", "bytes moved", "alive at most")
    body = [
        "<h1>Passes</h1>",
        table(names, rows, names[1:6]),
        "<h2>Runs that changed the module</h2>",
        table(step_names, steps, ("run", *step_names[2:])),
    ]
    return page("passes.html", f"{report.source.name}: passes", "\n".join(body))


def _delta(run: PassRun, key: str, form: Callable[[int], str]) -> str:
    before, after = run.before.get(key, 0), run.after.get(key, 0)
    return "" if before == after else f"{form(before)} → {form(after)}"


# ---- cost


def _cost(report: Report) -> str:
    found = stats(report.result)
    body = ["<h1>Cost</h1>", "<p>Of one run of the optimised module, loops as often as they run.</p>"]
    if report.times:
        body += [*_times(report), "<h2>By opcode</h2>"]
    if report.exchanges:
        cells = exchange_cells(report.exchanges)
        body.insert(2, f"<h2>What devices exchange</h2>{table(EXCHANGE_HEADINGS, cells, EXCHANGE_NUMBERS)}")
    body += [_opcodes(found), "<h2>The most costly instructions</h2>"]
    own = sort_rows(cost_rows(report.result), "bytes")
    moved = sum(row.cost.bytes for row in own) or 1
    most = own[0].cost.bytes or 1 if own else 1
    paths = {box.instruction.name: box.path for box in build_scene(report.result).root.walk() if box.instruction}
    rows = [
        (
            link(row.name, _place(report, paths[row.name])) if row.name in paths else row.name, row.opcode,
            short(row.shape, 60), f"{row.runs:,}", _amount(operations(row.cost)), _bytes(row.cost.bytes),
            f"{row.cost.bytes / moved:.1%}", bar(row.cost.bytes / most),
        )
        for row in own[:_MOST_COSTLY]
    ]  # fmt: skip
    names = ("instruction", "opcode", "shape", "runs", "operations", "bytes moved", "share", "")
    body.append(table(names, rows, names[3:7]))
    if report.kernels:
        kernels = sorted(report.kernels, key=lambda row: (-row[2], row[0]))
        longest = kernels[0][2] or 1.0
        body += [
            "<h2>Kernels</h2>",
            "<p>Times are the estimates that decide about threads.</p>",
            table(
                ("instruction", "kernel", "threads", "estimate", ""),
                [
                    (name, kernel, "several" if parallel else "one", _time(cost * 1e-9), bar(cost / longest))
                    for name, kernel, cost, parallel in kernels
                ],
                ("estimate",),
            ),
        ]
    return page("cost.html", f"{report.source.name}: cost", "\n".join(body))


def _times(report: Report) -> list[str]:
    """The instructions that take the most time, as it was measured."""
    total = sum(report.times.values()) or 1.0
    shapes = {(i.parent.name if i.parent else "", i.name): i for i in report.result.instructions()}
    paths = {box.instruction: box.path for box in build_scene(report.result).root.walk() if box.instruction}
    ordered = sorted(report.times.items(), key=lambda item: (-item[1], item[0]))
    longest = ordered[0][1] or 1.0
    rows = []
    for key, seconds in ordered[:_MOST_COSTLY]:
        one = shapes.get(key)
        name = link(one.name, _place(report, paths[one])) if one is not None and one in paths else "/".join(key)
        opcode, shape = (one.opcode, short(str(one.shape), 60)) if one is not None else ("", "")
        rows.append((name, opcode, shape, _time(seconds), f"{seconds / total:.1%}", bar(seconds / longest)))
    strange = sum(key not in shapes for key in report.times)
    note = f" {strange:,} of them are of instructions that this module does not have." if strange else ""
    return [
        "<h2>Where the time goes</h2>",
        f"<p>{len(report.times):,} times, {_time(total)} together, by instruction; a fusion is one kernel.{note}</p>",
        table(("instruction", "opcode", "shape", "time", "share", ""), rows, ("time", "share")),
    ]


def _opcodes(found: Stats) -> str:
    most = max((row.bytes for row in found.opcodes), default=0) or 1
    rows = [
        (row.opcode, f"{row.count:,}", f"{row.runs:,}", _amount(row.flops + row.transcendentals), _bytes(row.bytes),
         bar(row.bytes / most))
        for row in sorted(found.opcodes, key=lambda row: (-row.bytes, -row.flops, row.opcode))
    ]  # fmt: skip
    names = ("opcode", "count", "runs", "operations", "bytes moved", "")
    return table(names, rows, names[1:5])


# ---- memory


def _memory(report: Report) -> str:
    title = f"{report.source.name}: memory"
    plan = report.plan
    if plan is None:
        problem = f'<p class="problem">No native code: {escape(report.problem)}</p>'
        return page("memory.html", title, f"<h1>Memory</h1>{problem}")
    sums = Counter[str]()
    for buffer in plan.buffers:
        sums[buffer.kind] += buffer.size
    peak = max((amount for _, amount in live_bytes(plan)), default=0)
    top = [
        ("temporary (the arena)", _bytes(plan.arena_bytes)), ("of it in use at most", _bytes(peak)),
        ("parameters", _bytes(sums["parameter"])), ("outputs", _bytes(sums["output"])),
        ("constants", _bytes(sums["constant"])),
    ]  # fmt: skip
    largest = peak_buffers(plan)
    names = ("instructions", "shape", "bytes", "offset", "from", "to", "")
    rows = [
        (short(", ".join(b.names), 90) if b.kind == "temporary" else b.title, short(b.shape, 60), _bytes(b.size),
         f"{b.offset:,}", str(b.start), str(b.end), bar(b.size / max(1, largest[0].size)))
        for b in largest[:_MOST_COSTLY]
    ]  # fmt: skip
    body = [
        "<h1>Memory</h1>",
        cards(top),
        f"<figure>{plan_picture(plan)}<figcaption>Temporaries: offset in the arena over time, and below it the bytes "
        "in use. Time counts instructions by twos; hover for names and sizes.</figcaption></figure>",
        "<h2>Alive when the arena is fullest</h2>",
        table(names, rows, names[2:6]),
    ]
    return page("memory.html", title, "\n".join(body))


# ---- numbers


def _count(number: int) -> str:
    return f"{number:,}"


_amount = partial(count_words, digits=4)
_bytes = partial(byte_words, digits=4)
_time = partial(time_words, digits=4)
_MEASURES = (("instructions", _count), ("flops", _amount), ("bytes", _bytes), ("peak_bytes", _bytes))
