"""Programs for several devices, which `test_jax_sharded.py` runs with the plug-in and with stock JAX.

``python jax_sharded_cases.py FILE [NAME...]`` runs the functions below that are in `CASES`, or those named, on eight
devices and writes what they give to FILE: by name, the arrays, the error, and why programs fell back.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.experimental.shard_alike import shard_alike
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

CASES: dict[str, Callable[[], Any]] = {}
DEVICES = 8


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def mesh(*sizes: int, names: str = "xyz", first: int = 0) -> Mesh:
    count = int(np.prod(sizes))
    return Mesh(np.array(jax.devices()[first : first + count]).reshape(sizes), tuple(names[: len(sizes)]))


def put(value: Any, where: Mesh, *spec: Any) -> Any:
    return jax.device_put(value, NamedSharding(where, P(*spec)))


def numbers(*shape: int, seed: int = 0, kind: Any = np.float32) -> Any:
    values = np.random.RandomState(seed).standard_normal(shape)
    return (values * 4).astype(kind) if np.issubdtype(kind, np.integer) else values.astype(kind)


def mapped(where: Mesh, given: Any, result: Any, **options: Any) -> Callable[[Any], Any]:
    """A function of each device's part, jitted."""
    return lambda function: jax.jit(jax.shard_map(function, mesh=where, in_specs=given, out_specs=result, **options))


def terms(array: Any) -> Any:
    """What each device has of an array that is not added up yet."""
    return [np.asarray(shard.data) for shard in array.addressable_shards]


# ---- jit


@case
def shardings_given() -> Any:
    m = mesh(8)
    row, column = NamedSharding(m, P("x", None)), NamedSharding(m, P(None, "x"))
    step = jax.jit(lambda x, y: (x @ y, x.T + 1), in_shardings=(row, column), out_shardings=(row, column))
    return step(numbers(8, 16), numbers(16, 24))


@case
def shardings_left_to_the_compiler() -> Any:
    m = mesh(2, 4)
    x, w = put(numbers(8, 16), m, "x", "y"), put(numbers(16, 32), m, "y", None)
    return jax.jit(lambda x, w: (jnp.tanh(x @ w), x.sum(0), x.mean(), x * 2))(x, w)


@case
def constraints() -> Any:
    m = mesh(2, 4)

    def step(x: Any) -> Any:
        y = lax.with_sharding_constraint(x @ x.T, NamedSharding(m, P("y", "x")))
        z = lax.with_sharding_constraint(jnp.sin(y), NamedSharding(m, P(("x", "y"), None)))
        return y + 1, z, lax.with_sharding_constraint(z.sum(1), NamedSharding(m, P()))

    return jax.jit(step)(put(numbers(16, 8), m, "x"))


@case
def uneven_constraints() -> Any:
    m = mesh(8)

    def step(x: Any) -> Any:
        y = lax.with_sharding_constraint(jnp.cos(x), NamedSharding(m, P("x", None)))
        return (y @ y.T).sum(0), jnp.cumsum(y, 0)[-1], jnp.sort(y, 0)[::3]

    return jax.jit(step, out_shardings=NamedSharding(m, P()))(numbers(13, 5))


@case
def resharding() -> Any:
    m = mesh(2, 4)
    x = put(numbers(8, 8), m, "x", "y")
    found = [x]
    for spec in ((), ("y", "x"), (("x", "y"),), (None, ("y", "x")), ("x",), (None, "x")):
        found.append(jax.jit(lambda x: x + 1, out_shardings=NamedSharding(m, P(*spec)))(found[-1]))
        found.append(put(found[-1], m, *reversed(spec)))
    return found


@case
def meshes_of_all_kinds() -> Any:
    x = numbers(8, 8)
    ways = ((1, 2), ("x", "y")), ((2, 2, 2), (("x", "z"), "y")), ((4, 2), ("y", "x")), ((1, 1), ("x",))
    return [jax.jit(lambda x: jnp.dot(x, x.T) / 3)(put(x, mesh(*sizes), *spec)) for sizes, spec in ways]


@case
def a_subset_of_devices() -> Any:
    m, other = mesh(2, 2, first=4), mesh(2, first=1)
    x = put(numbers(4, 6), m, "y", "x")
    y = jax.jit(lambda x: x @ x.T)(x)
    z = jax.jit(lambda x: x - x.sum())(put(np.asarray(y), other, "x"))
    alone = jax.device_put(y, SingleDeviceSharding(jax.devices()[7]))
    return y, z, jax.jit(jnp.sin)(alone), sorted(d.id for d in y.devices()), sorted(d.id for d in z.devices())


@case
def arrays_made_of_parts() -> Any:
    whole, m = numbers(8, 12), mesh(4, 2)
    x = jax.make_array_from_callback(whole.shape, NamedSharding(m, P("x", "y")), lambda at: whole[at])
    rows = [jax.device_put(whole[n : n + 1], device) for n, device in enumerate(jax.devices())]
    y = jax.make_array_from_single_device_arrays(whole.shape, NamedSharding(mesh(8), P("x")), rows)
    return jax.jit(lambda x: x * 2)(x), jax.jit(lambda y: y.sum(0))(y)


@case
def moving_between_meshes() -> Any:
    x = put(numbers(8, 8), mesh(8), "x")
    y = jax.device_put(x, NamedSharding(mesh(2, 4), P("y", "x")))
    z = jax.device_put(y, NamedSharding(mesh(4, first=4), P(None, "x")))
    return y, z, jax.jit(lambda z: z + z.T)(z), jax.device_put(z, jax.devices()[0])


@case
def donated() -> Any:
    m = mesh(8)
    sharding = NamedSharding(m, P("x"))
    step = jax.jit(lambda x, g: (x - 0.1 * g, g * 0.9), donate_argnums=(0, 1), out_shardings=sharding)
    x, g = put(numbers(16, 4), m, "x"), put(numbers(16, 4, seed=1), m, "x")
    for _ in range(3):
        given = x, g
        x, g = step(*given)
        assert all(array.is_deleted() for array in given)
    kept = put(numbers(16, 4), m, "x")
    moved = jax.jit(lambda x: x.T @ x, donate_argnums=0)(kept)
    return x, g, moved


@case
def element_types() -> Any:
    m = mesh(8)
    kinds = ("int8", "uint16", "int32", "float16", "bfloat16", "complex64", "uint32")
    step = jax.jit(lambda x: (x + x[::-1], x * 3, jnp.sum(x, 0)))
    flags = jax.jit(lambda x: (x > 0, ~(x > 0), jnp.any(x > 1), jnp.all(x > -9, 1)))
    x = numbers(8, 3) * 4
    return [step(put(np.asarray(x).astype(jnp.dtype(kind)), m, "x")) for kind in kinds], flags(put(x, m, "x"))


# ---- operations along a divided dimension


@case
def moving_along_a_divided_dimension() -> Any:
    x = put(numbers(16, 6), mesh(8), "x")

    def step(x: Any) -> Any:
        pieces = jnp.concatenate([x, x[3:9]], 0), jnp.roll(x, 3, 0), jnp.flip(x, 0), jnp.pad(x, ((1, 2), (0, 1)))
        return *pieces, x.reshape(4, 4, 6), x.reshape(-1), jnp.tile(x, (2, 1)), x[2:-3:2], jnp.repeat(x, 2, 0)

    return jax.jit(step, out_shardings=NamedSharding(mesh(8), P()))(x), jax.jit(lambda x: x.reshape(-1))(x)


@case
def reversed_results_lie_as_what_was_reversed() -> Any:
    """JAX has no name for tiles that are counted from the end."""
    steps = (lambda x: x[::-1], jnp.flip, lambda x: jnp.flip(x, 1) + 1, jnp.rot90, lambda x: (x[::-1], x + x[::-1]))
    found = []
    for spec in (("x", "y"), ("y", "x"), (("x", "y"),), (None, ("y", "x")), ("x",), (("y", "x"),)):
        x = put(numbers(8, 16), mesh(2, 4), *spec)
        for step in steps:
            made = jax.tree.leaves(jax.jit(step)(x))
            found += made
            found += [np.array([[one.start or 0 for one in s.index] for s in a.addressable_shards]) for a in made]
            found += [np.array(a.sharding.shard_shape(a.shape)) for a in made]
    return found


@case
def results_that_devices_do_not_divide() -> Any:
    """Each of them all that its program gives, and as the compiler likes."""
    x = put(numbers(8, 8), mesh(2, 4), "x", "y")
    steps = (
        lambda x: x[2:5, 1:6], lambda x: lax.dynamic_slice(x, (2, 1), (3, 5)), lambda x: x[1:], lambda x: x[:, ::3],
        lambda x: jnp.pad(x, ((0, 1), (2, 0))), lambda x: lax.top_k(x, 3)[0], lambda x: x[jnp.array([0, 3, 5])],
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"), lambda x: x[:3] @ x[:, :5],
    )  # fmt: skip
    return [jax.jit(step)(x) for step in steps]


@case
def ordering_along_a_divided_dimension() -> Any:
    x = put(numbers(16, 4), mesh(8), "x")
    step = lambda x: (  # noqa: E731
        jnp.sort(x, 0), jnp.argsort(x, 0), jnp.cumsum(x, 0), jnp.argmax(x, 0), lax.top_k(x.T, 3), jnp.median(x, 0),
        jnp.searchsorted(jnp.sort(x[:, 0]), x[:, 1]), lax.cummax(x, 0),
    )  # fmt: skip
    return jax.jit(step)(x)


@case
def places_that_are_computed() -> Any:
    m = mesh(2, 4)
    x, at = put(numbers(16, 8), m, "x", "y"), put(np.array([3, 9, 1, 15, 0, 2, 7, 7]), m, "x")

    def step(x: Any, at: Any) -> Any:
        row = lax.dynamic_slice(x, (at[0], 1), (5, 4))
        new = lax.dynamic_update_slice(x, row * 2, (at[1], 2))
        return row, new, x[at], x.at[at].add(1.0), jnp.take_along_axis(x[:8], at[:, None] % 8, 1), x[at, at % 8]

    return jax.jit(step)(x, at)


@case
def convolutions() -> Any:
    m = mesh(2, 4)
    x, k = put(numbers(4, 3, 16, 12), m, "x", None, "y"), put(numbers(8, 3, 3, 3), m)

    def loss(k: Any, x: Any) -> Any:
        return jnp.mean(lax.conv_general_dilated(x, k, (1, 1), "SAME") ** 2)

    return jax.jit(jax.value_and_grad(loss, (0, 1)))(k, x), jax.jit(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    )(x)


@case
def linear_algebra() -> Any:
    m = mesh(8)
    a = numbers(8, 6, 6)
    a = put(a @ a.transpose(0, 2, 1) + 6 * np.eye(6, dtype=np.float32), m, "x")
    b = put(numbers(8, 6, 2), m, "x")
    step = lambda a, b: (jnp.linalg.cholesky(a), jnp.linalg.solve(a, b), jnp.linalg.eigvalsh(a), jnp.linalg.det(a))  # noqa: E731
    return jax.jit(step)(a, b), jax.jit(lambda b: jnp.abs(jnp.fft.rfft(b, axis=1)))(b)


@case
def contractions() -> Any:
    m = mesh(2, 4)
    q, k = put(numbers(4, 8, 4, 6), m, "x", None, "y"), put(numbers(4, 8, 4, 6, seed=1), m, "x", None, "y")

    def step(q: Any, k: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), k), jnp.einsum("bqhd,bqhd->", q, k)

    return jax.jit(step)(q, k)


# ---- loops and branches


@case
def scans() -> Any:
    m = mesh(2, 4)
    x, rows = put(numbers(8, 4), m, "x", "y"), put(numbers(5, 8, 4), m, None, "x", "y")
    step = lambda x, rows: lax.scan(lambda c, r: (jnp.tanh(c + r @ c.T @ c), c.sum()), x, rows)  # noqa: E731
    return jax.jit(step)(x, rows), jax.jit(jax.grad(lambda x, rows: step(x, rows)[0].sum()))(x, rows)


@case
def whiles() -> Any:
    x = put(np.abs(numbers(8, 4)), mesh(8), "x")
    until = lambda x: lax.while_loop(lambda c: c[0].sum() < 1e3, lambda c: (c[0] * 1.5, c[1] + 1), (x, 0))  # noqa: E731
    return jax.jit(until)(x), jax.jit(lambda x: lax.fori_loop(0, 4, lambda n, y: y + n * x.sum(0), x))(x)


@case
def branches() -> Any:
    x = put(numbers(8, 4), mesh(8), "x")

    def step(x: Any, n: Any) -> Any:
        return lax.switch(n, [lambda x: x.sum(0), lambda x: x[3] * 2, lambda x: jnp.sort(x, 0)[0]], x)

    return [jax.jit(step)(x, n) for n in range(3)], jax.jit(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x))(x)


@case
def mapping() -> Any:
    m = mesh(8)
    x = put(numbers(8, 5, 3), m, "x")
    w = put(numbers(3, 2), m)
    return jax.jit(jax.vmap(lambda x: lax.map(lambda r: r @ r, x)))(x), jax.jit(
        jax.vmap(lambda x: lax.with_sharding_constraint(x @ w, NamedSharding(m, P())), spmd_axis_name="x")
    )(x)


# ---- random numbers


@case
def random_numbers() -> Any:
    m = mesh(2, 4)
    made = NamedSharding(m, P("x", "y"))

    @partial(jax.jit, out_shardings=(made, made, NamedSharding(m, P("x"))))
    def draw(seed: Any) -> Any:
        key = jax.random.key(seed)
        one, two, three = jax.random.split(key, 3)
        return jax.random.normal(one, (8, 8)), jax.random.uniform(two, (4, 16)), jax.random.permutation(three, 16)

    keys = put(jax.random.split(jax.random.key(3), 8), mesh(8), "x")
    return draw(7), jax.jit(jax.vmap(lambda key: jax.random.randint(key, (3,), 0, 100)))(keys)


@case
def dropout() -> Any:
    x = put(numbers(16, 8), mesh(8), "x")

    def step(key: Any, x: Any) -> Any:
        return jnp.where(jax.random.bernoulli(key, 0.7, x.shape), x / 0.7, 0)

    return jax.jit(step)(jax.random.key(1), x)


# ---- shard_map


@case
def sums_of_devices() -> Any:
    m = mesh(2, 4)

    @mapped(m, P("x", "y"), (P("x"), P(), P(None, "y"), P("x", "y")))
    def step(x: Any) -> Any:
        biggest = lax.pmax(x, "x"), lax.pmin(x, ("x", "y"))
        return lax.psum(x, "y"), lax.psum(x, ("x", "y")) + biggest[1], biggest[0], x - lax.pmean(x, "y")

    return step(numbers(4, 8))


@case
def sums_of_what_is_the_same_everywhere() -> Any:
    @mapped(mesh(2, 4), P("x", "y"), P("x", "y"))
    def step(x: Any) -> Any:
        one = lax.pcast(jnp.cos(jnp.arange(2.0)), ("x", "y"), to="varying")
        return x * lax.psum(one, "y") + lax.all_gather(one, "x").sum(0)

    @mapped(mesh(2, 4), P("x"), P("x"), axis_names={"x"})
    def half(x: Any) -> Any:
        return x + lax.psum(lax.pcast(jnp.cos(jnp.arange(2.0)), "x", to="varying"), "x")

    return step(numbers(4, 8)), half(numbers(4, 2))


@case
def gathering() -> Any:
    m = mesh(8)

    @mapped(m, P("x"), (P(None, "x"), P("x"), P("x")))
    def step(x: Any) -> Any:
        every = lax.all_gather(x, "x")
        return every.reshape(8, -1), lax.all_gather(x, "x", axis=1, tiled=True), every[::-1].sum(0)

    return step(numbers(16, 3))


@case
def scattering_sums() -> Any:
    m = mesh(2, 4)

    @mapped(m, P("x", "y"), (P("x", "y"), P(("x", "y"))))
    def step(x: Any) -> Any:
        return lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True), lax.psum_scatter(
            x.reshape(8, -1), ("x", "y"), scatter_dimension=0, tiled=True
        )

    return step(numbers(4, 32))


@case
def rings() -> Any:
    m = mesh(8)

    @mapped(m, P("x"), (P("x"), P("x"), P("x")))
    def step(x: Any) -> Any:
        there = [(n, (n + 1) % 8) for n in range(8)]

        def turn(carry: Any, _: Any) -> Any:
            x, total = carry
            return (lax.ppermute(x, "x", there), total + x), x.sum()

        (_, total), sums = lax.scan(turn, (x, jnp.zeros_like(x)), None, length=8)
        return total, sums[:1], lax.ppermute(x, "x", [(0, 3), (5, 1)])

    return step(numbers(8, 4))


@case
def all_to_all() -> Any:
    m = mesh(2, 4)

    @mapped(m, P("x", "y"), (P("x", "y"), P(None, ("x", "y"))))
    def step(x: Any) -> Any:
        return lax.all_to_all(x, "y", 0, 1, tiled=True), lax.all_to_all(
            x.reshape(8, -1), ("x", "y"), 0, 1, tiled=True
        )

    return step(numbers(16, 32))


@case
def numbers_of_devices() -> Any:
    m = mesh(2, 4)

    @mapped(m, P("x", "y"), P("x", "y"))
    def step(x: Any) -> Any:
        own = 10 * lax.axis_index("x") + lax.axis_index("y")
        return lax.cond(own % 2 == 0, lambda x: x + own, lambda x: x * lax.axis_size("y"), x)

    return step(np.ones((4, 8), np.float32))


@case
def loops_of_devices() -> Any:
    """Trips and branches that differ from device to device, with none of them meeting others inside."""
    m = mesh(8)

    @mapped(m, P("x"), P("x"))
    def step(x: Any) -> Any:
        own = lax.axis_index("x")
        y = lax.fori_loop(0, own, lambda n, y: y * 1.5 + n, x)
        return lax.psum(y.sum(), "x") + lax.while_loop(lambda y: y.sum() < own, lambda y: y + 1, y)

    return step(numbers(8, 3))


@case
def some_axes_by_hand() -> Any:
    m = mesh(2, 4)

    @mapped(m, P("x"), P("x"), axis_names={"x"})
    def step(x: Any) -> Any:
        y = jnp.tanh(x @ x.T)
        return lax.psum(y, "x") + x.sum() * lax.axis_index("x")

    return step(put(numbers(8, 4), m, "x", "y"))


@case
def gradients_through_collectives() -> Any:
    m = mesh(8)

    @mapped(m, (P("x"), P()), P())
    def loss(x: Any, w: Any) -> Any:
        return lax.pmean(jnp.mean(jnp.tanh(x @ w) ** 2), "x")

    return jax.jit(jax.value_and_grad(loss, (0, 1)))(numbers(16, 4), numbers(4, 3))


@case
def experts() -> Any:
    """A mixture of experts: tokens go to the device of their expert, and back."""
    m = mesh(8)

    @mapped(m, (P("x"), P("x")), P("x"))
    def step(tokens: Any, weights: Any) -> Any:
        there = lax.all_to_all(tokens.reshape(8, 2, 4), "x", 0, 0)
        done = jax.nn.gelu(there.reshape(16, 4) @ weights[0])
        return lax.all_to_all(done.reshape(8, 2, 4), "x", 0, 0).reshape(16, 4)

    return step(numbers(128, 4), numbers(8, 4, 4))


@case
def a_pipeline() -> Any:
    """Stages on devices, which pass their results on while the next batch comes in."""
    m = mesh(4)

    @mapped(m, (P("x"), P()), P("x"))
    def step(weights: Any, batches: Any) -> Any:
        own = lax.axis_index("x")

        def tick(carry: Any, n: Any) -> Any:
            given = jnp.where(own == 0, batches[jnp.minimum(n, 4)], carry)
            done = jnp.tanh(given @ weights[0])
            return lax.ppermute(done, "x", [(n, (n + 1) % 4) for n in range(4)]), done

        start = lax.pcast(jnp.zeros_like(batches[0]), "x", to="varying")
        _, outputs = lax.scan(tick, start, jnp.arange(8))
        return outputs[None, 3:]

    return step(numbers(4, 6, 6), numbers(5, 2, 6))[3]


# ---- pmap


@case
def pmap_sums() -> Any:
    step = jax.pmap(lambda x, y: (lax.psum(x * y, "i"), lax.axis_index("i") * x), axis_name="i", in_axes=(0, None))
    few = jax.pmap(lambda x: lax.pmean(x, "i"), axis_name="i", devices=jax.devices()[2:4])
    return step(numbers(8, 3), 2.0), few(numbers(2, 3))


@case
def pmap_groups() -> Any:
    groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
    step = jax.pmap(lambda x: lax.psum(x, "i", axis_index_groups=groups), axis_name="i")
    return step(numbers(8, 3))


@case
def pmap_training() -> Any:
    @partial(jax.pmap, axis_name="i", donate_argnums=0)
    def step(w: Any, x: Any) -> Any:
        grad = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 0.1 * lax.pmean(grad, "i")

    w = np.stack([numbers(4, 2)] * 8)
    for n in range(3):
        w = step(w, numbers(8, 5, 4, seed=n))
    return w


# ---- training


def _network() -> Any:
    sizes = (8, 16, 16, 4)
    return [
        {"w": numbers(*pair, seed=n) / 4, "b": numbers(pair[1], seed=n + 9) / 9}
        for n, pair in enumerate(pairwise(sizes))
    ]


def _loss(network: Any, x: Any, y: Any) -> Any:
    for layer in network[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    logits = x @ network[-1]["w"] + network[-1]["b"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 4), -1))


def _trained(where: Mesh, batch: Any, specs: Any, steps: int = 3) -> Any:
    @partial(jax.jit, donate_argnums=(0, 1))
    def step(network: Any, momentum: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(_loss)(network, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return jax.tree.map(lambda w, m: w - 0.1 * m, network, momentum), momentum, loss

    place = lambda tree: jax.tree.map(lambda a, s: put(a, where, *s), tree, specs)  # noqa: E731
    network = place(_network())
    momentum = place(jax.tree.map(np.zeros_like, _network()))
    losses = []
    for n in range(steps):
        x = put(numbers(16, 8, seed=n), where, *batch)
        y = put(np.arange(16) % 4, where, *batch[:1])
        network, momentum, loss = step(network, momentum, x, y)
        losses.append(loss)
    return network, losses


def _all(w: tuple[Any, ...], b: tuple[Any, ...]) -> Any:
    return [{"w": w, "b": b}] * 3


@case
def data_parallel_training() -> Any:
    return _trained(mesh(8), ("x",), _all((), ()))


@case
def tensor_parallel_training() -> Any:
    columns, rows = {"w": (None, "x"), "b": ("x",)}, {"w": ("x", None), "b": ()}
    return _trained(mesh(4), (), [columns, rows, {"w": (None, "x"), "b": ("x",)}])


@case
def data_and_tensor_parallel_training() -> Any:
    columns, rows = {"w": (None, "y"), "b": ("y",)}, {"w": ("y", None), "b": ()}
    return _trained(mesh(2, 4), ("x",), [columns, rows, columns])


@case
def fully_sharded_training() -> Any:
    return _trained(mesh(4), ("x",), _all(("x", None), ("x",)))


@case
def attention_block() -> Any:
    m = mesh(2, 4)
    heads = {"qkv": put(numbers(3, 16, 4, 4) / 4, m, None, None, "y"), "out": put(numbers(4, 4, 16) / 4, m, "y")}

    def loss(heads: Any, x: Any) -> Any:
        x = lax.with_sharding_constraint(x, NamedSharding(m, P("x", None, None)))
        q, k, v = jnp.einsum("bsf,nfhd->nbshd", x, heads["qkv"])
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
        scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), scores, -1e9)
        y = jnp.einsum("bhqk,bkhd,hdf->bqf", jax.nn.softmax(scores), v, heads["out"]) + x
        y = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
        return jnp.mean(y**3)

    return jax.jit(jax.value_and_grad(jax.checkpoint(loss)))(heads, put(numbers(4, 6, 16), m, "x"))


@case
def embeddings() -> Any:
    m = mesh(2, 4)
    table, words = put(numbers(32, 8), m, "y"), put(np.arange(24).reshape(4, 6) * 7 % 32, m, "x")

    def loss(table: Any, words: Any) -> Any:
        return jnp.sum(jax.nn.log_softmax(table[words] @ table.T)[..., 0])

    return jax.jit(jax.value_and_grad(loss))(table, words)


# ---- Python inside of programs


@case
def sums_that_are_left_open() -> Any:
    """Partial sums as values of their own, in and out of programs: `unreduced` axes of a mesh with explicit types."""
    m = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(m):
        x, y = put(numbers(8, 4), m, "x", "y"), put(numbers(4, 6, seed=1), m, "y", None)
        opened = P("x", None, unreduced={"y"})
        product = jax.jit(lambda x, y: jnp.einsum("ab,bc->ac", x, y, out_sharding=opened))
        given = product(x, y)
        linear = jax.jit(lambda z: (z + z, z.T, z.reshape(8, 3, 2), z.sum(0)))(given)
        region = jax.jit(
            jax.shard_map(lambda x, y: lax.pcast(x @ y, "y", to="unreduced"), out_specs=P("x", unreduced={"y"}))
        )(x, y)

        def loss(x: Any, y: Any) -> Any:
            return jnp.sin(jax.sharding.reshard(product(x, y), P("x", None))).sum()

        slopes = jax.jit(jax.grad(loss, argnums=(0, 1)))(x, y)
        closed = [jax.sharding.reshard(one, P("x", None)) for one in (given, region)]
        again = jax.sharding.reshard(closed[0], opened)
    return terms(given), [terms(one) for one in linear], terms(region), slopes, closed, terms(again)


def divided(array: Any) -> Any:
    """An array, and how much of it each device has."""
    return array, [shard.data.shape for shard in array.addressable_shards]


@case
def what_is_reversed_stays_divided() -> Any:
    x = put(numbers(4, 8), mesh(2, 4), "x", "y")
    return divided(x[::-1]), divided(x[:, ::-1]), divided(jnp.flip(x)), divided(jnp.cumsum(x[::-1, ::-1], 0)[::-1])


@case
def values_that_are_to_lie_alike() -> Any:
    x = put(numbers(8, 2), mesh(2, 2), "x", "y")
    after = jax.jit(lambda x: shard_alike(x, jnp.arange(16.0).reshape(8, 2))[1])(x)
    two = jax.jit(lambda x: shard_alike(x @ x.T, jnp.arange(64.0).reshape(8, 8)))(x)
    return divided(after), [divided(one) for one in two], divided(shard_alike(x, jnp.ones((8, 2)))[1])


@case
def callbacks_of_the_whole() -> Any:
    x = put(numbers(8, 3), mesh(8), "x")
    shape = jax.ShapeDtypeStruct((8, 3), np.float32)
    seen: list[Any] = []
    other: list[Any] = []

    def step(x: Any) -> Any:
        io_callback(lambda x: seen.append(np.asarray(x)), None, x * 3, ordered=True)
        y = jax.pure_callback(lambda x: np.asarray(x) * 2, shape, x)
        io_callback(lambda x: seen.append(np.asarray(x)), None, y, ordered=True)
        io_callback(lambda x: other.append(np.asarray(x)), None, y[0])
        return y + x.sum(0)

    found = [jax.jit(step)(x) for _ in range(2)]
    jax.effects_barrier()
    return found, seen, other


@case
def callbacks_of_each_device() -> Any:
    shape = jax.ShapeDtypeStruct((1, 3), np.float32)

    @mapped(mesh(8), P("x"), P("x"))
    def step(x: Any) -> Any:
        return lax.psum(jax.pure_callback(lambda x: np.asarray(x) ** 2, shape, x), "x") + x

    return step(numbers(8, 3))


# ---- running


def whole(tree: Any) -> Any:
    """Arrays of NumPy; every device has to have what the whole says."""

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array):
            return leaf
        found = np.asarray(leaf)
        for shard in leaf.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), found[shard.index])
        return np.asarray(found, np.float32) if found.dtype.kind == "V" or found.dtype == jnp.bfloat16 else found

    return jax.tree.map(one, tree)


def main(file: str, *names: str) -> None:
    assert len(jax.devices()) == DEVICES
    reasons: Callable[[], list[str]] = list
    if "hlotool" in jax.devices()[0].client.platform_version:
        from hlotool.jax.record import PROGRAMS

        reasons = lambda: [program.reason for program in PROGRAMS if not program.compiled]  # noqa: E731
    found = {}
    for name in names or CASES:
        before = len(reasons())
        try:
            found[name] = jax.tree.leaves(whole(CASES[name]())), "", reasons()[before:]
        except BaseException:
            found[name] = [], traceback.format_exc(), reasons()[before:]
    with open(file, "wb") as out:
        pickle.dump(found, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
