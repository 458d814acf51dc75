"""``hlotool.jit``: a Python function, traced and compiled once for each kind of arguments."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from hlotool.ir import Module, Shape, array
from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array, concrete
from hlotool.numpy.compiling import compile_or_recall
from hlotool.numpy.dtypes import dtype_of_value, hlo_type
from hlotool.numpy.errors import tracing_error, type_error, user_place, value_error
from hlotool.numpy.operation import call_computation, frozen
from hlotool.numpy.pytree import Structure, flatten, leaf_paths, unflatten
from hlotool.numpy.quick import MISS, quick_call
from hlotool.numpy.trace import STATE, Traced, Weak, is_scalar, leaked, trace, unchanged
from hlotool.runtime.executable import Executable

if TYPE_CHECKING:  # what functions without late sizes do without
    from hlotool.numpy.late import Axis, LatePrograms, SizeSpec

__all__ = ["Jitted", "explain_last", "jit"]

_Kind: TypeAlias = Any  # what is compiled for: (dtype, shape) of an array, the class of a Python number
_DEEPEST = 64
_MOST_SIZES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    """A function for one kind of arguments.  `donated` are the leaves whose arrays it may overwrite.

    `captured` are arrays that it is handed with each call, `reads` those that are constants of it, with what they held.
    """

    executable: Executable
    captured: tuple[Array, ...]
    reads: tuple[tuple[Array, Any], ...]
    structure: Structure
    donated: tuple[int, ...]
    quick: Callable[[Any, Any], Any] | None

    def __call__(self, values: Iterable[Any]) -> Any:
        captured = [one._value for one in self.captured]
        return unflatten(self.structure, map(Array, self.executable.run(*values, *captured)))


@dataclass(frozen=True, slots=True)
class _Signature:
    """What a compilation is for: the structure of the arguments, the kinds of its leaves, and constants."""

    structure: Structure
    kinds: tuple[_Kind, ...]
    statics: Any


class _Last(threading.local):
    text: str = "nothing was compiled by hlotool.jit in this thread"


_LAST = _Last()


def explain_last() -> str:
    """Why the last compilation by `jit` in this thread was needed."""
    return _LAST.text


class Jitted:
    """A function that is compiled when it is called with arguments of a new kind: see `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        numbers: tuple[int, ...],
        names: tuple[str, ...],
        donate: tuple[int, ...],
        late: tuple[SizeSpec, ...] = (),
    ) -> None:
        self._function = function
        self._signature = _signature_of(function)
        self._static_numbers, self._static_names = _both(self._signature, numbers, names)
        self._donate = donate
        self._late = late
        self._simple = not (numbers or names or donate or late)
        self._known: dict[_Signature, _Compiled] = {}
        self._families: dict[_Signature, LatePrograms] = {}
        self._compilations = 0
        self._quick: Callable[[Any, Any], Any] | None = None  # for arguments like the last ones
        self._ready: dict[tuple[Any, ...], tuple[LatePrograms, Callable[[Sequence[Any]], Any]]] = {}
        if late and not (numbers or names):
            self._quick = self._late_quick
        self._depth = threading.local()
        update_wrapper(self, function, updated=())  # the attributes of what jit gives are no one else's

    def __repr__(self) -> str:
        return f"<hlotool.jit of {self._name}>"

    @property
    def _name(self) -> str:
        return str(getattr(self._function, "__qualname__", self._function))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        quick = self._quick
        if quick is None or STATE.trace is not None:
            return self._call(arguments, options)
        results = quick(arguments, options)
        return self._call(arguments, options) if results is MISS else results

    def check_argument(self, argument: int | str) -> None:
        """A ValueError unless the function has an argument of this name or number."""
        if self._signature is None:
            return
        parameters = self._signature.parameters
        kinds = {one.kind for one in parameters.values()}
        if isinstance(argument, int):
            known = argument < len(parameters) or inspect.Parameter.VAR_POSITIONAL in kinds
        else:
            known = argument in parameters or inspect.Parameter.VAR_KEYWORD in kinds
        if not known:
            raise value_error(f"dynamic=, bucket=: there is no argument {argument!r}; there are {list(parameters)}")

    @property
    def compilations(self) -> int:
        """How many programs were compiled so far."""
        return self._compilations

    def module(self, *arguments: Any, **options: Any) -> Module:
        """The module that the function is for these arguments, before any pass."""
        dynamic, statics = self._split(arguments, options)
        leaves, structure = flatten(dynamic)
        return self._trace(structure, [_kind(leaf) for leaf in leaves], statics).module()

    def executable(self, *arguments: Any, **options: Any) -> Executable:
        """What a call with these arguments runs.  Arrays that the function closes over may follow the arguments."""
        dynamic, statics = self._split(arguments, options)
        leaves, structure = flatten(dynamic)
        return self._compiled(structure, leaves, [_kind(leaf) for leaf in leaves], statics).executable

    def _late_quick(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call with arrays alone whose types and sizes came before; `MISS` for another one."""
        given = _plain_arrays(arguments)
        if options or given is None:
            return MISS
        known = self._ready.get(given[1])
        if known is None or not unchanged(known[0].reads):
            return MISS
        return known[1](given[0])

    # ---- the long way

    def _call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        dynamic, statics = self._split(arguments, options)
        leaves, structure = flatten(dynamic)
        kinds = [_kind(leaf) for leaf in leaves]
        if STATE.trace is not None:
            traced = self._trace(structure, kinds, statics)
            found = call_computation(traced.computation, [*map(concrete, leaves), *traced.captured])
            made = (Array(one._value, one._trace, weak) for one, weak in zip(found, traced.weak, strict=True))
            return unflatten(traced.structure, made)
        values = [_value(leaf) for leaf in leaves]
        if self._late:
            return self._run_late(structure, leaves, kinds, statics, values)
        compiled = self._compiled(structure, leaves, kinds, statics)
        if self._simple:
            self._quick = compiled.quick
        results = compiled(values)
        for number in compiled.donated:
            if isinstance(leaves[number], Array):
                leaves[number]._value = _DONATED
        return results

    def _split(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, Any], Any]:
        """Arguments that are arrays, and those that are constants of the program."""
        if not (self._static_numbers or self._static_names):
            return (arguments, options), ()
        numbers = {n if n >= 0 else n + len(arguments) for n in self._static_numbers}
        statics: list[tuple[Any, Any]] = [(n, value) for n, value in enumerate(arguments) if n in numbers]
        statics += [(name, value) for name, value in sorted(options.items()) if name in self._static_names]
        dynamic = tuple(value for n, value in enumerate(arguments) if n not in numbers)
        return (dynamic, {k: v for k, v in options.items() if k not in self._static_names}), tuple(statics)

    def _compiled(
        self, structure: Structure, leaves: Sequence[Any], kinds: list[_Kind], statics: Any
    ) -> _Compiled:
        _check_leaves(leaves)
        signature = _Signature(structure, tuple(kinds), tuple((where, self._key(where, one)) for where, one in statics))
        known = self._known.get(signature)
        if known is None or not unchanged(known.reads):
            reason = self._reason(signature, self._known)
            traced = self._trace(structure, kinds, statics)
            donated = self._donated(structure, statics)
            executable = compile_or_recall(traced.module(), donated)
            overwritten = tuple(sorted(set(executable.donated.values())))
            quick = (
                quick_call(structure, kinds, executable.run, traced.captured, traced.reads, traced.structure)
                if self._simple
                else None
            )
            known = self._known[signature] = _Compiled(
                executable, traced.captured, traced.reads, traced.structure, overwritten, quick
            )
            self._compilations += 1
            _LAST.text = reason
        return known

    def _run_late(
        self, structure: Structure, leaves: Sequence[Any], kinds: list[_Kind], statics: Any, values: Sequence[Any]
    ) -> Any:
        """A call of a function that is compiled once for many sizes."""
        from hlotool.numpy.late import LatePrograms, axes_of

        _check_leaves(leaves)
        axes = axes_of(self._late, structure, kinds, self._positional_names(statics))
        sizes = tuple([kinds[axis.leaf][1][axis.dimension] for axis in axes])
        bounds = tuple([axis.bound(size) for axis, size in zip(axes, sizes, strict=True)])
        keys = tuple((where, self._key(where, one)) for where, one in statics)
        signature = _Signature(structure, tuple(_resized(kinds, axes, bounds)), keys)
        programs = self._families.get(signature)
        if programs is None or not unchanged(programs.reads):
            new = self._reason(signature, self._families)

            def compiled(why: str) -> None:
                _LAST.text = self._head() + why if made.generals else f"{new}; {why}"
                self._compilations += 1

            programs = made = LatePrograms(
                self._name, tuple(axes), bounds,
                lambda given: self._trace_uniform(structure, _resized(kinds, axes, given), statics), compiled,
            )  # fmt: skip
            self._families[signature] = programs
        found = programs(sizes, values)
        positional, named = unflatten(structure, leaves)
        given = None if statics or named else _plain_arrays(positional)
        if given is not None:
            self._ready[given[1]] = programs, programs.known[sizes]
            if len(self._ready) > _MOST_SIZES:
                self._ready.clear()
        return found

    def _trace_uniform(self, structure: Structure, kinds: Sequence[_Kind], statics: Any) -> Traced:
        before, STATE.uniform = STATE.uniform, True
        try:
            return self._trace(structure, kinds, statics)
        finally:
            STATE.uniform = before

    def _positional_names(self, statics: Any) -> list[str]:
        """Names of the arguments that are given by position and are no constants."""
        if self._signature is None:
            return []
        parameters = self._signature.parameters.values()
        names = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        gone = {where for where, _ in statics}
        return [name for n, name in enumerate(names) if n not in gone and name not in gone]

    def _key(self, where: Any, value: Any) -> Any:
        try:
            return frozen(value)
        except TypeError as error:
            raise type_error(
                f"static argument {where!r} of {self._name} is a {type(value).__name__}, which cannot be hashed",
                "give it as a tuple, or a frozen dataclass",
            ) from error

    def _trace(self, structure: Structure, kinds: Sequence[_Kind], statics: Any) -> Traced:
        def function(arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
            given = list(arguments)
            named = dict(options)
            for where, value in statics:
                if isinstance(where, int):
                    given.insert(where, value)
                else:
                    named[where] = value
            for leaf in flatten((arguments, options))[0]:
                leaf._whole = _the_callers
            return self._function(*given, **named)

        depth = getattr(self._depth, "now", 0)
        if depth >= _DEEPEST:
            raise tracing_error(
                f"{self._name} calls itself without end while it is traced",
                "recursion must end by arguments that are static, not by values of arrays; use hlotool.while_loop",
            )
        self._depth.now = depth + 1
        try:
            return trace(function, *unflatten(structure, map(_stand_in, kinds)), name=_identifier(self._name))
        except RecursionError as error:
            raise tracing_error(f"{self._name} calls itself too deeply while it is traced") from error
        finally:
            self._depth.now = depth

    def _donated(self, structure: Structure, statics: Any) -> tuple[int, ...]:
        """Numbers of the leaves of the donated arguments."""
        if not self._donate:
            return ()
        positions = {where for where, _ in statics}
        arguments = structure[2][2:]
        given = [n for n in range(len(arguments) + len(positions)) if n not in positions]
        numbers: list[int] = []
        first = 0
        for position, one in zip(given, arguments, strict=False):
            count = len(leaf_paths(one))
            if position in self._donate:
                numbers += range(first, first + count)
            first += count
        return tuple(numbers)

    def _head(self) -> str:
        file, line = user_place()
        return f"{self._name} was compiled for the call at {file}:{line}: "

    def _reason(self, new: _Signature, known: Iterable[_Signature]) -> str:
        """What of the arguments is not as it was for any program so far, compared with the one most like it."""
        least: list[str] = min([_differences(old, new) for old in known], key=len, default=["it was the first"])
        if not least:
            least = ["an array that the function reads was assigned to"]
        return self._head() + "; ".join(least)


class _Caller:
    """Who has the arguments of a traced function."""


_CALLER = _Caller()


def _the_callers() -> object:
    return _CALLER


class _Donated:
    """What is left of an array that was donated."""

    def __getattr__(self, name: str) -> Any:
        raise value_error(
            "the array was donated to a function (donate_argnums), which has overwritten it",
            "use the array that the function returned",
        )


_DONATED = _Donated()


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # a builtin
        return None


def _both(
    signature: inspect.Signature | None, numbers: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments by position and by name, whichever way each is passed."""
    if signature is None:
        return numbers, names
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    unknown = [name for name in names if name not in signature.parameters]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise value_error(f"static_argnames: there is no argument {unknown[0]!r}; arguments are {positional}")
    for number in numbers:
        if not open_ended and not -len(positional) <= number < len(positional):
            raise value_error(f"static_argnums: there is no argument {number}; there are {len(positional)}")
    found = {n if n >= 0 or open_ended else n + len(positional) for n in numbers}
    found |= {positional.index(name) for name in names if name in positional}
    both = {positional[n] for n in found if 0 <= n < len(positional)} | set(names)
    return tuple(sorted(found)), tuple(sorted(both))


def _kind(leaf: Any) -> _Kind:
    if isinstance(leaf, Array):
        if leaf._weak:
            return {"b": bool, "i": int, "f": float, "c": complex}[leaf.dtype.kind]
        return leaf.dtype, leaf.shape
    if is_scalar(leaf):
        return type(leaf) if type(leaf) in (bool, int, float, complex) else type(leaf).__mro__[-2]
    if isinstance(leaf, (numpy.ndarray, numpy.generic)) or hasattr(type(leaf), "__array__"):
        value = concrete(leaf)._value
        return value.dtype, value.shape
    raise type_error(
        f"an argument is a {type(leaf).__name__}, and no array, number or container of these",
        "make it static (static_argnums, static_argnames), a dataclass, or register its class "
        "(hlotool.numpy.pytree.register)",
    )


def _plain_arrays(arguments: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]] | None:
    """The NumPy arrays of arguments that are arrays, and their types and shapes; None where one is something else."""
    values: list[Any] = []
    key: list[Any] = []
    for one in arguments:
        if type(one) is Array and one._trace is None and not one._weak:
            one = one._value
        elif type(one) is not numpy.ndarray:
            return None
        values.append(one)
        key += (one.dtype, one.shape)
    return values, tuple(key)


def _check_leaves(leaves: Iterable[Any]) -> None:
    for leaf in leaves:
        if isinstance(leaf, Array) and leaf._trace is not None:
            raise leaked(leaf)


def _resized(kinds: Sequence[_Kind], axes: Sequence[Axis], sizes: Sequence[int]) -> list[_Kind]:
    """Kinds of leaves with other sizes along some axes."""
    found = list(kinds)
    for axis, size in zip(axes, sizes, strict=True):
        dtype, shape = found[axis.leaf]
        found[axis.leaf] = dtype, (*shape[: axis.dimension], size, *shape[axis.dimension + 1 :])
    return found


def _stand_in(kind: _Kind) -> Shape | Weak:
    if isinstance(kind, type):
        return Weak(array(hlo_type(dtype_of_value(kind()))))
    return array(hlo_type(kind[0]), kind[1])


def _value(leaf: Any) -> Any:
    return numpy.asarray(leaf, dtype_of_value(leaf)) if is_scalar(leaf) else concrete(leaf)._value


def _written(kind: _Kind) -> str:
    return f"a Python {kind.__name__}" if isinstance(kind, type) else f"{kind[0]}{list(kind[1])}"


def _differences(old: _Signature, new: _Signature) -> list[str]:
    found = []
    if old.structure != new.structure:
        found.append("the arguments are other containers")
    else:
        paths = leaf_paths(new.structure)
        for path, before, now in zip(paths, old.kinds, new.kinds, strict=True):
            if before != now:
                found.append(f"{_argument(path)} was {_written(before)} and is {_written(now)}")
    if old.statics != new.statics:
        before_all, now_all = dict(old.statics), dict(new.statics)
        for where in [*before_all, *(one for one in now_all if one not in before_all)]:
            if before_all.get(where) != now_all.get(where):
                found.append(f"static argument {where!r} has another value")
    return found


def _argument(path: str) -> str:
    """``[0][2]['w']``, the path in (arguments, options), as a user knows it."""
    place, _, rest = path[3:].partition("]")
    return f"argument {place[1:]}{rest}"


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in name.rpartition(".")[2].strip("<>"))
    return text if text and not text[0].isdigit() else f"f_{text}"


def _numbers(given: int | Iterable[int] | None, what: str) -> tuple[int, ...]:
    if given is None:
        return ()
    found = (given,) if isinstance(given, int) else tuple(given)
    if not all(isinstance(one, int) for one in found):
        raise type_error(f"{what}: expected numbers of arguments, not {found}")
    return found


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    dynamic: Mapping[str | int, Mapping[int, int]] | None = None,
    bucket: Mapping[str | int, Mapping[int, Any]] | None = None,
) -> Any:
    """Compile `function`: it is traced once for each kind of arguments, and from then on its program runs.

    Arguments and results are arrays (of this package, NumPy's, Python numbers) and containers of them: tuples, lists,
    dictionaries, None, dataclasses.  Results are arrays of this package.  Programs differ by the structure of the
    containers, the shapes and types of arrays, and the values of static arguments, which the function sees as they are.
    A Python number is an argument like others; its type gives way to that of the arrays it meets.

    Arrays of this package that the function closes over are constants, and the function is compiled again when one was
    assigned to; such an array, or a NumPy array that can be written to, is read anew with each call from then on.  All
    else outside of the arguments is as it was when the function was traced.

    Arrays of the arguments `donate_argnums` are given up: results may be written over them.

    ``dynamic={"x": {0: 64}}`` compiles one program for all sizes up to 64 of the first axis of the argument ``x`` (or
    of all arrays in it); ``bucket={"x": {0: (16, 64)}}`` one for sizes up to 16 and one for those up to 64, and
    ``"powers of two"`` as many as there are.  Results have the size that they have without.  The function is traced for
    several sizes at first, and once for every size that is new; a size for which it does something else (often 0 or 1)
    has a program of its own, and a function that does something else for each size is refused, with the line that does.
    `explain_last` says what was compiled and why.
    """
    if function is None:
        return partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            dynamic=dynamic, bucket=bucket,
        )  # fmt: skip
    if not callable(function):
        raise type_error(f"jit takes a function, not a {type(function).__name__}")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames or ())
    numbers = _numbers(static_argnums, "static_argnums")
    late: tuple[SizeSpec, ...] = ()
    if dynamic is not None or bucket is not None:
        from hlotool.numpy.late import size_spec

        late = size_spec(dynamic, bucket)
    donated = _numbers(donate_argnums, "donate_argnums")
    if late and donated:
        raise value_error("donate_argnums cannot go with dynamic= or bucket=: arrays are padded before they are used")
    made = Jitted(function, numbers, names, donated, late)
    for one in late:
        made.check_argument(one.argument)
    return made
