"""An array namespace that is traced to HLO: NumPy's functions, compiled.

Arrays and Python functions enter; modules, and the arrays that their executables give, leave.
"""

from typing import TYPE_CHECKING

import numpy as _numpy

from hlotool.numpy import (
    contractions,
    creation,
    elementwise,
    extensions,
    in_place,
    indexing,
    lent,
    manipulation,
    sets,
    sorting,
    statistical,
    types,
)
from hlotool.numpy import fft as fft
from hlotool.numpy import linalg as linalg
from hlotool.numpy import random as random
from hlotool.numpy.array import Array
from hlotool.numpy.contractions import *  # noqa: F403
from hlotool.numpy.creation import *  # noqa: F403
from hlotool.numpy.elementwise import *  # noqa: F403
from hlotool.numpy.extensions import *  # noqa: F403
from hlotool.numpy.in_place import *  # noqa: F403
from hlotool.numpy.indexing import *  # noqa: F403
from hlotool.numpy.indexing import _At as _At
from hlotool.numpy.indexing import _flattened as _flattened
from hlotool.numpy.indexing import _getitem as _getitem
from hlotool.numpy.indexing import _own_memory as _own_memory
from hlotool.numpy.indexing import _setitem as _setitem
from hlotool.numpy.lent import *  # noqa: F403
from hlotool.numpy.manipulation import *  # noqa: F403
from hlotool.numpy.manipulation import _transposed as _transposed
from hlotool.numpy.protocols import _array_function as _array_function
from hlotool.numpy.protocols import _array_ufunc as _array_ufunc
from hlotool.numpy.protocols import with_methods as _with_methods
from hlotool.numpy.sets import *  # noqa: F403
from hlotool.numpy.sorting import *  # noqa: F403
from hlotool.numpy.statistical import *  # noqa: F403
from hlotool.numpy.types import *  # noqa: F403
from hlotool.numpy.views import _Flat as _Flat
from hlotool.numpy.views import _viewed as _viewed

ndarray = Array

__all__ = ["Array", "fft", "linalg", "ndarray", "random"]
for _part in (
    contractions, creation, elementwise, extensions, in_place, indexing, lent, manipulation, sets, sorting, statistical,
    types,
):  # fmt: skip
    __all__ += [name for name in _part.__all__ if name[:1] != "_" or name[:2] == "__"]

for _name in elementwise.__all__:
    _ufunc = getattr(_numpy, _name, None)
    if isinstance(_ufunc, _numpy.ufunc) and (_ufunc.nin, _ufunc.nout) == (2, 1):
        _with_methods(globals()[_name], _ufunc)

if not TYPE_CHECKING:  # which is to say what is not there
    __getattr__ = lent._lent
