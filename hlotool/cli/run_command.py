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
    passes_option,
    read_module,
    threads_option,
    write_bytes,
)
from hlotool.cli.errors import CheckFailed
from hlotool.driver import backend_names, compile_module
from hlotool.harness.archive import read_arrays, write_arrays
from hlotool.harness.compare import Comparison, Tolerance, compare_all
from hlotool.harness.inputs import check_arrays, parameter_names, parse_input, random_inputs
from hlotool.ir import InputError, Module, Shape
from hlotool.runtime.executable import Executable

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


@click.command("run")
@file_argument
@click.option("--inputs", type=click.Path(dir_okay=False), metavar="IN.npz", help="Arrays arg0, arg1, ...")
@click.option(
    "--input",
    "values",
    multiple=True,
    metavar="NAME=SPEC",
    help="One parameter, by name or number: @file.npy, zeros, ones, iota, a number, or numbers with commas.",
)
@click.option(
    "--random", "seed", type=click.IntRange(0), metavar="SEED", help="Random values for the parameters without --input."
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="OUT.npz", help="Save out0, out1, ...")
@click.option("--backend", default="cpu", show_default=True, metavar="NAME", help="cpu, evaluate, or an installed one.")
@click.option("--compare", "reference", metavar="REF.npz|evaluate", help="Compare; exit 1 if the outputs differ.")
@click.option("--atol", type=_Bound(), metavar="X", help="Absolute tolerance, times the output's root mean square.")
@click.option("--rtol", type=_Bound(), metavar="X", help="Relative tolerance (default: 64 epsilon; integers exact).")
@threads_option
@format_option
@passes_option
def command(
    file: str,
    inputs: str | None,
    values: tuple[str, ...],
    seed: int | None,
    output: str | None,
    backend: str,
    reference: str | None,
    atol: float | None,
    rtol: float | None,
    threads: int | None,
    form: str,
    passes: str,
) -> None:
    """Run FILE and print its outputs, or save them with -o.

    Without inputs of any kind, parameters get random values of seed 0.
    """
    if backend not in backend_names():
        raise click.UsageError(f"no backend {backend!r}; there are {', '.join(backend_names())}")
    module = read_module(file)
    executable = compile_module(module, backend, passes, threads)
    arrays = _inputs(module, executable, inputs, values, seed)
    check_arrays(module, arrays, executable.parameters)
    outputs = executable(*arrays)
    if output is not None:
        write_bytes(output, lambda stream: write_arrays(stream, outputs, "out"))
    comparisons: list[Comparison] = []
    if reference is not None:
        if reference == "evaluate":
            expected = list(compile_module(module, "evaluate")(*arrays))
        else:
            expected = read_arrays(reference, "out", executable.outputs)
        comparisons = compare_all(outputs, expected, _tolerance(atol, rtol))
    _report(executable, outputs, comparisons, form, quiet=output is not None)
    if not all(c.ok for c in comparisons):
        raise CheckFailed


def _inputs(
    module: Module, executable: Executable, archive: str | None, values: tuple[str, ...], seed: int | None
) -> list[npt.NDArray[Any]]:
    if archive is not None:
        if values or seed is not None:
            raise click.UsageError("--inputs gives all parameters; it does not go with --input or --random")
        return read_arrays(archive, "arg", executable.parameters)
    arrays = random_inputs(module, seed or 0)
    names = parameter_names(module)
    given = set()
    for value in values:
        name, equals, spec = value.partition("=")
        if not equals or (name not in names and not (name.isdigit() and int(name) < len(names))):
            raise click.UsageError(f"--input {value}: the parameters are {', '.join(names) or 'none'}")
        number = names.index(name) if name in names else int(name)
        try:
            arrays[number] = parse_input(spec, executable.parameters[number])
        except (ValueError, OverflowError, InputError) as error:
            raise InputError(f"parameter {number} ({names[number]}): {error}") from error
        given.add(number)
    if values and seed is None and len(given) < len(names):
        missing = ", ".join(name for n, name in enumerate(names) if n not in given)
        raise click.UsageError(f"no value for {missing}; add --input for each, or --random SEED")
    return arrays


def _tolerance(absolute: float | None, relative: float | None) -> Tolerance | None:
    return None if absolute is None and relative is None else Tolerance(absolute or 0.0, relative or 0.0)


def _report(
    executable: Executable,
    outputs: tuple[npt.NDArray[Any], ...],
    comparisons: list[Comparison],
    form: str,
    quiet: bool,
) -> None:
    if form == "json":
        rows = [_row(shape, array) for shape, array in zip(executable.outputs, outputs, strict=True)]
        for row, comparison in zip(rows, comparisons, strict=False):
            row["ok"], row["comparison"] = comparison.ok, str(comparison)
        click.echo(json.dumps({"schema_version": 1, "kind": "run", "outputs": rows}))
        return
    if not quiet:
        for number, (shape, array) in enumerate(zip(executable.outputs, outputs, strict=True)):
            with np.printoptions(threshold=64, edgeitems=3, linewidth=110):
                click.echo(f"out{number}: {shape}\n{array}")
    for number, comparison in enumerate(comparisons):
        word = "ok" if comparison.ok else "MISMATCH"
        click.echo(f"out{number}: {word}: {comparison}", err=not comparison.ok)


def _row(shape: Shape, array: npt.NDArray[Any]) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        finite = np.isfinite(wide)
        mean = wide[finite].mean() if finite.any() else None
    return {
        "shape": str(shape),
        "mean": None if mean is None else [mean.real, mean.imag] if array.dtype.kind == "c" else float(mean),
        "finite": int(finite.sum()),
    }
