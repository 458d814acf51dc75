"""Calling compiled modules with tensors, which are not copied: code reads and writes the memory that they lie in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hlotool.ir import InputError
from hlotool.ir.types import dtype_of
from hlotool.runtime.executable import Executable
from hlotool.runtime.memory import ALIGNMENT, empty
from hlotool.torch import fastcall
from hlotool.torch.checks import raise_failed
from hlotool.torch.graph import Lowered
from hlotool.torch.places import Leaf

__all__ = ["dense", "function_of", "is_plain", "is_transformed", "runner"]

Run = Callable[[Sequence[Any]], list[Any]]

_RECYCLED_BYTES = 2 << 20
"""Results of this size and more are in the recycled memory of `hlotool.runtime.memory`: PyTorch's comes fresh from the
system each time, which takes ten times as long as to fill it; smaller ones PyTorch makes in half the time."""

_BITS = {1: torch.uint8, 2: torch.uint16}
_KNOWN = (torch.Tensor, torch.nn.Parameter)

_transforms: Callable[[], Any] = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)


def is_transformed() -> bool:
    """Whether this is within ``torch.vmap`` or another of `torch.func`, where tensors stand for others."""
    return _transforms() is not None


def is_plain(tensor: Any, dtype: Any) -> bool:
    """Whether this is a tensor of the CPU that has memory of its own, and the values that lie there."""
    try:
        return (
            tensor.dtype is dtype and tensor.is_cpu and not tensor.is_neg() and not tensor.is_conj()
            and torch._C._has_storage(tensor)
        )  # fmt: skip
    except AttributeError:
        return False


def dense(tensor: Any, leaf: Leaf, name: str = "") -> Any:
    """The tensor itself, or a copy of it where its memory is not as `leaf` and compiled code want it.

    InputError, which `name` begins, where it is no tensor of the type and sizes, or has no memory.
    """
    said = f"{name}: expected" if name else "expected"
    wanted = f"{leaf.dtype} of sizes {list(leaf.sizes)}"
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{said} a tensor, {wanted}, got a {type(tensor).__name__}")
    if tensor.is_nested:
        raise InputError(f"{said} {wanted}, got a nested tensor")
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise InputError(f"{said} a dense tensor of the CPU, got one of {tensor.device}, {tensor.layout}")
    if tensor.dtype != leaf.dtype or tuple(tensor.shape) != leaf.sizes:
        raise InputError(f"{said} {wanted}, got {tensor.dtype} of sizes {list(tensor.shape)}")
    own = tensor
    if not torch._C._has_storage(own):
        raise InputError(f"{said} a tensor with memory of its own, got one that stands for others, as within vmap")
    if type(own) not in _KNOWN:
        if type(own).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
            raise InputError(f"{said} a tensor with memory of its own, got a {type(own).__name__}")
        with torch._C.DisableTorchFunctionSubclass():
            own = own.detach().as_subclass(torch.Tensor)
    if own.is_conj() or own.is_neg() or own._is_zerotensor() or not _lies_as(own, leaf):
        return torch.empty_strided(leaf.sizes, leaf.strides, dtype=leaf.dtype).copy_(own.detach())
    if own.data_ptr() % ALIGNMENT:
        return torch.empty_strided(leaf.sizes, leaf.strides, dtype=leaf.dtype).copy_(own.detach())
    return own


def _lies_as(tensor: Any, leaf: Leaf) -> bool:
    """Whether the memory of `tensor` is as `leaf` says; strides along dimensions of size one say nothing."""
    if tensor.stride() == leaf.strides or 0 in leaf.sizes:
        return True
    rows = zip(leaf.sizes, tensor.stride(), leaf.strides, strict=True)
    return all(size == 1 or own == wanted for size, own, wanted in rows)


def runner(executable: Executable, parameters: Sequence[Leaf], results: Sequence[Leaf], names: Sequence[str]) -> Run:
    """A function of tensors for all parameters that gives tensors; InputError begins with one of `names`.

    Tensors that lie as they should have to be plain (`is_plain`).  A result that the executable writes to a parameter
    is that tensor, or a copy of it where it did not lie as it should.
    """
    if not fastcall.usable(executable):
        return _through_numpy(executable, parameters, results, names)
    native = fastcall.builtin(executable)
    assert_lying = fastcall.assert_lying
    sizes, strides = tuple(leaf.sizes for leaf in parameters), tuple(leaf.strides for leaf in parameters)
    make = [_maker(leaf) for leaf in results]
    rows = tuple(zip(parameters, names, strict=True))
    donated = dict(executable.donated)
    if donated:
        places = tuple((donated.get(number, -1), function) for number, function in enumerate(make))

        def made_for(tensors: Sequence[Any]) -> list[Any]:
            return [tensors[own] if own >= 0 else row[0](*row[1:]) for own, row in places]

    else:

        def made_for(tensors: Sequence[Any]) -> list[Any]:
            return [function(*arguments) for function, *arguments in make]

    def run(tensors: Sequence[Any]) -> list[Any]:
        try:
            assert_lying(tensors, sizes, strides)
        except (AssertionError, RuntimeError, TypeError):  # said, or done with copies, there
            tensors = [dense(tensor, *row) for tensor, row in zip(tensors, rows, strict=True)]
        made = made_for(tensors)
        if native(*tensors, *made):
            return made
        copies = [dense(tensor, *row) for tensor, row in zip(tensors, rows, strict=True)]
        made = made_for(copies)
        if not native(*copies, *made):
            raise InputError("a tensor among the arguments has no memory")
        return made

    return run


def _maker(leaf: Leaf) -> tuple[Any, ...]:
    """A function that makes a tensor, and its arguments."""
    dtype = dtype_of(leaf.element_type)
    if dtype.itemsize * int(np.prod(leaf.sizes, dtype=np.int64)) < _RECYCLED_BYTES:
        return fastcall.make_tensor, leaf.sizes, leaf.strides, leaf.dtype
    leave = leaving(leaf)
    return ((lambda: leave(empty(leaf.memory, dtype))),)


def _through_numpy(
    executable: Executable, parameters: Sequence[Leaf], results: Sequence[Leaf], names: Sequence[str]
) -> Run:
    """The same by way of arrays, which share the memory of tensors."""
    rows = tuple(zip(parameters, names, strict=True))
    leave = [leaving(leaf) for leaf in results]

    def run(tensors: Sequence[Any]) -> list[Any]:
        arrays = executable.run(*[_array(tensor, *row) for tensor, row in zip(tensors, rows, strict=True)])
        return [function(array) for function, array in zip(leave, arrays, strict=True)]

    return run


def _array(tensor: Any, leaf: Leaf, name: str) -> Any:
    """The memory of a tensor."""
    own = dense(tensor, leaf, name).detach()
    if not leaf.is_row_major:
        own = own.permute(leaf.order)
    dtype = dtype_of(leaf.element_type)
    return own.numpy() if dtype.isbuiltin == 1 else own.view(_BITS[dtype.itemsize]).numpy().view(dtype)


def leaving(leaf: Leaf) -> Callable[[Any], Any]:
    """A function that gives the tensor in the memory of an array."""
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


def function_of(
    lowered: Lowered,
    executable: Executable,
    captured: Sequence[Any],
    eagerly: Callable[..., Sequence[Any]],
    unknown: Sequence[int],
) -> Callable[..., Sequence[Any]]:
    """A function of the graph's placeholders, in order, that gives the graph's results.

    Attributes of the graph are `captured`; what is written into them is seen.  Types are looked at of the placeholders
    with the numbers `unknown`; of others PyTorch has done that.  Within ``torch.vmap`` the graph runs `eagerly`.
    What the graph writes to its placeholders is there at the end, whether code wrote it there or not.
    """
    count = len(lowered.inputs)
    fixed = tuple(dense(tensor, leaf) for leaf, tensor in zip(lowered.parameters[count:], captured, strict=True))
    leaves = lowered.leaves
    given_back, checks = len(leaves) - bool(lowered.checks), lowered.checks
    all_tensors = given_back == len(lowered.results)
    run = runner(executable, lowered.parameters, leaves, [""] * len(lowered.parameters))
    places = lowered.inputs
    in_order = places == tuple(range(count))
    asked = [
        (number, leaf, leaf.dtype)
        for number, (place, leaf) in enumerate(zip(places, lowered.parameters, strict=False))
        if place in unknown
    ]

    changed = [(result, places[number]) for result, number in lowered.written.items()]

    def call(*arguments: Any) -> Sequence[Any]:
        if _transforms() is not None:
            return eagerly(*arguments)
        given = arguments[:count] if in_order else tuple([arguments[place] for place in places])
        for number, leaf, dtype in asked:
            own = given[number]
            if not is_plain(own, dtype):
                if isinstance(own, torch.Tensor) and not torch._C._has_storage(own):
                    return eagerly(*arguments)
                given = (*given[:number], dense(own, leaf), *given[number + 1 :])
        tensors = run(given + fixed if fixed else given)
        if checks:
            raise_failed(tensors[given_back], checks)
            del tensors[given_back:]
        for result, place in changed:
            if tensors[result] is not arguments[place]:
                _copy_back(tensors[result], arguments[place])
        if all_tensors:
            return tensors
        rest = iter(tensors)
        return [next(rest) if isinstance(value, Leaf) else value for value in lowered.results]

    return call


def _copy_back(tensor: Any, to: Any) -> None:
    with torch.no_grad():  # that it changed is for who called this to tell autograd
        to.copy_(tensor)
