"""Convolutions, transposed ones, and their gradients, of arrays [batch, channels, places...]."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Instruction
from hlotool.ir.attributes import ConvDimensionNumbers, Window, WindowDimension
from hlotool.ir.shape_inference import infer
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import element, is_narrow, per_dimension, sizes
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Sizes = Sequence[int]


def _convolved(
    c: Context, base: Instruction, kernel: Instruction, window: Sequence[WindowDimension], labels: str, *,
    feature_groups: int = 1, batch_groups: int = 1,
) -> Instruction:  # fmt: skip
    """A convolution; `labels` has the first two dimensions of base, kernel and result, as in ``bf,oi,bf``."""
    bases, kernels, results = labels.split(",")
    places = tuple(range(2, len(sizes(base))))
    numbers = ConvDimensionNumbers(
        bases.index("b"), bases.index("f"), places,
        kernels.index("i"), kernels.index("o"), places,
        results.index("b"), results.index("f"), places,
    )  # fmt: skip
    attributes = {"window": Window(tuple(window)), "dim_labels": numbers}
    if feature_groups != 1:
        attributes["feature_group_count"] = feature_groups
    if batch_groups != 1:
        attributes["batch_group_count"] = batch_groups
    shape = infer("convolution", (base.shape, kernel.shape), attributes)
    wide = element(base) if not is_narrow(element(base)) else "f32"  # rounded once, at the end
    return c.builder.add("convolution", shape.with_type(wide), (base, kernel), attributes)


def _padding(padding: int, dilation: int, kernel: int) -> int:
    """What a transposed convolution pads where the convolution pads `padding`."""
    return dilation * (kernel - 1) - padding


def _forward(
    c: Context, input: Instruction, weight: Instruction, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Instruction:
    """Weights are [channels out, channels in / groups, places...]."""
    window = [
        WindowDimension(k, s, p, p, 1, d)
        for k, s, p, d in zip(sizes(weight)[2:], stride, padding, dilation, strict=True)
    ]
    return _convolved(c, input, weight, window, "bf,oi,bf", feature_groups=groups)


def _transposed(
    c: Context, input: Instruction, weight: Instruction, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
    wanted: Sizes,
) -> Instruction:  # fmt: skip
    """The gradient of `_forward` by its input, whose places are `wanted`.

    `input` has the channels that weights [channels out, channels in / groups, places...] give.
    """
    b, window = c.builder, []
    for k, s, p, d, have, want in zip(
        sizes(weight)[2:], stride, padding, dilation, sizes(input)[2:], wanted, strict=True
    ):
        low = _padding(p, d, k)
        spread = (have - 1) * s + 1 if have else 0
        high = want + d * (k - 1) - spread - low
        window.append(WindowDimension(k, 1, low, high, s, d, reversal=True))
    if groups == 1:
        return _convolved(c, input, weight, window, "bf,io,bf")
    out, own = sizes(weight)[:2]
    grouped = b.reshape(weight, (groups, out // groups, own, *sizes(weight)[2:]))
    turned = b.transpose(grouped, (1, 0, 2, *range(3, len(sizes(grouped)))))
    kernel = b.reshape(turned, (out // groups, groups * own, *sizes(weight)[2:]))
    return _convolved(c, input, kernel, window, "bf,io,bf", feature_groups=groups)


def _by_weight(
    c: Context, input: Instruction, grad: Instruction, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
    kernel: Sizes,
) -> Instruction:  # fmt: skip
    """The gradient of `_forward` by its weights, whose places are `kernel`."""
    window = []
    for have, k, s, p, d, out in zip(sizes(input)[2:], kernel, stride, padding, dilation, sizes(grad)[2:], strict=True):
        high = (k - 1) * d + (out - 1) * s + 1 - have - p
        window.append(WindowDimension(out, d, p, high, 1, s))
    return _convolved(c, input, grad, window, "fb,io,fb", batch_groups=groups)


def _check(input: Instruction, *others: Instruction | None) -> None:
    row = ELEMENT_TYPES[element(input)]
    if not (row.is_float or row.is_integer):
        raise Refused(f"a convolution of {element(input)}")
    if 0 in sizes(input) or any(one is not None and 0 in sizes(one) for one in others):
        raise Refused("a convolution without elements")


@lowering("aten.convolution.default")
def convolution(
    c: Context, input: Instruction, weight: Instruction, bias: Instruction | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int,
) -> Instruction:  # fmt: skip
    _check(input, weight)
    count = len(sizes(input)) - 2
    stride, padding, dilation = (per_dimension(one, count) for one in (stride, padding, dilation))
    if transposed:
        added = per_dimension(output_padding, count)
        if any(a >= max(s, d) for a, s, d in zip(added, stride, dilation, strict=True)):
            raise Refused("output padding that is not smaller than stride or dilation")
        made = _transposed(c, input, weight, stride, padding, dilation, groups, c.dimensions[2:])
    else:
        made = _forward(c, input, weight, stride, padding, dilation, groups)
    if bias is not None:
        made = c.builder.binary("add", made, c.builder.broadcast(c.convert(bias, element(made)), (1,), sizes(made)))
    return c.convert(made, c.type)


@lowering("aten.convolution_backward.default")
def convolution_backward(
    c: Context, grad_output: Instruction, input: Instruction, weight: Instruction, bias_sizes: Sizes | None,
    stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int,
    output_mask: Sequence[bool],
) -> tuple[Instruction | None, ...]:  # fmt: skip
    _check(input, weight, grad_output)
    count = len(sizes(input)) - 2
    stride, padding, dilation = (per_dimension(one, count) for one in (stride, padding, dilation))
    way = (stride, padding, dilation, groups)
    places = sizes(weight)[2:]
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        if transposed:
            by_input = _forward(c, grad_output, weight, *way)
            if sizes(by_input) != sizes(input):  # output_padding may reach farther than a stride
                by_input = c.builder.slice(by_input, (0,) * (count + 2), sizes(input))
        else:
            by_input = _transposed(c, grad_output, weight, *way, sizes(input)[2:])
    if output_mask[1]:
        base, kernel = (grad_output, input) if transposed else (input, grad_output)
        by_weight = _by_weight(c, base, kernel, *way, places)
    if output_mask[2]:
        over = [d for d in range(count + 2) if d != 1]
        by_bias = c.reduce(c.computed(grad_output), over, "add", 0)
    return tuple(None if one is None else c.convert(one, element(input)) for one in (by_input, by_weight, by_bias))
