"""The backend of ``torch.compile(model, backend="hlotool")``: graphs of forward and backward passes, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from hlotool.torch.decompositions.table import decompositions
from hlotool.torch.program import function_of_graph

__all__ = ["backend", "compiler"]

_NUMBERS = count()


def compiler(kind: str) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """What AOTAutograd calls with a graph, and `kind` of graph, which names it."""

    def compile_graph(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        boxed: Callable[..., Any] = make_boxed_func(function_of_graph(graph_module, f"{kind} {next(_NUMBERS)}"))
        return boxed

    return compile_graph


def backend(graph_module: fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of dynamo's; what PyTorch calls."""
    if options:
        raise TypeError(f"the backend hlotool has no options: {', '.join(options)}")
    made = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    function: Callable[..., Any] = made(graph_module, example_inputs)
    return function
