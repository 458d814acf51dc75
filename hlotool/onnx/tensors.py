"""Tensors in models as NumPy arrays: those in the file itself, and those in files beside it, which are memory-mapped.

A model may come from anybody: what it says of other files is checked.  They lie in the folder of the data, not above
it, not elsewhere by a link, and they are as long as the tensor is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hlotool.ir import ParseError
from hlotool.onnx.library import onnx

__all__ = ["array_of", "dense_of", "dtype_of_tensor"]

Array = np.ndarray[Any, Any]


def dtype_of_tensor(number: int) -> np.dtype[Any]:
    """The NumPy type of an element type of ONNX; ParseError where there is none of that number."""
    try:
        found: np.dtype[Any] = onnx.helper.tensor_dtype_to_np_dtype(number)
    except (KeyError, TypeError) as error:
        raise ParseError(f"the element type {number} is unknown to onnx {onnx.__version__}") from error
    return found


def array_of(tensor: Any, folder: Path | None) -> Array:
    """The elements of a TensorProto; those of strings are objects.

    `folder` is where external data lie; None where the model came without a folder.
    """
    name = tensor.name or "(no name)"
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, folder)
    if tensor.HasField("segment"):
        raise ParseError(f"tensor {name}: it is cut into segments, which no version of ONNX has settled")
    try:
        found: Array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise ParseError(f"tensor {name}: its data do not fit its type and shape: {error}") from error
    found.flags.writeable = False
    return found


def dense_of(tensor: Any, folder: Path | None) -> Array:
    """The elements of a SparseTensorProto, zeros among them."""
    values, places = array_of(tensor.values, folder), array_of(tensor.indices, folder)
    shape = tuple(tensor.dims)
    found = np.zeros(shape, values.dtype)
    try:
        if places.ndim == 1:
            found.reshape(-1)[places] = values
        else:
            found[tuple(places.T)] = values
    except (IndexError, ValueError) as error:
        raise ParseError(f"sparse tensor {tensor.values.name}: {error}") from error
    found.flags.writeable = False
    return found


def _external(tensor: Any, folder: Path | None) -> Array:
    entries = {one.key: one.value for one in tensor.external_data}
    dtype, shape = dtype_of_tensor(tensor.data_type), tuple(tensor.dims)
    bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(dtype.name, dtype.itemsize * 8)
    count = int(np.prod(shape, dtype=np.int64))
    size = -(-count * bits // 8)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError as error:
        raise ParseError(f"tensor {tensor.name}: external data with an offset that is no number") from error
    path = _checked(tensor.name, entries.get("location", ""), folder)
    there = path.stat().st_size
    if offset < 0 or length != size or offset + size > there:
        raise ParseError(
            f"tensor {tensor.name}: it takes {size} bytes, of which bytes {offset} to {offset + length} of {path.name} "
            f"are to be read, a file of {there} bytes"
        )
    if bits < 8:
        raw = path.open("rb")
        with raw:
            raw.seek(offset)
            copy = onnx.TensorProto()
            copy.data_type, copy.raw_data = tensor.data_type, raw.read(size)
            copy.dims.extend(shape)
        return array_of(copy, None)
    if not count:
        return np.zeros(shape, dtype)
    # Weights stay in the file until they are read, and then are the system's to drop again.
    mapped = np.memmap(path, np.uint8, "r", offset, (size,))
    return np.asarray(mapped).view(dtype).reshape(shape)


def _checked(name: str, location: str, folder: Path | None) -> Path:
    """The file of external data, which lies in `folder`."""
    if folder is None:
        raise ParseError(f"tensor {name}: its data are in {location!r}, and the model came without a folder; say "
                         "--external-data DIR")  # fmt: skip
    if not location or "\0" in location:
        raise ParseError(f"tensor {name}: its data are in another file, of which it does not say the name")
    given = Path(location)
    windows = "\\" in location or location[1:2] == ":"
    if given.is_absolute() or windows or ".." in given.parts:
        raise ParseError(f"tensor {name}: its data are in {location!r}, which is not below the folder of the model")
    path = folder / given
    try:
        inside = path.resolve(strict=True)
    except OSError as error:
        raise ParseError(f"tensor {name}: its data are in {location!r}, and there is no such file in {folder}; "
                         "say --external-data DIR") from error  # fmt: skip
    if not inside.is_relative_to(folder.resolve()):
        raise ParseError(f"tensor {name}: {location!r} is a link that leaves the folder of the model")
    if not inside.is_file():
        raise ParseError(f"tensor {name}: {location!r} is no file")
    return inside
