"""Windows that are less than they seem, and padding and reversal that windows have themselves."""

from __future__ import annotations

from dataclasses import replace

from hlotool.ir import Instruction, PaddingDimension, SliceDimension, Window, WindowDimension, array
from hlotool.ir.window import window_of
from hlotool.passes.framework.patterns import number
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.contraction import is_identity, single_reducer

__all__ = ["RULES"]


# ---- reduce-window


@rule("reduce-window(operand, initial)")
def window_of_one(
    instruction: Instruction, operand: Instruction, initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Windows of a single element each are a slice with strides (and one operation with an initial value)."""
    opcode = single_reducer(instruction)
    rows = window_of(instruction, operand.shape.rank).dimensions
    if opcode is None or instruction.shape.size == 0:
        return None
    if any(row.size != 1 or row.padding_low or row.padding_high or row.base_dilation != 1 for row in rows):
        return None
    kept = [SliceDimension(0, size, row.stride) for row, size in zip(rows, operand.shape.dimensions, strict=True)]
    narrow = rewriter.slice_rows(operand, kept)
    if is_identity(opcode, initial):
        return narrow
    return rewriter.make(opcode, instruction.shape, narrow, rewriter.broadcast(initial, (), instruction.shape))


@rule("reduce-window(operand, initial)")
def window_of_everything(
    instruction: Instruction, operand: Instruction, initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Windows that span whole dimensions, the others of size 1, are a reduce (floats add up in another order)."""
    if single_reducer(instruction) is None or instruction.shape.size == 0:
        return None
    rows = window_of(instruction, operand.shape.rank).dimensions
    dimensions = []
    for d, (row, size) in enumerate(zip(rows, operand.shape.dimensions, strict=True)):
        if row.padding_low or row.padding_high or row.base_dilation != 1 or row.window_dilation != 1:
            return None
        if row.size == size and size > 1:
            dimensions.append(d)
        elif row.size != 1 or row.stride != 1:
            return None
    if not dimensions:
        return None
    kept = [size for d, size in enumerate(operand.shape.dimensions) if d not in dimensions]
    total = rewriter.make(
        "reduce", array(instruction.shape.element_type, kept), operand, initial, dimensions=tuple(dimensions),
        to_apply=instruction.attributes["to_apply"],
    )  # fmt: skip
    return rewriter.reshape(total, instruction.shape.dimensions)


@rule("reduce-window(inner: pad(source, value), initial)")
def window_of_pad(
    instruction: Instruction,
    inner: Instruction,
    source: Instruction,
    value: Instruction,
    initial: Instruction,
    rewriter: Rewriter,
) -> Rewritten:
    """Padding with the initial value, which changes nothing, is padding of the window."""
    opcode = single_reducer(instruction)
    if opcode is None or not is_identity(opcode, initial):
        return None
    if value is not initial and number(value) != number(initial):
        return None
    window = _padded(window_of(instruction, inner.shape.rank), inner.attributes["padding"])
    if window is None:
        return None
    return rewriter.make("reduce-window", instruction.shape, source, initial,
                         **{**instruction.attributes, "window": window})  # fmt: skip


def _padded(window: Window, padding: tuple[PaddingDimension, ...]) -> Window | None:
    """The window with the padding of its operand as well; None where it has no place for it."""
    rows = []
    for row, pad in zip(window.dimensions, padding, strict=True):
        if pad.low < 0 or pad.high < 0 or (row.base_dilation != 1 and (pad.low or pad.high or pad.interior)):
            return None
        low, high = row.padding_low + pad.low, row.padding_high + pad.high
        dilation = row.base_dilation * (1 + pad.interior)
        rows.append(replace(row, padding_low=low, padding_high=high, base_dilation=dilation))
    return replace(window, dimensions=tuple(rows))


# ---- convolution


@rule("convolution(left, right)")
def convolution_of_nothing(
    instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A convolution over no elements is 0."""
    if instruction.shape.size == 0 or (left.shape.size and right.shape.size):
        return None
    return rewriter.splat(0, instruction.shape)


@rule("convolution(operand, kernel)")
def convolution_of_outer_elements(
    instruction: Instruction, operand: Instruction, kernel: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Elements at the ends of the kernel that meet padding alone, whichever result is computed, take no part: those of
    a dilated kernel that is larger than the image."""
    labels = instruction.attributes["dim_labels"]
    window = window_of(instruction, len(labels.input_spatial))
    static = all(one.shape.is_static for one in (instruction, operand, kernel))
    if instruction.shape.size == 0 or operand.shape.size == 0 or not static:
        return None
    rows = list(window.dimensions)
    kept = [SliceDimension(0, size) for size in kernel.shape.dimensions]
    for n, (row, source, result, d) in enumerate(
        zip(rows, labels.input_spatial, labels.output_spatial, labels.kernel_spatial, strict=True)
    ):
        meets = [at for at in range(row.size) if _meets(
            row, at, operand.shape.dimensions[source], instruction.shape.dimensions[result])]  # fmt: skip
        if not meets:
            return rewriter.splat(0, instruction.shape)
        first, end = meets[0], meets[-1] + 1
        low, high = first * row.window_dilation, (row.size - end) * row.window_dilation
        rows[n] = replace(
            row, size=end - first, padding_low=row.padding_low - low, padding_high=row.padding_high - high,
            window_dilation=row.window_dilation if end - first > 1 else 1,
        )
        kept[d] = SliceDimension(row.size - end, row.size - first) if row.reversal else SliceDimension(first, end)
    if all(row.size == before.size for row, before in zip(rows, window.dimensions, strict=True)):
        return None
    return rewriter.make("convolution", instruction.shape, operand, rewriter.slice_rows(kernel, kept),
                         **{**instruction.attributes, "window": replace(window, dimensions=tuple(rows))})  # fmt: skip


def _meets(row: WindowDimension, at: int, size: int, results: int) -> bool:
    """Whether element `at` of a window lies between the ends of an input of `size` for some of so many results."""
    begin = at * row.window_dilation - row.padding_low
    first = max(0, -(begin // row.stride))
    return first < results and begin + first * row.stride <= (size - 1) * row.base_dilation


@rule("convolution(inner: pad(source, 0), kernel)")
def convolution_of_pad(
    instruction: Instruction, inner: Instruction, source: Instruction, kernel: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Padding the ends of the spatial dimensions of the input with 0 is padding of the window.

    Exact for finite weights: the product of a written zero and an infinite or NaN weight is NaN, where the padding of
    a window takes no part.
    """
    labels = instruction.attributes["dim_labels"]
    padding = inner.attributes["padding"]
    spatial = labels.input_spatial
    if any(pad.interior or (d not in spatial and pad != PaddingDimension(0, 0)) for d, pad in enumerate(padding)):
        return None
    window = _padded(window_of(instruction, len(spatial)), tuple(padding[d] for d in spatial))
    if window is None:
        return None
    return rewriter.make("convolution", instruction.shape, source, kernel,
                         **{**instruction.attributes, "window": window})  # fmt: skip


@rule("convolution(operand, inner: reverse(kernel))")
def convolution_of_reversed_kernel(
    instruction: Instruction, operand: Instruction, inner: Instruction, kernel: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A kernel reversed along spatial dimensions is one that the window reverses there, or reverses no more."""
    spatial = instruction.attributes["dim_labels"].kernel_spatial
    if any(d not in spatial for d in inner.attributes["dimensions"]):
        return None
    window = window_of(instruction, len(spatial))
    rows = list(window.dimensions)
    for d in inner.attributes["dimensions"]:
        place = spatial.index(d)
        rows[place] = replace(rows[place], reversal=not rows[place].reversal)
    return rewriter.make("convolution", instruction.shape, operand, kernel,
                         **{**instruction.attributes, "window": replace(window, dimensions=tuple(rows))})  # fmt: skip


RULES: tuple[Rule, ...] = (
    window_of_one, window_of_everything, window_of_pad, convolution_of_nothing, convolution_of_outer_elements,
    convolution_of_pad, convolution_of_reversed_kernel,
)  # fmt: skip
