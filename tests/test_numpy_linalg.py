"""hlotool.numpy.linalg against NumPy: types, shapes, stacks, matrices without full rank."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest
from conftest import environment

import hlotool
import hlotool.numpy as np
from hlotool.numpy import linalg

_SHAPES = [(1, 1), (2, 2), (3, 3), (8, 8), (33, 33), (2, 3, 5, 5), (0, 0), (2, 0, 0)]
_RECTANGLES = [(1, 4), (5, 3), (3, 5), (40, 33), (2, 7, 4), (4, 0), (0, 3)]
SQUARES = [(shape, kind) for shape in _SHAPES for kind in ("f8", "c16")] + [((9, 9), "f4"), ((9, 9), "c8")]
RECTANGLES = [(shape, kind) for shape in _RECTANGLES for kind in ("f8", "c16")] + [((9, 5), "f4"), ((5, 9), "c8")]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    generator = numpy.random.default_rng(seed)
    found = generator.normal(size=shape)
    if dtype[0] == "c":
        found = found + 1j * generator.normal(size=shape)
    return found.astype(dtype)


def adjoint(a: Any) -> Any:
    return numpy.conj(numpy.swapaxes(a, -1, -2))


def hermitian(shape: tuple[int, ...], dtype: str) -> Any:
    a = draw(shape, dtype)
    return (a + adjoint(a)).astype(dtype)


def definite(shape: tuple[int, ...], dtype: str) -> Any:
    a = draw(shape, dtype)
    return (a @ adjoint(a) + max(1, shape[-1]) * numpy.eye(shape[-1])).astype(dtype)


def agree(found: Any, expected: Any, units: float = 1.0) -> None:
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    limit = 1e-11 if found.dtype.itemsize >= (16 if found.dtype.kind == "c" else 8) else 1e-3
    scale = 1 + (numpy.abs(expected).max() if expected.size else 0)
    assert numpy.all(numpy.abs(found - expected) <= limit * scale * units)


@pytest.mark.parametrize(("shape", "dtype"), SQUARES)
def test_square_matrices(shape: tuple[int, ...], dtype: str) -> None:
    a, good = draw(shape, dtype), definite(shape, dtype)
    right = draw((*shape[:-1], 2), dtype, 1)
    agree(linalg.inv(good), numpy.linalg.inv(good))
    agree(linalg.solve(good, right), numpy.linalg.solve(good, right))
    agree(linalg.det(a), numpy.linalg.det(a))
    for found, expected in zip(linalg.slogdet(a), numpy.linalg.slogdet(a), strict=True):
        agree(found, expected)
    agree(linalg.cholesky(good), numpy.linalg.cholesky(good))
    agree(linalg.cholesky(good, upper=True), numpy.linalg.cholesky(good, upper=True))


@pytest.mark.parametrize(("shape", "dtype"), SQUARES)
def test_eigenvalues(shape: tuple[int, ...], dtype: str) -> None:
    a = hermitian(shape, dtype)
    values, vectors = linalg.eigh(a)
    agree(values, numpy.linalg.eigvalsh(a))
    agree(linalg.eigvalsh(a), numpy.linalg.eigvalsh(a))
    v = numpy.asarray(vectors)
    agree((a @ v).astype(dtype), (v * numpy.asarray(values)[..., None, :]).astype(dtype))
    agree((adjoint(v) @ v).astype(dtype), numpy.broadcast_to(numpy.eye(shape[-1], dtype=dtype), v.shape))


@pytest.mark.parametrize(("shape", "dtype"), RECTANGLES)
def test_rectangles(shape: tuple[int, ...], dtype: str) -> None:
    a = draw(shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = (numpy.asarray(one) for one in linalg.qr(a, mode=mode))
        wanted = numpy.linalg.qr(a, mode=mode)
        assert (q.shape, r.shape) == (wanted.Q.shape, wanted.R.shape)
        agree((q @ r).astype(dtype), a)
        product = (adjoint(q) @ q).astype(dtype)
        agree(product, numpy.broadcast_to(numpy.eye(q.shape[-1], dtype=dtype), product.shape))
        assert numpy.all(numpy.tril(r, -1) == 0)
    for full in (False, True):
        u, s, vh = (numpy.asarray(one) for one in linalg.svd(a, full_matrices=full))
        least = min(shape[-2:])
        agree(s, numpy.linalg.svd(a, compute_uv=False))
        agree(((u[..., :least] * s[..., None, :]) @ vh[..., :least, :]).astype(dtype), a)
    agree(linalg.svdvals(a), numpy.linalg.svdvals(a))
    agree(linalg.pinv(a), numpy.linalg.pinv(a), 100)
    agree(linalg.matrix_rank(a), numpy.asarray(numpy.linalg.matrix_rank(a)))
    agree(linalg.diagonal(a, offset=1), numpy.linalg.diagonal(a, offset=1))


def test_decompositions_of_zeros_and_low_rank() -> None:
    low = numpy.outer(numpy.arange(1.0, 41), numpy.arange(3.0, 43))
    assert int(linalg.matrix_rank(low)) == 1
    agree(linalg.pinv(low), numpy.linalg.pinv(low))
    q, r = linalg.qr(low)
    agree(numpy.asarray(q) @ numpy.asarray(r), low)
    q, r = linalg.qr(numpy.zeros((3, 2)))
    agree(q, numpy.eye(3, 2))
    assert not numpy.asarray(r).any()
    assert float(linalg.det(numpy.zeros((3, 3)))) == 0
    sign, logarithm = linalg.slogdet(numpy.ones((2, 2)))
    assert (float(sign), float(logarithm)) == (0.0, -numpy.inf)


def test_what_has_no_solution_is_not_finite() -> None:
    """NumPy raises LinAlgError there."""
    assert not numpy.isfinite(numpy.asarray(linalg.inv(numpy.zeros((2, 2))))).any()
    assert numpy.isnan(numpy.asarray(linalg.cholesky(-numpy.eye(2)))[0, 0])
    assert numpy.isnan(numpy.asarray(linalg.svdvals(numpy.full((2, 2), numpy.nan)))).all()


def test_extreme_numbers() -> None:
    for scale in (1e200, 1e-200):
        a = draw((6, 4), "f8") * scale
        q, r = (numpy.asarray(one) for one in linalg.qr(a))
        assert numpy.allclose(q @ r / scale, a / scale)
        square = draw((5, 5), "f8") * scale
        assert numpy.allclose(numpy.asarray(linalg.inv(square)) @ square, numpy.eye(5))


def test_a_vector_and_a_stack_on_the_right() -> None:
    a, b = draw((4, 3, 3), "f8"), draw((3,), "f8")
    agree(linalg.solve(a, b), numpy.linalg.solve(a, b))
    agree(linalg.solve(a[0], draw((2, 3, 2), "f8")), numpy.linalg.solve(a[0], draw((2, 3, 2), "f8")))
    with pytest.raises(ValueError, match="3 unknowns, 4 equations"):
        linalg.solve(a, draw((4, 4, 1), "f8"))
    with pytest.raises(ValueError, match="square"):
        linalg.inv(numpy.ones((2, 3)))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, numpy.inf, -numpy.inf])
def test_norms_of_matrices(order: Any) -> None:
    a = draw((2, 4, 3), "f8")
    agree(linalg.matrix_norm(a, ord=order), numpy.linalg.matrix_norm(a, ord=order))
    agree(linalg.norm(a[0], order, keepdims=True), numpy.linalg.norm(a[0], order, keepdims=True))
    agree(linalg.norm(a, order, axis=(0, 2)), numpy.linalg.norm(a, order, axis=(0, 2)))
    if order != "nuc":
        agree(linalg.cond(a[0][:3], order), numpy.linalg.cond(a[0][:3], order))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 2.5, numpy.inf, -numpy.inf])
def test_norms_of_vectors(order: float) -> None:
    for dtype in ("f8", "c16"):
        a = draw((2, 4, 3), dtype)
        agree(linalg.vector_norm(a, ord=order, axis=1), numpy.linalg.vector_norm(a, ord=order, axis=1))
        agree(linalg.vector_norm(a, ord=order, keepdims=True), numpy.linalg.vector_norm(a, ord=order, keepdims=True))


def test_products_and_powers() -> None:
    a, b, c = draw((3, 4), "f8"), draw((4, 2), "f8"), draw((2, 5), "f8")
    agree(linalg.multi_dot([a, b, c]), a @ b @ c)
    agree(linalg.multi_dot([a[0], b, c[:, 0]]), a[0] @ b @ c[:, 0])
    square = draw((4, 4), "f8")
    for power in (-2, -1, 0, 1, 2, 5):
        agree(linalg.matrix_power(square, power), numpy.linalg.matrix_power(square, power), 100)
    whole = numpy.arange(9).reshape(3, 3)
    agree(linalg.matrix_power(whole, 3), numpy.linalg.matrix_power(whole, 3))
    one, other = draw((2, 3), "f8"), draw((2, 3), "f8", 1)
    agree(linalg.cross(one, other), numpy.linalg.cross(one, other))
    agree(linalg.cross(one.T, other.T, axis=0), numpy.linalg.cross(one.T, other.T, axis=0))
    agree(linalg.outer(one[0], other[1]), numpy.linalg.outer(one[0], other[1]))
    agree(linalg.trace(square, offset=-1), numpy.linalg.trace(square, offset=-1))


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_least_squares(shape: tuple[int, int]) -> None:
    a = draw(shape, "f8")
    for b in (draw(shape[:1], "f8"), draw((shape[0], 2), "f8")):
        found, expected = linalg.lstsq(a, b), numpy.linalg.lstsq(a, b)
        agree(found.x, expected[0], 100)
        assert int(found.rank) == expected[2]
        agree(found.s, expected[3])
        if shape == (6, 4):
            assert numpy.allclose(numpy.asarray(found.residuals), expected[1])


def test_narrow_floats_are_computed_wider() -> None:
    a = draw((4, 4), "f4")
    found = linalg.inv(np.astype(a, np.bfloat16))
    assert found.dtype == np.bfloat16
    assert linalg.qr(a.astype("f2")).Q.dtype == numpy.float16


def test_the_same_within_a_compiled_function() -> None:
    a, b = definite((20, 20), "f8"), draw((20,), "f8")

    @hlotool.jit
    def both(a: Any, b: Any) -> Any:
        values, vectors = linalg.eigh(a)
        return linalg.solve(a, b), values, vectors, linalg.svdvals(a)

    for found, expected in zip(
        both(a, b), (linalg.solve(a, b), *linalg.eigh(a), linalg.svdvals(a)), strict=True
    ):
        agree(found, expected)


def test_without_scipy() -> None:
    """What LAPACK is needed for comes from NumPy."""
    program = """import sys
sys.modules["scipy"] = None
import numpy
from hlotool.numpy import linalg
a = numpy.diag([1.0, 3.0, 2.0]).astype("c16")
print(numpy.asarray(linalg.eigh(a)[0]), numpy.asarray(linalg.svd(a.real)[1]), numpy.asarray(linalg.eigvalsh(a.real)))"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.stdout.strip() == "[1. 2. 3.] [3. 2. 1.] [1. 2. 3.]", done.stderr


@pytest.mark.parametrize("kind", ["f8", "c8"])
@pytest.mark.parametrize("shape", [(32, 33), (33, 33), (64, 64), (65, 65), (96, 97), (97, 70), (70, 97), (2, 66, 66)])
def test_decompositions_around_the_sizes_from_which_they_are_loops(kind: str, shape: tuple[int, ...]) -> None:
    a = draw(shape, kind) + 8 * numpy.eye(*shape[-2:], dtype=kind)
    tolerance = 1e-9 if kind == "f8" else 2e-3
    for mode in ("reduced", "complete"):
        q, r = (numpy.asarray(one) for one in linalg.qr(a, mode=mode))
        assert (q.shape, r.shape) == tuple(one.shape for one in numpy.linalg.qr(a, mode=mode))
        numpy.testing.assert_allclose(q @ r, a, atol=tolerance)
        numpy.testing.assert_allclose(q.conj().swapaxes(-1, -2) @ q, numpy.broadcast_to(
            numpy.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])), atol=tolerance)
        assert not numpy.tril(r, -1).any()
    if shape[-1] == shape[-2]:
        right = draw((*shape[:-1], 3), kind)
        numpy.testing.assert_allclose(a @ numpy.asarray(linalg.solve(a, right)), right, atol=tolerance)
        sign, size = (numpy.asarray(one) for one in linalg.slogdet(a))
        wanted = numpy.linalg.slogdet(a)
        numpy.testing.assert_allclose(sign, wanted[0], atol=tolerance)
        numpy.testing.assert_allclose(size, wanted[1], rtol=1e-5)


def test_what_is_compiled_does_not_grow_with_the_matrix() -> None:
    for function in (linalg.inv, linalg.qr):
        counts = []
        for size in (130, 520):
            module = hlotool.jit(function).module(numpy.zeros((size, size)))
            counts.append(sum(len(one) for one in module.computations.values()))
        assert counts[1] <= counts[0] * 1.1


def test_gradients_of_solutions_that_are_loops() -> None:
    a, b = draw((70, 70), "f8") + 20 * numpy.eye(70), draw((70,), "f8")
    found = hlotool.grad(lambda a: (linalg.solve(a, b) ** 2).sum())(a)
    x = numpy.linalg.solve(a, b)
    numpy.testing.assert_allclose(found, -numpy.outer(numpy.linalg.solve(a.T, 2 * x), x), atol=1e-10)


def test_what_is_no_square_matrix_is_a_linear_algebra_error_as_well() -> None:
    wide, vector = numpy.ones((2, 3)), numpy.ones(3)
    for call in (
        lambda m: m.linalg.inv(wide), lambda m: m.linalg.det(wide), lambda m: m.linalg.solve(wide, vector),
        lambda m: m.linalg.cholesky(vector), lambda m: m.linalg.eigh(wide), lambda m: m.linalg.svd(vector),
        lambda m: m.linalg.matrix_power(wide, 2), lambda m: m.linalg.matrix_power(wide.astype(int), 2),
        lambda m: m.linalg.cond(numpy.ones((0, 0)), 1),
    ):  # fmt: skip
        for module in (numpy, np):
            with pytest.raises(numpy.linalg.LinAlgError):
                call(module)


def test_the_outer_product_of_linalg_is_of_vectors() -> None:
    x, y = numpy.arange(3), numpy.arange(4.0)
    numpy.testing.assert_array_equal(linalg.outer(x, y), numpy.outer(x, y))
    numpy.testing.assert_array_equal(np.outer(x.reshape(3, 1), y), numpy.outer(x, y))
    for bad in (x.reshape(3, 1), numpy.ones(())):
        with pytest.raises(ValueError, match=r"test_numpy_linalg.py:\d+: linalg.outer takes vectors"):
            linalg.outer(bad, y)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4"])
def test_bounds_for_singular_values_are_real_numbers(dtype: str) -> None:
    a = numpy.diag([4, 2, 1]).astype(dtype)
    for name, bound in (("rtol", 0.4), ("rtol", 1), ("tol", 1), ("tol", 2.5)):
        wanted = numpy.linalg.matrix_rank(a, **{name: bound})
        assert int(linalg.matrix_rank(a, **{name: bound})) == wanted, (name, bound)
        assert int(hlotool.jit(lambda x, name=name, bound=bound: linalg.matrix_rank(x, **{name: bound}))(a)) == wanted
    assert linalg.matrix_rank(numpy.stack([a, a]), rtol=numpy.asarray([0.1, 0.6])).tolist() == [3, 1]
    numpy.testing.assert_allclose(linalg.pinv(a, rtol=0.4), numpy.linalg.pinv(a, rcond=0.4), atol=1e-6)
    found = linalg.lstsq(a, numpy.ones(3, a.dtype), rcond=0.4)
    numpy.testing.assert_allclose(found[0], numpy.linalg.lstsq(a, numpy.ones(3, a.dtype), rcond=0.4)[0], atol=1e-6)


def test_bad_use_is_told_at_the_line_of_the_program() -> None:
    a = numpy.ones((2, 3, 3))
    for call, says in (
        (lambda: linalg.solve(a, numpy.ones((4, 3, 2))), "do not fit together"),
        (lambda: linalg.solve_triangular(a, numpy.ones((3, 3, 2))), "do not fit together"),
        (lambda: linalg.solve_triangular(a, numpy.ones((4, 2))), "3 unknowns, 4 equations"),
        (lambda: linalg.norm(a, ord="fro", axis=0), "no norm of vectors"),
        (lambda: linalg.vector_norm(a, ord="nuc"), "no norm of vectors"),
        (lambda: linalg.vector_norm(a, axis=1.5), "no whole number"),
        (lambda: linalg.matrix_power(a, 1.5), "no whole number"),
        (lambda: np.matvec(a[0, 0], a[0, 0]), "matvec needs matrices"),
        (lambda: np.vecmat(a[0], a[0, 0]), "vecmat needs matrices"),
    ):
        with pytest.raises((TypeError, ValueError), match=rf"test_numpy_linalg.py:\d+: .*{says}"):
            call()


def test_singular_values_of_hermitian_matrices() -> None:
    a = hermitian((2, 5, 5), "c16")
    numpy.testing.assert_allclose(linalg.svd(a, hermitian=True)[1], numpy.linalg.svd(a, hermitian=True)[1])
