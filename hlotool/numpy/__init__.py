"""An array namespace that is traced to HLO: NumPy's functions, compiled.

Arrays and Python functions enter; modules, and the arrays that their executables give, leave.
"""

from hlotool.numpy import creation, elementwise
from hlotool.numpy.array import Array
from hlotool.numpy.creation import *  # noqa: F403
from hlotool.numpy.elementwise import *  # noqa: F403

int8 = __import__("numpy").int8
__all__ = ["Array", *creation.__all__, *elementwise.__all__]
