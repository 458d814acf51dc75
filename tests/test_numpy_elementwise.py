"""Functions of elements against NumPy: all types, edge values, shapes that are broadcast, at once and under jit."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy
import pytest
from numpy_cases import COMPLEX, FLOATS, INTEGERS, NARROW, agree, both_ways, sample

import hlotool
import hlotool.numpy as np

REAL = (*INTEGERS, *FLOATS, *NARROW)
NUMBERS = (*REAL, *COMPLEX)
ANY = ("bool", *NUMBERS)
SIGNED = tuple(one for one in NUMBERS if not one.startswith("uint"))
BITS = ("bool", *INTEGERS)
FLOATING = (*FLOATS, *NARROW, *COMPLEX)
REAL_FLOATING = (*FLOATS, *NARROW)

UNARY: dict[str, tuple[str, ...]] = {
    "abs": ANY, "acos": (*FLOATS, *NARROW), "acosh": REAL_FLOATING, "asin": REAL_FLOATING, "asinh": REAL_FLOATING,
    "atan": FLOATING, "atanh": REAL_FLOATING, "bitwise_invert": BITS, "cbrt": FLOATS, "ceil": ("bool", *REAL),
    "conj": NUMBERS, "cos": FLOATING, "cosh": FLOATING, "deg2rad": REAL_FLOATING, "exp": FLOATING, "exp2": FLOATS,
    "expm1": FLOATING, "fabs": REAL_FLOATING, "floor": ("bool", *REAL), "imag": (*REAL, *COMPLEX), "isfinite": ANY,
    "isinf": ANY, "isnan": ANY, "log": FLOATING, "log10": FLOATING, "log1p": FLOATING, "log2": FLOATING,
    "logical_not": ANY, "negative": NUMBERS, "positive": NUMBERS, "rad2deg": REAL_FLOATING, "real": NUMBERS,
    "reciprocal": FLOATING, "rint": REAL_FLOATING, "round": (*REAL, *COMPLEX), "sign": NUMBERS,
    "signbit": (*REAL_FLOATING,), "sin": FLOATING, "sinc": FLOATS, "sinh": FLOATING, "sqrt": FLOATING,
    "square": NUMBERS, "tan": FLOATING, "tanh": FLOATING, "trunc": ("bool", *REAL),
}  # fmt: skip

BINARY: dict[str, tuple[str, ...]] = {
    "add": ANY, "atan2": REAL_FLOATING, "bitwise_and": BITS, "bitwise_or": BITS, "bitwise_xor": BITS,
    "copysign": REAL_FLOATING, "divide": (*INTEGERS, *FLOATING), "divmod": (*INTEGERS, *FLOATS), "equal": ANY,
    "floor_divide": (*INTEGERS, *FLOATS), "fmax": REAL, "fmin": REAL, "fmod": (*INTEGERS, *FLOATS),
    "greater": ("bool", *REAL), "greater_equal": ("bool", *REAL), "heaviside": FLOATS, "hypot": REAL_FLOATING,
    "less": ("bool", *REAL), "less_equal": ("bool", *REAL), "logaddexp": FLOATS, "logaddexp2": FLOATS,
    "logical_and": ANY, "logical_or": ANY, "logical_xor": ANY, "maximum": ("bool", *REAL),
    "minimum": ("bool", *REAL), "multiply": ANY, "nextafter": FLOATS, "not_equal": ANY,
    "remainder": (*INTEGERS, *FLOATS), "subtract": NUMBERS,
}  # fmt: skip


def _numpy(name: str, *arrays: Any) -> Any:
    """NumPy's result; of bfloat16, that of f32, rounded."""
    function = getattr(numpy, name)
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if arrays[0].dtype != ml_dtypes.bfloat16:
            return function(*arrays)
        wide = numpy.asarray(function(*[one.astype(numpy.float32) for one in arrays]))
        return wide.astype(ml_dtypes.bfloat16) if wide.dtype == numpy.float32 else wide


def _rtol(name: str, dtype: str) -> float | None:
    if dtype in COMPLEX:
        return 1e-4 if dtype == "complex64" else 1e-12
    if name in ("deg2rad", "rad2deg", "logaddexp", "logaddexp2", "sinc", "log10", "cbrt"):
        return 5e-6 if dtype == "float32" else 1e-12 if dtype == "float64" else None
    return 1e-5 if dtype == "float32" else None


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, kinds in UNARY.items() for dtype in kinds])
def test_functions_of_one_array(name: str, dtype: str) -> None:
    x = sample(dtype)
    if dtype in COMPLEX and name == "sign":
        x = x[x != 0]
    agree(getattr(np, name)(x), _numpy(name, x), _rtol(name, dtype))


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, kinds in BINARY.items() for dtype in kinds])
def test_functions_of_two_arrays(name: str, dtype: str) -> None:
    x, y = sample(dtype, (4, 24), 1), sample(dtype, (24,), 2)
    agree(getattr(np, name)(x, y), _numpy(name, x, y), _rtol(name, dtype))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_the_same_under_jit(name: str) -> None:
    kinds = UNARY.get(name) or BINARY[name]
    arrays = [sample(kinds[-1], (3, 5), seed) for seed in range(1 if name in UNARY else 2)]
    both_ways(getattr(np, name), *map(np.asarray, arrays))


@pytest.mark.parametrize("left", [(), (0, 3), (1,), (7, 1), (64,), (2, 1, 8)], ids=str)
@pytest.mark.parametrize("right", [(), (1,), (64,), (3,), (5, 1, 1)], ids=str)
def test_shapes_meet_as_in_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = sample("float32", left), sample("float32", right)
    try:
        wanted = x + y
    except ValueError:
        with pytest.raises(ValueError, match="broadcast"):
            np.add(x, y)
        return
    agree(np.add(x, y), wanted)


def test_types_meet_as_in_numpy() -> None:
    names = ("bool", *INTEGERS, *FLOATS, "float16", *COMPLEX)
    for a in names:
        for b in names:
            assert np.result_type(numpy.dtype(a), numpy.dtype(b)) == numpy.result_type(a, b), (a, b)
        for number in (True, 1, 1.5, 1j):
            if not (isinstance(number, complex) and a in ("float16",)):
                assert np.result_type(numpy.ones(1, a), number) == numpy.result_type(numpy.ones(1, a), number)


def test_numbers_of_python_give_way() -> None:
    x = np.asarray(numpy.ones(3, numpy.float32))
    for made in (x + 1, 1.5 * x, x / 2, 2 - x, x**2, x**0.5, np.where(x > 0, x, 0), np.clip(x, 0, 2), np.maximum(x, 1)):
        assert made.dtype == numpy.float32
    assert hlotool.jit(lambda a, lr: a - lr * 0.5 * a)(x, 0.1).dtype == numpy.float32
    assert (np.asarray([1, 2], dtype=np.int8) + 1).dtype == numpy.int8
    with pytest.raises(OverflowError):
        np.asarray([1], dtype=np.int8) + 1000


@pytest.mark.parametrize("dtype", [*INTEGERS])
def test_shifts(dtype: str) -> None:
    x, by = sample(dtype), (numpy.arange(24) % 7).astype(dtype)
    agree(np.bitwise_left_shift(x, by), numpy.left_shift(x, by))
    agree(np.bitwise_right_shift(x, by), numpy.right_shift(x, by))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex128"])
def test_powers(dtype: str) -> None:
    x = sample(dtype)
    for exponent in (0, 1, 2, 3, 4):
        with numpy.errstate(all="ignore"):
            wanted = x**exponent
        if dtype == "complex128":
            agree(np.asarray(x) ** exponent, wanted, 1e-12)
        else:
            agree(np.asarray(x) ** exponent, wanted, 1e-5 if dtype == "float32" else 1e-13)


def test_powers_of_two_have_exact_logarithms() -> None:
    for dtype, low, high in ((numpy.float32, -140, 127), (numpy.float64, -1060, 1023)):
        exponents = numpy.arange(low, high).astype(dtype)
        numpy.testing.assert_array_equal(np.log2(numpy.ldexp(dtype(1), exponents.astype(int))), exponents)


def test_choosing() -> None:
    x, y = sample("float32", (4, 5), 1), sample("float32", (5,), 2)
    for condition in (x > 0, numpy.array(True), numpy.arange(5) % 2):
        agree(np.where(condition, x, y), numpy.where(condition, x, y))
    agree(np.clip(x, -1, 1), numpy.clip(x, -1, 1))
    agree(np.clip(x, None, 1), numpy.clip(x, None, 1))
    agree(np.clip(x, min=0.5), numpy.clip(x, 0.5, None))
    agree(np.nan_to_num(x, nan=7.0), numpy.nan_to_num(x, nan=7.0))
    agree(np.isclose(x, x + 1e-7, equal_nan=True), numpy.isclose(x, x + numpy.float32(1e-7), equal_nan=True))


@pytest.mark.parametrize("name", ["sin", "negative", "bitwise_invert", "less"])
def test_types_that_a_function_does_not_take_are_refused(name: str) -> None:
    arrays = {"negative": ["bool"], "bitwise_invert": ["float32"], "less": ["complex64"] * 2}.get(name)
    if arrays is None:
        with pytest.raises(TypeError, match="cannot be compiled"):
            np.sin("text")
        return
    with pytest.raises(TypeError, match=f"{name} is not for arrays of"):
        getattr(np, name)(*map(sample, arrays))


def test_operators() -> None:
    x, y = np.asarray([7, -8, 9]), numpy.array([2, 3, -4])
    for made, wanted in (
        (x + y, [9, -5, 5]), (y + x, [9, -5, 5]), (x - y, [5, -11, 13]), (10 - x, [3, 18, 1]), (x // y, [3, -3, -3]),
        (x % y, [1, 1, -3]), (-x, [-7, 8, -9]), (~x, [-8, 7, -10]), (x & 3, [3, 0, 1]), (x | 1, [7, -7, 9]),
        (x ^ y, [5, -5, -11]), (x << 1, [14, -16, 18]), (x >> 1, [3, -4, 4]), (abs(x), [7, 8, 9]),
        (divmod(x, y)[0], [3, -3, -3]), (2 ** np.asarray([1, 2, 3]), [2, 4, 8]),
    ):  # fmt: skip
        assert isinstance(made, np.Array)
        assert made.tolist() == wanted
    assert (x > y).tolist() == [True, False, True]
    assert (y == x).tolist() == [False, False, False]
    assert (x != 7).tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", COMPLEX)
def test_signs_of_complex_numbers_that_are_infinite_or_nan(dtype: str) -> None:
    nan, inf = numpy.nan, numpy.inf
    signs = {
        complex(inf, 1): 1, complex(-inf, -3): -1, complex(2, -inf): -1j, complex(-0.0, 0.0): 0, complex(0, inf): 1j,
        **dict.fromkeys((complex(nan, 1), complex(1, nan), complex(nan, inf), complex(-inf, nan)), complex(nan, nan)),
    }  # fmt: skip
    found = numpy.asarray(np.sign(numpy.asarray(list(signs), dtype)))
    numpy.testing.assert_array_equal(found, numpy.asarray(list(signs.values()), dtype))
    assert numpy.isnan(found.real).tolist() == numpy.isnan(found.imag).tolist()
