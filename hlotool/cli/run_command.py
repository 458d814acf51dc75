"""``hlotool run``."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from hlotool.cli.common import (
    file_argument,
    format_option,
    numerics_options,
    passes_option,
    read_run,
    threads_option,
    write_bytes,
)
from hlotool.cli.errors import CheckFailed
from hlotool.cli.interruptible import interruptible
from hlotool.cli.truth_report import report_truth
from hlotool.driver import backend_names, compile_module
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.feeds import Feeds
from hlotool.evaluate.truth import truth
from hlotool.harness.archive import read_arrays, read_feeds, write_feeds, write_named
from hlotool.harness.compare import Comparison, Tolerance, compare_all, compare_with_truth
from hlotool.harness.inputs import check_arrays, parameter_names, parse_input, random_inputs
from hlotool.ir import InputError, Literal, Module, Shape, UnsupportedError
from hlotool.runtime.executable import Executable
from hlotool.text.load import Snapshot

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
@click.option("--replicas", type=click.IntRange(1, 1024), metavar="N", help="Replicas (default: as FILE says).")
@click.option("--partitions", type=click.IntRange(1, 1024), metavar="N", help="Partitions (default: as FILE says).")
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
    help="Stop a run that takes longer, with exit code 5. Native code looks at the clock when a loop goes round.",
)
@threads_option
@numerics_options
@format_option
@passes_option
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
    replicas: int | None,
    partitions: int | None,
    infeed: str | None,
    outfeed: str | None,
    timeout: float | None,
    threads: int | None,
    excess_precision: bool,
    flush_denormals: bool,
    form: str,
    passes: str,
) -> None:
    """Run FILE and print its outputs, or save them with -o.

    Without inputs of any kind, parameters get random values of seed 0, or the arguments that FILE holds when it is an
    HloSnapshot; the outputs for these are compared with its result, unless --compare says otherwise.

    On several devices, which are threads here, replica r and partition p are device r * PARTITIONS + p; every device
    has inputs and outputs of its own: out0@0, out0@1, ...

    --compare evaluate compares with the values that wider floats give (f64; for f64 extended precision): an element is
    right when it is within its error bound, which follows from the types, the operations and the lengths of the sums
    that lead to it. Elements that hang on a comparison too close to call are undecided; they are counted, and may be
    anything.
    """
    if backend not in backend_names():
        raise click.UsageError(f"no backend {backend!r}; there are {', '.join(backend_names())}")
    snapshot = read_run(file)
    module = snapshot.module
    executable = compile_module(
        module, backend, passes, threads, replicas=replicas, partitions=partitions, timeout=timeout,
        excess_precision=excess_precision, flush_denormals=flush_denormals,
    )  # fmt: skip
    devices = executable.devices
    recorded = None if inputs is not None or seed is not None else _recorded(snapshot, devices)
    arrays = _inputs(module, executable, inputs, values, seed, recorded)
    for row in arrays:
        check_arrays(module, row, executable.parameters)
    feeds = _feeds(infeed, outfeed, devices)
    if precision != "declared":
        if backend != "evaluate" or devices > 1 or feeds is not None or flush_denormals or reference == "evaluate":
            raise click.UsageError("--precision f64 is for --backend evaluate on one device without feeds")
        report_truth(module, arrays[0], executable.outputs, output, reference, form)
        return
    outputs = interruptible(lambda: executable.run_devices(arrays, feeds))
    names = [f"out{n}" + _at(d, devices) for d in range(devices) for n in range(len(executable.outputs))]
    results = [array for row in outputs for array in row]
    if output is not None:
        write_bytes(output, lambda stream: write_named(stream, zip(names, results, strict=True)))
    if outfeed is not None and feeds is not None:
        written = feeds
        write_bytes(outfeed, lambda stream: write_feeds(stream, written, devices))
    comparisons: list[Comparison] = []
    if reference is not None:
        tolerance = _tolerance(atol, rtol)
        bounds = None
        if reference == "evaluate" and tolerance is None and devices == 1 and feeds is None and not flush_denormals:
            bounds = _truth(module, arrays[0])
        if bounds is not None:
            comparisons = compare_with_truth(results, bounds)
        elif reference == "evaluate":
            evaluated = compile_module(
                module, "evaluate", replicas=replicas, partitions=partitions, flush_denormals=flush_denormals
            )
            rows = evaluated.run_devices(arrays, _feeds(infeed, outfeed, devices))
            comparisons = compare_all(results, [array for row in rows for array in row], tolerance)
        else:
            expected = [a for d in range(devices) for a in read_arrays(reference, "out", executable.outputs, d)]
            comparisons = compare_all(results, expected, tolerance)
    elif recorded is not None and not values and snapshot.result is not None and devices == 1:
        comparisons = compare_all(results, _arrays(snapshot.result), _tolerance(atol, rtol))
    _report(names, list(executable.outputs) * devices, results, comparisons, form, quiet=output is not None)
    if not all(c.ok for c in comparisons):
        raise CheckFailed


def _truth(module: Module, arrays: list[npt.NDArray[Any]]) -> tuple[Bounded, ...] | None:
    """True results with error bounds; None for programs that they are not defined for."""
    try:
        return truth(module, arrays)
    except UnsupportedError:
        return None


def _at(device: int, devices: int) -> str:
    return f"@{device}" if devices > 1 else ""


def _feeds(infeed: str | None, outfeed: str | None, devices: int) -> Feeds | None:
    if infeed is not None:
        return read_feeds(infeed, devices)
    return None if outfeed is None else Feeds()


def _recorded(snapshot: Snapshot, devices: int) -> list[list[npt.NDArray[Any]]] | None:
    """The arguments that a snapshot holds for each device; None where it holds none."""
    found = [[array for literal in row for array in _arrays(literal)] for row in snapshot.partitions]
    if not any(found):
        return None
    if len(found) != devices:
        raise InputError(f"the snapshot holds arguments for {len(found)} devices, the program runs on {devices}")
    leaves = sum(leaf.is_array for p in snapshot.module.entry.parameters for leaf in p.shape.leaves())
    if any(len(row) != leaves for row in found):
        counts = ", ".join(str(len(row)) for row in found)
        raise InputError(f"the snapshot holds {counts} arrays, the program takes {leaves}")
    return found


def _arrays(literal: Literal) -> list[npt.NDArray[Any]]:
    return [leaf.value() for leaf in literal.leaves() if leaf.shape.is_array]


def _inputs(
    module: Module,
    executable: Executable,
    archive: str | None,
    values: tuple[str, ...],
    seed: int | None,
    recorded: list[list[npt.NDArray[Any]]] | None,
) -> list[list[npt.NDArray[Any]]]:
    """The arrays of each device; `recorded` are those that the file itself holds."""
    devices = executable.devices
    if archive is not None:
        if values or seed is not None:
            raise click.UsageError("--inputs gives all parameters; it does not go with --input or --random")
        return [read_arrays(archive, "arg", executable.parameters, device) for device in range(devices)]
    if recorded is not None:
        arrays = recorded
        for row in arrays:
            check_arrays(module, row, executable.parameters)
    else:
        arrays = [random_inputs(module, seed or 0, device) for device in range(devices)]
    names = parameter_names(module)
    given: set[tuple[int, int]] = set()
    pinned: set[tuple[int, int]] = set()  # by an option for one device, which counts more than one for all
    for value in values:
        target, equals, spec = value.partition("=")
        name, at, device = target.partition("@")
        if not equals or (name not in names and not (name.isdecimal() and int(name) < len(names))):
            raise click.UsageError(f"--input {value}: the parameters are {', '.join(names) or 'none'}")
        if at and not (device.isdecimal() and int(device) < devices):
            raise click.UsageError(f"--input {value}: the devices are 0 to {devices - 1}")
        number = names.index(name) if name in names else int(name)
        try:
            array = parse_input(spec, executable.parameters[number])
        except (ValueError, OverflowError, InputError) as error:
            raise InputError(f"parameter {number} ({names[number]}): {error}") from error
        for one in [int(device)] if at else range(devices):
            if at or (one, number) not in pinned:
                arrays[one][number] = array
            given.add((one, number))
            if at:
                pinned.add((one, number))
    if values and seed is None and recorded is None and len(given) < len(names) * devices:
        every = [(device, number) for device in range(devices) for number in range(len(names))]
        missing = ", ".join(f"{names[n]}{_at(d, devices)}" for d, n in every if (d, n) not in given)
        raise click.UsageError(f"no value for {missing}; add --input for each, or --random SEED")
    return arrays


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
            row["ok"], row["comparison"] = comparison.ok, str(comparison)
        click.echo(json.dumps({"schema_version": 1, "kind": "run", "outputs": rows}))
        return
    if not quiet:
        for name, shape, array in zip(names, shapes, outputs, strict=True):
            with np.printoptions(threshold=64, edgeitems=3, linewidth=110):
                click.echo(f"{name}: {shape}\n{array}")
    for name, comparison in zip(names, comparisons, strict=False):
        word = "ok" if comparison.ok else "MISMATCH"
        click.echo(f"{name}: {word}: {comparison}", err=not comparison.ok)


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
