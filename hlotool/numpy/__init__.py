"""An array namespace that is traced to HLO: NumPy's functions, compiled.

Arrays and Python functions enter; modules, and the arrays that their executables give, leave.
"""

from hlotool.numpy.array import Array
from hlotool.numpy.creation import asarray
from hlotool.numpy.elementwise import add, multiply, sin

__all__ = ["Array", "add", "asarray", "multiply", "sin"]
