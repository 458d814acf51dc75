"""What --inputs, --input and --random say: the arrays that a program is run with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from hlotool.cli.options import Share
from hlotool.harness.edge_values import with_edge_values
from hlotool.harness.input_files import read_inputs
from hlotool.harness.input_spec import FORMS, is_typed, parse_input
from hlotool.harness.inputs import Input, check_arrays, random_arrays
from hlotool.ir import InputError, Shape

__all__ = ["input_arrays", "inputs_options"]


def inputs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--inputs, --input, --random and --edge-values, called `inputs`, `values`, `seed` and `edges`: what `input_arrays`
    takes."""
    options = [
        click.option(
            "--inputs",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Arrays by name, those of parameters or arg0, arg1, ... (arg0@3 is for device 3 alone), in an .npz or "
            ".safetensors file; or a snapshot of XLA with arguments.",
        ),
        click.option(
            "--input",
            "values",
            multiple=True,
            metavar="[NAME=]VALUE",
            help=f"One parameter, by name or number: {FORMS}. A type may be in front, as in 4xf32=1..4; then the name "
            "may be left out. NAME@3=VALUE is for device 3 alone.",
        ),
        click.option(
            "--random",
            "seed",
            type=click.IntRange(0),
            metavar="SEED",
            help="Random values for the parameters without --input.",
        ),
        click.option(
            "--edge-values",
            "edges",
            is_flag=False,
            flag_value="10%",
            type=Share(),
            metavar="[SHARE]",
            help="Make this part of the random values (10%) zeros of both signs, infinities, NaN, the smallest, the "
            "largest.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def input_arrays(
    inputs: Sequence[Input],
    parameters: Sequence[Shape],
    devices: int,
    archive: str | None,
    values: tuple[str, ...],
    seed: int | None,
    recorded: list[list[npt.NDArray[Any]]] | None,
    edges: float | None = None,
) -> list[list[npt.NDArray[Any]]]:
    """The arrays of each device for `parameters`, the leaves of `inputs` as the program takes them.

    `archive`, `values`, `seed` and `edges` are what --inputs, --input, --random and --edge-values say; `recorded` are
    the arrays that the file itself holds.
    """
    if archive is not None:
        if values or seed is not None or edges is not None:
            raise click.UsageError("--inputs gives all parameters: without --input, --random, --edge-values")
        arrays = read_inputs(archive, inputs, parameters, devices)
    else:
        arrays = recorded or [_made_up(inputs, seed or 0, device, edges) for device in range(devices)]
        complete = seed is not None or edges is not None or recorded is not None
        _set_values(arrays, inputs, parameters, values, seed or 0, complete)
    for row in arrays:
        check_arrays(inputs, row, parameters)
    return arrays


def _made_up(inputs: Sequence[Input], seed: int, device: int, edges: float | None) -> list[npt.NDArray[Any]]:
    arrays = random_arrays(inputs, seed, device)
    return arrays if edges is None else with_edge_values(inputs, arrays, edges, seed, device)


def _set_values(
    arrays: list[list[npt.NDArray[Any]]],
    inputs: Sequence[Input],
    parameters: Sequence[Shape],
    values: tuple[str, ...],
    seed: int,
    complete: bool,
) -> None:
    """Put what --input says into `arrays`; it must name every parameter unless they are `complete` without it."""
    devices, names = len(arrays), [leaf.name for leaf in inputs]
    given: set[tuple[int, int]] = set()
    pinned: set[tuple[int, int]] = set()  # by an option for one device, which counts more than one for all
    nameless = 0
    for value in values:
        if not _is_named(value, names):
            value, nameless = f"{nameless}={value}", nameless + 1
        target, equals, spec = value.partition("=")
        name, at, device = target.partition("@")
        if not equals or (name not in names and not (name.isdecimal() and int(name) < len(names))):
            raise click.UsageError(f"--input {value}: the parameters are {', '.join(names) or 'none'}")
        if at and not (device.isdecimal() and int(device) < devices):
            raise click.UsageError(f"--input {value}: the devices are 0 to {devices - 1}")
        number = names.index(name) if name in names else int(name)
        try:
            array = parse_input(spec, parameters[number], np.random.default_rng([seed, number]))
        except (ValueError, OverflowError, InputError) as error:
            raise InputError(f"parameter {number} ({names[number]}): {error}") from error
        for one in [int(device)] if at else range(devices):
            if at or (one, number) not in pinned:
                arrays[one][number] = array
            given.add((one, number))
            if at:
                pinned.add((one, number))
    if values and not complete and len(given) < len(names) * devices:
        every = [(device, number) for device in range(devices) for number in range(len(names))]
        missing = ", ".join(names[n] + (f"@{d}" if devices > 1 else "") for d, n in every if (d, n) not in given)
        raise click.UsageError(f"no value for {missing}; add --input for each, or --random SEED")


def _is_named(value: str, names: Sequence[str]) -> bool:
    """Whether a value of --input says which parameter it is for: others, as 4xf32=1..4, are for one after the other."""
    return value.partition("=")[0].partition("@")[0] in names or not (value.startswith("@") or is_typed(value))
