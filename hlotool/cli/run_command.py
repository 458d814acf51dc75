"""``hlotool run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy.typing as npt

from hlotool.cli.errors import CheckFailed
from hlotool.cli.input_options import input_arrays, inputs_options
from hlotool.cli.interruptible import interruptible
from hlotool.cli.isolated import isolation_options, run_isolated
from hlotool.cli.options import (
    Amount,
    backend_option,
    check_backend,
    cpu_option,
    devices_options,
    donate_option,
    elided_option,
    file_argument,
    finite_loops_option,
    format_option,
    max_undecided_option,
    mpi_options,
    numerics_options,
    strict_option,
    threads_option,
    tolerance_options,
    tune_option,
)
from hlotool.cli.passes_options import passes_options
from hlotool.cli.run_options import RunOptions
from hlotool.cli.run_report import compared, feeds_of, output_names, report, save
from hlotool.cli.runnable import Runnable, compiled, warm
from hlotool.cli.words import say
from hlotool.harness.repeats import Differing, first_differences

if TYPE_CHECKING:
    from hlotool.evaluate.feeds import Feeds

__all__ = ["command"]


class _Positive(Amount):
    """A finite number above 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not 0 < number < float("inf"):
            self.fail("not a positive number of seconds", param, ctx)
        return number


@click.command("run")
@file_argument
@inputs_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Save out0, out1, ... in an .npz or .safetensors file.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, metavar="N", help="Run so many times, on the same inputs.")
@click.option("--bitwise", is_flag=True, help="With --repeat: compare the bits of all runs; exit 1 if they differ.")
@isolation_options
@backend_option("cpu, evaluate, or an installed one.")
@click.option(
    "--precision",
    type=click.Choice(["declared", "f64"]),
    default="declared",
    show_default=True,
    help="f64, with --backend evaluate: compute in wider floats, and bound the error of every element.",
)
@click.option("--compare", "reference", metavar="REF.npz|evaluate", help="Compare; exit 1 if the outputs differ.")
@tolerance_options
@devices_options
@mpi_options
@max_undecided_option("With evaluate or f64: how much of an output may be undecided, as in 5% or 0.05.")
@click.option(
    "--infeed",
    type=click.Path(dir_okay=False),
    metavar="IN.npz",
    help="What infeed takes: infeed0, infeed1, ...; channel7_0, ... is for recv from the host on channel 7.",
)
@click.option(
    "--outfeed",
    type=click.Path(dir_okay=False),
    metavar="OUT.npz",
    help="Save what outfeed gives: outfeed0, ..., and channel7_0, ... for send to the host.",
)
@click.option(
    "--timeout",
    type=_Positive(),
    metavar="SECONDS",
    help="Stop a run that takes longer, with exit code 5. Native code looks at the clock in loops and long kernels.",
)
@elided_option
@donate_option
@cpu_option
@threads_option
@numerics_options
@format_option
@passes_options()
@finite_loops_option
@tune_option
@strict_option
def command(isolate: bool, memory_limit: int | None, **given: Any) -> int | None:
    """Run FILE and print its outputs, or save them with -o.

    Without inputs of any kind, parameters get random values of seed 0, or the arguments that FILE holds when it is an
    HloSnapshot; the outputs for these are compared with its result, unless --compare says otherwise.

    On several devices, which are threads here, replica r and partition p are device r * PARTITIONS + p; every device
    has inputs and outputs of its own: out0@0, out0@1, ...

    With --devices mpi they are spread over the processes of an MPI job (mpiexec -n 4 hlotool run FILE --devices mpi):
    each has a block of them, as threads where they are several, and collectives go through MPI.  Rank 0 reads, prints
    and writes what all devices give, unless -o names a file for each ({rank}).  A process that fails or dies, or
    devices that wait in vain, end all of them with exit code 5.

    --compare evaluate compares with the values that wider floats give (f64; for f64 extended precision): an element is
    right when it is within its error bound, which follows from the types, the operations and the lengths of the sums
    that lead to it, or where that says little (deep networks) from the spread of several runs with other roundings.
    Elements that hang on a comparison too close to call are undecided, and so are those whose bound is as large as
    they are: each output is ok, MISMATCH, or UNDECIDED where more of it is so than --max-undecided allows, and only ok
    ends with exit code 0.
    """
    if memory_limit is not None and not isolate:
        raise click.UsageError("--memory-limit goes with --isolate")
    if isolate:
        return run_isolated(memory_limit)
    options = RunOptions(**given)
    if options.bitwise and options.repeat == 1:
        raise click.UsageError("--bitwise compares the runs of --repeat N")
    if options.devices == "mpi":
        from hlotool.cli.mpi_run import run_over_mpi

        return run_over_mpi(options)
    if options.assignment is not None or options.fast_collectives or options.log_ranks:
        raise click.UsageError("--assignment, --fast-collectives and --log-ranks go with --devices mpi")
    program = (warm(options) if options.may_be_warm else None) or _compiled(options)
    devices = program.devices
    random = options.inputs is not None or options.seed is not None or options.edges is not None
    recorded = None if random else program.recorded
    arrays = input_arrays(
        program.inputs, program.parameters, devices, options.inputs, options.values, options.seed, recorded,
        options.edges,
    )  # fmt: skip
    feeds = feeds_of(options, devices)
    if options.precision != "declared":
        _report_truth(options, program, arrays, feeds)
        return None
    outputs = _outputs(options, program, arrays, feeds)
    names = output_names(program, range(devices))
    results = [array for row in outputs for array in row]
    save(options, program, dict(zip(names, results, strict=True)), feeds)
    comparisons = compared(options, program, arrays, results)
    shapes = list(program.outputs) * devices
    differing = _repeated(options, program, arrays, results)
    repeats = _repeats_json(options, names, differing)
    report(names, shapes, results, comparisons, options.form, quiet=options.output is not None, more=repeats)
    if options.bitwise and options.form != "json":
        for one in differing:
            where = f"the first at [{', '.join(map(str, one.index))}]"
            say(f"{names[one.output]}: {one.count} elements differ in run {one.run}, {where}", err=True)
        if not differing:
            say(f"{options.repeat} runs: equal bit for bit")
    if differing or not all(c.ok for c in comparisons):
        raise CheckFailed
    return None


def _outputs(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], feeds: Feeds | None
) -> Sequence[Sequence[npt.NDArray[Any]]]:
    """The outputs of each device; `arrays` stay what they are."""
    kept = [[array.copy() for array in row] for row in arrays] if options.donate else arrays
    return interruptible(lambda: program.run(kept, feeds))


def _repeated(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], first: list[npt.NDArray[Any]]
) -> list[Differing]:
    """Run as often as is asked for: the results that differ from the `first` ones, if --bitwise asks."""

    def again() -> list[npt.NDArray[Any]]:
        found = _outputs(options, program, arrays, feeds_of(options, program.devices))
        return [array for row in found for array in row]

    if options.bitwise:
        return first_differences(first, again, options.repeat)
    for _ in range(1, options.repeat):
        again()
    return []


def _repeats_json(options: RunOptions, names: list[str], differing: list[Differing]) -> dict[str, Any]:
    if not options.bitwise:
        return {}
    rows = [
        {"output": names[one.output], "run": one.run, "elements": one.count, "first_index": list(one.index)}
        for one in differing
    ]
    return {"repeats": {"runs": options.repeat, "verdict": "MISMATCH" if rows else "ok", "differing": rows}}


def _compiled(options: RunOptions) -> Runnable:
    check_backend(options.backend)
    return compiled(options)


def _report_truth(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], feeds: Feeds | None
) -> None:
    """Run in wider floats."""
    alone = options.backend == "evaluate" and program.devices == 1 and feeds is None
    if not alone or options.flush_denormals or options.reference == "evaluate":
        raise click.UsageError("--precision f64 is for --backend evaluate on one device without feeds")
    from hlotool.cli.truth_report import report_truth

    assert program.module is not None
    report_truth(
        program.module, arrays[0], program.outputs, options.output, options.reference, options.form,
        options.max_undecided, options.excess_precision,
    )  # fmt: skip
