"""The backend of ``torch.compile(model, backend="hlotool")``: graphs of forward and backward passes, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from hlotool.torch.autograd import Passes
from hlotool.torch.decompositions.table import decompositions

__all__ = ["backend"]

_NUMBERS = count()


def backend(graph_module: fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of dynamo's; what PyTorch calls."""
    if options:
        raise TypeError(f"the backend hlotool has no options: {', '.join(options)}")
    passes = Passes(lambda kind: f"{kind} {next(_NUMBERS)}", len(example_inputs))
    made = aot_autograd(
        fw_compiler=passes.compiler("forward"),
        bw_compiler=passes.compiler("backward"),
        inference_compiler=passes.compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return passes.function(made(graph_module, example_inputs))
