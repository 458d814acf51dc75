"""Calibration: a module runs on given inputs, with what its products read as further results, and is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hlotool.analysis.contraction import dot_dimensions
from hlotool.driver import compile_module
from hlotool.harness.native_values import with_results
from hlotool.harness.quantise.candidates import Candidate, summed_axis
from hlotool.harness.quantise.histogram import Histogram
from hlotool.harness.quantise.options import Options, Sample
from hlotool.harness.quantise.ranges import activation_quantiser, weight_quantiser
from hlotool.ir import InputError, Instruction, Module
from hlotool.passes.quantise.placement import Recipe
from hlotool.passes.quantise.products import Channels, free_axes
from hlotool.passes.quantise.quantiser import Quantiser

__all__ = ["observe", "recipes_of"]

_MOST_BYTES = 1 << 30
"""What one program gives at most of values that are watched; those of more take another run over the inputs."""


def observe(
    module: Module, found: Sequence[Candidate], samples: Sequence[Sample], tell: Callable[[str], None]
) -> dict[Instruction, Histogram]:
    """What the operands that are no constants look like, over all samples.

    Values are watched together, in one run for each sample, unless they take too much memory.
    """
    kept = _kept_axes(found)
    seen = {value: Histogram(value.name) for value in kept}
    for chunk in _chunks(list(kept)):
        variant, _ = with_results(module, chunk)
        program = compile_module(variant)
        for number, sample in enumerate(samples, 1):
            tell(f"calibrating: {number} of {len(samples)} inputs")
            for value, array in zip(chunk, program(*sample.arrays)[-len(chunk) :], strict=True):
                seen[value].add(np.asarray(array), kept[value])
    return seen


def _kept_axes(found: Sequence[Candidate]) -> dict[Instruction, tuple[int, ...]]:
    """The values to watch, each with the dimensions of it for whose places means are wanted."""
    kept: dict[Instruction, tuple[int, ...]] = {}
    for candidate in found:
        product, weights = candidate.product, candidate.weights
        for number, operand in enumerate(product.operands):
            if operand.opcode != "constant":
                axes = _summed(product, number) if weights is not None else ()
                kept[operand] = axes if not kept.get(operand) else kept[operand]
    return kept


def _summed(product: Instruction, number: int) -> tuple[int, ...]:
    """The dimensions of an operand along which elements have weights of their own: those summed over, but no window."""
    if product.opcode == "convolution":
        return (product.attributes["dim_labels"].input_feature,)
    d = dot_dimensions(product)
    return tuple(sorted(d.rhs_contracting if number else d.lhs_contracting)) if not d.lhs_batch else ()


def _chunks(values: list[Instruction]) -> Iterator[list[Instruction]]:
    chunk: list[Instruction] = []
    total = 0
    for value in values:
        if chunk and total + value.shape.byte_size > _MOST_BYTES:
            yield chunk
            chunk, total = [], 0
        chunk.append(value)
        total += value.shape.byte_size
    if chunk:
        yield chunk


def recipes_of(
    found: Sequence[Candidate], seen: Mapping[Instruction, Histogram], options: Options
) -> dict[str, Recipe]:
    """How each candidate is quantised, by the name of its product.  InputError where weights are not finite."""
    target = options.target
    stored: dict[tuple[Instruction, bool], Quantiser] = {}
    recipes = {}
    for candidate in found:
        product, weights = candidate.product, candidate.weights
        operands: list[Quantiser | None] = []
        for number, operand in enumerate(product.operands):
            if target.is_cast:
                operands.append(Quantiser(type=target.weights, scale=np.ones((), np.float32)))
            elif operand.opcode == "constant":
                operands.append(_weights(product, number, options))
            elif target.values:
                signed = product.opcode == "convolution"
                if (operand, signed) not in stored:
                    stored[operand, signed] = activation_quantiser(
                        seen[operand], target.values, options.calibration, options.percentile,
                        symmetric=options.symmetric, signed=signed,
                    )  # fmt: skip
                operands.append(stored[operand, signed])
            else:
                operands.append(None)
        correction = None
        if weights is not None and options.correct and target.values and not target.is_cast:
            correction = _correction(product, weights, operands, seen)
        recipes[product.name] = Recipe(
            operands=(operands[0], operands[1]), correction=correction,
            weights=None if weights is None else weights.operand,
        )  # fmt: skip
    return recipes


def _weights(product: Instruction, number: int, options: Options) -> Quantiser:
    constant, channels = product.operands[number], free_axes(product, number)
    values = constant.literal.value()
    if not np.isfinite(values.astype(np.float32)).all():
        raise InputError(f"{constant.name}, weights of {product.name}, has values that are infinite or NaN")
    axis = summed_axis(product, channels)
    group = (axis, options.group) if options.group and axis is not None and not options.target.values else None
    axes = channels.axes if options.per_channel else ()
    return weight_quantiser(values, options.target.weights, axes, options.calibration, group)


def _correction(
    product: Instruction, weights: Channels, operands: Sequence[Quantiser | None],
    seen: Mapping[Instruction, Histogram],
) -> npt.NDArray[np.float32] | None:  # fmt: skip
    """What rounding the weights takes off each channel on average: the mean input times what rounding changed.

    After Nagel, van Baalen, Blankevoort and Welling, Data-free quantization (2019), section 4.2, with means that were
    measured.  None where means of another product were kept, or nothing changed.
    """
    other = 1 - weights.operand
    value, quantiser = product.operands[other], operands[weights.operand]
    means = seen[value].means if value in seen else None
    sizes = tuple(value.shape.dimensions[axis] for axis in _summed(product, other))
    if means is None or quantiser is None or means.shape != sizes or not sizes:
        return None
    exact = product.operands[weights.operand].literal.value().astype(np.float64)
    change = exact - quantiser.rounded(exact)
    if product.opcode == "convolution":
        labels = product.attributes["dim_labels"]
        groups = product.attributes.get("feature_group_count", 1)
        axes = (labels.kernel_input_feature, labels.kernel_output_feature)
        window = tuple(axis for axis in range(change.ndim) if axis not in axes)
        flat = change.sum(axis=window)
        if axes[0] > axes[1]:
            flat = flat.T
        inputs, outputs = flat.shape
        by_group = flat.reshape(inputs, groups, outputs // groups)
        shift = np.einsum("gi,igo->go", means.reshape(groups, inputs), by_group).reshape(outputs)
    else:
        d = dot_dimensions(product)
        pairs = list(zip(d.lhs_contracting, d.rhs_contracting, strict=True))
        own = [pair[weights.operand] for pair in sorted(pairs, key=lambda pair: pair[other])]
        shift = np.tensordot(means, change, (list(range(means.ndim)), own))
    found: npt.NDArray[np.float32] = np.ascontiguousarray(shift, np.float32)
    return found if found.any() else None
