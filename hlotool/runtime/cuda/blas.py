"""cuBLAS, where its package is installed: ``nvidia-cublas-cu12``, which the extra ``hlotool[cuda]`` asks for.

The library is loaded when a program with large products is; importing this file asks for nothing.  See the
documentation of cuBLAS (https://docs.nvidia.com/cuda/cublas) for what the functions do.  Matrices lie in columns there,
so that one in rows is taken for its transpose: ``C = A B`` is asked for as ``C' = B' A'``.
"""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import c_double, c_float, c_int, c_longlong, c_void_p
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from hlotool.codegen.launches import Multiply
from hlotool.ir import ExecutionError

__all__ = ["Blas", "blas"]

_MATRIX = (c_void_p, c_int, c_int, c_longlong)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (c_void_p,),
    "cublasGemmStridedBatchedEx": (
        c_void_p, *(c_int,) * 5, c_void_p, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX, c_int, c_int, c_int,
    ),
    "cublasSetStream_v2": (c_void_p, c_void_p),
}  # fmt: skip
"""What is called, with the types of the arguments; all give a status, 0 for success."""

_TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
"""Elements, as ``cudaDataType_t`` has them."""

_F32, _F64, _TF32 = 68, 70, 77
"""How sums are made, as ``cublasComputeType_t`` has it."""

_USUAL = -1
"""The algorithm that the library chooses."""


class Blas:
    """The functions of `library`; ExecutionError where a call fails."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, types in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
        self._idle: SimpleQueue[c_void_p] = SimpleQueue()
        self._one, self._zero = {}, {}
        for kind, number in (("f32", c_float), ("f64", c_double)):
            self._one[kind], self._zero[kind] = number(1), number(0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library."""
        status = getattr(self._library, name)(*arguments)
        if status:
            raise ExecutionError(f"{name} failed with status {status}")

    def take(self, stream: c_void_p) -> c_void_p:
        """A handle, which has memory of its own, for all that goes to a stream."""
        try:
            handle = self._idle.get_nowait()
        except Empty:
            handle = c_void_p()
            self.call("cublasCreate_v2", ctypes.byref(handle))
        self.call("cublasSetStream_v2", handle, stream)
        return handle

    def give_back(self, handle: c_void_p) -> None:
        """The stream of a handle has done all."""
        self._idle.put(handle)

    def multiply(self, handle: c_void_p, product: Multiply, left: int, right: int, result: int) -> None:
        """Ask for a product of matrices at these addresses."""
        batch, m, n, k = product.sizes
        factor, total = _TYPES[product.factor], _TYPES[product.total]
        kind = "f64" if product.factor == "f64" else "f32"
        sums = _F64 if kind == "f64" else _TF32 if product.tf32 else _F32
        a, b, c = product.left, product.right, product.result
        self.call(
            "cublasGemmStridedBatchedEx", handle, int(b.turned), int(a.turned), n, m, k,
            ctypes.byref(self._one[kind]), right, factor, b.pitch, b.apart, left, factor, a.pitch, a.apart,
            ctypes.byref(self._zero[kind]), result, total, c.pitch, c.apart, batch, sums, _USUAL,
        )  # fmt: skip


@cache
def blas() -> Blas | None:
    """The library of the installed package, if there is one."""
    package = importlib.util.find_spec("nvidia")
    folders = [] if package is None else package.submodule_search_locations or []
    for path in sorted(path for folder in folders for path in Path(folder).glob("*/lib/libcublas.so.*")):
        try:
            for needed in sorted(path.parent.glob("libcublasLt.so.*")):
                ctypes.CDLL(str(needed), ctypes.RTLD_GLOBAL)
            return Blas(ctypes.CDLL(str(path)))
        except OSError:
            continue
    return None
