"""Tensors made of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.lowering import Context, Number, Value, lowering

__all__: list[str] = []


@lowering("aten.full.default")
def full(c: Context, size: Sequence[int], fill_value: Number, *, dtype: Any = None) -> Instruction:
    return c.full(fill_value, c.type, c.dimensions)


@lowering("aten._efficientzerotensor.default")
def zero_tensor(c: Context, size: Sequence[int], *, dtype: Any = None) -> Instruction:
    return c.full(0, c.type, c.dimensions)


@lowering("aten.full_like.default")
def full_like(c: Context, self: Instruction, fill_value: Number, *, dtype: Any = None) -> Instruction:
    return c.full(fill_value, c.type, c.dimensions)


@lowering("aten.new_full.default")
def new_full(
    c: Context, self: Instruction, size: Sequence[int], fill_value: Number, *, dtype: Any = None
) -> Instruction:
    return c.full(fill_value, c.type, c.dimensions)


@lowering("aten.scalar_tensor.default")
def scalar_tensor(c: Context, s: Number, *, dtype: Any = None) -> Instruction:
    return c.full(s, c.type)


def _of(value: Number, *names: str) -> None:
    @lowering(*(f"aten.{name}.default" for name in names))
    def lower(c: Context, *_: Any, **options: Any) -> Instruction:
        return c.full(value, c.type, c.dimensions)


_of(1, "ones", "ones_like", "new_ones")
_of(0, "zeros", "zeros_like", "new_zeros")
# What is in them is nobody's business: zeros are as good as anything.
_of(0, "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")


@lowering("aten.empty.memory_format")
def empty(c: Context, size: Sequence[int], *, dtype: Any = None) -> Instruction:
    return c.full(0, c.type, c.dimensions)


@lowering("aten.fill.Scalar", "aten.fill.Tensor")
def fill(c: Context, self: Instruction, value: Value) -> Instruction:
    return c.tensor(value, c.type, c.dimensions)


@lowering("aten.zero.default")
def zero(c: Context, self: Instruction) -> Instruction:
    return c.like(0, self)


def _steps(c: Context, start: Number, step: Number) -> Instruction:
    """``start + n * step``: of integers exactly, of floats in f64, as PyTorch does."""
    b = c.builder
    row = ELEMENT_TYPES[c.type]
    wide = "s64" if row.kind in ("signed", "pred") else "u64" if row.kind == "unsigned" else "f64"
    if wide != "f64":
        start, step = int(start.real), int(step.real)
    numbers = b.iota(array(wide, c.dimensions))
    found = b.binary("multiply", numbers, c.like(step, numbers)) if step != 1 else numbers
    found = b.binary("add", found, c.like(start, found)) if start != 0 else found
    return c.convert(found, c.type)


@lowering("aten.arange.default")
def arange(c: Context, end: Number, *, dtype: Any = None) -> Instruction:
    return _steps(c, 0, 1)


@lowering("aten.arange.start")
def arange_start(c: Context, start: Number, end: Number, *, dtype: Any = None) -> Instruction:
    return _steps(c, start, 1)


@lowering("aten.arange.start_step")
def arange_step(c: Context, start: Number, end: Number, step: Number = 1, *, dtype: Any = None) -> Instruction:
    return _steps(c, start, step)


@lowering("prims.iota.default")
def iota(c: Context, length: int, *, start: int, step: int, dtype: Any = None) -> Instruction:
    return _steps(c, start, step)


@lowering(*(f"aten.linspace.{name}" for name in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")))
def linspace(c: Context, start: Value, end: Value, steps: int, *, dtype: Any = None) -> Instruction:
    """From the nearer end, as PyTorch does it; both ends are of the result's type before the steps are counted."""
    b, row = c.builder, ELEMENT_TYPES[c.type]
    first, last = c.tensor(start, c.type), c.tensor(end, c.type)
    if row.is_complex:
        real, imag = (_between(c, b.unary(part, first), b.unary(part, last), steps) for part in ("real", "imag"))
        return c.convert(b.binary("complex", real, imag), c.type)
    return c.convert(_between(c, first, last, steps), c.type)


def _between(c: Context, start: Instruction, end: Instruction, steps: int) -> Instruction:
    """`steps` numbers from `start` to `end`, in f64."""
    b = c.builder
    numbers = b.iota(array("f64", c.dimensions))
    start, end = c.tensor(start, "f64", c.dimensions), c.tensor(end, "f64", c.dimensions)
    if steps == 1:
        return start
    step = b.binary("divide", b.binary("subtract", end, start), c.like(steps - 1, numbers))
    up = b.binary("add", b.binary("multiply", numbers, step), start)
    left = b.binary("subtract", c.like(steps - 1, numbers), numbers)
    down = b.binary("subtract", end, b.binary("multiply", left, step))
    return b.select(b.compare(numbers, c.like(steps // 2, numbers), "LT"), up, down)


@lowering("aten.eye.default")
def eye(c: Context, n: int, *, dtype: Any = None) -> Instruction:
    return eye_of(c)


@lowering("aten.eye.m")
def eye_m(c: Context, n: int, m: int, *, dtype: Any = None) -> Instruction:
    return eye_of(c)


def eye_of(c: Context) -> Instruction:
    """Ones on the diagonal."""
    b = c.builder
    row, column = (b.iota(array("s64", c.dimensions), n) for n in (0, 1))
    return c.convert(b.compare(row, column, "EQ"), c.type)


def _triangle(name: str, direction: str) -> None:
    @lowering(f"aten.{name}.default")
    def lower(c: Context, self: Instruction, diagonal: int = 0) -> Instruction:
        b, rank = c.builder, len(c.dimensions)
        row, column = (b.iota(array("s64", c.dimensions), rank - n) for n in (2, 1))
        edge = b.binary("add", row, c.like(diagonal, row))
        return b.select(b.compare(column, edge, direction), self, c.like(0, self))


_triangle("tril", "LE")
_triangle("triu", "GE")
