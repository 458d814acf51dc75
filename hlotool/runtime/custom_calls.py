"""Calls from emitted code back into Python: custom calls, and what concerns other devices, queues or the time.

A site is a C function ``i32 (ptr args)``; `args` is the table of a kernel, operand leaves and then output leaves.  It
gives 0, or 1 when it failed: its outputs are then zero, the error waits in this thread (`hlotool.runtime.pending`), and
further calls of the same execution do nothing but give 1.

Which device a thread is, `on_device` says; without it, it is a lone one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate import evaluate_instruction
from hlotool.evaluate.custom_calls import (
    CustomCall,
    custom_call_handler,
    custom_call_of,
    register_custom_call,
    run_custom_call,
    unregister_custom_call,
)
from hlotool.evaluate.devices import Device, World
from hlotool.evaluate.values import leaves_of, value_from_leaves
from hlotool.ir import Instruction, Shape, dtype_of
from hlotool.runtime.pending import is_pending, keep_pending

__all__ = [
    "CallSite",
    "CustomCall",
    "HostSite",
    "PollSite",
    "Site",
    "custom_call_handler",
    "custom_call_of",
    "on_device",
    "register_custom_call",
    "unregister_custom_call",
]

Array = npt.NDArray[Any]
Leaf = tuple[np.dtype[Any], tuple[int, ...]]


class _Thread(threading.local):
    device: Device | None = None


_thread = _Thread()


@contextmanager
def on_device(device: Device) -> Iterator[None]:
    """Let this thread run emitted code as `device`."""
    before, _thread.device = _thread.device, device
    try:
        yield
    finally:
        _thread.device = before


class Site:
    """A place where emitted code calls Python; `address` is its C function, good while the site is referenced."""

    __slots__ = ("_callback", "_leaves", "_operands", "address")

    def __init__(self, operands: Sequence[Leaf], outputs: Sequence[Leaf]) -> None:
        self._leaves = (*operands, *outputs)
        self._operands = len(operands)
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._run)
        self.address = int(ctypes.cast(self._callback, ctypes.c_void_p).value or 0)

    def perform(self, inputs: list[Array]) -> Sequence[Array]:
        """The outputs of the call; `inputs` must stay as they are, and are gone afterwards."""
        raise NotImplementedError

    def _run(self, arguments: int) -> int:
        pointers = (ctypes.c_void_p * len(self._leaves)).from_address(arguments)
        arrays = [_view(pointer, dtype, shape) for pointer, (dtype, shape) in zip(pointers, self._leaves, strict=True)]
        inputs, outputs = arrays[: self._operands], arrays[self._operands :]
        try:
            if not is_pending():
                if not {*pointers[: self._operands]}.isdisjoint(pointers[self._operands :]):
                    inputs = [array.copy() for array in inputs]
                for array in inputs:
                    array.flags.writeable = False
                for output, value in zip(outputs, self.perform(inputs), strict=True):
                    output[...] = value
                return 0
        except BaseException as error:  # the caller is native code: nothing may pass through it
            keep_pending(error)
        for output in outputs:
            output[...] = np.zeros((), output.dtype)
        return 1


class CallSite(Site):
    """One custom call of an executable.  UnsupportedError at once when the target has no handler."""

    __slots__ = ("call",)

    def __init__(self, call: CustomCall) -> None:
        custom_call_handler(call.target, call.name)
        self.call = call
        super().__init__(call.operands, call.outputs)

    def perform(self, inputs: list[Array]) -> Sequence[Array]:
        return run_custom_call(inputs, self.call)


class HostSite(Site):
    """An instruction that the evaluator carries out, because it concerns other devices or the host."""

    __slots__ = ("instruction",)

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        operands = [leaf for operand in instruction.operands for leaf in operand.shape.leaves() if leaf.is_array]
        outputs = [leaf for leaf in instruction.shape.leaves() if leaf.is_array]
        super().__init__(_described(operands), _described(outputs))

    def perform(self, inputs: list[Array]) -> Sequence[Array]:
        # Other devices may read the arrays when this one has gone on and used their memory again.
        leaves = iter([array.copy() for array in inputs])
        operands = [value_from_leaves(operand.shape, leaves) for operand in self.instruction.operands]
        value = evaluate_instruction(self.instruction, operands, device=_thread.device or Device(World()))
        return [*leaves_of(value)]


class PollSite(Site):
    """Asks whether the time of this thread's run is over."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name
        super().__init__((), ())

    def perform(self, inputs: list[Array]) -> Sequence[Array]:
        if _thread.device is not None:
            _thread.device.world.check(self._name)
        return ()


def _described(leaves: Sequence[Shape]) -> list[Leaf]:
    return [(dtype_of(shape.element_type), shape.dimensions) for shape in leaves]


def _view(pointer: int | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The array that lies at `pointer`."""
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if pointer is None or size == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.ndarray(shape, dtype, memory)
