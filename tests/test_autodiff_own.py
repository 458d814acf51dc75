"""Functions whose derivatives their authors have written, Jacobians, and bounds of memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np
from hlotool.numpy.jit import Jitted
from hlotool.passes.autodiff import gradient_module
from hlotool.text.printer import print_module

X = numpy.linspace(-1.0, 2.0, 6).reshape(3, 2)


@hlotool.custom_vjp
def scaled_sine(x: Any, y: Any) -> Any:
    """Whose gradient is ten times what it should be, so that it is told apart."""
    return np.sin(x) * y


def _scaled_fwd(x: Any, y: Any) -> Any:
    return scaled_sine(x, y), {"c": np.cos(x), "s": np.sin(x), "y": y}


def _scaled_bwd(kept: Any, cotangent: Any) -> Any:
    return 10 * cotangent * kept["c"] * kept["y"], 10 * np.sum(cotangent * kept["s"])


scaled_sine.defvjp(_scaled_fwd, _scaled_bwd)


@hlotool.custom_jvp
def softplus(x: Any) -> Any:
    return np.log(1 + np.exp(x))


@softplus.defjvp
def _softplus_jvp(primals: Any, tangents: Any) -> Any:
    ((x,), (t,)) = primals, tangents
    return softplus(x), 10 * t / (1 + np.exp(-x))


SIGMOID = 1 / (1 + numpy.exp(-X))


def test_gradients_are_what_the_rules_say() -> None:
    found = hlotool.grad(lambda x, y: np.sum(scaled_sine(x, y)), (0, 1))(X, 2.0)
    agree(found, (20 * numpy.cos(X), numpy.asarray(10 * numpy.sin(X).sum())))
    agree(hlotool.grad(lambda x: np.sum(softplus(x)))(X), 10 * SIGMOID)
    agree(hlotool.jvp(softplus, (X,), (X,)), (numpy.log1p(numpy.exp(X)), 10 * SIGMOID * X))
    agree(scaled_sine(X, 2.0), 2 * numpy.sin(X))
    agree(hlotool.jit(softplus)(X), numpy.log1p(numpy.exp(X)))


def test_within_their_rules_they_are_as_written() -> None:
    twice = hlotool.grad(lambda x: np.sum(hlotool.grad(lambda x: np.sum(softplus(x)))(x)))
    agree(twice(X), 10 * SIGMOID * (1 - SIGMOID))
    twice = hlotool.grad(lambda x: np.sum(hlotool.grad(lambda x: np.sum(scaled_sine(x, 2.0)))(x)))
    agree(twice(X), -20 * numpy.sin(X))


def test_of_many_examples() -> None:
    w = numpy.array([0.5, 2.0, 3.0])
    each = hlotool.vmap(scaled_sine)
    agree(hlotool.grad(lambda x, y: np.sum(each(x, y)), (0, 1))(X, w),
          (10 * numpy.cos(X) * w[:, None], 10 * numpy.sin(X).sum(1)))  # fmt: skip
    shared = hlotool.vmap(scaled_sine, in_axes=(0, None))
    agree(hlotool.grad(lambda x, y: np.sum(shared(x, y)), (0, 1))(X, 2.0),
          (20 * numpy.cos(X), numpy.asarray(10 * numpy.sin(X).sum())))  # fmt: skip
    other = hlotool.vmap(scaled_sine, in_axes=(None, 0))
    agree(hlotool.grad(lambda x, y: np.sum(other(x, y)), (0, 1))(X[0], w),
          (10 * numpy.cos(X[0]) * w.sum(), numpy.full(3, 10 * numpy.sin(X[0]).sum())))  # fmt: skip
    agree(hlotool.vmap(hlotool.grad(lambda x: np.sum(softplus(x))))(X), 10 * SIGMOID)
    agree(hlotool.grad(lambda x: np.sum(hlotool.vmap(softplus)(x)))(X), 10 * SIGMOID)
    agree(hlotool.jvp(hlotool.vmap(softplus), (X,), (X,))[1], 10 * SIGMOID * X)
    agree(hlotool.grad(lambda x: np.sum(hlotool.vmap(hlotool.vmap(softplus))(x)))(X), 10 * SIGMOID)


def test_in_loops_and_branches() -> None:
    def chained(x: Any) -> Any:
        return hlotool.scan(lambda carry, _: (softplus(carry), carry), x, None, 3)[0]

    slope, value = 1.0, 0.5
    for _ in range(3):
        slope *= 10 / (1 + numpy.exp(-value))
        value = numpy.log1p(numpy.exp(value))
    agree(hlotool.grad(chained)(0.5), numpy.asarray(slope))

    def chosen(x: Any) -> Any:
        return hlotool.cond(x > 0, lambda x: scaled_sine(x, 1.0), lambda x: x, x)

    agree(hlotool.grad(chosen)(0.5), numpy.asarray(10 * numpy.cos(0.5)))
    agree(hlotool.grad(chosen)(-0.5), numpy.asarray(1.0))


def test_arguments_that_are_constants_and_values_from_around() -> None:
    @partial(hlotool.custom_vjp, nondiff_argnums=(0, -1))
    def applied(function: Callable[..., Any], x: Any, power: int = 2) -> Any:
        return function(x) ** power

    applied.defvjp(lambda f, x, p: (f(x) ** p, x), lambda f, p, x, ct: (ct * f(x) * p * 100,))
    agree(hlotool.grad(lambda x: applied(lambda z: 3 * z, x))(2.0), numpy.asarray(1200.0))
    agree(hlotool.grad(lambda x: applied(lambda z: 3 * z, x, power=3))(2.0), numpy.asarray(1800.0))

    weights = np.asarray([2.0, 3.0])

    def outer(x: Any, y: Any) -> Any:
        @hlotool.custom_vjp
        def inner(x: Any) -> Any:
            return x * y * weights

        inner.defvjp(lambda x: (inner(x), None), lambda _, ct: (ct * y * weights * 10,))
        return np.sum(inner(x))

    agree(hlotool.grad(outer)(X[0], 2.0), numpy.array([40.0, 60.0]))
    with pytest.raises(hlotool.UnsupportedError, match=r"test_autodiff_own.py:\d+.*reads a value from around it"):
        hlotool.grad(outer, (0, 1))(X[0], 2.0)


def test_results_and_arguments_without_tangents() -> None:
    @hlotool.custom_vjp
    def picked(x: Any, n: Any) -> Any:
        return {"value": x[n], "place": n + 1}

    picked.defvjp(lambda x, n: (picked(x, n), n), lambda n, ct: (np.zeros(2).at[n].set(7 * ct["value"]), None))
    agree(hlotool.grad(lambda x, n: picked(x, n)["value"])(X[0], 1), numpy.array([0, 7.0]))

    @hlotool.custom_jvp
    def product(x: Any, n: Any) -> Any:
        return x * n, n

    product.defjvp(lambda p, t: (product(*p), (t[0] * p[1] * 5, np.zeros((), int))))
    agree(hlotool.grad(lambda x, n: product(x, n)[0])(3.0, 2), numpy.asarray(10.0))

    @hlotool.custom_jvp
    def both(x: Any, y: Any) -> Any:
        return x * y

    both.defjvps(lambda t, result, x, y: t * y, None)
    agree(hlotool.grad(both, (0, 1))(3.0, 2.0), (numpy.asarray(2.0), numpy.asarray(0.0)))


def test_they_are_instructions_of_modules() -> None:
    module = Jitted(lambda x: np.sum(softplus(scaled_sine(x, 2.0))), (), (), ()).module(X)
    text = print_module(module)
    assert 'custom_call_target="hlotool.custom_vjp"' in text
    parsed = hlotool.parse(text)
    assert print_module(parsed) == text
    value = 2 * numpy.sin(X)
    wanted = 200 * numpy.cos(X) / (1 + numpy.exp(-value))
    for backend in ("cpu", "evaluate"):
        agree(hlotool.compile(parsed, backend=backend)(X)[0], numpy.asarray(numpy.log1p(numpy.exp(value)).sum()))
        agree(hlotool.compile(gradient_module(parsed), backend=backend)(X)[0], wanted)


def _without_rule(x: Any) -> Any:
    return hlotool.custom_vjp(lambda x: x)(x)


def _with(fwd: Any, bwd: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        made = hlotool.custom_vjp(lambda x: x * 2)
        made.defvjp(fwd, bwd)
        return np.sum(made(x))

    return function


def _forwards(x: Any) -> Any:
    return hlotool.jvp(lambda x: scaled_sine(x, 2.0), (x,), (x,))[0]


@pytest.mark.parametrize(
    ("function", "says"),
    [(_without_rule, "its derivative is not there yet\nhint: give it one with .*defvjp"),
     (_with(lambda x: x, None), "the first rule of defvjp gives a Array, and a pair is asked for"),
     (_with(lambda x: ((x, x), None), None), "what the first rule of defvjp gives is .*, and the function gives"),
     (_with(lambda x: (x, None), lambda _, ct: ct), "the second rule of defvjp gives a Array, and a tuple"),
     (_with(lambda x: (x, None), lambda _, ct: (ct, ct)), "gives 2 of them, and a tuple with a cotangent for each of"),
     (_with(lambda x: (x, None), lambda _, ct: (ct[0],)), r"the cotangent of argument 0 has the shape \(\)"),
     (_forwards, "has a derivative backwards .custom_vjp., and one forwards is asked for")],
)  # fmt: skip
def test_bad_use(function: Callable[[Any], Any], says: str) -> None:
    with pytest.raises((TypeError, hlotool.UnsupportedError), match=rf"(?s)test_autodiff_own.py:\d+.*{says}"):
        hlotool.jit(function)(X[0])


def _tree(p: Any, y: Any) -> Any:
    return {"a": p["w"] @ y, "b": np.sum(p["c"] ** 2)}


def test_jacobians() -> None:
    x = numpy.array([1.0, 2.0, 3.0])

    def function(x: Any) -> Any:
        return np.stack([x[0] * x[1], np.sin(x[2])])

    wanted = numpy.array([[2, 1, 0], [0, 0, numpy.cos(3)]])
    p = {"w": numpy.arange(6.0).reshape(2, 3), "c": numpy.ones(2)}
    for jacobian in (hlotool.jacrev, hlotool.jacfwd, lambda *a: hlotool.jit(hlotool.jacrev(*a))):
        agree(jacobian(function)(x), wanted)
        found = jacobian(_tree, (0, 1))(p, x)
        agree(found["a"][1], p["w"])
        agree(found["a"][0]["w"], numpy.einsum("ij,k->ijk", numpy.eye(2), x))
        agree(found["b"][0]["c"], 2 * p["c"])
        agree(found["b"][1], numpy.zeros(3))
    agree(hlotool.vmap(hlotool.jacfwd(function))(numpy.stack([x, x])), numpy.stack([wanted, wanted]))


def test_hessians() -> None:
    x = numpy.array([1.0, 2.0, 3.0])
    cross = numpy.zeros((3, 3))
    cross[0, 1] = cross[1, 0] = 1
    agree(hlotool.hessian(lambda x: np.sum(x**3) + x[0] * x[1])(x), numpy.diag(6 * x) + cross)
    found = hlotool.hessian(lambda x, y: x * x * y, (0, 1))(2.0, 3.0)
    agree(found[0] + found[1], tuple(map(numpy.asarray, (6.0, 4.0, 4.0, 0.0))))


@pytest.mark.parametrize("jacobian", [hlotool.jacrev, hlotool.jacfwd, hlotool.hessian])
def test_jacobians_are_by_floats(jacobian: Any) -> None:
    with pytest.raises(TypeError, match=r"test_autodiff_own.py:\d+: .*floats"):
        jacobian(lambda x: x * 2)(numpy.arange(3))
    with pytest.raises(TypeError, match="takes a function, not a int"):
        jacobian(3)


def test_vjp_within_a_bound() -> None:
    def function(x: Any) -> Any:
        for _ in range(6):
            x = np.sin(x) * np.exp(np.cos(x))
        return x

    x = numpy.linspace(0, 1, 4096)
    free, bounded = (hlotool.vjp(function, x, memory=memory)[1](x)[0] for memory in (None, "420kB"))
    agree(bounded, numpy.asarray(free))
    with pytest.raises(hlotool.UnsupportedError, match="does not fit into 10000 bytes"):
        hlotool.vjp(function, x, memory="10kB")[1](x)
    with pytest.raises(ValueError, match="vjp: memory is a size"):
        hlotool.vjp(function, x, memory="much")
