"""Calls from emitted code back into Python: custom calls, and what concerns other devices, queues or the time.

A site is a Python callable that takes the address of a kernel's table: operand leaves and then output leaves.  When it
raises anything, from its first to its last instruction, the execution ends there, and the exception is that of the call
(`hlotool.runtime.callback`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hlotool.evaluate import evaluate_computation, evaluate_instruction
from hlotool.evaluate.custom_call import EVALUATED, CustomCall
from hlotool.evaluate.custom_calls import (
    custom_call_handler,
    custom_call_of,
    is_registered,
    register_custom_call,
    run_custom_call,
    unregister_custom_call,
)
from hlotool.evaluate.devices import Device, ThreadWorld
from hlotool.evaluate.together import carry_out
from hlotool.evaluate.values import array_at, leaves_of, value_from_leaves
from hlotool.ir import Instruction, Shape, dtype_of
from hlotool.ir.devices import is_collective
from hlotool.ir.refusals import named
from hlotool.runtime.callback import Shortcut, current_device, nested
from hlotool.runtime.memory import empty

if TYPE_CHECKING:
    from hlotool.runtime.rendezvous import Record, RendezvousTable

__all__ = [
    "CallSite",
    "CustomCall",
    "HostSite",
    "Site",
    "custom_call_handler",
    "custom_call_of",
    "is_registered",
    "register_custom_call",
    "site_of",
    "unregister_custom_call",
]

Array = npt.NDArray[Any]
Leaf = tuple[np.dtype[Any], tuple[int, ...]]


class Site:
    """A place where emitted code calls Python; `address` is its own, good while it is referenced.

    Whether it `needs_device`: to be called by a thread that is known to be one (`hlotool.runtime.callback`).
    """

    __slots__ = ("_leaves", "_operands", "address")
    needs_device: ClassVar[bool] = False

    def __init__(self, operands: Sequence[Leaf], outputs: Sequence[Leaf]) -> None:
        self._leaves = (*operands, *outputs)
        self._operands = len(operands)
        self.address = id(self)

    @property
    def leaves(self) -> tuple[Sequence[Leaf], Sequence[Leaf]]:
        """The operands and the outputs."""
        return self._leaves[: self._operands], self._leaves[self._operands :]

    def perform(self, inputs: list[Array], outputs: list[Array]) -> Sequence[Array]:
        """The results of the call, which may be arrays of `outputs`, where they are to be; `inputs` must stay as they
        are, and are gone afterwards."""
        raise NotImplementedError

    def meet_in(self, rendezvous: RendezvousTable) -> bool:
        """Whether this never waits for another device, or is native code from now on, in the table of `rendezvous`."""
        return False

    def __call__(self, arguments: int) -> None:
        pointers = (ctypes.c_void_p * len(self._leaves)).from_address(arguments)
        arrays = [array_at(pointer, *leaf) for pointer, leaf in zip(pointers, self._leaves, strict=True)]
        inputs, outputs = arrays[: self._operands], arrays[self._operands :]
        if not {*pointers[: self._operands]}.isdisjoint(pointers[self._operands :]):
            inputs = [array.copy() for array in inputs]
        for array in inputs:
            array.flags.writeable = False
        with nested():
            values = self.perform(inputs, outputs)
        for output, value in zip(outputs, values, strict=True):
            if value is not output:
                output[...] = value


class CallSite(Site):
    """One custom call of an executable.  UnsupportedError at once when the target has no handler."""

    __slots__ = ("call",)

    def __init__(self, call: CustomCall) -> None:
        custom_call_handler(call.target, call.name)
        self.call = call
        super().__init__(call.operands, call.outputs)

    def meet_in(self, rendezvous: RendezvousTable) -> bool:
        return not is_registered(self.call.target)  # functions of others may do so

    def perform(self, inputs: list[Array], outputs: list[Array]) -> Sequence[Array]:
        if is_registered(self.call.target):  # somebody else's: it may keep them
            inputs = [_kept(array) for array in inputs]
        return run_custom_call(inputs, self.call)


class HostSite(Site):
    """An instruction that the evaluator carries out, because it concerns other devices or the host."""

    __slots__ = ("_contexts", "_others", "_record", "_shortcut", "instruction")
    needs_device: ClassVar[bool] = True

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        own = instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start"
        parts = [len([*_arrays(shape)]) for shape in instruction.shape.elements] if own else [0, 0]
        self._others, self._contexts = parts[0], sum(parts[2:])  # around the results of what is started
        operands = [leaf for operand in instruction.operands for leaf in _arrays(operand.shape)]
        super().__init__(_described(operands), _described([*_arrays(instruction.shape)]))
        self._record: Record | None = None
        self._shortcut = Shortcut(self) if is_collective(instruction.opcode) else None
        if self._shortcut is not None:
            self.address = self._shortcut.address

    def meet_in(self, rendezvous: RendezvousTable) -> bool:
        self._record = rendezvous.add(self.instruction, self.address)
        if self._record is not None:
            self.address = self._record.address
        return self._record is not None

    def __call__(self, arguments: int) -> None:
        device, short = current_device(), self._shortcut
        if device is None or short is None or not self._met(device, arguments, short):
            super().__call__(arguments)

    def _met(self, device: Device, arguments: int, short: Shortcut) -> bool:
        return device.world.meet_at(device.number, self.instruction, arguments, short, carry_out)

    def perform(self, inputs: list[Array], outputs: list[Array]) -> Sequence[Array]:
        leaves = iter(inputs)
        operands = [value_from_leaves(operand.shape, leaves) for operand in self.instruction.operands]
        device = current_device() or Device(ThreadWorld())
        device.into = outputs[self._others : len(outputs) - self._contexts]
        try:
            return [*leaves_of(evaluate_instruction(self.instruction, operands, device=device))]
        finally:
            device.into = None


def site_of(instruction: Instruction) -> Site:
    """The place where Python carries out an instruction; UnsupportedError names a custom call without a handler."""
    if instruction.opcode == "custom-call" and instruction.attributes["custom_call_target"] != EVALUATED:
        with named(instruction):
            return CallSite(custom_call_of(instruction, evaluate_computation))
    return HostSite(instruction)


def _arrays(shape: Shape) -> Iterator[Shape]:
    return (leaf for leaf in shape.leaves() if leaf.is_array)


def _described(leaves: Sequence[Shape]) -> list[Leaf]:
    return [(dtype_of(shape.element_type), shape.dimensions) for shape in leaves]


def _kept(array: Array) -> Array:
    """A read-only copy of an array whose memory will be used again."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    copy.flags.writeable = False
    return copy
