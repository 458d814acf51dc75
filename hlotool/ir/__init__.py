"""The graph: element types, shapes, literals, the opcode table, instructions, computations and modules.

Imports NumPy and ml_dtypes only.  Everything else in the package is built on this room.
"""

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
from hlotool.ir.literal import Literal, literal
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
