"""Random numbers of a graph are drawn first, by PyTorch, so that all that is computed with them stays in one piece.

An operation like ``uniform`` or ``rand_like`` asks nothing of its tensor but how it lies in memory.  Where that is said
in numbers, a draw depends on no other operation: those of a graph come before everything else, in their order, and give
the numbers that eager PyTorch draws.  Dropout is such a draw, and a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

__all__ = ["REASON", "draws", "draws_first", "operation_of"]

REASON = "its random numbers are PyTorch's own"

_TEMPLATES = frozenset(
    f"aten.{name}"
    for name in (
        "bernoulli.p", "cauchy.default", "exponential.default", "geometric.default", "log_normal.default",
        "normal_functional.default", "rand_like.default", "randint_like.default", "randint_like.low_dtype",
        "randn_like.default", "random.default", "random.from", "random.to", "uniform.default",
    )
)  # fmt: skip
"""Operations that take a tensor only for its type, its sizes and its strides."""


def draws(operation: object) -> bool:
    """Whether an operation draws random numbers."""
    return isinstance(operation, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in operation.tags


def drawn(
    operation: Callable[..., Any], sizes: Sequence[int], strides: Sequence[int], dtype: Any, /, *arguments: Any,
    **options: Any,
) -> Any:  # fmt: skip
    """What `operation` draws for a tensor that lies like this."""
    return operation(torch.empty_strided(sizes, strides, dtype=dtype), *arguments, **options)


def operation_of(node: fx.Node) -> Any:
    """The operation that a node calls."""
    return node.args[0] if node.target is drawn else node.target


def draws_first(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The graph, whose sizes are numbers, with draws that depend on nothing; itself where it has none."""
    if not any(map(_has_template, graph_module.graph.nodes)):
        return graph_module
    graph = fx.Graph()
    own: dict[fx.Node, fx.Node] = {}
    for node in graph_module.graph.nodes:
        if not _has_template(node):
            own[node] = graph.node_copy(node, own.__getitem__)
            continue
        value = node.args[0].meta["val"]
        arguments = (node.target, tuple(value.shape), value.stride(), value.dtype, *node.args[1:])
        own[node] = graph.create_node("call_function", drawn, arguments, node.kwargs, node.name)
        own[node].meta = node.meta
    return fx.GraphModule(graph_module, graph)


def _has_template(node: fx.Node) -> bool:
    """Whether a node is a draw whose only tensor it takes as a template."""
    if str(node.target) not in _TEMPLATES or node.all_input_nodes != [node.args[0]]:
        return False
    value = node.args[0].meta.get("val")
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu"
