"""What is said of bad use: errors that name the line of the user's program, with a hint."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from pathlib import Path
from types import FrameType

from numpy.linalg import LinAlgError

from hlotool.ir import Diagnostic, InputError, UnsupportedError

__all__ = [
    "ArgumentError",
    "ArrayIndexError",
    "ArrayOverflowError",
    "ArrayTypeError",
    "AxisError",
    "MatrixError",
    "TracingError",
    "axis_error",
    "index_error",
    "matrix_error",
    "overflow_error",
    "tracing_error",
    "type_error",
    "user_place",
    "value_error",
    "warn",
]

_INSIDE = (str(Path(__file__).resolve().parent.parent) + "/", contextlib.__file__, functools.__file__)


class ArgumentError(InputError, ValueError):
    """An argument has a value that does not fit."""


class ArrayTypeError(InputError, TypeError):
    """An argument is of a type that does not fit."""


class AxisError(ArgumentError, IndexError):
    """An array has no such dimension; as in NumPy, it is an error of both kinds."""


class MatrixError(ArgumentError, LinAlgError):
    """An array is no matrix, or no square one; as in NumPy, programs may wait for a LinAlgError."""


class ArrayOverflowError(InputError, OverflowError):
    """A number does not fit into the type that it would have."""


class ArrayIndexError(InputError, IndexError):
    """An index is out of bounds, or no index."""


class TracingError(UnsupportedError, TypeError):
    """A function does what a traced function cannot do."""


def user_frame() -> FrameType | None:
    """The innermost frame of a file outside of hlotool."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    return frame


def user_place() -> tuple[str, int]:
    """File and line of the user's program that asked for what is being done; ("", 0) where nobody did."""
    frame = user_frame()
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _say(message: str, hint: str | None) -> str:
    file, line = user_place()
    text = f"{file}:{line}: {message}" if file else message
    return f"{text}\nhint: {hint}" if hint else text


def tracing_error(message: str, hint: str | None = None) -> TracingError:
    """An error with the place of the user's program ahead of `message`, and `hint` in a line of its own."""
    return TracingError(_say(message, hint), (Diagnostic(message, hint=hint, code=TracingError.code),))


def value_error(message: str, hint: str | None = None) -> ArgumentError:
    """The same of a value."""
    return ArgumentError(_say(message, hint), (Diagnostic(message, hint=hint, code=ArgumentError.code),))


def matrix_error(message: str) -> MatrixError:
    """The same of the shape of a matrix."""
    return MatrixError(_say(message, None), (Diagnostic(message, code=MatrixError.code),))


def type_error(message: str, hint: str | None = None) -> ArrayTypeError:
    """The same of a type."""
    return ArrayTypeError(_say(message, hint), (Diagnostic(message, hint=hint, code=ArrayTypeError.code),))


def index_error(message: str, hint: str | None = None) -> ArrayIndexError:
    """The same of an index."""
    return ArrayIndexError(_say(message, hint), (Diagnostic(message, hint=hint, code=ArrayIndexError.code),))


def overflow_error(message: str, hint: str | None = None) -> ArrayOverflowError:
    """The same of a number that is too large for a type."""
    return ArrayOverflowError(_say(message, hint), (Diagnostic(message, hint=hint, code=ArrayOverflowError.code),))


def axis_error(message: str, hint: str | None = None) -> AxisError:
    """The same of a dimension that is not there."""
    return AxisError(_say(message, hint), (Diagnostic(message, hint=hint, code=AxisError.code),))


def warn(message: str, category: type[Warning]) -> None:
    """A warning at the line of the user's program."""
    frame = user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    known = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, registry=known)
