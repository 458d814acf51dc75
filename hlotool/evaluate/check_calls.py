"""Custom calls that check results, as tests of StableHLO make them: they give nothing, and fail where values differ.

Facts: the dialect ``check`` of the StableHLO repository.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlotool.evaluate.custom_call import Array, CustomCall, Handler
from hlotool.ir import ExecutionError

__all__ = ["CHECK_CALLS"]

_CLOSE = 1e-4  # how far values that are almost equal may be apart, absolutely or in proportion
_ULPS = 3


def _parts(array: Array) -> Array:
    """Numbers as float64, complex ones as two."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag]).astype(np.float64)
    return array.astype(np.float64) if array.dtype.kind not in "iub" else array


def _fail(different: Array, left: Array, right: Array, what: str) -> None:
    count = int(np.count_nonzero(different))
    if not count:
        return
    place = np.unravel_index(int(np.argmax(different)), different.shape)
    shown = f" at {list(map(int, place))}" if left.ndim else ""
    values = f"{left[place]} and {right[place]}" if left.shape == different.shape else ""
    raise ExecutionError(f"{count} of {different.size} elements are not {what}, the first{shown}: {values}")


def _equal(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """The same bits, or NaN in both."""
    left, right = _same_kind(inputs)
    raw = [np.ascontiguousarray(one).reshape(-1).view(np.uint8).reshape(one.size, -1) for one in (left, right)]
    different = (raw[0] != raw[1]).any(axis=1).reshape(left.shape) if left.size else np.zeros(left.shape, bool)
    if left.dtype.kind not in "iub":
        both = np.isnan(_as_complex(left)) & np.isnan(_as_complex(right))
        different &= ~both
    _fail(different, left, right, "equal")
    return []


def _as_complex(array: Array) -> Array:
    return array if array.dtype.kind == "c" else array.astype(np.float64)


def _same_kind(inputs: tuple[Array, ...]) -> tuple[Array, Array]:
    left, right = inputs
    if left.dtype != right.dtype or left.shape != right.shape:
        raise ExecutionError(f"{left.dtype}{list(left.shape)} is compared with {right.dtype}{list(right.shape)}")
    return left, right


def _almost_equal(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    left, right = _same_kind(inputs)
    config = call.backend_config if isinstance(call.backend_config, dict) else {}
    limit = float(config.get("tolerance", _CLOSE))
    one, two = _as_complex(left), _as_complex(right)
    with np.errstate(all="ignore"):
        close = np.isclose(one, two, rtol=limit, atol=limit, equal_nan=True)
    _fail(~close, left, right, f"almost equal (within {limit:g})")
    return []


def _ordered(array: Array) -> Array:
    """Floats as integers in the same order, neighbours one apart."""
    bits = array.dtype.itemsize * 8
    raw = np.ascontiguousarray(array).view(np.dtype(f"i{array.dtype.itemsize}")).astype(object)
    return np.where(raw < 0, -(1 << (bits - 1)) - raw, raw)


def _close(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """As many units in the last place apart as are allowed (3 where nothing is said); integers are equal."""
    left, right = _same_kind(inputs)
    if left.dtype.kind in "iub":
        return _equal(inputs, call)
    config = call.backend_config if isinstance(call.backend_config, dict) else {}
    low, high = int(config.get("min_ulp_difference", 0)), int(config.get("max_ulp_difference", _ULPS))
    one, two = ((np.stack([a.real, a.imag]) if a.dtype.kind == "c" else a) for a in (left, right))
    distance = abs(_ordered(one) - _ordered(two)) if one.size else np.zeros(one.shape, object)
    numbers = [_parts(a) if a.dtype.kind != "c" else a for a in (one, two)]
    with np.errstate(all="ignore"):
        missing = [np.isnan(n) for n in numbers]
        equal = numbers[0] == numbers[1]
    apart = np.where(equal, 0, distance)
    wrong = (apart > high) | (apart < low)
    wrong = np.where(missing[0] & missing[1], False, wrong | missing[0] | missing[1]).astype(bool)
    infinite = np.isinf(numbers[0]) | np.isinf(numbers[1])
    wrong |= infinite & ~equal
    _fail(wrong, one, two, f"within {high} units in the last place")
    return []


CHECK_CALLS: dict[str, Handler] = {
    "check.expect_eq": _equal,
    "check.expect_almost_eq": _almost_equal,
    "check.expect_close": _close,
}
"""Target -> handler."""
