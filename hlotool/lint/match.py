"""Questions that several rules ask about instructions."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np

from hlotool.analysis.reducers import opcodes
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Module, dtype_of
from hlotool.ir.builder import binary_computation

__all__ = ["ADD", "applied", "elements_of", "is_float", "is_sum", "lowest", "mantissa_bits", "number_of",
           "reduced_count", "square_of", "through"]  # fmt: skip

ADD = (
    "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
)
"""A computation for examples."""

_FAR = 64
"""Moves that are followed: each is looked at by all that read the last one."""
_MOVES = frozenset({"broadcast", "reshape", "bitcast", "copy", "convert"})


def through(instruction: Instruction, opcodes: frozenset[str] = _MOVES) -> Instruction:
    """What the elements of `instruction` are, before they were moved, repeated or converted."""
    for _ in range(_FAR):
        if instruction.opcode not in opcodes:
            break
        instruction = instruction.operands[0]
    return instruction


def number_of(instruction: Instruction) -> float | None:
    """The real number that all elements are, where it is a constant."""
    source = through(instruction)
    if source.opcode != "constant" or not source.shape.is_array or not source.literal.is_splat:
        return None
    value = source.literal.value().reshape(-1)[0]
    return None if ELEMENT_TYPES[source.shape.element_type].is_complex else float(value)


def is_float(instruction: Instruction) -> bool:
    """Whether it is an array of real floats."""
    return instruction.shape.is_array and ELEMENT_TYPES[instruction.shape.element_type].is_float


def mantissa_bits(kind: str) -> int:
    """The bits of a float's mantissa that are written: 23 of f32."""
    return int(ml_dtypes.finfo(dtype_of(kind)).nmant)  # type: ignore[no-untyped-call]


def elements_of(instruction: Instruction) -> int:
    """How many elements an array has."""
    return prod(instruction.shape.dimensions)


def is_sum(instruction: Instruction) -> bool:
    """Whether it is a sum of one array along dimensions."""
    return (
        instruction.opcode == "reduce"
        and len(instruction.operands) == 2
        and opcodes(instruction.attributes["to_apply"]) == ("add",)
    )


def reduced_count(reduce: Instruction) -> int:
    """How many elements each result of a reduce is made from."""
    sizes = reduce.operands[0].shape.dimensions
    return prod(sizes[at] for at in reduce.attributes["dimensions"])


def square_of(instruction: Instruction) -> Instruction | None:
    """What is squared in `instruction`, if anything is."""
    if instruction.opcode == "multiply" and instruction.operands[0] is instruction.operands[1]:
        return instruction.operands[0]
    if instruction.opcode == "power" and number_of(instruction.operands[1]) == 2:
        return instruction.operands[0]
    return None


def applied(module: Module, opcode: str, kind: str) -> Computation:
    """A computation of `module` that reduces with `opcode`, a new one where there is none."""
    for computation in module.computations.values():
        alike = len(computation) == 3 and computation.root.shape.is_scalar
        if alike and computation.root.shape.element_type == kind and opcodes(computation) == (opcode,):
            return computation
    return module.add(binary_computation(opcode, kind))


def lowest(kind: str) -> float:
    """Minus infinity, or the lowest number of a type that has none."""
    with np.errstate(all="ignore"):
        return float(np.array(-np.inf).astype(dtype_of(kind)))
