"""Lowerings of ONNX's operators, a file for each family; importing this package fills the table.

Inputs and attributes of nodes enter, traced arrays leave (`hlotool.onnx.lowering`).
"""

from hlotool.onnx.ops import (
    activations,
    casting,
    control,
    convolutions,
    elementwise,
    indexing,
    linear,
    normalisation,
    optimisers,
    ordering,
    pooling,
    products,
    quantising,
    randomness,
    recurrent,
    reductions,
    resampling,
    shapes,
    signals,
    trees,
    words,
)

__all__ = [
    "activations", "casting", "control", "convolutions", "elementwise", "indexing", "linear", "normalisation",
    "optimisers", "ordering", "pooling", "products", "quantising", "randomness", "recurrent", "reductions",
    "resampling", "shapes", "signals", "trees", "words",
]  # fmt: skip
