"""The array: a value that is there, or one of a function that is being traced.

What it can do is done by the functions of the namespace, which are found by name when they are used: they stand on this
class.

Values never change, but which one an array has does: ``x[index] = value`` gives it another one.  Arrays that share
elements with `x` in NumPy, as its parts, change with it (`parts.py`); in traced functions such assignments are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from hlotool.ir import dtype_of
from hlotool.numpy.dtypes import DType, hlo_type
from hlotool.numpy.errors import tracing_error, type_error, value_error
from hlotool.numpy.parts import Step, Ties, is_tied, layout_of, owner_of, seen_in, tie

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Array", "concrete", "concrete_value", "wrap"]


@cache
def _function(name: str) -> Callable[..., Any]:
    """A function of the namespace."""
    found: Callable[..., Any] = getattr(import_module("hlotool.numpy"), name)
    return found


class Array:
    """An array.  Make one with ``asarray``; functions under ``hlotool.jit`` are called with traced ones."""

    __slots__ = ("__weakref__", "_mutable", "_ties", "_trace", "_value", "_weak", "_whole")

    def __init__(self, value: Any, trace: Any = None, weak: bool = False, mutable: bool = False) -> None:
        self._value = value  # a NumPy array; of a traced one the instruction
        self._trace = trace
        self._weak = weak  # a Python number, whose type gives way
        self._mutable = mutable  # the NumPy array is the user's, who may write to it, or this array was assigned to
        self._whole: Callable[[], object] | None = None  # what the array is a part of, while that is alive
        self._ties: Ties | None = None  # of a concrete array: those with which it shares its elements

    if TYPE_CHECKING:  # what is put in below, for type checkers

        def __add__(self, other: Any, /) -> Array: ...
        def __neg__(self) -> Array: ...
        def __divmod__(self, other: Any, /) -> tuple[Array, Array]: ...
        def sum(self, *arguments: Any, **options: Any) -> Array: ...
        def nonzero(self) -> tuple[Array, ...]: ...

        __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __add__
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __lt__ = __le__ = __gt__ = __ge__ = __add__
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = __add__
        __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __add__
        __eq__ = __ne__ = __add__  # type: ignore[assignment] # element by element
        __pos__ = __invert__ = __abs__ = __neg__
        astype = prod = mean = var = std = min = max = all = any = argmin = argmax = cumsum = cumprod = clip = dot = sum
        round = conj = conjugate = take = repeat = squeeze = swapaxes = flatten = ravel = argsort = copy = sum
        trace = diagonal = ptp = searchsorted = reshape = transpose = view = argpartition = choose = sum
        T: Array
        mT: Array  # noqa: N815 # a name of the standard
        real: Array
        imag: Array

    # ---- what it is

    @property
    def dtype(self) -> DType:
        return self._value.dtype if self._trace is None else dtype_of(self._value.shape.element_type)

    @property
    def shape(self) -> tuple[int, ...]:
        value: Any = self._value
        return value.shape if self._trace is None else value.shape.dimensions  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for one in self.shape:
            count *= one
        return count

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each dimension, as NumPy has them of such an array or part."""
        return layout_of(self).strides

    @property
    def flags(self) -> Any:
        """How the elements lie in memory; setting one of them changes nothing."""
        return layout_of(self).flags

    @property
    def base(self) -> Array | None:
        """The array with which this one, a part, shares its elements."""
        owner: Array = owner_of(self)
        return None if owner is self else owner

    @property
    def data(self) -> memoryview:
        return self.__array__().data

    @property
    def flat(self) -> Any:
        """The elements in order, to read or to assign to."""
        return _function("_Flat")(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        _function("_Flat")(self)[:] = value

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        if device != "cpu":
            raise type_error(f"there is no device {device!r}", 'the only one is "cpu"')
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return map(self.__getitem__, range(len(self)))  # what cannot be iterated says so now, not when it is

    def __repr__(self) -> str:
        if self._trace is not None:
            return f"Array(traced {self._value.shape})"
        text = numpy.array2string(self._value, separator=", ", prefix="Array(")
        return f"Array({text}, dtype={self.dtype})"

    def __str__(self) -> str:
        return repr(self) if self._trace is not None else str(self._value)

    def __format__(self, form: str) -> str:
        if self._trace is not None and form:
            self._concrete(f"the format {form!r}", _NUMBER)
        return format(self._value[()], form) if self._trace is None and not self.shape else format(str(self), form)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'Array'")

    # ---- Python and NumPy

    def _concrete(self, what: str, hint: str) -> numpy.ndarray[Any, Any]:
        if self._trace is None:
            value: numpy.ndarray[Any, Any] = self._value
            return value
        raise tracing_error(f"{what} needs the value of an array, and this one is traced: {self._value.shape}", hint)

    def __bool__(self) -> bool:
        return bool(self._concrete("if, while, and, or, not or bool()", _CONTROL))

    def __float__(self) -> float:
        return float(self._concrete("float()", _NUMBER))

    def __int__(self) -> int:
        return int(self._concrete("int()", _NUMBER))

    def __complex__(self) -> complex:
        return complex(self._concrete("complex()", _NUMBER))

    def __index__(self) -> int:
        held = self._concrete("an index, size or range()", _STATIC)
        if held.ndim or held.dtype.kind not in "iu":
            raise TypeError(f"only integers without dimensions are an index, not {self.dtype}{list(self.shape)}")
        return int(held)

    def item(self, *index: int) -> Any:
        return self._concrete("item()", _NUMBER).item(*index)

    def tolist(self) -> Any:
        return self._concrete("tolist()", _NUMBER).tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self._concrete("tobytes()", _NUMBER).tobytes(order)

    def tofile(self, file: Any, sep: str = "", format: str = "%s") -> None:
        self._concrete("tofile()", _NUMBER).tofile(file, sep, format)

    def block_until_ready(self) -> Array:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        held = self._concrete("a function of NumPy (numpy.asarray)", _FOREIGN)
        if dtype is not None and numpy.dtype(dtype) != held.dtype:
            if copy is False:
                raise ValueError(f"an array of {held.dtype} cannot be one of {numpy.dtype(dtype)} without a copy")
            return held.astype(dtype)
        if copy:
            return held.copy()
        ties = self._ties
        view = held.view() if ties is None or ties.owner is None else seen_in(self)
        view.flags.writeable = False
        return view

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        writeable = self._concrete("__dlpack__", _FOREIGN).flags.writeable
        if copy is None and not writeable and (max_version is None or max_version[0] < 1):
            copy = True  # such capsules cannot say that nobody may write
        # what the other library writes is not seen in copies, be they made before or from now on
        held = _function("_own_memory")(self) if writeable and not copy else self._value
        if not copy:
            self._mutable = True
        return held.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
            raise ValueError(f"the array API standard {api_version} is not known; 2025.12 is")
        return import_module("hlotool.numpy")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _function("_array_ufunc")(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return _function("_array_function")(function, arguments, options)

    def __reduce__(self) -> Any:
        return wrap, (self._concrete("pickle", _NUMBER),)

    def __copy__(self) -> Array:
        copied: Array = _function("copy")(self)
        return copied

    def __deepcopy__(self, memo: Any) -> Array:
        return self.__copy__()

    # ---- indexing

    def __getitem__(self, key: Any) -> Array:
        found: Array = _function("_getitem")(self, key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        _function("_setitem")(self, key, value)

    def fill(self, value: Any) -> None:
        """Assign a number to all elements."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: None = None, *, stable: bool | None = None) -> None:
        """Sort the elements of this array along an axis; ``np.sort`` gives a sorted copy."""
        self[...] = _function("sort")(self, axis=axis)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: None = None) -> None:
        """Partition the elements of this array along an axis; ``np.partition`` gives a copy."""
        self[...] = _function("partition")(self, kth, axis)

    def compress(self, condition: Any, axis: Any = None) -> Array:
        found: Array = _function("compress")(condition, self, axis)
        return found

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Assign to the elements that have these indices among all in order."""
        _function("put")(self, indices, values, mode)

    def _is_part_of(self, other: Array, step: Step, surely: bool = False) -> Array:
        """This array, which in NumPy would share elements with `other`: those that `step` finds, if not `surely` where
        that gives a view."""
        if self is not other:
            whole = other._whole and other._whole()
            self._whole = ref(other if whole is None else whole)
            if self._ties is None and self._trace is None and other._trace is None:
                tie(self, other, step, surely)
        return self

    @property
    def at(self) -> Any:
        """``x.at[index].set(value)``, ``add``, ``multiply``, ``min``, ``max``...: a new array with other elements."""
        return _function("_At")(self)


_CONTROL = (
    "use np.where, hlotool.cond or hlotool.while_loop, or make the argument static "
    "(hlotool.jit(..., static_argnums=...))"
)
_NUMBER = "return the array from the function, and look at its value outside"
_STATIC = "shapes, sizes and axes must be constants: make the argument static (hlotool.jit(..., static_argnums=...))"
_FOREIGN = "use the function of hlotool.numpy, which can be traced"


def _operator(name: str, function: str, reflected: bool = False) -> None:
    def method(self: Array, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return _function(function)(other, self) if reflected else _function(function)(self, other)

    method.__name__ = name
    setattr(Array, name, method)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Array, bool, int, float, complex, numpy.ndarray, numpy.generic))


for _name, _target in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "divmod": "divmod",
}.items():  # fmt: skip
    _operator(f"__{_name}__", _target)
    _operator(f"__r{_name}__", _target, reflected=True)
for _name, _target in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}.items():  # fmt: skip
    _operator(f"__{_name}__", _target)


def _method(name: str, function: str) -> None:
    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        return _function(function)(self, *arguments, **options)

    method.__name__ = name
    setattr(Array, name, method)


for _name, _target in {
    "__neg__": "negative", "__pos__": "positive", "__invert__": "bitwise_invert", "__abs__": "abs",
    "astype": "astype", "sum": "sum", "prod": "prod", "mean": "mean", "var": "var", "std": "std", "min": "min",
    "max": "max", "all": "all", "any": "any", "argmin": "argmin", "argmax": "argmax", "cumsum": "cumsum",
    "cumprod": "cumprod", "clip": "clip", "dot": "dot", "round": "round", "conj": "conj", "conjugate": "conj",
    "take": "take", "repeat": "repeat", "squeeze": "squeeze", "swapaxes": "swapaxes", "flatten": "_flattened",
    "ravel": "ravel", "argsort": "argsort", "nonzero": "nonzero", "copy": "copy", "trace": "trace",
    "diagonal": "diagonal", "ptp": "ptp", "searchsorted": "searchsorted", "view": "_viewed",
    "argpartition": "argpartition", "choose": "choose",
}.items():  # fmt: skip
    _method(_name, _target)


def _variadic(name: str, function: str) -> None:
    """A method whose sizes or axes may be given one by one."""

    def method(self: Array, *sizes: Any, **options: Any) -> Any:
        chosen = sizes[0] if len(sizes) == 1 else sizes
        if not sizes and not options:
            return _function(function)(self)
        return _function(function)(self, chosen, **options) if sizes else _function(function)(self, **options)

    method.__name__ = name
    setattr(Array, name, method)


_variadic("reshape", "reshape")
_variadic("transpose", "transpose")


def _in_place(name: str, function: str) -> None:
    """``x += y`` and such: other elements for this array, as in NumPy, where what has no dimensions is a number.

    In traced functions, and of what has no dimensions, it is another array.
    """

    def method(self: Array, other: Any) -> Any:
        if self._trace is not None or not _is_operand(other):
            return NotImplemented
        found = _function(function)(self, other)
        if found._trace is not None:
            return found
        held, made = self._value, found._value
        tied = self._ties is not None and is_tied(self)
        if not held.shape and not tied:
            return found
        if made.shape != held.shape:
            raise value_error(f"{name}: the result has shape {made.shape}, and this array {held.shape}")
        if made.dtype != held.dtype:
            if not numpy.can_cast(made.dtype, held.dtype, "same_kind"):
                raise type_error(f"{name}: the result is {made.dtype}, which an array of {held.dtype} cannot hold",
                                 "make another array of the result: x = x + y")
            found = _function("astype")(found, held.dtype)
        if tied:
            self[...] = found
        else:
            self._value, self._mutable = found._value, False
        return self

    method.__name__ = name
    setattr(Array, name, method)


for _name, _target in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "matmul": "matmul",
}.items():  # fmt: skip
    _in_place(f"__i{_name}__", _target)


def _property(name: str, function: str, step: Step) -> None:
    def part(self: Array) -> Any:
        return _function(function)(self)._is_part_of(self, step)

    def assign(self: Array, value: Any) -> None:
        part(self)[...] = value

    setattr(Array, name, property(part, assign))


_property("T", "_transposed", numpy.transpose)
_property("mT", "matrix_transpose", lambda held: numpy.swapaxes(held, -1, -2))
_property("real", "real", numpy.real)
_property("imag", "imag", numpy.imag)


def wrap(value: numpy.ndarray[Any, Any]) -> Array:
    """An array of this package around a NumPy array that nobody else writes to."""
    return Array(value)


def concrete(value: Any) -> Array:
    """A concrete array of a NumPy array, number, or nested sequence of numbers; without a copy where that can be.

    What a NumPy array of somebody else holds may change: the array remembers that.
    """
    if isinstance(value, Array):
        return value
    if isinstance(value, numpy.ndarray):
        if not value.dtype.isnative:  # bytes in another order
            return Array(value.astype(value.dtype.newbyteorder("=")))
        hlo_type(value.dtype)
        return Array(value, mutable=value.flags.writeable)
    try:
        made = numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise type_error(f"a {type(value).__name__} is no array: {error}") from error
    if made.dtype.hasobject or (made.dtype.kind in "SUVM" and made.dtype.isbuiltin == 1):
        raise type_error(f"a {type(value).__name__} is no array: elements of {made.dtype} cannot be compiled")
    hlo_type(made.dtype)
    return Array(made)


def concrete_value(value: Array, what: str, hint: str = _FOREIGN) -> numpy.ndarray[Any, Any]:
    """The NumPy array of a concrete array; an error that says `what` needs it of a traced one."""
    return value._concrete(what, hint)
