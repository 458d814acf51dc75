"""What quantising can be told."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

from hlotool.lazy_dataclass import dataclass

__all__ = ["TARGETS", "Options", "Sample", "Target"]

Arrays: TypeAlias = list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What products are made of: the type of `weights` (or of both operands), and that of what the program computes,
    which stays what it is where there is none (`values`)."""

    weights: str
    values: str = ""
    meaning: str = ""

    @property
    def is_cast(self) -> bool:
        """A narrower float, which needs no scale."""
        return self.weights in ("bf16", "f16")


TARGETS = {
    "int8": Target(weights="s8", values="s8", meaning="products of 8-bit integers, added up in s32"),
    "fp8": Target(weights="f8e4m3fn", values="f8e4m3fn", meaning="products of f8e4m3fn, added up in f32"),
    "int8-weights": Target(weights="s8", meaning="weights of 8 bits, products in the type that they have"),
    "int4-weights": Target(weights="s4", meaning="weights of 4 bits, products in the type that they have"),
    "bf16": Target(weights="bf16", values="bf16", meaning="products of bf16, added up in f32"),
    "f16": Target(weights="f16", values="f16", meaning="products of f16, added up in f32"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`group` is how many weights along the sum of a product share a scale (0: all; of weights alone);
    `per_channel` gives each channel of weights its own.  `keep` is a regular expression."""

    to: str = "int8"
    per_channel: bool = True
    symmetric: bool = True
    calibration: str = "mse"
    percentile: float = 99.99
    group: int = 0
    keep: str = ""
    correct: bool = True
    max_error: float | None = None

    @property
    def target(self) -> Target:
        return TARGETS[self.to]


@dataclass(frozen=True, slots=True)
class Sample:
    """The arrays that a module takes, from one file; `labels` are what its first result should name, if known."""

    arrays: Arrays
    labels: npt.NDArray[Any] | None = None
