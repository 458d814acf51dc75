"""Calls of compiled programs within programs of JAX: one primitive, and what transformations make of it.

Every rule makes another call: of the program that jax derives from the function, which is compiled in turn.  What was
derived stays with the program it was derived from.  In a program that XLA compiles for the CPU, a call is a custom call
by XLA's foreign function interface; in one for hlotool, and where hlotool refused it, it is what the function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.tree_util import tree_flatten, tree_unflatten

from hlotool.jax import foreign
from hlotool.jax.traced import Program, as_array, inlining, is_key, structs

__all__ = ["bind"]

call_p = Primitive("hlotool_call")
call_p.multiple_results = True


def bind(program: Program, leaves: Sequence[Any]) -> list[Any]:
    """The results of a program for values that are being traced."""
    pairs = zip(leaves, program.jaxpr.in_avals, strict=True)
    arrays = [leaf if isinstance(leaf, jax.Array) else as_array(leaf, aval.dtype) for leaf, aval in pairs]
    return list(call_p.bind(*arrays, program=program))


def _run(*arguments: Any, program: Program) -> Sequence[Any]:
    """Now, with arrays."""
    executable = program.executable
    avals = (*program.jaxpr.in_avals, *program.jaxpr.out_avals)
    if executable is None or any(is_key(aval.dtype) for aval in avals):
        return program.compiled_by_jax(*arguments)  # type: ignore[no-any-return]
    program.record.runs += 1
    pairs = zip(arguments, program.jaxpr.in_avals, strict=True)
    arrays = [as_array(value, aval.dtype) for value, aval in pairs]
    return [jax.device_put(array) for array in executable.run(*arrays)]


def _types(*_: Any, program: Program) -> Sequence[Any]:
    return program.jaxpr.out_avals  # type: ignore[no-any-return]


def _derived(program: Program, kind: str, key: Any, make: Callable[[], Any]) -> Any:
    if (kind, key) not in program.derived:
        program.derived[kind, key] = make()
    return program.derived[kind, key]


def _moves(aval: Any) -> bool:
    """Whether derivatives by a value of this type are other than nothing."""
    return bool(jax.dtypes.issubdtype(aval.dtype, np.inexact))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program) -> tuple[list[Any], list[Any]]:
    """Two calls: one of the function, which also gives what its linear approximation depends on; one of that.

    So partial evaluation, which is how jax makes gradients, finds the first to be known and the second linear.
    """
    moving = tuple(
        not isinstance(tangent, ad.Zero) and _moves(aval)
        for tangent, aval in zip(tangents, program.jaxpr.in_avals, strict=True)
    )
    types = program.jaxpr.out_avals
    if not any(moving):
        results = call_p.bind(*primals, program=program)
        return results, [ad.Zero(aval.to_tangent_aval()) for aval in types]
    forward, linear = _derived(program, "jvp", moving, lambda: _linearised(program, moving))
    found = call_p.bind(*primals, program=forward)
    results, residuals = found[: len(types)], found[len(types) :]
    given = [tangent for tangent, moves in zip(tangents, moving, strict=True) if moves]
    moved = iter(call_p.bind(*residuals, *given, program=linear))
    return results, [next(moved) if _moves(aval) else ad.Zero(aval.to_tangent_aval()) for aval in types]


def _linearised(program: Program, moving: Sequence[bool]) -> tuple[Program, Program]:
    trees: list[Any] = []

    def forward(*primals: Any) -> list[Any]:
        def of_moving(*values: Any) -> tuple[list[Any], list[Any]]:
            given = iter(values)
            mixed = [next(given) if moves else value for value, moves in zip(primals, moving, strict=True)]
            results = program.function(*mixed)
            return [r for r in results if _moves(r)], [r for r in results if not _moves(r)]

        values = [value for value, moves in zip(primals, moving, strict=True) if moves]
        first, linear, others = jax.linearize(of_moving, *values, has_aux=True)
        residuals, tree = tree_flatten(linear)
        trees.append(tree)
        some, rest = iter(first), iter(others)
        results = [next(some) if _moves(aval) else next(rest) for aval in program.jaxpr.out_avals]
        return [*results, *residuals]

    avals = program.jaxpr.in_avals
    first = Program.of(forward, structs(avals), f"{program.name} (forward)")
    residuals = first.jaxpr.out_avals[len(program.jaxpr.out_avals) :]

    def linear(*values: Any) -> list[Any]:
        function = tree_unflatten(trees[0], values[: len(residuals)])
        return list(function(*values[len(residuals) :]))

    tangents = [aval for aval, moves in zip(avals, moving, strict=True) if moves]
    return first, Program.of(linear, structs([*residuals, *tangents]), f"{program.name} (tangents)")


def _transpose(cotangents: Sequence[Any], *arguments: Any, program: Program) -> list[Any]:
    """By the arguments that are linear, and only by results of which a cotangent is there."""
    linear = tuple(ad.is_undefined_primal(argument) for argument in arguments)
    there = tuple(not isinstance(cotangent, ad.Zero) for cotangent in cotangents)
    if not any(there):
        return [ad.Zero(a.aval) if undefined else None for a, undefined in zip(arguments, linear, strict=True)]
    backward = _derived(program, "transpose", (linear, there), lambda: _transposed(program, linear, there))
    known = [argument for argument, undefined in zip(arguments, linear, strict=True) if not undefined]
    given = [cotangent for cotangent, is_there in zip(cotangents, there, strict=True) if is_there]
    found = iter(call_p.bind(*known, *given, program=backward))
    return [next(found) if undefined else None for undefined in linear]


def _transposed(program: Program, linear: Sequence[bool], there: Sequence[bool]) -> Program:
    inputs, outputs = program.jaxpr.in_avals, program.jaxpr.out_avals
    known = [aval for aval, undefined in zip(inputs, linear, strict=True) if not undefined]
    unknown = [aval for aval, undefined in zip(inputs, linear, strict=True) if undefined]

    def backward(*values: Any) -> list[Any]:
        def of_linear(*arguments: Any) -> list[Any]:
            given, constant = iter(arguments), iter(values)
            results = program.function(*(next(given) if undefined else next(constant) for undefined in linear))
            return [result for result, is_there in zip(results, there, strict=True) if is_there]

        cotangents = [*values[len(known) :]]
        return list(jax.linear_transpose(of_linear, *structs(unknown))(cotangents))

    given = [aval for aval, is_there in zip(outputs, there, strict=True) if is_there]
    return Program.of(backward, structs([*known, *given]), f"{program.name} (backward)")


def _batch(arguments: Sequence[Any], axes: Sequence[Any], *, program: Program) -> tuple[list[Any], list[int]]:
    size = next(value.shape[axis] for value, axis in zip(arguments, axes, strict=True) if axis is not None)
    batched = _derived(program, "batch", (tuple(axes), size), lambda: _batched(program, axes, size))
    results = call_p.bind(*arguments, program=batched)
    return results, [0] * len(results)


def _batched(program: Program, axes: Sequence[Any], size: int) -> Program:
    function = jax.vmap(program.function, in_axes=tuple(axes), out_axes=0, axis_size=size)
    arguments = []
    for struct, axis in zip(structs(program.jaxpr.in_avals), axes, strict=True):
        shape = struct.shape if axis is None else (*struct.shape[:axis], size, *struct.shape[axis:])
        arguments.append(jax.ShapeDtypeStruct(shape, struct.dtype, weak_type=struct.weak_type))
    return Program.of(function, arguments, f"{program.name} (batch of {size})")


def _lower(context: Any, *operands: Any, program: Program) -> Any:
    """In a program that XLA compiles for this processor."""
    if inlining() or not foreign.takes(program):
        return _lower_inline(context, *operands, program=program)
    call = foreign.call(program)
    return mlir.lower_fun(call, multiple_results=True)(context, *operands)


def _lower_inline(context: Any, *operands: Any, program: Program) -> Any:
    return mlir.lower_fun(program.function, multiple_results=True)(context, *operands)


call_p.def_impl(_run)
call_p.def_abstract_eval(_types)
ad.primitive_jvps[call_p] = _jvp
ad.primitive_transposes[call_p] = _transpose
batching.primitive_batchers[call_p] = _batch
mlir.register_lowering(call_p, _lower_inline)
mlir.register_lowering(call_p, _lower, platform="cpu")
