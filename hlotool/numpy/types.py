"""The element types by name, what is known of them, and constants."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import ml_dtypes
import numpy
from numpy import (
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array, concrete
from hlotool.numpy.dtypes import DType, common_type, kind_of, promote, resolve
from hlotool.numpy.errors import value_error
from hlotool.numpy.trace import STATE, is_scalar

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "bfloat16", "bool", "bool_", "can_cast", "complex64",
    "complex128", "dtype", "e", "euler_gamma", "finfo", "float8_e4m3fn", "float8_e5m2", "float16", "float32",
    "float64", "iinfo", "inf", "int4", "int8", "int16", "int32", "int64", "isdtype", "issubdtype", "nan", "newaxis",
    "pi", "promote_types", "result_type", "uint4", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

__array_api_version__ = "2025.12"

bool = bool_ = numpy.bool_
dtype = numpy.dtype
bfloat16 = ml_dtypes.bfloat16
float8_e4m3fn, float8_e5m2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
int4, uint4 = ml_dtypes.int4, ml_dtypes.uint4

e, pi, inf, nan, newaxis, euler_gamma = math.e, math.pi, math.inf, math.nan, None, numpy.euler_gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatLimits:
    """Limits of a float type, in Python's numbers, which give way to the types of arrays."""

    bits: int
    precision: int
    eps: float
    epsneg: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    smallest_subnormal: float
    tiny: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """Limits of a float type, or of the parts of a complex one: bits, eps, max, min, smallest_normal, dtype..."""
    found = _type_of(type)
    if kind_of(found) not in ("float", "complex"):
        raise value_error(f"finfo is for floats, not for {found}")
    makes: Any = ml_dtypes.finfo
    known = makes(found)
    words = fields(FloatLimits)
    given: dict[str, Any] = {one.name: float(getattr(known, one.name)) for one in words if one.type == "float"}
    counts = {name: int(getattr(known, name)) for name in ("bits", "precision")}
    return FloatLimits(**given, **counts, dtype=numpy.dtype(known.dtype))


def iinfo(type: Any, /) -> IntegerLimits:
    """Limits of an integer type: bits, max, min, dtype."""
    found = _type_of(type)
    if kind_of(found) not in ("signed", "unsigned"):
        raise value_error(f"iinfo is for integers, not for {found}")
    makes: Any = ml_dtypes.iinfo
    known = makes(found)
    return IntegerLimits(int(known.bits), int(known.max), int(known.min), found)


def _type_of(value: Any) -> DType:
    return value.dtype if isinstance(value, (Array, numpy.ndarray, numpy.generic)) else resolve(value)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type to which arrays, types and Python numbers are promoted when they meet."""
    scalars = tuple(type(one) for one in arrays_and_dtypes if is_scalar(one))
    others = [one for one in arrays_and_dtypes if not is_scalar(one)]
    dtypes = tuple(concrete(one).dtype if isinstance(one, list) else _type_of(one) for one in others)
    return common_type(dtypes, scalars)


def promote_types(type1: Any, type2: Any, /) -> DType:
    """The type that holds both."""
    return promote(resolve(type1), resolve(type2))


def can_cast(from_: Any, to: Any, /, casting: str = "safe") -> Any:
    """Whether all values of one type are values of another."""
    source, target = _type_of(from_), resolve(to)
    if casting == "safe":
        try:
            return promote(source, target) == target
        except TypeError:
            return False
    return numpy.can_cast(source, target, casting)  # type: ignore[arg-type] # NumPy says which there are


_KINDS = {
    "bool": ("pred",), "signed integer": ("signed",), "unsigned integer": ("unsigned",),
    "integral": ("signed", "unsigned"), "real floating": ("float",), "complex floating": ("complex",),
    "numeric": ("signed", "unsigned", "float", "complex"),
}  # fmt: skip


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a type is `kind`: another type, a word of the standard (``"integral"``), or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise value_error(f"{kind!r} is no kind of types; known: {', '.join(_KINDS)}")
        return kind_of(resolve(dtype)) in _KINDS[kind]
    return resolve(dtype) == resolve(kind)


def issubdtype(arg1: Any, arg2: Any) -> Any:
    """NumPy's question, of its classes of types."""
    return numpy.issubdtype(arg1, arg2)


class _Info:
    """What the standard asks of a namespace: see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Within a traced function values are not known, and shapes cannot depend on them: libraries ask before."""
        known = STATE.trace is None
        return {"boolean indexing": known, "data-dependent shapes": known, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        self._check(device)
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: numpy.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        self._check(device)
        names = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
        every = {name: numpy.dtype(name) for name in (*names, "float32", "float64", "complex64", "complex128")}
        return {name: one for name, one in every.items() if kind is None or isdtype(one, kind)}

    @staticmethod
    def _check(device: Any) -> None:
        if device not in (None, "cpu"):
            raise value_error(f"there is no device {device!r}", 'the only one is "cpu"')


def __array_namespace_info__() -> _Info:  # noqa: N807 # a name of the standard
    """Devices, types and abilities, as the array API standard asks for them."""
    return _Info()


