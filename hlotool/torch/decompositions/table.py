"""All operations that are taken apart, by PyTorch's functions and our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

import hlotool.torch.ops  # noqa: F401 - fills the table
from hlotool.torch.decompositions import OWN
from hlotool.torch.draws import draws
from hlotool.torch.lowering import LOWERINGS

__all__ = ["decompositions"]

_MORE = (
    "_batch_norm_with_update_functional.default", "batch_norm_backward.default", "dist.default",
    "rrelu_with_noise_backward.default", "tril_indices.default", "triu_indices.default",
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
