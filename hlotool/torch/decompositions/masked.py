"""Elements at indices where a mask is true: PyTorch's decomposition takes the first element for indices that count from
the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

__all__ = ["DECOMPOSITIONS"]

_OPERATION = torch.ops.aten._unsafe_masked_index.default
_DECOMPOSITION = decomposition_table[_OPERATION]


def _from_the_front(self: Any, mask: Any, indices: Sequence[Any], fill: Any) -> Any:
    rows = zip(indices, self.shape, strict=False)
    front = [None if index is None else torch.where(index < 0, index + size, index) for index, size in rows]
    return _DECOMPOSITION(self, mask, front, fill)


DECOMPOSITIONS = {_OPERATION: _from_the_front}
