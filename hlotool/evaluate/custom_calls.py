"""Custom calls: handlers by target name, and how one is called.

A handler is a Python function ``handler(inputs, call) -> outputs`` over NumPy arrays in logical
(row-major) order, one per leaf.  The targets that XLA itself emits (`xla_calls`) are there without being registered,
and so are the LAPACK targets of JAX, which need SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hlotool.evaluate.backend_config import parse_backend_config
from hlotool.evaluate.custom_call import Array, CustomCall, Handler, Leaf
from hlotool.evaluate.lapack import lapack_handler, lies_by_columns
from hlotool.evaluate.lapack_before_ffi import handler_before_ffi
from hlotool.evaluate.tridiagonal import solve_perturbed
from hlotool.evaluate.values import Value, leaves_of, value_from_leaves
from hlotool.evaluate.xla_calls import XLA_CALLS, check_form
from hlotool.ir import (
    Computation,
    ExecutionError,
    HloError,
    Instruction,
    Shape,
    UnsupportedError,
    element_type,
    tuple_shape,
)

__all__ = [
    "Apply",
    "custom_call_handler",
    "custom_call_of",
    "is_registered",
    "register_custom_call",
    "run_custom_call",
    "unregister_custom_call",
]

Apply: TypeAlias = Callable[[Computation, Sequence[Value]], Value]
"""A computation and its arguments to the value of its root."""

_handlers: dict[str, Handler] = {}
_OF_JAX: dict[str, Handler] = {"tridiagonal_solve_perturbed_ffi": solve_perturbed}


def register_custom_call(target: str, handler: Handler, *, replace: bool = False) -> None:
    """Let `handler` serve custom calls of `target` in this process.

    It gets read-only arrays, which it may keep, and returns one array per output leaf, of exactly the dtype and shape
    that ``call.outputs`` lists.  Raises ValueError when the target has a handler already, unless `replace`.
    """
    if target in _handlers and not replace:
        raise ValueError(f"custom call {target!r} has a handler already; pass replace=True to change it")
    _handlers[target] = handler


def unregister_custom_call(target: str) -> None:
    """Forget the handler of `target`; KeyError when there is none."""
    del _handlers[target]


def is_registered(target: str) -> bool:
    """Whether the handler of `target` was registered, and is none of ours."""
    return target in _handlers


def custom_call_handler(target: str, name: str = "") -> Handler:
    """The handler of `target`: the registered one, else that of XLA's or JAX's own targets; UnsupportedError, naming
    the instruction `name`, when there is none."""
    handler = _handlers.get(target)
    if handler is None:
        handler = XLA_CALLS.get(target)
    if handler is None:
        handler = lapack_handler(target) or handler_before_ffi(target) or _OF_JAX.get(target)
    if handler is None:
        raise UnsupportedError(
            f"{name}: " * bool(name) + f"custom-call target {target!r} has no handler; "
            f"register one with hlotool.register_custom_call({target!r}, handler)"
        )
    return handler


def custom_call_of(instruction: Instruction, apply: Apply) -> CustomCall:
    """The description of a custom-call instruction, tuples flattened depth first.

    `apply` gives the root value of a computation on its arguments: handlers may call the computations.
    UnsupportedError where it is one of XLA's own in another form than XLA gives it, or one of LAPACK's whose matrices
    lie in memory as LAPACK does not have them.
    """
    attributes = instruction.attributes
    together = tuple_shape([operand.shape for operand in instruction.operands])
    aliases: dict[int, int] = {}
    for alias in attributes.get("output_to_operand_aliasing", ()):
        replaced = _leaf_numbers(together, (alias.operand, *alias.index))
        aliases.update(zip(_leaf_numbers(instruction.shape, alias.output), replaced, strict=True))
    call = CustomCall(
        target=attributes["custom_call_target"],
        operands=tuple(leaf for operand in instruction.operands for leaf in _leaves(operand.shape, instruction)),
        outputs=tuple(_leaves(instruction.shape, instruction)),
        backend_config=parse_backend_config(attributes.get("backend_config", "")),
        api_version=attributes.get("api_version", ""),
        frontend_attributes=dict(attributes.get("frontend_attributes", {})),
        computations=tuple(_function(computation, apply) for computation in instruction.called),
        aliases=aliases,
        name=instruction.name,
    )
    if call.target not in _handlers:
        check_form(call)
        if lapack_handler(call.target) and not lies_by_columns(instruction):
            raise UnsupportedError(f"{call.name}: custom call {call.target!r} has matrices that do not lie by columns")
    return call


def run_custom_call(inputs: Sequence[Array], call: CustomCall) -> tuple[Array, ...]:
    """Call the handler of `call` and check what it gives.

    An error inside the handler becomes an ExecutionError that names instruction and target, with the error as its
    cause.
    """
    handler = custom_call_handler(call.target, call.name)
    what = f"{call.name}: custom call {call.target!r}" if call.name else f"custom call {call.target!r}"
    given = list(inputs)
    for leaf in call.aliases.values():
        given[leaf] = np.array(given[leaf])
    try:
        outputs = handler(tuple(given), call)
    except (ExecutionError, UnsupportedError) as error:
        raise type(error)(f"{what}: {error.message}") from error
    except HloError:
        raise
    except Exception as error:
        raise ExecutionError(f"{what} failed: {type(error).__name__}: {error}") from error
    if isinstance(outputs, np.ndarray) or not isinstance(outputs, Sequence):
        raise ExecutionError(f"{what}: the handler must return a tuple of arrays")
    if len(outputs) != len(call.outputs):
        raise ExecutionError(f"{what}: the handler returned {len(outputs)} arrays, expected {len(call.outputs)}")
    for number, (output, (dtype, shape)) in enumerate(zip(outputs, call.outputs, strict=True)):
        found = (getattr(output, "dtype", type(output).__name__), getattr(output, "shape", ()))
        if found != (dtype, shape):
            raise ExecutionError(
                f"{what}: the handler returned {_leaf_text(*found)} for output {number}, "
                f"expected {_leaf_text(dtype, shape)}"
            )
    return tuple(np.asarray(output) for output in outputs)


def _leaf_numbers(shape: Shape, path: Sequence[int]) -> range:
    """Which array leaves of `shape` lie under the element that `path` leads to."""
    first = 0
    for index in path:
        first += sum(map(_count, shape.elements[:index]))
        shape = shape.elements[index]
    return range(first, first + _count(shape))


def _count(shape: Shape) -> int:
    return sum(leaf.is_array for leaf in shape.leaves())


def _function(computation: Computation, apply: Apply) -> Callable[..., tuple[Array, ...]]:
    """`computation` on NumPy arrays: one per parameter leaf, one per root leaf."""

    def call(*arrays: Array) -> tuple[Array, ...]:
        leaves = iter(arrays)
        values = [value_from_leaves(parameter.shape, leaves) for parameter in computation.parameters]
        return tuple(leaves_of(apply(computation, values)))

    return call


def _leaves(shape: Shape, instruction: Instruction) -> list[Leaf]:
    found: list[Leaf] = []
    for leaf in shape.leaves():
        if leaf.is_token:
            continue
        dtype = element_type(leaf.element_type).dtype
        if dtype is None:
            raise UnsupportedError(f"{instruction.name}: custom call with an operand or output of type {leaf}")
        found.append((dtype, tuple(leaf.dimensions)))
    return found


def _leaf_text(dtype: object, shape: object) -> str:
    return f"{dtype}{list(shape)}" if isinstance(shape, tuple) else str(dtype)
