"""The backend of ``torch.compile(model, backend="hlotool")``: graphs of forward and backward passes, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

import hlotool.torch.ops  # noqa: F401 - fills the table
from hlotool.torch.decompositions import OWN
from hlotool.torch.draws import draws
from hlotool.torch.lowering import LOWERINGS
from hlotool.torch.program import function_of_graph

__all__ = ["backend", "compiler", "decompositions"]

_NUMBERS = count()

_MORE = (
    "_batch_norm_with_update_functional.default", "batch_norm_backward.default", "dist.default",
    "grid_sampler_2d.default", "ldexp.Tensor", "rrelu_with_noise_backward.default", "tril_indices.default",
    "triu_indices.default",
)  # fmt: skip
"""What PyTorch can take apart, but does not count among what leads to core ATen."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of PyTorch into core ATen, without the operations that are lowered as they are, and our own.

    Those that draw random numbers stay whole, too: their parts would draw others than eager PyTorch does.  Dropout is
    taken apart our way, which draws the same.
    """
    more = {str(operation): operation for operation in decomposition_table}
    known = {more[name]: decomposition_table[more[name]] for name in (f"aten.{n}" for n in _MORE) if name in more}
    kept = {
        operation: function
        for operation, function in {**core_aten_decompositions(), **known}.items()
        if str(operation) not in LOWERINGS and not _draws(operation)
    }
    return kept | OWN


def _draws(operation: Any) -> bool:
    """Whether an operation itself draws random numbers; one that is but a name for its parts (attention, lstm) does
    what they do, in eager PyTorch, too."""
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CompositeImplicitAutograd")
    return draws(operation) and not composite


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
