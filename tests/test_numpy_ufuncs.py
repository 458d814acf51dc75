"""NumPy's ufuncs on arrays of hlotool.numpy: their methods and arguments, at once and in traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np

X = numpy.arange(12.0).reshape(3, 4) - 3
MASK = X % 2 == 0
CASES: dict[str, Callable[[Any], Any]] = {
    "reduce": lambda x: numpy.add.reduce(x),
    "reduce of several axes": lambda x: numpy.multiply.reduce(x, axis=(0, 1), keepdims=True),
    "reduce with where": lambda x: numpy.add.reduce(x, axis=1, where=MASK),
    "reduce with initial": lambda x: numpy.maximum.reduce(x, axis=0, initial=-1, where=MASK),
    "reduce of a type": lambda x: numpy.add.reduce(x, axis=None, dtype=numpy.float32),
    "reduce from the left": lambda x: numpy.subtract.reduce(x, axis=1),
    "reduce of bits": lambda x: numpy.bitwise_xor.reduce(x.astype(int), axis=0),
    "accumulate": lambda x: numpy.add.accumulate(x, axis=1),
    "accumulate products": lambda x: numpy.multiply.accumulate(x),
    "accumulate maxima": lambda x: numpy.maximum.accumulate(-x, axis=1),
    "outer": lambda x: numpy.subtract.outer(x[0], x),
    "outer with numbers": lambda x: numpy.add.outer(x[0], numpy.ones(2)),
    "a type": lambda x: numpy.add(x, 1, dtype=numpy.float32),
    "two results": lambda x: numpy.divmod(x, 3),
    "sum": lambda x: numpy.sum(x, axis=0, where=MASK, initial=3),
    "prod": lambda x: numpy.prod(x, axis=1, where=MASK),
    "mean": lambda x: numpy.mean(x, axis=0, where=MASK),
    "var": lambda x: numpy.var(x, axis=1, where=MASK, ddof=1, keepdims=True),
    "std": lambda x: numpy.std(x, where=MASK[0]),
    "max": lambda x: numpy.max(x, where=MASK, initial=0),
    "min": lambda x: numpy.min(x, axis=0, initial=1),
    "any": lambda x: numpy.any(x, where=MASK, axis=1),
    "all": lambda x: numpy.all(x, where=MASK),
    "singular values": lambda x: numpy.linalg.svd(x, compute_uv=False),
    "ldexp": lambda x: numpy.ldexp(x, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_as_numpy_does(name: str) -> None:
    wanted = CASES[name](X)
    agree(CASES[name](np.asarray(X)), wanted, rtol=1e-6)
    agree(hlotool.jit(CASES[name])(X), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any", "all", "max", "min"])
def test_reductions_of_the_namespace_take_masks(name: str) -> None:
    options: dict[str, Any] = {"initial": 2.0} if name in ("max", "min") else {}
    wanted = getattr(numpy, name)(X, axis=1, where=MASK, **options)
    agree(getattr(np, name)(X, axis=1, where=MASK, **options), wanted)
    agree(hlotool.jit(lambda x, m: getattr(np, name)(x, axis=1, where=m, **options))(X, MASK), wanted)


def test_of_no_elements() -> None:
    agree(np.max(numpy.zeros((0, 2)), axis=0, initial=3.0), numpy.array([3.0, 3.0]))
    with pytest.raises(ValueError, match=r"test_numpy_ufuncs.py:\d+: max of no elements"):
        np.max(numpy.zeros(0))
    with pytest.raises(ValueError, match=r"test_numpy_ufuncs.py:\d+: min with where= needs initial="):
        np.min(X, where=MASK)


def test_outputs_are_written() -> None:
    ours, theirs = np.zeros((3, 4)), numpy.zeros((3, 4))
    assert numpy.add(np.asarray(X), 1, out=ours) is ours
    assert numpy.add(np.asarray(X), 1, out=theirs) is theirs
    agree(ours, X + 1)
    agree(theirs, X + 1)
    for out in (ours, theirs):
        assert numpy.multiply(np.asarray(X), 2, out=out, where=MASK) is out
        agree(out, numpy.where(MASK, X * 2, X + 1))
    total = np.zeros(4)
    assert numpy.sum(np.asarray(X), axis=0, out=total) is total
    agree(total, X.sum(0))
    numpy.add.at(total, [0, 0, 2], 10.0)
    agree(total, X.sum(0) + numpy.array([20, 0, 10, 0]))

    def traced(x: Any) -> Any:
        out = np.ones((3, 4))
        numpy.add(x, 1, out=out, where=MASK)
        counts = np.zeros(3)
        numpy.add.at(counts, [0, 0, 2], x[0, 0])
        return out, counts

    agree(hlotool.jit(traced)(X), (numpy.where(MASK, X + 1, 1), numpy.array([-6.0, 0, -3])))


def _into_numpy(x: Any) -> Any:
    return numpy.add(x, 1, out=numpy.zeros((3, 4)))


def _into_argument(x: Any) -> Any:
    return numpy.add(x, 1, out=x)


def _into_another_shape(x: Any) -> Any:
    return numpy.add(x, 1, out=np.zeros(4))


def _into_another_type(x: Any) -> Any:
    return numpy.add(x, 1, out=np.zeros((3, 4), int))


def _by_parts(x: Any) -> Any:
    return numpy.add.reduceat(x, [0, 2])


@pytest.mark.parametrize(
    ("function", "says"),
    [(_into_numpy, "out= is an array of NumPy.*\nhint: use the result"), (_by_parts, "reduceat cannot be traced"),
     (_into_argument, "an argument of a traced function is assigned to"),
     (_into_another_shape, r"out= has the shape \(4,\), and the result \(3, 4\)"),
     (_into_another_type, "the result is float64, which out= of int64 cannot hold")],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(function: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"test_numpy_ufuncs.py:\d+: .*{says}"):
        hlotool.jit(function)(X)


def test_bad_use_is_told_with_its_place() -> None:
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: np.ones(2, np.uint8) + 300, OverflowError, "300 does not fit into uint8\nhint"),
        (lambda: np.zeros(2, "flot32"), TypeError, "'flot32' is no element type\nhint: did you mean 'float32'"),
        (lambda: hlotool.jit(lambda x: f"{x[0, 0]:.2f}")(X), TypeError, "the format '.2f' needs the value"),
    ]
    for call, error, says in cases:
        with pytest.raises(error, match=rf"test_numpy_ufuncs.py:\d+: {says}"):
            call()
    with pytest.raises(hlotool.UnsupportedError, match=r"no derivative of while.*test_numpy_ufuncs.py:\d+.*\nhint: "):
        hlotool.grad(lambda x: hlotool.while_loop(lambda c: c < 9, lambda c: c * 2, x))(1.0)


def test_limits_are_numbers_of_python() -> None:
    for name in ("float16", "bfloat16", "float32", "float64", "complex64"):
        limits = np.finfo(getattr(np, name))
        wanted = numpy.finfo(name) if name != "bfloat16" else None
        for one in ("eps", "max", "min", "smallest_normal", "tiny"):
            assert type(getattr(limits, one)) is float
            assert wanted is None or getattr(limits, one) == float(getattr(wanted, one))
        assert type(limits.bits) is int
    assert np.finfo(np.complex64).dtype == np.float32
    assert (np.iinfo(np.uint64).max, type(np.iinfo(np.int8).min)) == (2**64 - 1, int)


def test_signs_of_zeros_and_infinities() -> None:
    found = numpy.asarray(np.sign(numpy.array([-0.0, 0.0, -2.0, numpy.nan])))
    assert not numpy.signbit(found[:2]).any()
    agree(found, numpy.array([0, 0, -1, numpy.nan]))
    z = numpy.array([0, complex(1, numpy.inf), complex(-numpy.inf, 3), 3 + 4j])
    agree(np.sign(z), numpy.array([0, 1j, -1, 0.6 + 0.8j]))


@pytest.mark.parametrize("order", [1, 2, numpy.inf])
def test_norms_of_nothing_are_zero(order: float) -> None:
    agree(np.linalg.vector_norm(numpy.zeros((2, 0)), ord=order, axis=1), numpy.zeros(2))
    agree(np.linalg.matrix_norm(numpy.zeros((2, 0, 3)), ord=order), numpy.zeros(2))


def test_places_in_nothing() -> None:
    nothing = numpy.zeros((2, 0), numpy.int8)
    agree(np.take_along_axis(nothing, numpy.zeros((2, 0), int), axis=0), nothing)
    agree(np.searchsorted(numpy.zeros(0), numpy.ones(3), sorter=numpy.zeros(0, int)), numpy.zeros(3, int))
    assert not numpy.iterable(np.zeros(()))
    for error in (ValueError, IndexError):
        with pytest.raises(error, match=r"test_numpy_ufuncs.py:\d+: axis 3 is out of bounds for array of dimension 1"):
            np.sum(numpy.ones(2), axis=3)


def test_where_alone_gives_places() -> None:
    for found, wanted in zip(np.where(MASK), numpy.where(MASK), strict=True):
        agree(found, wanted)
    agree(numpy.where(np.asarray(MASK))[1], numpy.where(MASK)[1])
    with pytest.raises(TypeError, match=r"test_numpy_ufuncs.py:\d+: where takes a condition alone, or two"):
        np.where(MASK, 1)


@pytest.mark.parametrize("name", ["power", "float_power", "multiply"])
def test_masks_and_results_that_are_there(name: str) -> None:
    held, theirs = np.ones(X.shape), numpy.ones(X.shape)
    wanted = getattr(numpy, name)(X, 2.0, out=theirs, where=MASK)
    assert getattr(np, name)(np.asarray(X), 2.0, out=held, where=MASK) is held
    agree(held, wanted)
