"""Numbers times powers of two (``ldexp``)."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]


def _ldexp(self: Any, other: Any) -> Any:
    """Beside floats and complex numbers 2 is a tensor of their type; beside integers `other` says the type."""
    has_fractions = self.is_floating_point() or self.is_complex()
    return self * torch.pow(self.new_full((), 2.0) if has_fractions else 2.0, other)


DECOMPOSITIONS = {torch.ops.aten.ldexp.Tensor: _ldexp}
