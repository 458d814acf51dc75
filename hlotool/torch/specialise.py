"""Graphs with symbols for sizes, for the sizes that a call comes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["is_symbolic", "specialised"]

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbolic(graph_module: fx.GraphModule) -> bool:
    """Whether what enters the graph has sizes that are not known."""
    return any(_unknown(n.meta.get("val")) for n in graph_module.graph.nodes if n.op == "placeholder")


def _unknown(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *_strides(value)))
    return isinstance(value, _SYMBOLS)


def _strides(value: Any) -> Sequence[Any]:
    return tuple(value.stride()) if value.layout == torch.strided else ()


def specialised(graph_module: fx.GraphModule, arguments: Sequence[Any]) -> fx.GraphModule:
    """The graph for the sizes of `arguments`: numbers that follow from them are constants in it."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    graph = fx.Graph()
    values: dict[fx.Node, Any] = {}
    copies: dict[fx.Node, fx.Node] = {}

    def known(argument: fx.Node) -> Any:
        return copies[argument] if argument in copies else values[argument]

    given = iter(arguments)
    for node in graph_module.graph.nodes:
        if node.op == "output":
            graph.output(fx.map_arg(node.args[0], known))
            continue
        if node.op == "placeholder":
            value = next(given)
            if isinstance(value, torch.Tensor):
                value = mode.from_tensor(value.detach(), static_shapes=True)
        elif node.op == "get_attr":
            value = node.meta.get("val")
        else:
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            with mode:
                value = node.target(*args, **kwargs)
        values[node] = value
        if node.op in ("placeholder", "get_attr") or not isinstance(value, (int, float, bool)):
            copies[node] = graph.node_copy(node, known)
            copies[node].meta = {**node.meta, "val": value}
            if node.op == "placeholder" and not isinstance(value, torch.Tensor):
                del copies[node]  # who reads it reads the number
    return fx.GraphModule(graph_module, graph)
