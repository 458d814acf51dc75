"""``hlotool run``."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from hlotool.cli.errors import CheckFailed
from hlotool.cli.input_options import input_arrays
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import (
    cpu_option,
    devices_options,
    donate_option,
    elided_option,
    file_argument,
    finite_loops_option,
    format_option,
    max_undecided_option,
    numerics_options,
    passes_option,
    strict_option,
    threads_option,
)
from hlotool.cli.output import write_bytes
from hlotool.cli.runnable import Runnable, compiled, warm
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine, Numerics, default_machine
from hlotool.harness.archive import read_arrays, write_named
from hlotool.harness.compare import (
    Comparison,
    Tolerance,
    compare_all,
    compare_with_truth,
    verdict_of,
)
from hlotool.ir import Module, Shape, UnsupportedError

if TYPE_CHECKING:
    from hlotool.analysis.donation import Donate
    from hlotool.evaluate.bounds import Bounded
    from hlotool.evaluate.feeds import Feeds

__all__ = ["command"]


class _Bound(click.FloatRange):
    """A number from 0 up that is a number."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail("not a number", param, ctx)
        return number


class _Positive(_Bound):
    """A finite number above 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not 0 < number < float("inf"):
            self.fail("not a positive number of seconds", param, ctx)
        return number


@click.command("run")
@file_argument
@click.option(
    "--inputs",
    type=click.Path(dir_okay=False),
    metavar="IN.npz",
    help="Arrays arg0, arg1, ...; arg0@3 is for device 3 alone.",
)
@click.option(
    "--input",
    "values",
    multiple=True,
    metavar="NAME=SPEC",
    help="One parameter, by name or number: @file.npy, zeros, ones, iota, a number, or numbers with commas. "
    "NAME@3=SPEC is for device 3 alone.",
)
@click.option(
    "--random", "seed", type=click.IntRange(0), metavar="SEED", help="Random values for the parameters without --input."
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="OUT.npz", help="Save out0, out1, ...")
@click.option("--backend", default="cpu", show_default=True, metavar="NAME", help="cpu, evaluate, or an installed one.")
@click.option(
    "--precision",
    type=click.Choice(["declared", "f64"]),
    default="declared",
    show_default=True,
    help="f64, with --backend evaluate: compute in wider floats, and bound the error of every element.",
)
@click.option("--compare", "reference", metavar="REF.npz|evaluate", help="Compare; exit 1 if the outputs differ.")
@click.option("--atol", type=_Bound(), metavar="X", help="Absolute tolerance, times the output's root mean square.")
@click.option(
    "--rtol",
    type=_Bound(),
    metavar="X",
    help="Relative tolerance (default: 64 epsilon with a file, error bounds with evaluate; integers exact).",
)
@devices_options
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
@passes_option
@finite_loops_option
@strict_option
def command(
    file: str,
    inputs: str | None,
    values: tuple[str, ...],
    seed: int | None,
    output: str | None,
    backend: str,
    precision: str,
    reference: str | None,
    atol: float | None,
    rtol: float | None,
    max_undecided: float,
    replicas: int | None,
    partitions: int | None,
    infeed: str | None,
    outfeed: str | None,
    timeout: float | None,
    elided: str | None,
    donate: Donate,
    machine: Machine | None,
    threads: int | None,
    excess_precision: bool,
    flush_denormals: bool,
    form: str,
    passes: str,
    finite_loops: bool,
) -> None:
    """Run FILE and print its outputs, or save them with -o.

    Without inputs of any kind, parameters get random values of seed 0, or the arguments that FILE holds when it is an
    HloSnapshot; the outputs for these are compared with its result, unless --compare says otherwise.

    On several devices, which are threads here, replica r and partition p are device r * PARTITIONS + p; every device
    has inputs and outputs of its own: out0@0, out0@1, ...

    --compare evaluate compares with the values that wider floats give (f64; for f64 extended precision): an element is
    right when it is within its error bound, which follows from the types, the operations and the lengths of the sums
    that lead to it, or where that says little (deep networks) from the spread of several runs with other roundings.
    Elements that hang on a comparison too close to call are undecided, and so are those whose bound is as large as
    they are: each output is ok, MISMATCH, or UNDECIDED where more of it is so than --max-undecided allows, and only ok
    ends with exit code 0.
    """
    target = replace(machine or default_machine(), numerics=Numerics(excess_precision, flush_denormals))
    # The rest is for those who look closer, and costs less than what they ask for.
    plain = backend == "cpu" and precision == "declared" and reference != "evaluate" and timeout is None
    plain = plain and not donate and elided is None and finite_loops
    one_device = replicas is None and partitions is None and infeed is None and outfeed is None
    program = warm(file, passes, target, threads) if plain and one_device else None
    if program is None:
        program = _compiled(
            file, backend, passes, target, threads, replicas, partitions, timeout, donate, elided, finite_loops
        )
    devices = program.devices
    recorded = None if inputs is not None or seed is not None else program.recorded
    arrays = input_arrays(program.inputs, program.parameters, devices, inputs, values, seed, recorded)
    feeds = _feeds(infeed, outfeed, devices)
    if precision != "declared":
        if backend != "evaluate" or devices > 1 or feeds is not None or flush_denormals or reference == "evaluate":
            raise click.UsageError("--precision f64 is for --backend evaluate on one device without feeds")
        from hlotool.cli.truth_report import report_truth

        assert program.module is not None
        report_truth(
            program.module, arrays[0], program.outputs, output, reference, form, max_undecided, excess_precision
        )
        return
    run = program.run
    given = [[array.copy() for array in row] for row in arrays] if donate else arrays  # they are still to be compared
    outputs = interruptible(lambda: run(given, feeds))
    names = [f"out{n}" + _at(d, devices) for d in range(devices) for n in range(len(program.outputs))]
    results = [array for row in outputs for array in row]
    if output is not None:
        write_bytes(output, lambda stream: write_named(stream, zip(names, results, strict=True)))
    if outfeed is not None and feeds is not None:
        from hlotool.harness.feeds import write_feeds

        written = feeds
        write_bytes(outfeed, lambda stream: write_feeds(stream, written, devices))
    comparisons: list[Comparison] = []
    tolerance = _tolerance(atol, rtol)
    if reference == "evaluate":
        comparisons = _compared(
            program, arrays, results, tolerance, max_undecided, _rounding(target, passes), replicas, partitions, infeed,
            outfeed,
        )  # fmt: skip
    elif reference is not None:
        expected = [a for d in range(devices) for a in read_arrays(reference, "out", program.outputs, d)]
        comparisons = compare_all(results, expected, tolerance)
    elif recorded is not None and not values and program.result is not None and devices == 1:
        comparisons = compare_all(results, program.result, tolerance)
    _report(names, list(program.outputs) * devices, results, comparisons, form, quiet=output is not None)
    if not all(c.ok for c in comparisons):
        raise CheckFailed


def _compiled(file: str, backend: str, *choices: Any) -> Runnable:
    from hlotool.driver import backend_names

    if backend not in backend_names():
        raise click.UsageError(f"no backend {backend!r}; there are {', '.join(backend_names())}")
    return compiled(file, backend, *choices)


def _compared(
    program: Runnable,
    arrays: list[list[npt.NDArray[Any]]],
    results: list[npt.NDArray[Any]],
    tolerance: Tolerance | None,
    max_undecided: float,
    machine: Machine,
    replicas: int | None,
    partitions: int | None,
    infeed: str | None,
    outfeed: str | None,
) -> list[Comparison]:
    """Results against those of the evaluator: within their error bounds, unless there are none or `tolerance` says."""
    from hlotool.driver import compile_module

    module, flush = program.module, machine.numerics.flush_denormals
    assert module is not None
    feeds = _feeds(infeed, outfeed, program.devices)
    if tolerance is None and program.devices == 1 and feeds is None and not flush:
        bounds = partial(_bounds, module, arrays[0], machine.numerics.excess_precision)
        with suppress(UnsupportedError):  # of programs that bounds are not defined for
            return compare_with_truth(results, bounds(1), max_undecided=max_undecided, again=bounds)
    evaluated = compile_module(module, "evaluate", replicas=replicas, partitions=partitions, flush_denormals=flush)
    return compare_all(results, [array for row in evaluated.run_devices(arrays, feeds) for array in row], tolerance)


def _rounding(machine: Machine, passes: str) -> Machine:
    """The machine, with excess precision where a pass leaves out roundings."""
    from hlotool.cli.pipeline_options import has_excess_precision

    if not has_excess_precision([passes]):
        return machine
    return replace(machine, numerics=replace(machine.numerics, excess_precision=True))


def _bounds(
    module: Module, arrays: list[npt.NDArray[Any]], excess_precision: bool, draws: int
) -> tuple[Bounded, ...]:
    from hlotool.evaluate.truth import bounded_results

    return bounded_results(module, arrays, excess_precision=excess_precision, draws=draws)


def _at(device: int, devices: int) -> str:
    return f"@{device}" if devices > 1 else ""


def _feeds(infeed: str | None, outfeed: str | None, devices: int) -> Feeds | None:
    if infeed is None and outfeed is None:
        return None
    from hlotool.evaluate.feeds import Feeds
    from hlotool.harness.feeds import read_feeds

    return Feeds() if infeed is None else read_feeds(infeed, devices)


def _tolerance(absolute: float | None, relative: float | None) -> Tolerance | None:
    return None if absolute is None and relative is None else Tolerance(absolute or 0.0, relative or 0.0)


def _report(
    names: list[str],
    shapes: list[Shape],
    outputs: list[npt.NDArray[Any]],
    comparisons: list[Comparison],
    form: str,
    quiet: bool,
) -> None:
    if form == "json":
        rows = [_row(name, shape, array) for name, shape, array in zip(names, shapes, outputs, strict=True)]
        for row, comparison in zip(rows, comparisons, strict=False):
            row.update(comparison.row())
        verdict = {"verdict": verdict_of(comparisons)} if comparisons else {}
        click.echo(json.dumps({"schema_version": 1, "kind": "run", **verdict, "outputs": rows}))
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
