"""What --inputs, --input and --random say: the arrays that a program is run with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy.typing as npt

from hlotool.harness.archive import read_arrays
from hlotool.harness.inputs import Input, check_arrays, parse_input, random_arrays
from hlotool.ir import InputError, Shape

__all__ = ["input_arrays", "inputs_options"]


def inputs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--inputs, --input and --random, called `inputs`, `values` and `seed`: what `input_arrays` takes."""
    options = [
        click.option(
            "--inputs",
            type=click.Path(dir_okay=False),
            metavar="IN.npz",
            help="Arrays arg0, arg1, ...; arg0@3 is for device 3 alone.",
        ),
        click.option(
            "--input",
            "values",
            multiple=True,
            metavar="NAME=SPEC",
            help="One parameter, by name or number: @file.npy, zeros, ones, iota, a number, or numbers with commas. "
            "NAME@3=SPEC is for device 3 alone.",
        ),
        click.option(
            "--random",
            "seed",
            type=click.IntRange(0),
            metavar="SEED",
            help="Random values for the parameters without --input.",
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
) -> list[list[npt.NDArray[Any]]]:
    """The arrays of each device for `parameters`, the leaves of `inputs` as the program takes them.

    `archive`, `values` and `seed` are what --inputs, --input and --random say; `recorded` are the arrays that the
    file itself holds.
    """
    if archive is not None:
        if values or seed is not None:
            raise click.UsageError("--inputs gives all parameters; it does not go with --input or --random")
        arrays = [read_arrays(archive, "arg", parameters, device) for device in range(devices)]
    else:
        arrays = recorded or [random_arrays(inputs, seed or 0, device) for device in range(devices)]
        _set_values(arrays, inputs, parameters, values, complete=seed is not None or recorded is not None)
    for row in arrays:
        check_arrays(inputs, row, parameters)
    return arrays


def _set_values(
    arrays: list[list[npt.NDArray[Any]]],
    inputs: Sequence[Input],
    parameters: Sequence[Shape],
    values: tuple[str, ...],
    complete: bool,
) -> None:
    """Put what --input says into `arrays`; it must name every parameter unless they are `complete` without it."""
    devices, names = len(arrays), [leaf.name for leaf in inputs]
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
            array = parse_input(spec, parameters[number])
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
