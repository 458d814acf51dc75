"""Products of matrices in groups, as of tokens and the experts that they go to; also those that transformers has."""

from __future__ import annotations

from typing import Any

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.torch.lowering import Context, Refused, lowering
from hlotool.torch.ops.pieces import element, sizes
from hlotool.torch.ops.products import product

__all__: list[str] = []


def _counts(c: Context, ends: Instruction) -> Instruction:
    """How many belong to each group, of where each ends."""
    b, (count,) = c.builder, sizes(ends)
    starts = b.pad(b.slice(ends, (0,), (count - 1,), (1,)), c.full(0, element(ends)), ((1, 0, 0),))
    return b.binary("subtract", ends, starts)


def _ragged(
    c: Context, lhs: Instruction, rhs: Instruction, ends: Instruction, along: int, contracting: tuple[int, int]
) -> Instruction:
    """The product of the groups of `lhs` along a dimension with those of `rhs`, which are its first dimension, or with
    the same rows of it where `along` is summed up."""
    kind, sums = element(c.computed(lhs)), along == contracting[0]
    attributes = {
        "lhs_contracting_dims": contracting[:1], "rhs_contracting_dims": contracting[1:],
        "lhs_ragged_dims": (along,), "rhs_group_dims": () if sums else (0,),
    }  # fmt: skip
    rows = [size for n, size in enumerate(sizes(lhs)) if n != contracting[0]]
    columns = [size for n, size in enumerate(sizes(rhs)) if n != contracting[1] and (sums or n)]
    shape = array(kind, (*(sizes(ends) if sums else ()), *rows, *columns))
    return c.convert(c.builder.add("ragged-dot", shape, (lhs, rhs, _counts(c, ends)), attributes), c.type)


@lowering("aten._grouped_mm.default")
def grouped_mm(
    c: Context, self: Instruction, mat2: Instruction, offs: Instruction | None = None, bias: Instruction | None = None,
    out_dtype: Any = None,
) -> Instruction:  # fmt: skip
    """`offs` says where groups end: along the rows of `self`, the columns of `mat2`, or what is summed up."""
    if bias is not None:
        raise Refused("products in groups with a bias")
    ranks = len(sizes(self)), len(sizes(mat2))
    if ranks == (3, 3):
        return c.convert(product(c, self, mat2, (2, 1), batch=1, keep_wide=True), c.type)
    if offs is None:
        raise Refused("products in groups without their ends")
    if ranks == (2, 2):
        return _ragged(c, self, mat2, offs, 1, (1, 0))
    if ranks == (2, 3):
        return _ragged(c, self, mat2, offs, 0, (1, 1))
    return c.builder.transpose(_ragged(c, mat2, self, offs, 1, (0, 2)), (1, 0))


@lowering("transformers.grouped_mm_fallback.default")
def of_experts(c: Context, input: Instruction, weight: Instruction, offs: Instruction) -> Instruction:
    return _ragged(c, input, weight, offs, 0, (1, 1))


@lowering("transformers.grouped_mm_fallback_backward.default")
def of_experts_backward(
    c: Context, input: Instruction, weight: Instruction, offs: Instruction, grad_output: Instruction
) -> tuple[Instruction, Instruction]:
    by_row = _ragged(c, grad_output, weight, offs, 0, (1, 2))
    return by_row, _ragged(c, input, grad_output, offs, 0, (0, 0))
