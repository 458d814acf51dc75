"""The dialect mhlo without the classes of its operations, which JAX does not use.

JAX registers the dialect before it lowers its first program, because attributes have its name.  It finds the function
that does so in a module which defines a class for each of 277 operations, and that takes longer than to lower a small
program.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["leave_out_operations", "register_dialect"]

_MODULE = "jaxlib.mlir.dialects.mhlo"


class _WithoutOperations(ModuleType):
    """What JAX takes for the module; it is loaded for those who ask for anything else of it."""

    def __init__(self, register: object) -> None:
        super().__init__(_MODULE)
        self.register_mhlo_dialect = register

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(_MODULE), name)


def register_dialect(context: Any) -> None:
    """Make the dialect known in an MLIR context."""
    _native().register_mhlo_dialect(context)


def leave_out_operations() -> None:
    """Have JAX register the dialect without them, where it finds the module as it is known to."""
    from jax._src.lib.mlir import dialects

    if "mhlo" in getattr(dialects, "__all__", ()) and "mhlo" not in vars(dialects) and _MODULE not in sys.modules:
        register = getattr(_native(), "register_mhlo_dialect", None)
        if register is not None:
            dialects.mhlo = _WithoutOperations(register)


def _native() -> ModuleType:
    """The part of the module that is native code; all of it where jaxlib has no such part."""
    try:
        return import_module("jaxlib.mlir._mlir_libs._mlirHlo")
    except ImportError:
        return import_module(_MODULE)
