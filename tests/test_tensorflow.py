"""Functions of TensorFlow, compiled: the same results, structures and assignments as TensorFlow's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (extra tensorflow)")

import hlotool.tensorflow  # noqa: E402
from hlotool.ir import InputError, UnsupportedError  # noqa: E402

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def last() -> Any:
    """The newest record."""
    return list(hlotool.tensorflow.explain())[-1]


def agree(f: Callable[..., Any], *args: Any, tolerance: float = 1e-5, **kwargs: Any) -> Any:
    """`f` gives, compiled, twice, what it gives eagerly, and it was compiled."""
    want = f(*args, **kwargs)
    compiled = hlotool.tensorflow.function(f)
    compiled(*args, **kwargs)
    got = compiled(*args, **kwargs)
    assert last().compiled, last().reason
    tf.nest.assert_same_structure(want, got, expand_composites=True)
    leaves = (tf.nest.flatten(nested, expand_composites=True) for nested in (want, got))
    for one, other in zip(*leaves, strict=True):
        if one is None:
            assert other is None
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    return compiled


def structured(x: Any) -> Any:
    return {"a": x + 1, "b": [tf.constant(3.0), None, (tf.shape(x),)]}, x


def loop(x: Any) -> Any:
    i = tf.constant(0)
    while i < 10:
        x = x * 1.5
        i += 1
    return x


def branches(x: Any) -> Any:
    return tf.reduce_sum(x) if tf.reduce_mean(x) > 0 else x[0, 0]


def ragged(x: Any) -> Any:
    return tf.RaggedTensor.from_row_splits(tf.reshape(x, [-1])[:3], [0, 2, 3])


def decomposed(x: Any) -> Any:
    square = tf.matmul(x, x, transpose_b=True)
    values, vectors = tf.linalg.eigh(square)
    q, r = tf.linalg.qr(x, full_matrices=True)
    again = tf.matmul(vectors * values, vectors, transpose_b=True)
    return values, again, q @ r, tf.linalg.inv(square), tf.linalg.cholesky(square)


def network(x: Any) -> Any:
    image = tf.reshape(x, [1, 4, 6, 1])
    return tf.nn.max_pool2d(tf.nn.conv2d(image, tf.ones([2, 2, 1, 3]), 1, "SAME"), 2, 2, "VALID")


@pytest.mark.parametrize("f", [structured, loop, branches, ragged, network, decomposed])
def test_results_are_those_of_tensorflow(f: Callable[..., Any]) -> None:
    agree(f, tf.constant(X), tolerance=1e-4)


@pytest.mark.parametrize("f", [lambda x: tf.where(x > 0), lambda x: tf.unique(tf.reshape(tf.round(x), [-1]))])
def test_results_may_have_shapes_that_depend_on_values(f: Callable[..., Any]) -> None:
    compiled = agree(f, tf.constant(X))
    np.testing.assert_array_equal(compiled(tf.constant(-X))[0], f(tf.constant(-X))[0])


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool", "complex64"]
)
@pytest.mark.parametrize("size", [0, 3, 2000])
def test_types_and_sizes(dtype: str, size: int) -> None:
    x = tf.cast(tf.constant(np.arange(size) % 50), dtype)
    agree(lambda x: (tf.reverse(x, [0]), x if x.dtype == tf.bool else x + x), x)


def test_large_results_stay_when_others_come() -> None:
    compiled = hlotool.tensorflow.function(lambda x: x * 2)
    results = [compiled(tf.fill([5000], float(n))) for n in range(8)]
    assert [float(result[-1]) for result in results] == [2.0 * n for n in range(8)]


def test_arguments_in_any_structure() -> None:
    def f(x: Any, pair: Any, *, scale: float = 2.0, flag: bool = True) -> Any:
        return x * scale + pair["a"] if flag else pair["b"]

    x = tf.constant(X)
    compiled = agree(f, x, {"a": x, "b": X}, scale=3.0)
    before = len(hlotool.tensorflow.explain())
    np.testing.assert_array_equal(compiled(x, {"a": x, "b": X}, flag=False), X)
    assert len(hlotool.tensorflow.explain()) == before + 1
    compiled(x + 1, {"a": x, "b": X + 1}, flag=False)
    assert len(hlotool.tensorflow.explain()) == before + 1


def test_shapes_that_depend_on_values_of_arguments() -> None:
    compiled = hlotool.tensorflow.function(lambda x, n: tf.reshape(x, tf.stack([n, -1])))
    for n in (2, 3, 2, 12):
        assert compiled(tf.constant(X), tf.constant(n)).shape == (n, 24 // n)
    assert "integer arguments" in last().note


def test_variables_are_read_and_assigned() -> None:
    total, scale = tf.Variable(np.zeros(6, np.float32)), tf.Variable(2.0, trainable=False)

    @hlotool.tensorflow.function
    def add(x: Any) -> Any:
        """Adds up."""
        total.assign_add(tf.reduce_sum(x, 0) * scale)
        return total + 0

    for _ in range(3):
        seen = add(tf.constant(X))
    np.testing.assert_allclose(total, 6 * X.sum(0), rtol=1e-5)
    np.testing.assert_allclose(seen, total, rtol=1e-6)
    scale.assign(-6.0)
    add(tf.constant(X))
    np.testing.assert_allclose(total, np.zeros(6), atol=1e-4)
    assert (add.__name__, add.__doc__) == ("add", "Adds up.")
    assert last().compiled


def test_a_training_step_is_tensorflows() -> None:
    def train(compile_: Callable[..., Any]) -> list[float]:
        rng = np.random.default_rng(1)
        weights = [tf.Variable(rng.normal(size=s).astype(np.float32) * 0.3) for s in ((6, 16), (16,), (16, 1), (1,))]
        velocity = [tf.Variable(tf.zeros_like(one)) for one in weights]

        @compile_
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                hidden = tf.tanh(x @ weights[0] + weights[1])
                loss = tf.reduce_mean((hidden @ weights[2] + weights[3] - y) ** 2)
            for one, speed, slope in zip(weights, velocity, tape.gradient(loss, weights), strict=True):
                speed.assign(0.9 * speed + slope)
                one.assign_sub(0.05 * speed)
            return loss

        x, y = tf.constant(X), tf.constant(X.sum(1, keepdims=True))
        return [float(step(x, y)) for _ in range(50)]

    found = train(hlotool.tensorflow.function)
    assert last().compiled
    assert found[-1] < found[0] / 10
    np.testing.assert_allclose(found, train(tf.function), rtol=1e-3)


def test_tapes_and_graphs_around_it_are_tensorflows() -> None:
    square = hlotool.tensorflow.function(lambda x: x * x)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = square(x)
    assert float(tape.gradient(y, x)) == 6
    assert float(tf.function(lambda x: square(x) + 1)(x)) == 10


def test_methods() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = tf.Variable(scale)

        @hlotool.tensorflow.function
        def __call__(self, x: Any) -> Any:
            return x * self.scale

    two, three = Model(2.0), Model(3.0)
    assert [float(model(tf.constant(1.0))) for model in (two, three, two)] == [2, 3, 2]


def test_what_is_not_compiled_runs_all_the_same(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def joined(x: Any) -> Any:
        return tf.strings.as_string(x)

    x = tf.constant([1, 2])
    monkeypatch.setenv("HLOTOOL_FALLBACK", "warn")
    assert list(hlotool.tensorflow.function(joined)(x).numpy()) == [b"1", b"2"]
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("hlotool:")]
    assert len(said) == 1
    assert "joined (int32[2]) is not compiled" in said[0]
    assert "TensorFlow runs it" in said[0]
    assert not last().compiled
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    hlotool.tensorflow.function(joined)(x)
    assert "hlotool" not in capfd.readouterr().err
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    with pytest.raises(UnsupportedError, match=r"joined .*is not compiled"):
        hlotool.tensorflow.function(joined)(x)
    monkeypatch.setenv("HLOTOOL_FALLBACK", "perhaps")
    with pytest.raises(InputError, match=r"HLOTOOL_FALLBACK: expected one of warn, error, silent"):
        hlotool.tensorflow.function(joined)


def test_errors_of_the_user_stay_theirs() -> None:
    with pytest.raises(InputError, match="an argument is a set"):
        hlotool.tensorflow.function(lambda x: x)({1})
    with pytest.raises(InputError, match="expected a function, not int"):
        hlotool.tensorflow.function(3)
    with pytest.raises(Exception, match=r"(?s)test_tensorflow.py.*ZeroDivisionError"):
        hlotool.tensorflow.function(lambda x: x / (1 // 0))(tf.constant(1.0))
    with pytest.raises(ValueError, match=r"Dimensions must be equal"):
        hlotool.tensorflow.function(lambda x: x @ x)(tf.constant(X))
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        hlotool.tensorflow.function(lambda x: x)(tf.constant(X), tf.constant(X))


def test_explain_is_a_table() -> None:
    hlotool.tensorflow.function(lambda x: x)(tf.constant(1.0))
    text = str(hlotool.tensorflow.explain())
    assert "programs compiled" in text.splitlines()[0]
    assert hlotool.tensorflow.explain().as_json()[-1]["compiled"] is True
