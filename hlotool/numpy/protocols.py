"""NumPy's functions on arrays of this package: their namesakes here, or NumPy itself where values are at hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
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
    call = None if ours is None else _translated(ours, theirs, inputs, options)
    if ours is not None and call is not None and _fits(ours, *call):
        return ours(*call[0], **call[1])
    leaves, structure = flatten((inputs, options))
    for leaf in leaves:
        if isinstance(leaf, Array):
            leaf._concrete(f"numpy.{name}", "hlotool.numpy has no function of that name with these arguments")
    given, named = unflatten(structure, [numpy.asarray(one) if isinstance(one, Array) else one for one in leaves])
    found, result = flatten(theirs(*given, **named))
    return unflatten(result, [wrap(one) if isinstance(one, numpy.ndarray) else one for one in found])


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # written in C, and silent about it
        return None


def _fits(function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    signature = _signature(function)
    assert signature is not None
    try:
        signature.bind(*inputs, **options)
    except TypeError:
        return False
    return True


def _translated(
    ours: Callable[..., Any], theirs: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments for `ours` of a call of NumPy's function: by their names, or by their places where names differ.

    What is as it is by default is left out.  None where an argument of NumPy's is not known here.  Where NumPy does not
    say what it takes, or takes any number, the call is as it is.
    """
    own, foreign = _signature(ours), _signature(theirs)
    if own is None or foreign is None:
        return inputs, options
    try:
        given = foreign.bind(*inputs, **options).arguments
    except TypeError:
        return inputs, options
    if any(foreign.parameters[name].kind in _MANY for name in given):
        return inputs, options
    mine, places = list(own.parameters.values()), list(foreign.parameters)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in given.items():
        place = places.index(name)
        other = _NAMES.get(name, name)
        if other != name and other in own.parameters:
            named[other] = value
        elif name in own.parameters and own.parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY:
            named[name] = value
        elif _is_default(value, foreign.parameters[name].default):
            continue
        elif (
            place == len(positional) < len(mine)
            and mine[place].kind in _BY_PLACE
            and (mine[place].name == name or mine[place].name not in places)
        ):
            positional.append(value)
        else:
            return None
    return tuple(positional), named


_NAMES = {"a_min": "min", "a_max": "max"}
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_default(value: Any, default: Any) -> bool:
    plain = isinstance(value, (bool, int, float, str)) and type(value) is type(default)
    return value is default or (plain and bool(value == default))


