"""What a module costs, as a few numbers: to compare it before and after a pass."""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.ir import Module

__all__ = ["measure"]


def measure(module: Module) -> Mapping[str, int]:
    """Instructions, operations, bytes moved and bytes alive at most."""
    cost = ModuleCost(module).total
    return {
        "instructions": module.instruction_count(),
        "flops": cost.flops + cost.transcendentals,
        "bytes": cost.bytes,
        "peak_bytes": peak_bytes(module),
    }
