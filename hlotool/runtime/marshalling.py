"""Between the arrays of a caller and those of compiled code, where the two differ.

Donated arguments: what overwrites none, the evaluator, has its results copied there.

Dynamic dimensions: the caller gives an array of any size up to the bound, and gets one of the size at run time; the
code takes and gives arrays of the bounds, each followed by the s32[] sizes of all its dimensions.  s1 and u1, which
NumPy does not have, come as int8 and uint8: only the lowest bit of a byte counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hlotool.evaluate.rounding import round_to
from hlotool.ir import InputError, Shape, dtype_of
from hlotool.ir.dynamic import accepts
from hlotool.runtime.entry import Array, check_donated, check_input
from hlotool.runtime.executable import Executable

if TYPE_CHECKING:
    from hlotool.evaluate.devices import Device

__all__ = ["check_arrays", "copied_to_donated", "is_plain", "marshalled"]

_BITS = ("s1", "u1")

Arrays: TypeAlias = tuple[Array, ...]


def marshalled(executable: Executable, parameters: Sequence[Shape], outputs: Sequence[Shape]) -> Executable:
    """The executable as its caller wants it, with `parameters` and `outputs` of the module as it was written."""
    if all(is_plain(shape) for shape in (*parameters, *outputs)):
        return executable

    def outside(run: Callable[..., Arrays]) -> Callable[..., Arrays]:
        return lambda *arrays: _leave(outputs, run(*_enter(parameters, check_arrays(parameters, arrays))))

    inner = executable.work

    def work(device: Device, arrays: Sequence[object]) -> Arrays:
        assert inner is not None
        return outside(lambda *own: inner(device, own))(*arrays)

    return replace(
        executable,
        parameters=tuple(parameters),
        outputs=tuple(outputs),
        run=outside(executable.run),
        into=None,
        entry=None,
        image=None,
        work=None if inner is None else work,
        together=None,
    )


def copied_to_donated(executable: Executable, aliases: Mapping[int, int]) -> Executable:
    """The executable, on one device, with results copied to the arguments that `aliases` maps them to."""
    overwritten = sorted(aliases.values())

    def onto(run: Callable[..., Arrays]) -> Callable[..., Arrays]:
        def outside(*arrays: object) -> Arrays:
            inputs = check_arrays(executable.parameters, arrays)
            check_donated(overwritten, inputs, arrays)
            results = [result.copy() for result in run(*inputs)]  # they may be arguments themselves
            for number, argument in aliases.items():
                inputs[argument][...] = results[number]
            return tuple(
                inputs[aliases[number]] if number in aliases else result for number, result in enumerate(results)
            )

        return outside

    inner = executable.work

    def work(device: Device, arrays: Sequence[object]) -> Arrays:
        assert inner is not None
        return onto(lambda *own: inner(device, own))(*arrays)

    return replace(executable, run=onto(executable.run), work=work, together=None, donated=dict(aliases))


def is_plain(shape: Shape) -> bool:
    """Whether the caller's array of this shape is that of the code."""
    return shape.is_static and shape.element_type not in _BITS


def check_arrays(parameters: Sequence[Shape], arrays: Sequence[object]) -> list[Array]:
    """All arguments, one per parameter leaf; InputError names the one that does not fit."""
    if len(arrays) != len(parameters):
        wanted = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
        raise InputError(f"expected {wanted}, got {len(arrays)}")
    return [_checked(number, *pair) for number, pair in enumerate(zip(parameters, arrays, strict=True))]


def _checked(number: int, shape: Shape, value: object) -> Array:
    sizes = getattr(value, "shape", None)
    dtype = dtype_of(shape.element_type)
    if not shape.is_static and isinstance(sizes, tuple) and accepts(shape, sizes):
        return check_input(number, (dtype, sizes), value)
    if not shape.is_static and isinstance(sizes, tuple):
        raise InputError(f"parameter {number}: expected an array of at most {shape}, got {list(sizes)}")
    return check_input(number, (dtype, shape.dimensions), value)


def _enter(parameters: Sequence[Shape], arrays: Sequence[Array]) -> list[Array]:
    given: list[Array] = []
    for shape, array in zip(parameters, arrays, strict=True):
        if shape.element_type in _BITS:
            array = round_to(array, shape.element_type)
        if shape.is_static:
            given.append(array)
            continue
        whole = np.zeros(shape.dimensions, array.dtype)
        whole[tuple(map(slice, array.shape))] = array
        given += [whole, *(np.array(size, np.int32) for size in array.shape)]
    return given


def _leave(outputs: Sequence[Shape], arrays: Sequence[Array]) -> Arrays:
    results: list[Array] = []
    rest = iter(arrays)
    for shape in outputs:
        array = next(rest)
        if not shape.is_static:
            sizes = [int(next(rest)) for _ in shape.dimensions]
            array = np.ascontiguousarray(array[tuple(map(slice, sizes))]).reshape(sizes)
        results.append(array)
    return tuple(results)
