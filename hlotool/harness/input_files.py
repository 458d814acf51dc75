"""Files of inputs: archives of NumPy and of safetensors by name, snapshots of XLA in order."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hlotool.harness.archive import DAMAGED, from_bits, members, natural, read_member
from hlotool.harness.inputs import Input, check_arrays, inputs_of, random_arrays
from hlotool.harness.safetensors import Safetensors
from hlotool.ir import InputError, Literal, Module, ParseError, Shape

if TYPE_CHECKING:
    from hlotool.text.load import Snapshot

__all__ = ["arrays_named", "arrays_of", "module_inputs", "named_arrays", "read_inputs", "recorded_arrays"]

_Read = Callable[[str, Shape], npt.NDArray[Any]]


def module_inputs(module: Module, path: str | None, seed: int) -> list[npt.NDArray[Any]]:
    """What to run `module` on, on one device: the arrays of the file `path`, or, where there is none, random ones."""
    inputs = inputs_of(module)
    if path is None:
        return random_arrays(inputs, seed)
    shapes = [leaf.shape for leaf in inputs]
    (arrays,) = read_inputs(path, inputs, shapes, 1)
    check_arrays(inputs, arrays, shapes)
    return arrays


def arrays_named(path: str) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an archive of NumPy or of safetensors by their names; InputError where it is none."""
    if path.endswith(".safetensors"):
        with Safetensors(path) as tensors:
            return {name: tensors.read(name) for name in sorted(tensors.names)}
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: read_member(archive, path, name) for name in sorted(members(archive))}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: not an .npz archive of arrays") from error


def read_inputs(
    path: str, inputs: Sequence[Input], shapes: Sequence[Shape], devices: int
) -> list[list[npt.NDArray[Any]]]:
    """The arrays of each device for `inputs`, which are `shapes` as the program takes them.

    An archive has them as ``arg0``, ``arg1``... or by the names of the parameters, with ``@3`` those of device 3 alone.
    InputError names what is missing or unreadable.
    """
    if path.endswith(".safetensors"):
        with Safetensors(path) as tensors:
            return _by_name(path, inputs, shapes, devices, tensors.names, lambda name, shape: tensors.read(name))
    try:
        if zipfile.is_zipfile(path) or path.endswith(".npz"):
            with zipfile.ZipFile(path) as archive:
                found = members(archive)
                one_too_many = f"arg{len(inputs)}"
                if one_too_many in found:
                    raise InputError(f"{path}: {one_too_many} is one too many: {len(inputs)} arrays are expected")
                return _by_name(
                    path, inputs, shapes, devices, found, lambda name, shape: read_member(archive, path, name, shape)
                )
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: not an .npz archive of arrays") from error
    return _of_snapshot(path, devices, len(inputs))


def named_arrays(path: str, wanted: Mapping[str, Sequence[str]]) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an archive, by keys of `wanted`, which says the names that each may have; those that are there.

    Of a file that is no archive there are none.
    """
    def first(there: Collection[str]) -> dict[str, str]:
        return {key: name for key, names in wanted.items() for name in reversed(names) if name in there}

    if path.endswith(".safetensors"):
        with Safetensors(path) as tensors:
            return {key: tensors.read(name) for key, name in first(tensors.names).items()}
    try:
        with zipfile.ZipFile(path) as archive:
            return {key: read_member(archive, path, name) for key, name in first(members(archive)).items()}
    except (OSError, *DAMAGED):
        return {}  # whoever reads all inputs says what is wrong


def _of_snapshot(path: str, devices: int, leaves: int) -> list[list[npt.NDArray[Any]]]:
    from hlotool.text.load import open_source, read_snapshot  # which code from the cache does without

    what = f"{path}: neither an archive (.npz, .safetensors) nor a snapshot with arguments"
    try:
        source = open_source(path)
        rows = None if not source.is_message else recorded_arrays(read_snapshot(source), devices, leaves)
    except ParseError as error:
        raise InputError(f"{what}: {error.message}") from error
    if rows is None:
        raise InputError(what)
    return rows


def _by_name(
    path: str, inputs: Sequence[Input], shapes: Sequence[Shape], devices: int, names: Collection[str], read: _Read
) -> list[list[npt.NDArray[Any]]]:
    read_once: dict[str, npt.NDArray[Any]] = {}
    rows = []
    for device in range(devices):
        row = []
        for number, (leaf, shape) in enumerate(zip(inputs, shapes, strict=True)):
            wanted = (f"arg{number}@{device}", f"arg{number}", f"{leaf.name}@{device}", leaf.name)
            name = next((name for name in wanted if name in names), None)
            if name is None:
                there = ", ".join(sorted(names, key=natural)) or "none"
                raise InputError(f"{path}: no array arg{number} or {leaf.name} (a {shape}); there are {there}")
            if name not in read_once:
                read_once[name] = from_bits(read(name, shape), shape)
            row.append(read_once[name])
        rows.append(row)
    return rows


def recorded_arrays(snapshot: Snapshot, devices: int, leaves: int) -> list[list[npt.NDArray[Any]]] | None:
    """The arguments that a snapshot holds for each of `devices`, `leaves` each; None where it holds none."""
    found = [[array for literal in row for array in arrays_of(literal)] for row in snapshot.partitions]
    if not any(found):
        return None
    if len(found) != devices:
        raise InputError(f"the snapshot holds arguments for {len(found)} devices, the program runs on {devices}")
    if any(len(row) != leaves for row in found):
        counts = ", ".join(str(len(row)) for row in found)
        raise InputError(f"the snapshot holds {counts} arrays, the program takes {leaves}")
    return found


def arrays_of(literal: Literal) -> list[npt.NDArray[Any]]:
    """The array leaves of a literal."""
    return [leaf.value() for leaf in literal.leaves() if leaf.shape.is_array]
