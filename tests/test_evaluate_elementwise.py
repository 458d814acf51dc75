"""The evaluator's elementwise opcodes against hand values and direct formulas."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.evaluate import evaluate
from hlotool.ir import dtype_of, element_type_of
from hlotool.text.parser import parse

BF16 = ml_dtypes.bfloat16
INT_MIN = -(2**31)


def apply(opcode, *arrays, result=None, attributes=""):
    """One instruction on one-dimensional arrays; `result` is its element type."""
    arrays = [np.asarray(a) for a in arrays]
    types = [element_type_of(a.dtype) for a in arrays]
    size = len(arrays[0])
    lines = [f"p{n} = {t}[{size}] parameter({n})" for n, t in enumerate(types)]
    names = ", ".join(f"p{n}" for n in range(len(arrays)))
    text = f"ROOT r = {result or types[0]}[{size}] {opcode}({names}){attributes}"
    (value,) = evaluate(parse("HloModule m\nENTRY e {\n" + "\n".join([*lines, text]) + "\n}"), arrays)
    assert value.dtype == dtype_of(result or types[0])
    return value


def check_bits(value, expected):
    expected = np.asarray(expected, value.dtype)
    assert value.tobytes() == expected.tobytes(), (value, expected)


def s32(*values):
    return np.array(values, np.int32)


def test_integer_division_has_no_undefined_results():
    left = s32(7, -7, 7, -7, 5, INT_MIN, INT_MIN, 0)
    right = s32(2, 2, -2, -2, 0, -1, 0, 0)
    check_bits(apply("divide", left, right), [3, -3, -3, 3, -1, INT_MIN, -1, -1])
    check_bits(apply("remainder", left, right), [1, -1, 1, -1, 5, 0, INT_MIN, 0])
    unsigned = np.array([7, 9], np.uint8)
    check_bits(apply("divide", unsigned, np.array([0, 255], np.uint8)), [255, 0])
    check_bits(apply("remainder", unsigned, np.array([0, 4], np.uint8)), [7, 1])


def test_shifts_beyond_the_width():
    value, amount = s32(-8, -8, 8, 1, -1), s32(1, 32, 40, -1, 31)
    check_bits(apply("shift-left", value, amount), [-16, 0, 0, 0, INT_MIN])
    check_bits(apply("shift-right-arithmetic", value, amount), [-4, -1, 0, 0, -1])
    check_bits(apply("shift-right-logical", value, amount), [2**31 - 4, 0, 0, 0, 1])


def test_narrow_integers_wrap_at_their_own_width():
    seven = np.array([7, -8], ml_dtypes.int4)
    one = np.array([1, -1], ml_dtypes.int4)
    assert apply("add", seven, one).astype(int).tolist() == [-8, 7]
    assert apply("shift-right-logical", one, one[:1].repeat(2)).astype(int).tolist() == [0, 7]
    assert apply("count-leading-zeros", np.array([1], ml_dtypes.uint4)).astype(int) == [3]
    assert apply("multiply", np.array([200], np.uint8), np.array([2], np.uint8)) == [144]


@settings(max_examples=60, deadline=None)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**16))
def test_integer_power_is_modular(base, exponent):
    expected = pow(base, exponent, 2**32)
    assert apply("power", s32(base), s32(exponent))[0] == np.uint32(expected).astype(np.int32)


def test_integer_power_of_negative_exponents():
    check_bits(apply("power", s32(1, -1, -1, 2, 0), s32(-3, -3, -4, -1, -1)), [1, -1, 1, 0, 0])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_counting_bits(value):
    array = np.array([value], np.uint64)
    assert apply("popcnt", array)[0] == bin(value).count("1")
    assert apply("count-leading-zeros", array)[0] == 64 - value.bit_length()


def test_conversion_of_floats_saturates():
    values = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, -1.9, 1.9, 2.0**31], np.float32)
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    check_bits(apply("convert", values, result="s32"), [0, high, low, high, low, -1, 1, high])
    check_bits(apply("convert", values, result="u8"), [0, 255, 0, 255, 0, 0, 1, 255])
    check_bits(apply("convert", values, result="s4"), [0, 7, -8, 7, -8, -1, 1, 7])
    check_bits(apply("convert", values, result="pred"), [True] * 8)
    large = np.array([2.0**63, 2.0**64, -(2.0**63), 2.0**62], np.float64)
    check_bits(apply("convert", large, result="s64"), [2**63 - 1, 2**63 - 1, -(2**63), 2**62])
    check_bits(apply("convert", large, result="u64"), [2**63, 2**64 - 1, 0, 2**62])


def test_conversion_of_integers_wraps():
    check_bits(apply("convert", s32(-1, 300, 256), result="u8"), [255, 44, 0])
    check_bits(apply("convert", s32(8, 15, -9), result="s4"), np.array([-8, -1, 7], ml_dtypes.int4))
    check_bits(apply("convert", np.array([True, False]), result="s8"), [1, 0])


def test_narrow_floats_are_rounded_once():
    # 1 + 2**-8 is half way between two bf16; what is added lies below f32's precision.
    above = np.array([1 + 2.0**-8 + 2.0**-40, -(1 + 2.0**-8 + 2.0**-40)])
    check_bits(apply("convert", above, result="bf16"), np.array([1 + 2.0**-7, -(1 + 2.0**-7)], BF16))
    edges = np.array([1 + 2.0**-8, np.nan, 1e300])
    check_bits(apply("convert", edges, result="bf16"), np.array([1, np.nan, np.inf], BF16))
    check_bits(apply("add", np.array([256], BF16), np.array([1], BF16)), np.array([256], BF16))
    overflow = apply("convert", np.array([1e6, 300.0], np.float32), result="f8e4m3fn")
    assert np.isnan(overflow[0].astype(float))
    assert overflow[1].astype(float) == 288


def test_not_a_number_goes_through_maximum_minimum_and_clamp():
    nan = np.array([np.nan, 1, np.nan], np.float32)
    other = np.array([2, np.nan, np.nan], np.float32)
    for opcode in ("maximum", "minimum"):
        assert np.isnan(apply(opcode, nan, other)).all()
    low, high = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert np.isnan(apply("clamp", low, nan, high)).tolist() == [True, False, True]
    check_bits(apply("clamp", low, np.array([-3, 0.5, 3], np.float32), high), [0, 0.5, 1])


def test_rounding_and_sign():
    values = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, -0.0], np.float32)
    check_bits(apply("round-nearest-afz", values), [1, 2, 3, -1, -3, 0, 8388609, -0.0])
    check_bits(apply("round-nearest-even", values), [0, 2, 2, -0.0, -2, 0, 8388609, -0.0])
    signs = apply("sign", np.array([np.nan, -0.0, 0.0, -3, np.inf], np.float32))
    assert np.isnan(signs[0])
    check_bits(signs[1:], [-0.0, 0.0, -1, 1])


def test_comparisons_in_total_order():
    left = np.array([-0.0, np.nan, -np.nan, 1], np.float32)
    left[2] = np.copysign(np.nan, -1)
    right = np.array([0.0, np.inf, -np.inf, 1], np.float32)

    def compare(direction, order=""):
        return apply("compare", left, right, result="pred", attributes=f", direction={direction}{order}").tolist()

    assert compare("LT") == [False, False, False, False]
    assert compare("NE") == [False, True, True, False]
    assert compare("LT", ", type=TOTALORDER") == [True, False, True, False]
    assert compare("GE", ", type=TOTALORDER") == [False, True, False, True]


@pytest.mark.parametrize(
    ("opcode", "reference"),
    [
        ("exponential", math.exp),
        ("exponential-minus-one", math.expm1),
        ("log", math.log),
        ("log-plus-one", math.log1p),
        ("logistic", lambda x: 1 / (1 + math.exp(-x))),
        ("sqrt", math.sqrt),
        ("rsqrt", lambda x: 1 / math.sqrt(x)),
        ("cbrt", lambda x: x ** (1 / 3)),
        ("sine", math.sin),
        ("cosine", math.cos),
        ("tan", math.tan),
        ("tanh", math.tanh),
        ("sinh", math.sinh),
        ("cosh", math.cosh),
        ("asin", lambda x: math.asin(x)),
        ("acos", math.acos),
        ("asinh", math.asinh),
        ("atanh", math.atanh),
        ("erf", math.erf),
    ],
)
def test_transcendentals_are_nearest_in_their_type(opcode, reference):
    values = np.array([1e-6, 0.1, 0.5, 0.75, 0.999], np.float32)
    expected = np.array([reference(float(v)) for v in values])
    np.testing.assert_allclose(apply(opcode, values), expected.astype(np.float32), rtol=1.2e-7)
    half = values.astype(np.float16)
    expected = np.array([reference(float(v)) for v in half]).astype(np.float16)
    np.testing.assert_allclose(apply(opcode, half).astype(float), expected.astype(float), rtol=1e-3)


def test_complex_functions():
    values = np.array([1 + 2j, -3 + 0.5j], np.complex64)
    np.testing.assert_allclose(apply("abs", values, result="f32"), [5**0.5, 9.25**0.5], rtol=1e-7)
    np.testing.assert_allclose(apply("multiply", values, values), [-3 + 4j, 8.75 - 3j], rtol=1e-7)
    np.testing.assert_allclose(apply("rsqrt", values) ** -2, values, rtol=1e-6)
    zero = np.array([0, 0, 0], np.complex64)
    check_bits(apply("power", zero, np.array([0, 2, 1 + 1j], np.complex64)), np.array([1, 0, 0], np.complex64))
    check_bits(apply("real", values, result="f32"), [1, -3])
    made = apply("complex", np.array([1, 2], np.float32), np.array([3, -0.0], np.float32), result="c64")
    check_bits(made.imag, [3, -0.0])


def test_predicates_add_by_or_and_multiply_by_and():
    left, right = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert apply("add", left, right).tolist() == [True, True, True, False]
    assert apply("multiply", left, right).tolist() == [True, False, False, False]
    assert apply("not", left).tolist() == [False, False, True, True]


def test_reduce_precision():
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 65520.0, 2.0**-15, -1e30, np.nan], np.float32)
    got = apply("reduce-precision", values, attributes=", exponent_bits=5, mantissa_bits=7")
    check_bits(got[:5], [1, 1 + 2.0**-6, np.inf, 0, -np.inf])
    assert np.isnan(got[5])
    half = apply("reduce-precision", values, attributes=", exponent_bits=8, mantissa_bits=7")
    check_bits(half, values.astype(BF16).astype(np.float32))


def test_stochastic_conversion_follows_the_bits():
    values = np.array([1.25, 1.25, -1.25, 300.0, np.nan], np.float32)
    bits = np.array([0, 2**31, 0, 0, 0], np.uint32)
    check_bits(apply("stochastic-convert", values, bits, result="s8"), [2, 1, -2, 127, 0])
    # 1 + 3/4 of a step of bf16: up where the bits are below 3/4.
    above = np.full(3, 1 + 0.75 * 2.0**-7, np.float32)
    thirds = np.array([0, 3 * 2**30 - 1, 3 * 2**30], np.uint32)
    check_bits(apply("stochastic-convert", above, thirds, result="bf16"), [1 + 2.0**-7, 1 + 2.0**-7, 1])
    ends = np.array([np.inf, -3.4e38, 1e-8, np.nan], np.float32)
    got = apply("stochastic-convert", ends, np.zeros(4, np.uint32), result="f16")
    check_bits(got[:3], [np.inf, -np.inf, 2.0**-24])
    assert np.isnan(got[3])


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("f4e2m1fn", [0x8, 0x8, 0x7, 0x8, 0x0, 0x7]),  # no NaN: minus zero; no infinity: the largest
        ("f8e4m3fn", [None, None, 0x4E, 0x80, 0x00, None]),
        ("f8e5m2fnuz", [0x80, 0x80, 0x4B, 0x00, 0x00, 0x80]),
        ("f8e8m0fnu", [0xFF, 0xFF, 0x82, 0xFF, 0x00, 0xFF]),  # neither sign nor zero
        ("f8e3m4", [None, None, 0x5C, 0x80, 0x00, 0x70]),
    ],
)
def test_conversion_to_narrow_floats(kind, codes):
    values = np.array([np.nan, -np.nan, 7, -0.0, 1e-40, np.inf], np.float32)
    got = apply("convert", values, result=kind)
    for value, code in zip(got, codes, strict=True):
        assert np.isnan(value) if code is None else value.view(np.uint8) == code


def test_of_equal_zeros_the_first_is_taken():
    zeros, others = np.array([0.0, -0.0, 0.0], np.float32), np.array([-0.0, 0.0, 0.0], np.float32)
    for opcode in ("maximum", "minimum"):
        check_bits(apply(opcode, zeros, others), zeros)


def test_complex_products_are_not_recovered_and_quotients_are():
    """XLA's answers: parts multiply as the schoolbook has it; a quotient by zero is infinite, by infinity zero."""
    left = np.array([complex(np.inf, 1), 1, 1], np.complex64)
    product = apply("multiply", left[:1], left[1:2])
    assert np.isinf(product.real[0])
    assert np.isnan(apply("multiply", left[:1], np.array([0], np.complex64)).real[0])
    quotient = apply("divide", left, np.array([2 - 1j, 0, complex(np.inf, 1)], np.complex64))
    check_bits(quotient[:1], np.array([complex(np.inf, np.inf)], np.complex64))
    assert np.isinf(quotient[1].real)
    assert np.isnan(quotient[1].imag)
    check_bits(quotient[2:].real, [0])


def test_select_takes_bits_as_they_are():
    nan = np.array([0x7FC00001, 0x7F800001], np.uint32).view(np.float32)
    got = apply("select", np.array([True, False]), nan, nan[::-1].copy(), result="f32")
    check_bits(got, np.array([nan[0], nan[0]]))


@pytest.mark.parametrize("sizes", [(), (1,), (5,)])
def test_a_power_of_one_half_is_no_root(sizes: tuple[int, ...]) -> None:
    """NumPy takes the root for a single exponent, which differs at -inf and in the sign of zero."""
    shape = f"f32[{','.join(map(str, sizes))}]"
    module = parse(f"ENTRY e {{\na = {shape} parameter(0)\nb = {shape} parameter(1)\nROOT p = {shape} power(a, b)\n}}")
    for base, wanted in ((-np.inf, np.inf), (-0.0, 0.0)):
        (found,) = evaluate(module, [np.full(sizes, base, np.float32), np.full(sizes, 0.5, np.float32)])
        assert (found == wanted).all()
        assert not np.signbit(found).any()
