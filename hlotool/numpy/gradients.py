"""Derivatives of Python functions: ``grad, value_and_grad, vjp, jvp, jacfwd, jacrev, hessian``; ``checkpoint,
stop_gradient``.

A function is traced, the derivative of its module is made (`hlotool.passes.autodiff`), and that is compiled once for
each kind of arguments, as with `hlotool.jit`; within a trace it becomes a part of it, so that derivatives of
derivatives, of loops and of compiled functions are as others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, update_wrapper
from typing import Any

import numpy

from hlotool.analysis.sizes import number_of
from hlotool.ir import Shape, UnsupportedError, array, dtype_of
from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.batching import vmap
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.jit import Jitted
from hlotool.numpy.operation import call_module
from hlotool.numpy.pytree import LEAF, Structure, flatten, leaf_paths, tree_map, unflatten
from hlotool.numpy.trace import Traced, active, apply, shape_of, trace, zeros_like_shape
from hlotool.passes.autodiff import differentiable, make_gradient, make_jvp, make_vjp

__all__ = ["checkpoint", "grad", "hessian", "jacfwd", "jacrev", "jvp", "stop_gradient", "value_and_grad", "vjp"]


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    memory: int | str | None = None,
) -> Callable[..., Any]:
    """A function that returns the gradient of `f`, which returns a scalar of floats, by arguments `argnums`.

    The gradient has the structure of the argument; of several it is a tuple.  With `has_aux` `f` returns a pair, the
    scalar and something else, and so does the new function: the gradient and that.

    `memory` is a bound, in bytes or as ``"64MB"``: where more would be alive at once, values are computed again rather
    than kept, those first that take the least work for their bytes.  UnsupportedError where there is no way into it.
    """
    both = value_and_grad(f, argnums, has_aux, memory=memory)

    def gradient(*arguments: Any, **options: Any) -> Any:
        value, found = both(*arguments, **options)
        return (found, value[1]) if has_aux else found

    return _named(gradient, f, "grad")


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    memory: int | str | None = None,
) -> Callable[..., Any]:
    """As `grad`; the new function returns a pair: what `f` returns, and the gradient."""
    if not callable(f):
        raise type_error(f"value_and_grad takes a function, not a {type(f).__name__}")
    bound = _bytes("value_and_grad", memory)

    def run(*arguments: Any, **options: Any) -> Any:
        wrt, structures = _chosen("grad", arguments, argnums)
        traced = _traced(f, arguments, options)
        _check_scalar(traced, has_aux)
        module = traced.module()
        count = len(traced.outputs)
        with _with_hints():
            make_gradient(module, wrt, value=True, memory=bound)
        leaves, _ = flatten((arguments, options))
        found = call_module(module, [*leaves, *traced.captured])
        value = unflatten(traced.structure, found[:count])
        rest = iter(found[count:])
        gradients = tuple(unflatten(one, [next(rest) for _ in leaf_paths(one)]) for one in structures)
        return value, gradients if not isinstance(argnums, int) else gradients[0]

    return Jitted(_named(run, f, "value_and_grad", signature=True), (), (), ())


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """What `f` returns of `primals`, and how that moves as they move by `tangents` (forward mode).

    Tangents have the structure of `primals`; those of leaves that hold no floats are zeros, and count for nothing.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    structures = flatten(primals)[1], flatten(tangents)[1]
    if structures[0] != structures[1]:
        raise type_error("jvp: tangents are other containers than primals")
    for path, value, tangent in zip(leaf_paths(structures[0]), flatten(primals)[0], flatten(tangents)[0], strict=True):
        own, other = shape_of(value), shape_of(tangent)
        if own.dimensions != other.dimensions or (differentiable(own) and own.element_type != other.element_type):
            raise type_error(f"jvp: primal {path} is {own}, and its tangent {other}")
    found: tuple[Any, Any] = _jvp_of(f)(primals, tangents)
    return found


@lru_cache(maxsize=512)
def _jvp_of(f: Callable[..., Any]) -> Jitted:
    def run(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        traced = _traced(f, primals, {})
        leaves, _ = flatten(primals)
        wrt = [number for number, leaf in enumerate(leaves) if differentiable(shape_of(leaf))]
        module, shapes = traced.module(), traced.outputs
        with _with_hints():
            make_jvp(module, wrt)
        moved, _ = flatten(tangents)
        found = call_module(module, [*leaves, *traced.captured, *(moved[number] for number in wrt)])
        slopes = iter(found[len(shapes) :])
        tangent = [next(slopes) if differentiable(shape) else _zeros(shape) for shape in shapes]
        return unflatten(traced.structure, found[: len(shapes)]), unflatten(traced.structure, tangent)

    return Jitted(_named(run, f, "jvp"), (), (), ())


def vjp(
    f: Callable[..., Any], *primals: Any, memory: int | str | None = None
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """What `f` returns of `primals`, and a function that brings a cotangent of it back (reverse mode).

    The function takes a container such as `f` returns, and gives a tuple with one for each of `primals`.  Cotangents of
    leaves that hold no floats are zeros, and count for nothing.  What `f` computes, it computes again with each call
    (in a `jit` it is computed once).  `memory` is a bound, as that of `grad`.
    """
    bound = _bytes("vjp", memory)
    value, _ = _vjp_of(f)(primals, None)

    def back(cotangent: Any) -> tuple[Any, ...]:
        if flatten(cotangent)[1] != flatten(value)[1]:
            raise type_error("vjp: the cotangent is another container than what the function returns")
        for own, other in zip(flatten(value)[0], flatten(cotangent)[0], strict=True):
            if shape_of(own).dimensions != shape_of(other).dimensions:
                raise type_error(f"vjp: a result is {shape_of(own)}, and its cotangent {shape_of(other)}")
        found: tuple[Any, ...] = _vjp_of(f, bound)(primals, cotangent)[1]
        return found

    return value, back


@lru_cache(maxsize=512)
def _vjp_of(f: Callable[..., Any], memory: int | None = None) -> Jitted:
    def run(primals: tuple[Any, ...], cotangent: Any) -> Any:
        traced = _traced(f, primals, {})
        leaves, structure = flatten(primals)
        module, shapes = traced.module(), traced.outputs
        given: list[Any] = []
        wrt: list[int] = []
        if cotangent is not None:
            wrt = [number for number, leaf in enumerate(leaves) if differentiable(shape_of(leaf))]
            with _with_hints():
                make_vjp(module, wrt, value=True, memory=memory)
            for one, shape in zip(flatten(cotangent)[0], shapes, strict=True):
                if differentiable(shape):
                    given.append(_as_type(one, shape.element_type))
        found = call_module(module, [*leaves, *traced.captured, *given])
        value = unflatten(traced.structure, found[: len(shapes)])
        if cotangent is None:
            return value, None
        back = dict(zip(wrt, found[len(shapes) :], strict=True))
        whole = [back[n] if n in back else _zeros(shape_of(leaf)) for n, leaf in enumerate(leaves)]
        return value, unflatten(structure, whole)

    return Jitted(_named(run, f, "vjp"), (), (), ())


def jacrev(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f` by arguments `argnums`, a row for each element of the result at once.

    For each array of the result there is, in its place, a container as the argument, whose arrays have the dimensions
    of the result ahead of their own.  It is the quicker way where there are fewer results than arguments.
    """
    _check_function("jacrev", f)

    def jacobian(*arguments: Any, **options: Any) -> Any:
        function, chosen = _by_chosen("jacrev", f, arguments, options, argnums)
        leaves, structure = flatten(function(*chosen))
        _check_floats("jacrev: a result", leaves)

        def pulled(*cotangents: Any) -> Any:
            return _vjp_of(function)(chosen, unflatten(structure, cotangents))[1]

        parts = [shape_of(one) for one in leaves]
        rows: list[Any] = []
        for number, basis in enumerate(_bases(parts)):
            found = vmap(pulled)(*basis)
            own = tree_map(lambda one, shape=parts[number]: _split(one, shape.dimensions), found)
            rows.append(own[0] if isinstance(argnums, int) else own)
        return unflatten(structure, rows)

    return Jitted(_named(jacobian, f, "jacrev", signature=True), (), (), ())


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """As `jacrev`, a column for each element of the arguments: quicker where there are fewer of these."""
    _check_function("jacfwd", f)

    def jacobian(*arguments: Any, **options: Any) -> Any:
        function, chosen = _by_chosen("jacfwd", f, arguments, options, argnums)
        leaves, structure = flatten(chosen)
        _check_floats("jacfwd: an argument", leaves)

        def pushed(*tangents: Any) -> Any:
            return _jvp_of(function)(chosen, unflatten(structure, tangents))[1]

        parts = [shape_of(one) for one in leaves]
        columns: list[list[Any]] = []
        made: Structure = LEAF
        for number, basis in enumerate(_bases(parts)):
            results, made = flatten(vmap(pushed, out_axes=-1)(*basis))
            columns.append([_split(one, (*one.shape[:-1], *parts[number].dimensions), whole=True) for one in results])
        by_result = [unflatten(structure, column) for column in zip(*columns, strict=True)]
        return unflatten(made, [one[0] if isinstance(argnums, int) else one for one in by_result])

    return Jitted(_named(jacobian, f, "jacfwd", signature=True), (), (), ())


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `f` by arguments `argnums`: ``jacfwd(jacrev(f))``."""
    return jacfwd(jacrev(f, argnums), argnums)


def _check_function(name: str, f: Any) -> None:
    if not callable(f):
        raise type_error(f"{name} takes a function, not a {type(f).__name__}")


def _check_floats(what: str, leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if not differentiable(shape_of(leaf)):
            raise type_error(f"{what} is {shape_of(leaf)}, and derivatives are of floats and by floats")


def _by_chosen(
    name: str, f: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], argnums: int | Sequence[int]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`f` as a function of the arguments in question alone, and these."""
    _chosen(name, arguments, argnums)
    numbers = [n % len(arguments) for n in ([argnums] if isinstance(argnums, int) else argnums)]

    def function(*chosen: Any) -> Any:
        given = list(arguments)
        for number, value in zip(numbers, chosen, strict=True):
            given[number] = value
        return f(*given, **options)

    return function, tuple([tree_map(concrete, arguments[n]) for n in numbers])


def _bases(shapes: Sequence[Shape]) -> Iterator[list[Array]]:
    """For each of the arrays a stack of all that has a one in one place of it, and zeros elsewhere."""
    for number, own in enumerate(shapes):
        size = math.prod(own.dimensions)
        stacks = []
        for other, shape in enumerate(shapes):
            whole = (size, *shape.dimensions)
            values = numpy.eye(size).reshape(whole) if other == number else numpy.zeros(whole)
            stacks.append(wrap(values.astype(dtype_of(shape.element_type))))
        yield stacks


def _split(value: Any, dimensions: tuple[int, ...], whole: bool = False) -> Array:
    """The rows of an array as an array with `dimensions`, ahead of its others."""
    shape = shape_of(value)
    sizes = dimensions if whole else (*dimensions, *shape.dimensions[1:])
    return apply("reshape", value, shape=array(shape.element_type, sizes))


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, of which a gradient keeps the arguments alone: what it needs else it computes again."""

    def run(*arguments: Any, **options: Any) -> Any:
        if active() is None:
            return f(*arguments, **options)
        traced = _traced(f, arguments, options)
        leaves, _ = flatten((arguments, options))
        values = [concrete(value) for value in (*leaves, *traced.captured)]
        attributes: Any = {"to_apply": traced.computation, "frontend_attributes": {"checkpoint": "true"}}
        called = apply("call", *values, **attributes)
        found = [apply("get-tuple-element", called, index=n) for n in range(len(traced.outputs))]
        return unflatten(traced.structure, found)

    return _named(run, f, "checkpoint")


def stop_gradient(x: Any) -> Any:
    """`x`, as a constant of derivatives: an array, or a container of arrays."""
    return tree_map(_stopped, x)


def _stopped(value: Any) -> Any:
    one = concrete(value)
    shape = shape_of(one)
    if active() is None or not differentiable(shape):
        return value
    return apply("bitcast-convert", one, shape=array(shape.element_type, shape.dimensions))


# ---- what they share


@contextmanager
def _with_hints() -> Iterator[None]:
    """What is refused says what helps, too."""
    try:
        yield
    except UnsupportedError as error:
        hints = [one.hint for one in error.diagnostics if one.hint]
        raise (UnsupportedError(f"{error}\nhint: {hints[0]}", error.diagnostics) if hints else error) from None


def _named(
    run: Callable[..., Any], f: Callable[..., Any], what: str, signature: bool = False
) -> Callable[..., Any]:
    """`run` with the name of `f`; its signature is its own, or that of `f`."""
    update_wrapper(run, f, updated=())
    if hasattr(run, "__wrapped__") and not signature:
        del run.__wrapped__
    run.__qualname__ = run.__name__ = f"{what}_{getattr(f, '__name__', 'function')}".replace("<lambda>", "lambda")
    return run


def _traced(f: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Traced:
    def function(positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return f(*positional, **named)

    return trace(function, arguments, options, name=getattr(f, "__name__", "function").strip("<>"))


def _chosen(
    name: str, arguments: tuple[Any, ...], argnums: int | Sequence[int]
) -> tuple[list[int], list[Any]]:
    """The numbers of the leaves of the arguments in question, and the structures of these."""
    given = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in given:
        if not -len(arguments) <= number < len(arguments):
            raise value_error(f"{name}: there is no argument {number}; {len(arguments)} were given by position")
    numbers = [number % len(arguments) for number in given]
    if len(set(numbers)) != len(numbers):
        raise value_error(f"{name}: argnums {given} names an argument twice")
    counts = [len(flatten(one)[0]) for one in arguments]
    wrt: list[int] = []
    structures: list[Any] = []
    for number in numbers:
        leaves, structure = flatten(arguments[number])
        for path, leaf in zip(leaf_paths(structure), leaves, strict=True):
            shape = shape_of(leaf)
            if not differentiable(shape):
                raise type_error(
                    f"{name}: argument {number}{path} is {shape}, and gradients are by floats",
                    "leave the argument out of argnums, or convert it",
                )
        first = sum(counts[:number])
        wrt += range(first, first + counts[number])
        structures.append(structure)
    return wrt, structures


def _check_scalar(traced: Traced, has_aux: bool) -> None:
    structure = traced.structure
    if has_aux and not (isinstance(structure, tuple) and structure[0] is tuple and len(structure) == 4):
        raise type_error("grad: with has_aux the function returns a pair: a scalar, and something else")
    loss = structure[2] if has_aux else structure
    shapes = traced.outputs
    if not isinstance(loss, str) or shapes[0].dimensions or shapes[0].element_type[0] not in "fb":
        made = ", ".join(map(str, shapes)) or "nothing"
        raise type_error(
            f"grad: the function returns {made}, and a gradient is that of one scalar of floats",
            "sum it up, or use hlotool.vjp; has_aux=True lets it return something beside the scalar",
        )


def _bytes(name: str, memory: int | str | None) -> int | None:
    """A bound of memory in bytes."""
    bound = number_of(memory) if isinstance(memory, str) else memory
    if memory is not None and bound is None:
        raise value_error(f"{name}: memory is a size, as 64MB or 1GiB, not {memory!r}")
    return None if bound is None else int(bound)


def _zeros(shape: Any) -> Array:
    return wrap(zeros_like_shape(shape))


def _as_type(value: Any, element_type: str) -> Any:
    one = concrete(value)
    shape = shape_of(one)
    if shape.element_type == element_type:
        return one
    return apply("convert", one, shape=array(element_type, shape.dimensions))
