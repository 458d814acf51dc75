"""``hlotool report``."""

from __future__ import annotations

from pathlib import Path

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.exchanges import Exchanges
from hlotool.cli.network_options import NetworkChoice, network_option
from hlotool.cli.options import devices_options, optional_file_argument
from hlotool.cli.pipeline_options import PipelineChoice, pipeline_options
from hlotool.cli.times_option import read_or_measure, times_option
from hlotool.cli.viewing import view_module
from hlotool.cli.words import say
from hlotool.driver import compile_module, on_devices
from hlotool.inspect.dump import Dump
from hlotool.inspect.measures import measure
from hlotool.inspect.memory import buffer_plan, plan_text
from hlotool.inspect.report import Report, write_report
from hlotool.ir import UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.passes.framework.instruments import Statistics
from hlotool.passes.framework.manager import Progress
from hlotool.runtime.executable import Executable

__all__ = ["command"]

_FORMATS = ("text", "diff", "html", "buffers", "llvm", "asm")


@click.command("report")
@optional_file_argument
@pipeline_options
@devices_options
@times_option(help_="; the report then shows where it goes")
@network_option
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Write here.")
def command(
    file: str | None,
    choice: PipelineChoice,
    replicas: int | None,
    partitions: int | None,
    times: str | None,
    network: NetworkChoice | None,
    output: str,
) -> None:
    """Compile FILE and write a report: a folder of pages that any browser shows, without network.

    Every step with its drawing and its difference from the one before, all decisions and their reasons, how long the
    passes took, what the instructions cost, and where the buffers lie in memory.  Open index.html in DIR.  Of a module
    that is not valid, or holds what is unknown, the report has what there is without passes and code.  With --times the
    page of costs has the time of each instruction; 'native' runs the program on random inputs.  Of a program for many
    devices it lists what they exchange: bytes, groups, and with --network the time that published formulas give it.
    """
    view = view_module(choice.file(file))
    module = on_devices(choice.prepared(view.module), replicas, partitions)
    directory = Path(output)
    progress, log = Progress(), DecisionLog()
    dump = Dump(module, directory / "steps", _FORMATS, progress=progress, links=[("report", "../index.html")], log=log)
    statistics = Statistics(module, measure)
    executable, problem = None, ""
    try:
        if view.notes:
            optimised, problem = module, "the module is not valid"
        else:
            optimised = choice.apply(module, [statistics, dump], log, progress)
            executable = compile_module(
                optimised, pipeline="none", instruments=[statistics, dump], log=log, to_run=False
            )
    except UnsupportedError as error:
        problem = error.message
    if problem:
        say(f"no native code, so no memory and no kernels in the report: {problem}", err=True)
    plan = None
    kernels: list[tuple[str, str, float, bool]] = []
    if executable is not None and executable.program is not None:
        plan = buffer_plan(executable.program.assignment, executable.module)
        kernels = [(use.instruction, use.kernel, use.cost, use.parallel) for use in executable.program.kernels]
        dump.add_text("buffers", "buffers", "txt", plan_text(plan))
        _dump_code(dump, executable)
    dump.finish()
    result = executable.module if executable is not None else optimised
    seconds = {} if times == "native" and plan is None else read_or_measure(times, optimised)[1]
    devices = topology_of(result).devices
    exchanges = []
    if devices > 1 and not problem:
        exchanges = Exchanges(result, None if network is None else network.of(devices)).all()
    report = Report(module, result, str(choice.pipeline()), log.decisions, statistics.runs, plan, kernels, problem,
        dump.records.last_drawing, seconds, exchanges)  # fmt: skip
    write_report(report, directory)
    say(f"{directory / 'index.html'}")


def _dump_code(dump: Dump, executable: Executable) -> None:
    for form, name, suffix in (("llvm", "llvm", "ll"), ("asm", "assembly", "s")):
        dump.add_text(form, name, suffix, executable.text(form))
