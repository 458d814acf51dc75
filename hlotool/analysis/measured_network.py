"""A network of which it was measured what collectives take: tables of times by sizes, for some numbers of devices.

Formulas (`analysis.collective_formulas`) say what a message costs at best.  What a library does with its time besides,
and what it takes where devices share cores and caches, is measured instead.  Between two measured sizes a time lies on
the straight line; below the first one it is that one's, and beyond the last one bytes are as quick as those between the
last two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from hlotool.analysis.collective_formulas import Predicted
from hlotool.ir.errors import UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["MeasuredNetwork", "Times"]


@dataclass(frozen=True, slots=True)
class Times:
    """What a collective takes among so many devices: `points` are (bytes of the whole array, seconds) by rising bytes.

    A collective of several arrays takes `apart` of the time that they take one after the other, and the rest of the
    time that one array with all their bytes takes.
    """

    points: tuple[tuple[float, float], ...]
    apart: float = 0.0

    def seconds(self, size: float) -> float:
        """The time for an array of `size` bytes."""
        points = self.points
        if size <= points[0][0] or len(points) == 1:
            return points[0][1]
        at = min(bisect_right(points, size, key=lambda point: point[0]), len(points) - 1)
        (small, quick), (large, slow) = points[at - 1 : at + 1]
        return max(quick + (slow - quick) * (size - small) / (large - small), 0.0)

    def together(self, sizes: Sequence[float]) -> float:
        """The time for arrays of these sizes in one collective."""
        at_once = self.seconds(sum(sizes))
        if len(sizes) < 2:
            return at_once
        return self.apart * sum(map(self.seconds, sizes)) + (1 - self.apart) * at_once


@dataclass(frozen=True, slots=True)
class MeasuredNetwork:
    """The `times` of collectives, by opcode and number of devices; `text` is what the network is called."""

    text: str
    times: Mapping[tuple[str, int], Times]

    def time(self, opcode: str, members: int, sizes: Sequence[float]) -> Predicted:
        """What a collective of arrays of these sizes takes; UnsupportedError where that was not measured."""
        if members < 2:
            return Predicted("none", 0, 0.0, 0.0)
        found = self.times.get((opcode, members))
        if found is None:
            raise UnsupportedError(f"{opcode} among {members} devices was not measured on {self.text}")
        return Predicted("measured", 1, float(sum(sizes)), found.together(sizes))
