"""Algebra of stacks of matrices, for rules: the last two dimensions are those of a matrix."""

from __future__ import annotations

from hlotool.ir import ELEMENT_TYPES, Instruction, array
from hlotool.passes.autodiff.writer import Term, Writer

__all__ = ["adjoint", "conjugate", "conjugated", "product", "real_diagonal", "transposed", "triangle"]


def conjugate(at: Writer, value: Instruction) -> Term:
    z = at.written(value)
    return at.written(at.build.binary("complex", z.apply("real").value, (-z.apply("imag")).value))


def product(at: Writer, a: Instruction, b: Instruction, over: tuple[int, int] = (1, 0)) -> Instruction:
    """The product of matrices, by their dimensions `over`, counted among the last two."""
    many = a.shape.rank - 2
    batch = tuple(range(many))
    return at.build.dot(a, b, ((many + over[0],), (many + over[1],)), (batch, batch))


def transposed(at: Writer, value: Instruction) -> Instruction:
    rank = value.shape.rank
    return at.build.transpose(value, [*range(rank - 2), rank - 1, rank - 2])


def triangle(at: Writer, value: Instruction, lower: bool, strict: bool = False) -> Instruction:
    """A triangle of matrices, zeros elsewhere."""
    shape = array("s32", value.shape.dimensions)
    row, column = at.build.iota(shape, shape.rank - 2), at.build.iota(shape, shape.rank - 1)
    direction = ("GT" if strict else "GE") if lower else ("LT" if strict else "LE")
    return at.build.select(at.build.compare(row, column, direction), value, at.zeros(value.shape))


def conjugated(at: Writer, value: Instruction) -> Instruction:
    """The conjugate; of real numbers the value itself."""
    return conjugate(at, value).value if ELEMENT_TYPES[value.shape.element_type].is_complex else value


def adjoint(at: Writer, value: Instruction) -> Instruction:
    return conjugated(at, transposed(at, value))


def real_diagonal(at: Writer, value: Instruction) -> Instruction:
    """The imaginary parts of a diagonal are not read, and have no derivative."""
    if not ELEMENT_TYPES[value.shape.element_type].is_complex:
        return value
    shape = array("s32", value.shape.dimensions)
    row, column = at.build.iota(shape, shape.rank - 2), at.build.iota(shape, shape.rank - 1)
    real = at.written(value).apply("real").as_complex()
    return at.build.select(at.build.compare(row, column, "EQ"), real.value, value)
