"""An array namespace that is traced to HLO: NumPy's functions, compiled.

Arrays and Python functions enter; modules, and the arrays that their executables give, leave.
"""

from hlotool.numpy import creation, elementwise, manipulation, statistical, types
from hlotool.numpy.array import Array
from hlotool.numpy.creation import *  # noqa: F403
from hlotool.numpy.elementwise import *  # noqa: F403
from hlotool.numpy.manipulation import *  # noqa: F403
from hlotool.numpy.manipulation import _transposed as _transposed
from hlotool.numpy.statistical import *  # noqa: F403
from hlotool.numpy.types import *  # noqa: F403

ndarray = Array

__all__ = [
    "Array", "ndarray", *creation.__all__, *elementwise.__all__, *manipulation.__all__, *statistical.__all__,
    *types.__all__,
]  # fmt: skip
