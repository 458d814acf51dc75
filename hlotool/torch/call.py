"""Calling compiled modules with tensors, which are not copied: arrays of NumPy share their memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hlotool.ir import InputError
from hlotool.ir.types import dtype_of
from hlotool.runtime.executable import Executable
from hlotool.torch.graph import Lowered
from hlotool.torch.places import Leaf

__all__ = ["array_of", "function_of", "tensor_of"]

_BITS = {1: torch.uint8, 2: torch.uint16}


def array_of(tensor: Any, leaf: Leaf) -> Any:
    """The memory of a tensor as an array; of one that lies otherwise than `leaf` says, that of a copy."""
    own = tensor.detach()
    if own.is_conj() or own.is_neg():
        own = own.resolve_conj().resolve_neg()
    if own.dtype != leaf.dtype or tuple(own.shape) != leaf.sizes:
        raise InputError(f"expected {leaf.element_type} of sizes {leaf.sizes}, got {own.dtype} of {tuple(own.shape)}")
    if not _lies_as(own, leaf):
        own = torch.empty_strided(leaf.sizes, leaf.strides, dtype=leaf.dtype).copy_(own)
    if not leaf.is_row_major:
        own = own.permute(leaf.order)
    dtype = dtype_of(leaf.element_type)
    if dtype.isbuiltin == 1:
        return own.numpy()
    return own.view(_BITS[dtype.itemsize]).numpy().view(dtype)


def _lies_as(tensor: Any, leaf: Leaf) -> bool:
    """Whether the memory of `tensor` is as `leaf` says; strides along dimensions of size one say nothing."""
    return tensor.stride() == leaf.strides or all(
        size == 1 or a == b for size, a, b in zip(leaf.sizes, tensor.stride(), leaf.strides, strict=True)
    ) or 0 in leaf.sizes


def tensor_of(array: Any, leaf: Leaf) -> Any:
    """A tensor in the memory of a result."""
    dtype = array.dtype
    if dtype.isbuiltin == 1:
        own = torch.from_numpy(array)
    else:
        own = torch.from_numpy(array.view(np.dtype(f"u{dtype.itemsize}"))).view(leaf.dtype)
    return own if leaf.is_row_major else own.permute(leaf.inverse)


def function_of(lowered: Lowered, executable: Executable, captured: Sequence[Any] = ()) -> Callable[..., list[Any]]:
    """A function of the graph's placeholders, in order, that gives the graph's results."""
    run = executable.run
    parameters = lowered.parameters
    leaves = [leaf for leaf in lowered.results if isinstance(leaf, Leaf)]

    def call(*arguments: Any) -> list[Any]:
        tensors = [*(arguments[number] for number in lowered.inputs), *captured]
        arrays = run(*map(array_of, tensors, parameters))
        found = iter([tensor_of(array, leaf) for array, leaf in zip(arrays, leaves, strict=True)])
        return [next(found) if isinstance(value, Leaf) else value for value in lowered.results]

    return call
