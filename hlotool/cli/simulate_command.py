"""``hlotool simulate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

import hlotool
from hlotool.analysis.collective_formulas import Link
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.exchanges import Exchange, Exchanges
from hlotool.analysis.network import Network, parse_topology
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.analysis.scaling import MODES, Scaling
from hlotool.analysis.timeline import Chip, Timeline, simulate
from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.network_options import ChipNumbers, Counts, LinkNumbers
from hlotool.cli.options import devices_options, file_argument, form_of, output_options, strict_option
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.tables import Table, plain_table
from hlotool.cli.words import say
from hlotool.harness.trace import timeline_trace
from hlotool.inspect.exchange_table import EXCHANGE_HEADINGS, EXCHANGE_NUMBERS, exchange_cells, exchanges_json
from hlotool.inspect.scaling_picture import ScalingPoint, scaling_picture
from hlotool.inspect.svg import byte_words, count_words, time_words
from hlotool.ir import Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.annotations import unpartitioned

__all__ = ["command"]

_FORMS = ("text", "json", "svg", "trace")
_MOST_POINTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    file: str
    module: Module
    passes: str
    chip: Chip
    network: Network
    scaling: Scaling
    timeline: Timeline
    exchanges: Sequence[Exchange]
    peak: int
    curve: Sequence[ScalingPoint]

    @property
    def fits(self) -> bool:
        return self.peak <= self.chip.memory


@click.command("simulate")
@file_argument
@passes_options("none")
@devices_options
@click.option(
    "--chip", type=ChipNumbers(), required=True, metavar="FLOPS,BW,MEM[,LAUNCH]",
    help="A device: operations and bytes of memory per second, bytes that it has, time to launch a kernel.",
)  # fmt: skip
@click.option(
    "--topology", default="switch", show_default=True, metavar="TEXT",
    help="The network: torus(16,16,16), fat-tree, nvlink(8)xib; @RATE,LATENCY after a part gives it a link.",
)  # fmt: skip
@click.option(
    "--network", "link", type=LinkNumbers(), metavar="LINK",
    help="The link of parts that give none: 'latency=2us,bandwidth=25GB/s'.",
)  # fmt: skip
@click.option(
    "--devices", type=click.IntRange(1, 1 << 16), metavar="N", help="How many devices; else as many as FILE says."
)
@click.option(
    "--scaling", "mode", type=click.Choice(MODES), default="weak", show_default=True,
    help="What stays on other numbers of devices: the shapes of a device, or whole arrays that are gathered.",
)  # fmt: skip
@click.option("--curve", type=Counts(), metavar="N,...", help="Numbers of devices of the scaling curve.")
@strict_option
@output_options(*_FORMS, words="svg draws the scaling curve; trace is one run, for ui.perfetto.dev.")
def command(
    file: str,
    passes: str,
    replicas: int | None,
    partitions: int | None,
    chip: Chip,
    topology: str,
    link: Link | None,
    devices: int | None,
    mode: str,
    curve: tuple[int, ...] | None,
    form: str | None,
    output: str | None,
) -> None:
    """Predict how FILE runs on many devices: a time line, memory, and how the time goes with their number.

    \b
        hlotool simulate step.hlo --devices 4096 --topology 'torus(16,16,16)' --chip 275T,1.2T,32GiB
        hlotool simulate step.hlo --devices 1024 --topology 'nvlink(8)xib' --chip 989T,3.35T,80GiB,3us -o curve.svg
        hlotool simulate step.hlo -p overlap --chip 1T,100G,16GiB --format trace -o trace.json

    A device computes by the roofline, one kernel after the other, and exchanges beside that; a collective takes what
    published formulas say of its slowest group on the network, and holds the device up unless it is a start and a done.
    On another number of devices than FILE is for, the outermost axis of its groups grows: with weak scaling a device
    computes on the same shapes; where those depend on the size of a group that grows, it is not defined (exit code 4),
    and --scaling sharded has whole arrays keep their sizes.  Memory is an estimate from shapes.  Exit code 1: a device
    has too little memory.
    """
    form = form_of(form, output, _FORMS)
    module = _prepared(read_module(file), passes, replicas, partitions)
    costs = ModuleCost(module)
    given = Exchanges(module).scaling.given
    count = devices or given
    network = _network(topology, max(count, *(curve or (1,))), link)
    exchanges = Exchanges(module, network, count, mode)
    timeline = simulate(exchanges, costs, chip)
    points = _curve(module, network, costs, chip, mode, curve or _counts(exchanges.scaling), curve is not None)
    answer = _Answer(
        file=file, module=module, passes=passes, chip=chip, network=network, scaling=exchanges.scaling,
        timeline=timeline, exchanges=exchanges.all(costs), peak=peak_bytes(module), curve=points,
    )  # fmt: skip
    match form:
        case "svg":
            write_text(output, scaling_picture(points, f"{module.name} on {network.text}: {answer.scaling.mode}"))
        case "trace":
            trace = timeline_trace(timeline, f"hlotool {module.name}: a device of {count:,}")
            write_text(output, json.dumps(trace) + "\n")
        case "json":
            write_text(output, json.dumps(_json(answer), indent=1) + "\n")
        case _:
            write_text(output, _text(answer))
    if (cut := unpartitioned(module)) is not None:
        value, parts = cut
        say(
            f"note: {file}: nothing is exchanged although {value} is cut among devices: it is probably not partitioned;"
            f" -p 'sharding-propagation,spmd-partitioner{{partitions={parts}}}' does that", err=True,
        )  # fmt: skip
    if not answer.fits:
        say(f"{file}: a device needs {byte_words(answer.peak, 4)}, and has {byte_words(chip.memory, 4)}", err=True)
        raise CheckFailed


def _prepared(module: Module, passes: str, replicas: int | None, partitions: int | None) -> Module:
    from hlotool.driver import on_devices, optimise
    from hlotool.ir.devices import check_devices

    module = on_devices(module, replicas, partitions)
    check_devices(module)
    return module if passes == "none" else optimise(module, named_pipeline(passes))


def _network(text: str, devices: int, link: Link | None) -> Network:
    try:
        return parse_topology(text, devices, link)
    except ValueError as problem:
        raise click.UsageError(f"--topology: {problem}") from None


def _counts(scaling: Scaling) -> tuple[int, ...]:
    """Blocks, twice as many each time, up to all devices: the last ones of these."""
    found = []
    count = scaling.block
    while count < scaling.devices:
        found.append(count)
        count *= 2
    return (*found, scaling.devices)[-_MOST_POINTS:]


def _curve(
    module: Module, network: Network, costs: ModuleCost, chip: Chip, mode: str, counts: Sequence[int], asked: bool
) -> list[ScalingPoint]:
    """A point for each number of devices; numbers that nobody asked for are left out where they are not defined."""
    points: list[ScalingPoint] = []
    for count in counts:
        try:
            line = simulate(Exchanges(module, network, count, mode), costs, chip, events=False)
        except UnsupportedError:
            if asked:
                raise
            continue
        first = points[0].seconds if points else line.seconds
        points.append(
            ScalingPoint(
                devices=count, seconds=line.seconds, computing=line.computing, exposed=line.exposed,
                efficiency=first / line.seconds if line.seconds else 1.0,
            )
        )  # fmt: skip
    return points


# ---- for people


def _text(answer: _Answer) -> str:
    line, chip, scaling = answer.timeline, answer.chip, answer.scaling
    share = line.exposed / line.seconds if line.seconds else 0.0
    head = [
        f"{answer.file}: {time_words(line.seconds, 4)} on {scaling.devices:,} devices of {answer.network.text}",
        f"  scaled     {scaling.words()}",
        f"  computes   {time_words(line.computing, 4)}, at {count_words(chip.flops)}FLOP/s and "
        f"{count_words(chip.bandwidth)}B/s",
        f"  exchanges  {time_words(line.exchanging, 4)}, of which a device waits {time_words(line.exposed, 4)} "
        f"({share:.1%})",
        f"  memory     {byte_words(answer.peak, 4)} of {byte_words(chip.memory, 4)}: "
        + ("fits" if answer.fits else "does not fit"),
    ]
    if line.unknown:
        head.append(f"  {line.unknown} instructions of unknown cost are left out")
    if line.loops:
        head.append(f"  {line.loops} loops of unknown length are counted once")
    tables = [
        Table("exchanges", EXCHANGE_HEADINGS, exchange_cells(answer.exchanges), frozenset(EXCHANGE_NUMBERS)),
        Table(
            "scaling", ("devices", "time", "computes", "waits", "efficiency"),
            [
                (f"{p.devices:,}", time_words(p.seconds, 4), time_words(p.computing, 4), time_words(p.exposed, 4),
                 f"{p.efficiency:.1%}")
                for p in answer.curve
            ],
            frozenset(("devices", "time", "computes", "waits", "efficiency")),
        ),
    ]  # fmt: skip
    return "\n\n".join(["\n".join(head), *(plain_table(table) for table in tables if table.rows)]) + "\n"


# ---- for programs


def _json(answer: _Answer) -> dict[str, Any]:
    line, scaling = answer.timeline, answer.scaling
    return {
        "schema_version": 1,
        "kind": "simulate",
        "tool_version": hlotool.__version__,
        "file": answer.file,
        "module": answer.module.name,
        "passes": answer.passes,
        "chip": {
            "flops_per_s": answer.chip.flops, "bytes_per_s": answer.chip.bandwidth, "bytes": answer.chip.memory,
            "launch_seconds": answer.chip.launch,
        },
        "network": {
            "text": answer.network.text,
            "axes": [
                {"kind": axis.kind, "size": axis.size, "latency_seconds": axis.link.latency,
                 "bytes_per_s": axis.link.bandwidth}
                for axis in answer.network.axes
            ],
        },
        "scaling": {**asdict(scaling), "words": scaling.words()},
        "seconds": line.seconds,
        "computing_seconds": line.computing,
        "exchanging_seconds": line.exchanging,
        "waiting_seconds": line.exposed,
        "unknown": line.unknown,
        "loops": line.loops,
        "memory": {"peak_bytes": answer.peak, "fits": answer.fits},
        "exchanges": exchanges_json(answer.exchanges),
        "curve": [asdict(point) for point in answer.curve],
        "events": [asdict(event) for event in line.events],
        "events_left_out": line.left_out,
    }  # fmt: skip
