"""Files of inputs to calibrate with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.input_files import named_arrays, read_inputs
from hlotool.harness.inputs import Input, check_arrays, inputs_of
from hlotool.harness.quantise.options import Sample
from hlotool.ir import ELEMENT_TYPES, InputError, Module

__all__ = ["read_samples"]

_ARCHIVES = (".npz", ".safetensors")


def read_samples(module: Module, paths: Iterable[str], labels: str | None) -> list[Sample]:
    """A sample from each file, a folder standing for the archives in it, with the array called `labels`, if any.

    InputError where a file does not have what the module takes, or numbers that are infinite or NaN.
    """
    inputs = inputs_of(module)
    return [_read(inputs, path, labels) for path in _files(paths)]


def _files(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        inside = sorted(str(one) for one in Path(path).iterdir() if one.suffix in _ARCHIVES)
        if not inside:
            raise InputError(f"{path}: no archive (.npz, .safetensors) in this folder")
        found += inside
    return found


def _read(inputs: Sequence[Input], path: str, labels: str | None) -> Sample:
    shapes = [leaf.shape for leaf in inputs]
    (arrays,) = read_inputs(path, inputs, shapes, 1)
    check_arrays(inputs, arrays, shapes)
    for leaf, array in zip(inputs, arrays, strict=True):
        if ELEMENT_TYPES[leaf.shape.element_type].is_float:
            bad = int(array.size - np.isfinite(array.astype(np.float32)).sum())
            if bad:
                raise InputError(f"{path}: {leaf.name} has {bad:,} values of {array.size:,} that are infinite or NaN")
    known: npt.NDArray[Any] | None = None
    if labels is not None:
        known = named_arrays(path, {labels: [labels]}).get(labels)
        if known is None:
            raise InputError(f"{path}: no array {labels}, which --labels names")
        if known.dtype.kind not in "iu":
            raise InputError(f"{path}: {labels} is {known.dtype}; expected whole numbers, the right answers")
    return Sample(arrays, known)
