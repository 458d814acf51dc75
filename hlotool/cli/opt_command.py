"""``hlotool opt``."""

from __future__ import annotations

import click

from hlotool.analysis.decisions import Decision
from hlotool.cli.common import read_all_modules
from hlotool.cli.dump_options import DumpChoice, dump_options
from hlotool.cli.options import optional_file_argument
from hlotool.cli.output import write_text
from hlotool.cli.pipeline_options import PipelineChoice, pipeline_options
from hlotool.cli.trace_options import trace_option, traced
from hlotool.cli.words import say
from hlotool.passes.framework.manager import Progress
from hlotool.text.load import SEPARATOR
from hlotool.text.printer import print_module

__all__ = ["command"]


@click.command("opt")
@optional_file_argument
@pipeline_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
@click.option("--decisions", is_flag=True, help="Say on standard error what each pass did, and would not do, and why.")
@trace_option
@dump_options
def command(
    file: str | None,
    choice: PipelineChoice,
    output: str | None,
    decisions: bool,
    trace: str | None,
    dump: DumpChoice,
) -> None:
    """Apply passes to FILE and print the module: HLO in, HLO out.

    Of several modules in FILE, separated by lines // -----, each is taken by itself, and has a directory of its own in
    those of --dump-to and --trace.

    Rewrites are counted as by --rewrite-limit: with N of them, the module is what --trace shows after the N-th, but for
    what passes do without counting it.
    """
    single = file is None or choice.start_from is not None
    modules = [choice.module(file)] if single else [choice.prepared(m) for m in read_all_modules(file or "")]
    made: list[Decision] = []
    rewrites = 0
    texts = []
    for number, module in enumerate(modules):
        place, progress = number if len(modules) > 1 else None, Progress()
        with (
            traced(trace, module, str(choice.pipeline()), place, rewrites) as log,
            dump.watching(module, progress, place, log) as instruments,
        ):
            texts.append(print_module(choice.apply(module, instruments, log, progress)))
        made += log.decisions
        rewrites = log.rewrites
    write_text(output, f"\n{SEPARATOR}\n\n".join(texts))
    if decisions:
        for decision in made:
            say(str(decision), err=True)
