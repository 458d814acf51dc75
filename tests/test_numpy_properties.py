"""Properties of hlotool.numpy for drawn arrays, types, shapes and axes: what array-api-strict and NumPy say.

The shapes are few, since each is compiled; `tests/survey_numpy.py` draws more.
"""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy_cases import agree, sample

import hlotool.numpy as np

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")

TYPES = ("bool", "int8", "int32", "int64", "uint8", "uint32", "float32", "float64", "complex64", "complex128")
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (8,), (3, 1), (2, 17), (64,))
UNARY = (
    "abs", "ceil", "conj", "floor", "isfinite", "isinf", "isnan", "logical_not", "negative", "positive", "real", "imag",
    "round", "sign", "sqrt", "square", "trunc", "exp", "tanh", "sin", "atan", "log1p", "bitwise_invert", "signbit",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "equal", "less", "maximum", "minimum", "logical_xor", "bitwise_and",
    "floor_divide", "remainder", "hypot", "copysign", "atan2",
)  # fmt: skip
REDUCTIONS = ("sum", "prod", "max", "min", "mean", "all", "any", "count_nonzero", "argmax", "argmin", "std")
_SETTINGS = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def _same(name: str, *arrays: Any, **options: Any) -> None:
    """The same as array-api-strict gives; what it refuses, this package may do, or refuse with a reason."""
    with numpy.errstate(all="ignore"):
        try:
            wanted = getattr(strict, name)(*map(strict.asarray, arrays), **options)
        except (TypeError, ValueError):
            return
    found = getattr(np, name)(*map(np.asarray, arrays), **options)
    type_ = numpy.asarray(wanted).dtype
    agree(found, numpy.asarray(wanted), {4: 2e-5, 8: 1e-4 if type_.kind == "c" else 1e-12}.get(type_.itemsize, 1e-11))


@_SETTINGS
@given(st.sampled_from(UNARY), st.sampled_from(TYPES), st.sampled_from(SHAPES), st.integers(0, 3))
def test_functions_of_one_array(name: str, dtype: str, shape: tuple[int, ...], seed: int) -> None:
    _same(name, sample(dtype, shape, seed))


@_SETTINGS
@given(
    st.sampled_from(BINARY), st.sampled_from(TYPES), st.sampled_from(TYPES), st.sampled_from(SHAPES),
    st.sampled_from(SHAPES), st.integers(0, 3),
)  # fmt: skip
def test_functions_of_two_arrays(
    name: str, left: str, right: str, first: tuple[int, ...], second: tuple[int, ...], seed: int
) -> None:
    x, y = sample(left, first, seed), sample(right, second, seed + 1)
    if name in ("floor_divide", "remainder") and y.dtype.kind in "iu":
        y = numpy.where(y == 0, numpy.ones((), y.dtype), y)
    _same(name, x, y)


@_SETTINGS
@given(st.sampled_from(REDUCTIONS), st.sampled_from(TYPES), st.sampled_from(SHAPES), st.data())
def test_reductions(name: str, dtype: str, shape: tuple[int, ...], data: Any) -> None:
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    x = sample(dtype, shape, 1)
    if x.dtype.kind in "fc":  # numbers whose sums do not depend on the order by much
        x = numpy.where(numpy.isfinite(x) & (abs(x) < 5), x, numpy.ones((), x.dtype)) + 5
    _same(name, x, axis=axis, keepdims=data.draw(st.booleans()))


@_SETTINGS
@given(st.sampled_from(TYPES), st.sampled_from(SHAPES), st.data())
def test_indices(dtype: str, shape: tuple[int, ...], data: Any) -> None:
    x = sample(dtype, shape, 2)
    parts = [
        data.draw(st.one_of(st.integers(-n, n - 1) if n else st.nothing(), st.slices(n), st.none())) for n in shape
    ]
    used = [one for one in parts if one is not None]
    key = (*[one for one in parts if one is None], *used)
    agree(np.asarray(x)[key], x[key])
    if x.size and used:
        changed = x.copy()
        changed[key] = x[key][..., ::-1] if x[key].ndim else x[key]
        agree(np.asarray(x).at[key].set(x[key][..., ::-1] if x[key].ndim else x[key]), changed)


@_SETTINGS
@given(st.sampled_from(TYPES), st.sampled_from(SHAPES), st.booleans())
def test_sorts(dtype: str, shape: tuple[int, ...], descending: bool) -> None:
    x = sample(dtype, shape, 3)
    if not shape or x.dtype.kind == "c":
        return
    order = numpy.asarray(np.argsort(x, descending=descending))
    found = numpy.asarray(np.sort(x, descending=descending))
    numpy.testing.assert_array_equal(numpy.take_along_axis(x, order, -1), found)
    wanted = numpy.sort(x)
    numpy.testing.assert_array_equal(found, wanted[..., ::-1] if descending else wanted)
