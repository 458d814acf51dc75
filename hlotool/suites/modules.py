"""The module of a case, and arrays to run it on."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import Module, array, dtype_of
from hlotool.numpy.trace import trace
from hlotool.suites.case import Argument, Case
from hlotool.suites.operations.hlo import HLO, TOOLS

__all__ = ["arrays_of", "module_of"]


def module_of(case: Case) -> Module:
    """The case as a module, whose parameters are its arguments in order and whose root is a tuple of its results."""

    def program(*values: Any) -> Any:
        known = dict(zip((a.name for a in case.arguments), values, strict=True))
        for step in case.steps:
            operands = [known[name] for name in step.operands]
            found = HLO[step.operation](TOOLS, *operands, **step.attributes)
            known.update(zip(step.results, found if isinstance(found, tuple | list) else (found,), strict=True))
        return tuple(known[name] for name in case.results)

    name = "".join(letter if letter.isalnum() else "_" for letter in case.name)
    made = trace(program, *(array(a.type, a.shape) for a in case.arguments), name=name)
    module = made.module()
    for instruction in module.instructions():
        instruction.metadata = None  # lines of this file, wherever it lies
    if case.devices > 1:
        module.attributes["replica_count"] = case.devices
    return module


def arrays_of(case: Case, seed: int = 0) -> list[npt.NDArray[Any]]:
    """The arguments, the same for the same seed; on several devices, with a row for each of these."""
    return [_array(case, a, number, seed) for number, a in enumerate(case.arguments)]


def _array(case: Case, argument: Argument, number: int, seed: int) -> npt.NDArray[Any]:
    rng = np.random.default_rng((seed, number, zlib.crc32(case.full_name.encode())))
    shape = (case.devices, *argument.shape) if case.devices > 1 else argument.shape
    dtype = dtype_of(argument.type)
    kind, _, bound = argument.values.rpartition(" ")
    if kind.endswith("below"):
        found = rng.integers(0, int(bound), shape).astype(dtype)
        return np.sort(found, axis=-1) if kind == "sorted below" else found
    if dtype.kind in "iu":
        return rng.integers(-8, 8, shape).astype(dtype)
    if argument.values == "positive" or kind == "scales":
        positive = 0.5 + rng.random(shape, dtype=np.float32)
        return (positive / np.float32(5 * math.sqrt(int(bound))) if kind else positive).astype(dtype)
    values = rng.standard_normal(shape, dtype=np.float32)
    if argument.values == "weights":
        values *= np.float32(1 / math.sqrt(math.prod(argument.shape[:-1]) or 1))
    return values.astype(dtype)
