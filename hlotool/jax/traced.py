"""A traced function of JAX on its way to an executable: its jaxpr, the module, what the compiler says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import PurePath
from time import perf_counter
from typing import Any

import jax
import jax.extend.source_info_util
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from hlotool.codegen.machine import Numerics
from hlotool.frontends.programs import Program as Record
from hlotool.ir import HloError, Module, UnsupportedError
from hlotool.jax.record import PROGRAMS
from hlotool.runtime.cache import default_cache
from hlotool.runtime.executable import Executable
from hlotool.runtime.recalled import Origin, Recalled, compiled_or_recalled
from hlotool.runtime.stored_programs import RECALLED

__all__ = ["Program", "as_array", "inlining", "is_key", "key_implementation", "structs"]

_KEY_IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


class _Thread(threading.local):
    inlines = False


_thread = _Thread()


def inlining() -> bool:
    """Whether this thread lowers a program for hlotool: functions that it calls become a part of it."""
    return _thread.inlines


@contextmanager
def _inlined() -> Iterator[None]:
    before, _thread.inlines = _thread.inlines, True
    try:
        yield
    finally:
        _thread.inlines = before


class Program:
    """One function of JAX for arguments of certain types.

    `jaxpr` has a variable per leaf of the arguments and of the results.  It is compiled when `executable` is asked
    for; that is None where the program is left to jax, which has been said then, and is recorded.
    """

    def __init__(
        self, traced: Any, name: str, donate: Sequence[int] = (), pipeline: str = "default", threads: int | None = None
    ) -> None:
        self.jaxpr: ClosedJaxpr = traced.jaxpr
        self.name = name
        self.derived: dict[Any, Any] = {}
        self.record = Record(name, _signature(traced.jaxpr), timed=0)
        self._traced = traced
        self._donate = tuple(donate)
        self._options: dict[str, Any] = {"pipeline": pipeline, "threads": threads}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.jaxpr.in_avals)} arguments, {len(self.jaxpr.out_avals)} results>"

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: Sequence[Any], name: str) -> Program:
        """The program of a function of arrays, which gives a sequence of arrays."""
        return cls(jax.jit(function, keep_unused=True).trace(*arguments), name)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The program as a function of JAX: from leaves to a list of leaves."""
        return jaxpr_as_fun(self.jaxpr)  # type: ignore[no-any-return]

    @cached_property
    def compiled_by_jax(self) -> Callable[..., Any]:
        """`function`, compiled by jax."""
        return jax.jit(self.function)  # type: ignore[no-any-return]

    @property
    def module(self) -> Module:
        """The program as HLO, as jax lowers it; HloError where jax gives none that can be read."""
        return self._module_of(self._lowered())

    def _lowered(self) -> Any:
        with _inlined():
            return self._traced.lower(lowering_platforms=("cpu",))

    def _module_of(self, lowered: Any) -> Module:
        from hlotool.text.proto import read_proto  # not needed for programs from the cache

        return read_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto(), self.name)

    @property
    def executable(self) -> Executable | None:
        """The program as hlotool runs it; None where jax does."""
        with self._lock:
            if "executable" not in self.derived:
                self.derived["executable"] = self._compiled()
        found: Executable | None = self.derived["executable"]
        return found

    def _compiled(self) -> Executable | None:
        start = perf_counter()
        modules: list[Module] = []
        error = None
        executable = None
        try:
            refuse_effects(self.jaxpr)
            executable = self._made(modules)
            self._check(executable)
            if isinstance(executable, Recalled):
                self.record.note = RECALLED
        except HloError as refused:
            error, executable = refused, None
        self.record.compile_seconds = perf_counter() - start
        PROGRAMS.add(self.record)
        if error is not None:
            from hlotool.driver.fallback import fall_back, reason_of

            module = modules[0] if modules else None
            self.record.reason = reason_of(error, module, lambda name: source_of(self.jaxpr, name))
            fall_back(self.name, self.record.reason, "jax runs it", error)
        return executable

    def _made(self, modules: list[Module]) -> Executable:
        """From the cache, or compiled; the module goes to `modules` where it is needed for that."""
        lowered = self._lowered()

        def module() -> Module:
            modules.append(self._module_of(lowered))
            return modules[-1]

        def compiled(module: Module) -> Executable:
            from hlotool.driver import compile_module

            # Subnormal numbers are zeros, as they are where JAX runs programs.
            return compile_module(module, donate=self._donate, flush_denormals=True, **self._options)

        if self._options["pipeline"] != "default" or default_cache() is None:
            return compiled(module())
        text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=False)
        parts = {
            "program": self.name, "content": sha256(text.encode()).hexdigest(), "donate": str(self._donate),
            "jaxlib": jax.lib.__version__,
        }  # fmt: skip
        numerics = Numerics(flush_denormals=True)
        origin = Origin(label=self.name, parts=parts, module=module, compile_=compiled, numerics=numerics)
        return compiled_or_recalled(origin, self._options["threads"])

    def _check(self, executable: Executable) -> None:
        """UnsupportedError where the executable takes or gives other leaves than the jaxpr."""
        if executable.devices > 1:
            raise UnsupportedError(f"it runs on {executable.devices} devices")
        counts = len(executable.parameters), len(executable.outputs)
        wanted = len(self.jaxpr.in_avals), len(self.jaxpr.out_avals)
        if counts != wanted:
            raise UnsupportedError(
                f"the module has {counts[0]} parameters and {counts[1]} results, "
                f"the function {wanted[0]} and {wanted[1]}"
            )
        for aval in self.jaxpr.out_avals:
            if is_key(aval.dtype):
                key_implementation(aval.dtype)


def refuse_effects(jaxpr: ClosedJaxpr) -> None:
    """UnsupportedError for a program that prints, calls back, or changes something."""
    if not jaxpr.effects:
        return
    equation = next((e for e in _equations(jaxpr.jaxpr) if e.effects and not [*_inside(e)]), None)
    what = "" if equation is None else f" [{equation.primitive}], written in {_place(equation)}"
    raise UnsupportedError(f"it has effects on the world outside of it{what}")


def _signature(jaxpr: ClosedJaxpr) -> str:
    """``(f32[3], i32[]) -> f32[3]``, and how many where that would be long."""
    sides = ([aval.str_short(short_dtypes=True) for aval in avals] for avals in (jaxpr.in_avals, jaxpr.out_avals))
    taken, given = (", ".join(side) if len(side) <= 6 else f"{len(side)} arrays" for side in sides)
    return f"({taken}) -> ({given})"


def source_of(jaxpr: ClosedJaxpr, instruction: str) -> str:
    """The line of the user's program for an instruction of its module, which jax names after the primitive."""
    primitive = instruction.partition(".")[0]
    return next((_place(e) for e in _equations(jaxpr.jaxpr) if str(e.primitive).strip("_") == primitive.strip("_")), "")


def _place(equation: Any) -> str:
    """``train.py:12`` for an equation."""
    text: str = jax.extend.source_info_util.summarize(equation.source_info).partition(" ")[0]
    file, _, rest = text.partition(":")
    return f"{PurePath(file).name}:{rest.partition(':')[0]}"


def _inside(equation: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, ClosedJaxpr):
                yield one.jaxpr
            elif hasattr(one, "eqns"):
                yield one


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inside(equation):
            yield from _equations(inner)


def is_key(dtype: Any) -> bool:
    """Whether arrays of this type are keys of random numbers."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def key_implementation(dtype: Any) -> str:
    """How keys of this type make numbers, for `jax.random.wrap_key_data`."""
    for name in _KEY_IMPLEMENTATIONS:
        if jax.eval_shape(lambda: jax.random.key(0, impl=name)).dtype == dtype:  # noqa: B023 (called at once)
            return name
    raise UnsupportedError(f"a result is of type {dtype}, keys of a kind that is not jax's own")


def structs(avals: Sequence[Any]) -> list[Any]:
    """What to trace with in place of values of these types."""
    return [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False)) for aval in avals
    ]


def as_array(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A leaf as NumPy array of the type that the program takes, which is None for keys."""
    if dtype is None:
        return np.asarray(jax.random.key_data(value))
    if type(value) is int:
        return np.array(value, dtype)  # OverflowError where it is too large, as in jax
    array = np.asarray(value)
    return array if array.dtype == dtype else array.astype(dtype)
