"""NumPy's functions on arrays of this package: their namesakes here, or NumPy itself where values are at hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy

from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.errors import tracing_error, type_error
from hlotool.numpy.outputs import written
from hlotool.numpy.pytree import flatten, unflatten
from hlotool.numpy.trace import active

__all__ = ["_array_function", "_array_ufunc", "with_methods"]

_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_ACCUMULATIONS = {"add": "cumulative_sum", "multiply": "cumulative_prod"}
_PLACES = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "power": "power",
    "minimum": "min", "maximum": "max",
}  # fmt: skip


def _array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``numpy.ufunc.method(*inputs, **options)``."""
    outputs = options.pop("out", ())
    if method == "at":
        return _at(ufunc, *inputs)
    if not any(one is not None for one in outputs):
        return _without_output(ufunc, method, inputs, options)
    where = options.pop("where", True) if method == "__call__" else True
    found = _without_output(ufunc, method, inputs, options)
    results = found if isinstance(found, tuple) else (found,)
    given = [written(*pair, where) for pair in zip(outputs, results, strict=True)]
    return tuple(given) if isinstance(found, tuple) else given[0]


def with_methods(function: Callable[..., Any], ufunc: numpy.ufunc) -> None:
    """Give a function of two arrays the methods of NumPy's ufunc of its name: ``add.reduce`` and others."""

    def method(name: str) -> Callable[..., Any]:
        def call(*inputs: Any, out: Any = None, **options: Any) -> Any:
            given = [one if isinstance(one, Array) or name == "at" else concrete(one) for one in inputs[:1]]
            output = {} if out is None else {"out": (out,)}
            return _array_ufunc(ufunc, name, (*given, *inputs[1:]), {**options, **output})

        call.__name__, call.__qualname__ = name, f"{function.__name__}.{name}"
        return call

    for name in ("reduce", "accumulate", "reduceat", "outer", "at"):
        setattr(function, name, method(name))


def _without_output(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    name, ours = ufunc.__name__, _namesake(ufunc.__name__)
    if ours is None or active() is None:
        reduction = _REDUCTIONS.get(name, "") if method == "reduce" else ""
        if reduction:
            options = {"axis": 0, **options}
        known = ours if method == "__call__" else _namesake(reduction)
        return _call(name if method == "__call__" else f"{name}.{method}", known, getattr(ufunc, method), inputs,
                     options)  # fmt: skip
    if method == "__call__":
        return _called(ours, inputs, options)
    arrays = [one if isinstance(one, Array) else concrete(one) for one in inputs[:2]]
    if method == "outer":
        first, second = arrays
        shaped = _namesake("reshape")
        assert shaped is not None
        return _called(ours, (shaped(first, (*first.shape, *[1] * second.ndim)), second), options)
    if method in ("reduce", "accumulate"):
        return _gathered(ufunc, ours, method, inputs, options)
    raise _refused(f"numpy.{name}.{method}")


def _refused(what: str) -> Exception:
    return tracing_error(f"{what} cannot be traced", "call it on arrays outside of traced functions")


def _called(ours: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """A ufunc under a trace; what is not `where` is zero."""
    where, dtype = options.get("where", True), options.get("dtype")
    known = {"where", "dtype", "casting", "order", "subok"}
    if not options.keys() <= known:
        raise type_error(f"numpy.{ours.__name__} has no argument {min(options.keys() - known)!r} in a traced function")
    if dtype is not None:
        inputs = [_namespace("astype")(_namespace("asarray")(one), dtype) for one in inputs]
    found = ours(*inputs)
    if where is True:
        return found
    chosen = _namespace("where")
    return tuple(chosen(where, one, 0) for one in found) if isinstance(found, tuple) else chosen(where, found, 0)


def _gathered(
    ufunc: Any, ours: Callable[..., Any], method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """``reduce`` and ``accumulate`` under a trace: a function of the namespace, or one element after the other."""
    x = _namespace("asarray")(inputs[0])
    axis = options.pop("axis", inputs[1] if len(inputs) > 1 else 0)
    name = (_REDUCTIONS if method == "reduce" else _ACCUMULATIONS).get(ufunc.__name__)
    if name:
        return _namespace(name)(x, axis=axis, **options)
    if options or not isinstance(axis, int) or not x.shape or not x.shape[axis]:
        raise _refused(f"numpy.{ufunc.__name__}.{method} with these arguments")
    rows = _namespace("moveaxis")(x, axis, 0)
    scan = import_module("hlotool.numpy.control").scan
    last, every = scan(lambda before, row: (ours(before, row),) * 2, rows[0], rows[1:])
    if method == "reduce":
        return last
    return _namespace("moveaxis")(_namespace("concat")([rows[:1], every]), 0, axis)


def _at(ufunc: Any, x: Any, index: Any, *values: Any) -> None:
    """``ufunc.at``: an assignment to `x`."""
    method = _PLACES.get(ufunc.__name__)
    if not isinstance(x, Array) or method is None or not values:
        what = f"numpy.{ufunc.__name__}.at"
        raise type_error(f"{what} of an array of hlotool.numpy", f"known are {', '.join(_PLACES)}, with values")
    x[...] = getattr(x.at[index], method)(*values)


def _namespace(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module("hlotool.numpy"), name)
    return found


def _array_function(function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``function(*inputs, **options)`` of a function of NumPy."""
    output = options.pop("out", None)
    if output is not None:
        return written(output, _array_function(function, inputs, options))
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
    return unflatten(result, [wrap(numpy.asarray(one)) if isinstance(one, _NUMPYS) else one for one in found])


_NUMPYS = (numpy.ndarray, numpy.generic)


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


