"""What the namespace has beyond the standard."""

from hlotool.numpy import (
    calculus,
    comparing,
    histograms,
    padding,
    places,
    polynomials,
    quantiles,
    selecting,
    summation,
)
from hlotool.numpy.calculus import *  # noqa: F403
from hlotool.numpy.comparing import *  # noqa: F403
from hlotool.numpy.histograms import *  # noqa: F403
from hlotool.numpy.padding import *  # noqa: F403
from hlotool.numpy.places import *  # noqa: F403
from hlotool.numpy.polynomials import *  # noqa: F403
from hlotool.numpy.quantiles import *  # noqa: F403
from hlotool.numpy.selecting import *  # noqa: F403
from hlotool.numpy.summation import *  # noqa: F403

__all__ = [
    *calculus.__all__, *comparing.__all__, *histograms.__all__, *padding.__all__, *places.__all__,
    *polynomials.__all__, *quantiles.__all__, *selecting.__all__, *summation.__all__,
]  # fmt: skip
