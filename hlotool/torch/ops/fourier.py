"""Fourier transforms over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import dimension_of, element, sizes
from hlotool.torch.refusal import Refused

__all__: list[str] = []


def _along(c: Context, a: Instruction, dim: int, kind: str, length: int) -> Instruction:
    """A transform of one dimension, which stands last meanwhile."""
    b, rank = c.builder, len(sizes(a))
    order = [*(d for d in range(rank) if d != dim), dim]
    back = [order.index(d) for d in range(rank)]
    turned = a if dim == rank - 1 else b.transpose(a, order)
    made = b.add("fft", None, (turned,), {"fft_type": kind, "fft_length": (length,)})
    return made if dim == rank - 1 else b.transpose(made, back)


def _all(c: Context, a: Instruction, dims: Sequence[int], forward: bool) -> Instruction:
    for dim in dims:
        a = _along(c, a, dim, "FFT" if forward else "IFFT", sizes(a)[dim])
    return a


def _scaled(c: Context, a: Instruction, normalization: int, count: int, inverse: int = 1) -> Instruction:
    """Times what is asked for: 0 nothing, 1 over the root of the elements, 2 over them; `inverse` elements have been
    divided by already."""
    factor = {0: 1.0, 1: 1 / sqrt(count), 2: 1 / count}[normalization] * inverse
    return a if factor == 1 else c.builder.binary("multiply", a, c.like(factor, a))


def _dims(self: Instruction, dim: Sequence[int]) -> list[int]:
    if not self.shape.size:
        raise Refused("a Fourier transform without elements")
    return [dimension_of(d, len(sizes(self))) for d in dim]


@lowering("aten._fft_c2c.default")
def fft_c2c(c: Context, self: Instruction, dim: Sequence[int], normalization: int, forward: bool) -> Instruction:
    dims = _dims(self, dim)
    count = prod(sizes(self)[d] for d in dims)
    return _scaled(c, _all(c, self, dims, forward), normalization, count, 1 if forward else count)


@lowering("aten._fft_r2c.default")
def fft_r2c(c: Context, self: Instruction, dim: Sequence[int], normalization: int, onesided: bool) -> Instruction:
    dims = _dims(self, dim)
    if element(self) not in ("f32", "f64"):
        raise Refused(f"a Fourier transform of {element(self)}")
    count = prod(sizes(self)[d] for d in dims)
    if onesided:
        *rest, last = dims
        made = _all(c, _along(c, self, last, "RFFT", sizes(self)[last]), rest, True)
    else:
        made = _all(c, c.builder.convert(self, c.type), dims, True)
    return _scaled(c, made, normalization, count)


@lowering("aten._fft_c2r.default")
def fft_c2r(c: Context, self: Instruction, dim: Sequence[int], normalization: int, last_dim_size: int) -> Instruction:
    *rest, last = _dims(self, dim)
    count = prod(sizes(self)[d] for d in rest) * last_dim_size
    made = _along(c, _all(c, self, rest, False), last, "IRFFT", last_dim_size)
    return _scaled(c, made, normalization, count, count)
