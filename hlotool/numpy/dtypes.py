"""Element types: NumPy's and those of ml_dtypes, and what becomes of several that meet."""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Any

import numpy

from hlotool.ir import ELEMENT_TYPES, dtype_of, element_type_of
from hlotool.numpy.errors import type_error

__all__ = ["DType", "common_type", "default_type", "dtype_of_value", "hlo_type", "kind_of", "resolve"]

DType = numpy.dtype[Any]

DEFAULTS: dict[type, DType] = {
    bool: numpy.dtype(bool),
    int: numpy.dtype(numpy.int64),
    float: numpy.dtype(numpy.float64),
    complex: numpy.dtype(numpy.complex128),
}
"""What Python's numbers are where nothing else says it: as in NumPy."""

_SPELLINGS = ["bool", "bfloat16", *ELEMENT_TYPES, *(str(one.dtype) for one in ELEMENT_TYPES.values() if one.dtype)]

_ORDER = {"pred": 0, "unsigned": 1, "signed": 1, "float": 2, "complex": 3}
_SCALAR_ORDER = {bool: 0, int: 1, float: 2, complex: 3}


@lru_cache(maxsize=256)
def hlo_type(dtype: DType) -> str:
    """The HLO name of a type; a TypeError that says which are known else."""
    try:
        return element_type_of(dtype)
    except (KeyError, TypeError) as error:
        raise type_error(f"arrays of {dtype} cannot be compiled", "use a bool, number or ml_dtypes type") from error


@lru_cache(maxsize=256)
def kind_of(dtype: DType) -> str:
    """``pred signed unsigned float complex``."""
    return ELEMENT_TYPES[hlo_type(dtype)].kind


def resolve(dtype: Any) -> DType:
    """A type as users write it (``float32``, ``"bf16"``, ``float``) as a NumPy type."""
    if isinstance(dtype, numpy.dtype):
        found: DType = dtype
        hlo_type(found)
        return found
    if isinstance(dtype, type) and dtype in DEFAULTS:
        return DEFAULTS[dtype]
    if isinstance(dtype, str) and dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].dtype is not None:
        return dtype_of(dtype)
    try:
        found = numpy.dtype(dtype)
    except TypeError as error:
        near = difflib.get_close_matches(dtype, _SPELLINGS, 1) if isinstance(dtype, str) else []
        raise type_error(f"{dtype!r} is no element type", f"did you mean {near[0]!r}?" if near else None) from error
    hlo_type(found)
    return found if found.isnative else found.newbyteorder("=")


def default_type(kind: type) -> DType:
    """That of Python's bool, int, float or complex."""
    return DEFAULTS[kind]


def dtype_of_value(value: Any) -> DType:
    """That of a Python number."""
    return DEFAULTS[type(value) if type(value) in DEFAULTS else next(k for k in DEFAULTS if isinstance(value, k))]


@lru_cache(maxsize=4096)
def promote(a: DType, b: DType) -> DType:
    """The type that holds both, as NumPy has it; of narrow floats, the narrowest that holds both."""
    if a == b:
        return a
    try:
        found: DType = numpy.promote_types(a, b)
        hlo_type(found)
    except TypeError:
        return _promote_narrow(a, b)
    return found


def _promote_narrow(a: DType, b: DType) -> DType:
    """Of types that NumPy does not know how to join, of which one at least is of ml_dtypes."""
    first, second = sorted((a, b), key=lambda one: _ORDER[kind_of(one)])
    if _ORDER[kind_of(first)] < _ORDER[kind_of(second)]:  # an integer and a float
        return second
    if kind_of(first) == "float":
        both = {first.itemsize, second.itemsize}
        if both == {1}:
            return dtype_of("bf16")
        if min(both) == 2:
            return numpy.dtype(numpy.float32)
        return first if first.itemsize > second.itemsize else second
    wide = max(first.itemsize, second.itemsize)
    if kind_of(first) == kind_of(second):
        return max((first, second), key=lambda one: ELEMENT_TYPES[hlo_type(one)].bits)
    return numpy.dtype(f"int{16 * wide if wide < 8 else 64}")


@lru_cache(maxsize=4096)
def with_scalar(dtype: DType, scalar: type) -> DType:
    """The type of an array that meets a Python number, which counts by its kind alone."""
    if _SCALAR_ORDER[scalar] <= _ORDER[kind_of(dtype)]:
        return dtype
    if scalar is complex and kind_of(dtype) == "float":
        return numpy.dtype(numpy.complex128 if dtype.itemsize == 8 else numpy.complex64)
    return DEFAULTS[scalar]


def common_type(dtypes: tuple[DType, ...], scalars: tuple[type, ...] = ()) -> DType:
    """The type that arrays of `dtypes` and Python numbers of the kinds `scalars` have in common."""
    scalar = max(scalars, key=_SCALAR_ORDER.__getitem__) if scalars else None
    if not dtypes:
        if scalar is None:
            raise type_error("a result type needs one argument at least")
        return DEFAULTS[scalar]
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = promote(found, dtype)
    return found if scalar is None else with_scalar(found, scalar)
