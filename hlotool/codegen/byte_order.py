"""Numbers as bytes, in the order that a processor reads them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["bytes_of"]


def bytes_of(array: npt.NDArray[Any], big_endian: bool) -> bytes:
    """The elements of an array as they lie in memory; complex ones are two numbers each."""
    data = np.ascontiguousarray(array).tobytes()
    part = array.itemsize // (2 if np.iscomplexobj(array) else 1)
    swapped = big_endian and part > 1
    return np.frombuffer(data, f"u{part}").byteswap().tobytes() if swapped else data
