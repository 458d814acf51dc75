"""Custom calls from emitted code: a C function for each call site that leads back into Python.

The C function is ``i32 (ptr args)``; `args` is the table of a kernel, operand leaves and then output leaves.  It gives
0, or 1 when the handler failed: its outputs are then zero, the error waits in this thread for
`raise_pending`, and further custom calls of the same execution do nothing but give 1.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.custom_calls import (
    CustomCall,
    custom_call_handler,
    custom_call_of,
    register_custom_call,
    run_custom_call,
    unregister_custom_call,
)

__all__ = [
    "CallSite",
    "CustomCall",
    "custom_call_handler",
    "custom_call_of",
    "raise_pending",
    "register_custom_call",
    "unregister_custom_call",
]


class _Pending(threading.local):
    error: BaseException | None = None


_pending = _Pending()


def raise_pending() -> None:
    """Raise what a handler raised in this thread since the last call, if anything."""
    error, _pending.error = _pending.error, None
    if error is not None:
        raise error


class CallSite:
    """One custom call of an executable; `address` is its C function, good while the site is referenced.

    UnsupportedError at once when the target has no handler.
    """

    __slots__ = ("_callback", "address", "call")

    def __init__(self, call: CustomCall) -> None:
        custom_call_handler(call.target)
        self.call = call
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._run)
        self.address = int(ctypes.cast(self._callback, ctypes.c_void_p).value or 0)

    def _run(self, arguments: int) -> int:
        leaves = (*self.call.operands, *self.call.outputs)
        pointers = (ctypes.c_void_p * len(leaves)).from_address(arguments)
        arrays = [_view(pointer, dtype, shape) for pointer, (dtype, shape) in zip(pointers, leaves, strict=True)]
        count = len(self.call.operands)
        inputs, outputs = arrays[:count], arrays[count:]
        try:
            if _pending.error is None:
                if not {*pointers[:count]}.isdisjoint(pointers[count:]):
                    inputs = [array.copy() for array in inputs]
                for array in inputs:
                    array.flags.writeable = False
                for output, value in zip(outputs, run_custom_call(inputs, self.call), strict=True):
                    output[...] = value
                return 0
        except BaseException as error:  # the caller is native code: nothing may pass through it
            _pending.error = error
        for output in outputs:
            output[...] = np.zeros((), output.dtype)
        return 1


def _view(pointer: int | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array that lies at `pointer`."""
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if pointer is None or size == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.ndarray(shape, dtype, memory)
