"""``hlotool run``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np
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
from hlotool.cli.output import write_bytes
from hlotool.cli.passes_options import passes_options
from hlotool.cli.run_options import RunOptions
from hlotool.cli.runnable import Runnable, compiled, warm
from hlotool.cli.words import say
from hlotool.harness.archive import read_arrays, write_named
from hlotool.harness.compare import Comparison, verdict_of
from hlotool.harness.references import Truth, judge, judge_by_arrays
from hlotool.harness.repeats import Differing, first_differences
from hlotool.harness.safetensors import write_safetensors
from hlotool.ir import Shape

if TYPE_CHECKING:
    from hlotool.evaluate.feeds import Feeds

__all__ = ["command", "compared", "output_names", "report", "save"]


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
    feeds = _feeds(options, devices)
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


def output_names(program: Runnable, devices: Sequence[int]) -> list[str]:
    """What the outputs of `devices` are called, in order."""
    return [f"out{n}" + _at(d, program.devices) for d in devices for n in range(len(program.outputs))]


def compared(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], results: list[npt.NDArray[Any]]
) -> list[Comparison]:
    """The results of all devices against what --compare names, or what the file holds."""
    devices, recorded = program.devices, program.recorded
    if options.reference == "evaluate":
        return _evaluated(options, program, arrays, results)
    if options.reference is not None:
        expected = [a for d in range(devices) for a in read_arrays(options.reference, "out", program.outputs, d)]
        return judge_by_arrays(results, expected, options.rules).comparisons
    random = options.inputs is not None or options.seed is not None or options.edges is not None
    own = recorded is not None and not random and not options.values
    if own and program.result is not None and devices == 1:
        return judge_by_arrays(results, program.result, options.rules).comparisons
    return []


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
        found = _outputs(options, program, arrays, _feeds(options, program.devices))
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


def save(
    options: RunOptions, program: Runnable, results: Mapping[str, npt.NDArray[Any]], feeds: Feeds | None
) -> None:
    """Write the files that were asked for."""
    if options.output is not None:
        write = write_safetensors if options.output.endswith(".safetensors") else write_named
        write_bytes(options.output, lambda stream: write(stream, results.items()))
    if options.outfeed is not None and feeds is not None:
        from hlotool.harness.feeds import write_feeds

        write_bytes(options.outfeed, lambda stream: write_feeds(stream, feeds, program.devices))


def _evaluated(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], results: list[npt.NDArray[Any]]
) -> list[Comparison]:
    """Results against those of the evaluator: within their error bounds, unless there are none or a tolerance says."""
    from hlotool.driver import compile_module

    module, flush = program.module, options.flush_denormals
    assert module is not None

    def evaluated() -> list[npt.NDArray[Any]]:
        found = compile_module(
            module, "evaluate", replicas=options.replicas, partitions=options.partitions, flush_denormals=flush
        )
        return [array for row in found.run_devices(arrays, _feeds(options, program.devices)) for array in row]

    alone = program.devices == 1 and options.infeed is None and options.outfeed is None
    truth = Truth(module, arrays[0], _leaves_out_roundings(options)) if alone and not flush else None
    return judge(results, truth, evaluated, options.rules).comparisons


def _leaves_out_roundings(options: RunOptions) -> bool:
    """Whether values of narrow types keep more digits, by option or by a pass."""
    from hlotool.cli.pipeline_options import has_excess_precision

    return options.excess_precision or has_excess_precision([options.passes])


def _at(device: int, devices: int) -> str:
    return f"@{device}" if devices > 1 else ""


def _feeds(options: RunOptions, devices: int) -> Feeds | None:
    if options.infeed is None and options.outfeed is None:
        return None
    from hlotool.evaluate.feeds import Feeds
    from hlotool.harness.feeds import read_feeds

    return Feeds() if options.infeed is None else read_feeds(options.infeed, devices)


def report(
    names: list[str],
    shapes: list[Shape],
    outputs: list[npt.NDArray[Any]],
    comparisons: list[Comparison],
    form: str,
    *,
    quiet: bool,
    more: Mapping[str, Any],
) -> None:
    if form == "json":
        rows = [_row(name, shape, array) for name, shape, array in zip(names, shapes, outputs, strict=True)]
        for row, comparison in zip(rows, comparisons, strict=False):
            row.update(comparison.row())
        verdict = {"verdict": verdict_of(comparisons)} if comparisons else {}
        click.echo(json.dumps({"schema_version": 1, "kind": "run", **verdict, **more, "outputs": rows}))
        return
    if not quiet:
        for name, shape, array in zip(names, shapes, outputs, strict=True):
            with np.printoptions(threshold=64, edgeitems=3, linewidth=110):
                say(f"{name}: {shape}\n{array}")
    for name, comparison in zip(names, comparisons, strict=False):
        say(f"{name}: {comparison.verdict}: {comparison}", err=not comparison.ok)


def _row(name: str, shape: Shape, array: npt.NDArray[Any]) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        finite = np.isfinite(wide)
        mean = wide[finite].mean() if finite.any() else None
    return {
        "name": name,
        "shape": str(shape),
        "mean": None if mean is None else [mean.real, mean.imag] if array.dtype.kind == "c" else float(mean),
        "finite": int(finite.sum()),
    }
