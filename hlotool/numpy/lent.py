"""What code written for NumPy takes from its namespace besides functions of arrays: types, printing, files, ranges.

Most is NumPy's own.  What there is no such thing for here is refused by name, with what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy

from hlotool.numpy.array import Array, concrete
from hlotool.numpy.creation import arange, asarray, linspace
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.manipulation import atleast_1d, column_stack, concatenate, expand_dims
from hlotool.numpy.parts import owner_of, place_in

__all__ = [
    "array2string", "array_repr", "array_str", "asanyarray", "asarray_chkfinite", "ascontiguousarray",
    "asfortranarray", "c_", "common_type", "fromfile", "fromiter", "fromstring", "genfromtxt", "isfortran", "load",
    "loadtxt", "may_share_memory", "min_scalar_type", "r_", "real_if_close", "require", "shares_memory", "vectorize",
]  # fmt: skip


# ---- arrays


def asanyarray(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """The same as ``asarray``: there is one class of arrays."""
    return asarray(a, dtype)


def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    """An array with one dimension at least; all are row-major."""
    found: Array = atleast_1d(asarray(a, dtype))
    return found


def asfortranarray(a: Any, dtype: Any = None) -> Array:
    """The same as ``asarray``: all arrays are row-major."""
    return asarray(a, dtype)


def require(a: Any, dtype: Any = None, requirements: Any = None) -> Array:
    """The same as ``asarray``: where arrays lie in memory is up to them."""
    return asarray(a, dtype)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """An array, all of whose elements are finite."""
    found = asarray(a, dtype)
    held = found._concrete("asarray_chkfinite", "look at np.isfinite(x).all() outside of the traced function")
    if held.dtype.kind in "fc" and not numpy.isfinite(held).all():
        raise value_error("an array has elements that are infinite or nan")
    return found


def isfortran(a: Any) -> bool:
    """Whether the elements lie column by column, and not row by row."""
    return bool(a.flags.fnc)


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two arrays have an element in common: as parts of one, or as the same."""
    if not (isinstance(a, Array) and isinstance(b, Array)) or owner_of(a) is not owner_of(b):
        return False
    owner = owner_of(a)
    memory = numpy.empty(owner.shape, owner.dtype)
    return bool(numpy.shares_memory(place_in(memory, a, owner), place_in(memory, b, owner)))


may_share_memory = shares_memory


def real_if_close(a: Any, tol: float = 100) -> Array:
    """Complex numbers as real ones, if their imaginary parts are some `tol` times the distance of floats at most."""
    found = asarray(a)
    held = found._concrete("real_if_close", "the type of the result depends on values: use np.real(x)")
    return asarray(numpy.real_if_close(held, tol))


def common_type(*arrays: Any) -> type:
    """The type of floats or complex numbers in which arrays meet."""
    return numpy.common_type(*[numpy.empty(0, concrete(one).dtype) for one in arrays])


def min_scalar_type(a: Any) -> Any:
    """The narrowest type that holds a number; of an array with dimensions, its own."""
    return numpy.min_scalar_type(asarray(a)._concrete("min_scalar_type", "it depends on values"))


# ---- text and files


def _held(a: Any, name: str) -> Any:
    return a._concrete(f"numpy.{name}", "return the array, and look at it outside") if isinstance(a, Array) else a


def array2string(a: Any, *arguments: Any, **options: Any) -> str:
    """The elements as text, as NumPy writes them."""
    return numpy.array2string(numpy.asarray(_held(a, "array2string")), *arguments, **options)


def array_str(a: Any, *arguments: Any, **options: Any) -> str:
    """The same as ``str``."""
    return numpy.array_str(numpy.asarray(_held(a, "array_str")), *arguments, **options)


def array_repr(arr: Any, *arguments: Any, **options: Any) -> str:
    """The array as NumPy shows its own."""
    return numpy.array_repr(numpy.asarray(_held(arr, "array_repr")), *arguments, **options)


def _reader(name: str, what: str) -> Callable[..., Any]:
    theirs = getattr(numpy, name)

    def read(*arguments: Any, **options: Any) -> Any:
        found = theirs(*arguments, **options)
        if isinstance(found, numpy.ndarray):
            return asarray(found, copy=False)
        return tuple(map(asarray, found)) if isinstance(found, (list, tuple)) else found

    read.__name__ = read.__qualname__ = name
    read.__doc__ = what
    return read


load = _reader("load", "An array of a file of ``save``; of one of ``savez``, NumPy's dictionary of them.")
loadtxt = _reader("loadtxt", "The numbers of a text file.")
genfromtxt = _reader("genfromtxt", "The numbers of a text file in which some are missing.")
fromfile = _reader("fromfile", "The numbers of a file of bytes.")
fromstring = _reader("fromstring", "The numbers of a text.")
fromiter = _reader("fromiter", "What an iterator gives, as an array with one dimension.")


# ---- ranges in brackets


class _Joined:
    """``r_`` and ``c_``: arrays, numbers and ranges (``0:5``, ``0:1:5j``) after each other."""

    def __init__(self, columns: bool) -> None:
        self._columns = columns

    def __getitem__(self, key: Any) -> Array:
        parts = key if isinstance(key, tuple) else (key,)
        found = [self._part(one) for one in parts]
        made: Array = column_stack(found) if self._columns else concatenate(found)
        return made

    def _part(self, one: Any) -> Array:
        if isinstance(one, str):
            raise type_error(f"{one!r}: directives are not known here", "use np.concatenate, np.stack or np.hstack")
        if isinstance(one, slice):
            start, step = one.start or 0, 1 if one.step is None else one.step
            if isinstance(step, complex):
                numbers: Array = linspace(start, one.stop, int(abs(step)))
                return numbers
            return arange(start, one.stop, step)
        made: Array = atleast_1d(asarray(one))
        return expand_dims(made, 1) if self._columns and made.ndim == 1 else made


r_, c_ = _Joined(False), _Joined(True)


# ---- functions


class vectorize:  # noqa: N801 # NumPy's name
    """A function of numbers as one of arrays, called element by element in Python; ``hlotool.vmap`` compiles it."""

    def __init__(self, pyfunc: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self.pyfunc = pyfunc
        self._call = numpy.vectorize(pyfunc, *arguments, **options)
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        hint = "use hlotool.vmap, which traces a function of one element"

        def held(one: Any) -> Any:
            return one._concrete("np.vectorize", hint) if isinstance(one, Array) else one

        found = self._call(*map(held, arguments), **{name: held(one) for name, one in options.items()})
        return tuple(map(asarray, found)) if isinstance(found, tuple) else asarray(found)


# ---- NumPy's own, and what there is not

_OWN = frozenset({
    "False_", "ScalarType", "True_", "base_repr", "binary_repr", "broadcast", "byte", "cdouble", "complexfloating",
    "csingle", "double", "emath", "errstate", "exceptions", "floating", "format_float_positional",
    "format_float_scientific", "generic", "get_printoptions", "geterr", "half", "inexact", "int_", "intc", "integer",
    "intp", "iterable", "little_endian", "long", "longlong", "ndenumerate", "ndindex", "number", "poly1d",
    "polynomial", "printoptions", "save", "savetxt", "savez", "savez_compressed", "set_printoptions", "seterr",
    "short", "signedinteger", "single", "testing", "typecodes", "typename", "typing", "ubyte", "uint", "uintc",
    "uintp", "ulong", "ulonglong", "unsignedinteger", "ushort",
})  # fmt: skip

_HINTS = {
    "matrix asmatrix bmat": "arrays of two dimensions and x @ y do the same",
    "datetime64 timedelta64 datetime_as_string datetime_data isnat busday_count busday_offset busdaycalendar is_busday":
        "arrays hold numbers: convert times with numpy.asarray(times).astype(numpy.int64)",
    "char strings str_ bytes_ character object_ void flexible rec recarray record":
        "arrays hold numbers: keep text and records in arrays of NumPy, and map them to numbers",
    "ma": "np.where(mask, x, other) and the functions nansum, nanmean... leave elements out",
    "float128 complex256 longdouble clongdouble": "float64 and complex128 are the widest types",
    "memmap": "numpy.memmap gives an array of NumPy, which np.asarray takes",
    "nditer nested_iters flatiter": "loops over elements are np.ndindex, x.flat, hlotool.vmap and hlotool.scan",
    "frompyfunc": "np.vectorize, or hlotool.vmap, which compiles the function",
    "packbits unpackbits": "numpy.packbits and numpy.unpackbits take these arrays outside of traced functions",
}  # fmt: skip

_RANDOM = "numbers come by key: key = np.random.key(seed), then np.random.normal(key, shape), with np.random.split(key)"


def _lent(name: str) -> Any:
    """What ``hlotool.numpy.NAME`` is where this package has none."""
    if name in _OWN:
        return getattr(numpy, name) if hasattr(numpy, name) else import_module(f"numpy.{name}")
    hint = next((hint for names, hint in _HINTS.items() if name in names.split()), "")
    if not hint and hasattr(numpy, name) and name[:1] != "_":
        made = isinstance(getattr(numpy, name), (type(numpy.sum), type(numpy.sin)))
        hint = f"numpy.{name} takes these arrays outside of traced functions" if made else ""
    said = f"module 'hlotool.numpy' has no attribute {name!r}"
    raise AttributeError(f"{said}\nhint: {hint}" if hint else said, name=name)


def _drawn(name: str) -> Any:
    """What ``hlotool.numpy.random.NAME`` is where this package has none."""
    said = f"module 'hlotool.numpy.random' has no attribute {name!r}"
    known = name[:1] != "_" and hasattr(numpy.random, name)
    raise AttributeError(f"{said}\nhint: {_RANDOM}" if known else said, name=name)
