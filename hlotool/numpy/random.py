"""Random numbers by key: ``hlotool.numpy.random``."""

from typing import TYPE_CHECKING

from hlotool.numpy import distributions, drawing
from hlotool.numpy.distributions import *  # noqa: F403
from hlotool.numpy.drawing import *  # noqa: F403
from hlotool.numpy.lent import _drawn

__all__ = [*drawing.__all__, *distributions.__all__]

if not TYPE_CHECKING:  # which is to say what is not there
    __getattr__ = _drawn
