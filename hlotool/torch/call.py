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

__all__ = ["entering", "function_of", "leaving"]

_BITS = {1: torch.uint8, 2: torch.uint16}


def entering(leaf: Leaf, name: str = "") -> Callable[[Any], Any]:
    """A function that gives the memory of a tensor as an array, or a copy where it lies otherwise than `leaf` says.

    InputError, which `name` begins, where it is no tensor of the type and sizes.
    """
    dtype, sizes, strides = leaf.dtype, torch.Size(leaf.sizes), leaf.strides
    if leaf.is_row_major and dtype_of(leaf.element_type).isbuiltin == 1:

        def enter(tensor: Any) -> Any:
            try:
                if tensor.dtype is dtype and tensor.shape == sizes and tensor.stride() == strides:
                    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()
            except (AttributeError, RuntimeError, TypeError):
                pass  # said, or done with a copy, there
            return array_of(tensor, leaf, name)

        return enter
    return lambda tensor: array_of(tensor, leaf, name)


def array_of(tensor: Any, leaf: Leaf, name: str = "") -> Any:
    """What `entering` gives, for any tensor."""
    said = f"{name}: expected" if name else "expected"
    wanted = f"{leaf.dtype} of sizes {list(leaf.sizes)}"
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{said} a tensor, {wanted}, got a {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise InputError(f"{said} a dense tensor of the CPU, got one of {tensor.device}, {tensor.layout}")
    own = tensor.detach()
    if own.dtype != leaf.dtype or tuple(own.shape) != leaf.sizes:
        raise InputError(f"{said} {wanted}, got {own.dtype} of sizes {list(own.shape)}")
    if own.is_conj() or own.is_neg():
        own = own.resolve_conj().resolve_neg()
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
    if tensor.stride() == leaf.strides or 0 in leaf.sizes:
        return True
    rows = zip(leaf.sizes, tensor.stride(), leaf.strides, strict=True)
    return all(size == 1 or own == wanted for size, own, wanted in rows)


def leaving(leaf: Leaf) -> Callable[[Any], Any]:
    """A function that gives the tensor in the memory of a result."""
    dtype = dtype_of(leaf.element_type)
    if leaf.is_row_major and dtype.isbuiltin == 1:
        made: Callable[[Any], Any] = torch.from_numpy
        return made
    bits = None if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    inverse, own_type, is_row_major = leaf.inverse, leaf.dtype, leaf.is_row_major

    def leave(array: Any) -> Any:
        own = torch.from_numpy(array) if bits is None else torch.from_numpy(array.view(bits)).view(own_type)
        return own if is_row_major else own.permute(inverse)

    return leave


def function_of(lowered: Lowered, executable: Executable, captured: Sequence[Any] = ()) -> Callable[..., list[Any]]:
    """A function of the graph's placeholders, in order, that gives the graph's results.

    Attributes of the graph are `captured`; what is written into them is seen.
    """
    run = executable.run
    count = len(lowered.inputs)
    enter = [entering(leaf) for leaf in lowered.parameters[:count]]
    fixed = [entering(leaf)(tensor) for leaf, tensor in zip(lowered.parameters[count:], captured, strict=True)]
    leave = [leaving(leaf) for leaf in lowered.results if isinstance(leaf, Leaf)]
    all_tensors = len(leave) == len(lowered.results)
    places = None if lowered.inputs == tuple(range(count)) else lowered.inputs

    def call(*arguments: Any) -> list[Any]:
        given = arguments if places is None else [arguments[place] for place in places]
        arrays = run(*[function(tensor) for function, tensor in zip(enter, given, strict=False)], *fixed)
        tensors = [function(array) for function, array in zip(leave, arrays, strict=True)]
        if all_tensors:
            return tensors
        found = iter(tensors)
        return [next(found) if isinstance(value, Leaf) else value for value in lowered.results]

    return call
