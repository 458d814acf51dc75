"""Random numbers by key: ``hlotool.numpy.random``."""

from hlotool.numpy import distributions, drawing
from hlotool.numpy.distributions import *  # noqa: F403
from hlotool.numpy.drawing import *  # noqa: F403

__all__ = [*drawing.__all__, *distributions.__all__]
