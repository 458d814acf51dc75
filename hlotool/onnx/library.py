"""The package onnx, with an error that says how to get it where it is not installed."""

from __future__ import annotations

from hlotool.ir import UnsupportedError

__all__ = ["onnx"]

try:
    import onnx
    import onnx.defs
    import onnx.helper
    import onnx.numpy_helper
except ImportError as error:
    raise UnsupportedError("models in ONNX need the package onnx: pip install 'hlotool[onnx]'") from error
