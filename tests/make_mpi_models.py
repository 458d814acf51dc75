"""Writes programs for eight devices as XLA's partitioner leaves them: the files of ``samples/cluster``.

    HLOTOOL_XLA_PYTHON tests/make_mpi_models.py

A training step whose batch is spread over eight devices, and a block of a transformer whose heads and hidden units are.
``NAME.npz`` has what each device takes and gives (``arg0@3``, ``out0@3``), which is what XLA computed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 --xla_dump_to={DUMP} --xla_dump_hlo_pass_re=spmd-partition.* "
    "--xla_dump_hlo_as_text"
)
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

ROOT = Path(__file__).parent.parent
P = PartitionSpec
WIDTH, HEADS, HIDDEN, TOKENS = 64, 8, 128, 16


def loss(weights: dict[str, Any], x: Any, y: Any) -> Any:
    h = jax.nn.relu(x @ weights["w0"] + weights["b0"])
    logits = h @ weights["w1"] + weights["b1"]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)
    return -jnp.mean(picked)


def data_parallel_step(weights: dict[str, Any], x: Any, y: Any) -> Any:
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, slopes), value


def normed(x: Any, scale: Any) -> Any:
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def tensor_parallel_block(w: dict[str, Any], x: Any) -> Any:
    n = normed(x, w["norm0"])
    q, k, v = (jnp.einsum("td,dhe->hte", n, w[name]) for name in ("q", "k", "v"))
    scores = jnp.einsum("hte,hse->hts", q, k) / np.sqrt(WIDTH // HEADS)
    mask = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
    attended = jnp.einsum("hts,hse->hte", jax.nn.softmax(jnp.where(mask, scores, -1e30)), v)
    x = x + jnp.einsum("hte,hed->td", attended, w["out"])
    n = normed(x, w["norm1"])
    return x + jax.nn.gelu(n @ w["up"]) @ w["down"]


def main() -> None:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    weights = {"w0": normal(32, 64), "b0": normal(64), "w1": normal(64, 10), "b1": normal(10)}
    data = normal(64, 32) * 8, rng.integers(0, 10, 64).astype(np.int32)
    kinds = (jax.tree.map(lambda _: P(), weights), P("d"), P("d"))
    write("data_parallel_step", data_parallel_step, (weights, *data), kinds, (kinds[0], P()))
    each = WIDTH // HEADS
    heads, w = P(None, "d"), {
        "norm0": np.ones(WIDTH, np.float32), "norm1": np.ones(WIDTH, np.float32),
        "q": normal(WIDTH, HEADS, each), "k": normal(WIDTH, HEADS, each), "v": normal(WIDTH, HEADS, each),
        "out": normal(HEADS, each, WIDTH), "up": normal(WIDTH, HIDDEN), "down": normal(HIDDEN, WIDTH),
    }  # fmt: skip
    spread = {
        "norm0": P(), "norm1": P(), "q": heads, "k": heads, "v": heads, "out": P("d"), "up": heads, "down": P("d"),
    }  # fmt: skip
    x = normal(TOKENS, WIDTH) * 4
    write("tensor_parallel_block", tensor_parallel_block, (w, x), (spread, P("d")), P("d"))


def write(name: str, function: Any, arguments: tuple[Any, ...], given: Any, made: Any) -> None:
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def sharded(tree: Any) -> Any:
        return jax.tree.map(lambda spec: NamedSharding(mesh, spec), tree, is_leaf=lambda one: isinstance(one, P))

    placed = jax.device_put(arguments, sharded(given))
    jitted = jax.jit(function, in_shardings=sharded(given), out_shardings=sharded(made), keep_unused=True)
    results = jax.tree.leaves(jitted(*placed))
    arrays = {}
    for kind, leaves in (("arg", jax.tree.leaves(placed)), ("out", results)):
        for number, leaf in enumerate(leaves):
            for shard in leaf.addressable_shards:
                arrays[f"{kind}{number}@{shard.device.id}"] = np.asarray(shard.data)
    (dump,) = sorted(Path(DUMP).glob(f"*jit_{name}.*after_spmd-partitioning*.txt")) or sys.exit(
        "\n".join(sorted(p.name for p in Path(DUMP).iterdir()))
    )
    folder = ROOT / "samples" / "cluster"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.hlo").write_text(without_places(dump.read_text()))
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def without_places(text: str) -> str:
    """The module without the tables of files, functions and stack frames in which it was written."""
    text = re.sub(r"\nFileNames\n.*?\n(?=%|\n%)", "\n", text, flags=re.S)
    return re.sub(r" ?stack_frame_id=\d+|, metadata=\{ *\}", "", text)


if __name__ == "__main__":
    main()
