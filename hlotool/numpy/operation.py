"""Functions of the namespace: traced where a trace is active, compiled once per signature and run at once elsewhere."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy

from hlotool.ir import Computation, Module, array
from hlotool.numpy.array import Array, concrete
from hlotool.numpy.compiling import compile_or_recall
from hlotool.numpy.dtypes import DEFAULTS, DType, common_type, hlo_type
from hlotool.numpy.errors import ArrayOverflowError, overflow_error, type_error, value_error
from hlotool.numpy.outputs import written
from hlotool.numpy.pytree import LEAF, Structure, flatten, unflatten
from hlotool.numpy.trace import STATE, adopt, apply, is_scalar, leaked, shape_of, trace

__all__ = ["as_arrays", "call_computation", "call_module", "convert", "frozen", "holds_arrays", "operation", "stacked"]

P = ParamSpec("P")
R = TypeVar("R")

_PLAIN: frozenset[type] = frozenset({bool, int, str, type(None), type, type(numpy.dtype(int)), numpy.dtype})
_LISTS = ("arrays", "operands")
_MOST_PROGRAMS = 1024  # of one function
_MOST_MODULES = 256


def operation(
    *arrays: str, exact: bool = False, beyond: Callable[..., Any] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function of traced arrays one of arrays of any kind.

    `arrays` names its first parameters: arrays, Python numbers, nested sequences of numbers, or None; one that is named
    ``arrays`` or ``operands`` is a list of them.  The others are constants of the program.  The body runs with a trace
    active: it calls `as_arrays`, `apply` and other functions of the namespace.  Outside of a trace it runs once for
    each signature, and what it came to is compiled and kept.

    With `exact`, constants in tuples are whole numbers and words, which can be compared as they are.

    Where a Python number does not fit into the type that it would have, `beyond` is called instead, with the arguments.

    Functions whose bodies do not know ``out`` take it as NumPy's do, and those that are ufuncs in NumPy ``where``.
    """
    plain: frozenset[type] = _PLAIN.union((tuple,)) if exact else _PLAIN

    def decorate(body: Callable[P, R]) -> Callable[P, R]:
        programs: OrderedDict[Any, tuple[Callable[..., Any], Structure]] = OrderedDict()
        count = len(arrays)
        single = [name not in _LISTS for name in arrays]
        signature = inspect.signature(body)

        @wraps(body)
        def call(*args: P.args, **options: P.kwargs) -> R:
            try:
                if STATE.trace is not None:
                    if options and (placed := _placed(body.__name__, signature, options)):
                        return written(placed[0], call(*args, **options), placed[1])  # type: ignore[no-any-return]
                    if any(type(one) is list or type(one) is tuple for one in args[:count]):
                        return body(*map(_listed, args, single), *args[count:], **options)  # type: ignore[arg-type]
                    traced: Any = body(*args, **options)
                    if any(traced is one for one in args):  # an array of its own, which can be assigned to
                        traced = Array(traced._value, traced._trace, traced._weak, traced._mutable)
                    return traced  # type: ignore[no-any-return]
                values: list[Any] = []
                numbers = False
                for one in args[:count]:
                    kind = type(one)
                    if kind is Array and one._trace is None:  # type: ignore[attr-defined]
                        one = one._value  # type: ignore[attr-defined]
                    elif kind in DEFAULTS:
                        numbers = True
                    elif kind is not numpy.ndarray:
                        return _first(body, single, plain, signature, programs, args, options)  # type: ignore[no-any-return]
                    values.append(one)
                if numbers:
                    values = _typed(values)
                key = [part for value in values for part in (value.dtype, value.shape)]
                for one in (*args[count:], *options.values()):
                    if type(one) not in plain:
                        break
                    key.append(type(one))
                    key.append(one)
                if len(key) == 2 * (len(args) + len(options)) and len(values) == count:
                    known = programs.get((*key, *options))
                    if known is not None:
                        results = known[0](*values)
                        made: Any = Array(results[0]) if known[1] == LEAF else unflatten(known[1], map(Array, results))
                        return made  # type: ignore[no-any-return]
                return _first(body, single, plain, signature, programs, args, options)  # type: ignore[no-any-return]
            except ArrayOverflowError:
                if beyond is None:
                    raise
                return beyond(*args)  # type: ignore[no-any-return]

        return call

    return decorate


def _first(
    body: Callable[..., Any],
    single: Sequence[bool],
    plain: Set[type],
    signature: inspect.Signature,
    programs: OrderedDict[Any, tuple[Callable[..., Any], Structure]],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """A call of a signature that is new, or whose arguments take looking at."""
    if options and (placed := _placed(body.__name__, signature, options)):
        found = _first(body, single, plain, signature, programs, args, options)
        return written(placed[0], found, placed[1])
    count = len(single)
    if len(args) < count:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        args, options = bound.args, bound.kwargs
    leaves, structure = flatten(tuple(map(_listed, args[:count], single)))
    values = [value._value for value in eager_arrays(leaves)]
    fixed = args[count:]
    avals = tuple([part for value in values for part in (value.dtype, value.shape)])
    constants = (*fixed, *options.values())
    key: Any = (*avals, *[part for one in constants for part in (type(one), one)], *options)
    if structure != (tuple, None, *[LEAF] * count) or any(type(one) not in plain for one in constants):
        key = structure, avals, frozen(fixed), tuple((name, frozen(value)) for name, value in options.items())
    known = programs.get(key)
    if known is None:
        arguments = unflatten(structure, map(Array, values))
        traced = trace(lambda *own: body(*own, *fixed, **options), *arguments, name=body.__name__.strip("_"))
        known = compile_or_recall(traced.module()).run, traced.structure
        programs[key] = known
        if len(programs) > _MOST_PROGRAMS:
            programs.popitem(last=False)
    return unflatten(known[1], map(Array, known[0](*values)))


def _placed(name: str, signature: inspect.Signature, options: dict[str, Any]) -> tuple[Any, Any] | None:
    """``out`` and ``where`` of a call whose function does not know them, taken out of its `options`.

    Of other functions than ufuncs, ``where`` would not be about the places of the result.
    """
    if not any(one in options and one not in signature.parameters for one in ("out", "where")):
        return None
    if options.get("where", True) is not True and not isinstance(getattr(numpy, name, None), numpy.ufunc):
        raise type_error(f"{name} takes no where=", "functions of elements do: choose elements with np.where")
    return options.pop("out", None), options.pop("where", True)


def _typed(values: Sequence[Any]) -> list[Any]:
    """NumPy arrays, and Python numbers in the type that they take among them."""
    dtypes = tuple([one.dtype for one in values if type(one) not in DEFAULTS])
    dtype = common_type(dtypes, tuple([type(one) for one in values if type(one) in DEFAULTS]))
    return [_scalar(one, dtype) if type(one) in DEFAULTS else one for one in values]


def _scalar(value: Any, dtype: DType) -> numpy.ndarray[Any, Any]:
    """A Python number in the type that it has among arrays."""
    try:
        return numpy.asarray(value, dtype)
    except OverflowError as error:
        raise overflow_error(f"{value} does not fit into {dtype}", "convert the array to a wider type") from error


def _listed(value: Any, single: bool) -> Any:
    """An argument that is one array, as that; a list may stand for one."""
    if not isinstance(value, (list, tuple)):
        return value
    return stacked(value) if single else [_listed(one, True) for one in value]


def stacked(rows: Any) -> Array:
    """Nested sequences of numbers and arrays as an array."""
    if not holds_arrays(rows):
        return concrete(rows)
    if STATE.trace is None:
        return concrete(numpy.asarray(_unwrapped(rows)))
    found = as_arrays(*[stacked(one) if isinstance(one, (list, tuple)) else one for one in rows])
    if len({one.shape for one in found}) > 1:
        raise value_error(f"rows of shapes {[one.shape for one in found]} are no array")
    parts = [apply("reshape", one, shape=array(hlo_type(one.dtype), (1, *one.shape))) for one in found]
    return apply("concatenate", *parts, dimensions=(0,))


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_unwrapped(one) for one in value]
    return numpy.asarray(value) if isinstance(value, Array) else value


def holds_arrays(value: Any) -> bool:
    """Whether there is an array of this package in nested sequences."""
    return any(map(holds_arrays, value)) if isinstance(value, (list, tuple)) else isinstance(value, Array)


def frozen(value: Any) -> Any:
    """A key for a constant argument: what is equal but not the same (1, 1.0, True; 0.0, -0.0) has keys of its own."""
    if isinstance(value, Array):
        value = value._concrete("an argument that is a constant of the program", "pass a number or a tuple of numbers")
    if isinstance(value, (list, tuple)):
        return (type(value), *map(frozen, value))
    if isinstance(value, dict):
        return (dict, *[(name, frozen(one)) for name, one in value.items()])
    if isinstance(value, numpy.ndarray):
        return (value.dtype, value.shape, value.tobytes())
    if isinstance(value, (float, complex)):
        return (type(value), repr(value))
    try:
        hash(value)
    except TypeError as error:
        raise type_error(f"a {type(value).__name__} is no constant argument: it cannot be hashed") from error
    return (type(value), value)


def eager_arrays(leaves: Sequence[Any]) -> list[Array]:
    """Concrete arrays; Python numbers get the type that the others have, or give way to."""
    for leaf in leaves:
        if isinstance(leaf, Array) and leaf._trace is not None:
            raise leaked(leaf)
    scalars = tuple(type(leaf) for leaf in leaves if is_scalar(leaf))
    if not scalars:
        return [concrete(leaf) for leaf in leaves]
    return [
        scalar_array(leaf, _weak_type(leaves)) if is_scalar(leaf) else concrete(leaf) for leaf in leaves
    ]


def _weak_type(leaves: Sequence[Any]) -> DType:
    dtypes: list[DType] = []
    scalars: list[type] = []
    for leaf in leaves:
        if is_scalar(leaf):
            scalars.append(next(kind for kind in (bool, int, float, complex) if isinstance(leaf, kind)))
        elif isinstance(leaf, Array) and leaf._weak:
            scalars.append({"b": bool, "i": int, "f": float, "c": complex}[leaf.dtype.kind])
        else:
            known = isinstance(leaf, (Array, numpy.ndarray, numpy.generic))
            dtypes.append(leaf.dtype if known else concrete(leaf).dtype)
    return common_type(tuple(dtypes), tuple(scalars))


def scalar_array(value: Any, dtype: DType) -> Array:
    """A Python number as an array; OverflowError where the type does not hold it."""
    return Array(_scalar(value, dtype))


def as_arrays(*values: Any) -> tuple[Array, ...]:
    """Arrays of one type, that to which all of `values` are promoted; for the body of an `operation`."""
    dtype = _weak_type(values)
    weak = all(is_scalar(value) or (isinstance(value, Array) and value._weak) for value in values)
    made = []
    for value in values:
        one = scalar_array(value, dtype) if is_scalar(value) else convert(concrete(value), dtype)
        if weak:
            one = Array(one._value, one._trace, weak=True)
        made.append(one)
    return tuple(made)


def convert(value: Array, dtype: DType) -> Array:
    """`value` with elements of another type, in a trace."""
    if value.dtype == dtype:
        return value
    if value._trace is None and not value.shape and not value._mutable:
        with numpy.errstate(all="ignore"):
            return Array(value._value.astype(dtype))
    shape = shape_of(value).with_type(hlo_type(dtype))
    return apply("convert", value, shape=shape)


def call_computation(computation: Computation, values: Sequence[Array]) -> list[Array]:
    """A call in the active trace of a computation whose root is a tuple; its elements."""
    called = apply("call", *values, to_apply=computation)
    return [apply("get-tuple-element", called, index=n) for n in range(len(computation.root.shape.elements))]


_MODULES: OrderedDict[int, tuple[Module, Callable[..., Any]]] = OrderedDict()


def call_module(module: Module, values: Sequence[Any]) -> list[Array]:
    """The results of a module (the leaves of its root): a call in the active trace, or compiled once and run."""
    arrays = [concrete(value) for value in values]
    if STATE.trace is not None:
        computation = adopt(module)
        if computation.root.shape.is_tuple:
            return call_computation(computation, arrays)
        return [apply("call", *arrays, to_apply=computation)]
    for one in arrays:
        if one._trace is not None:
            raise leaked(one)
    known = _MODULES.get(id(module))
    if known is None:
        known = module, compile_or_recall(module).run
        _MODULES[id(module)] = known
        if len(_MODULES) > _MOST_MODULES:
            _MODULES.popitem(last=False)
    return [Array(result) for result in known[1](*[one._value for one in arrays])]
