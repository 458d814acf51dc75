"""What the ragged dimension of a ragged-dot is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ragged_mode"]


def ragged_mode(attributes: Mapping[str, Any], rank: int) -> tuple[str, tuple[int, ...]]:
    """``free``, ``contracting`` or ``batch``, for a left operand of `rank`; and along what sizes of groups may differ.

    These dimensions of the left operand come first in an array of group sizes with more than one dimension: its batch
    dimensions and those of the ragged one's own kind that stand before it.
    """
    (ragged,) = attributes["lhs_ragged_dims"]
    batch = tuple(attributes.get("lhs_batch_dims") or ())
    contracting = tuple(attributes.get("lhs_contracting_dims") or ())
    if ragged in batch:
        return "batch", batch[: batch.index(ragged)]
    if ragged in contracting:
        return "contracting", (*batch, *contracting[: contracting.index(ragged)])
    return "free", (*batch, *(d for d in range(ragged) if d not in batch and d not in contracting))
