"""Lowerings of ATen operations, a file for each family; importing this package fills the table.

Arguments by the names of ATen's schemas enter, instructions of HLO leave (`hlotool.torch.lowering`).
"""

from hlotool.torch.ops import convolutions, elementwise, indexing, normalisation, pooling, products, reductions, softmax, views

__all__ = ["convolutions", "elementwise", "indexing", "normalisation", "pooling", "products", "reductions", "softmax", "views"]
