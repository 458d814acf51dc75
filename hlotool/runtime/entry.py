"""Calling an entry function with NumPy arrays.

The entry function is ``void @entry(ptr %frame)``; the frame is an array of pointers: parameter leaves, output leaves,
the arena, the constants; then a word for the status (`hlotool.codegen.cpu.host.entry`).  An execution that does not
say that it is complete gives no results: the exception that was raised on its way goes on.  Every call has outputs and
an arena of its own, in recycled memory, so that any number of threads may be in one entry function.  An output that is
in the memory of a donated parameter is that very array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.ir import InputError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import fastcall
from hlotool.runtime.callback import enter, incomplete
from hlotool.runtime.memory import ALIGNMENT, aligned, empty

__all__ = ["Entry", "Prepared", "check_apart", "check_donated", "check_input", "check_output"]

Array: TypeAlias = npt.NDArray[Any]
Leaf: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run to be: the frame of an entry function, the results that it will have, and all memory that it uses."""

    frame: npt.NDArray[np.uint64]
    outputs: tuple[Array, ...]
    buffers: tuple[Array | None, ...]


class Entry:
    """An entry function that takes and gives arrays.

    `parameters` and `outputs` are the leaves as (dtype, shape).  `keep` is whatever must live as long as the code at
    `address` may run (the loaded library).  Calling the object does all work in Python; `function` gives a
    builtin that does the same in well under a microsecond when the arguments fit as they are.
    """

    __slots__ = (
        "_constants",
        "_run",
        "address",
        "aliases",
        "alignment",
        "allow_bits",
        "arena_bytes",
        "custom_calls",
        "keep",
        "outputs",
        "overwritten",
        "parameters",
    )

    def __init__(
        self,
        address: int,
        parameters: Sequence[tuple[npt.DTypeLike, Sequence[int]]],
        outputs: Sequence[tuple[npt.DTypeLike, Sequence[int]]],
        arena_bytes: int = 0,
        constants: npt.NDArray[np.uint8] | None = None,
        *,
        keep: object = None,
        custom_calls: Sequence[object] = (),
        alignment: int = ALIGNMENT,
        allow_bits: bool = False,
        aliases: Mapping[int, int] | None = None,
        overwritten: Sequence[int] = (),
    ) -> None:
        """`alignment` is what the code assumes of the address of parameter data: arrays elsewhere are copied.

        `allow_bits` lets a parameter whose type NumPy lacks (bf16, f8...) be given as unsigned integers of the
        same width.  `overwritten` are parameters that the code writes to: their arrays must be dense and writable;
        other arguments in their memory are copied first.  `aliases` maps outputs to those of them that hold them.
        """
        self.address = address
        self.parameters = _leaves(parameters)
        self.outputs = _leaves(outputs)
        self.arena_bytes = arena_bytes
        self.keep = keep
        self.custom_calls = tuple(custom_calls)
        self.alignment = alignment
        self.allow_bits = allow_bits
        self.aliases = dict(aliases or {})
        self.overwritten = tuple(overwritten)
        self._constants = None if constants is None else _placed(constants, ALIGNMENT)
        self._run: Callable[..., tuple[Array, ...]] | None = None

    def __call__(self, *arrays: object) -> tuple[Array, ...]:
        """Run with one argument per parameter leaf; InputError when one does not fit.

        An argument is an array (or NumPy scalar, for shape ``()``) of exactly the parameter's dtype and shape.
        """
        if len(arrays) != len(self.parameters):
            raise InputError(f"expected {_count(len(self.parameters))}, got {len(arrays)}")
        inputs = self._apart(self._inputs(arrays), ())
        if self._run is None:
            self._run = self._builtin(_misfit, True) if fastcall.usable() else self._run_in_python
        return self._run(*inputs)

    def run_into(self, arrays: Sequence[object], outputs: Sequence[object]) -> tuple[Array, ...]:
        """Run with results in `outputs`, which are given back; InputError when one does not fit.

        They are dense, writable arrays of the results' types and shapes, none within another; for those that are
        written over parameters, the arguments.  Other arguments in the same memory are copied first.
        """
        if len(arrays) != len(self.parameters) or len(outputs) != len(self.outputs):
            wanted = f"{_count(len(self.parameters))} and {len(self.outputs)} arrays for results"
            raise InputError(f"expected {wanted}, got {len(arrays)} and {len(outputs)}")
        results = [check_output(n, leaf, out) for n, (leaf, out) in enumerate(zip(self.outputs, outputs, strict=True))]
        check_apart(results)
        inputs = self._apart(self._inputs(arrays), results)
        self._call_code(inputs, results)
        return tuple(results)

    def _inputs(self, arrays: Sequence[object]) -> list[Array]:
        """The arguments as the code takes them."""
        inputs = [
            check_input(number, leaf, value, self.alignment, self.allow_bits)
            for number, (leaf, value) in enumerate(zip(self.parameters, arrays, strict=True))
        ]
        check_donated(self.overwritten, inputs, arrays)
        return inputs

    def _apart(self, inputs: Sequence[Array], written: Sequence[Array]) -> list[Array]:
        """The inputs, with copies of those in memory that is written while they are read: that of `written`, too."""
        changing = [*written, *(inputs[number] for number in self.overwritten)]
        if not changing:
            return list(inputs)
        return [
            a.copy() if number not in self.overwritten and any(np.may_share_memory(a, w) for w in changing) else a
            for number, a in enumerate(inputs)
        ]

    def function(
        self, release_gil: bool = True, otherwise: Callable[..., tuple[Array, ...]] | None = None
    ) -> Callable[..., tuple[Array, ...]]:
        """The quickest callable there is for this entry, which keeps the entry alive.

        Pass `release_gil` False for computations of a few microseconds, where giving up the GIL costs more than it
        gives to other threads.  `otherwise` is called with arguments that do not fit as they are, in place of the
        entry itself, which converts or refuses them; where no builtin can be made it is called with all.
        """
        if not fastcall.usable():
            return self if otherwise is None else otherwise
        return self._builtin(self if otherwise is None else otherwise, release_gil)

    @property
    def constants(self) -> int:
        """The address of the constants, which live as long as the entry; 0 where there are none."""
        return 0 if self._constants is None else self._constants.ctypes.data

    def _builtin(self, slow: Callable[..., tuple[Array, ...]], release_gil: bool) -> Callable[..., tuple[Array, ...]]:
        keep = (self.keep, self._constants, self.custom_calls)
        base = self.constants
        return fastcall.builtin(
            slow, self.address, self.parameters, self.outputs, self.arena_bytes, base, release_gil, self.alignment,
            keep, self.aliases, self.overwritten,
        )  # fmt: skip

    def _run_in_python(self, *inputs: Array) -> tuple[Array, ...]:
        """Call the code with inputs that fit, where no builtin can be made."""
        outputs = self._results(inputs)
        self._call_code(inputs, outputs)
        return outputs

    def prepare(self, arrays: Sequence[object]) -> Prepared:
        """All that a run takes; InputError when an argument does not fit."""
        if len(arrays) != len(self.parameters):
            raise InputError(f"expected {_count(len(self.parameters))}, got {len(arrays)}")
        inputs = self._apart(self._inputs(arrays), ())
        return self._prepared(inputs, self._results(inputs))

    def _results(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(
            inputs[self.aliases[number]] if number in self.aliases else empty(shape, dtype)
            for number, (dtype, shape) in enumerate(self.outputs)
        )

    def _prepared(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Prepared:
        arena = empty((self.arena_bytes,), np.uint8) if self.arena_bytes else None
        buffers = (*inputs, *outputs, arena, self._constants)
        pointers = (0 if buffer is None else buffer.ctypes.data for buffer in buffers)
        return Prepared(np.array([*pointers, 0, 0], np.uint64), tuple(outputs), buffers)

    def _call_code(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        prepared = self._prepared(inputs, outputs)
        enter()(self.address, prepared.frame.ctypes.data)
        if prepared.frame[-2] != COMPLETE:
            incomplete()


def check_input(number: int, leaf: Leaf, value: object, alignment: int = 1, allow_bits: bool = True) -> Array:
    """Argument `number` as a dense, aligned array of the dtype and shape of its parameter `leaf`.

    InputError names the parameter, what it takes and what was given.
    """
    dtype, shape = leaf
    if not hasattr(type(value), "__array__"):
        raise InputError(f"parameter {number}: expected {_described(dtype, shape)}, got a {type(value).__name__}")
    try:
        array = np.asarray(value)
    except Exception as error:
        raise InputError(f"parameter {number}: no array in this {type(value).__name__}: {error}") from error
    given = array.dtype
    if given == dtype or (allow_bits and dtype.isbuiltin != 1 and given == np.dtype(f"u{dtype.itemsize}")):
        # The builtin knows a dtype by its identity.
        array = array if given is dtype else array.view(dtype)
    if array.dtype is not dtype or array.shape != shape:
        raise InputError(
            f"parameter {number}: expected {_described(dtype, shape)}, got {_described(given, array.shape)}"
        )
    return _placed(array, alignment)


def check_output(number: int, leaf: Leaf, value: object) -> Array:
    """`value`, an array that result `number` can be written to; InputError where it cannot."""
    dtype, shape = leaf
    if not isinstance(value, np.ndarray):
        raise InputError(f"result {number}: expected {_described(dtype, shape)}, got a {type(value).__name__}")
    if value.dtype != dtype or value.shape != shape:
        raise InputError(
            f"result {number}: expected {_described(dtype, shape)}, got {_described(value.dtype, value.shape)}"
        )
    if not (value.flags.c_contiguous and value.flags.aligned and value.flags.writeable):
        raise InputError(f"result {number}: expected a dense row-major array that can be written to")
    return value


def check_donated(overwritten: Sequence[int], inputs: Sequence[Array], given: Sequence[object]) -> None:
    """InputError where the arrays `given`, taken as `inputs`, of parameters to be `overwritten` cannot be."""
    for place, number in enumerate(overwritten):
        array, value = inputs[number], given[number]
        if not isinstance(value, np.ndarray) or array.ctypes.data != value.ctypes.data or not array.flags.writeable:
            raise InputError(
                f"parameter {number}: it is donated: expected a dense row-major array that can be written to"
            )
        for other in overwritten[:place]:
            if np.may_share_memory(array, inputs[other]):
                raise InputError(f"parameter {number}: it lies in memory of parameter {other}; both are donated")


def check_apart(results: Sequence[Array]) -> None:
    """InputError where two arrays for results share memory."""
    for number, result in enumerate(results):
        if any(np.may_share_memory(result, other) for other in results[:number]):
            raise InputError(f"result {number}: its memory is that of another result")


def _leaves(leaves: Sequence[tuple[npt.DTypeLike, Sequence[int]]]) -> tuple[Leaf, ...]:
    return tuple((np.dtype(dtype), tuple(shape)) for dtype, shape in leaves)


def _placed(array: Array, alignment: int) -> Array:
    """`array` itself when it is dense, row-major and aligned, else a copy that is."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and (alignment == 1 or array.ctypes.data % alignment == 0):
        return array
    copy = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _misfit(*_: object) -> tuple[Array, ...]:
    raise InputError("an argument was changed by another thread while the call was prepared")


def _described(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape {shape}"


def _count(number: int) -> str:
    return f"{number} argument" if number == 1 else f"{number} arguments"
