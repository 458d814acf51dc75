"""Networks on graphs, of jraph: molecules, citations, meshes; forward and gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from programs._filled import normal
from registry import program


def _graph(nodes, edges, width, kind="float32"):
    rng = np.random.default_rng(0)
    return jraph.GraphsTuple(
        normal(0, (nodes, width), kind),
        normal(1, (edges, width), kind),
        rng.integers(0, nodes, edges),
        rng.integers(0, nodes, edges),
        normal(2, (2, width), kind),
        np.array([nodes // 2, nodes - nodes // 2]),
        np.array([edges // 2, edges - edges // 2]),
    )


def _loss(net, w, graph, of="nodes"):
    def value(w, nodes, edges):
        out = net(w)(graph._replace(nodes=nodes, edges=edges))
        return (getattr(out, of).astype("float32") ** 2).mean()

    jax.jit(jax.value_and_grad(value))(w, graph.nodes, graph.edges)


@program(("float32", "bfloat16"))
def citations(kind):
    graph = _graph(200, 900, 64, kind)
    w = [normal(n, s, kind, 0.1) for n, s in enumerate([(64, 48), (48, 7)])]

    def net(w):
        def run(g):
            g = jraph.GraphConvolution(lambda n: n @ w[0], add_self_edges=True)(g)
            g = g._replace(nodes=jax.nn.relu(g.nodes))
            return jraph.GraphConvolution(lambda n: n @ w[1], add_self_edges=True)(g)

        return run

    _loss(net, w, graph)


@program(("float32",))
def message_passing(kind):
    graph = _graph(60, 240, 32)
    w = [normal(n, s, scale=0.1) for n, s in enumerate([(128, 32), (96, 32), (96, 32)])]

    def net(w):
        def joined(m):
            return lambda *x: jnp.tanh(jnp.concatenate(x, -1) @ m[: sum(a.shape[-1] for a in x)])

        def run(g):
            big = jraph.GraphNetwork(joined(w[0]), lambda n, s, r, u: joined(w[0])(n, s, r, u), joined(w[1]))
            for _ in range(3):
                g = big(g)
            return g

        return run

    _loss(net, w, graph, "globals")


@program(("float32",))
def graph_attention(kind):
    graph = _graph(80, 400, 16)
    w = [normal(0, (16, 32), scale=0.3), normal(1, (64, 1), scale=0.3)]

    def net(w):
        def logits(s, r, e):
            return jax.nn.leaky_relu(jnp.concatenate([s, r], -1) @ w[1])

        return jraph.GAT(lambda n: n @ w[0], logits, lambda n: jax.nn.elu(n))

    _loss(net, w, graph)


@program(("float32", "float64"))
def molecules(kind):
    rng = np.random.default_rng(3)
    place, senders, receivers = normal(0, (40, 3), kind, 2), rng.integers(0, 40, 200), rng.integers(0, 40, 200)
    w = [normal(n, s, kind, 0.2) for n, s in enumerate([(16, 24), (24, 24), (24, 1)])]

    def energy(place, w):
        d = jnp.sqrt(((place[senders] - place[receivers]) ** 2).sum(-1) + 1e-6)
        wave = (
            jnp.exp(-10 * (d[:, None] - jnp.linspace(0, 5, 16).astype(kind)) ** 2)
            * (0.5 * (jnp.cos(jnp.pi * jnp.minimum(d, 5) / 5) + 1))[:, None]
        )
        h = jnp.ones((40, 24), kind)
        for _ in range(2):
            m = jnp.tanh(wave @ w[0]) * (h @ w[1])[senders]
            h = h + jax.nn.softplus(jraph.segment_sum(m, receivers, 40)) - np.log(2).astype(kind)
        return (h @ w[2]).sum()

    jax.jit(jax.value_and_grad(lambda w, x: (jax.grad(energy)(x, w) ** 2).mean()))(w, place)


@program(("float32",))
def pooling_and_padding(kind):
    graph = _graph(50, 200, 8)
    padded = jraph.pad_with_graphs(graph, 64, 256, 4)

    @jax.jit
    def run(g):
        mask = jraph.get_node_padding_mask(g)
        which = jnp.repeat(jnp.arange(4), g.n_node, total_repeat_length=64)
        score = jraph.partition_softmax(g.nodes[:, 0], g.n_node, 64)
        mean = jraph.segment_mean(g.nodes * mask[:, None], which, 4)
        return mean, jraph.segment_max(g.nodes, which, 4), score

    run(padded)
