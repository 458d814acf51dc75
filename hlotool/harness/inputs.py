"""Inputs made up for a module: random but legal, the same for the same seed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.roles import NORMAL, RANGES, Role, roles_of
from hlotool.ir import UNBOUNDED, InputError, Instruction, Module, Shape, UnsupportedError, dtype_of, element_type
from hlotool.ir.dynamic import accepts
from hlotool.lazy_dataclass import dataclass

__all__ = ["Input", "check_arrays", "index_bound", "inputs_of", "random_arrays", "random_inputs"]

_WORTH_THREADS = 100_000
"""Numbers, which take about a millisecond to draw."""

_FOLLOWED = frozenset({"reshape", "bitcast", "broadcast", "convert", "copy", "transpose", "slice", "get-tuple-element"})


@dataclass(frozen=True, slots=True)
class Input:
    """An array leaf of the parameters.

    Its name is the parameter's, with ``.0``, ``.1``... for those of a tuple; `bound` is how far its values may reach
    where they serve as indices (None where they do not), and `role` what made-up values are to be like.
    """

    name: str
    shape: Shape
    bound: int | None = None
    role: Role = NORMAL


def inputs_of(module: Module) -> tuple[Input, ...]:
    """What a module takes, in order."""
    roles = roles_of(module)
    found = []
    for parameter in module.entry.parameters:
        leaves = [leaf for leaf in parameter.shape.leaves() if leaf.is_array]
        alone = parameter.shape.is_array
        for number, leaf in enumerate(leaves):
            name = parameter.name if alone else f"{parameter.name}.{number}"
            bound = index_bound(parameter) if alone else None
            found.append(Input(name, leaf, bound, roles.get((parameter, number), NORMAL)))
    return tuple(found)


def check_arrays(inputs: Sequence[Input], arrays: Sequence[npt.NDArray[Any]], shapes: Sequence[Shape]) -> None:
    """Raise InputError, naming the parameter, unless the arrays have the shapes and types of the parameter leaves.

    Along a dynamic dimension they may have any size up to its bound.
    """
    for number, (leaf, array, shape) in enumerate(zip(inputs, arrays, shapes, strict=True)):
        if not accepts(shape, array.shape) or array.dtype != dtype_of(shape.element_type):
            found = f"{array.dtype} of shape {list(array.shape)}"
            raise InputError(f"parameter {number} ({leaf.name}): expected {shape}, got {found}")


def random_inputs(module: Module, seed: int, device: int = 0) -> list[npt.NDArray[Any]]:
    """`random_arrays` for what `module` takes."""
    return random_arrays(inputs_of(module), seed, device)


def random_arrays(inputs: Sequence[Input], seed: int, device: int = 0) -> list[npt.NDArray[Any]]:
    """One array per parameter leaf.

    Floats are standard normal, divided by the root of the number of terms where they are weights of a product; from
    0.5 to 1.5 where a root or logarithm is taken of them or something is divided by them (see `Role`).  Integers lie
    in [0, 8), from 1 where they are scalars or enter a loop (below 4 where they are the argument of a function), or
    within what they index where a gather, scatter or dynamic slice reads them.  Every leaf on every device has a random
    stream of its own.
    """
    for leaf in inputs:
        if UNBOUNDED in leaf.shape.dimensions:
            raise UnsupportedError(f"{leaf.name}: {leaf.shape} has a dimension without a bound")
    own = [device] if device else []

    def made(number: int, leaf: Input) -> npt.NDArray[Any]:
        return _fill(leaf, np.random.Generator(np.random.PCG64([seed, number, *own])))

    if sum(leaf.shape.size for leaf in inputs) < _WORTH_THREADS:
        return [made(number, leaf) for number, leaf in enumerate(inputs)]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return list(workers.map(made, range(len(inputs)), inputs))


def _fill(leaf: Input, generator: np.random.Generator) -> npt.NDArray[Any]:
    row, size, role = element_type(leaf.shape.element_type), leaf.shape.dimensions, leaf.role
    if row.kind == "pred":
        return generator.integers(0, 2, size).astype(np.bool_)
    if row.is_integer:
        top = min(leaf.bound or role.below, 1 << (row.bits - (row.kind == "signed")))
        least = min(role.least, top - 1) if leaf.bound is None else 0
        return generator.integers(least, max(1, top), size).astype(dtype_of(row.name))
    # Half the numbers' width takes half the time, and large models have many weights.
    width = np.float64 if row.bits == 64 or row.is_complex else np.float32
    if role.values in RANGES:
        low, high = RANGES[role.values]
        return np.asarray(generator.random(size, width) * width(high - low) + width(low)).astype(dtype_of(row.name))
    values: npt.NDArray[Any] = np.asarray(generator.standard_normal(size, width))
    if row.is_complex:
        values = values + 1j * generator.standard_normal(size)
    if role.values == "definite":
        values = values @ np.conj(np.swapaxes(values, -1, -2)) / (4 * size[-1]) + np.eye(size[-1])
    elif role.values == "dominant":
        values = values / size[-1] + 2 * np.eye(size[-1])
    elif role.scale != 1:
        values = values * width(role.scale)
    return np.asarray(values).astype(dtype_of(row.name), copy=False)


def index_bound(parameter: Instruction) -> int | None:
    """How far the values of an integer parameter (or constant) may reach where they serve as indices."""
    bounds: list[int] = []
    pending, seen = [parameter], {parameter}
    while pending:
        value = pending.pop()
        for user in value.users:
            places = [i for i, o in enumerate(user.operands) if o is value]
            target = user.operands[0].shape
            if user.opcode in ("gather", "scatter") and places != [0]:
                bounds += [n for n in target.dimensions if n]
            elif user.opcode in ("dynamic-slice", "dynamic-update-slice"):
                first = 1 if user.opcode == "dynamic-slice" else 2
                bounds += [target.dimensions[i - first] for i in places if 0 <= i - first < target.rank]
            elif (user.opcode in _FOLLOWED or user.opcode == "select") and user not in seen:
                seen.add(user)
                pending.append(user)
    return max(1, min(bounds)) if bounds else None
