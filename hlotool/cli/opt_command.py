"""``hlotool opt``."""

from __future__ import annotations

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.cli.common import dump_options, dumping, file_argument, passes_option, read_all_modules, write_text
from hlotool.driver import optimise
from hlotool.text.load import SEPARATOR
from hlotool.text.printer import print_module

__all__ = ["command"]


@click.command("opt")
@file_argument
@passes_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
@click.option("--decisions", is_flag=True, help="Say on standard error what each pass did, and would not do, and why.")
@dump_options
def command(
    file: str,
    passes: str,
    output: str | None,
    decisions: bool,
    dump_to: str | None,
    dump_format: str,
    dump_filter: str | None,
) -> None:
    """Apply passes to FILE and print the module: HLO in, HLO out.

    Of several modules in FILE, separated by lines // -----, each is taken by itself.
    """
    modules = read_all_modules(file)
    if dump_to is not None and len(modules) > 1:
        raise click.UsageError(f"--dump-to takes one module; {file} holds {len(modules)}")
    log = DecisionLog()
    texts = []
    for module in modules:
        with dumping(module, dump_to, dump_format, dump_filter) as instruments:
            texts.append(print_module(optimise(module, passes, log, instruments)))
    write_text(output, f"\n{SEPARATOR}\n\n".join(texts))
    if decisions:
        for decision in log.decisions:
            click.echo(str(decision), err=True)
