"""Derivatives of Python functions."""

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
from hlotool.ir import InputError


def f32(*values: float) -> Any:
    return numpy.array(values, numpy.float32)


X = f32(0.5, -1.0, 2.0)


def test_gradients_by_several_arguments_have_their_structure() -> None:
    def loss(parameters: dict[str, Any], x: Any, scale: float) -> Any:
        return np.sum((x * parameters["w"] + parameters["b"]) ** 2) * scale

    parameters = {"w": X, "b": f32(1.0, 0.0, 1.0)}
    value, (found, by_x) = hlotool.value_and_grad(loss, argnums=(0, 1))(parameters, X, 3.0)
    inner = X * X + parameters["b"]
    assert sorted(found) == ["b", "w"]
    numpy.testing.assert_allclose(value, 3 * (inner**2).sum(), rtol=1e-5)
    numpy.testing.assert_allclose(found["b"], 6 * inner, rtol=1e-5)
    numpy.testing.assert_allclose(found["w"], 6 * inner * X, rtol=1e-5)
    numpy.testing.assert_allclose(by_x, 6 * inner * X, rtol=1e-5)
    numpy.testing.assert_allclose(hlotool.grad(loss, argnums=1)(parameters, X, scale=3.0), by_x)


def test_something_beside_the_scalar() -> None:
    def loss(x: Any) -> Any:
        return np.sum(x**3), {"twice": x + x, "many": np.argmax(x)}

    (value, beside), found = hlotool.value_and_grad(loss, has_aux=True)(X)
    again, _ = hlotool.grad(loss, has_aux=True)(X)
    numpy.testing.assert_allclose(value, (X**3).sum(), rtol=1e-6)
    numpy.testing.assert_array_equal(beside["twice"], 2 * X)
    assert int(beside["many"]) == 2
    numpy.testing.assert_allclose(found, 3 * X**2, rtol=1e-6)
    numpy.testing.assert_allclose(again, found)


def test_gradients_of_gradients_and_of_compiled_functions() -> None:
    cube = hlotool.jit(lambda x: x**3)
    assert float(hlotool.grad(hlotool.grad(cube))(numpy.float32(2.0))) == pytest.approx(12.0)
    inner = hlotool.grad(lambda x: hlotool.grad(lambda y: y**3 * x)(x))  # 3 x^2 * x
    assert float(hlotool.jit(inner)(numpy.float32(2.0))) == pytest.approx(36.0)


def test_forwards_and_backwards() -> None:
    def f(x: Any, n: Any) -> Any:
        return {"y": np.sin(x) * x, "n": n + 1}

    n = numpy.array([1, 2], numpy.int32)
    value, slope = hlotool.jvp(f, (X, n), (numpy.ones_like(X), n))
    expected = numpy.cos(X) * X + numpy.sin(X)
    numpy.testing.assert_allclose(slope["y"], expected, rtol=1e-5)
    numpy.testing.assert_array_equal(value["n"], [2, 3])
    numpy.testing.assert_array_equal(slope["n"], [0, 0])
    value, back = hlotool.vjp(f, X, n)
    by_x, by_n = back({"y": f32(1.0, 2.0, 3.0), "n": n})
    numpy.testing.assert_allclose(by_x, expected * f32(1.0, 2.0, 3.0), rtol=1e-5)
    numpy.testing.assert_array_equal(by_n, [0, 0])


def test_constants_of_derivatives_and_values_computed_again() -> None:
    found = hlotool.grad(lambda x: np.sum(hlotool.stop_gradient(x) * x))(X)
    numpy.testing.assert_array_equal(found, X)
    numpy.testing.assert_array_equal(hlotool.stop_gradient(X), X)
    whole = hlotool.grad(lambda x: np.sum(np.sin(np.exp(x))))
    parts: Any = hlotool.value_and_grad(lambda x: np.sum(hlotool.checkpoint(lambda z: np.sin(np.exp(z)))(x)))
    numpy.testing.assert_allclose(parts(X)[1], whole(X), rtol=1e-6)
    opcodes = [instruction.opcode for instruction in parts.module(X).instructions()]
    assert opcodes.count("exponential") == 2
    assert "opt-barrier" in opcodes


@pytest.mark.parametrize(
    ("function", "arguments", "options", "words"),
    [
        (lambda x: x, (X,), {}, "a gradient is that of one scalar"),
        (lambda x: np.sum(x), (numpy.arange(3, dtype=numpy.int32),), {}, "gradients are by floats"),
        (lambda x: np.sum(x), (X,), {"argnums": 1}, "there is no argument 1"),
        (lambda x, y: np.sum(x), (X, X), {"argnums": (0, 0)}, "names an argument twice"),
        (lambda x: np.sum(x), (X,), {"has_aux": True}, "returns a pair"),
        (lambda x: (np.sum(x), x), (X,), {}, "a gradient is that of one scalar"),
    ],
)
def test_what_has_no_gradient_says_so(function: Any, arguments: Any, options: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        hlotool.grad(function, **options)(*arguments)


# ---- training, beside JAX in a process of its own


MODELS = '''
def mlp(p, x, y):
    h = np.maximum(x @ p[0] + p[1], 0)
    h = np.tanh(h @ p[2] + p[3])
    return np.mean((h @ p[4] + p[5] - y) ** 2)


def softmax(z):
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(p, x, y):
    q, k, v = x @ p[0], x @ p[1], x @ p[2]
    a = softmax(q @ np.matrix_transpose(k) / 4.0)
    h = x + a @ v
    m = np.mean(h, axis=-1, keepdims=True)
    n = (h - m) / np.sqrt(np.mean((h - m) ** 2, axis=-1, keepdims=True) + 1e-5)
    o = h + np.maximum(n @ p[3], 0) @ p[4]
    return np.mean((np.sum(o, axis=-2) - y) ** 2)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def lstm(p, x, y):
    def step(state, row):
        h, c = state
        z = row @ p[0] + h @ p[1] + p[2]
        i, f, g, o = z[:, 0:8], z[:, 8:16], z[:, 16:24], z[:, 24:32]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h, c), h
    zero = np.zeros((4, 8), dtype=np.float32)
    (h, c), hs = scan(step, (zero, zero), x)
    return np.mean((h @ p[3] - y) ** 2)


def conv(p, x, y):
    w = x.shape[-1]
    windows = np.stack([x[:, i:w - 4 + i] for i in range(5)], axis=-1)
    h = np.maximum(windows @ p[0] + p[1], 0)
    h = np.max(np.reshape(h, (8, 6, 2, 6)), axis=2)
    return np.mean((np.reshape(h, (8, 36)) @ p[2] - y) ** 2)


SHAPES = {
    "mlp": ([(13, 16), (16,), (16, 16), (16,), (16, 1), (1,)], (32, 13), (32, 1)),
    "attention": ([(8, 8)] * 3 + [(8, 16), (16, 8)], (4, 6, 8), (4, 8)),
    "lstm": ([(5, 32), (8, 32), (32,), (8, 2)], (7, 4, 5), (4, 2)),
    "conv": ([(5, 6), (6,), (36, 2)], (8, 16), (8, 2)),
}


def train(name, steps):
    shapes, of_x, of_y = SHAPES[name]
    r = numpy.random.default_rng(0)
    p = [r.standard_normal(s).astype("float32") * numpy.float32(0.3) for s in shapes]
    x, y = (r.standard_normal(s).astype("float32") for s in (of_x, of_y))
    m, v = [numpy.zeros_like(a) for a in p], [numpy.zeros_like(a) for a in p]
    both = value_and_grad(globals()[name])
    losses = []
    for t in range(1, steps + 1):
        loss, g = both(p, x, y)
        losses.append(float(loss))
        for n, a in enumerate(map(numpy.asarray, g)):
            m[n] = numpy.float32(0.9) * m[n] + numpy.float32(0.1) * a
            v[n] = numpy.float32(0.999) * v[n] + numpy.float32(0.001) * a * a
            b = numpy.sqrt(v[n] / numpy.float32(1 - 0.999 ** t)) + numpy.float32(1e-4)
            p[n] = p[n] - numpy.float32(0.003) * (m[n] / numpy.float32(1 - 0.9 ** t)) / b
    return losses
'''
OURS = "import numpy, hlotool, hlotool.numpy as np\nfrom hlotool import scan, value_and_grad\n"
JAX = (
    "import json, numpy, jax, jax.numpy as np\nfrom jax.lax import scan\n"
    "def value_and_grad(f):\n    return jax.jit(jax.value_and_grad(f))\n"
)


@pytest.mark.parametrize("name", ["mlp", "conv", "lstm", "attention"])
def test_training_comes_to_the_losses_of_jax(name: str) -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    space: dict[str, Any] = {}
    exec(OURS + MODELS, space)
    losses = space["train"](name, 200)
    text = f"{JAX}{MODELS}\nprint(json.dumps(train({name!r}, 200)))"
    run = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True,
        env={**environment(), "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    expected = json.loads(run.stdout.splitlines()[-1])
    assert losses[-1] < 0.5 * losses[0]
    # a loss that has come down to nothing is rounding: it is measured by the first one
    numpy.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6 * losses[0])
