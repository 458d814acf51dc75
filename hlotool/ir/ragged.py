"""What the ragged dimension of a ragged-dot is, and which dimensions of its operands meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ragged_meetings", "ragged_mode"]


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


def ragged_meetings(attributes: Mapping[str, Any], rank: int, sizes: int) -> list[list[tuple[int, int]]]:
    """(operand, dimension) of all that have one length: of each dimension of a left operand of `rank`, in order, with
    what it meets in the right operand and in an array of group sizes of rank `sizes`; last, of the groups."""
    meetings = [[(0, d)] for d in range(rank)]
    for name in ("contracting", "batch"):
        both = (attributes.get(f"{side}_{name}_dims") or () for side in ("lhs", "rhs"))
        for ours, theirs in zip(*both, strict=True):
            meetings[ours].append((1, theirs))
    mode, outer = ragged_mode(attributes, rank)
    if sizes > 1:
        for own, d in enumerate(outer):
            meetings[d].append((2, own))
    groups = [(2, sizes - 1)]
    if mode == "free":
        groups += [(1, d) for d in attributes["rhs_group_dims"]]
    return [*meetings, groups]
