"""Element types and reducers as MPI has them, and arrays as its data types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hlotool.devices.mpi.library import mpi
from hlotool.evaluate.combiner import combiner_of
from hlotool.evaluate.values import AnyArray
from hlotool.ir import ELEMENT_TYPES, Instruction, dtype_of
from hlotool.lazy_dataclass import dataclass

__all__ = ["Reduction", "operation_of", "packed_type", "reduction_of"]

_OPERATIONS = {"add": "SUM", "multiply": "PROD", "and": "BAND", "or": "BOR", "xor": "BXOR", "maximum": "MAX",
               "minimum": "MIN"}  # fmt: skip
_FLOATS = {"f32": "FLOAT", "f64": "DOUBLE", "c64": "C_FLOAT_COMPLEX", "c128": "C_DOUBLE_COMPLEX"}
_ROUNDED = ("add", "multiply")
_NARROW = ("f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4")


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reducer as an operation of MPI on elements of `datatype`; `exact` where the order makes no difference.

    It `swaps` where that is so for two elements at least: their sum is what IEEE 754 says, whichever comes first.
    """

    datatype: Any
    operation: Any
    exact: bool
    swaps: bool


def reduction_of(instruction: Instruction, number: int, own: Callable[[str, str], Any]) -> Reduction | None:
    """How MPI reduces operand `number`; None where it has no such operation.

    `own` gives an operation of our own for an opcode and an element type that MPI knows nothing of.  Extremes of floats
    are none: what MPI makes of NaN is open; nor are sums and products of small integers, which have to wrap.
    """
    computation = instruction.attributes["to_apply"]
    kind = instruction.operands[number].shape.element_type
    if computation.parameters[0].shape.element_type != kind:
        return None
    reducer = combiner_of(computation)
    if reducer is None:
        return None
    row, opcode = ELEMENT_TYPES[kind], reducer.opcode
    if kind in _FLOATS and opcode in _ROUNDED:
        swaps = row.is_float or opcode == "add"
        return Reduction(getattr(mpi(), _FLOATS[kind]), getattr(mpi(), _OPERATIONS[opcode]), False, swaps)
    if kind in _NARROW and opcode in _ROUNDED:
        unsigned = mpi().UINT16_T if row.bits == 16 else mpi().UINT8_T
        return Reduction(unsigned, own(opcode, kind), False, False)
    if row.kind == "pred" and opcode not in _ROUNDED:
        return Reduction(mpi().UINT8_T, getattr(mpi(), _OPERATIONS[opcode]), True, True)
    if row.is_integer and row.bits >= (32 if opcode in _ROUNDED else 8):  # Open MPI's sums of less do not wrap
        signed = row.kind == "signed" and opcode in ("maximum", "minimum")  # others are the same in both, and wrap
        datatype = getattr(mpi(), f"{'' if signed else 'U'}INT{row.bits}_T")
        return Reduction(datatype, getattr(mpi(), _OPERATIONS[opcode]), True, True)
    return None


def packed_type(arrays: Iterable[AnyArray]) -> Any:
    """The bytes of `arrays`, in order, as a committed data type at address 0; None where there are none."""
    found = [array for array in arrays if array.size]
    if not found:
        return None
    parts = [_strided(array) for array in found]
    places = [int(array.__array_interface__["data"][0]) for array in found]
    whole = mpi().Datatype.Create_struct([1] * len(parts), places, parts)
    for part in parts:
        part.Free()
    return whole.Commit()


def _strided(array: AnyArray) -> Any:
    """The elements of an array in row-major order, as they lie in memory."""
    size, at = array.itemsize, array.ndim
    while at and (array.shape[at - 1] == 1 or array.strides[at - 1] == size):
        size *= array.shape[at - 1]
        at -= 1
    datatype = mpi().BYTE.Create_contiguous(size)
    for length, stride in zip(reversed(array.shape[:at]), reversed(array.strides[:at]), strict=True):
        outer = datatype.Create_hvector(length, 1, stride)
        datatype.Free()
        datatype = outer
    return datatype


def operation_of(opcode: str, kind: str) -> Any:
    """An operation of MPI for elements of a narrow float, which come as unsigned integers; free it when it is done."""
    dtype = dtype_of(kind)
    function = {"add": np.add, "multiply": np.multiply}[opcode]

    def reduce(source: Any, target: Any, datatype: Any) -> None:
        left, right = (np.frombuffer(memory, dtype) for memory in (source, target))
        with np.errstate(all="ignore"):
            np.copyto(np.frombuffer(target, dtype), function(left, right))

    return mpi().Op.Create(reduce, commute=True)
