"""Programs of JAX with shardings, for eight devices of one process: what `tests/survey_sharding.py` records.

    python tests/sharded_programs.py FOLDER [--gspmd]

Needs JAX.  For every program FOLDER gets ``NAME.hlo``, the module that JAX hands to XLA, ``NAME.partitioned.hlo``, what
XLA's partitioner makes of it, and ``NAME.optimised.hlo``, what XLA runs on CPUs.  JAX 0.10 annotates by axes of meshes
(Shardy), and writes GSPMD's shardings beside them.  With --gspmd XLA propagates by GSPMD, and
``NAME.propagated.hlo`` is the module between propagation and partitioner.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_DUMP = tempfile.mkdtemp(prefix="sharded-")
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8 --xla_dump_to={_DUMP} "
    "--xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd|shardy|sharding"
)
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...], Any]]] = {}
"""Name -> function, its arguments (shapes with shardings), shardings of results (None: XLA chooses)."""


def _program(make: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[make.__name__] = make
    return make


def _mesh(*sizes: int, names: str = "xy") -> Mesh:
    return jax.make_mesh(sizes, tuple(names[: len(sizes)]), axis_types=(AxisType.Auto,) * len(sizes))


def _given(mesh: Mesh, dimensions: tuple[int, ...], *axes: Any, kind: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(dimensions, kind, sharding=NamedSharding(mesh, P(*axes)))


def _held(mesh: Mesh, value: Any, *axes: Any) -> Any:
    return lax.with_sharding_constraint(value, NamedSharding(mesh, P(*axes)))


@_program
def mlp_data_parallel() -> Any:
    """A training step: the batch is cut, weights are everywhere, gradients are added up."""
    mesh = _mesh(8)

    def step(weights: Any, x: Any, y: Any) -> Any:
        def loss(weights: Any) -> Any:
            first, second = weights
            return jnp.mean((jnp.tanh(x @ first) @ second - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = (_given(mesh, (64, 128)), _given(mesh, (128, 32)))
    whole = NamedSharding(mesh, P())
    return step, (weights, _given(mesh, (64, 64), "x"), _given(mesh, (64, 32), "x")), (whole, (whole, whole))


@_program
def mlp_tensor_parallel() -> Any:
    """A training step on a mesh of batch and model: the first weight cut by columns, the second by rows."""
    mesh = _mesh(2, 4)

    def step(weights: Any, x: Any, y: Any) -> Any:
        def loss(weights: Any) -> Any:
            first, second = weights
            hidden = _held(mesh, jax.nn.gelu(x @ first), "x", "y")
            return jnp.mean((_held(mesh, hidden @ second, "x", None) - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = (_given(mesh, (64, 256), None, "y"), _given(mesh, (256, 64), "y", None))
    kept = (NamedSharding(mesh, P(None, "y")), NamedSharding(mesh, P("y", None)))
    return step, (weights, _given(mesh, (32, 64), "x"), _given(mesh, (32, 64), "x")), (NamedSharding(mesh, P()), kept)


def _norm(x: Any) -> Any:
    return (x - jnp.mean(x, -1, keepdims=True)) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


@_program
def transformer_block() -> Any:
    """A block in the way of Megatron: heads and hidden units cut over y, the batch over x."""
    mesh = _mesh(2, 4)

    def block(w: Any, x: Any) -> Any:
        h = _norm(x)
        q, k, v = (jnp.einsum("bsd,dhk->bshk", h, w[name]) for name in "qkv")
        scores = jnp.einsum("bqhk,bthk->bhqt", q, k) * 0.25
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        mixed = jnp.einsum("bhqt,bthk->bqhk", weights, v)
        x = _held(mesh, x + jnp.einsum("bqhk,hkd->bqd", mixed, w["o"]), "x", None, None)
        h = jax.nn.gelu(_norm(x) @ w["up"])
        return _held(mesh, x + h @ w["down"], "x", None, None)

    d, heads, size, wide = 64, 8, 16, 256
    w = {name: _given(mesh, (d, heads, size), None, "y", None) for name in "qkv"}
    w["o"] = _given(mesh, (heads, size, d), "y", None, None)
    w["up"], w["down"] = _given(mesh, (d, wide), None, "y"), _given(mesh, (wide, d), "y", None)
    return block, (w, _given(mesh, (4, 32, d), "x")), NamedSharding(mesh, P("x"))


@_program
def attention_sequence() -> Any:
    """Attention whose queries, keys and values are cut along the sequence."""
    mesh = _mesh(8)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhk,bthk->bhqt", q, k) * 0.25
        return jnp.einsum("bhqt,bthk->bqhk", jax.nn.softmax(scores, -1), v)

    given = tuple(_given(mesh, (2, 64, 4, 16), None, "x") for _ in range(3))
    return attention, given, NamedSharding(mesh, P(None, "x"))


def _conv(x: Any, kernel: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@_program
def conv_batch() -> Any:
    """A training step of two convolutions and a product, the batch cut."""
    mesh = _mesh(8)

    def step(weights: Any, x: Any, labels: Any) -> Any:
        def loss(weights: Any) -> Any:
            first, second, last = weights
            h = jax.nn.relu(_conv(x, first))
            h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            h = jax.nn.relu(_conv(h, second, 2))
            logits = h.reshape(h.shape[0], -1) @ last
            return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 10) * jax.nn.log_softmax(logits), -1))

        return jax.value_and_grad(loss)(weights)

    weights = (_given(mesh, (3, 3, 3, 8)), _given(mesh, (3, 3, 8, 16)), _given(mesh, (4 * 4 * 16, 10)))
    whole = NamedSharding(mesh, P())
    given = (weights, _given(mesh, (16, 16, 16, 3), "x"), _given(mesh, (16,), "x", kind=jnp.int32))
    return step, given, (whole, (whole, whole, whole))


@_program
def conv_spatial() -> Any:
    """Convolutions over pictures that are cut by rows: neighbours exchange halos."""
    mesh = _mesh(4, 2)

    def model(x: Any, first: Any, second: Any) -> Any:
        return _conv(jax.nn.relu(_conv(x, first)), second)

    given = (_given(mesh, (2, 32, 16, 4), None, "x"), _given(mesh, (3, 3, 4, 8), None, None, None, "y"),
             _given(mesh, (5, 5, 8, 4)))  # fmt: skip
    return model, given, NamedSharding(mesh, P(None, "x"))


@_program
def embedding() -> Any:
    """A table cut by rows: a look-up and its gradient."""
    mesh = _mesh(2, 4)

    def step(table: Any, tokens: Any, target: Any) -> Any:
        def loss(table: Any) -> Any:
            return jnp.sum((jnp.take(table, tokens, axis=0, mode="clip") - target) ** 2)

        return jax.value_and_grad(loss)(table)

    given = (_given(mesh, (256, 32), "y"), _given(mesh, (16, 8), "x", kind=jnp.int32), _given(mesh, (16, 8, 32), "x"))
    return step, given, (NamedSharding(mesh, P()), NamedSharding(mesh, P("y")))


@_program
def softmax_cross_entropy() -> Any:
    """Logits cut along the vocabulary; the loss and its gradient."""
    mesh = _mesh(2, 4)

    def step(table: Any, h: Any, labels: Any) -> Any:
        def loss(table: Any) -> Any:
            logits = _held(mesh, h @ table, "x", "y")
            picked = jnp.sum(jnp.where(jnp.arange(logits.shape[-1]) == labels[:, None], logits, 0), -1)
            return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

        return jax.value_and_grad(loss)(table)

    given = (_given(mesh, (32, 512), None, "y"), _given(mesh, (64, 32), "x"), _given(mesh, (64,), "x", kind=jnp.int32))
    return step, given, (NamedSharding(mesh, P()), NamedSharding(mesh, P(None, "y")))


@_program
def scan_layers() -> Any:
    """A loop over layers whose weights are cut over y, the batch over x."""
    mesh = _mesh(2, 4)

    def model(ups: Any, downs: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            up, down = w
            return _held(mesh, x + jax.nn.relu(x @ up) @ down, "x", None), jnp.sum(x)

        return lax.scan(layer, x, (ups, downs))

    given = (_given(mesh, (6, 32, 128), None, None, "y"), _given(mesh, (6, 128, 32), None, "y", None),
             _given(mesh, (16, 32), "x"))  # fmt: skip
    return model, given, (NamedSharding(mesh, P("x")), NamedSharding(mesh, P()))


@_program
def adam_sharded_states() -> Any:
    """ZeRO: weights are everywhere, the states of Adam are cut over all devices, the batch too."""
    mesh = _mesh(8)

    def step(w: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
        gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)
        gradient = _held(mesh, gradient, "x", None)
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient**2
        return w - 0.01 * m * lax.rsqrt(v + 1e-8), m, v

    cut = NamedSharding(mesh, P("x"))
    given = (_given(mesh, (128, 64)), _given(mesh, (128, 64), "x"), _given(mesh, (128, 64), "x"),
             _given(mesh, (64, 128), "x"), _given(mesh, (64, 64), "x"))  # fmt: skip
    return step, given, (NamedSharding(mesh, P()), cut, cut)


@_program
def mixture_of_experts() -> Any:
    """Tokens to experts by products with one-hot matrices: all-to-all between the batch and the experts."""
    mesh = _mesh(8)

    def model(x: Any, router: Any, up: Any, down: Any) -> Any:
        gates = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, router), -1)
        chosen = jax.nn.one_hot(jnp.argmax(gates, -1), 8)
        place = jnp.cumsum(chosen, 1) * chosen - 1
        dispatch = chosen[..., None] * jax.nn.one_hot(place.astype(jnp.int32), 4)
        inside = _held(mesh, jnp.einsum("gsec,gsd->egcd", dispatch, x), "x", None, None, None)
        hidden = jax.nn.relu(jnp.einsum("egcd,edf->egcf", inside, up))
        outside = _held(mesh, jnp.einsum("egcf,efd->egcd", hidden, down), None, "x", None, None)
        return jnp.einsum("gsec,egcd->gsd", dispatch * jnp.max(gates, -1)[..., None, None], outside)

    given = (_given(mesh, (8, 16, 32), "x"), _given(mesh, (32, 8)), _given(mesh, (8, 32, 64), "x"),
             _given(mesh, (8, 64, 32), "x"))  # fmt: skip
    return model, given, NamedSharding(mesh, P("x"))


@_program
def decode_step() -> Any:
    """A step of decoding: the cache, cut by heads, gets a row at a place that is known late."""
    mesh = _mesh(2, 4)

    def step(keys: Any, values: Any, q: Any, k: Any, v: Any, at: Any) -> Any:
        keys = lax.dynamic_update_slice_in_dim(keys, k[:, None], at, 1)
        values = lax.dynamic_update_slice_in_dim(values, v[:, None], at, 1)
        scores = jnp.einsum("bhk,bthk->bht", q, keys)
        scores = jnp.where(jnp.arange(keys.shape[1]) <= at, scores, -1e9)
        return jnp.einsum("bht,bthk->bhk", jax.nn.softmax(scores, -1), values), keys, values

    cache = [_given(mesh, (4, 32, 8, 16), "x", None, "y") for _ in range(2)]
    rows = [_given(mesh, (4, 8, 16), "x", "y") for _ in range(3)]
    kept = NamedSharding(mesh, P("x", None, "y"))
    return step, (*cache, *rows, _given(mesh, (), kind=jnp.int32)), (NamedSharding(mesh, P("x", "y")), kept, kept)


@_program
def movement() -> Any:
    """Transposes, reshapes, slices, pads, concatenations, sorts, sums along and across what is cut."""
    mesh = _mesh(2, 4)

    def model(x: Any, y: Any) -> Any:
        both = jnp.concatenate([x, y], 1)
        turned = jnp.transpose(both.reshape(16, 4, 8), (1, 0, 2))
        padded = jnp.pad(turned, ((0, 0), (1, 1), (0, 0)))[:, 1:-1]
        ordered = jnp.sort(padded, -1)
        return jnp.cumsum(ordered, 1), jnp.flip(padded, 0), jnp.max(padded, (0, 2)), jnp.argmin(x, 1)

    return model, (_given(mesh, (16, 16), "x", "y"), _given(mesh, (16, 16), "x", "y")), None


@_program
def manual_region() -> Any:
    """A function of what each device holds (shard_map) amid ones of whole arrays."""
    mesh = _mesh(2, 4)

    def model(x: Any, w: Any) -> Any:
        inner = jax.shard_map(lambda x, w: lax.psum(jnp.tanh(x @ w), "y"), mesh=mesh,
                              in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))  # fmt: skip
        return jnp.sum(inner(x * 2, w) ** 2, 0)

    return model, (_given(mesh, (16, 32), "x", "y"), _given(mesh, (32, 8), "y")), None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gspmd", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_use_shardy_partitioner", not options.gspmd)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, make in PROGRAMS.items():
        function, given, results = make()
        function.__name__ = name
        compiled = jax.jit(function, out_shardings=results) if results is not None else jax.jit(function)
        text = compiled.lower(*given).compile().as_text()
        (options.folder / f"{name}.optimised.hlo").write_text(text)
        stem = f"jit_{name}."
        stages = {"before_optimizations": "hlo", "after_spmd-partitioning": "partitioned.hlo"}
        if options.gspmd:
            stages["after_sharding-propagation"] = "propagated.hlo"
        for path in sorted(Path(_DUMP).iterdir()):
            for part, ending in stages.items():
                if stem in path.name and part in path.name:
                    shutil.copy(path, options.folder / f"{name}.{ending}")
        print(name, file=sys.stderr)
    shutil.rmtree(_DUMP)


if __name__ == "__main__":
    main()
