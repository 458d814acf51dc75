"""The graph: element types, shapes, literals, the opcode table, instructions, computations and modules.

Imports NumPy and ml_dtypes only.  Everything else in the package is built on this room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hlotool.ir.literal import Literal, literal  # now: importing the file later would put it where the function is

if TYPE_CHECKING:
    from hlotool.ir.attributes import (
        Aliasing,
        ConvDimensionNumbers,
        Metadata,
        PaddingDimension,
        ReplicaGroups,
        SliceDimension,
        StackFrames,
        Verbatim,
        Window,
        WindowDimension,
    )
    from hlotool.ir.errors import (
        BudgetExceeded,
        Diagnostic,
        ExecutionError,
        HloError,
        InputError,
        Location,
        ParseError,
        UnsupportedError,
        VerificationError,
    )
    from hlotool.ir.module import (
        Computation,
        Instruction,
        Module,
        clone_computation,
        clone_instruction,
        clone_module,
    )
    from hlotool.ir.opcodes import COMMON_ATTRIBUTES, NOTE, OPCODES, UNKNOWN, WRITTEN, Attribute, Opcode
    from hlotool.ir.shape import UNBOUNDED, Layout, Shape, array, row_major, scalar, token, tuple_shape
    from hlotool.ir.storage import Move, storage_moves
    from hlotool.ir.types import ELEMENT_TYPES, ElementType, byte_size, dtype_of, element_type, element_type_of

__all__ = [
    "COMMON_ATTRIBUTES",
    "ELEMENT_TYPES",
    "NOTE",
    "OPCODES",
    "UNBOUNDED",
    "UNKNOWN",
    "WRITTEN",
    "Aliasing",
    "Attribute",
    "BudgetExceeded",
    "Computation",
    "ConvDimensionNumbers",
    "Diagnostic",
    "ElementType",
    "ExecutionError",
    "HloError",
    "InputError",
    "Instruction",
    "Layout",
    "Literal",
    "Location",
    "Metadata",
    "Module",
    "Move",
    "Opcode",
    "PaddingDimension",
    "ParseError",
    "ReplicaGroups",
    "Shape",
    "SliceDimension",
    "StackFrames",
    "UnsupportedError",
    "Verbatim",
    "VerificationError",
    "Window",
    "WindowDimension",
    "array",
    "byte_size",
    "clone_computation",
    "clone_instruction",
    "clone_module",
    "dtype_of",
    "element_type",
    "element_type_of",
    "literal",
    "row_major",
    "scalar",
    "storage_moves",
    "token",
    "tuple_shape",
]

_HOMES = {
    "attributes": "Aliasing ConvDimensionNumbers Metadata PaddingDimension ReplicaGroups SliceDimension StackFrames "
    "Verbatim Window WindowDimension",
    "errors": "BudgetExceeded Diagnostic ExecutionError HloError InputError Location ParseError UnsupportedError "
    "VerificationError",
    "module": "clone_computation clone_instruction clone_module Computation Instruction Module",
    "opcodes": "Attribute COMMON_ATTRIBUTES NOTE Opcode OPCODES UNKNOWN WRITTEN",
    "shape": "array Layout row_major scalar Shape token tuple_shape UNBOUNDED",
    "storage": "Move storage_moves",
    "types": "byte_size dtype_of element_type element_type_of ELEMENT_TYPES ElementType",
}
"""Where the names come from, which are loaded as they are used: who runs code from the cache needs but a few."""


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'hlotool.ir' has no attribute {name!r}")
    value = getattr(import_module(f"hlotool.ir.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
