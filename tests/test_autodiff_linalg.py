"""Derivatives through `hlotool.numpy.linalg`, against differences and, where it is, against jax."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy
import pytest
from conftest import environment

import hlotool
import hlotool.numpy as np
from hlotool.ir import UnsupportedError

FUNCTIONS = '''
def s(x):
    return np.sum(np.sin(np.real(x)) + np.cos(2 * np.imag(x)))


def sym(a):
    return (a + np.conj(np.matrix_transpose(a))) / 2


def ritz(a):
    """Of eigenvectors what does not depend on their phases."""
    w, v = np.linalg.eigh(sym(a))
    return s(v * np.exp(w)[..., None, :] @ np.conj(np.matrix_transpose(v)))


def polar(a):
    u, w, vh = np.linalg.svd(a, full_matrices=False)
    return s((u * w[..., None, :] ** 2) @ vh)


def spaces(a):
    u, w, vh = np.linalg.svd(a, full_matrices=False)
    return s(u[..., :1] @ np.conj(np.matrix_transpose(u[..., :1]))) + s(
        np.conj(np.matrix_transpose(vh[..., :2, :])) @ vh[..., :2, :])


def least(a):
    return s(np.linalg.lstsq(a, a[:, :1] ** 2 + 1)[0])


CASES = {
    "solve": (lambda a: s(np.linalg.solve(a, a[..., :2] ** 2 + 1)), "square"),
    "inv": (lambda a: s(np.linalg.inv(a)), "square"),
    "det": (lambda a: s(np.linalg.det(a)), "square"),
    "slogdet": (lambda a: s(np.linalg.slogdet(a)[1]) + s(np.linalg.slogdet(a)[0]), "square"),
    "cholesky": (lambda a: s(np.linalg.cholesky(sym(a))), "positive"),
    "upper cholesky": (lambda a: s(np.linalg.cholesky(sym(a), upper=True)), "positive"),
    "qr": (lambda a: s(np.linalg.qr(a)[0]) + s(np.linalg.qr(a)[1]), "square"),
    "qr, tall": (lambda a: s(np.linalg.qr(a)[0]) + s(np.linalg.qr(a)[1]), "tall"),
    "eigh": (ritz, "square"),
    "eigvalsh": (lambda a: s(np.linalg.eigvalsh(sym(a))), "square"),
    "svd": (polar, "square"),
    "svd, tall": (polar, "tall"),
    "svd, wide": (polar, "wide"),
    "svd, spaces, tall": (spaces, "tall"),
    "svd, spaces, wide": (spaces, "wide"),
    "svdvals": (lambda a: s(np.linalg.svd(a, compute_uv=False) if jax else np.linalg.svdvals(a)), "wide"),
    "values of a full svd": (lambda a: s(np.linalg.svd(a, full_matrices=False)[1] if jax else
                             np.linalg.svd(a)[1]), "tall"),
    "pinv": (lambda a: s(np.linalg.pinv(a)), "tall"),
    "pinv, wide": (lambda a: s(np.linalg.pinv(a)), "wide"),
    "lstsq": (least, "one tall"),
    "norm": (lambda a: s(np.linalg.matrix_norm(a)), "tall"),
    "norm 2": (lambda a: s(np.linalg.matrix_norm(a, ord=2)), "tall"),
    "norm nuc": (lambda a: s(np.linalg.matrix_norm(a, ord="nuc")), "wide"),
    "norm 1": (lambda a: s(np.linalg.matrix_norm(a, ord=1)), "tall"),
    "norm -2": (lambda a: s(np.linalg.matrix_norm(a, ord=-2)), "tall"),
    "matrix_power": (lambda a: s(np.linalg.matrix_power(a, 3)), "square"),
    "matrix_power, negative": (lambda a: s(np.linalg.matrix_power(a, -2)), "square"),
}


def matrices(kind, is_complex):
    rng = numpy.random.default_rng(3)
    sizes = {"square": (2, 3, 3), "positive": (2, 3, 3), "tall": (2, 4, 3), "wide": (2, 3, 4), "one tall": (4, 3)}
    a = rng.standard_normal(sizes[kind])
    if is_complex:
        a = a + 1j * rng.standard_normal(a.shape)
    if kind == "positive":
        a = a @ numpy.conj(numpy.swapaxes(a, -1, -2)) + numpy.eye(3)
    return a
'''
space: dict[str, Any] = {"np": np, "numpy": numpy, "jax": None}
exec(FUNCTIONS, space)
CASES, matrices = space["CASES"], space["matrices"]


@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("name", CASES)
def test_differences(name: str, is_complex: bool) -> None:
    """Both modes in a random direction; the real part of the product with the gradient, of complex matrices."""
    f, kind = CASES[name]
    a = matrices(kind, is_complex)
    rng = numpy.random.default_rng(4)
    d = rng.standard_normal(a.shape) + (1j * rng.standard_normal(a.shape) if is_complex else 0)
    compiled = hlotool.jit(f)
    difference = (float(compiled(a + 1e-6 * d)) - float(compiled(a - 1e-6 * d))) / 2e-6
    assert float(hlotool.jvp(f, (a,), (d,))[1]) == pytest.approx(difference, rel=1e-5, abs=1e-6)
    gradient = numpy.asarray(hlotool.grad(f)(a))
    assert numpy.sum(gradient * d).real == pytest.approx(difference, rel=1e-5, abs=1e-6)


JAX = f'''
import json, numpy, jax, jax.numpy as np
jax.config.update("jax_enable_x64", True)
{FUNCTIONS}
found = {{}}
for name, (f, kind) in CASES.items():
    for is_complex in (False, True):
        try:
            g = numpy.asarray(jax.grad(f)(matrices(kind, is_complex)))
        except (NotImplementedError, TypeError):
            continue  # of complex matrices jax has not all
        found[f"{{name}} {{is_complex}}"] = [g.real.tolist(), g.imag.tolist()]
print(json.dumps(found))
'''


def test_gradients_of_jax() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    run = subprocess.run(
        [sys.executable, "-c", JAX], capture_output=True, text=True, check=True,
        env={**environment(), "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    found = json.loads(run.stdout.splitlines()[-1])
    assert len(found) > 1.5 * len(CASES)
    for key, (real, imaginary) in found.items():
        name, is_complex = key.rsplit(" ", 1)
        f, kind = CASES[name]
        own = numpy.asarray(hlotool.grad(f)(matrices(kind, is_complex == "True")))
        expected = numpy.array(real) + 1j * numpy.array(imaginary)
        numpy.testing.assert_allclose(own, expected, rtol=1e-7, atol=1e-8, err_msg=key)


def test_equal_values() -> None:
    """The derivative of what does not depend on the choice of vectors is finite where values are equal."""
    found = hlotool.grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2))(numpy.eye(3))
    numpy.testing.assert_allclose(found, 2 * numpy.eye(3), atol=1e-12)
    found = hlotool.grad(lambda a: np.sum(np.linalg.svdvals(a)))(numpy.eye(3))
    numpy.testing.assert_allclose(found, numpy.eye(3), atol=1e-12)


def test_in_loops_and_twice() -> None:
    def loss(a: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = np.tanh(np.linalg.svd(state + x * a, full_matrices=False)[1][:, None] * state) + a
            return state, np.linalg.eigvalsh(state + np.matrix_transpose(state))

        state, rows = hlotool.scan(step, a, numpy.array([0.5, 1.0, 0.25]))
        return np.sum(np.sin(state)) + np.sum(rows)

    a = matrices("square", False)[0]
    d = numpy.random.default_rng(1).standard_normal(a.shape)
    difference = (float(loss(a + 1e-6 * d)) - float(loss(a - 1e-6 * d))) / 2e-6
    assert numpy.sum(hlotool.grad(loss)(a) * d) == pytest.approx(difference, rel=1e-6)
    gradient = hlotool.grad(lambda a: np.sum(np.linalg.eigvalsh(a + np.matrix_transpose(a)) ** 3))
    _, second = hlotool.jvp(gradient, (a,), (d,))
    difference = (numpy.asarray(gradient(a + 1e-6 * d)) - numpy.asarray(gradient(a - 1e-6 * d))) / 2e-6
    numpy.testing.assert_allclose(second, difference, rtol=1e-5, atol=1e-5)


def test_vectors_that_nothing_determines_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="vectors beyond the rank of the matrix are any that fit"):
        hlotool.grad(lambda a: np.sum(np.linalg.svd(a)[0]))(matrices("tall", False))
