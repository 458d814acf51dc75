"""The namespace of the array API standard 2025.12: every function is there, and gives what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree, both_ways, dtype_of, sample

import hlotool
import hlotool.numpy as np

STANDARD = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like", "astype", "can_cast", "finfo",
    "iinfo", "isdtype", "result_type", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1",
    "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt",
    "square", "subtract", "tan", "tanh", "trunc", "take", "take_along_axis", "__array_namespace_info__",
    "matmul", "matrix_transpose", "tensordot", "vecdot", "broadcast_arrays", "broadcast_to", "concat",
    "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack",
    "tile", "unstack", "argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "argsort", "sort", "cumulative_prod",
    "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var", "all", "any", "diff", "e", "inf",
    "nan", "newaxis", "pi", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip

X = numpy.arange(24.0).reshape(2, 3, 4) - 7
NAN = numpy.array([[3.0, numpy.nan, -1.0, 3.0], [0.0, -0.0, 5.0, -numpy.inf]])


def test_every_name_of_the_standard_is_there() -> None:
    assert [name for name in STANDARD if not hasattr(np, name)] == []
    assert set(STANDARD) <= {*np.__all__, "e", "pi"} | {"newaxis", "nan", "inf"}


def test_all_names_are_documented() -> None:
    functions = [getattr(np, name) for name in np.__all__]
    silent = [one.__name__ for one in functions if callable(one) and not isinstance(one, type) and not one.__doc__]
    assert silent == []


CASES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda m: m.reshape(X, (4, -1)), "ravel": lambda m: m.ravel(X),
    "squeeze": lambda m: m.squeeze(X[:, :1], axis=1), "expand_dims": lambda m: m.expand_dims(X, axis=(0, -1)),
    "broadcast_to": lambda m: m.broadcast_to(X[0], (5, 3, 4)), "flip": lambda m: m.flip(X, axis=(0, 2)),
    "roll": lambda m: m.roll(X, (1, -2), axis=(0, 2)), "roll-flat": lambda m: m.roll(X, 5),
    "roll-array": lambda m: m.roll(X, m.asarray([1, -2]), axis=(0, 2)),
    "roll-twice": lambda m: m.roll(X, (1, 1), axis=1),
    "roll-axes": lambda m: m.roll(X, m.asarray(1), axis=(0, 2)), "roll-none": lambda m: m.roll(X, (), axis=()),
    "roll-flat-array": lambda m: m.roll(X, numpy.asarray([2, 3])),
    "moveaxis": lambda m: m.moveaxis(X, (0, 1), (-1, 0)), "swapaxes": lambda m: m.swapaxes(X, 0, 2),
    "transpose": lambda m: m.transpose(X), "transpose-axes": lambda m: m.transpose(X, (1, 0, 2)),
    "rot90": lambda m: m.rot90(X, 3, (1, 2)), "concat": lambda m: m.concatenate([X, X[:, :1]], axis=1),
    "concat-flat": lambda m: m.concatenate([X, X], axis=None), "stack": lambda m: m.stack([X, X + 1], axis=2),
    "hstack": lambda m: m.hstack([X[0], X[1]]), "vstack": lambda m: m.vstack([X[0, 0], X[1, 1]]),
    "dstack": lambda m: m.dstack([X[0], X[1]]), "column_stack": lambda m: m.column_stack([X[0, 0], X[0].T]),
    "tile": lambda m: m.tile(X[0], (2, 1, 3)), "repeat": lambda m: m.repeat(X, 3, axis=1),
    "repeat-each": lambda m: m.repeat(X, [0, 2, 1], axis=1), "repeat-flat": lambda m: m.repeat(X, 2),
    "split": lambda m: tuple(m.split(X, 3, axis=1)), "array_split": lambda m: tuple(m.array_split(X, 3, axis=2)),
    "split-at": lambda m: tuple(m.split(X, [1, 2], axis=1)), "diagonal": lambda m: m.diagonal(X, 1, 1, 2),
    "tril": lambda m: m.tril(X, k=-1), "triu": lambda m: m.triu(X, k=1), "diag": lambda m: m.diag(X[0, 0], k=-2),
    "diag-of": lambda m: m.diag(X[0], k=1), "eye": lambda m: m.eye(3, 5, k=1),
    "arange": lambda m: m.arange(2, 11, 3), "arange-floats": lambda m: m.arange(1.0, 0.0, -0.3),
    "linspace": lambda m: m.linspace(-1, 2, 7), "linspace-open": lambda m: m.linspace(0, 5, 4, endpoint=False),
    "linspace-arrays": lambda m: m.linspace(X[0], X[1], 3, axis=1),
    "linspace-integers": lambda m: m.linspace(0, 9, 5, dtype=numpy.int32),
    "meshgrid": lambda m: tuple(m.meshgrid(X[0, 0], X[0, :, 0])), "full": lambda m: m.full((2, 0, 3), 7),
    "meshgrid-ij": lambda m: tuple(m.meshgrid(X[0, 0], X[0, :, 0], indexing="ij")),
    "full_like": lambda m: m.full_like(X, 2), "ones_like": lambda m: m.ones_like(X, dtype=numpy.int8),
    "sort": lambda m: m.sort(NAN), "sort-0": lambda m: m.sort(NAN, axis=0),
    "sort-flat": lambda m: m.sort(NAN, axis=None),
    "argsort": lambda m: m.argsort(NAN, kind="stable"), "argmax": lambda m: m.argmax(NAN, axis=1),
    "argmin": lambda m: m.argmin(NAN, axis=0), "argmax-flat": lambda m: m.argmax(X, keepdims=True),
    "searchsorted": lambda m: m.searchsorted(numpy.array([1.0, 2.0, 2.0, 3.0, numpy.nan]), NAN),
    "searchsorted-right": lambda m: m.searchsorted(numpy.array([1.0, 2.0, 2.0, 3.0]), X, side="right"),
    "isin": lambda m: m.isin(X, numpy.array([1.0, -3.0, 99.0])), "diff": lambda m: m.diff(X, n=2, axis=0),
    "diff-more": lambda m: m.diff(X, axis=1, prepend=0.0, append=X[:, :2]), "trace": lambda m: m.trace(X[0]),
    "matmul": lambda m: m.matmul(X, X.transpose(0, 2, 1)), "matmul-wide": lambda m: m.matmul(X, X[0].T),
    "matmul-vectors": lambda m: m.matmul(X[0, 0], X[1, 0]),
    "matmul-row": lambda m: m.matmul(X[0, 0], X.transpose(0, 2, 1)),
    "matmul-column": lambda m: m.matmul(X, X[0, 0]), "tensordot": lambda m: m.tensordot(X, X, axes=([0, 2], [0, 2])),
    "tensordot-0": lambda m: m.tensordot(X[0], X[1], axes=0), "dot": lambda m: m.dot(X, X[0].T),
    "vecdot": lambda m: m.vecdot(X * 1j, X[0], axis=-1), "inner": lambda m: m.inner(X, X),
    "outer": lambda m: m.outer(X, X),
    "vdot": lambda m: m.vdot(X * 1j, X),
    "average": lambda m: m.average(X, axis=1, weights=numpy.array([1.0, 2.0, 3.0])),
    "nansum": lambda m: m.nansum(NAN, axis=1), "nanmax": lambda m: m.nanmax(NAN, axis=0),
    "nanmean": lambda m: m.nanmean(NAN[:1], axis=1), "atleast_3d": lambda m: m.atleast_3d(X[0]),
    "broadcast_arrays": lambda m: tuple(m.broadcast_arrays(X, X[0, 0], X[:, :1])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_functions_against_numpy(name: str) -> None:
    wanted = CASES[name](numpy)
    agree(CASES[name](np), wanted)
    agree(hlotool.jit(lambda: CASES[name](np))(), wanted)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "var", "std", "all", "any", "cumsum", "cumprod"])
def test_statistics(name: str, dtype: str) -> None:
    x = sample(dtype, (3, 7), 5)
    if name in ("max", "min") and dtype == "complex64":
        with pytest.raises(TypeError, match="not for arrays of complex64"):
            getattr(np, name)(x)
        return
    if name == "mean" or x.dtype.kind in "fcV":  # what adds up to numbers that can be compared
        wide = x.astype(numpy.complex64 if x.dtype.kind == "c" else numpy.float64)
        x = numpy.nan_to_num(wide, posinf=2, neginf=-2)
        x = (x / numpy.maximum(abs(x), 1)).astype(dtype_of(dtype))
    for axis in (None, 0, -1):
        wide = x.astype(numpy.float64) if dtype in ("float16", "bfloat16") else x
        wanted = numpy.asarray(getattr(numpy, name)(wide, axis=axis))
        if dtype in ("float16", "bfloat16") and name not in ("all", "any"):
            wanted = wanted.astype(x.dtype)
        found = both_ways(lambda x, axis=axis: getattr(np, name)(x, axis=axis), x)
        agree(found, wanted, {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 1e-4}.get(dtype))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (8,), (17,), (64, 3), (1000,)], ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    x = sample("float64", shape, 3)
    x = numpy.where(numpy.isfinite(x), x, 1.0).clip(-1e3, 1e3)
    for name in ("sum", "prod", "mean", "std", "any", "cumsum", "sort", "argsort", "ravel", "flip", "ptp", "argmax"):
        axis: dict[str, Any] = {} if name == "ravel" or not shape else {"axis": 0}
        axis |= {"kind": "stable"} if name == "argsort" else {}
        try:
            with numpy.errstate(all="ignore"):
                wanted = getattr(numpy, name)(x, **axis)
        except ValueError:
            with pytest.raises(ValueError, match=r"."):
                getattr(np, name)(x, **axis)
            continue
        except (numpy.exceptions.AxisError, RuntimeWarning):
            continue
        if shape or name not in ("sort", "argsort"):
            agree(getattr(np, name)(x, **axis), wanted, 1e-9)


def test_shifts_may_be_traced() -> None:
    x = numpy.arange(30).reshape(2, 5, 3)
    roll = hlotool.jit(lambda x, n: (np.roll(x, n[0]), np.roll(x, n, axis=(0, 1, 2)), np.roll(x, (n[1], 4), axis=1)))
    for shifts in ([0, 0, 0], [1, -2, 7], [-(2**31), 5, -15]):
        n = numpy.array(shifts, numpy.int32)
        wanted = numpy.roll(x, n[0]), numpy.roll(x, n, (0, 1, 2)), numpy.roll(x, (n[1], 4), 1)
        agree(tuple(roll(x, n)), wanted)
    agree(hlotool.jit(lambda x, n: np.roll(x, n, 1))(x[:, :0], 3), x[:, :0])
    bad: list[Any] = [([1, 2], (0, 1, 2), "2 shifts for 3 axes"), (1.5, 0, "integer"), ([[1]], 0, "not an array")]
    for shift, axis, says in bad:
        with pytest.raises((TypeError, ValueError), match=says):
            np.roll(x, numpy.asarray(shift) if isinstance(shift, list) else shift, axis)


def test_what_the_standard_of_2025_adds() -> None:
    x = np.asarray([1, 3, 5])
    agree(np.searchsorted(x, 3), 1)
    agree(np.isin(x, 3), [False, True, False])
    agree(np.isin(3, x, invert=True), False)
    assert isinstance(np.meshgrid(x, x), tuple)
    assert isinstance(np.broadcast_arrays(x, 1), tuple)
    assert np.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert x.__array_namespace__(api_version=np.__array_api_version__) is np


def test_cumulative_functions_of_the_standard() -> None:
    x = numpy.array([[1, 2, 3], [4, 5, 6]], numpy.int8)
    agree(np.cumulative_sum(x, axis=1), numpy.cumsum(x, 1))
    agree(np.cumulative_sum(x, axis=0, include_initial=True), [[0, 0, 0], [1, 2, 3], [5, 7, 9]])
    agree(np.cumulative_prod(x[0], include_initial=True, dtype=np.float32), numpy.array([1, 1, 2, 6], numpy.float32))
    with pytest.raises(ValueError, match="say along which"):
        np.cumulative_sum(x)


def test_sets() -> None:
    x = numpy.array([3, 1, 3, 2, 1])
    values, indices, inverse, counts = np.unique_all(x)
    agree(values, [1, 2, 3])
    agree(x[numpy.asarray(indices)], [1, 2, 3])
    agree(numpy.asarray(values)[numpy.asarray(inverse)], x)
    agree(counts, [2, 1, 2])
    agree(np.unique_counts(x).counts, [2, 1, 2])
    agree(np.unique_inverse(x).inverse_indices, inverse)
    agree(np.sort(np.unique_values(x)), [1, 2, 3])
    for function in (np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values, np.nonzero):
        with pytest.raises(TypeError, match=f"{function.__name__} needs the value of an array"):
            hlotool.jit(function)(x)


def test_sorts_are_stable_in_both_directions() -> None:
    x = numpy.array([2, 1, 2, 1, 3])
    agree(np.argsort(x), [1, 3, 0, 2, 4])
    agree(np.argsort(x, descending=True), [4, 0, 2, 1, 3])
    agree(np.sort(numpy.array([1 + 1j, 1 - 1j, 0j])), numpy.array([0, 1 - 1j, 1 + 1j]))


def test_types_of_the_namespace() -> None:
    info = np.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.default_dtypes()["real floating"] == np.float64
    assert set(info.dtypes(kind="integral")) == {f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)}
    assert np.isdtype(np.bfloat16, "real floating")
    assert np.isdtype(np.int8, ("bool", "signed integer"))
    assert np.can_cast(np.int8, np.int16)
    assert not np.can_cast(np.float64, np.float32)
    assert (np.finfo(np.bfloat16).bits, np.iinfo(np.int16).max) == (16, 32767)
    assert np.astype(np.asarray([1.7, -1.7]), np.int32).tolist() == [1, -1]
    assert np.asarray([1.5], dtype=np.float8_e4m3fn).dtype == np.float8_e4m3fn
    assert (np.asarray([1.5], dtype=np.bfloat16) * 2).dtype == np.bfloat16


def test_numpy_functions_take_arrays_of_this_package() -> None:
    x = np.asarray([1.0, 2.0, 4.0])
    for found in (numpy.sum(x), numpy.sin(x), numpy.concatenate([x, x]), numpy.add.reduce(x), numpy.multiply(2, x)):
        assert isinstance(found, np.Array)
    agree(numpy.ediff1d(x), [1.0, 2.0])
    agree(hlotool.jit(lambda x: numpy.sin(x) + numpy.mean(x))(x), numpy.sin(numpy.array([1.0, 2.0, 4.0])) + 7 / 3)
    assert x.__array_namespace__() is np
    agree(numpy.from_dlpack(x), [1.0, 2.0, 4.0])
    agree(np.from_dlpack(numpy.ones(2)), [1.0, 1.0])


def test_methods() -> None:
    x = np.asarray(X)
    agree(x.sum(axis=1), X.sum(1))
    agree(x.reshape(4, 6).T, X.reshape(4, 6).T)
    agree(x.transpose(2, 0, 1), X.transpose(2, 0, 1))
    agree(x.mT, X.transpose(0, 2, 1))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, x.device, len(x)) == ((2, 3, 4), 3, 24, 192, 8, "cpu", 2)
    agree(x.astype(np.float32).mean(), numpy.float32(X.mean()))
    assert [one.shape for one in x] == [(3, 4)] * 2
    assert f"{np.asarray(1.23456):.2f}" == "1.23"
    assert repr(np.asarray([1, 2])) == "Array([1, 2], dtype=int64)"
    assert range(5)[np.asarray(3)] == 3


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: np.reshape(X, (5, 5)), "cannot have the shape"),
        (lambda: np.sum(X, axis=3), "axis 3 is out of bounds"),
        (lambda: np.concat([X, X[0]]), "cannot be joined"), (lambda: np.squeeze(X, axis=0), "has not size 1"),
        (lambda: np.max(numpy.zeros(0)), "max of no elements"), (lambda: np.matmul(X, X), "columns meet"),
        (lambda: np.zeros((2, -1)), "sizes are not negative"),
        (lambda: np.sum(X, axis=(0, 0)), "name a dimension twice"),
        (lambda: np.asarray([1.0]) @ np.asarray(2.0), "matmul is for arrays with dimensions"),
        (lambda: np.asarray(["a"]), "cannot be compiled"), (lambda: np.zeros(2, "float99"), "is no element type"),
        (lambda: np.zeros(2, device="gpu"), "there is no device"),
    ],
    ids=range(12),
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_place(function: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        function()
    assert "test_numpy_namespace.py:" in str(caught.value)


def test_what_a_traced_function_cannot_do_is_said_where_libraries_ask() -> None:
    asked: list[Any] = []

    def function(x: Any) -> Any:
        asked.append(x.__array_namespace__().__array_namespace_info__().capabilities())
        return x

    hlotool.jit(function)(X)
    assert [(one["boolean indexing"], one["data-dependent shapes"]) for one in asked] == [(False, False)]
    assert np.__array_namespace_info__().capabilities()["boolean indexing"] is True
