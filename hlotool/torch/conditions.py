"""What has to be true of arguments when a program runs: eager PyTorch raises an error where it is not.

HLO takes the nearest place for an index that is out of bounds, or leaves it out, and divides integers by zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hlotool.ir import Instruction
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.checks import Failure
from hlotool.torch.lowering import Context

__all__ = ["conditions"]

_ROWS = frozenset(f"aten.{name}.default" for name in ("index_add", "index_copy", "index_reduce", "index_select"))
_ELEMENTS = frozenset(
    f"aten.{name}"
    for name in (
        "gather.default", "scatter.reduce", "scatter.src", "scatter.value", "scatter.value_reduce",
        "scatter_add.default", "scatter_reduce.two",
    )
)  # fmt: skip
_ADVANCED = frozenset(("aten.index.Tensor", "aten.index_put.default"))
_DIVISIONS = frozenset(
    f"aten.{name}"
    for name in (
        "div.Tensor_mode", "floor_divide.default", "fmod.Tensor", "remainder.Scalar_Tensor", "remainder.Tensor",
    )
)  # fmt: skip
_IN_SELF = Failure(IndexError, "index out of range in self")
_BY_ZERO = Failure(RuntimeError, "ZeroDivisionError")


def conditions(c: Context, operation: str, given: Mapping[str, Any]) -> Iterator[tuple[Instruction, Failure]]:
    """What is to be looked at of the arguments of an operation when it runs, and what is wrong where it is not true.

    Arguments that follow from constants alone are PyTorch's own, of what it takes apart, and right.
    """
    for index, negative, size, failure in _indices(operation, given):
        if index.shape.size and index.shape.element_type not in ("pred", "u8") and _varies(index):
            yield _within(c, index, -size if negative else 0, size), failure
    divisor = given.get("other") if operation in _DIVISIONS and ELEMENT_TYPES[c.type].is_integer else None
    if isinstance(divisor, Instruction) and divisor.shape.size and _varies(divisor):
        yield _all(c, c.builder.compare(divisor, c.like(0, divisor), "NE")), _BY_ZERO


def _all(c: Context, true: Instruction) -> Instruction:
    return c.reduce(true, range(len(true.shape.dimensions)), "and", True)


def _indices(operation: str, given: Mapping[str, Any]) -> Iterable[tuple[Instruction, bool, int, Failure]]:
    """Indices, whether they may count from the end, how many places there are, and what is wrong beyond these."""
    if operation == "aten.embedding.default":
        return [(given["indices"], False, given["weight"].shape.dimensions[0], _IN_SELF)]
    if operation in _ROWS:
        own, dim = given["self"], given["dim"]
        adds_rows = operation == "aten.index_add.default" and len(own.shape.dimensions) > 1
        return [(given["index"], False, _size(own, dim), _said(RuntimeError, own, dim) if adds_rows else _IN_SELF)]
    if operation in _ELEMENTS:
        own, dim = given["self"], given["dim"]
        return [(given["index"], False, _size(own, dim), _said(RuntimeError, own, dim))]
    if operation in _ADVANCED:
        own = given["self"]
        rows = [(n, one) for n, one in enumerate(given["indices"]) if isinstance(one, Instruction)]
        return [(one, True, _size(own, n), _said(IndexError, own, n)) for n, one in rows]
    if operation == "aten.put.default":
        size = given["self"].shape.size
        return [(given["index"], True, size, Failure(IndexError, f"out of range for a tensor of {size} elements"))]
    return []


def _size(a: Instruction, dimension: int) -> int:
    dimensions = a.shape.dimensions
    return dimensions[dimension] if dimensions else 1


def _said(kind: type[Exception], a: Instruction, dimension: int) -> Failure:
    place = dimension % max(len(a.shape.dimensions), 1)
    return Failure(kind, f"an index is out of bounds for dimension {place} with size {_size(a, dimension)}")


def _varies(a: Instruction) -> bool:
    """Whether a value follows from what the graph is given."""
    seen, pending = {a}, [a]
    while pending:
        one = pending.pop()
        if one.opcode == "parameter":
            return True
        pending += [operand for operand in one.operands if operand not in seen]
        seen.update(one.operands)
    return False


def _within(c: Context, index: Instruction, low: int, size: int) -> Instruction:
    """Whether all of the indices are at least `low` and below `size`."""
    b, most = c.builder, (1 << (ELEMENT_TYPES[index.shape.element_type].bits - 1)) - 1
    found = b.compare(index, c.like(max(low, -most), index), "GE")
    if size <= most:  # a narrow type has no number beyond many places
        found = b.binary("and", found, b.compare(index, c.like(size, index), "LT"))
    return _all(c, found)
