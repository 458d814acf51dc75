"""Lowerings of ATen operations, a file for each family; importing this package fills the table.

Arguments by the names of ATen's schemas enter, instructions of HLO leave (`hlotool.torch.lowering`).
"""

from hlotool.torch.ops import (
    activations,
    algebra,
    attention,
    binary,
    control,
    conversions,
    convolutions,
    creation,
    factorisations,
    fourier,
    grouped,
    indexing,
    joining,
    normalisation,
    ordering,
    orthogonal,
    padding,
    pooling,
    products,
    recurrent,
    reductions,
    resampling,
    softmax,
    special,
    unary,
    views,
)

__all__ = [
    "activations", "algebra", "attention", "binary", "control", "conversions", "convolutions", "creation",
    "factorisations", "fourier", "grouped", "indexing", "joining", "normalisation", "ordering", "orthogonal", "padding",
    "pooling", "products", "recurrent", "reductions", "resampling", "softmax", "special", "unary", "views",
]  # fmt: skip
