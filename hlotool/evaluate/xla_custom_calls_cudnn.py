"""Convolutions by cuDNN as HLO convolutions.

Window and dimension labels of all kinds are those of the forward convolution
``y[b, o, f] = sum over k and i of x[b, o * stride + k * dilation - padding, i] * w[k, i, f]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hlotool.evaluate.xla_custom_calls_math import activation, broadcast_along, computing_type, scaled
from hlotool.ir import (
    ELEMENT_TYPES,
    ConvDimensionNumbers,
    Instruction,
    Shape,
    UnsupportedError,
    Window,
    WindowDimension,
)
from hlotool.ir.builder import Builder

__all__ = ["CONVOLUTIONS"]

Operands = Sequence[Instruction]
Config = Mapping[str, Any]


def _result(call: Instruction) -> Shape:
    return call.shape.elements[0] if call.shape.is_tuple else call.shape


def _window(call: Instruction) -> tuple[WindowDimension, ...]:
    window: Window = call.attributes.get("window") or Window()
    if any(d.base_dilation != 1 for d in window.dimensions):
        raise UnsupportedError("a dilated base")
    return window.dimensions


def _convolve(
    build: Builder,
    operands: Operands,
    window: Sequence[WindowDimension],
    labels: ConvDimensionNumbers,
    result: str,
    features: int = 1,
    batches: int = 1,
) -> Instruction:
    """A convolution that sums in the type in which a library computes `result`; integers in s32."""
    whole = ELEMENT_TYPES[operands[0].shape.element_type].is_integer
    kind = "s32" if whole else computing_type(result)
    x, w = (build.convert(o, kind) if whole else o for o in operands)
    attributes = {
        "window": Window(tuple(window)),
        "dim_labels": replace(labels, text=None),
        "feature_group_count": features,
        "batch_group_count": batches,
    }
    bare = build.add("convolution", None, (x, w), attributes)
    if bare.shape.element_type != kind:
        bare.shape = bare.shape.with_type(kind)
    return bare


def _finish(build: Builder, value: Instruction, call: Instruction, config: Config) -> Operands:
    result = _result(call).element_type
    value = build.convert(value, computing_type(result)) if value.shape.element_type != result else value
    value = scaled(build, value, float(config.get("conv_result_scale", 1)))
    return [_narrow(build, value, result)]


def _narrow(build: Builder, value: Instruction, result: str) -> Instruction:
    """Integers of few bits saturate."""
    if value.shape.element_type == result:
        return value
    row = ELEMENT_TYPES[result]
    if row.is_integer and row.bits <= 8:
        value = build.unary("round-nearest-even", value) if value.shape.element_type[0] == "f" else value
        low, high = (
            (-(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1) if row.kind == "signed" else (0, (1 << row.bits) - 1)
        )
        value = build.clamp(build.splat(low, value.shape), value, build.splat(high, value.shape))
    return build.convert(value, result)


def _settings(config: Config) -> Config:
    found: Config = config.get("cudnn_conv_backend_config", config)
    if found.get("reordered_int8_nchw_vect"):
        raise UnsupportedError("a filter in cuDNN's reordered form")
    return found


def _forward(build: Builder, call: Instruction, operands: Operands, config: Config) -> Operands:
    groups = call.attributes.get("feature_group_count", 1)
    labels = call.attributes["dim_labels"]
    value = _convolve(build, operands[:2], _window(call), labels, _result(call).element_type, groups)
    return _finish(build, value, call, _settings(config))


def _bias_activation(build: Builder, call: Instruction, operands: Operands, config: Config) -> Operands:
    """``activation(conv_result_scale * conv + side_input_scale * side + bias)``."""
    settings = _settings(config)
    if "activation_mode" not in settings:
        raise UnsupportedError("its config does not name an activation")
    groups, labels = call.attributes.get("feature_group_count", 1), call.attributes["dim_labels"]
    result = _result(call).element_type
    x, w, bias, *side = operands
    value = _convolve(build, (x, w), _window(call), labels, result, groups)
    kind = bias.shape.element_type if ELEMENT_TYPES[result].is_integer else computing_type(result)
    value = build.convert(value, kind) if value.shape.element_type != kind else value
    value = scaled(build, value, float(settings.get("conv_result_scale", 1)))
    factor = float(settings.get("side_input_scale", 0))
    if factor:
        value = build.binary("add", value, scaled(build, build.convert(side[0], kind), factor))
    value = build.binary(
        "add", value, broadcast_along(build, build.convert(bias, kind), value.shape, labels.output_feature)
    )
    name = str(settings["activation_mode"]).removeprefix("k").upper()
    value = activation(build, value, name, float(settings.get("leakyrelu_alpha", 0)))
    return [_narrow(build, value, result)]


def _backward_input(build: Builder, call: Instruction, operands: Operands, config: Config) -> Operands:
    """dx of dy and the filter: each dy spreads over the window that it came from."""
    gradient, kernel = operands[:2]
    labels, groups, result = call.attributes["dim_labels"], call.attributes.get("feature_group_count", 1), _result(call)
    window = []
    places = zip(_window(call), labels.input_spatial, labels.output_spatial, strict=True)
    for d, place, out in places:
        reach = (d.size - 1) * d.window_dilation
        low = reach - d.padding_low
        spread = (gradient.shape.dimensions[out] - 1) * d.stride + 1
        high = result.dimensions[place] - spread - low + reach
        window.append(WindowDimension(d.size, 1, low, high, d.stride, d.window_dilation, not d.reversal))
    backward = ConvDimensionNumbers(
        labels.output_batch, labels.output_feature, labels.output_spatial,
        labels.kernel_output_feature, labels.kernel_input_feature, labels.kernel_spatial,
        labels.input_batch, labels.input_feature, labels.input_spatial,
    )  # fmt: skip
    if groups > 1:
        kernel = _regroup(build, kernel, labels.kernel_output_feature, labels.kernel_input_feature, groups)
    value = _convolve(build, (gradient, kernel), window, backward, result.element_type, groups)
    return _finish(build, value, call, _settings(config))


def _regroup(build: Builder, kernel: Instruction, source: int, target: int, groups: int) -> Instruction:
    """Move the groups from the dimension `source`, where they are outermost, to the dimension `target`."""
    sizes = kernel.shape.dimensions
    split = build.reshape(kernel, [*sizes[:source], groups, sizes[source] // groups, *sizes[source + 1 :]])
    moved = target + (target > source)
    order = [d for d in range(len(sizes) + 1) if d != source]
    order.insert(order.index(moved), source)
    new = [size // groups if d == source else size * groups if d == target else size for d, size in enumerate(sizes)]
    return build.reshape(build.transpose(split, order), new)


def _backward_filter(build: Builder, call: Instruction, operands: Operands, config: Config) -> Operands:
    """dw of x and dy: a convolution over the batch, in which dy is the window."""
    x, gradient = operands[:2]
    labels, groups, result = call.attributes["dim_labels"], call.attributes.get("feature_group_count", 1), _result(call)
    window = []
    places = zip(_window(call), labels.input_spatial, labels.output_spatial, strict=True)
    for d, place, out in places:
        size = gradient.shape.dimensions[out]
        reach = (d.size - 1) * d.window_dilation + (size - 1) * d.stride + 1
        high = reach - x.shape.dimensions[place] - d.padding_low
        window.append(WindowDimension(size, d.window_dilation, d.padding_low, high, 1, d.stride))
    backward = ConvDimensionNumbers(
        labels.input_feature, labels.input_batch, labels.input_spatial,
        labels.output_batch, labels.output_feature, labels.output_spatial,
        labels.kernel_input_feature, labels.kernel_output_feature, labels.kernel_spatial,
    )  # fmt: skip
    value = _convolve(build, (x, gradient), window, backward, result.element_type, batches=groups)
    reversed_ = [place for d, place in zip(_window(call), labels.kernel_spatial, strict=True) if d.reversal]
    if reversed_:
        value = build.reverse(value, reversed_)
    return _finish(build, value, call, _settings(config))


CONVOLUTIONS: dict[str, Callable[[Builder, Instruction, Operands, Config], Operands]] = {
    "__cudnn$convForward": _forward,
    "__cudnn$convBiasActivationForward": _bias_activation,
    "__cudnn$convBackwardInput": _backward_input,
    "__cudnn$convBackwardFilter": _backward_filter,
}
"""Target -> what builds its results."""
