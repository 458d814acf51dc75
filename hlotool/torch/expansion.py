"""Operations that are given functions, which PyTorch itself computes by others: these take their place in a graph.

Flexible attention is one: its eager implementation maps the functions of scores and masks over all places, and what
that calls has lowerings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from hlotool.torch.decompositions.table import decompositions
from hlotool.torch.graph import subgraph_of

__all__ = ["expanded"]

_NAMES = ("flex_attention",)
_EAGERLY = torch._C.DispatchKey.CompositeExplicitAutograd


def expanded(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The graph, whose sizes are numbers, with the operations of which such ones consist; itself where it has none."""
    nodes = [node for node in graph_module.graph.nodes if _function_of(node) is not None]
    if not nodes:
        return graph_module
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(graph_module.graph, copies))
    own = fx.GraphModule(graph_module, graph)
    by_name = {node.name: node for node in own.graph.nodes}  # the graph of the module is another copy
    for node in nodes:
        _take_apart(by_name[node.name], _function_of(node), own)
    own.graph.eliminate_dead_code()
    own.recompile()
    return own


def _function_of(node: fx.Node) -> Callable[..., Any] | None:
    """The eager implementation of such an operation."""
    if node.op != "call_function" or str(node.target) not in _NAMES:
        return None
    found: Callable[..., Any] | None = getattr(node.target, "py_kernels", {}).get(_EAGERLY)
    return found


def _take_apart(node: fx.Node, function: Any, owner: fx.GraphModule) -> None:
    def value_of(argument: fx.Node) -> Any:
        own = subgraph_of(argument)
        return argument.meta.get("val") if own is None else own

    leaves, tree = pytree.tree_flatten((node.args, node.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, fx.Node) and subgraph_of(leaf) is None]
    values = [value_of(leaf) if isinstance(leaf, fx.Node) else leaf for leaf in leaves]

    def flat(*tensors: Any) -> Any:
        own = list(values)
        for place, tensor in zip(places, tensors, strict=True):
            own[place] = tensor
        arguments, options = pytree.tree_unflatten(own, tree)
        return function(*arguments, **options)

    given = [values[n] for n in places]
    with detect_fake_mode(given) or nullcontext():
        traced = make_fx(torch.func.functionalize(flat), decomposition_table=decompositions())(*given)
    found = _inlined(node, traced, [leaves[n] for n in places], owner)
    for user in tuple(node.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(found[user.args[1]])
            owner.graph.erase_node(user)
    owner.graph.erase_node(node)


def _inlined(node: fx.Node, traced: fx.GraphModule, arguments: Sequence[fx.Node], owner: fx.GraphModule) -> list[Any]:
    """The results of the graph, whose nodes are put before `node`; constants of it become the owner's."""
    given = iter(arguments)
    copies: dict[fx.Node, Any] = {}
    with owner.graph.inserting_before(node):
        for own in traced.graph.nodes:
            if own.op == "placeholder":
                copies[own] = next(given)
            elif own.op == "output":
                return list(fx.map_arg(own.args[0], copies.__getitem__))
            else:
                copies[own] = made = owner.graph.node_copy(own, copies.__getitem__)
                made.meta.setdefault("stack_trace", node.meta.get("stack_trace"))
                if own.op == "get_attr":
                    made.target = f"{node.name}_{own.target}"
                    setattr(owner, made.target, getattr(traced, own.target))
    raise AssertionError("a graph without results")
