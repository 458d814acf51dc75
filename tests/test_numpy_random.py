"""hlotool.numpy.random: published vectors of the cipher, distributions, keys."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import hlotool
import hlotool.numpy as np
from hlotool.numpy import random
from hlotool.numpy.threefry import threefry

COUNT = 20000


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [  # the known answers of threefry2x32 with 20 rounds in Random123's kat_vectors
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_threefry(key: Any, counter: Any, expected: Any) -> None:
    def words(pair: Any) -> Any:
        return tuple(np.asarray(numpy.array(one, numpy.uint32)) for one in pair)

    found = threefry(words(key), words(counter))
    assert tuple(int(one) for one in found) == expected


def test_a_key_says_all() -> None:
    key = random.key(7)
    first, again = random.normal(key, (50,)), random.normal(key, (50,))
    assert numpy.array_equal(first, again)
    assert not numpy.array_equal(first, random.normal(random.key(8), (50,)))
    assert numpy.array_equal(numpy.asarray(random.key(2**40 + 3)), [256, 3])
    assert numpy.array_equal(hlotool.jit(random.key)(7), key)


def test_new_keys_are_others() -> None:
    key = random.key(1)
    keys = numpy.asarray(random.split(key, 1000))
    folded = numpy.stack([numpy.asarray(random.fold_in(key, n)) for n in (0, 1, 2, -1)])
    assert len({tuple(one) for one in (*keys, *folded, numpy.asarray(key))}) >= 1001
    assert random.split(key, (2, 3)).shape == (2, 3, 2)
    rows = numpy.stack([numpy.asarray(random.uniform(one, (COUNT,))) for one in keys[:4]])
    assert numpy.abs(numpy.corrcoef(rows) - numpy.eye(4)).max() < 5 / COUNT**0.5


DRAWS: list[tuple[Callable[..., Any], float, float]] = [
    (lambda key: random.uniform(key, (COUNT,), minval=-1.0, maxval=3.0), 1.0, 16 / 12),
    (lambda key: random.normal(key, (COUNT,)), 0.0, 1.0),
    (lambda key: random.exponential(key, (COUNT,)), 1.0, 1.0),
    (lambda key: random.gumbel(key, (COUNT,)), 0.5772156649, numpy.pi**2 / 6),
    (lambda key: random.laplace(key, (COUNT,)), 0.0, 2.0),
    (lambda key: random.logistic(key, (COUNT,)), 0.0, numpy.pi**2 / 3),
    (lambda key: random.rademacher(key, (COUNT,)), 0.0, 1.0),
    (lambda key: random.bernoulli(key, 0.3, (COUNT,)), 0.3, 0.21),
    (lambda key: random.randint(key, (COUNT,), -3, 7), 1.5, 99 / 12),
    (lambda key: random.gamma(key, 2.5, (COUNT,)), 2.5, 2.5),
    (lambda key: random.gamma(key, 0.3, (COUNT,)), 0.3, 0.3),
    (lambda key: random.beta(key, 2.0, 3.0, (COUNT,)), 0.4, 0.04),
    (lambda key: random.truncated_normal(key, -1.0, 1.0, (COUNT,)), 0.0, 0.29112),
    (lambda key: random.categorical(key, numpy.log([0.5, 0.25, 0.25]), shape=(COUNT,)), 0.75, 0.6875),
    (lambda key: random.choice(key, numpy.array([0.0, 1.0, 5.0]), (COUNT,), p=numpy.array([0.2, 0.3, 0.5])), 2.8, 4.96),
    (lambda key: random.poisson(key, 3.5, (COUNT,)), 3.5, 3.5),
    (lambda key: random.poisson(key, 11.0, (COUNT,)), 11.0, 11.0),
    (lambda key: random.poisson(key, 5000.0, (COUNT,)), 5000.0, 5000.0),
    (lambda key: random.binomial(key, 12, 0.3, (COUNT,)), 3.6, 2.52),
    (lambda key: random.binomial(key, 300, 0.8, (COUNT,)), 240.0, 48.0),
    (lambda key: random.binomial(key, 60, 0.25, (COUNT,)), 15.0, 11.25),
    (lambda key: random.geometric(key, 0.2, (COUNT,)), 5.0, 20.0),
    (lambda key: random.negative_binomial(key, 6, 0.6, (COUNT,)), 4.0, 20 / 3),
    (lambda key: random.lognormal(key, 0.5, 0.25, (COUNT,)), math.exp(0.53125), math.expm1(0.0625) * math.exp(1.0625)),
    (lambda key: random.rayleigh(key, 2.0, (COUNT,)), 2 * math.sqrt(math.pi / 2), (4 - math.pi) * 2),
    (lambda key: random.weibull(key, 2.0, (COUNT,)), math.gamma(1.5), 1 - math.gamma(1.5) ** 2),
    (lambda key: random.pareto(key, 9.0, (COUNT,)), 1 / 8, 9 / 64 / 7),
    (lambda key: random.power(key, 3.0, (COUNT,)), 3 / 4, 3 / 80),
    (lambda key: random.triangular(key, -1.0, 0.0, 3.0, (COUNT,)), 2 / 3, 13 / 18),
    (lambda key: random.chisquare(key, 5.0, (COUNT,)), 5.0, 10.0),
    (lambda key: random.standard_t(key, 12.0, (COUNT,)), 0.0, 1.2),
    (lambda key: random.f(key, 9.0, 20.0, (COUNT,)), 20 / 18, 2 * 400 * 27 / (9 * 324 * 16)),
    (lambda key: random.wald(key, 2.0, 9.0, (COUNT,)), 2.0, 8 / 9),
]


@pytest.mark.parametrize("number", range(len(DRAWS)))
def test_moments(number: int) -> None:
    """Mean and variance within five standard errors (of the variance, of a normal number and some room)."""
    draw, mean, variance = DRAWS[number]
    values = numpy.asarray(draw(random.key(number + 100))).astype(float)
    assert values.shape == (COUNT,)
    assert abs(values.mean() - mean) < 5 * (variance / COUNT) ** 0.5
    assert abs(values.var() / variance - 1) < 15 / COUNT**0.5
    compiled = numpy.asarray(hlotool.jit(draw)(random.key(number + 100))).astype(float)
    assert numpy.allclose(compiled, values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_types_of_floats(dtype: str) -> None:
    wanted = getattr(np, dtype)
    values = random.uniform(random.key(3), (1000,), dtype=wanted)
    assert values.dtype == wanted
    held = numpy.asarray(values).astype(float)
    assert held.min() >= 0
    assert held.max() < 1
    assert len(set(held)) > 90
    normal = random.normal(random.key(3), (1000,), dtype=wanted)
    assert normal.dtype == wanted
    assert numpy.isfinite(numpy.asarray(normal).astype(float)).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_types_of_integers(dtype: str) -> None:
    info = numpy.iinfo(dtype)
    low, high = max(info.min, -5), 6
    values = numpy.asarray(random.randint(random.key(5), (2000,), low, high, dtype=dtype))
    assert values.dtype == dtype
    assert set(values.tolist()) == set(range(low, high))
    assert not (numpy.asarray(random.randint(random.key(5), (10,), 4, 4, dtype=dtype)) - 4).any()
    if info.bits < 64:
        whole = numpy.asarray(random.randint(random.key(5), (5000,), info.min, info.max + 1, dtype=dtype)).astype(float)
        assert abs(whole.mean() / 2**info.bits - (info.min + info.max) / 2 / 2**info.bits) < 0.03


def test_orders_and_choices() -> None:
    key = random.key(9)
    order = numpy.asarray(random.permutation(key, 1000))
    assert sorted(order) == list(range(1000))
    assert not numpy.array_equal(order, numpy.arange(1000))
    rows = numpy.arange(30.0).reshape(10, 3)
    assert sorted(map(tuple, numpy.asarray(random.permutation(key, rows)))) == sorted(map(tuple, rows))
    mixed = numpy.asarray(random.permutation(key, rows, axis=1, independent=True))
    assert numpy.array_equal(numpy.sort(mixed, axis=1), rows)
    few = numpy.asarray(random.choice(key, 20, (20,), replace=False))
    assert sorted(few) == list(range(20))
    weights = numpy.array([0.0, 0.5, 0.5, 0.0])
    assert sorted(numpy.asarray(random.choice(key, 4, (2,), replace=False, p=weights))) == [1, 2]
    assert random.choice(key, rows, (2, 2), axis=1).shape == (10, 2, 2)
    shares = numpy.asarray(random.dirichlet(key, numpy.array([1.0, 2.0, 3.0]), (500,)))
    assert numpy.allclose(shares.sum(axis=-1), 1)
    assert numpy.allclose(shares.mean(axis=0), [1 / 6, 1 / 3, 1 / 2], atol=0.05)


def test_bounds_of_truncated_normal_numbers() -> None:
    values = numpy.asarray(random.truncated_normal(random.key(2), 0.5, numpy.inf, (5000,)))
    assert values.min() > 0.5
    assert numpy.isfinite(values).all()


def test_bad_use_is_told() -> None:
    key = random.key(0)
    for call, words in (
        (lambda: random.uniform(3, (2,)), "uint32"),
        (lambda: random.uniform(key, (2,), dtype=int), "floats"),
        (lambda: random.uniform(key, (-2,)), "negative"),
        (lambda: random.choice(key, 3, (4,), replace=False), "without replacement"),
        (lambda: random.key("seed"), "integer"),
    ):
        with pytest.raises((TypeError, ValueError), match=words) as caught:
            call()
        assert __file__ in str(caught.value)


def test_the_bits_are_those_of_jax() -> None:
    python = os.environ.get("HLOTOOL_XLA_PYTHON")
    if python is None:
        pytest.skip("HLOTOOL_XLA_PYTHON names no Python that has jax")
    program = """import jax, json, numpy
jax.config.update("jax_enable_x64", True)
key, r = jax.random.PRNGKey(42), jax.random
print(json.dumps([numpy.asarray(one).tolist() for one in (
    r.split(key, 3), r.fold_in(key, 7), r.bits(key, (5,), "uint32"), r.bits(key, (5,), "uint64"), r.uniform(key, (5,)),
    r.permutation(key, 50), r.randint(key, (9,), -5, 1000), r.normal(key, (50,)), r.gumbel(key, (50,)))]))"""
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"jax does not run there: {done.stderr[-200:]}")
    key = random.key(42)
    ours = [
        random.split(key, 3), random.fold_in(key, 7), random.bits(key, (5,)), random.bits(key, (5,), "uint64"),
        random.uniform(key, (5,)), random.permutation(key, 50), random.randint(key, (9,), -5, 1000),
        random.normal(key, (50,)), random.gumbel(key, (50,)),
    ]  # fmt: skip
    for number, (found, expected) in enumerate(zip(ours, json.loads(done.stdout), strict=True)):
        if number < 7:
            assert numpy.asarray(found).tolist() == expected
        else:
            assert numpy.allclose(found, expected, rtol=1e-12)


def test_numbers_of_several_parts() -> None:
    key = random.key(21)
    counts = numpy.asarray(random.multinomial(key, 40, [0.5, 0.2, 0.3], (5000,)))
    assert counts.shape == (5000, 3)
    assert (counts.sum(-1) == 40).all()
    assert (counts >= 0).all()
    numpy.testing.assert_allclose(counts.mean(0), [20, 8, 12], rtol=0.02)
    spread = numpy.array([[2.0, 0.6], [0.6, 1.0]])
    values = numpy.asarray(random.multivariate_normal(key, [1.0, -2.0], spread, (20000,)))
    numpy.testing.assert_allclose(values.mean(0), [1, -2], atol=0.05)
    numpy.testing.assert_allclose(numpy.cov(values.T), spread, atol=0.06)


@pytest.mark.parametrize("mean", [0.3, 6.0, 12.0, 40.0])
def test_frequencies_of_poisson_numbers(mean: float) -> None:
    values = numpy.asarray(random.poisson(random.key(4), mean, (COUNT,)))
    top = int(mean + 3 * mean**0.5) + 2
    found = numpy.bincount(values, minlength=top)[:top] / COUNT
    wanted = numpy.array([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(top)])
    assert (numpy.abs(found - wanted) < 5 * numpy.sqrt(wanted / COUNT) + 1e-4).all()


@pytest.mark.parametrize(("count", "share"), [(5, 0.5), (40, 0.1), (50, 0.4), (80, 0.75)])
def test_frequencies_of_binomial_numbers(count: int, share: float) -> None:
    values = numpy.asarray(random.binomial(random.key(6), count, share, (COUNT,)))
    found = numpy.bincount(values, minlength=count + 1) / COUNT
    wanted = numpy.array([math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)])
    assert (numpy.abs(found - wanted) < 5 * numpy.sqrt(wanted / COUNT) + 1e-4).all()


def test_edges_of_counts() -> None:
    key = random.key(8)
    assert numpy.asarray(random.poisson(key, [0.0, -1.0, numpy.nan])).tolist() == [0, -1, -1]
    found = numpy.asarray(random.binomial(key, [7, 7, 0, 7], [0.0, 1.0, 0.5, 2.0])).tolist()
    assert found == [0, 7, 0, -1]
    assert numpy.asarray(random.geometric(key, 1.0, (3,))).tolist() == [1, 1, 1]
    assert random.poisson(key, 2.0, (0,)).shape == (0,)
    with pytest.raises(ValueError, match=r"test_numpy_random.py:.*parameters of shape \(2,\)"):
        random.poisson(key, [1.0, 2.0], (3,))


def test_whole_numbers_that_a_key_cannot_hold_are_parameters_of_distributions() -> None:
    key = random.key(3)
    for name, parameters in {
        "lognormal": (-1, 2), "triangular": (-3, -2, 1), "rayleigh": (2**33,), "wald": (2**33, 1), "pareto": (2**33,),
        "chisquare": (2**33,), "poisson": (2**33,),
    }.items():  # fmt: skip
        draw = getattr(random, name)
        found = numpy.asarray(draw(key, *parameters, shape=(5,)))
        numpy.testing.assert_array_equal(found, draw(key, *map(float, parameters), shape=(5,)), err_msg=name)
