"""The functions that others are written with, in one place."""

from hlotool.numpy.contractions import *  # noqa: F403
from hlotool.numpy.creation import *  # noqa: F403
from hlotool.numpy.elementwise import *  # noqa: F403
from hlotool.numpy.indexing import *  # noqa: F403
from hlotool.numpy.manipulation import *  # noqa: F403
from hlotool.numpy.sorting import *  # noqa: F403
from hlotool.numpy.statistical import *  # noqa: F403
