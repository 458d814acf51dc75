"""Results in arrays that are there: NumPy's ``out=`` and ``where=`` of functions of elements."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy

from hlotool.numpy.array import Array
from hlotool.numpy.errors import tracing_error, type_error, value_error

__all__ = ["written"]


def written(output: Any, result: Any, where: Any = True) -> Any:
    """`result` in an array that was given as ``out=``, in the places `where` that is true.

    Without such an array, what is in other places is 0.
    """
    if isinstance(output, tuple) and len(output) == 1:
        (output,) = output
    if isinstance(result, tuple):
        outputs = (None,) * len(result) if output is None else output
        return tuple(written(*pair, where) for pair in zip(outputs, result, strict=True))
    if output is None:
        return result if where is True else _chosen(where, result, 0)
    if not isinstance(output, Array) and isinstance(result, Array) and result._trace is not None:
        raise tracing_error(
            "out= is an array of NumPy, and what it holds cannot change in a traced function",
            "use the result of the call, and return it",
        )
    if output.shape != result.shape:
        raise value_error(f"out= has the shape {output.shape}, and the result {result.shape}")
    if not numpy.can_cast(result.dtype, output.dtype, "same_kind"):
        raise type_error(f"the result is {result.dtype}, which out= of {output.dtype} cannot hold")
    if where is True:
        output[...] = result if isinstance(output, Array) else numpy.asarray(result)
    elif isinstance(output, Array):
        output[...] = _chosen(where, result, output)
    else:
        numpy.copyto(output, numpy.asarray(result), "same_kind", where)
    return output


def _chosen(where: Any, result: Any, other: Any) -> Any:
    return import_module("hlotool.numpy").where(where, result, other)
