"""The suites by their names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from hlotool.suites.case import FULL, Case, Scale

__all__ = ["SUITES", "suite_cases"]

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


def suite_cases(name: str, scale: Scale = FULL) -> list[Case]:
    """The cases of a suite."""
    cases: Callable[[Scale], list[Case]] = import_module(f"hlotool.suites.{name.replace('-', '_')}").cases
    return cases(scale)
