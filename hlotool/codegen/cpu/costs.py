"""What work costs on a processor: the numbers that passes and kernels share."""

from hlotool.analysis.costs import Costs

__all__ = ["COSTS"]

COSTS = Costs()
