"""Models in ONNX, as modules (extra ``hlotool[onnx]``).

A file of ONNX and the sizes that its dynamic dimensions have enter; a module leaves, whose parameters and results have
the names of the model's.  The package onnx reads files and knows the bodies of functions; it is loaded when a model is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlotool.onnx.importer import Imported, import_model
    from hlotool.onnx.model import Model, read_model

__all__ = ["Imported", "Model", "import_model", "read_model"]

_HOMES = {"Imported": "importer", "import_model": "importer", "Model": "model", "read_model": "model"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hlotool.onnx' has no attribute {name!r}")
    return getattr(import_module(f"hlotool.onnx.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
