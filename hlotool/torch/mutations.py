"""Graphs that write to their inputs, as an optimiser's step does: AOTAutograd ends them with a ``copy_`` for each.

Compiled code writes such a result into the memory of the tensor itself, so that nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

__all__ = ["must_follow", "writes", "written"]

_COPY = torch.ops.aten.copy_.default


def writes(node: fx.Node) -> bool:
    """Whether a node writes to what it is given."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def written(node: Any) -> fx.Node | None:
    """The input of the graph that a ``copy_`` writes all of; None for other nodes."""
    if not isinstance(node, fx.Node) or node.target is not _COPY:
        return None
    target = node.args[0]
    return target if isinstance(target, fx.Node) and target.op == "placeholder" else None


def must_follow(nodes: Iterable[fx.Node]) -> Mapping[str, tuple[str, ...]]:
    """For every node that writes to an input: all those before it that read the input or write to it; for those behind
    it that read it: the node that wrote last."""
    readers: dict[fx.Node, list[str]] = {}
    last: dict[fx.Node, str] = {}
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        target = written(node)
        behind = [last[one] for one in node.all_input_nodes if one in last]
        before = readers.get(target, []) if target is not None else []
        if behind or before:
            found[node.name] = tuple(dict.fromkeys((*before, *behind)))
        for one in node.all_input_nodes:
            readers.setdefault(one, []).append(node.name)
        if target is not None:
            last[target] = node.name
    return found
