"""Tensors as arrays, and arrays as tensors, in the same memory where that can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

__all__ = ["array_of", "tensor_of"]

_ALIGNMENT = 64  # bytes, which TensorFlow's kernels take for granted
_SMALLEST = 4096  # bytes; fewer are copied sooner than shared


def array_of(tensor: Any) -> npt.NDArray[Any]:
    """The elements of an eager tensor on the CPU: a view, but for types that buffers do not have (bf16, f8)."""
    try:
        return np.asarray(memoryview(tensor))
    except (TypeError, ValueError, BufferError):
        return np.asarray(tensor.numpy())


def tensor_of(array: npt.NDArray[Any]) -> Any:
    """A tensor of the elements of `array`: in its memory if it is large, aligned and of a type of NumPy's own."""
    if array.nbytes >= _SMALLEST and array.dtype.isbuiltin == 1 and array.ctypes.data % _ALIGNMENT == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)
