"""What code written for NumPy expects besides functions of the standard: attributes, arguments, changes in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import hlotool
import hlotool.numpy as np

X = numpy.arange(24.0).reshape(2, 3, 4) - 7
NAN = numpy.nan

CALLS: dict[str, Callable[[Any], Any]] = {
    "take": lambda m: m.take(X, [0, 2], 1), "take-wrap": lambda m: m.take(X, [5, -9], 1, mode="wrap"),
    "take-clip": lambda m: m.take(X, [5, -9], 1, mode="clip"), "repeat": lambda m: m.repeat(X, 2, 1),
    "stack": lambda m: m.stack([X, X], 1), "full": lambda m: m.full((2,), 3, m.int32), "eye": lambda m: m.eye(3, 4, 1),
    "linspace": lambda m: m.linspace(start=0, stop=1, num=5), "linspace-open": lambda m: m.linspace(0, 1, 5, False),
    "arange": lambda m: m.arange(0, 10, 2, float), "arange-names": lambda m: m.arange(start=2, stop=5),
    "clip": lambda m: m.clip(X, a_min=0, a_max=3), "sum": lambda m: m.sum(X, 0, float),
    "meshgrid": lambda m: tuple(m.meshgrid(X[0, 0], X[0, :, 0], X[:, 0, 0], sparse=True)),
    "meshgrid-ij": lambda m: tuple(m.meshgrid(X[0, 0], X[0, :, 0], indexing="ij", sparse=True)),
    "indices": lambda m: tuple(m.indices((2, 3), sparse=True)),
    "average": lambda m: m.average(X, axis=1, weights=[1, 2, 3], returned=True),
    "average-axes": lambda m: m.average(X, axis=(0, 2), keepdims=True),
    "average-some": lambda m: m.average(X, axis=(1, 0), weights=X[:, :, 0].T + 9),
    "trace": lambda m: m.trace(X), "trace-axes": lambda m: m.trace(X, 1, 1, 2), "ravel": lambda m: m.ravel(X, "F"),
    "flatten": lambda m: m.asarray(X).flatten("F"), "zeros": lambda m: m.zeros((2, 3), order="F"),
    "zeros_like": lambda m: m.zeros_like(X, shape=(2,)), "std": lambda m: m.std(X, 0, None, None, 1),
    "qr": lambda m: abs(m.linalg.qr(X[0], "r")), "svd": lambda m: m.linalg.svd(X[0], False)[1],
    "eigh": lambda m: m.linalg.eigh(numpy.triu(X[:, :, :3]), "U")[0],
    "eigvalsh": lambda m: m.linalg.eigvalsh(numpy.tril(X[:, :, :3] * 1j), UPLO="L"),
    "matrix_rank": lambda m: m.linalg.matrix_rank(X, tol=1e-3), "pinv": lambda m: m.linalg.pinv(X, 1e-3),
    "fftfreq": lambda m: m.fft.fftfreq(5, 0.1), "fftshift": lambda m: m.fft.fftshift(X, 1),
    "rint": lambda m: m.rint(X.astype(int)), "exp2": lambda m: m.exp2(X * 1j), "i0": lambda m: m.i0(X),
    "sinc": lambda m: m.sinc(m.asarray([1, 0, 2], dtype=m.int8)),
    "hstack": lambda m: m.hstack([X, X], dtype=m.float32), "matvec": lambda m: m.matvec(X, X[0, 0]),
    "vecmat": lambda m: m.vecmat(X[0, :, 0] * 1j, X), "r_": lambda m: m.r_[0:5, 7, m.asarray([1, 2]), 0:1:3j],
    "c_": lambda m: m.c_[X[0], X[1]], "c_-ranges": lambda m: m.c_[1:4, 4:7],
    "out": lambda m: m.add(X, 1, out=m.zeros(X.shape)), "out-sum": lambda m: m.sum(X, 0, out=m.zeros((3, 4))),
    "out-where": lambda m: m.divide(X, X, out=m.zeros(X.shape), where=X > 0),
    "where": lambda m: m.sqrt(X, where=X > 0, out=m.full(X.shape, -1.0)),
    "out-clip": lambda m: m.clip(X, 0, 1, out=m.zeros(X.shape)),
    "out-concatenate": lambda m: m.concatenate([X, X], out=m.zeros((4, 3, 4))),
    "out-matmul": lambda m: m.matmul(X[0], X[1].T, out=m.zeros((3, 3))),
    "reduce": lambda m: m.add.reduce(X), "reduce-all": lambda m: m.minimum.reduce(X, axis=None),
    "accumulate": lambda m: m.maximum.accumulate(X, axis=1), "outer": lambda m: m.subtract.outer(X[0, 0], X[1, 1]),
    "reduce-hypot": lambda m: m.hypot.reduce([3.0, 4.0]), "delete": lambda m: m.delete(X, m.asarray([0, 2]), 2),
}  # fmt: skip


def _agree(found: Any, wanted: Any) -> None:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        numpy.testing.assert_allclose(numpy.asarray(one), numpy.asarray(other), rtol=1e-13, atol=1e-13)
        assert one.dtype == numpy.asarray(other).dtype


@pytest.mark.parametrize("name", CALLS)
def test_calls_as_users_of_numpy_write_them(name: str) -> None:
    wanted = CALLS[name](numpy)
    _agree(CALLS[name](np), wanted)
    _agree(hlotool.jit(lambda: CALLS[name](np))(), wanted)


def test_results_in_arrays_that_are_there() -> None:
    given = np.zeros(3)
    assert np.multiply([1.0, 2.0, 3.0], 2, out=given) is given
    assert given.tolist() == [2, 4, 6]
    plain = numpy.zeros(3)
    np.sqrt(given, out=plain, where=[True, False, True])
    assert plain.tolist() == [2**0.5, 0, 6**0.5]
    with pytest.raises(TypeError, match="which out= of int64 cannot hold"):
        np.sqrt(given, out=np.zeros(3, dtype=int))
    with pytest.raises(ValueError, match="out= has the shape"):
        np.sqrt(given, out=np.zeros(4))


# ---- attributes

PARTS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x, "rows": lambda x: x[1:], "steps": lambda x: x[:, ::-2], "turned": lambda x: x.T,
    "row": lambda x: x[0, 1], "shaped": lambda x: x.reshape(4, 6)[1:], "new": lambda x: x[None, :, 1],
    "sum": lambda x: x + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_arrays_lie_in_memory_as_those_of_numpy_do(name: str) -> None:
    found, wanted = PARTS[name](np.asarray(X)), PARTS[name](X)
    assert found.strides == wanted.strides
    for flag in ("c_contiguous", "f_contiguous", "writeable", "aligned"):
        assert getattr(found.flags, flag) == getattr(wanted.flags, flag)
    assert (found.base is None) == (name in ("all", "sum"))
    assert numpy.asarray(found).strides == wanted.strides
    assert found.tobytes() == wanted.tobytes()
    assert list(found.flat) == list(wanted.flat)
    strides: list[Any] = []
    hlotool.jit(lambda x: strides.append(x.strides) or x)(X)
    assert strides == [X.strides]


@pytest.mark.parametrize("target", ["int64", "uint8", "float32", "complex128", "complex64", "bool"])
@pytest.mark.parametrize("source", ["float64", "complex128", "uint8", "bool"])
def test_bits_as_another_type(source: str, target: str) -> None:
    if source in ("uint8", "bool") and target != "bool":
        x = (numpy.arange(32).reshape(2, 16) % 2).astype(source)
    elif target == "bool":
        x = numpy.ones((2, 3), "uint8" if source == "uint8" else "bool")
    else:
        x = numpy.linspace(-3, 5, 8).reshape(2, 4).astype(source)
    wanted = x.view(target)
    for found in (np.asarray(x).view(target), hlotool.jit(lambda x: x.view(target))(x)):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes()


def test_a_view_shares_elements() -> None:
    x = np.asarray([1.0, 2.0])
    x.view("int64")[0] = 0
    assert x.tolist() == [0, 2]
    assert x.view().base is x
    with pytest.raises(ValueError, match="no whole elements"):
        np.asarray(numpy.zeros(3, "int8")).view("int16")


def test_all_elements_in_order() -> None:
    x = np.asarray(X).copy()
    x.flat[5] = 50
    x.T.flat[1] = -1
    assert x[0, 1, 1] == 50
    assert x[1, 0, 0] == -1
    x.flat = [1, 2]
    assert numpy.array_equal(x, numpy.tile([1, 2], 12).reshape(2, 3, 4))


# ---- changes in place


def test_in_place_operators_change_the_array() -> None:
    x = np.asarray([1.0, 2.0, 3.0])
    same = x
    for one in [x]:
        one -= 1
    x *= 2
    assert same is x
    assert same.tolist() == [0, 2, 4]
    narrow = np.zeros(2, dtype="float32")
    narrow += numpy.ones(2)
    assert narrow.dtype == "float32"
    with pytest.raises(TypeError, match="which an array of int64 cannot hold\nhint: "):
        np.zeros(2, dtype=int).__iadd__(0.5)
    with pytest.raises(ValueError, match="the result has shape"):
        np.zeros(2).__iadd__(numpy.zeros((3, 2)))


def test_numbers_are_not_changed_in_place() -> None:
    total = np.sum(np.asarray([1.0, 2.0]))
    before = total
    total += 1
    assert (before, total) == (3, 4)
    count = np.sum(np.asarray([1, 2]))
    count += 0.5
    assert count == 3.5


def test_an_array_that_a_compiled_function_knows_is_read_anew_after_a_change_in_place() -> None:
    scale = np.asarray([1.0, 2.0])
    function = hlotool.jit(lambda x: x * scale)
    assert function(numpy.ones(2)).tolist() == [1, 2]
    scale += 1
    assert function(numpy.ones(2)).tolist() == [2, 3]


def test_elements_by_arrays_of_indices_are_a_copy() -> None:
    x = np.zeros((3, 4))
    chosen = x[:, [0, 2]]
    chosen[...] = 7
    chosen += 1
    assert not x.any()
    assert chosen.all()
    assert np.take(x, [0, 2], axis=1).base is None


def test_numbers_that_no_element_can_be_are_compared_and_divided_by() -> None:
    for dtype in ("uint8", "int64"):
        x = numpy.array([0, 1, 100], dtype)
        for number in (300, -1, 2**64, -(2**70), 5):
            for name in ("lt", "le", "gt", "ge", "eq", "ne", "truediv", "rtruediv"):
                if name == "rtruediv":
                    x = x + x.dtype.type(1)
                wanted = getattr(x, f"__{name}__")(number)
                for function in (lambda f: f(np.asarray(x)), lambda f: hlotool.jit(f)(x)):  # noqa: B023
                    _agree(function(lambda x: getattr(x, f"__{name}__")(number)), wanted)  # noqa: B023
    with pytest.raises(OverflowError, match="300 does not fit into uint8"):
        np.zeros(2, dtype="uint8") + 300


SEQUENCES = [range(2), (range(2), 0), ((0, 1), 1), [True, False], (slice(None), [0, 2]), [], (0, [])]


@pytest.mark.parametrize("key", SEQUENCES)
def test_sequences_are_indices(key: Any) -> None:
    wanted = X.copy()
    wanted[key] = 9

    def assigned(x: Any) -> Any:
        y = x.copy()
        y[key] = 9
        return y

    for function in (lambda f: f(np.asarray(X)), lambda f: hlotool.jit(f)(X)):
        _agree(function(lambda x: x[key]), X[key])
        _agree(function(assigned), wanted)


METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda m, x: x.sort(), "sort-axis": lambda m, x: x.sort(axis=0), "fill": lambda m, x: x.fill(3),
    "partition": lambda m, x: x[0].partition(2), "put": lambda m, x: x.put([0, 5, -1], [8, 9]),
    "put-wrap": lambda m, x: m.put(x, [13, 1], 5, mode="wrap"), "place": lambda m, x: m.place(x, x > 2, [1, 2]),
    "putmask": lambda m, x: m.putmask(x, x > 2, [7, 8, 9]), "copyto": lambda m, x: m.copyto(x, 3, where=x < 0),
    "fill_diagonal": lambda m, x: m.fill_diagonal(x, [5, 6]),
    "fill_wrap": lambda m, x: m.fill_diagonal(x.T, 5, wrap=True),
    "put_along_axis": lambda m, x: m.put_along_axis(x, numpy.array([[1], [0], [3]]), 9, axis=1),
    "real": lambda m, x: setattr(x, "real", 2), "add.at": lambda m, x: m.add.at(x, ([0, 0, 2],), 1),
    "flat": lambda m, x: x.flat.__setitem__(slice(2, 9, 3), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_functions_that_change_their_argument(name: str) -> None:
    wanted = numpy.array([[3.0, -1.0, 2.0, 5.0], [0.0, 4.0, -2.0, 1.0], [6.0, 2.0, -3.0, 7.0]])
    found = np.asarray(wanted)
    compiled = hlotool.jit(lambda x: (y := x.copy(), METHODS[name](np, y))[0])
    traced = None if name in ("place", "partition", "flat", "fill_wrap", "real") else compiled(wanted.copy())
    assert METHODS[name](np, found) is METHODS[name](numpy, wanted) is None
    assert numpy.array_equal(found, wanted)
    assert traced is None or numpy.array_equal(traced, wanted)


# ---- names


def test_names_of_numpy_are_numpys_or_are_refused_with_a_hint() -> None:
    assert np.integer is numpy.integer
    assert np.intp is numpy.intp
    assert np.ndindex is numpy.ndindex
    with np.errstate(divide="ignore"), np.printoptions(precision=2):
        assert np.array2string(np.asarray([1.23456])) == "[1.23]"
    for name, hint in {"matrix": "x @ y", "datetime64": "int64", "ma": "np.where", "nditer": "vmap"}.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'\nhint: .*{hint}"):
            getattr(np, name)
    with pytest.raises(AttributeError, match=r"no attribute 'summ'$"):
        _ = np.summ
    with pytest.raises(AttributeError, match=r"hint: .*np.random.key\(seed\)"):
        np.random.default_rng(0)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = np.random.nothing


def test_files_and_texts(tmp_path: Path) -> None:
    x = np.asarray(X)
    np.save(tmp_path / "x.npy", x)
    assert numpy.array_equal(np.load(tmp_path / "x.npy"), X)
    assert isinstance(np.load(tmp_path / "x.npy"), np.Array)
    np.savetxt(tmp_path / "x.txt", x[0])
    assert numpy.array_equal(np.loadtxt(tmp_path / "x.txt"), X[0])
    assert np.fromiter(range(3), float).tolist() == [0, 1, 2]
    assert np.fromstring("1 2", sep=" ").tolist() == [1, 2]
    x.tofile(tmp_path / "x.bin")
    assert numpy.array_equal(np.fromfile(tmp_path / "x.bin"), X.ravel())


def test_copies_of_what_another_library_writes_to_are_their_own() -> None:
    x = np.asarray([1.0, 2.0])
    theirs = numpy.from_dlpack(x)
    copied = x.copy()
    theirs[0] = 9
    assert (x.tolist(), copied.tolist()) == ([9, 2], [1, 2])


def test_copies_from_before_another_library_writes_are_their_own() -> None:
    x = np.asarray([1.0, 2.0])
    copies = [x.copy(), np.asarray(x, copy=True), np.astype(x, np.float64), hlotool.jit(lambda one: one)(x)]
    theirs = numpy.from_dlpack(x)
    theirs[0] = 9
    assert x.tolist() == [9, 2]
    assert [one.tolist() for one in copies] == [[1, 2]] * 4


def test_another_library_writes_to_the_memory_of_an_array_that_has_no_copies() -> None:
    x = np.asarray([1.0, 2.0, 3.0])
    address = x.__array__().ctypes.data
    part = x[1:]
    theirs = numpy.from_dlpack(x)
    assert theirs.ctypes.data == address
    theirs[1] = 9
    copied = part.copy()
    theirs[2] = 8
    assert (x.tolist(), part.tolist(), copied.tolist()) == ([1, 9, 8], [9, 8], [9, 3])


def test_another_library_that_writes_to_a_part_leaves_copies_alone() -> None:
    x = np.asarray([1.0, 2.0, 3.0])
    part, whole = x[1:], x.copy()
    rest = part.copy()
    numpy.from_dlpack(part)[0] = 9
    assert (part.tolist(), whole.tolist(), rest.tolist()) == ([9, 3], [1, 2, 3], [2, 3])
    step = x[::2]
    kept = step.copy()
    numpy.from_dlpack(step)[0] = 9
    assert (step.tolist(), kept.tolist()) == ([9, 3], [1, 3])


def test_an_array_of_this_package_by_dlpack_shares_its_elements() -> None:
    x = np.asarray([1.0, 2.0])
    for copy in (None, False):
        other = np.from_dlpack(x, copy=copy)
        x[0], other[1] = 5, 6
        assert (x.tolist(), other.tolist()) == ([5, 6], [5, 6])
    own = np.from_dlpack(x, copy=True)
    own[0] = 7
    assert (x.tolist(), own.tolist()) == ([5, 6], [7, 6])
    assert np.from_dlpack(np.ones(2, dtype=np.bfloat16)).dtype == np.bfloat16


def test_memory_that_nobody_may_write_to_goes_to_libraries_that_cannot_be_told_as_a_copy() -> None:
    held = numpy.ones(2)
    held.flags.writeable = False
    x = np.asarray(held)
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    x.__dlpack__()
    assert not numpy.from_dlpack(x).flags.writeable  # NumPy is told


def test_no_differences_are_the_array_itself() -> None:
    assert np.diff(X, n=0, prepend=1.0).shape == numpy.diff(X, n=0, prepend=1.0).shape


def test_what_shares_memory() -> None:
    x = np.zeros((3, 4))
    assert np.shares_memory(x, x[1:])
    assert np.shares_memory(x[:2], x[1:])
    assert not np.shares_memory(x[:1], x[1:])
    assert not np.may_share_memory(x, x + 1)
    assert not np.shares_memory(x, numpy.zeros(3))
    assert not np.isfortran(x)
    assert np.isfortran(x.T)


def test_element_by_element() -> None:
    sign = np.vectorize(lambda one: 1 if one > 0 else -1)
    assert sign(np.asarray([2.0, -1.0])).tolist() == [1, -1]
    with pytest.raises(TypeError, match=r"hint: use hlotool.vmap"):
        hlotool.jit(sign)(numpy.zeros(3))


def test_matrices_that_scipy_makes_of_strides() -> None:
    linalg = pytest.importorskip("scipy.linalg")
    c = np.asarray([1.0, 2.0, 3.0])
    c[0] = 4  # its parts have memory of their own from now on
    for name in ("toeplitz", "hankel", "circulant"):
        assert numpy.array_equal(getattr(linalg, name)(c), getattr(linalg, name)(numpy.asarray(c)))
