"""Functions of elements: most are a line of a table, an opcode and what it takes."""

from __future__ import annotations

import math
import operator as pyop
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy

from hlotool.ir import ELEMENT_TYPES
from hlotool.ir import array as hlo_array
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import DType, hlo_type, kind_of
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.outputs import written
from hlotool.numpy.trace import apply, is_scalar, shape_of

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "divide",
    "divmod",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "imag",
    "invert",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "nan_to_num",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
]  # fmt: skip


# ---- for the bodies of functions


def expand(value: Array, shape: tuple[int, ...]) -> Array:
    """`value` broadcast to `shape`, in a trace."""
    own = value.shape
    if own == shape:
        return value
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)):
        raise value_error(f"an array of shape {own} cannot be broadcast to {shape}")
    lead = len(shape) - len(own)
    kept = [n for n, size in enumerate(own) if size == shape[lead + n]]
    element_type = shape_of(value).element_type
    if len(kept) < len(own):
        value = apply("reshape", value, shape=hlo_array(element_type, [own[n] for n in kept]), weak=value._weak)
    dimensions = tuple(lead + n for n in kept)
    return apply("broadcast", value, shape=hlo_array(element_type, shape), weak=value._weak, dimensions=dimensions)


def common_shape(values: tuple[Array, ...]) -> tuple[int, ...]:
    """The shape that arrays are broadcast to when they meet."""
    try:
        return numpy.broadcast_shapes(*[value.shape for value in values])
    except ValueError as error:
        listed = " and ".join(str(value.shape) for value in values)
        raise value_error(f"arrays of shapes {listed} cannot be broadcast together") from error


def broadcast_together(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """All of them with the shape that they have in common, in a trace."""
    first = values[0].shape
    if all(value.shape == first for value in values):
        return values
    shape = common_shape(values)
    return tuple(expand(value, shape) for value in values)


def elementwise(opcode: str, *values: Any, **attributes: Any) -> Array:
    """An elementwise opcode of values that are promoted and broadcast, in a trace."""
    arrays = as_arrays(*values)
    return apply(opcode, *broadcast_together(arrays), weak=arrays[0]._weak, **attributes)


def as_floats(*values: Any) -> tuple[Array, ...]:
    """`as_arrays`, and integers become the floats that NumPy's functions make of them."""
    arrays = as_arrays(*values)
    target = float_type(arrays[0].dtype)
    return tuple(_weak_like(convert(value, target), value) for value in arrays)


def float_type(dtype: DType) -> DType:
    """The float type of a function of integers: f64 for those of 32 bits and more."""
    if kind_of(dtype) in ("float", "complex"):
        return dtype
    bits = ELEMENT_TYPES[hlo_type(dtype)].bits
    return numpy.dtype(numpy.float16 if bits <= 8 else numpy.float32 if bits == 16 else numpy.float64)


def _weak_like(value: Array, like: Array) -> Array:
    return value if value._weak == like._weak else Array(value._value, value._trace, weak=like._weak)


def _kind(value: Array) -> str:
    return kind_of(value.dtype)


def constant_like(value: Array, number: Any) -> Array:
    """`number` in the type and shape of `value`, in a trace."""
    return expand(Array(numpy.asarray(number, value.dtype)), value.shape)


def not_zero(value: Array) -> Array:
    """The truth of elements."""
    if _kind(value) == "pred":
        return value
    return apply("compare", value, constant_like(value, 0), direction="NE")


def bits_of(value: Array) -> Array:
    """The bits of floats, as signed integers."""
    element_type = f"s{value.dtype.itemsize * 8}"
    return apply("bitcast-convert", value, shape=hlo_array(element_type, value.shape))


def with_bits(bits: Array, dtype: DType) -> Array:
    """Floats that have these bits."""
    return apply("bitcast-convert", bits, shape=hlo_array(hlo_type(dtype), bits.shape))


def _named(body: Callable[..., Array], name: str, says: str) -> Callable[..., Array]:
    body.__name__ = body.__qualname__ = name
    body.__doc__ = says
    return body


def _require(name: str, values: tuple[Array, ...], kinds: tuple[str, ...]) -> None:
    if _kind(values[0]) not in kinds:
        raise type_error(f"{name} is not for arrays of {values[0].dtype}")


_NUMBERS = ("unsigned", "signed", "float", "complex")
_REAL = ("pred", "unsigned", "signed", "float")
_BITS = ("pred", "unsigned", "signed")
_ANY = ("pred", *_NUMBERS)


# ---- functions that are an opcode


def _float_function(name: str, opcode: str, says: str, kinds: tuple[str, ...] = _ANY) -> Callable[..., Array]:
    def body(x: Any, /) -> Array:
        found = as_floats(x)
        _require(name, found, kinds)
        return elementwise(opcode, *found)

    return operation("x")(_named(body, name, says))


def _binary(name: str, opcode: str, says: str, kinds: tuple[str, ...] = _ANY) -> Callable[..., Array]:
    def body(x1: Any, x2: Any, /) -> Array:
        found = as_arrays(x1, x2)
        _require(name, found, kinds)
        return elementwise(opcode, *found)

    return operation("x1", "x2")(_named(body, name, says))


def _comparison(name: str, direction: str, says: str, kinds: tuple[str, ...] = _REAL) -> Callable[..., Array]:
    def body(x1: Any, x2: Any, /) -> Array:
        found = as_arrays(x1, x2)
        _require(name, found, kinds)
        return apply("compare", *broadcast_together(found), direction=direction)

    def beyond(x1: Any, x2: Any, /) -> Array:
        array, answer = (x1, (0, x2)) if is_scalar(x2) else (x2, (x1, 0))
        return _full_like(array, _UNEQUAL[direction](*answer))

    return operation("x1", "x2", beyond=beyond)(_named(body, name, says))


_UNEQUAL = {"EQ": pyop.eq, "NE": pyop.ne, "LT": pyop.lt, "LE": pyop.le, "GT": pyop.gt, "GE": pyop.ge}
"""What compares numbers; of one that no integer of a type is, the answer is that of 0."""


@operation("x")
def _full_like(x: Any, value: bool, /) -> Array:
    return _everywhere(as_arrays(x)[0], value)


def _logical(name: str, opcode: str, says: str) -> Callable[..., Array]:
    def body(x1: Any, x2: Any, /) -> Array:
        pair = tuple(not_zero(as_arrays(x)[0]) for x in (x1, x2))
        return apply(opcode, *broadcast_together(pair))

    return operation("x1", "x2")(_named(body, name, says))


def _rounding(name: str, opcode: str, says: str) -> Callable[..., Array]:
    def body(x: Any, /) -> Array:
        (found,) = as_arrays(x)
        _require(name, (found,), _REAL)
        return elementwise(opcode, found) if _kind(found) == "float" else found

    return operation("x")(_named(body, name, says))


acos = _float_function("acos", "acos", "The inverse cosine.")
acosh = _float_function("acosh", "acosh", "The inverse hyperbolic cosine.")
asin = _float_function("asin", "asin", "The inverse sine.")
asinh = _float_function("asinh", "asinh", "The inverse hyperbolic sine.")
atanh = _float_function("atanh", "atanh", "The inverse hyperbolic tangent.")
cos = _float_function("cos", "cosine", "The cosine.")
cosh = _float_function("cosh", "cosh", "The hyperbolic cosine.")
exp = _float_function("exp", "exponential", "e to the power of each element.")
expm1 = _float_function("expm1", "exponential-minus-one", "exp(x) - 1, accurate near 0.")
log = _float_function("log", "log", "The natural logarithm.")
log1p = _float_function("log1p", "log-plus-one", "log(1 + x), accurate near 0.")
sin = _float_function("sin", "sine", "The sine.")
sinh = _float_function("sinh", "sinh", "The hyperbolic sine.")
sqrt = _float_function("sqrt", "sqrt", "The square root.")
tan = _float_function("tan", "tan", "The tangent.")
tanh = _float_function("tanh", "tanh", "The hyperbolic tangent.")
cbrt = _float_function("cbrt", "cbrt", "The cubic root.", _REAL)

add = _binary("add", "add", "The sum; of bools, whether one is true.")
subtract = _binary("subtract", "subtract", "The difference.", _NUMBERS)
multiply = _binary("multiply", "multiply", "The product.")
maximum = _binary("maximum", "maximum", "The greater one; nan where one is nan.", _REAL)
minimum = _binary("minimum", "minimum", "The smaller one; nan where one is nan.", _REAL)
bitwise_and = _binary("bitwise_and", "and", "Bits that both have.", _BITS)
bitwise_or = _binary("bitwise_or", "or", "Bits that one has.", _BITS)
bitwise_xor = _binary("bitwise_xor", "xor", "Bits that exactly one has.", _BITS)

equal = _comparison("equal", "EQ", "Whether elements are equal.", _ANY)
not_equal = _comparison("not_equal", "NE", "Whether elements differ.", _ANY)
less = _comparison("less", "LT", "x1 < x2.")
less_equal = _comparison("less_equal", "LE", "x1 <= x2.")
greater = _comparison("greater", "GT", "x1 > x2.")
greater_equal = _comparison("greater_equal", "GE", "x1 >= x2.")

logical_and = _logical("logical_and", "and", "Whether both are true.")
logical_or = _logical("logical_or", "or", "Whether one is true.")
logical_xor = _logical("logical_xor", "xor", "Whether exactly one is true.")

ceil = _rounding("ceil", "ceil", "The least whole number that is not below.")
floor = _rounding("floor", "floor", "The greatest whole number that is not above.")


@operation("x")
def rint(x: Any, /) -> Array:
    """The nearest whole number, of two the even one, as a float."""
    return round(as_floats(x)[0])


# ---- arithmetic


@operation("x")
def abs(x: Any, /) -> Array:
    """The absolute value; of complex numbers their length."""
    (found,) = as_arrays(x)
    return found if _kind(found) in ("pred", "unsigned") else elementwise("abs", found)


@operation("x")
def negative(x: Any, /) -> Array:
    """-x; of unsigned integers what adds up to 0."""
    (found,) = as_arrays(x)
    _require("negative", (found,), _NUMBERS)
    return elementwise("negate", found)


@operation("x")
def positive(x: Any, /) -> Array:
    """x."""
    return as_arrays(x)[0]


@operation("x")
def square(x: Any, /) -> Array:
    """x * x."""
    (found,) = as_arrays(x)
    return elementwise("multiply", found, found)


@operation("x")
def reciprocal(x: Any, /) -> Array:
    """1 / x."""
    (found,) = as_floats(x)
    return elementwise("divide", constant_like(found, 1), found)


@operation("x")
def sign(x: Any, /) -> Array:
    """-1, 0 or 1; of complex numbers x / abs(x)."""
    (found,) = as_arrays(x)
    _require("sign", (found,), _NUMBERS)
    if _kind(found) == "unsigned":
        return convert(not_zero(found), found.dtype)
    made = elementwise("sign", found)
    if _kind(found) == "complex":
        made = _with_signs_of_infinities(found, made)
    return made if _kind(found) == "signed" else where(not_zero(found), made, constant_like(found, 0))


def _with_signs_of_infinities(value: Array, signs: Array) -> Array:
    """`signs` of complex numbers, and of those with one infinite part, beside a number, the sign of that, which alone
    counts."""
    parts = [apply(part, value) for part in ("real", "imag")]
    infinite = [apply("compare", apply("abs", one), constant_like(one, numpy.inf), direction="EQ") for one in parts]
    own = [
        where(which, apply("sign", one), apply("multiply", one, constant_like(one, 0)))
        for which, one in zip(infinite, parts, strict=True)
    ]
    numbers = apply("compare", value, value, direction="EQ")
    return where(apply("and", apply("compare", *infinite, direction="NE"), numbers), apply("complex", *own), signs)


def _divide_wide(x1: Any, x2: Any, /) -> Array:
    """Integers by a number that is none of their type, or such a number by them: as floats."""
    return divide(*[float(one) if is_scalar(one) else _in_f64(one) for one in (x1, x2)])


@operation("x")
def _in_f64(x: Any, /) -> Array:
    return convert(as_arrays(x)[0], numpy.dtype(numpy.float64))


@operation("x1", "x2", beyond=_divide_wide)
def divide(x1: Any, x2: Any, /) -> Array:
    """The quotient, a float of integers, too."""
    arrays = as_arrays(x1, x2)
    if _kind(arrays[0]) not in ("float", "complex"):
        arrays = tuple(_weak_like(convert(one, numpy.dtype(numpy.float64)), one) for one in arrays)
    return elementwise("divide", *arrays)


def _negative(value: Array) -> Array:
    return apply("compare", value, constant_like(value, 0), direction="LT")


def _is(value: Array, number: Any) -> Array:
    return apply("compare", value, constant_like(value, number), direction="EQ")


def _floor_parts(x1: Any, x2: Any, name: str) -> tuple[Array, Array]:
    """The quotient that is rounded down, and the remainder with the sign of the divisor, as Python has them."""
    arrays = as_arrays(x1, x2)
    if _kind(arrays[0]) == "pred":
        arrays = tuple(convert(one, numpy.dtype(numpy.int8)) for one in arrays)
    _require(name, arrays, _REAL)
    a, b = broadcast_together(arrays)
    rest = apply("remainder", a, b)
    if _kind(a) == "float":
        return _float_parts(a, b, rest)
    zero, nothing = _is(b, 0), constant_like(a, 0)
    quotient = apply("divide", a, b)
    if _kind(a) == "signed":
        wrong = apply("and", apply("not", _is(rest, 0)), apply("xor", _negative(rest), _negative(b)))
        quotient = apply("subtract", quotient, convert(wrong, a.dtype))
        rest = apply("select", wrong, apply("add", rest, b), rest)
    return apply("select", zero, nothing, quotient), apply("select", zero, nothing, rest)


def _float_parts(a: Array, b: Array, rest: Array) -> tuple[Array, Array]:
    wrong = apply("and", apply("not", _is(rest, 0)), apply("xor", _negative(rest), _negative(b)))
    quotient = apply("divide", apply("subtract", a, rest), b)
    quotient = apply("select", wrong, apply("subtract", quotient, constant_like(a, 1)), quotient)
    rest = apply("select", wrong, apply("add", rest, b), rest)
    rest = apply("select", _is(rest, 0), _copysign(constant_like(a, 0), b), rest)
    whole = apply("floor", quotient)
    above = apply("compare", apply("subtract", quotient, whole), constant_like(a, 0.5), direction="GT")
    whole = apply("select", above, apply("add", whole, constant_like(a, 1)), whole)
    exact = apply("divide", a, b)
    whole = apply("select", _is(quotient, 0), _copysign(constant_like(a, 0), exact), whole)
    return apply("select", _is(b, 0), exact, whole), rest


@operation("x1", "x2")
def floor_divide(x1: Any, x2: Any, /) -> Array:
    """The quotient, rounded down; of integers by 0 it is 0."""
    return _weak_of(_floor_parts(x1, x2, "floor_divide")[0], x1, x2)


@operation("x1", "x2")
def remainder(x1: Any, x2: Any, /) -> Array:
    """What a division that rounds down leaves: it has the sign of the divisor; of integers by 0 it is 0."""
    return _weak_of(_floor_parts(x1, x2, "remainder")[1], x1, x2)


@operation("x1", "x2")
def divmod(x1: Any, x2: Any, /) -> tuple[Array, Array]:
    """``floor_divide`` and ``remainder``."""
    return _floor_parts(x1, x2, "divmod")


def _weak_of(value: Array, *sources: Any) -> Array:
    """`value`, which gives way if all of `sources` do."""
    weak = all(is_scalar(one) or (isinstance(one, Array) and one._weak) for one in sources)
    return Array(value._value, value._trace, weak=weak)


@operation("x1", "x2")
def fmod(x1: Any, x2: Any, /) -> Array:
    """The remainder with the sign of the dividend; of integers by 0 it is 0."""
    arrays = as_arrays(x1, x2)
    _require("fmod", arrays, ("unsigned", "signed", "float"))
    a, b = broadcast_together(arrays)
    rest = apply("remainder", a, b)
    return rest if _kind(a) == "float" else apply("select", _is(b, 0), constant_like(a, 0), rest)


@operation("x1", "x2")
def _pow(x1: Any, x2: Any, /) -> Array:
    return elementwise("power", x1, x2)


@operation("x")
def _cube(x: Any, /) -> Array:
    (found,) = as_arrays(x)
    return elementwise("multiply", elementwise("multiply", found, found), found)


def pow(x1: Any, x2: Any, /, out: Any = None, *, where: Any = True) -> Array:
    """x1 to the power of x2.  Integers must not have negative exponents."""
    if out is not None or where is not True:
        return written(out, pow(x1, x2), where)  # type: ignore[no-any-return]
    if isinstance(x2, int) and not isinstance(x2, bool) and not is_scalar(x1):
        if x2 == 2:
            return square(x1)
        if x2 == 3:
            return _cube(x1)
        if x2 < 0 and isinstance(x1, (Array, numpy.ndarray)) and kind_of(x1.dtype) not in ("float", "complex"):
            raise value_error(f"integers to the power of {x2} are no integers", "make the base an array of floats")
    if isinstance(x1, (Array, numpy.ndarray)) and x1.dtype == numpy.bool_:
        x1 = _widened(x1)
    return _pow(x1, x2)


@operation("x")
def _widened(x: Any, /) -> Array:
    return convert(as_arrays(x)[0], numpy.dtype(numpy.int8))


def float_power(x1: Any, x2: Any, /, out: Any = None, *, where: Any = True) -> Array:
    """x1 to the power of x2, as floats of 64 bits at least."""
    found = _pow(divide(x1, numpy.float64(1)), x2)
    return found if out is None and where is True else written(out, found, where)


# ---- bits


def _shift(name: str, opcode: str, says: str) -> Callable[..., Array]:
    def body(x1: Any, x2: Any, /) -> Array:
        found = as_arrays(x1, x2)
        _require(name, found, ("unsigned", "signed"))
        logical = opcode == "shift-right-arithmetic" and _kind(found[0]) == "unsigned"
        return elementwise("shift-right-logical" if logical else opcode, *found)

    return operation("x1", "x2")(_named(body, name, says))


bitwise_left_shift = _shift("bitwise_left_shift", "shift-left", "Bits moved up.")
bitwise_right_shift = _shift("bitwise_right_shift", "shift-right-arithmetic", "Bits moved down; the sign stays.")


@operation("x")
def bitwise_invert(x: Any, /) -> Array:
    """All bits turned over; of bools what is false."""
    (found,) = as_arrays(x)
    _require("bitwise_invert", (found,), _BITS)
    return elementwise("not", found)


@operation("x")
def logical_not(x: Any, /) -> Array:
    """Whether elements are false."""
    return apply("not", not_zero(as_arrays(x)[0]))


# ---- questions


def _everywhere(value: Array, answer: bool) -> Array:
    return expand(Array(numpy.asarray(answer)), value.shape)


@operation("x")
def isnan(x: Any, /) -> Array:
    """Whether elements are nan."""
    (found,) = as_arrays(x)
    if _kind(found) not in ("float", "complex"):
        return _everywhere(found, False)
    return apply("compare", found, found, direction="NE")


@operation("x")
def isfinite(x: Any, /) -> Array:
    """Whether elements are neither nan nor infinite."""
    (found,) = as_arrays(x)
    if _kind(found) == "complex":
        return apply("and", *[apply("is-finite", apply(part, found)) for part in ("real", "imag")])
    return apply("is-finite", found) if _kind(found) == "float" else _everywhere(found, True)


@operation("x")
def isinf(x: Any, /) -> Array:
    """Whether elements are infinite."""
    (found,) = as_arrays(x)
    if _kind(found) == "complex":
        return apply("or", *[isinf(apply(part, found)) for part in ("real", "imag")])
    if _kind(found) != "float":
        return _everywhere(found, False)
    return apply("not", apply("or", isnan(found), apply("is-finite", found)))


@operation("x")
def signbit(x: Any, /) -> Array:
    """Whether the sign is that of negative numbers; -0.0 has it, and nan may have it."""
    (found,) = as_floats(x)
    _require("signbit", (found,), ("float",))
    return _negative(bits_of(found))


# ---- complex numbers


@operation("x")
def real(x: Any, /) -> Array:
    """The real part."""
    (found,) = as_arrays(x)
    return apply("real", found) if _kind(found) == "complex" else found


@operation("x")
def imag(x: Any, /) -> Array:
    """The imaginary part."""
    (found,) = as_arrays(x)
    return apply("imag", found) if _kind(found) == "complex" else constant_like(found, 0)


@operation("x")
def conj(x: Any, /) -> Array:
    """The conjugate."""
    (found,) = as_arrays(x)
    if _kind(found) != "complex":
        return found
    return apply("complex", apply("real", found), apply("negate", apply("imag", found)))


# ---- floats


def _copysign(value: Array, sign_of: Array) -> Array:
    dtype = value.dtype
    size = numpy.dtype(f"int{dtype.itemsize * 8}")
    top = numpy.iinfo(size).min
    bits, other = bits_of(value), bits_of(sign_of)
    own = apply("and", bits, constant_like(bits, ~top))
    return with_bits(apply("or", own, apply("and", other, constant_like(other, top))), dtype)


@operation("x1", "x2")
def copysign(x1: Any, x2: Any, /) -> Array:
    """x1 with the sign of x2."""
    arrays = as_floats(x1, x2)
    _require("copysign", arrays, ("float",))
    return _copysign(*broadcast_together(arrays))


@operation("x1", "x2")
def nextafter(x1: Any, x2: Any, /) -> Array:
    """The next float from x1 towards x2."""
    arrays = as_floats(x1, x2)
    _require("nextafter", arrays, ("float",))
    a, b = broadcast_together(arrays)
    bits = bits_of(a)
    one = constant_like(bits, 1)
    away = apply("xor", apply("compare", a, b, direction="GT"), _negative(a))  # towards 0 in magnitude
    stepped = with_bits(apply("select", away, apply("subtract", bits, one), apply("add", bits, one)), a.dtype)
    least = _copysign(with_bits(one, a.dtype), b)
    moved = apply("select", _is(a, 0), least, stepped)
    same = apply("select", apply("compare", a, b, direction="EQ"), b, moved)
    return apply("select", apply("or", isnan(a), isnan(b)), apply("add", a, b), same)


@operation("x1", "x2")
def atan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1)."""
    arrays = as_floats(x1, x2)
    _require("atan2", arrays, ("float",))
    return elementwise("atan2", *arrays)


@operation("x")
def atan(x: Any, /) -> Array:
    """The inverse tangent."""
    (found,) = as_floats(x)
    if _kind(found) != "complex":
        return elementwise("atan2", found, constant_like(found, 1))
    turned = apply("complex", apply("negate", apply("imag", found)), apply("real", found))
    result = apply("atanh", turned)  # atan(z) = -i atanh(iz)
    return apply("complex", apply("imag", result), apply("negate", apply("real", result)))


@operation("x1", "x2")
def hypot(x1: Any, x2: Any, /) -> Array:
    """sqrt(x1**2 + x2**2), without overflow on the way."""
    arrays = as_floats(x1, x2)
    _require("hypot", arrays, ("float",))
    a, b = (apply("abs", one) for one in broadcast_together(arrays))
    large, small = apply("maximum", a, b), apply("minimum", a, b)
    ratio = apply("divide", small, apply("select", _is(large, 0), constant_like(a, 1), large))
    root = apply("sqrt", apply("add", constant_like(a, 1), apply("multiply", ratio, ratio)))
    length = apply("multiply", large, root)
    return apply("select", apply("or", isinf(a), isinf(b)), constant_like(a, math.inf), length)


def _wide(value: Array) -> Array:
    """Narrow floats as f32, in which a function of several steps is computed."""
    return convert(value, numpy.dtype(numpy.float32)) if value.dtype.itemsize < 4 else value


@operation("x")
def log2(x: Any, /) -> Array:
    """The logarithm to the base of 2; exact for its powers."""
    (found,) = as_floats(x)
    if _kind(found) == "complex":
        return _scaled_log(found, 1 / math.log(2))
    value = _wide(found)
    mantissa, exponent = _split(value)
    large = apply("compare", mantissa, constant_like(value, math.sqrt(2)), direction="GT")
    half = apply("multiply", mantissa, constant_like(value, 0.5))
    mantissa = apply("select", large, half, mantissa)
    exponent = apply("add", exponent, convert(large, value.dtype))
    part = apply("multiply", apply("log", mantissa), constant_like(value, 1 / math.log(2)))
    usual = apply("and", apply("is-finite", value), apply("compare", value, constant_like(value, 0), direction="GT"))
    return _weak_like(convert(apply("select", usual, apply("add", exponent, part), apply("log", value)), found.dtype),
                      found)


def _scaled_log(value: Array, factor: float) -> Array:
    """The logarithm of complex numbers times a real number, part by part: one may be infinite."""
    whole = apply("log", value)
    parts = [apply(part, whole) for part in ("real", "imag")]
    return apply("complex", *[apply("multiply", part, constant_like(part, factor)) for part in parts])


def _split(value: Array) -> tuple[Array, Array]:
    """Positive floats as a number from 1 to 2 and a power of 2."""
    double = value.dtype.itemsize == 8
    width, bias = (52, 1023) if double else (23, 127)
    tiny = apply("compare", value, constant_like(value, numpy.finfo(value.dtype).tiny), direction="LT")
    value = apply("select", tiny, apply("multiply", value, constant_like(value, 2.0**64)), value)
    bits = bits_of(value)
    exponent = apply("subtract", apply("shift-right-logical", bits, constant_like(bits, width)),
                     constant_like(bits, bias))
    below = apply("select", tiny, constant_like(bits, 64), constant_like(bits, 0))
    kept = apply("and", bits, constant_like(bits, (1 << width) - 1))
    mantissa = with_bits(apply("or", kept, constant_like(bits, bias << width)), value.dtype)
    return mantissa, convert(apply("subtract", exponent, below), value.dtype)


@operation("x")
def log10(x: Any, /) -> Array:
    """The logarithm to the base of 10."""
    (found,) = as_floats(x)
    if _kind(found) == "complex":
        return _scaled_log(found, 1 / math.log(10))
    value = _wide(found)
    return _weak_like(convert(apply("divide", apply("log", value), constant_like(value, math.log(10))), found.dtype),
                      found)


@operation("x")
def exp2(x: Any, /) -> Array:
    """2 to the power of each element."""
    (found,) = as_floats(x)
    if _kind(found) == "complex":
        parts = [apply(part, found) for part in ("real", "imag")]
        scaled = [apply("multiply", part, constant_like(part, math.log(2))) for part in parts]
        return apply("exponential", apply("complex", *scaled))
    return elementwise("power", constant_like(found, 2), found)


def _add_exponentials(x1: Any, x2: Any, scale: float) -> Array:
    arrays = as_floats(x1, x2)
    _require("logaddexp", arrays, ("float",))
    a, b = broadcast_together(arrays)
    apart = apply("negate", apply("abs", apply("subtract", a, b)))
    if scale != 1:
        apart = apply("multiply", apart, constant_like(a, scale))
    more = apply("log-plus-one", apply("exponential", apart))
    if scale != 1:
        more = apply("divide", more, constant_like(a, scale))
    same = apply("add", a, constant_like(a, math.log(2) / scale))
    return apply("select", apply("compare", a, b, direction="EQ"), same, apply("add", apply("maximum", a, b), more))


@operation("x1", "x2")
def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(exp(x1) + exp(x2)), without overflow on the way."""
    return _add_exponentials(x1, x2, 1)


@operation("x1", "x2")
def logaddexp2(x1: Any, x2: Any, /) -> Array:
    """log2(2**x1 + 2**x2), without overflow on the way."""
    return _add_exponentials(x1, x2, math.log(2))


@operation("x")
def trunc(x: Any, /) -> Array:
    """The whole number on the side of 0."""
    (found,) = as_arrays(x)
    _require("trunc", (found,), _REAL)
    if _kind(found) != "float":
        return found
    return _weak_like(apply("select", _negative(found), apply("ceil", found), apply("floor", found)), found)


@operation("x")
def round(x: Any, /, decimals: int = 0) -> Array:
    """The nearest number with so many `decimals`, of two the even one."""
    (found,) = as_arrays(x)
    if _kind(found) == "complex":
        return apply("complex", *[round(apply(part, found), decimals) for part in ("real", "imag")])
    if _kind(found) != "float":
        if decimals < 0:
            raise type_error("round to tens is for floats")
        return found
    if not decimals:
        return elementwise("round-nearest-even", found)
    scale = constant_like(found, 10.0 ** builtin_abs(decimals))
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return elementwise(back, apply("round-nearest-even", apply(there, found, scale)), scale)


def builtin_abs(value: int) -> int:
    return value if value >= 0 else -value


def _ignoring_nan(name: str, opcode: str) -> Callable[..., Array]:
    def body(x1: Any, x2: Any, /) -> Array:
        arrays = as_arrays(x1, x2)
        _require(name, arrays, _REAL)
        a, b = broadcast_together(arrays)
        found = apply(opcode, a, b)
        if _kind(a) != "float":
            return found
        return apply("select", isnan(a), b, apply("select", isnan(b), a, found))

    return operation("x1", "x2")(_named(body, name, f"The {opcode}; where one is nan, the other."))


fmax = _ignoring_nan("fmax", "maximum")
fmin = _ignoring_nan("fmin", "minimum")


@operation("x1", "x2")
def heaviside(x1: Any, x2: Any, /) -> Array:
    """0 for negative x1, 1 for positive ones, x2 where x1 is 0."""
    arrays = as_floats(x1, x2)
    _require("heaviside", arrays, ("float",))
    a, b = broadcast_together(arrays)
    step = apply("select", _negative(a), constant_like(a, 0), constant_like(a, 1))
    return apply("select", isnan(a), a, apply("select", _is(a, 0), b, step))


@operation("x")
def sinc(x: Any, /) -> Array:
    """sin(pi x) / (pi x), 1 at 0."""
    (given,) = as_arrays(x)
    found = given if _kind(given) in ("float", "complex") else convert(given, numpy.dtype(numpy.float64))
    angle = elementwise("multiply", found, constant_like(found, math.pi))
    safe = apply("select", _is(angle, 0), constant_like(found, 1), angle)
    return apply("select", _is(angle, 0), constant_like(found, 1), apply("divide", apply("sine", safe), safe))


@operation("x")
def deg2rad(x: Any, /) -> Array:
    """Degrees as radians."""
    (found,) = as_floats(x)
    _require("deg2rad", (found,), ("float",))
    return elementwise("multiply", found, constant_like(found, math.pi / 180))


@operation("x")
def rad2deg(x: Any, /) -> Array:
    """Radians as degrees."""
    (found,) = as_floats(x)
    _require("rad2deg", (found,), ("float",))
    return elementwise("multiply", found, constant_like(found, 180 / math.pi))


@operation("x")
def fabs(x: Any, /) -> Array:
    """The absolute value, as a float."""
    (found,) = as_floats(x)
    _require("fabs", (found,), ("float",))
    return elementwise("abs", found)


# ---- choosing


@operation("condition", "x1", "x2")
def _where(condition: Any, x1: Any, x2: Any, /) -> Array:
    arrays = as_arrays(x1, x2)
    chosen, a, b = broadcast_together((not_zero(as_arrays(condition)[0]), *arrays))
    return apply("select", chosen, a, b, weak=arrays[0]._weak)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """x1 where `condition` is true, and x2 elsewhere."""
    return _where(condition, x1, x2)


def clip(
    x: Any, /, min: Any = None, max: Any = None, out: Any = None, *, a_min: Any = None, a_max: Any = None
) -> Array:
    """x, but `min` below that, and `max` above that (NumPy's `a_min` and `a_max`)."""
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    return _clip(x, low, high) if out is None else _clip(x, low, high, out=out)  # type: ignore[call-arg]


@operation("x", "min", "max")
def _clip(x: Any, min: Any, max: Any, /) -> Array:
    given = [one for one in (x, min, max) if one is not None]
    arrays = list(broadcast_together(as_arrays(*given)))
    _require("clip", tuple(arrays), _REAL)
    found = arrays.pop(0)
    if min is not None:
        found = elementwise("maximum", found, arrays.pop(0))
    return found if max is None else elementwise("minimum", found, arrays.pop(0))


@operation("x")
def nan_to_num(x: Any, /, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Array:
    """Numbers in the place of nan and infinities: the largest where none is given."""
    (found,) = as_arrays(x)
    if _kind(found) == "complex":
        parts = [nan_to_num(apply(part, found), copy, nan, posinf, neginf) for part in ("real", "imag")]
        return apply("complex", *parts)
    if _kind(found) != "float":
        return found
    largest = _largest(found.dtype)
    high = constant_like(found, largest if posinf is None else posinf)
    low = constant_like(found, -largest if neginf is None else neginf)
    bounded = apply("select", _is(found, math.inf), high, apply("select", _is(found, -math.inf), low, found))
    return apply("select", isnan(found), constant_like(found, nan), bounded)


def _largest(dtype: DType) -> float:
    info: Any = ml_dtypes.finfo
    return float(info(dtype).max)


@operation("a", "b")
def isclose(a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether ``abs(a - b) <= atol + rtol * abs(b)``."""
    first, second = broadcast_together(as_floats(a, b))
    size, apart = apply("abs", second), apply("abs", apply("subtract", first, second))
    bound = apply("add", constant_like(size, atol), apply("multiply", constant_like(size, rtol), size))
    near = apply("and", apply("compare", apart, bound, direction="LE"), isfinite(second))
    same = apply("or", near, apply("compare", first, second, direction="EQ"))
    return apply("or", same, apply("and", isnan(first), isnan(second))) if equal_nan else same


# ---- other names

absolute, conjugate, mod, power, true_divide, invert = abs, conj, remainder, pow, divide, bitwise_invert
arccos, arccosh, arcsin, arcsinh = acos, acosh, asin, asinh
arctan, arctan2, arctanh = atan, atan2, atanh
bitwise_not, left_shift, right_shift = bitwise_invert, bitwise_left_shift, bitwise_right_shift
degrees, radians, fix = rad2deg, deg2rad, trunc
