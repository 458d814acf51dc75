"""How tensors lie in memory, and the row-major arrays that have the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.lazy_dataclass import dataclass
from hlotool.torch.dtypes import dtype_of, element_type_of
from hlotool.torch.refusal import Refused

__all__ = ["Leaf", "leaf_of", "memory_order", "numbers"]


def memory_order(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions from major to minor of a dense tensor; None where it has holes, or elements in one place."""
    rank = len(sizes)
    if 0 in sizes:
        return tuple(range(rank))
    real = sorted((n for n in range(rank) if sizes[n] != 1), key=lambda n: -strides[n])
    step = 1
    for n in reversed(real):
        if strides[n] != step:
            return None
        step *= sizes[n]
    if real == sorted(real):  # those of size one stay where they are
        return tuple(range(rank))
    return (*real, *(n for n in range(rank) if sizes[n] == 1))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor that enters or leaves compiled code: the array of its memory is row-major.

    `order` are the dimensions of the tensor as they lie there, from major to minor.
    """

    element_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        return dtype_of(self.element_type)

    @property
    def memory(self) -> tuple[int, ...]:
        """The dimensions of the array."""
        return tuple(self.sizes[n] for n in self.order)

    @property
    def inverse(self) -> tuple[int, ...]:
        """Where each dimension of the tensor is in the array."""
        return tuple(self.order.index(n) for n in range(len(self.order)))

    @property
    def is_row_major(self) -> bool:
        return self.order == tuple(range(len(self.order)))


def leaf_of(value: Any) -> Leaf:
    """Of a tensor, which may be fake; one with holes is taken row-major, so that it is copied when it comes."""
    import torch

    if value.layout != torch.strided:
        raise Refused(f"layout {str(value.layout).removeprefix('torch.')}")
    if value.device.type != "cpu":
        raise Refused(f"device {value.device}")
    if value.is_quantized:
        raise Refused(f"quantised dtype {value.dtype}")
    sizes, strides = numbers(value.shape), numbers(value.stride())
    order = memory_order(sizes, strides)
    if order is None:
        order = tuple(range(len(sizes)))
        strides = _row_major(sizes)
    return Leaf(element_type_of(value.dtype), sizes, strides, order)


def numbers(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes or strides as numbers; Refused where they are symbols."""
    import torch

    if any(isinstance(size, torch.SymInt) for size in sizes):
        raise Refused("sizes are known only when it runs")
    return tuple(sizes)


def _row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
