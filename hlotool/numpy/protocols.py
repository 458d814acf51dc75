"""NumPy's functions on arrays of this package: their namesakes here, or NumPy itself where values are at hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy

from hlotool.numpy.array import Array, wrap
from hlotool.numpy.pytree import flatten, unflatten

__all__ = ["_array_function", "_array_ufunc"]

_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip


def _array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``numpy.ufunc.method(*inputs, **options)``."""
    if method == "__call__":
        name = ufunc.__name__
        return _call(name, _namesake(name), ufunc, inputs, options)
    name = _REDUCTIONS.get(ufunc.__name__, "") if method == "reduce" else ""
    if name:
        options = {"axis": 0, **options}
    return _call(f"{ufunc.__name__}.{method}", _namesake(name), getattr(ufunc, method), inputs, options)


def _array_function(function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``function(*inputs, **options)`` of a function of NumPy."""
    owner = function.__module__.removeprefix("numpy").strip(".")
    return _call(function.__name__, _namesake(function.__name__, owner), function, inputs, options)


def _namesake(name: str, owner: str = "") -> Callable[..., Any] | None:
    """The function of this package with the name of one in NumPy, or in its room `owner` (``linalg``, ``fft``)."""
    home: Any = import_module("hlotool.numpy")
    if owner in ("linalg", "fft", "random"):
        home = getattr(home, owner, None)
    found = getattr(home, name, None) if name in getattr(home, "__all__", ()) else None
    return found if callable(found) and not isinstance(found, type) else None


def _call(
    name: str, ours: Callable[..., Any] | None, theirs: Callable[..., Any], inputs: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:  # fmt: skip
    if ours is not None and _fits(ours, inputs, options):
        return ours(*inputs, **options)
    leaves, structure = flatten((inputs, options))
    for leaf in leaves:
        if isinstance(leaf, Array):
            leaf._concrete(f"numpy.{name}", "hlotool.numpy has no function of that name with these arguments")
    given, named = unflatten(structure, [numpy.asarray(one) if isinstance(one, Array) else one for one in leaves])
    found, result = flatten(theirs(*given, **named))
    return unflatten(result, [wrap(one) if isinstance(one, numpy.ndarray) else one for one in found])


def _fits(function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*inputs, **options)
    except TypeError:
        return False
    return True


