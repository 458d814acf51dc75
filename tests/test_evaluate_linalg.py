"""The evaluator's linear algebra, transforms and batch normalisation, by their defining equations."""

from itertools import product

import numpy as np
import pytest

from hlotool.evaluate import evaluate
from hlotool.text.parser import parse


def run(body, *arguments):
    return evaluate(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"), arguments)


def normal(*sizes):
    return np.random.default_rng(len(sizes)).standard_normal(sizes).astype(np.float32)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_reads_one_triangle(lower):
    square = normal(3, 6, 6)
    matrix = square @ square.transpose(0, 2, 1) + 3 * np.eye(6, dtype=np.float32)
    triangle = np.tril if lower else np.triu
    given = triangle(matrix) + np.where(triangle(np.ones((6, 6))) > 0, 0, 77).astype(np.float32)
    body = f"p = f32[3,6,6] parameter(0)\n ROOT r = f32[3,6,6] cholesky(p), lower={str(lower).lower()}"
    (factor,) = run(body, given)
    np.testing.assert_array_equal(factor, triangle(factor))
    transposed = factor.transpose(0, 2, 1)
    product = factor @ transposed if lower else transposed @ factor
    np.testing.assert_allclose(product, matrix, rtol=1e-4, atol=1e-4)


def test_cholesky_of_an_indefinite_matrix_is_nan_alone():
    matrices = np.stack([np.eye(2), -np.eye(2)]).astype(np.float32)
    (factor,) = run("p = f32[2,2,2] parameter(0)\n ROOT r = f32[2,2,2] cholesky(p), lower=true", matrices)
    np.testing.assert_array_equal(factor[0], np.eye(2))
    assert np.isnan(factor[1]).all()


SOLVES = list(product([True, False], [True, False], [True, False], ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]))


@pytest.mark.parametrize(("left_side", "lower", "unit", "transpose"), SOLVES)
def test_triangular_solve(left_side, lower, unit, transpose):
    generator = np.random.default_rng(0)
    matrix = (generator.standard_normal((2, 5, 5)) + 1j * generator.standard_normal((2, 5, 5))) / 4 + 2 * np.eye(5)
    matrix = matrix.astype(np.complex64)
    shape = (2, 5, 3) if left_side else (2, 3, 5)
    right = generator.standard_normal(shape).astype(np.complex64)
    sizes = ",".join(map(str, shape))
    flags = f"left_side={left_side}, lower={lower}, unit_diagonal={unit}".lower()
    body = f"""p = c64[2,5,5] parameter(0)
 q = c64[{sizes}] parameter(1)
 ROOT r = c64[{sizes}] triangular-solve(p, q), {flags}, transpose_a={transpose}"""
    (solution,) = run(body, matrix, right)
    used = np.tril(matrix) if lower else np.triu(matrix)
    if unit:
        used[:, range(5), range(5)] = 1
    if transpose != "NO_TRANSPOSE":
        used = used.transpose(0, 2, 1)
    if transpose == "ADJOINT":
        used = used.conj()
    np.testing.assert_allclose(used @ solution if left_side else solution @ used, right, rtol=1e-4, atol=1e-4)


def fourier(size, sign):
    index = np.arange(size)
    return np.exp(sign * 2j * np.pi * np.outer(index, index) / size)


def test_fourier_transforms():
    array = (normal(3, 6, 8) + 1j * normal(3, 6, 8)[::-1]).astype(np.complex64)
    header = "p = c64[3,6,8] parameter(0)\n ROOT r = c64[3,6,8] fft(p), "
    expected = np.einsum("ai,bj,nij->nab", fourier(6, -1), fourier(8, -1), array)
    np.testing.assert_allclose(run(header + "fft_type=FFT, fft_length={6,8}", array)[0], expected, rtol=1e-4, atol=1e-4)
    expected = array @ fourier(8, 1) / 8
    np.testing.assert_allclose(run(header + "fft_type=IFFT, fft_length={8}", array)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [8, 9])
def test_real_fourier_transforms(size):
    array, half = normal(2, size), size // 2 + 1
    body = f"p = f32[2,{size}] parameter(0)\n ROOT r = c64[2,{half}] fft(p), fft_type=RFFT, fft_length={{{size}}}"
    (spectrum,) = run(body, array)
    np.testing.assert_allclose(spectrum, (array @ fourier(size, -1))[:, :half], rtol=1e-4, atol=1e-4)
    body = f"p = c64[2,{half}] parameter(0)\n ROOT r = f32[2,{size}] fft(p), fft_type=IRFFT, fft_length={{{size}}}"
    np.testing.assert_allclose(run(body, spectrum)[0], array, rtol=1e-4, atol=1e-5)


def test_batch_normalisation():
    array, scale, offset = normal(2, 3, 4, 5), normal(4), normal(4)[::-1].copy()
    parameters = "p = f32[2,3,4,5] parameter(0)\n s = f32[4] parameter(1)\n o = f32[4] parameter(2)\n"
    attributes = "epsilon=0.01, feature_index=2"
    body = f"{parameters} ROOT r = (f32[2,3,4,5], f32[4], f32[4]) batch-norm-training(p, s, o), {attributes}"
    normalised, mean, variance = run(body, array, scale, offset)
    np.testing.assert_allclose(mean, array.mean((0, 1, 3)), rtol=1e-5)
    np.testing.assert_allclose(variance, array.var((0, 1, 3)), rtol=1e-5)
    column = (slice(None), None)
    expected = (array - mean[column]) / np.sqrt(variance[column] + 0.01) * scale[column] + offset[column]
    np.testing.assert_allclose(normalised, expected, rtol=1e-4, atol=1e-5)
    more = " m = f32[4] parameter(3)\n v = f32[4] parameter(4)\n"
    body = f"{parameters}{more} ROOT r = f32[2,3,4,5] batch-norm-inference(p, s, o, m, v), {attributes}"
    np.testing.assert_allclose(run(body, array, scale, offset, mean, variance)[0], expected, rtol=1e-4, atol=1e-5)


def test_batch_normalisation_gradient_by_differences():
    generator = np.random.default_rng(0)
    array, scale, upstream = (generator.standard_normal(size) for size in ((3, 2, 4), (4,), (3, 2, 4)))
    mean, variance = array.mean((0, 1)), array.var((0, 1))
    body = """p = f64[3,2,4] parameter(0)
 s = f64[4] parameter(1)
 m = f64[4] parameter(2)
 v = f64[4] parameter(3)
 u = f64[3,2,4] parameter(4)
 ROOT r = (f64[3,2,4], f64[4], f64[4]) batch-norm-grad(p, s, m, v, u), epsilon=0.01, feature_index=2"""
    of_operand, of_scale, of_offset = run(body, array, scale, mean, variance, upstream)

    def loss(values, factors, shift):
        centred = values - values.mean((0, 1))
        return (upstream * (centred / np.sqrt(values.var((0, 1)) + 0.01) * factors + shift)).sum()

    step = 1e-6
    for index in np.ndindex(3, 2, 4):
        moved = np.zeros((3, 2, 4))
        moved[index] = step
        difference = (loss(array + moved, scale, 0) - loss(array - moved, scale, 0)) / (2 * step)
        assert abs(difference - of_operand[index]) < 1e-6
    for feature in range(4):
        moved = np.eye(4)[feature] * step
        difference = (loss(array, scale + moved, 0) - loss(array, scale - moved, 0)) / (2 * step)
        assert abs(difference - of_scale[feature]) < 1e-6
        difference = (loss(array, scale, moved) - loss(array, scale, -moved)) / (2 * step)
        assert abs(difference - of_offset[feature]) < 1e-6
