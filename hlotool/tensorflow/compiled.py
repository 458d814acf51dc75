"""``hlotool.tensorflow.function``: what ``tf.function`` is, run by hlotool.

A program is made for each new combination of the arguments' structure, tensors' types and shapes, and values of
everything else: Python numbers are constants, as in ``tf.function``.  Within a graph of TensorFlow's, and where a
gradient tape records, the function is TensorFlow's own, so that graphs and gradients are what they should be: compile
the function that has the tape in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from threading import RLock
from time import perf_counter
from typing import Any

from hlotool.driver.fallback import fall_back, fallback_mode, reason_of
from hlotool.frontends.programs import Program, Programs
from hlotool.ir import HloError, InputError
from hlotool.lazy_dataclass import dataclass

try:
    import tensorflow as tf
    from tensorflow.python.eager import record
except ImportError as error:
    raise ImportError("hlotool.tensorflow needs TensorFlow: pip install 'hlotool[tensorflow]'") from error

import numpy as np

from hlotool.tensorflow.program import Compiled, ConstantArguments, build

__all__ = ["Function", "explain", "function"]

_PROGRAMS = Programs()
_INSTEAD = "TensorFlow runs it"


def explain() -> Programs:
    """What was compiled in this process, what was left to TensorFlow, and why; printing it shows the table."""
    return _PROGRAMS


@dataclass(slots=True)
class _Traced:
    """A program, or None where TensorFlow runs the function.

    `given` are the numbers of the arguments that it takes, `constants` of those whose values are in it.  `result` is
    what the function gave when it was traced, symbolic tensors among it, and `leaves` is that flattened.
    """

    compiled: Compiled | None
    record: Program
    given: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    result: Any = None
    leaves: tuple[Any, ...] = ()

    def packed(self, tensors: list[Any]) -> Any:
        """The tensors in the structure of the result."""
        if len(self.leaves) == 1 and self.leaves[0] is self.result:
            return None if self.result is None else tensors[0]
        found = iter(tensors)
        flat = [None if leaf is None else next(found) for leaf in self.leaves]
        return tf.nest.pack_sequence_as(self.result, flat, expand_composites=True)


class Function:
    """A Python function over tensors that runs as native code; the same arguments and results as ``tf.function``."""

    def __init__(self, function: Callable[..., Any], *, autograph: bool = True) -> None:
        self._function = function
        self._plain = tf.function(function, autograph=autograph)
        self._autograph = autograph
        self._programs: dict[Any, _Traced] = {}
        self._lock = RLock()
        self._name = getattr(function, "__name__", type(function).__name__)
        update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<hlotool.tensorflow.function {self._name}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Methods: the object is an argument that is compared by identity."""
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the function, as tensors in the structure that it returns."""
        if not tf.executing_eagerly() or record.could_possibly_record():
            return self._plain(*args, **kwargs)
        if not kwargs and all(isinstance(value, tf.Tensor) for value in args):  # the usual case, for which nest is slow
            structure: Any = len(args)
            tensors = list(args)
        else:
            leaves = tf.nest.flatten((args, kwargs))
            tensors = [tf.convert_to_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
            structure = repr(tf.nest.pack_sequence_as((args, kwargs), range(len(leaves))))
        key = (structure, *map(_kind, tensors))
        traced = self._programs.get(key)
        if traced is not None and traced.constants:
            key = (key, *(_value(tensors[number]) for number in traced.constants))
            traced = self._programs.get(key)
        if traced is None:
            traced = self._trace(key, tensors, (args, kwargs))
        if traced.compiled is None:
            return self._plain(*args, **kwargs)
        start = perf_counter()
        results = traced.compiled([tensors[number] for number in traced.given])
        traced.record.runs += 1
        traced.record.run_seconds += perf_counter() - start
        return traced.packed(results)

    def _trace(self, key: Any, leaves: list[Any], structure: Any) -> _Traced:
        """Make the program for a key, or find out why there is none."""
        with self._lock:
            if key in self._programs:
                return self._programs[key]
            record_ = _PROGRAMS.add(Program(self._name, _signature(leaves)))
            start = perf_counter()
            try:
                try:
                    found = self._build(leaves, structure, (), record_)
                except ConstantArguments:
                    found = self._with_constants(key, leaves, structure, record_)
            except (HloError, NotImplementedError) as error:
                record_.reason = reason_of(error)
                fall_back(f"{self._name} {record_.signature}", record_.reason, _INSTEAD, error)
                found = _Traced(None, record_)
            record_.compile_seconds = perf_counter() - start
            self._programs[key] = found
            return found

    def _with_constants(self, key: Any, leaves: list[Any], structure: Any, record_: Program) -> _Traced:
        """Integers become constants: TensorFlow does not say which of them shapes and axes depend on."""
        numbers = tuple(n for n, leaf in enumerate(leaves) if _is_tensor(leaf) and leaf.dtype.is_integer)
        try:
            found = self._build(leaves, structure, numbers, record_)
        except ConstantArguments:
            raise InputError("TensorFlow makes constants of tensors that the function captures") from None
        record_.note = "compiled for each value of its integer arguments: shapes depend on some of them"
        self._programs[(key, *(_value(leaves[number]) for number in numbers))] = found
        return found

    def _build(self, leaves: list[Any], structure: Any, constants: tuple[int, ...], record_: Program) -> _Traced:
        # TensorFlow makes constants of arrays without elements.
        given = tuple(n for n, x in enumerate(leaves) if _is_tensor(x) and n not in constants and 0 not in x.shape)
        seen: list[Any] = []
        function = self._function

        def arguments(tensors: tuple[Any, ...]) -> Any:
            values = [tf.constant(leaf) if _is_tensor(leaf) else leaf for leaf in leaves]
            for number, tensor in zip(given, tensors, strict=True):
                values[number] = tensor
            return tf.nest.pack_sequence_as(structure, values)

        def flat(result: Any) -> list[Any]:
            seen.append(result)
            found = tf.nest.flatten(result, expand_composites=True)
            return [tf.convert_to_tensor(leaf) for leaf in found if leaf is not None]

        ours = tf.autograph.experimental.do_not_convert(arguments), tf.autograph.experimental.do_not_convert(flat)

        def call(*tensors: Any) -> Any:
            args, kwargs = ours[0](tensors)
            return ours[1](function(*args, **kwargs))

        graph = tf.function(call, jit_compile=True, autograph=self._autograph)
        compiled = build(graph, [leaves[number] for number in given])
        found = tuple(tf.nest.flatten(seen[-1], expand_composites=True))
        return _Traced(compiled, record_, given, constants, seen[-1], found)


def function(f: Callable[..., Any] | None = None, *, autograph: bool = True) -> Any:
    """Compile a Python function over tensors; usable as ``@function`` and as ``@function(autograph=False)``.

    What TensorFlow makes no HLO of, or hlotool does not compile, TensorFlow runs: one line says so, or nothing, or an
    error (``HLOTOOL_FALLBACK=warn|silent|error``), and `explain` lists it.
    """
    fallback_mode()  # a wrong value is told at once
    if f is None:
        return partial(function, autograph=autograph)
    if not callable(f):
        raise InputError(f"hlotool.tensorflow.function: expected a function, not {type(f).__name__}")
    return Function(f, autograph=autograph)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tf.Tensor)


def _kind(leaf: Any) -> Any:
    """What a program depends on: type and shape of a tensor, else the value, or which object it is."""
    if _is_tensor(leaf):
        return leaf.dtype.as_datatype_enum, tuple(leaf.shape)
    if isinstance(leaf, tf.Variable):
        return leaf.ref()
    try:
        hash(leaf)
    except TypeError:
        raise InputError(
            f"hlotool.tensorflow.function: an argument is a {type(leaf).__name__}: neither a tensor nor a constant "
            "that can be hashed"
        ) from None
    return type(leaf), leaf


def _value(tensor: Any) -> Any:
    return tensor.numpy().tobytes()


def _signature(leaves: list[Any]) -> str:
    return "(" + ", ".join(_named(leaf) for leaf in leaves) + ")"


def _named(leaf: Any) -> str:
    if _is_tensor(leaf):
        return f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}]"
    return type(leaf).__name__ if isinstance(leaf, tf.Variable) else repr(leaf)[:40]
