"""Array elements as text that reads back to the same bits, in as few digits as that takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hlotool.ir import ELEMENT_TYPES, dtype_of
from hlotool.text.literals import mantissa_bits

__all__ = ["format_values"]

Array = np.ndarray[Any, Any]


def format_values(values: Array, element_type: str, xla: bool = False) -> list[str]:
    """The elements in row-major order.  Scalars of pred are true and false, elements of pred arrays 0 and 1.

    With `xla` floats have the digits that XLA prints, which are not always the fewest.
    """
    kind = ELEMENT_TYPES[element_type].kind
    flat = np.ascontiguousarray(values).reshape(-1)
    if kind == "pred":
        if values.ndim == 0:
            return ["true" if flat[0] else "false"]
        return ["1" if value else "0" for value in flat.tolist()]
    if kind == "float":
        return _xla_floats(flat, element_type) if xla else _floats(flat, element_type)
    if kind == "complex":
        part = "f32" if element_type == "c64" else "f64"
        parts = flat.view(dtype_of(part))
        words = _xla_floats(parts, part) if xla else _floats(parts, part)
        return [f"({real}, {imaginary})" for real, imaginary in zip(words[::2], words[1::2], strict=True)]
    return [str(int(value)) for value in flat.astype(np.int64 if kind == "signed" else np.uint64).tolist()]


def _floats(flat: Array, element_type: str) -> list[str]:
    if flat.dtype.itemsize <= 2:
        bits = flat.view(np.dtype(f"u{flat.dtype.itemsize}")).tolist()
        return [_small(pattern, element_type) for pattern in bits]
    words = [word[:-2] if word.endswith(".0") else word for word in map(str, flat)]
    with np.errstate(all="ignore"):
        # A decimal is read as a double and then rounded, so the shortest form can in rare cases miss its number.
        wrong = np.nonzero(np.array(list(map(float, words))).astype(flat.dtype) != flat)[0]
    for index in wrong.tolist():
        value = flat[index]
        words[index] = _nan(flat[index : index + 1], element_type) if np.isnan(value) else repr(float(value))
    return words


def _xla_floats(flat: Array, element_type: str) -> list[str]:
    """C's ``%g``: 6 digits (15 for f64) where those suffice, else as many as any number of the type may need."""
    most = 2 + int((mantissa_bits(element_type) + 1) * 0.30103)
    few = {"f32": 6, "f64": 15}.get(element_type, most)
    words = []
    with np.errstate(all="ignore"):
        numbers = flat.astype(np.float64).tolist()
        exact = np.array([float(f"{number:.{few}g}") for number in numbers]).astype(flat.dtype) == flat
    for index, (number, same) in enumerate(zip(numbers, exact.tolist(), strict=True)):
        if number != number:
            words.append(_nan(flat[index : index + 1], element_type))
        else:
            words.append(f"{number:.{few if same else most}g}")
    return words


@lru_cache(maxsize=1 << 17)
def _small(pattern: int, element_type: str) -> str:
    """The shortest decimal of a float of at most 16 bits."""
    dtype = dtype_of(element_type)
    one = np.array([pattern], dtype=np.dtype(f"u{dtype.itemsize}")).view(dtype)
    value = float(one[0])
    if np.isnan(value):
        return _nan(one, element_type)
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    for digits in range(1, 18):
        word = f"{value:.{digits}g}"
        with np.errstate(all="ignore"):
            found = bool((np.array([float(word)]).astype(dtype) == one).all())
        if found:
            return repr(float(word)).removesuffix(".0")
    return repr(value)


def _nan(one: Array, element_type: str) -> str:
    """A NaN with its sign, and with its payload where that is not the default one."""
    dtype = one.dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = int(one.view(unsigned)[0])
    negative = bits >> (8 * dtype.itemsize - 1) & 1
    word = "-nan" if negative else "nan"
    with np.errstate(all="ignore"):
        plain = int(np.array([float(word)]).astype(dtype).view(unsigned)[0])
    if bits == plain:
        return word
    other = "nan" if negative else "-nan"
    with np.errstate(all="ignore"):
        if bits == int(np.array([float(other)]).astype(dtype).view(unsigned)[0]):
            return other
    return f"{word}(0x{bits & ((1 << mantissa_bits(element_type)) - 1):x})"
