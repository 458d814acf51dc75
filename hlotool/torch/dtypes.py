"""Types of PyTorch and of HLO, and PyTorch's promotion of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

from hlotool.torch.refusal import Refused

__all__ = ["DTYPES", "Number", "dtype_of", "element_type_of", "promoted"]

Number: TypeAlias = bool | int | float | complex

_PAIRS = {
    "bool": "pred", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu",
}  # fmt: skip

DTYPES: dict[str, Any] = {ours: getattr(torch, theirs) for theirs, ours in _PAIRS.items() if hasattr(torch, theirs)}
"""By the name of the element type of HLO."""

_ELEMENT_TYPES = {theirs: ours for ours, theirs in DTYPES.items()}


def element_type_of(dtype: Any) -> str:
    """The HLO name of a dtype; Refused where HLO has none."""
    if dtype not in _ELEMENT_TYPES:
        raise Refused(f"dtype {str(dtype).removeprefix('torch.')}")
    return _ELEMENT_TYPES[dtype]


def dtype_of(element_type: str) -> Any:
    """The dtype of an element type that came from PyTorch."""
    return DTYPES[element_type]


def promoted(arrays: Iterable[tuple[str, int]], numbers: Iterable[Number] = ()) -> str:
    """The type that operands are converted to: arrays are (element type, rank), numbers those of Python.

    Arrays with dimensions come first, then those without, then numbers: later ones count only where they are of a
    higher kind (bool, integer, float, complex), numbers with the default type of their kind.
    """
    ranked = list(arrays)
    found: Any = None
    for group in (
        [dtype_of(name) for name, rank in ranked if rank],
        [dtype_of(name) for name, rank in ranked if not rank],
        [_default(number) for number in numbers],
    ):
        own: Any = None
        for dtype in group:
            own = dtype if own is None else torch.promote_types(own, dtype)
        if own is None:
            continue
        if found is None:
            found = own
        elif _kind(own) > _kind(found):
            found = found.to_complex() if (_kind(found), _kind(own)) == (2, 3) else torch.promote_types(found, own)
    return element_type_of(found)


def _default(number: Number) -> Any:
    if isinstance(number, bool):
        return torch.bool
    if isinstance(number, int):
        return torch.int64
    if isinstance(number, float):
        return torch.get_default_dtype()
    return torch.complex128 if torch.get_default_dtype() == torch.float64 else torch.complex64


def _kind(dtype: Any) -> int:
    """0 bool, 1 integer, 2 float, 3 complex."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1
