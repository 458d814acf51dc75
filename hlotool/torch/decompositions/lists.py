"""Operations on lists of tensors (``_foreach``), which optimisers are made of: one on each tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]

_aten = torch.ops.aten


def _least(limit: Callable[..., Any], of_numbers: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Maximum or minimum with a tensor or with a number."""
    return lambda a, other: limit(a, other) if isinstance(other, torch.Tensor) else of_numbers(a, other)


_SINGLE: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda a, x, y, value=1: torch.addcdiv(a, x, y, value=value),
    "addcmul": lambda a, x, y, value=1: torch.addcmul(a, x, y, value=value),
    "clamp_max": torch.clamp_max,
    "clamp_min": torch.clamp_min,
    "clone": torch.clone,
    "copy": lambda a, source, non_blocking=False: _aten.copy(a, source),
    "maximum": _least(torch.maximum, torch.clamp_min),
    "minimum": _least(torch.minimum, torch.clamp_max),
    "norm": lambda a, ord=2, dtype=None: torch.linalg.vector_norm(a, ord, dtype=dtype),
    "zero": torch.zeros_like,
} | {
    name: getattr(torch, name)
    for name in (
        "abs", "acos", "add", "asin", "atan", "ceil", "cos", "cosh", "div", "erf", "erfc", "exp", "expm1", "floor",
        "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "max", "mm", "mul", "neg", "pow", "reciprocal",
        "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
    )
}  # fmt: skip
"""What is done with each, by the name after ``_foreach_``."""


def _on_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of the tensors (and numbers) in each place of the lists."""

    def run(*arguments: Any, **options: Any) -> list[Any]:
        count = next(len(a) for a in arguments if isinstance(a, (list, tuple)))
        rows = [a if isinstance(a, (list, tuple)) else [a] * count for a in arguments]
        return [function(*row, **options) for row in zip(*rows, strict=True)]

    return run


def _table() -> dict[Any, Callable[..., Any]]:
    found = {}
    for name, function in _SINGLE.items():
        packet = getattr(_aten, f"_foreach_{name}", None)
        for overload in packet.overloads() if packet is not None else ():
            if "out" not in overload and not (name.startswith("addc") and overload == "Tensor"):  # never traced
                found[getattr(packet, overload)] = _on_each(function)
    return found


DECOMPOSITIONS = _table()
