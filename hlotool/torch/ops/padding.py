"""Padding by reflection and by the border; and the columns of windows put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import narrow, per_dimension, sizes
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Ends = tuple[int, int]
Border = Callable[[Context, Instruction, int, int, bool], Instruction]


def _ends(pad: Sequence[int], rank: int) -> list[Ends]:
    """What `pad`, pairs from the last dimension on, adds to each dimension."""
    pairs = [(pad[n], pad[n + 1]) for n in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _bordered(c: Context, self: Instruction, pad: Sequence[int], border: Border) -> Instruction:
    """`border` gives what stands before or after the elements of a dimension; negative padding cuts them off."""
    for along, (low, high) in enumerate(_ends(pad, len(sizes(self)))):
        size = sizes(self)[along]
        parts = [border(c, self, along, low, True)] if low > 0 else []
        parts.append(narrow(c, self, along, max(-low, 0), size - max(-high, 0)))
        parts += [border(c, self, along, high, False)] if high > 0 else []
        self = c.builder.concatenate(parts, along) if len(parts) > 1 else parts[0]
    return self


def _mirrored(c: Context, a: Instruction, along: int, count: int, before: bool) -> Instruction:
    size = sizes(a)[along]
    part = narrow(c, a, along, 1, count + 1) if before else narrow(c, a, along, size - 1 - count, size - 1)
    return c.builder.reverse(part, (along,))


def _repeated(c: Context, a: Instruction, along: int, count: int, before: bool) -> Instruction:
    size = sizes(a)[along]
    edge = narrow(c, a, along, 0, 1) if before else narrow(c, a, along, size - 1, size)
    return c.expand(edge, [count if d == along else n for d, n in enumerate(sizes(a))])


@lowering(*(f"aten.reflection_pad{n}d.default" for n in (1, 2, 3)))
def reflection_pad(c: Context, self: Instruction, padding: Sequence[int]) -> Instruction:
    if self.shape.element_type == "pred":
        raise Refused("reflection of pred, for which PyTorch has no kernel")
    return _bordered(c, self, padding, _mirrored)


@lowering(*(f"aten.replication_pad{n}d.default" for n in (1, 2, 3)))
def replication_pad(c: Context, self: Instruction, padding: Sequence[int]) -> Instruction:
    return _bordered(c, self, padding, _repeated)


@lowering("aten.col2im.default")
def col2im(
    c: Context, self: Instruction, output_size: Sequence[int], kernel_size: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Instruction:  # fmt: skip
    """Columns of windows [batch, channels * places of a window, windows], added up where they were taken."""
    b, (high, wide) = c.builder, output_size
    kernel, dilate, pad, step = (per_dimension(one, 2) for one in (kernel_size, dilation, padding, stride))
    if prod(kernel) > 256:
        raise Refused("col2im of windows with more than 256 places")
    lead = sizes(self)[:-2]
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip((high, wide), pad, dilate, kernel, step, strict=True)
    ]
    channels = sizes(self)[-2] // prod(kernel)
    split = b.reshape(c.computed(self), (*lead, channels, *kernel, *counts))
    rank = len(sizes(split))
    total = None
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            one = narrow(c, narrow(c, split, rank - 4, row, row + 1), rank - 3, column, column + 1)
            ends: list[Sequence[int]] = [(0, 0)] * (len(lead) + 1)
            for n, p, d, s, count, place in zip(
                (high, wide), pad, dilate, step, counts, (row, column), strict=True
            ):
                low = place * d - p
                ends.append((low, n - low - ((count - 1) * s + 1), s - 1))
            flat = b.reshape(one, (*lead, channels, *counts))
            put = b.pad(flat, c.full(0, flat.shape.element_type), ends)
            total = put if total is None else b.binary("add", total, put)
    assert total is not None
    return c.convert(total, c.type)
