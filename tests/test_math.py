"""The mathematics of the emitters against NumPy, SciPy and ml_dtypes, at several vector widths."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import scipy.special
from llvmlite import binding

from hlotool.codegen.llvm.arrays import load, store
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import constant, parts
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.values import Int, Ptr, Vector
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine, host, named
from hlotool.evaluate import evaluate
from hlotool.evaluate.elementwise import exponential_minus_one
from hlotool.evaluate.rounding import round_to as round_once
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.types import ELEMENT_TYPES, dtype_of
from hlotool.text.parser import parse

Array = np.ndarray[Any, np.dtype[Any]]
np.seterr(all="ignore")
Wide = np.longdouble

INTEGERS = ("s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64")
NARROW = tuple(t for t, row in ELEMENT_TYPES.items() if row.kind == "float" and row.bits < 32 and row.dtype is not None)
FLOATS = (*NARROW, "f32", "f64")
PARTS = {"c64": "f32", "c128": "f64"}


def _levels() -> list[str]:
    features = host().features
    levels = ["x86-64-v2"] if "+sse4.2" in features else []
    return levels + (["x86-64-v3"] if "+avx2" in features and "+fma" in features else [])


LANES = {"x86-64-v2": 4, "x86-64-v3": 8}
CONFIGURATIONS = [(cpu, LANES[cpu]) for cpu in _levels()] + [("host", 1), ("host", 16)]
every_machine = pytest.mark.parametrize(("cpu", "lanes"), CONFIGURATIONS)


@lru_cache
def machine(cpu: str) -> Machine:
    return named(cpu)


# --- a loop around one operation -----------------------------------------------------------------


def _text(
    opcode: str, types: Sequence[str], result: str, cpu: str, lanes: int, attributes: Mapping[str, object],
    constants: Mapping[int, Any],
) -> str:  # fmt: skip
    unit = Unit(machine(cpu))
    f = Function(unit, "void @k(ptr noalias %args, i64 %begin, i64 %end) nounwind")
    *inputs, output = (Ptr(f, "%args").at("ptr", number).load_ptr() for number in range(len(types) + 1))
    loop = begin_loop(f, Int(f, "%begin"), Int(f, "%end"), lanes)
    values = [
        constant(f, t, lanes, constants[i]) if i in constants else load(inputs[i], t, loop.index, lanes)
        for i, t in enumerate(types)
    ]
    store(output, result, loop.index, emit_elementwise(opcode, attributes, types, result, values))
    loop.end()
    f.finish()
    return unit.text()


_COMPILED: dict[str, Any] = {}


def _compile(text: str, cpu: str) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(text)
    module.verify()
    target = binding.Target.from_triple(machine(cpu).triple)
    options = target.create_target_machine(
        cpu=machine(cpu).cpu, features=machine(cpu).features, opt=2, reloc="pic", codemodel="small"
    )
    if "jit" not in _COMPILED:
        _COMPILED["jit"] = binding.create_lljit_compiler(options)
    builder = binding.JITLibraryBuilder().add_object_img(options.emit_object(module))
    library = builder.export_symbol("k").add_current_process().link(_COMPILED["jit"], f"test{len(_COMPILED)}")
    _COMPILED[f"library{len(_COMPILED)}"] = library
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library["k"])


def run(
    opcode: str,
    types: Sequence[str],
    result: str,
    cpu: str,
    lanes: int,
    *arrays: Array,
    attributes: Mapping[str, object] | None = None,
    constants: Mapping[int, Any] | None = None,
) -> Array:
    function = _compile(_text(opcode, types, result, cpu, lanes, attributes or {}, constants or {}), cpu)
    count = len(arrays[0])
    padded = -(-count // lanes) * lanes
    inputs = [np.ascontiguousarray(np.resize(a, padded)) for a in arrays]
    output = np.zeros(padded, dtype_of(result))
    pointers = (ctypes.c_void_p * (len(inputs) + 1))(*[a.ctypes.data for a in inputs], output.ctypes.data)
    function(ctypes.addressof(pointers), 0, padded)
    return output[:count]


# --- functions of real numbers -------------------------------------------------------------------


def samples(element_type: str, count: int = 4000) -> Array:
    """Special values, every magnitude, and dense stretches where functions change character."""
    random = np.random.default_rng(7)
    info = np.finfo(dtype_of(element_type))
    low, high = int(info.minexp) - info.nmant, int(info.maxexp)
    sign = random.choice([-1.0, 1.0], count)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, float(info.max), -float(info.max)]
    special += [float(info.tiny), float(info.smallest_subnormal), -float(info.smallest_subnormal)]
    special += [k * math.pi / 2 for k in range(-40, 40)] + [88.7, 88.73, -103.9, 709.7, 709.8, -745.1]
    spread = np.ldexp(1 + random.random(count), random.integers(low, high, count)) * sign
    parts = [spread, *(random.uniform(-w, w, count) for w in (1, 3, 10, 110, 750, 1e5, 1e9))]
    return np.concatenate([special, *parts]).astype(dtype_of(element_type))


def ulps(got: Array, want: Array, element_type: str) -> Array:
    """The distance in units in the last place of the rounded reference; NaN matches only NaN."""
    rounded = want.astype(dtype_of(element_type))
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    distance = np.abs(got.astype(Wide) - want.astype(Wide)) / np.spacing(np.abs(rounded)).astype(Wide)
    distance = np.where(same, 0, distance)
    result: Array = np.where(np.isnan(distance), np.inf, distance)
    return result


def _logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    result: Array = np.where(x < 0, e, 1) / (1 + e)
    return result


# opcode: reference and the largest error in ulps (f32, f64)
UNARY: dict[str, tuple[Callable[..., Array], float, float]] = {
    "abs": (np.abs, 0, 0),
    "acos": (np.arccos, 1.3, 1.3),
    "acosh": (np.arccosh, 2.2, 2.2),
    "asin": (np.arcsin, 1.8, 1.8),
    "asinh": (np.arcsinh, 2, 2),
    "atanh": (np.arctanh, 2.2, 2.2),
    "cbrt": (np.cbrt, 1.1, 1.1),
    "ceil": (np.ceil, 0, 0),
    "cosh": (np.cosh, 1.8, 1.8),
    "cosine": (np.cos, 1.8, 1),
    "erf": (scipy.special.erf, 1.5, 3.5),
    "exponential": (np.exp, 1.3, 1.3),
    "exponential-minus-one": (np.expm1, 1.8, 2),
    "floor": (np.floor, 0, 0),
    "log": (np.log, 1, 1),
    "log-plus-one": (np.log1p, 1.6, 1.6),
    "logistic": (_logistic, 2.6, 2.6),
    "negate": (np.negative, 0, 0),
    "round-nearest-even": (np.rint, 0, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5),
    "sign": (np.sign, 0, 0),
    "sine": (np.sin, 1.8, 1),
    "sinh": (np.sinh, 1.9, 1.9),
    "sqrt": (np.sqrt, 0.51, 0.51),
    "tan": (np.tan, 3.6, 2.3),
    "tanh": (np.tanh, 2.8, 2.8),
}


@every_machine
@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize("opcode", sorted(UNARY))
def test_real_functions(opcode: str, element_type: str, cpu: str, lanes: int) -> None:
    reference, *limits = UNARY[opcode]
    x = samples(element_type)
    # SciPy's erf knows double at most
    want = reference(x.astype(np.float64 if opcode == "erf" or element_type == "f32" else Wide))
    got = run(opcode, [element_type], element_type, cpu, lanes, x)
    error = ulps(got, want, element_type)
    worst = int(np.argmax(error))
    assert error[worst] <= limits[element_type == "f64"], (x[worst], got[worst], want[worst])
    zero = got == 0
    sign = x if opcode == "sign" else want  # NumPy's sign loses that of zero
    assert np.array_equal(np.signbit(got[zero]), np.signbit(sign[zero]))


@every_machine
@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_round_half_away(element_type: str, cpu: str, lanes: int) -> None:
    x = np.concatenate([samples(element_type), (np.arange(-64, 64) / 4).astype(dtype_of(element_type))])
    want = np.copysign(np.trunc(np.abs(x).astype(Wide) + Wide(0.5)), x).astype(x.dtype)
    got = run("round-nearest-afz", [element_type], element_type, cpu, lanes, x)
    np.testing.assert_array_equal(got, want)


def pairs(element_type: str, count: int = 4000) -> tuple[Array, Array]:
    """Operands for pow, atan2 and fmod: all pairs of special values, then results of every magnitude."""
    random = np.random.default_rng(11)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -1.5]
    special += [1e30, -1e30, 1e-30, 1e-42, -1e-42, 16777218.0, -16777218.0, 1.0000001, 3.3e38]
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    top = 127 if element_type == "f32" else 1023
    base = np.ldexp(1 + random.random(count), random.integers(-top - 20, top, count))
    exponent = random.uniform(-1, 1, count) * (top + 10) / np.maximum(np.abs(np.log2(base)), 1e-3)
    near_one, large = 1 + random.uniform(-1, 1, count) * 1e-3, random.uniform(-9e4, 9e4, count)
    signed, integral = random.uniform(-10, 10, count), random.integers(-30, 30, count)
    x = np.concatenate([a, base, near_one, signed]).astype(dtype_of(element_type))
    y = np.concatenate([b, exponent, large, integral]).astype(dtype_of(element_type))
    return x, y


@every_machine
@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize(
    ("opcode", "reference", "limit"), [("power", np.power, 1.2), ("atan2", np.arctan2, 2.5), ("remainder", np.fmod, 0)]
)
def test_binary_functions(
    opcode: str, reference: Callable[..., Array], limit: float, element_type: str, cpu: str, lanes: int
) -> None:
    x, y = pairs(element_type)
    want = reference(x, y) if opcode == "remainder" else reference(x.astype(Wide), y.astype(Wide))
    got = run(opcode, [element_type] * 2, element_type, cpu, lanes, x, y)
    error = ulps(got, want, element_type)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, (x[worst], y[worst], got[worst], want[worst])
    zero = got == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, -1.0, 0.5, 2.5])
def test_power_of_constant_exponent(exponent: float) -> None:
    x = samples("f32")
    y = np.full_like(x, exponent)
    want = np.power(x.astype(Wide), Wide(exponent))
    got = run("power", ["f32", "f32"], "f32", "host", 16, x, y, constants={1: exponent})
    assert ulps(got, want, "f32").max() <= 1.5


@every_machine
def test_trigonometry_of_huge_and_resonant_arguments(cpu: str, lanes: int) -> None:
    random = np.random.default_rng(5)
    resonant = random.integers(1, 2**28, 1000) * (np.pi / 2)
    huge = np.ldexp(1 + random.random(1000), random.integers(20, 1023, 1000))
    known = [6381956970095103.0 * 2.0**797, 1e22, 2.0**1023]  # the closest double to a multiple of pi/2
    x = np.concatenate([resonant, huge, known])
    for opcode, reference in (("sine", np.sin), ("cosine", np.cos)):
        got = run(opcode, ["f64"], "f64", cpu, lanes, x)
        assert ulps(got, reference(x.astype(Wide)), "f64").max() < 1
        single = x.astype(np.float32)
        got = run(opcode, ["f32"], "f32", cpu, lanes, single)
        assert ulps(got, reference(single.astype(Wide)), "f32").max() < 1.8


@every_machine
@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_arithmetic_and_nan(element_type: str, cpu: str, lanes: int) -> None:
    x, y = pairs(element_type)
    for opcode, reference in {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
        "maximum": np.maximum, "minimum": np.minimum,
    }.items():  # fmt: skip
        got = run(opcode, [element_type] * 2, element_type, cpu, lanes, x, y)
        np.testing.assert_array_equal(got, reference(x, y), err_msg=opcode)
    for bound in (0.0, 2.0, math.nan):
        for opcode, reference in (("maximum", np.maximum), ("minimum", np.minimum)):
            for at in (0, 1):
                got = run(opcode, [element_type] * 2, element_type, cpu, lanes, x, x, constants={at: bound})
                np.testing.assert_array_equal(got, reference(x, x.dtype.type(bound)))
    got = run("clamp", [element_type] * 3, element_type, cpu, lanes, y, x, np.full_like(x, 3))
    np.testing.assert_array_equal(got, np.minimum(np.maximum(x, y), x.dtype.type(3)))
    finite = run("is-finite", [element_type], "pred", cpu, lanes, x)
    np.testing.assert_array_equal(finite, np.isfinite(x))


_DIRECTIONS: dict[str, Callable[..., Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less,
}  # fmt: skip


@every_machine
@pytest.mark.parametrize("direction", sorted(_DIRECTIONS))
def test_compare(direction: str, cpu: str, lanes: int) -> None:
    reference = _DIRECTIONS[direction]
    attributes = {"direction": direction}
    x, y = pairs("f32")
    got = run("compare", ["f32"] * 2, "pred", cpu, lanes, x, y, attributes=attributes)
    np.testing.assert_array_equal(got, reference(x, y))
    order = [a.view(np.int32) ^ ((a.view(np.int32) >> 31).view(np.uint32) >> 1).view(np.int32) for a in (x, y)]
    got = run("compare", ["f32"] * 2, "pred", cpu, lanes, x, y, attributes={**attributes, "type": "TOTALORDER"})
    np.testing.assert_array_equal(got, reference(*order))
    for element_type in ("s8", "u8", "s64", "u64", "pred"):
        a, b = integer_pairs(element_type)
        got = run("compare", [element_type] * 2, "pred", cpu, lanes, a, b, attributes=attributes)
        np.testing.assert_array_equal(got, reference(a, b))
    if direction in ("EQ", "NE"):
        z, w = complex_pairs("c64")
        got = run("compare", ["c64"] * 2, "pred", cpu, lanes, z, w, attributes=attributes)
        np.testing.assert_array_equal(got, reference(z, w))


# --- integers ------------------------------------------------------------------------------------


def integer_values(element_type: str) -> list[int]:
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        return [0, 1]
    low, high = 0, (1 << row.bits) - 1
    if row.kind == "signed":
        low, high = -(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1
    if row.bits <= 8:
        return list(range(low, high + 1))
    random = np.random.default_rng(3)
    near = {s * (1 << k) + d for k in range(row.bits + 1) for d in (-1, 0, 1) for s in (-1, 1)}
    near = {v for v in near if low <= v <= high}
    drawn = {int(v) for v in random.integers(low, high, 60, dtype=dtype_of(element_type), endpoint=True)}
    return sorted(near | drawn | {low, high, *range(8)})


def integer_pairs(element_type: str) -> tuple[Array, Array]:
    values = np.array(integer_values(element_type), dtype=object)
    values = values[:: max(1, len(values) // 100)] if len(values) > 256 else values
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    return _array(a, element_type), _array(b, element_type)


def _array(values: Any, element_type: str) -> Array:
    """Python integers as an array of the type; ml_dtypes' small integers go through int8."""
    row = ELEMENT_TYPES[element_type]
    wide = np.array([int(v) for v in values], dtype=np.int64 if row.kind == "signed" else np.uint64)
    return (wide.astype(np.int8) if row.bits < 8 else wide).astype(dtype_of(element_type))


def _wrap(value: int, element_type: str) -> int:
    row = ELEMENT_TYPES[element_type]
    value &= (1 << row.bits) - 1
    return value - (1 << row.bits) if row.kind == "signed" and value >> (row.bits - 1) else value


def _quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)


def _integer_reference(opcode: str, a: int, b: int, element_type: str) -> int:
    bits = ELEMENT_TYPES[element_type].bits
    mask = (1 << bits) - 1
    count = b & mask
    top = ((a & mask) ^ (1 << (bits - 1))) - (1 << (bits - 1))
    return {
        "add": lambda: a + b,
        "subtract": lambda: a - b,
        "multiply": lambda: a * b,
        "mulhi": lambda: (a * b) >> bits,
        "divide": lambda: _quotient(a, b),
        "remainder": lambda: a if b == 0 else a - b * _quotient(a, b),
        "maximum": lambda: max(a, b),
        "minimum": lambda: min(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "power": lambda: _power(a, b),
        "shift-left": lambda: a << count if count < bits else 0,
        "shift-right-logical": lambda: (a & mask) >> count if count < bits else 0,
        "shift-right-arithmetic": lambda: top >> min(count, bits - 1),
    }[opcode]()


@pytest.mark.parametrize(("cpu", "lanes"), [CONFIGURATIONS[0], ("host", 1), ("host", 16)])
@pytest.mark.parametrize("element_type", INTEGERS)
def test_integer_arithmetic(element_type: str, cpu: str, lanes: int) -> None:
    a, b = integer_pairs(element_type)
    keep = np.random.default_rng(1).permutation(len(a))[:800]
    a, b = a[keep], b[keep]
    plain = [(int(p), int(q)) for p, q in zip(a, b, strict=True)]
    for opcode in (
        "add", "subtract", "multiply", "mulhi", "divide", "remainder", "maximum", "minimum", "and", "or", "xor",
        "power", "shift-left", "shift-right-logical", "shift-right-arithmetic",
    ):  # fmt: skip
        got = [int(v) for v in run(opcode, [element_type] * 2, element_type, cpu, lanes, a, b)]
        want = [_wrap(_integer_reference(opcode, p, q, element_type), element_type) for p, q in plain]
        wrong = next((x for x in zip(plain, got, want, strict=True) if x[1] != x[2]), None)
        assert wrong is None, (opcode, wrong)


@pytest.mark.parametrize(("cpu", "lanes"), [CONFIGURATIONS[0], ("host", 1), ("host", 16)])
@pytest.mark.parametrize("element_type", INTEGERS)
def test_integer_unary(element_type: str, cpu: str, lanes: int) -> None:
    values = integer_values(element_type)
    bits = ELEMENT_TYPES[element_type].bits
    mask = (1 << bits) - 1
    references: dict[str, Callable[[int], int]] = {
        "abs": abs,
        "negate": lambda v: -v,
        "not": lambda v: ~v,
        "sign": lambda v: (v > 0) - (v < 0),
        "popcnt": lambda v: (v & mask).bit_count(),
        "count-leading-zeros": lambda v: bits - (v & mask).bit_length(),
    }
    for opcode, reference in references.items():
        got = [int(v) for v in run(opcode, [element_type], element_type, cpu, lanes, _array(values, element_type))]
        assert got == [_wrap(reference(v), element_type) for v in values], opcode


@pytest.mark.parametrize("element_type", ["s8", "s32", "u32", "s64"])
@pytest.mark.parametrize("divisor", [1, -1, 0, 3, -7, 10, 64])
def test_division_by_constants(element_type: str, divisor: int) -> None:
    values = integer_values(element_type)
    constant_value = _wrap(divisor, element_type)
    for opcode in ("divide", "remainder", "power"):
        got = run(
            opcode, [element_type] * 2, element_type, "host", 16, _array(values, element_type),
            _array(values, element_type), constants={1: constant_value},
        )  # fmt: skip
        want = [_wrap(_integer_reference(opcode, v, constant_value, element_type), element_type) for v in values]
        assert [int(v) for v in got] == want, opcode


@every_machine
def test_pred(cpu: str, lanes: int) -> None:
    a, b = integer_pairs("pred")
    for opcode, reference in {
        "add": np.logical_or, "multiply": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and,
        "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "subtract": np.logical_xor,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(run(opcode, ["pred"] * 2, "pred", cpu, lanes, a, b), reference(a, b))
    np.testing.assert_array_equal(run("not", ["pred"], "pred", cpu, lanes, a), ~a)
    for element_type in ("f32", "s64", "bf16", "c64", "pred"):
        x, y = (np.arange(4).astype(dtype_of(element_type)) + k for k in (0, 1))
        x, y = x.astype(dtype_of(element_type)), y.astype(dtype_of(element_type))
        got = run("select", ["pred", element_type, element_type], element_type, cpu, lanes, a, x, y)
        np.testing.assert_array_equal(got, np.where(a, x, y))


# --- narrow floats and conversions ---------------------------------------------------------------


def _bits(array: Array) -> Array:
    """Bits as integers, -1 for every NaN."""
    codes = array.view(f"u{array.dtype.itemsize}").astype(np.int32)
    codes[np.isnan(array.astype(np.float32))] = -1
    return codes


def all_codes(element_type: str) -> Array:
    bits = ELEMENT_TYPES[element_type].bits
    return np.arange(1 << bits, dtype="u2" if bits == 16 else "u1").view(dtype_of(element_type))


def narrowed(x: Array, element_type: str) -> Array:
    """ml_dtypes' rounding; NaN is minus zero in f4e2m1fn, whose sign ml_dtypes takes from the NaN."""
    x = np.where(np.isnan(x), x.dtype.type(-0.0), x) if element_type == "f4e2m1fn" else x
    return x.astype(dtype_of(element_type))


def rounding_cases(element_type: str) -> Array:
    """f32 values at, between and next to all values of a narrow type, and random bits."""
    codes = all_codes(element_type).astype(np.float32)
    codes = np.sort(codes[np.isfinite(codes)])
    if len(codes) > 4096:
        half = len(codes) // 2
        codes = np.concatenate([codes[:600], codes[-600:], codes[:: half // 1000], codes[half : half + 600]])
    middle = ((codes[1:].astype(np.float64) + codes[:-1]) / 2).astype(np.float32)
    around = [np.nextafter(middle, np.float32(s)).astype(np.float32) for s in (-np.inf, np.inf)]
    drawn = np.random.default_rng(2).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    return np.concatenate([codes, middle, *around, codes * 2, drawn, edges])


@every_machine
@pytest.mark.parametrize("element_type", NARROW)
def test_narrow_floats_match_ml_dtypes(element_type: str, cpu: str, lanes: int) -> None:
    codes = all_codes(element_type)
    got = run("convert", [element_type], "f32", cpu, lanes, codes)
    want = codes.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))
    x = rounding_cases(element_type)
    np.testing.assert_array_equal(
        _bits(run("convert", ["f32"], element_type, cpu, lanes, x)), _bits(narrowed(x, element_type))
    )
    np.testing.assert_array_equal(_bits(run("copy", [element_type], element_type, cpu, lanes, codes)), _bits(codes))


@pytest.mark.parametrize("element_type", NARROW)
def test_double_rounds_once(element_type: str) -> None:
    """A double just beside a tie goes to its own side, where rounding to f32 first would lose it."""
    codes = np.unique(all_codes(element_type).astype(np.float64))
    codes = codes[np.isfinite(codes)]
    codes = codes[1:] if element_type == "f8e8m0fnu" else codes  # what lies above its least goes up
    low, high = codes[:-1], codes[1:]
    middle = (low + high) / 2
    keep = low * high > 0
    for x, want in ((middle * (1 - 2.0**-45), None), (middle * (1 + 2.0**-45), None)):
        toward_high = (x > middle)[keep]
        want = np.where(toward_high, high[keep], low[keep]).astype(dtype_of(element_type))
        got = run("convert", ["f64"], element_type, "host", 16, x[keep])
        np.testing.assert_array_equal(_bits(got), _bits(want))


@every_machine
@pytest.mark.parametrize("element_type", NARROW)
def test_narrow_arithmetic_rounds_every_result(element_type: str, cpu: str, lanes: int) -> None:
    random = np.random.default_rng(4)
    codes = all_codes(element_type)
    a, b = random.choice(codes, 3000), random.choice(codes, 3000)
    wide = [v.astype(np.float32) for v in (a, b)]
    got = run("maximum", [element_type] * 2, element_type, cpu, lanes, a, b)
    np.testing.assert_array_equal(got.astype(np.float32), np.maximum(*wide))  # zeros of either sign are equal
    for opcode, reference in (("add", np.add), ("multiply", np.multiply), ("divide", np.divide)):
        got = run(opcode, [element_type] * 2, element_type, cpu, lanes, a, b)
        np.testing.assert_array_equal(_bits(got), _bits(narrowed(reference(*wide), element_type)), err_msg=opcode)
    for opcode, unary in (("ceil", np.ceil), ("negate", np.negative), ("sqrt", np.sqrt)):
        got = run(opcode, [element_type], element_type, cpu, lanes, a)
        np.testing.assert_array_equal(_bits(got), _bits(narrowed(unary(wide[0]), element_type)), err_msg=opcode)


def conversion_samples(element_type: str) -> Array:
    row = ELEMENT_TYPES[element_type]
    if row.kind in ("signed", "unsigned", "pred"):
        return _array(integer_values(element_type), element_type)
    if row.kind == "complex":
        return complex_pairs(element_type)[0]
    if element_type in NARROW:
        return all_codes(element_type)
    powers = [s * 2.0**k for k in (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64) for s in (-1, 1)]
    edges = [p + d for p in powers for d in (-1, 0, 0.5, 1)]
    return np.concatenate([samples(element_type, 300), np.array(edges).astype(dtype_of(element_type))])


def _saturate(x: Array, element_type: str) -> Array:
    values = integer_values(element_type)
    low, high = min(values), max(values)
    plain = [0 if math.isnan(v) else high if v >= high else low if v <= low else int(v) for v in x.astype(np.float64)]
    return _array(plain, element_type)


def _converted(x: Array, source: str, target: str) -> Array:
    kinds = ELEMENT_TYPES[source].kind, ELEMENT_TYPES[target].kind
    if target == "pred":
        wide: Array = x.astype({"complex": np.complex128, "float": np.float64}.get(kinds[0], object))
        return np.asarray(wide != 0)
    if kinds[0] == "complex" and kinds[1] != "complex":
        x, source = x.real, PARTS[source]
    if kinds[0] in ("float", "complex") and kinds[1] in ("signed", "unsigned"):
        return _saturate(x, target)
    if kinds[0] in ("signed", "unsigned", "pred"):
        plain = [int(v) for v in x]
        if kinds[1] in ("signed", "unsigned"):
            return _array([_wrap(v, target) for v in plain], target)
        integers = _array(plain, "s64" if kinds[0] == "signed" else "u64")
        whole = round_once(integers.astype(np.float64), target) if target in NARROW else integers
        return whole.astype(dtype_of(target))
    if target in NARROW:
        return narrowed(x.astype(np.float32), target)
    return x.astype(np.float64 if source in NARROW else x.dtype).astype(dtype_of(target))


@pytest.mark.parametrize(("cpu", "lanes"), [CONFIGURATIONS[0], ("host", 1), ("host", 16)])
@pytest.mark.parametrize("source", ["pred", *INTEGERS, *FLOATS, "c64", "c128"])
def test_convert_between_all_types(source: str, cpu: str, lanes: int) -> None:
    x = conversion_samples(source)
    for target in ("pred", *INTEGERS, "bf16", "f16", "f8e4m3fn", "f8e5m2fnuz", "f4e2m1fn", "f32", "f64", "c64", "c128"):
        if ELEMENT_TYPES[source].kind == "complex" and target in NARROW:
            continue
        got = run("convert", [source], target, cpu, lanes, x)
        want = _converted(x, source, target)
        if target in NARROW:
            np.testing.assert_array_equal(_bits(got), _bits(want), err_msg=target)
        else:
            np.testing.assert_array_equal(got, want, err_msg=target)


@every_machine
def test_bitcast(cpu: str, lanes: int) -> None:
    for source, target in (
        ("f32", "s32"), ("u32", "f32"), ("f64", "u64"), ("bf16", "s16"), ("u16", "bf16"), ("f16", "u16"), ("s8", "u8"),
        ("f8e4m3fn", "u8"), ("u8", "f8e5m2"), ("s4", "u4"), ("u4", "s4"), ("c64", "u64"), ("u64", "c64"),
        ("u16", "f16"),
    ):  # fmt: skip
        x = conversion_samples(source)
        got = run("bitcast-convert", [source], target, cpu, lanes, x)
        if source in ("s4", "u4"):
            want = np.array([_wrap(int(v), target) for v in x]).astype(np.int8).astype(dtype_of(target))
            np.testing.assert_array_equal(got, want)
            continue
        want = x.view(dtype_of(target))
        nan = np.isnan(np.asarray(want).astype(np.complex64)) if target in (*FLOATS, "c64") else np.zeros(len(x), bool)
        unsigned = f"u{min(8, got.dtype.itemsize)}"
        np.testing.assert_array_equal(got.view(unsigned)[~nan], want.view(unsigned)[~nan], err_msg=f"{source} {target}")


def _reduced(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """reduce-precision in exact arithmetic on doubles (of f32 values)."""
    wide = x.astype(np.float64)
    fraction, exponent = np.frexp(wide)
    rounded = np.ldexp(np.rint(np.ldexp(fraction, mantissa_bits + 1)), exponent - mantissa_bits - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent_bits < 8:
        rounded = np.where(np.abs(rounded) >= 2.0 ** (bias + 1), np.copysign(np.inf, wide), rounded)
        rounded = np.where(np.abs(rounded) < 2.0 ** (1 - bias), np.copysign(0.0, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(np.float32)


@every_machine
@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(8, 7), (5, 10), (8, 23), (5, 2), (4, 3), (2, 1), (8, 1)])
def test_reduce_precision(exponent_bits: int, mantissa_bits: int, cpu: str, lanes: int) -> None:
    x = samples("f32")
    x = x[~((np.abs(x) < 2.0**-126) & (x != 0))] if exponent_bits == 8 else x
    attributes = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    got = run("reduce-precision", ["f32"], "f32", cpu, lanes, x, attributes=attributes)
    want = _reduced(x, exponent_bits, mantissa_bits)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@every_machine
def test_stochastic_convert(cpu: str, lanes: int) -> None:
    random = np.random.default_rng(9)
    x = np.concatenate([random.uniform(-200, 200, 4000), [np.nan, np.inf, -np.inf, 5.0, -5.0, 127.9, 0.5]])
    x = x.astype(np.float32)
    noise = random.integers(0, 2**32, len(x), dtype=np.uint32)
    got = run("stochastic-convert", ["f32", "u32"], "s8", cpu, lanes, x, noise)
    size = np.abs(x.astype(np.float64))
    up = noise < np.floor((size - np.floor(size)) * 2.0**32)
    want = np.nan_to_num(np.copysign(np.floor(size) + up, x), nan=0, posinf=127, neginf=-128)
    np.testing.assert_array_equal(got, np.clip(want, -128, 127).astype(np.int8))
    counts = run("stochastic-convert", ["f32", "u32"], "s32", cpu, lanes, np.full(len(x), 2.25, np.float32), noise)
    assert abs(counts.mean() - 2.25) < 0.03


# --- complex numbers -----------------------------------------------------------------------------


def complex_pairs(element_type: str, count: int = 1500) -> tuple[Array, Array]:
    random = np.random.default_rng(13)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0]
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    spread = [random.uniform(-3, 3, count) * 10.0 ** random.uniform(-12, 1, count) for _ in range(4)]
    z = np.concatenate([a + 1j * b, spread[0] + 1j * spread[1]])
    z[: len(a)].real, z[: len(a)].imag = a, b
    w = np.concatenate([random.permutation(a + 1j * b), spread[2] + 1j * spread[3]])
    return z.astype(dtype_of(element_type)), w.astype(dtype_of(element_type))


def _log1p(z: Array) -> Array:
    """NumPy's own loses small arguments."""
    near = np.abs(z) < 0.5
    real = np.where(near, np.log1p(np.where(near, 2 * z.real + z.real**2 + z.imag**2, 0)) / 2, np.log(np.abs(1 + z)))
    result = (1 + z).astype(np.clongdouble)
    result.real, result.imag = real, np.arctan2(z.imag, 1 + z.real)
    return result


COMPLEX: dict[str, Callable[..., Array]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atanh": np.arctanh,
    "cosh": np.cosh, "cosine": np.cos, "exponential": np.exp, "exponential-minus-one": np.expm1, "log": np.log,
    "log-plus-one": _log1p, "negate": np.negative, "sine": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh,
}  # fmt: skip


def relative_error(got: Array, want: Array) -> Array:
    """|got - want| / |want| where both are finite; infinities and NaNs must be in the same places."""
    finite = np.isfinite(want.astype(got.dtype))
    assert np.array_equal(np.isfinite(got), finite)
    got, want = got[finite], want[finite]
    size = np.maximum(np.abs(want), np.finfo(got.dtype).tiny)
    result: Array = np.where(got == want, 0, np.abs(got - want) / size).astype(np.float64)
    return result


@every_machine
@pytest.mark.parametrize("element_type", ["c64", "c128"])
@pytest.mark.parametrize("opcode", sorted(COMPLEX))
def test_complex_functions(opcode: str, element_type: str, cpu: str, lanes: int) -> None:
    z, _ = complex_pairs(element_type)
    want = COMPLEX[opcode](z.astype(np.clongdouble))
    got = run(opcode, [element_type], element_type, cpu, lanes, z)
    error = relative_error(got, want)
    limit = (2e-7, 2e-15)[element_type == "c128"]
    assert error.max() <= limit, z[np.isfinite(want.astype(got.dtype))][np.argmax(error)]
    zero = (want.imag == 0) & np.isfinite(want)
    np.testing.assert_array_equal(np.signbit(got.imag[zero]), np.signbit(want.imag[zero]))


@every_machine
@pytest.mark.parametrize("element_type", ["c64", "c128"])
@pytest.mark.parametrize("opcode", sorted(set(COMPLEX) - {"negate"}))
def test_complex_functions_of_what_is_not_finite(opcode: str, element_type: str, cpu: str, lanes: int) -> None:
    """As NumPy and C99 Annex G have it; what is large comes near to what is infinite."""
    parts = np.array([0.0, -0.0, 1.0, -2.5, 30.0, -30.0, 1e30, -1e30, np.inf, -np.inf, np.nan])
    z = np.zeros(len(parts) ** 2, dtype_of(element_type))
    z.real, z.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
    want = exponential_minus_one(z) if opcode == "exponential-minus-one" else COMPLEX[opcode](z)
    got = run(opcode, [element_type], element_type, cpu, lanes, z)
    limit = (1e-6, 1e-14)[element_type == "c128"]
    for mine, theirs in ((got.real, want.real), (got.imag, want.imag)):
        large = np.abs(z.real) > 1e10, np.abs(z.imag) > 1e10
        kept = ~((large[0] & np.isfinite(z.real)) | (large[1] & np.isfinite(z.imag))) | ~np.isfinite(theirs)
        np.testing.assert_allclose(mine[kept], theirs[kept], limit, 1e-30)


@every_machine
@pytest.mark.parametrize("element_type", ["c64", "c128"])
def test_complex_arithmetic(element_type: str, cpu: str, lanes: int) -> None:
    z, w = complex_pairs(element_type)
    limit = (4e-7, 4e-15)[element_type == "c128"]
    wide = z.astype(np.clongdouble), w.astype(np.clongdouble)
    for opcode, reference in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply)):
        got = run(opcode, [element_type] * 2, element_type, cpu, lanes, z, w)
        np.testing.assert_allclose(got, reference(z, w), rtol=limit, atol=limit * 1e-6)
    nonzero = w != 0
    got = run("divide", [element_type] * 2, element_type, cpu, lanes, z, w)
    assert relative_error(got[nonzero], (wide[0] / wide[1])[nonzero]).max() <= limit
    nonzero = z != 0
    got = run("power", [element_type] * 2, element_type, cpu, lanes, z, w)
    assert relative_error(got[nonzero], np.power(*wide)[nonzero]).max() <= limit * 30
    got = run("rsqrt", [element_type], element_type, cpu, lanes, z)
    assert relative_error(got[nonzero], (1 / np.sqrt(wide[0]))[nonzero]).max() <= limit
    right = (np.abs(w) + 50).astype(z.dtype)
    got = run("atan2", [element_type] * 2, element_type, cpu, lanes, z, right)
    want = -1j * np.log((right + 1j * wide[0]) / np.sqrt(right.astype(np.clongdouble) ** 2 + wide[0] ** 2))
    assert np.abs(got - want).max() <= limit
    got = run("logistic", [element_type], element_type, cpu, lanes, z)
    assert relative_error(got, 1 / (1 + np.exp(-wide[0]))).max() <= limit
    got = run("sign", [element_type], element_type, cpu, lanes, z)
    assert relative_error(got[nonzero], (wide[0] / np.abs(wide[0]))[nonzero]).max() <= limit
    real = PARTS[element_type]
    got = run("abs", [element_type], real, cpu, lanes, z)
    np.testing.assert_allclose(got, np.abs(wide[0]).astype(got.dtype), rtol=limit)
    np.testing.assert_array_equal(run("real", [element_type], real, cpu, lanes, z), z.real)
    np.testing.assert_array_equal(run("imag", [element_type], real, cpu, lanes, z), z.imag)
    got = run("complex", [real, real], element_type, cpu, lanes, z.real.copy(), z.imag.copy())
    np.testing.assert_array_equal(got, z)


@every_machine
def test_c64_quotients_of_all_kinds_of_parts(cpu: str, lanes: int) -> None:
    """Zeros of both signs, infinities, NaN and the ends of the range in every place, bit by bit."""
    ends = np.finfo(np.float32)
    kinds = [0, -0.0, 1, -2, 0.5, np.inf, -np.inf, np.nan, ends.max, -ends.max, ends.tiny, ends.smallest_subnormal]
    parts = np.array(list(itertools.product(kinds, repeat=4)), np.float32)
    z, w = parts[:, 0].astype(np.complex64), parts[:, 2].astype(np.complex64)
    z.imag, w.imag = parts[:, 1], parts[:, 3]
    got = run("divide", ["c64"] * 2, "c64", cpu, lanes, z, w)
    size = run("abs", ["c64"], "f32", cpu, lanes, z)
    module = parse(
        f"HloModule m\nENTRY e {{\n z = c64[{len(z)}] parameter(0)\n w = c64[{len(z)}] parameter(1)\n"
        f" q = c64[{len(z)}] divide(z, w)\n s = f32[{len(z)}] abs(z)\n"
        f" ROOT r = (c64[{len(z)}], f32[{len(z)}]) tuple(q, s)\n}}\n"
    )
    quotient, sizes = evaluate(module, [z, w])
    for mine, theirs in ((got.real, quotient.real), (got.imag, quotient.imag), (size, sizes)):
        np.testing.assert_array_equal(mine, theirs)
        known = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(mine[known]), np.signbit(theirs[known]))


def test_complex_does_not_overflow() -> None:
    z = np.array([1e300 + 1e300j, 1e-300 + 1e-300j, 3e307 - 4e307j, 5e-324 + 0j, complex(np.inf, np.nan)])
    np.testing.assert_allclose(run("abs", ["c128"], "f64", "host", 1, z), np.abs(z), rtol=4e-16)
    np.testing.assert_allclose(run("sqrt", ["c128"], "c128", "host", 1, z[:4]), np.sqrt(z[:4]), rtol=4e-16)
    np.testing.assert_allclose(run("divide", ["c128"] * 2, "c128", "host", 1, z[:3], z[:3]), np.ones(3), rtol=4e-16)
    large = np.array([200 + 1j, -200 + 1j, 709.9 + 0.8j, 20 + 0j])
    np.testing.assert_allclose(run("tanh", ["c128"], "c128", "host", 1, large), np.tanh(large), rtol=4e-16)
    np.testing.assert_allclose(run("exponential", ["c128"], "c128", "host", 1, large), np.exp(large), rtol=4e-15)


@every_machine
def test_atanh_is_the_inverse_far_out(cpu: str, lanes: int) -> None:
    """On both sides of where it is computed so."""
    far = np.array([2.0**499, -(2.0**499), 2.0**500, 2.0**501, -(2.0**501), 2.0**1000])
    got = run("atanh", ["c128"], "c128", cpu, lanes, far + 0j)
    np.testing.assert_allclose(got.real, 1 / far, 4e-16)
    np.testing.assert_allclose(got.imag, np.full(6, np.pi / 2), 4e-16)


@pytest.mark.parametrize(("element_type", "lanes"), [("c64", 8), ("c128", 1)])
def test_complex_powers_of_zero(element_type: str, lanes: int) -> None:
    """Zero where the exponent's real part is positive, one where it is zero as a whole, else NaN."""
    parts = [0.0, -0.0, 1.0, -2.5, 700.0]
    z = np.repeat(np.array([0j, complex(-0.0, 0.0)]), 25).astype(dtype_of(element_type))
    w = np.tile(np.array([complex(a, b) for a in parts for b in parts]), 2).astype(z.dtype)
    want = np.where(w == 0, 1, np.where(w.real > 0, 0, complex(np.nan, np.nan))).astype(z.dtype)
    np.testing.assert_array_equal(run("power", [element_type] * 2, element_type, "host", lanes, z, w), want)


# --- the interface -------------------------------------------------------------------------------


def test_undefined_combinations_are_refused() -> None:
    f = Function(Unit(), "void @k()")
    undefined = (("sine", "s32"), ("and", "f32"), ("divide", "pred"), ("maximum", "c64"), ("add", "token"))
    for opcode, element_type in undefined:
        operand = constant(f, "s8" if element_type == "token" else element_type, 4, 1)
        with pytest.raises(UnsupportedError):
            emit_elementwise(opcode, {}, [element_type] * 2, element_type, [operand, operand])


def test_constants() -> None:
    def names(element_type: str, lanes: int, value: complex) -> list[str]:
        f = Function(Unit(), "void @k()")
        return [part.name for part in parts(constant(f, element_type, lanes, value))]

    assert names("f32", 1, 0.1) == ["0x3FB99999A0000000"]
    assert names("bf16", 4, 1.01) == ["splat (float 0x3FF0200000000000)"]
    assert names("u8", 1, 255) == ["-1"]
    assert names("s4", 1, 9) == ["-7"]
    assert names("pred", 2, True) == ["splat (i1 true)"]
    assert names("c64", 1, 1 - 2j) == ["0x3FF0000000000000", "0xC000000000000000"]


def test_common_functions_stay_short() -> None:
    """These are written into every fusion, so their length is a matter of compile time."""
    for opcode in ("exponential", "log", "tanh", "logistic", "erf", "rsqrt", "exponential-minus-one"):
        f = Function(Unit(machine("host")), "void @k()")
        emit_elementwise(opcode, {}, ["f32"], "f32", [Vector(f, "float", 16, "%x")])
        assert len(f.lines) <= 45, (opcode, len(f.lines))


def test_complex_numbers_at_the_ends_of_the_range() -> None:
    """Quotients and logarithms of numbers that are subnormal, or so large that sums of their parts overflow."""
    random = np.random.default_rng(3)

    def drawn() -> Array:
        exponents = [random.integers(*ends, 1000) for ends in ((-1075, -1000), (1000, 1024), (-1074, 1024))]
        parts = [np.ldexp(random.uniform(-1, 1, 3000), np.concatenate(exponents)) for _ in range(2)]
        z: Array = random.permutation(parts[0]) + 1j * random.permutation(parts[1])
        return z

    z, w = drawn(), drawn()
    wide = z.astype(np.clongdouble) / w.astype(np.clongdouble)
    kept = (np.abs(wide) < 1e307) & (np.abs(wide) > 1e-290)
    found = run("divide", ["c128"] * 2, "c128", "host", 1, z, w)
    assert kept.sum() > 500
    assert (np.abs(found - wide)[kept] <= 1e-15 * np.abs(wide)[kept]).all()
    found = run("log", ["c128"], "c128", "host", 1, z)
    np.testing.assert_allclose(found, np.log(z.astype(np.clongdouble)).astype(np.complex128), rtol=1e-15)
    near = np.array([1 + 1e-200j, 1 - 5e-324j, -1 + 1e-300j, 1 + 1e-160j, 1 + 0j])
    real = np.array([np.log(2 / np.longdouble(abs(b))) / 2 if b else np.inf for b in near.imag])
    found = run("atanh", ["c128"], "c128", "host", 1, near)
    np.testing.assert_allclose(found.real, np.copysign(real, near.real).astype(np.float64), rtol=4e-16)


def test_powers_of_complex_numbers_at_the_ends_of_the_range() -> None:
    """Sizes that are subnormal, and have lost bits, or too large; zeros stay what they were."""
    random = np.random.default_rng(5)
    exponents = np.concatenate([random.integers(-1070, -1020, 500), random.integers(1021, 1025, 500)])
    parts = [np.ldexp(random.uniform(0.2, 1, 1000) * random.choice([-1, 1], 1000), exponents) for _ in range(2)]
    z = parts[0] + 1j * parts[1]
    w = np.where(random.random(1000) < 0.5, 0.5, random.uniform(-0.3, 0.9, 1000)) + 1j * random.uniform(-0.2, 0.2, 1000)
    wide = np.power(z.astype(np.clongdouble), w.astype(np.clongdouble))
    found = run("power", ["c128"] * 2, "c128", "host", 1, z, w)
    assert (np.abs(found - wide) <= 2e-13 * np.abs(wide)).all()
    bases = np.array([0j, 0j, 5e-324 + 0j, 5e-324 + 0j])
    found = run("power", ["c128"] * 2, "c128", "host", 1, bases, np.array([2 + 0j, 0, 0, 2]))
    np.testing.assert_array_equal(found, [0, 1, 1, 0])


@pytest.mark.parametrize(("element_type", "far"), [("c64", 60.0), ("c128", 500.0)])
def test_powers_of_complex_numbers_are_in_range_where_their_factors_are_not(element_type: str, far: float) -> None:
    """|z|^c is too large, or too small, and e^(-d arg z) the other way around."""
    random, dtype = np.random.default_rng(8), dtype_of(element_type)
    turn = random.choice([-1, 1], 400)
    z = np.exp(random.uniform(10, 30, 400) + 1j * random.uniform(1, 3, 400)).astype(dtype)
    c = random.choice([-1, 1], 400) * random.uniform(far / 4, far, 400) / 5
    d = (c * np.log(np.abs(z)) + turn * random.uniform(0, far / 2, 400)) / np.angle(z)
    w = (c + 1j * d).astype(dtype)
    wide = np.power(z.astype(np.clongdouble), w.astype(np.clongdouble))
    found = run("power", [element_type] * 2, element_type, "host", 1, z, w)
    exponents = 4 + np.abs(w) * np.abs(np.log(z))  # their rounding is all that is lost
    assert (np.abs(found - wide) <= 4 * np.finfo(dtype).eps * exponents * np.abs(wide)).all()
    least = np.finfo(dtype).tiny
    sizes = np.abs(z).astype(np.longdouble) ** w.real
    assert np.count_nonzero((sizes > np.finfo(dtype).max) | (sizes < least)) > 50
    found = run("power", [element_type] * 2, element_type, "host", 1, z[:1], np.array([1e3 + 1e9j], dtype))
    np.testing.assert_array_equal(found, [0])


@pytest.mark.parametrize("element_type", PARTS)
def test_logistic_of_complex_numbers_far_from_zero(element_type: str) -> None:
    """Tiny results, and zeros and ones beyond: in code and in the evaluator."""
    dtype = dtype_of(element_type)
    reach = -np.log(np.finfo(dtype).tiny) + 4
    real = np.array([-1, 1, -0.98, 0.98, -1e30, 1e30, -np.inf, np.inf]) * np.where(np.arange(8) < 4, reach, 1)
    z = (real + np.array([1, -2, 0.5, 3, 1, 1, 1, 1]) * 1j).astype(dtype)
    power = np.exp(np.where(z.real < 0, z, -z).astype(np.clongdouble))
    want = np.where(z.real < 0, power, 1) / (1 + power)
    text = f"ENTRY e {{ z = {element_type}[8] parameter(0)\n ROOT r = {element_type}[8] logistic(z) }}"
    for found in (run("logistic", [element_type], element_type, "host", 1, z), evaluate(parse(text), [z])[0]):
        assert (np.abs(found - want) <= 1e-5 * np.abs(want) + 2 * np.finfo(dtype).smallest_subnormal).all()
