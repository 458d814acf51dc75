"""The element types of HLO: one row each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hlotool.lazy_dataclass import dataclass

__all__ = ["ELEMENT_TYPES", "ElementType", "byte_size", "dtype_of", "element_type", "element_type_of"]


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type: `bits` per element as HLO counts them, `kind`, and the NumPy type that holds it.

    `kind` is one of ``pred signed unsigned float complex token opaque tuple buffer``.  NumPy keeps sub-byte
    types one element per byte.
    """

    name: str
    bits: int
    kind: str
    dtype: np.dtype[Any] | None

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned (pred is neither)."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_array(self) -> bool:
        """Can be the element of an array."""
        return self.dtype is not None


def _row(name: str, bits: int, kind: str, dtype: Any = None) -> tuple[str, ElementType]:
    return name, ElementType(name, bits, kind, None if dtype is None else np.dtype(dtype))


def _ml(name: str) -> Any:
    """An ml_dtypes type; None when the installed version does not have it."""
    return getattr(ml_dtypes, name, None)


# s1 and u1 have no NumPy counterpart: they are kept in int8/uint8.
ELEMENT_TYPES: dict[str, ElementType] = dict(
    [
        _row("pred", 1, "pred", np.bool_),
        _row("s1", 1, "signed", np.int8),
        _row("s2", 2, "signed", _ml("int2")),
        _row("s4", 4, "signed", _ml("int4")),
        _row("s8", 8, "signed", np.int8),
        _row("s16", 16, "signed", np.int16),
        _row("s32", 32, "signed", np.int32),
        _row("s64", 64, "signed", np.int64),
        _row("u1", 1, "unsigned", np.uint8),
        _row("u2", 2, "unsigned", _ml("uint2")),
        _row("u4", 4, "unsigned", _ml("uint4")),
        _row("u8", 8, "unsigned", np.uint8),
        _row("u16", 16, "unsigned", np.uint16),
        _row("u32", 32, "unsigned", np.uint32),
        _row("u64", 64, "unsigned", np.uint64),
        _row("f4e2m1fn", 4, "float", _ml("float4_e2m1fn")),
        _row("f8e3m4", 8, "float", _ml("float8_e3m4")),
        _row("f8e4m3", 8, "float", _ml("float8_e4m3")),
        _row("f8e4m3fn", 8, "float", _ml("float8_e4m3fn")),
        _row("f8e4m3b11fnuz", 8, "float", _ml("float8_e4m3b11fnuz")),
        _row("f8e4m3fnuz", 8, "float", _ml("float8_e4m3fnuz")),
        _row("f8e5m2", 8, "float", _ml("float8_e5m2")),
        _row("f8e5m2fnuz", 8, "float", _ml("float8_e5m2fnuz")),
        _row("f8e8m0fnu", 8, "float", _ml("float8_e8m0fnu")),
        _row("bf16", 16, "float", _ml("bfloat16")),
        _row("f16", 16, "float", np.float16),
        _row("f32", 32, "float", np.float32),
        _row("f64", 64, "float", np.float64),
        _row("c64", 64, "complex", np.complex64),
        _row("c128", 128, "complex", np.complex128),
        _row("token", 0, "token"),
        _row("opaque", 0, "opaque"),
        _row("tuple", 0, "tuple"),
        _row("buffer", 0, "buffer"),
    ]
)


def element_type(name: str) -> ElementType:
    """The row of `name`; KeyError for an unknown name."""
    return ELEMENT_TYPES[name]


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy type that holds elements of type `name`; KeyError when there is none."""
    found = ELEMENT_TYPES[name].dtype
    if found is None:
        raise KeyError(f"{name} has no array form")
    return found


def byte_size(name: str) -> int:
    """Bytes per element in memory (sub-byte types take one byte); KeyError for what is no element."""
    return _BYTES[name]


_BYTES: dict[str, int] = {row.name: row.dtype.itemsize for row in ELEMENT_TYPES.values() if row.dtype is not None}

_BY_DTYPE: dict[np.dtype[Any], str] = {
    row.dtype: row.name for row in ELEMENT_TYPES.values() if row.dtype is not None and row.name not in ("s1", "u1")
}


def element_type_of(dtype: Any) -> str:
    """The HLO name of a NumPy type; KeyError when HLO has none."""
    return _BY_DTYPE[np.dtype(dtype)]
