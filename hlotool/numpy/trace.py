"""Tracing: the computation that is being written while a Python function runs.

At most one trace is active in a thread; all functions of the namespace write into it.  A trace inside of another one
(the body of a loop) reads values of those around it: they become operands, after its own parameters.

Concrete arrays become constants when they cannot change: arrays of this package, and NumPy arrays that cannot be
written to, up to `CONSTANT_BYTES`.  All others become operands too.  Whoever calls what was traced hands them over
again with each call, so that what a NumPy array holds then is what counts.  An array that is assigned to later has
another value from then on, and `Traced.reads` says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy

from hlotool.ir import Computation, HloError, Instruction, Metadata, Module, Shape, array, clone_computation, dtype_of
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array, concrete
from hlotool.numpy.dtypes import dtype_of_value, hlo_type
from hlotool.numpy.errors import tracing_error, type_error, user_place, value_error
from hlotool.numpy.pytree import Structure, flatten, unflatten

__all__ = [
    "CONSTANT_BYTES",
    "STATE",
    "Trace",
    "Traced",
    "Weak",
    "active",
    "adopt",
    "apply",
    "finish",
    "is_scalar",
    "leaked",
    "module_of",
    "shape_of",
    "trace",
    "tracing",
    "unchanged",
]

CONSTANT_BYTES = 1 << 20

_SCALARS = (bool, int, float, complex)


class State(threading.local):
    trace: Trace | None = None
    origin: Metadata | None = None  # of new instructions, where they come from a model and not from a line of Python
    uniform = False  # write what does nothing, too, so that modules for several sizes are alike


STATE = State()


class Weak:
    """What stands for a Python number among the arguments: an array without dimensions whose type gives way."""

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape


class Trace:
    """A computation under construction, and what it reads of those around it."""

    __slots__ = ("_constants", "assigned", "builder", "captured", "done", "parent", "place", "reads")

    def __init__(self, name: str, parent: Trace | None) -> None:
        self.builder = Builder(Computation(name))
        self.parent = parent
        self.captured: dict[int, tuple[Array, Instruction]] = {}
        self.place = user_place()
        self.done = False
        self._constants: dict[int, tuple[Any, Instruction]] = {}
        self.assigned: list[tuple[ref[Array], Any, Exception]] = []
        self.reads: list[tuple[ref[Array], Any]] = [] if parent is None else parent.reads

    def parameter(self, shape: Shape, weak: bool = False, name: str = "") -> Array:
        """A new parameter."""
        number = len(self.builder.computation.parameters)
        return Array(self.builder.parameter(number, shape, name), self, weak)

    def lift(self, value: Array) -> Instruction:
        """`value` as an instruction of this trace."""
        if value._trace is self:
            return value._value  # type: ignore[no-any-return] # of traced arrays these are instructions
        if value._trace is None:
            held = value._value
            found = self._constants.get(id(held))
            if found is not None:
                return found[1]
            if held.nbytes <= CONSTANT_BYTES and not value._mutable:
                self.reads.append((ref(value), held))
                made = self.builder.constant(held)
                self._constants[id(held)] = held, made
                return made
        elif not self._is_inside(value._trace):
            raise leaked(value)
        known = self.captured.get(id(value._value))
        if known is None:
            known = value, self.parameter(shape_of(value))._value
            self.captured[id(value._value)] = known
        return known[1]

    def assign(self, array: Array, value: Array) -> None:
        """`array` becomes `value`, in this trace."""
        if array._trace is not self:
            error = tracing_error(
                "an array is assigned to in a traced function (or the body of a loop or branch) that it comes from "
                "outside of; there, it would stay as it is",
                "give it as an argument, or assign to a copy (x = x.copy()), and return it",
            )
            if array._trace is not None:
                raise error
            self.assigned.append((ref(array), array._value, error))  # it may have been made in here
        array._value, array._trace, array._weak, array._mutable = self.lift(value), self, False, False

    def close(self) -> Exception | None:
        """The trace ends: arrays from outside that were assigned to are as they were.  An error if there are any."""
        self.done = True
        found = None
        for place, before, error in reversed(self.assigned):
            array = place()
            if array is not None:
                array._value, array._trace, found = before, None, error
        self.assigned.clear()
        return found

    def _is_inside(self, other: Trace) -> bool:
        trace = self.parent
        while trace is not None and trace is not other:
            trace = trace.parent
        return trace is not None

    def add(
        self,
        opcode: str,
        operands: Sequence[Array],
        attributes: Mapping[str, Any] | None = None,
        shape: Shape | None = None,
        weak: bool = False,
    ) -> Array:
        """An instruction, with the line of the user's program that asked for it."""
        try:
            made = self.builder.add(opcode, shape, [self.lift(one) for one in operands], attributes)
        except HloError as error:
            if isinstance(error, (TypeError, ValueError)):
                raise
            raise value_error(str(error)) from error
        if STATE.origin is not None:
            made.metadata = STATE.origin
            return Array(made, self, weak)
        file, line = user_place()
        if file:
            made.metadata = Metadata(op_name=opcode, source_file=file, source_line=line)
        return Array(made, self, weak)


def leaked(value: Array) -> Exception:
    origin = value._trace
    assert origin is not None
    file, line = origin.place
    name = origin.builder.computation.name
    ended = "has ended" if origin.done else "does not surround this one"
    return tracing_error(
        f"a value of the traced function {name} is used where it does not exist: the trace that began at {file}:{line} "
        f"{ended}",
        "return the value from the function instead of keeping it in a variable, attribute or list outside",
    )


def active() -> Trace | None:
    """The trace that functions of the namespace write into."""
    return STATE.trace


@contextmanager
def tracing(name: str) -> Iterator[Trace]:
    """A new trace inside of the active one, active for a while."""
    before = STATE.trace
    made = Trace(name, before)
    STATE.trace = made
    try:
        yield made
    except BaseException:
        made.close()
        raise
    finally:
        STATE.trace = before
    error = made.close()
    if error is not None:
        raise error


def shape_of(value: Any) -> Shape:
    """The HLO shape of an array or Python number; TypeError for what is neither."""
    if isinstance(value, Array):
        held = value._value
        return held.shape if value._trace is not None else array(hlo_type(held.dtype), held.shape)
    if isinstance(value, (Shape, Weak)):
        return value.shape if isinstance(value, Weak) else value
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return array(hlo_type(value.dtype), value.shape)
    if isinstance(value, _SCALARS):
        return array(hlo_type(dtype_of_value(value)))
    raise type_error(
        f"a value of type {type(value).__name__} is no array",
        "pass it as a static argument (static_argnums, static_argnames) or make it a container: "
        "hlotool.numpy.pytree.register",
    )


def is_scalar(value: Any) -> bool:
    """Whether it is one of Python's numbers, whose type gives way to that of arrays."""
    return isinstance(value, _SCALARS) and not isinstance(value, numpy.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What a function came to.

    The parameters of `computation` are the leaves of the arguments and then the `captured` values; its root is a tuple
    of the leaves of the result, whose structure is `structure`.  `weak` says which of these are Python numbers.
    `reads` are arrays that have become constants, and what they held.
    """

    computation: Computation
    structure: Structure
    captured: tuple[Array, ...]
    weak: tuple[bool, ...]
    reads: tuple[tuple[Array, Any], ...] = ()

    @property
    def outputs(self) -> tuple[Shape, ...]:
        return self.computation.root.shape.elements

    def module(self) -> Module:
        """A module with the computation as its entry; it takes the computation over."""
        return module_of(self.computation)


def trace(function: Callable[..., Any], *arguments: Any, name: str | None = None) -> Traced:
    """Run `function` on traced values in the place of the leaves of `arguments`.

    A leaf is an array, a Python number, or a `Shape` or `Weak` that stands for one.
    """
    leaves, structure = flatten(arguments)
    with tracing(name or getattr(function, "__name__", "function").strip("<>")) as made:
        given = [made.parameter(shape_of(leaf), _is_weak(leaf)) for leaf in leaves]
        return finish(made, function(*unflatten(structure, given)))


def _is_weak(leaf: Any) -> bool:
    return leaf._weak if isinstance(leaf, Array) else isinstance(leaf, Weak) or is_scalar(leaf)


def finish(made: Trace, result: Any) -> Traced:
    """The trace ends with this result."""
    outputs, structure = flatten(result)
    found = [value if isinstance(value, Array) else concrete(value) for value in outputs]
    weak = tuple(map(_is_weak, outputs))
    computation = made.builder.computation
    computation.root = made.builder.tuple([made.lift(value) for value in found])
    captured = tuple(value for value, _ in made.captured.values())
    reads = [(place(), held) for place, held in made.reads] if made.parent is None else ()
    constants = tuple([(one, held) for one, held in reads if one is not None and one._value is held])
    return Traced(computation, structure, captured, weak, constants)


def unchanged(reads: Iterable[tuple[Array, Any]]) -> bool:
    """Whether arrays hold what they held when they became constants."""
    return all(one._value is held for one, held in reads)


def module_of(computation: Computation) -> Module:
    """A new module with this entry and all that it calls."""
    module = Module(computation.name)
    module.entry = computation
    for one in module.callees_first():
        module.add(one, entry=one is computation)
    return module


def adopt(module: Module) -> Computation:
    """The entry of a module as a computation that belongs to none, with copies of all that it calls."""
    copies: dict[Computation, Computation] = {}
    for one in module.callees_first():
        copies[one] = clone_computation(one, called=copies)
    return copies[module.entry]


def apply(
    opcode: str,
    *operands: Array,
    shape: Shape | None = None,
    weak: bool = False,
    **attributes: Any,
) -> Array:
    """One instruction in the active trace; its shape is inferred where it is not given."""
    made = STATE.trace
    if made is None:
        raise RuntimeError(f"{opcode}: no trace is active; functions of the namespace are wrapped by `operation`")
    return made.add(opcode, operands, attributes, shape, weak)


def zeros_like_shape(shape: Shape) -> numpy.ndarray[Any, Any]:
    """Zeros of an HLO shape."""
    return numpy.zeros(shape.dimensions, dtype_of(shape.element_type))
