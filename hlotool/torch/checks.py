"""Checks in a graph: compiled code gives what they look at, and an error is raised when it has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from hlotool.lazy_dataclass import dataclass

__all__ = ["Failure", "check_of", "leave_out_checks", "raise_failed"]

_ATEN = torch.ops.aten
_ASSERTIONS = {
    getattr(_ATEN._assert_async, name): said
    for name, said in (("default", "Expected Tensor with single nonzero value, but got zero"), ("msg", ""))
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What is raised where something is not true."""

    kind: type[Exception]
    words: str


def check_of(node: fx.Node) -> tuple[Any, Failure] | None:
    """What has to be true, and what is wrong if it is not; None where a node is no check."""
    if node.target not in _ASSERTIONS:
        return None
    return node.args[0], Failure(RuntimeError, _ASSERTIONS[node.target] or str(node.args[1]))


def raise_failed(number: Any, failures: Sequence[Failure]) -> None:
    """Raises, as eager PyTorch does, the failure with this number, from one on; none for zero."""
    if number:
        failed = failures[int(number) - 1]
        raise failed.kind(failed.words)


def leave_out_checks(graph: fx.Graph) -> None:
    """Erase checks that held when the graph was made: of types and devices, and of sizes that are numbers now."""
    for node in graph.find_nodes(op="call_function", target=_ATEN._assert_tensor_metadata.default):
        graph.erase_node(node)
    for node in graph.find_nodes(op="call_function", target=_ATEN._assert_scalar.default):
        if isinstance(node.args[0], (bool, int, float)) and node.args[0]:
            graph.erase_node(node)
