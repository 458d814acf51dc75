"""The compiler driver puts the rooms together: `optimise` makes modules of modules, `compile_module` executables.

In: a module and what is asked for.  Out: an optimised module, an executable, or the code of one.  May import all rooms
down to runtime.
"""

from hlotool.driver.backend import Backend, Capabilities, by_table
from hlotool.driver.backends import backend_names, find_backend
from hlotool.driver.compile import compile_module, keep_loops, on_devices
from hlotool.driver.cpu import LOWERING, native_backend
from hlotool.driver.failures import CompilerWarning, is_strict
from hlotool.driver.optimise import optimise
from hlotool.driver.options import CompileOptions
from hlotool.runtime.functions import executable_of

__all__ = [
    "LOWERING",
    "Backend",
    "Capabilities",
    "CompileOptions",
    "CompilerWarning",
    "backend_names",
    "by_table",
    "compile_module",
    "executable_of",
    "find_backend",
    "is_strict",
    "keep_loops",
    "native_backend",
    "on_devices",
    "optimise",
]
