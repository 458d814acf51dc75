"""Normalisation over batches, layers and groups, and the gradients of those."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import count_along, element, is_narrow, sizes, spread, squeeze
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Sizes = Sequence[int]
Given = Instruction | None


def _times(c: Context, a: Instruction, b: Instruction) -> Instruction:
    return c.builder.binary("multiply", a, b)


def _mean(c: Context, a: Instruction, over: Sizes) -> Instruction:
    total = c.reduce(a, over, "add", 0)
    return c.builder.binary("divide", total, c.like(count_along(a, over), total))


def _moments(c: Context, wide: Instruction, over: Sizes) -> tuple[Instruction, Instruction]:
    """Mean and (biased) variance over dimensions, which are gone."""
    kept = [d for d in range(len(sizes(wide))) if d not in over]
    mean = _mean(c, wide, over)
    away = c.builder.binary("subtract", wide, spread(c, mean, kept, sizes(wide)))
    return mean, _mean(c, _times(c, away, away), over)


def _inverse(c: Context, variance: Instruction, eps: float) -> Instruction:
    """One over the standard deviation."""
    return c.builder.unary("rsqrt", c.builder.binary("add", variance, c.like(eps, variance)))


def _normal(
    c: Context, wide: Instruction, mean: Instruction, rstd: Instruction, kept: Sizes
) -> Instruction:
    away = c.builder.binary("subtract", wide, spread(c, mean, kept, sizes(wide)))
    return _times(c, away, spread(c, rstd, kept, sizes(wide)))


def _affine(c: Context, x: Instruction, weight: Given, bias: Given, along: Sizes) -> Instruction:
    """``x * weight + bias``, which have the dimensions `along` of `x`."""
    kind = element(x)
    if weight is not None:
        x = _times(c, x, spread(c, c.convert(weight, kind), along, sizes(x)))
    if bias is not None:
        x = c.builder.binary("add", x, spread(c, c.convert(bias, kind), along, sizes(x)))
    return x


def _full_size(*arrays: Given) -> None:
    if any(one is not None and not one.shape.size for one in arrays):
        raise Refused("a normalisation without elements")


def _one_type(input: Instruction, *parameters: Given) -> None:
    """Refuses parameters of another type than `input`, as PyTorch does; those of f32 go with narrower floats."""
    allowed = {element(input)} | ({"f32"} if is_narrow(element(input)) else set())
    if any(one is not None and element(one) not in allowed for one in parameters):
        raise Refused("a normalisation of several types")


def _result(c: Context, number: int, value: Instruction) -> Instruction:
    """`value` in the type and dimensions of a result."""
    wanted = c.expected[number]
    assert wanted is not None
    own = c.convert(value, wanted[0])
    return own if sizes(own) == wanted[1] else c.builder.reshape(own, wanted[1])


# ---- layers


@lowering("aten.native_layer_norm.default")
def native_layer_norm(
    c: Context, input: Instruction, normalized_shape: Sizes, weight: Given, bias: Given, eps: float
) -> tuple[Instruction, ...]:
    _full_size(input)
    _one_type(input, weight, bias)
    rank = len(sizes(input))
    over = tuple(range(rank - len(normalized_shape), rank))
    kept = tuple(range(rank - len(normalized_shape)))
    wide = c.computed(input)
    mean, variance = _moments(c, wide, over)
    rstd = _inverse(c, variance, eps)
    made = _affine(c, _normal(c, wide, mean, rstd, kept), weight, bias, over)
    return _result(c, 0, made), _result(c, 1, mean), _result(c, 2, rstd)


@lowering("aten.native_layer_norm_backward.default")
def native_layer_norm_backward(
    c: Context, grad_out: Instruction, input: Instruction, normalized_shape: Sizes, mean: Instruction,
    rstd: Instruction, weight: Given, bias: Given, output_mask: Sequence[bool],
) -> tuple[Given, ...]:  # fmt: skip
    _full_size(input)
    rank = len(sizes(input))
    split = rank - len(normalized_shape)
    over, kept = tuple(range(split, rank)), tuple(range(split))
    grad, wide = c.computed(grad_out), c.computed(input)
    mean, rstd = (c.convert(squeeze(c, one, over), element(wide)) for one in (mean, rstd))
    normal = _normal(c, wide, mean, rstd, kept)
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        inner = _affine(c, grad, weight, None, over)
        by_input = _result(c, 0, _by_normal(c, inner, normal, rstd, over, kept))
    if output_mask[1] and weight is not None:
        by_weight = _result(c, 1, c.reduce(_times(c, grad, normal), kept, "add", 0))
    if output_mask[2] and bias is not None:
        by_bias = _result(c, 2, c.reduce(grad, kept, "add", 0))
    return by_input, by_weight, by_bias


def _by_normal(
    c: Context, inner: Instruction, normal: Instruction, rstd: Instruction, over: Sizes, kept: Sizes
) -> Instruction:
    """The gradient by x of ``(x - mean) * rstd``, whose mean and variance are over `over`."""
    b = c.builder
    drift = spread(c, _mean(c, inner, over), kept, sizes(inner))
    pull = spread(c, _mean(c, _times(c, inner, normal), over), kept, sizes(inner))
    left = b.binary("subtract", b.binary("subtract", inner, drift), _times(c, normal, pull))
    return _times(c, left, spread(c, rstd, kept, sizes(inner)))


# ---- groups


@lowering("aten.native_group_norm.default")
def native_group_norm(
    c: Context, input: Instruction, weight: Given, bias: Given, N: int, C: int, HxW: int, group: int, eps: float  # noqa: N803
) -> tuple[Instruction, ...]:
    _full_size(input)
    _one_type(input, weight, bias)
    wide = c.builder.reshape(c.computed(input), (N, group, C // group, HxW))
    mean, variance = _moments(c, wide, (2, 3))
    rstd = _inverse(c, variance, eps)
    normal = c.builder.reshape(_normal(c, wide, mean, rstd, (0, 1)), (N, C, HxW))
    made = _affine(c, normal, weight, bias, (1,))
    return _result(c, 0, made), _result(c, 1, mean), _result(c, 2, rstd)


@lowering("aten.native_group_norm_backward.default")
def native_group_norm_backward(
    c: Context, grad_out: Instruction, input: Instruction, mean: Instruction, rstd: Instruction, weight: Given,
    N: int, C: int, HxW: int, group: int, output_mask: Sequence[bool],  # noqa: N803
) -> tuple[Given, ...]:  # fmt: skip
    _full_size(input)
    b, split, whole = c.builder, (N, group, C // group, HxW), (N, C, HxW)
    grad, wide = (b.reshape(c.computed(one), whole) for one in (grad_out, input))
    mean, rstd = (c.convert(one, element(wide)) for one in (mean, rstd))
    normal = _normal(c, b.reshape(wide, split), mean, rstd, (0, 1))
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        inner = b.reshape(_affine(c, grad, weight, None, (1,)), split)
        by_input = _result(c, 0, _by_normal(c, inner, normal, rstd, (2, 3), (0, 1)))
    if output_mask[1]:
        by_weight = _result(c, 1, c.reduce(_times(c, grad, b.reshape(normal, whole)), (0, 2), "add", 0))
    if output_mask[2]:
        by_bias = _result(c, 2, c.reduce(grad, (0, 2), "add", 0))
    return by_input, by_weight, by_bias


# ---- batches


def _others(a: Instruction) -> tuple[int, ...]:
    """All dimensions but that of the channels."""
    return tuple(d for d in range(len(sizes(a))) if d != 1)


def _with(
    c: Context, input: Instruction, weight: Given, bias: Given, mean: Instruction, rstd: Instruction
) -> Instruction:
    """The normalised batch."""
    return _result(c, 0, _affine(c, _normal(c, c.computed(input), mean, rstd, (1,)), weight, bias, (1,)))


def _moved(c: Context, running: Instruction, now: Instruction, momentum: float) -> Instruction:
    """A running statistic after one more batch."""
    old = c.convert(running, element(now))
    fresh = _times(c, c.like(momentum, now), now)
    found = c.builder.binary("add", fresh, _times(c, c.like(1 - momentum, old), old))
    return c.convert(found, element(running))


def _trained(
    c: Context, input: Instruction, weight: Given, bias: Given, eps: float
) -> tuple[Instruction, Instruction, Instruction, Instruction]:
    """The batch normalised by itself; its mean, one over its deviation, and its variance."""
    _full_size(input)
    mean, variance = _moments(c, c.computed(input), _others(input))
    rstd = _inverse(c, variance, eps)
    return _with(c, input, weight, bias, mean, rstd), mean, rstd, variance


def _fixed(
    c: Context, input: Instruction, weight: Given, bias: Given, running_mean: Instruction, running_var: Instruction,
    eps: float,
) -> Instruction:  # fmt: skip
    _full_size(input)
    kind = element(c.computed(input))
    rstd = _inverse(c, c.convert(running_var, kind), eps)
    return _with(c, input, weight, bias, c.convert(running_mean, kind), rstd)


@lowering("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    c: Context, input: Instruction, weight: Given, bias: Given, running_mean: Instruction, running_var: Instruction,
    training: bool, momentum: float, eps: float,
) -> tuple[Instruction, ...]:  # fmt: skip
    if not training:
        made = _fixed(c, input, weight, bias, running_mean, running_var, eps)
        return made, *_nothing(c), _result(c, 3, running_mean), _result(c, 4, running_var)
    made, mean, rstd, variance = _trained(c, input, weight, bias, eps)
    n = count_along(input, _others(input))
    unbiased = _times(c, variance, c.like(n / (n - 1) if n > 1 else float("nan"), variance))
    after = _moved(c, running_mean, mean, momentum), _moved(c, running_var, unbiased, momentum)
    # Means of half floats are f32 to PyTorch before they are written back.
    return made, *(_result(c, n, one) for n, one in enumerate((mean, rstd, *after), 1))


def _nothing(c: Context) -> list[Instruction]:
    """Statistics that evaluation does not have."""
    found = []
    for wanted in c.expected[1:3]:
        assert wanted is not None
        if wanted[1] != (0,):
            raise Refused("statistics of a batch that is not normalised by them")
        found.append(c.full(0, *wanted))
    return found


@lowering("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    c: Context, input: Instruction, weight: Given, bias: Given, training: bool, momentum: float, eps: float
) -> tuple[Instruction, ...]:
    made, mean, rstd, _ = _trained(c, input, weight, bias, eps)
    return made, _result(c, 1, mean), _result(c, 2, rstd)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    c: Context, input: Instruction, weight: Given, bias: Given, running_mean: Instruction, running_var: Instruction,
    momentum: float, eps: float,
) -> tuple[Instruction, ...]:  # fmt: skip
    return _fixed(c, input, weight, bias, running_mean, running_var, eps), *_nothing(c)


@lowering("aten.native_batch_norm_backward.default")
def native_batch_norm_backward(
    c: Context, grad_out: Instruction, input: Instruction, weight: Given, running_mean: Given, running_var: Given,
    save_mean: Given, save_invstd: Given, train: bool, eps: float, output_mask: Sequence[bool],
) -> tuple[Given, ...]:  # fmt: skip
    _full_size(input)
    grad, wide = c.computed(grad_out), c.computed(input)
    kind, over = element(wide), _others(input)
    if train:
        if save_mean is None or save_invstd is None:
            raise Refused("the gradient of a batch's normalisation without its statistics")
        mean, rstd = c.convert(save_mean, kind), c.convert(save_invstd, kind)
    else:
        if running_mean is None or running_var is None:
            raise Refused("the gradient of a normalisation without its statistics")
        mean, rstd = c.convert(running_mean, kind), _inverse(c, c.convert(running_var, kind), eps)
    normal = _normal(c, wide, mean, rstd, (1,))
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        inner = _affine(c, grad, weight, None, (1,))
        if train:
            by_input = _by_normal(c, inner, normal, rstd, over, (1,))
        else:
            by_input = _times(c, inner, spread(c, rstd, (1,), sizes(inner)))
        by_input = _result(c, 0, by_input)
    if output_mask[1]:
        by_weight = _result(c, 1, c.reduce(_times(c, grad, normal), over, "add", 0))
    if output_mask[2]:
        by_bias = _result(c, 2, c.reduce(grad, over, "add", 0))
    return by_input, by_weight, by_bias
