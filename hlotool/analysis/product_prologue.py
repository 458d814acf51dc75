"""What may be computed together with a product: the instructions ahead of it that make an operand.

A *prologue* makes the elements of a dot's operand where the kernel reads them, so that the operand itself is neither
written nor read: weights are then read as the few bits that they are kept in.  In HLO both are one fusion of kind
``kOutput`` with one dot in its body, whose operand is an instruction of the body.

There are two ways to have one.  A product with few rows, or few columns, is *streamed*: every element of its other
operand is used for those few only, so that it is computed when it is needed, by a loop that knows neither tiles nor
panels.  In any other product elements are used again and again; there the prologue runs when an operand is *packed*.
So it does for a large right operand in rows, whatever the number of these: strips of it are packed, some long pieces of
rows at a time, in the order of memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from hlotool.analysis.contraction import MatrixView, matrix_views
from hlotool.analysis.fusibility import is_fusible
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import Instruction, byte_size

__all__ = ["LONG_ROWS", "is_prologue_member", "is_streamed", "members_of", "prologues", "streams"]

STREAMED: Annotated[int, Threshold("operations")] = 8
"""Most results that one element of a streamed operand goes into: as many sums are held in registers."""

STREAMED_ALONG: Annotated[int, Threshold("operations")] = 16
"""The same where the operand is large and its terms lie side by side: vectors run along these, and packing would turn
them."""

STRIPS: Annotated[int, Threshold("bytes")] = 1 << 20
"""Of an operand, as it is computed, from which on strips of it pay."""
LONG_ROWS: Annotated[int, Threshold("columns")] = 512  # of such an operand

_OTHERS = frozenset({"dynamic-update-slice", "gather", "map", "reduce", "reduce-window"})
"""What has a loop of its own for each element, or is found at places of its own."""

_SOURCES: Annotated[int, Threshold("operands")] = 4
"""Arrays in a concatenation, one of which is chosen for each element."""


def prologues(product: Instruction) -> tuple[int, ...]:
    """The operands that are computed in the body of the product's fusion, by number."""
    return tuple(number for number, operand in enumerate(product.operands) if operand.opcode != "parameter")


def members_of(operands: Sequence[Instruction]) -> dict[Instruction, None]:
    """All that `operands`, instructions in the body of a fusion, are computed from, and they themselves."""
    found: dict[Instruction, None] = {}
    stack = list(operands)
    while stack:
        instruction = stack.pop()
        if instruction not in found:
            found[instruction] = None
            stack += instruction.operands
    return found


def is_prologue_member(instruction: Instruction) -> bool:
    """Whether an element of the instruction is made from few others, so that a product's kernel can have it."""
    if instruction.opcode == "concatenate" and len(instruction.operands) > _SOURCES:
        return False
    return instruction.opcode == "parameter" or (is_fusible(instruction) and instruction.opcode not in _OTHERS)


def is_streamed(product: Instruction, numbers: Collection[int]) -> bool:
    """Whether a product with prologues for the operands with these numbers is streamed."""
    view = matrix_views(product) if numbers and product.opcode == "dot" else None
    return view is not None and streams(view, numbers)


def streams(view: MatrixView, numbers: Collection[int]) -> bool:
    """Whether each element of the operands with these numbers goes into few results only, and computing it for these
    alone is best.

    A large right operand that lies in rows is better packed, in strips: some of its columns alone are short pieces of
    many rows, which memory is slow to deliver.
    """
    if tuple(numbers) == (1,) and _lies_in_long_rows(view):
        return False
    most = STREAMED_ALONG if _lies_along_terms(view, numbers) else STREAMED
    return (view.m if 1 in numbers else 1) * (view.n if 0 in numbers else 1) <= most


def _lies_along_terms(view: MatrixView, numbers: Collection[int]) -> bool:
    """Whether an operand is a large matrix whose terms lie side by side, as those of the other one do."""
    size = byte_size(view.types[1])
    along = all(matrix.terms == (size,) for matrix in (view.lhs, view.rhs)) and not view.batch
    lines = view.n if tuple(numbers) == (1,) else view.m
    return along and set(view.types) == {"f32"} and len(numbers) == 1 and lines * view.k * size >= STRIPS


def _lies_in_long_rows(view: MatrixView) -> bool:
    """Whether the right operand is a large matrix with long rows, whose products can be added up where they belong."""
    size = byte_size(view.types[1])
    in_rows = view.rhs.column == size and not view.batch and view.n >= LONG_ROWS
    return in_rows and view.n * view.k * size >= STRIPS and view.types[2] == view.types[3]
