"""Making arrays."""

from __future__ import annotations

from typing import Any

from hlotool.numpy.array import Array, concrete
from hlotool.numpy.dtypes import resolve

__all__ = ["asarray"]


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """An array of numbers, nested sequences, or arrays.  NumPy arrays are copied unless `copy` is False."""
    if isinstance(obj, Array):
        return obj
    found = concrete(obj)
    value = found._value if dtype is None else found._value.astype(resolve(dtype))
    if copy is not False and found._mutable and value is found._value:
        value = value.copy()
    return Array(value)
