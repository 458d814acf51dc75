"""The names of suites and of peers."""

from __future__ import annotations

__all__ = ["PEERS", "SUITES"]

SUITES: dict[str, str] = {
    "deepbench": "products, convolutions, recurrent layers and all-reduces of Baidu's DeepBench",
    "hpc": "stencils, Fourier transforms, sparse and dense products, n-body",
    "llm": "layers of language models, prefill and decoding, in f32, bf16 and with int8 weights",
    "mlp": "dense networks of 10 to 1000 features, training and inference",
    "mlperf-shapes": "layers of MLPerf's reference models",
    "vision": "blocks of networks for images, and ResNet-50",
    "xla-small": "small and awkward programs: dispatch, loops, sorts, scatters, running sums",
}
"""Name -> what it has; the cases are in the file of that name."""

PEERS: dict[str, str] = {
    "xla": "XLA's CPU backend, with jax",
    "numpy": "NumPy with its BLAS",
    "numba": "numba's compiled loops",
    "torch": "PyTorch, eagerly",
    "inductor": "PyTorch by torch.compile",
    "onnxruntime": "ONNX Runtime",
    "iree": "IREE, which takes StableHLO that XLA's Python makes",
}
"""Name -> what it is; each has a process of its own."""
