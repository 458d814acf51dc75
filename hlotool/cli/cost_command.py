"""``hlotool cost``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import hlotool
from hlotool.analysis.exchanges import Exchange, Exchanges
from hlotool.analysis.roofline import Roof, intensity
from hlotool.cli.network_options import NetworkChoice, network_option
from hlotool.cli.options import file_argument, form_of, output_options, strict_option, threads_option
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.peaks import HOST, Peaks
from hlotool.cli.tables import Table, amount, at_least, byte_text, show_tables
from hlotool.cli.viewing import View, view_module
from hlotool.cli.words import say
from hlotool.inspect.cost_table import GROUPINGS, SORTS, CostRow, Grouping, as_json, cost_rows, sort_rows, total_row
from hlotool.inspect.exchange_table import EXCHANGE_HEADINGS, EXCHANGE_NUMBERS, exchange_cells, exchanges_json
from hlotool.inspect.labels import short
from hlotool.inspect.roofline_picture import roofline_picture, roofline_text
from hlotool.inspect.svg import time_words
from hlotool.ir import Module, VerificationError
from hlotool.ir.devices import check_devices, topology_of
from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hlotool.harness.times import Times

__all__ = ["command"]

_FORMS = ("text", "json", "csv", "svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What is shown: `rows` in order, `total` of all of them, the roof that times are held against, and the time that
    a run of all of the native code took, where the figures of predictions are from, and with a network what devices
    exchange."""

    file: str
    view: View
    module: Module
    by: Grouping
    sort: str
    passes: str
    rows: Sequence[CostRow]
    total: CostRow
    roof: Roof | None
    measured_roof: bool
    run_seconds: float | None
    figures: str
    exchanges: Sequence[Exchange] | None

    def shown(self, limit: int) -> Sequence[CostRow]:
        return self.rows[:limit] if limit else self.rows


@click.command("cost")
@file_argument
@passes_options("none")
@click.option(
    "--by", type=click.Choice(GROUPINGS), default="kernel", show_default=True,
    help="A row for every kernel (a fusion, or an instruction outside of fusions), instruction, computation, opcode, "
    "or scope of op_name.",
)  # fmt: skip
@click.option(
    "--depth", type=click.IntRange(1), default=2, show_default=True, help="Of --by scope: how many scopes of op_name."
)
@click.option(
    "--sort", type=click.Choice(SORTS), default="time", show_default=True,
    help="What rows come first; time is what was measured, else predicted, else the least, else bytes and operations.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="How many rows; 0 for all.")
@click.option(
    "--peaks", type=Peaks(), metavar="host|FLOPS,BYTES",
    help="The roofs: those of this machine, which takes some seconds to measure, or given (2T,200G per second).",
)  # fmt: skip
@click.option("--times", metavar="FILE.json", help='Times: {"times": {"COMPUTATION/INSTRUCTION": SECONDS}}.')
@click.option("--measure", is_flag=True, help="Measure times: native code, each kernel of the entry in its own call.")
@click.option("--predict", "guess", is_flag=True, help="Predict times: what the model says of each kernel.")
@network_option
@threads_option
@strict_option
@output_options(*_FORMS, words="svg draws the roofline.")
def command(
    file: str,
    passes: str,
    by: Grouping,
    depth: int,
    sort: str,
    limit: int,
    peaks: Roof | str | None,
    times: str | None,
    measure: bool,
    guess: bool,
    network: NetworkChoice | None,
    threads: int | None,
    form: str | None,
    output: str | None,
) -> None:
    """Show what the parts of FILE cost: flops, transcendentals, bytes moved, operations per byte.

    \b
        hlotool cost samples/attention.hlo -O2
        hlotool cost samples/mlp_step.hlo --by scope --sort flops
        hlotool cost samples/attention.hlo --peaks 2T,200G --format svg -o roofline.svg
        hlotool cost samples/mlp_step.hlo -O2 --peaks host --measure
        hlotool cost samples/attention.hlo -O2 --predict

    With --peaks every row has the least time that it takes on such a machine, bound by memory or by arithmetic, and
    the roofline is drawn; with --times or --measure also how much time could be saved there.  With --network all that
    devices exchange is listed, too, with the time that published formulas give it.  Rows are of one run of
    the program, loops counted as often as they run; where that, or the work of a custom call, is not known, numbers
    are lower bounds and say so.  Bytes are those of operands and results, whatever caches do.
    """
    if times is not None and measure:
        raise click.UsageError("--times and --measure each say what takes how long: give one of them")
    form = form_of(form, output, _FORMS)
    view = view_module(file)
    module = view.module
    if view.notes and (passes != "none" or measure):
        raise VerificationError("passes and measurements need a valid module", view.notes)
    if passes != "none":
        from hlotool.driver import optimise

        module = optimise(module, named_pipeline(passes))
    if peaks is None and (form == "svg" or measure):
        peaks = HOST
    if isinstance(peaks, str):
        from hlotool.harness.roof import measure_roof

        roof: Roof | None = measure_roof(threads)
    else:
        roof = peaks
    seconds, whole, run_seconds = _times(module, times, measure, threads)
    predicted, origin = _predicted(module, threads) if guess else (None, "")
    exchanges = None if network is None else _exchanges(module, network)
    rows = cost_rows(module, by, roof, seconds, depth, whole, predicted)
    answer = _Answer(
        file=file, view=view, module=module, by=by, sort=sort, passes=passes, rows=sort_rows(rows, sort),
        total=total_row(rows), roof=roof, measured_roof=peaks == HOST, run_seconds=run_seconds, figures=origin,
        exchanges=exchanges,
    )  # fmt: skip
    _write(answer, form, output, limit)


def _exchanges(module: Module, network: NetworkChoice) -> list[Exchange]:
    check_devices(module)
    return Exchanges(module, network.of(topology_of(module).devices)).all()


def _times(
    module: Module, file: str | None, measure: bool, threads: int | None
) -> tuple[Times | None, list[Any], float | None]:
    """Times by instruction, the instructions that stand for all that they run, and that of a run of everything."""
    if file is not None:
        from hlotool.harness.times import read_times

        return read_times(file), [], None
    if not measure:
        return None, [], None
    from hlotool.analysis.elided import refuse_elided
    from hlotool.driver import compile_module
    from hlotool.harness.inputs import random_inputs
    from hlotool.harness.times import best_time, measure_kernels

    refuse_elided(module)
    arrays = random_inputs(module, 0)
    found = measure_kernels(module, arrays, threads=threads)
    executable = compile_module(module, pipeline="none", threads=threads)
    once = best_time(lambda: executable(*arrays), 1.0)
    return found, [i for i in module.entry if i.opcode in ("while", "conditional", "call")], once


def _predicted(module: Module, threads: int | None) -> tuple[Times, str]:
    """Predicted times by instruction, and where the figures are from."""
    from hlotool.driver.predict import predict

    found = predict(module, "none", threads=threads)
    return found.prediction.times(), f"{found.performance.origin}{f'; {found.note}' if found.note else ''}"


def _write(answer: _Answer, form: str, output: str | None, limit: int) -> None:
    if form == "svg":
        assert answer.roof is not None
        write_text(output, roofline_picture(answer.rows, answer.roof, f"{answer.module.name}: roofline"))
    elif form == "json":
        write_text(output, json.dumps(_json(answer, limit), indent=1) + "\n")
    elif form == "csv":
        write_text(output, _csv(answer, limit))
    elif output in (None, "-"):
        show_tables([_table(answer, limit), _exchange_table(answer)])
        for line in _notes(answer, limit):
            say(line)
    else:
        from hlotool.cli.tables import plain_table

        tables = [table for table in (_table(answer, limit), _exchange_table(answer)) if table.rows]
        lines = ["\n\n".join(map(plain_table, tables)), *_notes(answer, limit)]
        write_text(output, "\n".join(lines) + "\n")


def _json(answer: _Answer, limit: int) -> dict[str, Any]:
    roof = answer.roof
    return {
        "schema_version": 1,
        "kind": "cost",
        "tool_version": hlotool.__version__,
        "file": answer.file,
        "module": answer.module.name,
        "passes": answer.passes,
        "by": answer.by,
        "roof": None
        if roof is None
        else {
            "flops_per_s": roof.flops,
            "bytes_per_s": [{"touched": size or None, "rate": rate} for size, rate in roof.rates],
            "measured": answer.measured_roof,
        },
        "run_seconds": answer.run_seconds,
        "rows": [as_json(row) for row in answer.shown(limit)],
        "rows_in_all": len(answer.rows),
        "total": as_json(answer.total),
        **({} if answer.exchanges is None else {"exchanges": exchanges_json(answer.exchanges)}),
        **answer.view.as_json(),
    }


def _exchange_table(answer: _Answer) -> Table:
    """What devices exchange; without rows where nobody asks, or nothing is."""
    cells = exchange_cells(answer.exchanges or ())
    return Table("exchanges among devices", EXCHANGE_HEADINGS, cells, frozenset(EXCHANGE_NUMBERS))


def _csv(answer: _Answer, limit: int) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(as_json(answer.total)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(as_json(row) for row in answer.shown(limit))
    return stream.getvalue()


_HEADINGS = ("name", "opcode", "shape", "runs", "flops", "transcendentals", "bytes", "FLOP/B")
_RIGHT = frozenset((*_HEADINGS[3:], "share", "at the roof", "time", "could save", "predicted"))


def _table(answer: _Answer, limit: int) -> Table:
    """Columns that say nothing are left out."""
    roof, timed = answer.roof is not None, answer.total.seconds is not None
    headings = [*_HEADINGS, *(["bound", "at the roof"] if roof else []), *(["time"] if timed else []), "share"]
    headings += ["could save"] if roof and timed else []
    headings += ["predicted"] if answer.total.predicted is not None else []
    headings += ["source"]
    rows = [_cells(row, answer) for row in (*answer.shown(limit), answer.total)]
    kept = [n for n, heading in enumerate(headings) if heading not in ("opcode", "shape", "source") or
            any(row[n] for row in rows)]  # fmt: skip
    title = f"{answer.module.name} by {answer.by}"
    cells = [tuple(row[n] for n in kept) for row in rows]
    return Table(title, tuple(headings[n] for n in kept), cells, _RIGHT)


def _cells(row: CostRow, answer: _Answer) -> list[str]:
    cost, ratio = row.cost, intensity(row.cost)
    missing = cost.unknown + cost.loops
    cells = [
        row.name, "" if answer.by == "opcode" else row.opcode, short(row.shape, 40),
        "" if row is answer.total else f"{row.runs:,}",
        at_least(amount(cost.flops), missing), amount(cost.transcendentals), byte_text(cost.bytes),
        "" if ratio is None else f"{ratio:.3g}",
    ]  # fmt: skip
    if answer.roof is not None:
        cells += [row.bound, "" if row.roof_seconds is None else time_words(row.roof_seconds)]
    if answer.total.seconds is not None:
        cells.append("" if row.seconds is None else time_words(row.seconds))
    cells.append(_share(row, answer.total))
    if answer.roof is not None and answer.total.seconds is not None:
        cells.append("" if row.saving is None else time_words(row.saving))
    if answer.total.predicted is not None:
        cells.append("" if row.predicted is None else time_words(row.predicted))
    return [*cells, short(row.source or row.op_name, 48)]


def _share(row: CostRow, total: CostRow) -> str:
    """Of the time, else of the predicted one, else of the least one, else of the bytes."""
    for part, whole in (
        (row.seconds, total.seconds), (row.predicted, total.predicted), (row.roof_seconds, total.roof_seconds),
        (row.cost.bytes, total.cost.bytes),
    ):  # fmt: skip
        if whole:
            return f"{(part or 0.0) / whole:.1%}"
    return ""


def _notes(answer: _Answer, limit: int) -> list[str]:
    shown, total, roof = len(answer.shown(limit)), answer.total, answer.roof
    lines = []
    if answer.exchanges is not None and not answer.exchanges:
        lines.append("devices exchange nothing")
    if shown < len(answer.rows):
        lines.append(f"{shown} of {len(answer.rows)} rows; --limit 0 shows all")
    if total.cost.unknown:
        lines.append(f"{total.cost.unknown} instructions of unknown cost are left out")
    if total.cost.loops:
        lines.append(f"{total.cost.loops} loops of unknown length are counted once")
    if total.predicted is not None:
        lines.append(
            f"predicted by figures that are {answer.figures}"
            + ("; hlotool doctor --calibrate measures those of this machine" if answer.figures == "built in" else "")
        )
    if answer.run_seconds is not None and total.seconds:
        lines.append(
            f"all of it runs in {time_words(answer.run_seconds)}; its kernels, each in a call of its own, take "
            f"{time_words(total.seconds)}"
        )
    if roof is not None:
        rates = ", ".join(
            f"{amount(round(rate))}B/s" + (f" on {byte_text(size)}" if size else "") for size, rate in roof.rates
        )
        origin = "measured" if answer.measured_roof else "given"
        lines.append(f"roofs, {origin}: {amount(round(roof.flops))}FLOP/s, {rates}")
        if total.roof_seconds:
            lines += ["", roofline_text(answer.rows, roof)]
    return lines
