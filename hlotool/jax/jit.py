"""``hlotool.jax.jit``: functions of JAX, compiled by hlotool when they are called.

A call looks for the program of its arguments in three steps, each slower than the one before.  Where arrays are all
that the last call took, and all that this one is given, compiled code looks at them and runs.  Where arguments are
trees, so it is with their leaves.  Else every leaf is looked at in Python, converted, and the function traced, lowered
and compiled for what was not seen before; one call in many goes that way to have its time taken.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from operator import attrgetter
from time import perf_counter
from traceback import walk_tb
from typing import Any, TypeVar, overload

import jax
import jax.extend.source_info_util
import numpy as np
from jax.tree_util import tree_flatten, tree_map, tree_structure, tree_unflatten

from hlotool.ir import UnsupportedError
from hlotool.jax import calls
from hlotool.jax.traced import Program, as_array, is_key, key_implementation
from hlotool.lazy_dataclass import dataclass

__all__ = ["jit"]

_F = TypeVar("_F", bound=Callable[..., Any])

_LOWERING = [
    name
    for name in (
        "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
        "jax_threefry_partitionable", "jax_default_prng_impl", "jax_softmax_custom_jvp", "jax_disable_jit",
        "jax_debug_nans", "jax_debug_infs",
    )
    if hasattr(jax.config, name)
]  # fmt: skip
"""What of jax's configuration changes the program that a function becomes."""

_settings = attrgetter(*_LOWERING)
_DEBUGGING = [_LOWERING.index(name) for name in ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs")]
_SCALARS = (bool, int, float, complex)
_TIMED = 1023
"""A run whose number has none of these bits is timed: one in 1024."""

jax.extend.source_info_util.register_exclusion(__file__)


class _Miss:
    """What compiled code gives for arguments that it does not take as they are."""


_MISS: Any = _Miss()


def _miss(*_: object) -> Any:
    return _MISS


@overload
def jit(
    function: _F,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    pipeline: str = "default",
    threads: int | None = None,
) -> _F: ...
@overload
def jit(
    function: None = None,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    pipeline: str = "default",
    threads: int | None = None,
) -> Callable[[_F], _F]: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    pipeline: str = "default",
    threads: int | None = None,
) -> Any:
    """`function`, compiled by hlotool for each new combination of types, shapes and static arguments.

    Arguments are trees of NumPy arrays, arrays of JAX and numbers of Python, results trees of NumPy arrays.  Static
    arguments are part of the program, as those of ``jax.jit`` are.  Donated ones may be overwritten: NumPy arrays that
    were given for them may hold results afterwards.  `pipeline` and `threads` are those of `hlotool.compile`.

    Under transformations of JAX (``grad``, ``vmap``, ``scan``, ``jax.jit``) it becomes one call of compiled code, and
    so do its derivatives; inside of another function of ``hlotool.jax.jit``, a part of that.  What hlotool cannot
    compile jax runs, which is said once (``HLOTOOL_FALLBACK``) and listed by `hlotool.jax.explain`.

    The function that is returned also has ``program(*args, **kwargs)``, the `Program` of such arguments, whose
    ``executable`` and its ``module`` are to look at, and ``clear_cache()``.
    """
    if function is None:
        return partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, pipeline=pipeline, threads=threads,
        )  # fmt: skip
    if not callable(function):
        raise TypeError(f"hlotool.jax.jit: expected a function, not a {type(function).__name__}")
    static = _Chosen.of(function, static_argnums, static_argnames)
    donated = _Chosen.of(function, donate_argnums, donate_argnames)
    return _jitted(_Compiler(function, static, donated, pipeline, threads))


def _jitted(compiler: _Compiler) -> Callable[..., Any]:
    """What calls go through; everything in here is on the way of every call."""
    plain, trees, config, plain_arguments = compiler.plain, compiler.trees, jax.config, not compiler.static

    @wraps(compiler.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        settings = _settings(config)
        if plain_arguments and not kwargs:
            found = plain.get(settings)
            if found is not None and found.record.runs & _TIMED:
                results = found.run(*args)
                if results is not _MISS:
                    found.record.runs += 1
                    return results[0] if found.single else tree_unflatten(found.results, results)
            leaves, tree = tree_flatten((args, kwargs))
            found = trees.get((tree, settings))
            if found is not None and found.record.runs & _TIMED:
                results = found.run(*leaves)
                if results is not _MISS:
                    found.record.runs += 1
                    return results[0] if found.single else tree_unflatten(found.results, results)
        return compiler.call(args, kwargs, settings)

    call.program = compiler.program  # type: ignore[attr-defined]
    call.clear_cache = compiler.clear  # type: ignore[attr-defined]
    return call


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Some of a function's arguments, by place (from the end where negative) and name."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)

    @staticmethod
    def of(function: Callable[..., Any], numbers: Any, names: Any) -> _Chosen:
        """As jax does it: where only places or only names are given, the function's signature has the others."""
        places = () if numbers is None else tuple(numbers) if isinstance(numbers, (tuple, list)) else (numbers,)
        words = () if names is None else (names,) if isinstance(names, str) else tuple(names)
        if not all(isinstance(place, int) for place in places):
            raise TypeError(f"{_where(function)}: argument numbers are integers, not {numbers!r}")
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return _Chosen(places, words)
        by_place = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        kinds = {p.kind for p in parameters}
        for word in words:
            if word not in {p.name for p in parameters} and inspect.Parameter.VAR_KEYWORD not in kinds:
                raise ValueError(f"{_where(function)}: no argument is called {word!r}")
        for place in places:
            if not -len(by_place) <= place < len(by_place) and inspect.Parameter.VAR_POSITIONAL not in kinds:
                raise ValueError(f"{_where(function)}: it has {len(by_place)} arguments, none of them number {place}")
        if names is None:
            named = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
            inside = [place for place in places if -len(by_place) <= place < len(by_place)]
            words = tuple(by_place[place] for place in inside if by_place[place] in named)
        elif numbers is None:
            places = tuple(by_place.index(word) for word in words if word in by_place)
        return _Chosen(places, words)

    def places(self, count: int) -> set[int]:
        """Which of `count` arguments by place are chosen."""
        return {n % count for n in self.numbers if -count <= n < count}


@dataclass(slots=True, eq=False)
class _Ready:
    """A program with what a call of it needs.

    `run` is compiled code, which gives `_MISS` for what does not fit; None where every call takes the long way.
    `dtypes` are those of parameters, None for keys; `keys` says which results are such, and how they make numbers.
    """

    program: Program
    results: Any
    single: bool
    dtypes: list[Any]
    keys: dict[int, str]
    run: Any
    record: Any


class _Compiler:
    """The programs of one function."""

    def __init__(
        self, function: Callable[..., Any], static: _Chosen, donated: _Chosen, pipeline: str, threads: int | None
    ) -> None:
        self.function = function
        self.static = static
        self.plain: dict[Any, _Ready] = {}
        self.trees: dict[Any, _Ready] = {}
        self._donated = donated
        self._options = {"pipeline": pipeline, "threads": threads}
        self._programs: dict[Any, _Ready] = {}
        self._lock = threading.RLock()
        self._name = getattr(function, "__name__", type(function).__name__)

        @wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:  # its own: what jax keeps of `function` was lowered for jax
            return function(*args, **kwargs)

        chosen = {"static_argnums": static.numbers or None, "static_argnames": static.names or None}
        self._tracing = jax.jit(traced, keep_unused=True, **chosen)
        self._stock = jax.jit(function, **chosen)

    def clear(self) -> None:
        """Forget all programs."""
        for programs in (self.plain, self.trees, self._programs):
            programs.clear()
        self._tracing.clear_cache()
        self._stock.clear_cache()

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program that a call with such arguments runs; shapes and types of arrays are enough."""
        return self._ready(*self._looked_at(args, kwargs, _settings(jax.config)), args, kwargs).program

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], settings: tuple[Any, ...]) -> Any:
        """The long way."""
        if any(settings[number] for number in _DEBUGGING):
            return self._by_jax(args, kwargs)
        key, leaves = self._looked_at(args, kwargs, settings)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._staged(key, leaves, args, kwargs)
        try:
            ready = self._ready(key, leaves, args, kwargs)
        except _CapturedError:
            return self._staged(None, leaves, args, kwargs)
        executable = ready.program.executable
        if executable is None:
            with _Timed(ready.record):
                return self._by_jax(args, kwargs)
        if ready.run is not _miss and not self.static:
            if not kwargs and len(args) == len(leaves) and all(isinstance(leaf, np.ndarray) for leaf in args):
                self.plain[settings] = ready
            self.trees[key[0], settings] = ready
        with _Explained(self.function):
            arrays = [as_array(leaf, dtype) for leaf, dtype in zip(leaves, ready.dtypes, strict=True)]
        for number in executable.donated.values():
            if not arrays[number].flags.writeable or not arrays[number].flags.c_contiguous:
                arrays[number] = np.array(arrays[number])  # an array of JAX, which others may read
        with _Timed(ready.record):
            found: list[Any] = [*executable.run(*arrays)]
        for number, implementation in ready.keys.items():
            found[number] = jax.random.wrap_key_data(found[number], impl=implementation)
        return tree_unflatten(ready.results, found)

    def _by_jax(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with _Explained(self.function):
            return tree_map(_numpy, self._stock(*args, **kwargs))

    def _looked_at(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], settings: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """What the program depends on, beginning with the structure of the arguments, and their leaves."""
        statics: tuple[Any, ...] = ()
        dynamic, named = args, kwargs
        if self.static:
            places = self.static.places(len(args))
            statics = tuple((n, type(args[n]), args[n]) for n in sorted(places))
            words = sorted({*self.static.names} & kwargs.keys())
            statics += tuple((word, type(kwargs[word]), kwargs[word]) for word in words)
            dynamic = tuple(value for n, value in enumerate(args) if n not in places)
            named = {word: value for word, value in kwargs.items() if word not in words}
            for which, _, value in statics:
                try:
                    hash(value)
                except TypeError as error:
                    raise ValueError(
                        f"{_where(self.function)}: static argument {which!r} has to be hashable, "
                        f"which a {type(value).__name__} is not: {error}"
                    ) from error
        with _Explained(self.function):
            leaves, tree = tree_flatten((dynamic, named))
        return (tree, settings, statics, tuple(_described(leaf) for leaf in leaves)), leaves

    def _ready(
        self, key: tuple[Any, ...], leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Ready:
        """The program for `key`, made where there is none.  _CapturedError where it depends on values being traced."""
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = self._programs[key] = self._made(len(leaves), args, kwargs)
        return found

    def _made(self, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Ready:
        with _Explained(self.function):
            traced = self._tracing.trace(*args, **kwargs)
        if len(traced.jaxpr.in_avals) != count:
            raise _CapturedError
        program = Program(traced, self._name, self._donated_leaves(args, kwargs), **self._options)  # type: ignore[arg-type]
        results = tree_structure(traced.out_info)
        keys: dict[int, str] = {}
        run: Any = _miss
        executable = program.executable
        if executable is not None:
            outs = enumerate(program.jaxpr.out_avals)
            keys = {n: key_implementation(aval.dtype) for n, aval in outs if is_key(aval.dtype)}
            if executable.entry is not None and not keys:
                run = executable.entry.function(executable.image is None or executable.image.releases_gil, _miss)
        dtypes = [None if is_key(aval.dtype) else aval.dtype for aval in program.jaxpr.in_avals]
        single = results == tree_structure(0)
        return _Ready(program, results, single, dtypes, keys, run, program.record)

    def _donated_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
        """The numbers of leaves that may be overwritten."""
        if not self._donated:
            return []
        static, donated = self.static.places(len(args)), self._donated.places(len(args))
        marks: list[bool] = []
        for number, value in enumerate(args):
            if number not in static:
                marks += [number in donated] * len(tree_flatten(value)[0])
        for word in sorted(kwargs):
            if word not in self.static.names:
                marks += [word in self._donated.names] * len(tree_flatten(kwargs[word])[0])
        return [number for number, mark in enumerate(marks) if mark]

    def _staged(
        self, key: tuple[Any, ...] | None, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Under a transformation: one call of a program, which transformations know how to go through."""
        try:
            if key is None:
                raise _CapturedError
            with self._lock:
                found = self._programs.get((key, "staged"))
                if found is None:
                    found = self._programs[key, "staged"] = self._made_to_stage(len(leaves), args, kwargs)
        except _CapturedError:
            with _Explained(self.function):  # what it captured is known to jax alone
                return self._stock(*args, **kwargs)
        if found.program.jaxpr.effects:
            with _Explained(self.function):
                return self._stock(*args, **kwargs)
        return tree_unflatten(found.results, calls.bind(found.program, leaves))

    def _made_to_stage(self, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Ready:
        with _Explained(self.function):
            traced = self._tracing.trace(*args, **kwargs)
        if len(traced.jaxpr.in_avals) != count:
            raise _CapturedError
        program = Program(traced, self._name, **self._options)  # type: ignore[arg-type]
        return _Ready(program, tree_structure(traced.out_info), False, [], {}, _miss, program.record)


class _CapturedError(Exception):
    """A function uses values of a transformation around it, which it was not given."""


class _Timed:
    """Counts a run, and takes its time."""

    __slots__ = ("_record", "_start")

    def __init__(self, record: Any) -> None:
        self._record = record

    def __enter__(self) -> None:
        self._record.runs += 1
        self._start = perf_counter()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._record.timed += 1
            self._record.run_seconds += perf_counter() - self._start


class _Explained:
    """Errors that are raised while a function is traced say where it stands, and which of its lines they are from."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, Exception) or isinstance(error, UnsupportedError):
            return
        note = f"hlotool.jax.jit: in {_where(self._function)}"
        code = getattr(inspect.unwrap(self._function), "__code__", None)
        lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(trace) if frame.f_code is code]
        if lines:
            note += f", at line {lines[-1][1]}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _where(function: Callable[..., Any]) -> str:
    """``step (train.py:12)``."""
    plain = inspect.unwrap(function)
    while isinstance(plain, partial):
        plain = inspect.unwrap(plain.func)
    name = getattr(plain, "__name__", type(plain).__name__)
    code = getattr(plain, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _described(leaf: Any) -> Any:
    """What of an argument the program depends on."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype, leaf.shape, False
    if type(leaf) in _SCALARS:
        return type(leaf)
    if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
        return leaf.dtype, leaf.shape, bool(getattr(leaf, "weak_type", False))
    if isinstance(leaf, np.generic):
        return leaf.dtype, (), False
    return type(leaf)


def _numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_key(leaf.dtype) else leaf
