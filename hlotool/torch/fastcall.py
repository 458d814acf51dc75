"""The short way from tensors into compiled code, without an array of NumPy for each.

PyTorch gives the code that inductor emits three functions, which are used here: the address of a C function that gives
a tensor's memory, one that compares sizes and strides of many tensors, and one that makes a tensor.  One C function,
itself LLVM IR (``native/call.ll``), serves every executable; its ``self`` holds a table of 64-bit words::

    0 parameters and results  1 entry function  2 arena bytes  3 constants  4 release the GIL?  5 alignment - 1
    6 a Python callable for executions that did not say that they are complete, and raised nothing
    7 torch.Tensor  8 torch.nn.Parameter  9... bytes of each parameter and result
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import torch

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.runtime import fastcall
from hlotool.runtime.cache import default_cache
from hlotool.runtime.callback import incomplete
from hlotool.runtime.executable import Executable
from hlotool.runtime.load import Library, load
from hlotool.runtime.memory import allocator
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import python_function

__all__ = ["assert_lying", "builtin", "make_tensor", "usable"]

_DATA, _TYPE = 16, 8  # offsets in an array and in any object

_GUARDS: Any = torch._C._dynamo.guards
_ADDRESS: int | None = getattr(_GUARDS, "_torchinductor_pyobject_tensor_data_ptr", None)

_assert_one: Any = getattr(_GUARDS, "assert_size_stride", None)


def _assert_each(tensors: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any]) -> None:
    for tensor, size, stride in zip(tensors, sizes, strides, strict=True):
        _assert_one(tensor, size, stride)


assert_lying: Any = getattr(_GUARDS, "assert_size_stride_grouped", _assert_one and _assert_each)
"""AssertionError where the tensors of a tuple have not these tuples of sizes and strides (grouped since 2.14)."""

make_tensor: Any = getattr(_GUARDS, "_empty_strided_cpu", None)
"""A tensor of given sizes, strides and dtype."""


def usable(executable: Executable) -> bool:
    """Whether the short way is there, and leads to this executable."""
    there = isinstance(_ADDRESS, int) and assert_lying is not None and make_tensor is not None and fastcall.usable()
    entry = executable.entry
    return there and entry is not None


def builtin(executable: Executable) -> Callable[..., bool]:
    """A function of tensors for parameters and then for results, all dense and row-major in the order of their memory.
    A result that is written to a parameter is the same tensor.

    It runs the code: True.  It does nothing where one of them has no memory, or not where the code wants it, or is of
    a class of its own: False.  Types and sizes are not looked at.  Call this only where `usable`.
    """
    entry = executable.entry
    assert entry is not None
    leaves = (*entry.parameters, *entry.outputs)
    sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in leaves]
    releases = executable.image is None or executable.image.releases_gil
    words = [len(leaves), entry.address, entry.arena_bytes, entry.constants, int(releases), entry.alignment - 1]
    words += [id(incomplete), id(torch.Tensor), id(torch.nn.Parameter), *sizes]
    return fastcall.with_table(_method(), words, (executable, torch.Tensor, torch.nn.Parameter))


@once
def _method() -> fastcall.Method:
    return fastcall.method(_library().address("hlo_call_tensors"), b"Run the compiled computation.")


@once
def _library() -> Library:
    found = allocator()
    symbols = {
        "hlo_malloc": found.library.address("hlo_malloc"),
        "hlo_free": found.library.address("hlo_free"),
        "tensor_data": int(_ADDRESS or 0),
        "true_object": id(True),
        "false_object": id(False),
    }
    for name in (
        "Py_IncRef", "PyObject_Vectorcall", "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_NoMemory",
        "PyErr_Occurred",
    ):  # fmt: skip
        symbols[name] = python_function(name)
    text = files("hlotool.torch").joinpath("native", "call.ll").read_text(encoding="utf-8")
    text = Template(text).substitute(TYPE=_TYPE, DATA=_DATA, COMPLETE=COMPLETE)
    return load(compiled([text], host(), cache=default_cache()), symbols)
