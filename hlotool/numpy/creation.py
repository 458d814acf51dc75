"""Making arrays."""

from __future__ import annotations

from typing import Any

from hlotool.numpy.array import Array, concrete
from hlotool.numpy.dtypes import common_type, resolve

__all__ = ["asarray", "result_type"]


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """An array of numbers, nested sequences, or arrays.  NumPy arrays are copied unless `copy` is False."""
    if isinstance(obj, Array):
        return obj
    found = concrete(obj)
    value = found._value if dtype is None else found._value.astype(resolve(dtype))
    if copy is not False and found._mutable and value is found._value:
        value = value.copy()
    return Array(value)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type to which arrays, types and Python numbers are promoted when they meet."""
    dtypes, scalars = [], []
    for one in arrays_and_dtypes:
        if is_scalar(one):
            scalars.append(next(kind for kind in (bool, int, float, complex) if isinstance(one, kind)))
        else:
            dtypes.append(one.dtype if isinstance(one, (Array, numpy.ndarray, numpy.generic)) else resolve(one))
    return common_type(tuple(dtypes), tuple(scalars))
