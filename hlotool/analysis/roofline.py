"""The roofline: how long work takes at least on a machine that computes and moves so much in a second.

After Williams, Waterman and Patterson (Roofline, CACM 2009): work of `intensity` operations per byte is bound by memory
left of where the slanted roof meets the flat one, and by arithmetic to the right of it.
"""

from __future__ import annotations

from hlotool.analysis.cost_rules import Cost
from hlotool.lazy_dataclass import dataclass

__all__ = ["Roof", "intensity", "operations"]


@dataclass(frozen=True, slots=True)
class Roof:
    """What a machine reaches: operations per second, and pairs of the bytes that are touched and the bytes that are
    then moved per second, small arrays first, as caches hold those."""

    flops: float
    rates: tuple[tuple[int, float], ...]

    def bytes(self, touched: int) -> float:
        """Bytes per second for work that touches so many: the rate of the next larger arrays."""
        return next((rate for size, rate in self.rates if size >= touched), self.rates[-1][1])

    def seconds(self, cost: Cost, touched: int) -> float:
        """The least time for work that touches so many bytes: that of its operations or of its bytes."""
        return max(operations(cost) / self.flops, cost.bytes / self.bytes(touched))

    def bound(self, cost: Cost, touched: int) -> str:
        """What takes that time: ``memory`` or ``compute``; nothing where there is no work."""
        computing, moving = operations(cost) / self.flops, cost.bytes / self.bytes(touched)
        return "" if not computing and not moving else "compute" if computing > moving else "memory"


def operations(cost: Cost) -> int:
    """Flops and transcendentals: each of these is one operation at least."""
    return cost.flops + cost.transcendentals


def intensity(cost: Cost) -> float | None:
    """Operations per byte moved; None where none is moved."""
    return operations(cost) / cost.bytes if cost.bytes else None
