"""Results that share memory: views of another result or of an argument, and such as have holes between their elements.

Compiled code gives every result dense memory of its own.  Eager PyTorch gives views: whoever writes to ``y`` of
``y, y.view(-1)`` sees it in both, also where a graph ends between them because Python asked for a number.  So code
computes that of which they are views, and PyTorch makes the views of it at the end.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from hlotool.torch.mutations import written
from hlotool.torch.places import memory_order

__all__ = ["sharing"]

Function = Callable[..., Sequence[Any]]


def sharing(graph_module: fx.GraphModule, count: int) -> tuple[fx.GraphModule, Callable[[Function], Function]]:
    """The graph, whose sizes are numbers, with that of which they are views instead of those among its first `count`
    results that share memory; and what makes of a function for this graph one for the other."""
    results: Sequence[Any] = graph_module.graph.output_node().args[0]
    chains = {n: tuple(_chain(node)) for n, node in enumerate(results[:count]) if _is_strided(node)}
    bases = {n: chain[0].args[0] if chain else results[n] for n, chain in chains.items()}
    users = Counter(base for base, _ in {(base, results[n]) for n, base in bases.items()})
    changed = {written(node) for node in graph_module.graph.nodes}

    def is_made(number: int) -> bool:
        base = bases[number]
        if not chains[number] or base in changed or not _is_strided(base):
            return False
        if base.op == "placeholder":
            return True
        return base.op == "call_function" and not _has_holes(base) and (users[base] > 1 or _has_holes(results[number]))

    places = [number for number in chains if is_made(number)]
    if not places:
        return graph_module, lambda function: function
    first = {base: number for number, base in reversed(bases.items()) if number in places}
    views = _views(graph_module, list(first), {results[n]: chains[n] for n in places}, [results[n] for n in places])
    taken = tuple(first.values())

    def with_views(function: Function) -> Function:
        def call(*arguments: Any) -> Sequence[Any]:
            found = list(function(*arguments))
            for number, view in zip(places, views(*[found[number] for number in taken]), strict=True):
                found[number] = view
            return found

        return call

    return _with_bases(graph_module, {number: bases[number] for number in places}), with_views


def _chain(node: fx.Node) -> Iterator[fx.Node]:
    """The views, the first one first, that lead to `node` from what is no view."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node) or node.all_input_nodes != [source]:
        return
    if _is_view(node) or (node.target is operator.getitem and _is_view(source)):
        yield from _chain(source)
        yield node


def _is_view(node: fx.Node) -> bool:
    """Whether a node's results lie in the memory of its first argument, and nothing is written."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    rows = node.target._schema.arguments
    return bool(rows) and rows[0].alias_info is not None and node.all_input_nodes == [node.args[0]]


def _is_strided(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu"


def _has_holes(node: fx.Node) -> bool:
    value = node.meta["val"]
    return memory_order(value.shape, value.stride()) is None


def _views(
    owner: fx.GraphModule, bases: Sequence[fx.Node], chains: Any, results: Sequence[fx.Node]
) -> Callable[..., Sequence[Any]]:
    """A function of the bases that gives the views."""
    graph = fx.Graph()
    copies = {base: graph.placeholder(base.name) for base in bases}
    for chain in chains.values():
        for node in chain:
            if node not in copies:
                copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in results])
    made: Callable[..., Sequence[Any]] = fx.GraphModule(owner, graph).forward
    return made


def _with_bases(graph_module: fx.GraphModule, bases: dict[int, fx.Node]) -> fx.GraphModule:
    """The graph with other results, by number, and without what only led to the former ones."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    results = list(graph.graph_copy(graph_module.graph, copies))
    for number, base in bases.items():
        results[number] = copies[base]
    graph.output(results)
    for node in reversed(graph.nodes):
        if not node.users and (_is_view(node) or node.target is operator.getitem):
            graph.erase_node(node)
    return fx.GraphModule(graph_module, graph)
