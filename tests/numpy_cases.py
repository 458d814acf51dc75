"""What the tests of hlotool.numpy share: element types, arrays of them with edge values, and comparing with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy

import hlotool

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
NARROW = ("float16", "bfloat16")
COMPLEX = ("complex64", "complex128")

Values = numpy.ndarray[Any, Any]


def dtype_of(name: str) -> numpy.dtype[Any]:
    return numpy.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def sample(name: str, shape: tuple[int, ...] = (24,), seed: int = 0) -> Values:
    """Values of a type, the first of which are edge cases; each `seed` has them in another order."""
    dtype = dtype_of(name)
    rng = numpy.random.default_rng(seed)
    size = int(numpy.prod(shape))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = numpy.iinfo(dtype)
        edges = numpy.array([info.min, info.max, 0, 1, 2, 3, info.max - 1, info.min + 1], dtype)
        usual = rng.integers(0 if info.min == 0 else -9, 10, size).astype(dtype)
    elif dtype.kind == "c":
        edges = numpy.array([0, 1, -1, 1j, -1j, 2 + 3j], dtype)
        usual = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(dtype)
    else:
        info = ml_dtypes.finfo(dtype)
        edges = numpy.array([0.0, -0.0, 1, -1, numpy.inf, -numpy.inf, numpy.nan, 0.5, -1.5, 2.5], dtype)
        edges = numpy.concatenate([edges, numpy.array([info.max, info.smallest_normal], dtype)])
        usual = (3 * rng.normal(size=size)).astype(dtype)
    return rng.permutation(numpy.concatenate([edges, usual])[:size]).reshape(shape)


def agree(found: Any, wanted: Any, rtol: float | None = None, same_type: bool = True) -> None:
    """Same type, shape and values; floats as close as their type has them."""
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            agree(one, other, rtol, same_type)
        return
    found, wanted = numpy.asarray(found), numpy.asarray(wanted)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if same_type:
        assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    if wanted.dtype.kind in "biu":
        numpy.testing.assert_array_equal(found, wanted)
        return
    narrow = wanted.dtype.itemsize <= 2
    limit = rtol or (2e-2 if wanted.dtype == ml_dtypes.bfloat16 else 3e-3 if narrow else
                     2e-6 if wanted.dtype.itemsize == 4 or wanted.dtype == numpy.complex64 else 1e-13)
    wide = numpy.complex128 if wanted.dtype.kind == "c" else numpy.float64
    numpy.testing.assert_allclose(found.astype(wide), wanted.astype(wide), limit, 1e-300 if not narrow else 1e-7)


def both_ways(function: Callable[..., Any], *arrays: Any) -> Any:
    """What `function` gives at once; it must give the same under jit."""
    eager = function(*arrays)
    traced = hlotool.jit(function)(*arrays)
    leaves = eager if isinstance(eager, (tuple, list)) else [eager]
    for one, other in zip(leaves, traced if isinstance(traced, (tuple, list)) else [traced], strict=True):
        agree(other, numpy.asarray(one), 1e-12 if numpy.asarray(one).dtype.itemsize >= 8 else None)
    return eager


def shapes(pair: Sequence[tuple[int, ...]]) -> str:
    return "-".join("x".join(map(str, one)) or "scalar" for one in pair)
