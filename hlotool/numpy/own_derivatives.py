"""Functions whose derivatives their authors have written: ``custom_jvp, custom_vjp``.

Within a trace a call of such a function is one instruction, with the function and its derivative as computations
(`hlotool.evaluate.own_derivatives`); whoever differentiates or batches it later finds them there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any

from hlotool.evaluate.own_derivatives import ARGUMENTS, CUSTOM_JVP, CUSTOM_VJP
from hlotool.ir import Computation, Shape, array, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.numpy.array import Array, concrete
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.jit import _numbers, _signature_of
from hlotool.numpy.operation import convert
from hlotool.numpy.pytree import Structure, describe, flatten, leaf_paths, unflatten
from hlotool.numpy.trace import Traced, Weak, active, apply, is_scalar, shape_of, trace, zeros_like_shape
from hlotool.passes.autodiff import differentiable

__all__ = ["custom_jvp", "custom_vjp"]


class _Own:
    """A function with a derivative of its own."""

    _what = _rule = ""

    def __init__(self, function: Callable[..., Any], nondiff_argnums: tuple[int, ...]) -> None:
        if not callable(function):
            raise type_error(f"{self._what} takes a function, not a {type(function).__name__}")
        self._function = function
        self._fixed = nondiff_argnums
        self._inside = threading.local()
        update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<hlotool.{self._what} of {self._name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    @property
    def _name(self) -> str:
        return str(getattr(self._function, "__qualname__", self._function))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if active() is None or getattr(self._inside, "now", False):
            return self._function(*arguments, **options)
        given = self._positional(arguments, options)
        fixed = {n if n >= 0 else n + len(given) for n in self._fixed}
        wrong = [n for n in self._fixed if not -len(given) <= n < len(given)]
        if wrong:
            raise value_error(f"{self._name}: nondiff_argnums names argument {wrong[0]}; there are {len(given)}")
        moving = tuple(value for n, value in enumerate(given) if n not in fixed)

        def function(*values: Any) -> Any:
            rest = iter(values)
            return self._function(*[value if n in fixed else next(rest) for n, value in enumerate(given)])

        self._inside.now = True
        try:
            return self._written(function, given, sorted(fixed), moving)
        finally:
            self._inside.now = False

    def _positional(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, as rules get them."""
        signature = _signature_of(self._function)
        if signature is None:
            if options:
                raise type_error(f"{self._name}: arguments must be given by position")
            return arguments
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        if bound.kwargs:
            raise type_error(
                f"{self._name}: argument {next(iter(bound.kwargs))!r} can only be given by name, and functions with "
                "derivatives of their own take arguments by position"
            )
        return bound.args

    def _written(
        self, function: Callable[..., Any], given: tuple[Any, ...], fixed: list[int], moving: tuple[Any, ...]
    ) -> Any:
        raise NotImplementedError

    def _missing(self) -> Exception:
        return type_error(
            f"{self._name} is a {self._what}, and its derivative is not there yet",
            f"give it one with {self._name}.{self._rule}(...)",
        )


class _Jvp(_Own):
    """What `custom_jvp` makes."""

    _what, _rule = "custom_jvp", "defjvp"

    def __init__(self, function: Callable[..., Any], nondiff_argnums: tuple[int, ...]) -> None:
        super().__init__(function, nondiff_argnums)
        self._jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """``jvp(*nondiff, primals, tangents)`` gives a pair: what the function gives, and the tangent of that.

        `primals` is a tuple of the arguments, `tangents` one of theirs; the result is linear in `tangents`.
        """
        self._jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """A function ``jvp(tangent, result, *primals)`` for each argument, whose results are added up; None: zero."""

        def jvp(*all_arguments: Any) -> Any:
            *fixed, primals, tangents = all_arguments
            result = self._merged(fixed, primals)
            total: Any = None
            for one, tangent in zip(jvps, tangents, strict=True):
                if one is not None:
                    part = one(tangent, result, *primals)
                    total = part if total is None else total + part
            return result, result * 0 if total is None else total

        self._jvp = jvp

    def _merged(self, fixed: Sequence[Any], primals: Sequence[Any]) -> Any:
        count = len(fixed) + len(primals)
        places = dict(zip(sorted(n % count for n in self._fixed), fixed, strict=True))
        rest = iter(primals)
        return self._function(*[places[n] if n in places else next(rest) for n in range(count)])

    def _written(
        self, function: Callable[..., Any], given: tuple[Any, ...], fixed: list[int], moving: tuple[Any, ...]
    ) -> Any:
        rule = self._jvp
        if rule is None:
            raise self._missing()
        leaves, structure = _arrays(moving)
        plain = trace(function, *moving, name=self._name)
        shapes = plain.outputs

        def both(*values: Any) -> Any:
            tangents = iter(values[len(leaves) :])
            moved = [next(tangents) if differentiable(shape_of(one)) else _zeros(shape_of(one)) for one in leaves]
            primals = unflatten(structure, values[: len(leaves)])
            found = rule(*[given[n] for n in fixed], primals, unflatten(structure, moved))
            result, tangent = _pair(self._name, "the rule of defjvp", found)
            own = _fitting(f"{self._name}: what the rule of defjvp gives", plain.structure, shapes, result)
            slope = _fitting(f"{self._name}: the tangent of the result", plain.structure, shapes, tangent)
            return [*own, *(one for one, shape in zip(slope, shapes, strict=True) if differentiable(shape))]

        stand_ins = [shape_of(one) for one in leaves if differentiable(shape_of(one))]
        second = trace(both, *_stand_ins(leaves), *stand_ins, name=f"{self._name}_jvp")
        read = _together(plain, second)
        count = len(leaves)
        computations = [_reading(plain, count, read), _reading(second, count, read, behind=len(stand_ins))]
        return _instruction(CUSTOM_JVP, computations, leaves, read, plain)


class _Vjp(_Own):
    """What `custom_vjp` makes."""

    _what, _rule = "custom_vjp", "defvjp"

    def __init__(self, function: Callable[..., Any], nondiff_argnums: tuple[int, ...]) -> None:
        super().__init__(function, nondiff_argnums)
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """``fwd(*arguments)`` gives a pair: what the function gives, and what `bwd` needs.

        ``bwd(*nondiff, kept, cotangent)`` gives a tuple with the cotangent of each argument; None stands for zeros.
        """
        self._rules = fwd, bwd

    def _written(
        self, function: Callable[..., Any], given: tuple[Any, ...], fixed: list[int], moving: tuple[Any, ...]
    ) -> Any:
        if self._rules is None:
            raise self._missing()
        fwd, bwd = self._rules
        leaves, structure = _arrays(moving)
        plain = trace(function, *moving, name=self._name)
        shapes = plain.outputs
        kept: list[Any] = []

        def forward(*values: Any) -> Any:
            rest = iter(unflatten(structure, values))
            found = fwd(*[value if n in fixed else next(rest) for n, value in enumerate(given)])
            result, saved = _pair(self._name, "the first rule of defvjp", found)
            own = _fitting(f"{self._name}: what the first rule of defvjp gives", plain.structure, shapes, result)
            parts, kept_structure = flatten(saved)
            kept.append(kept_structure)
            return [*own, *parts]

        first = trace(forward, *_stand_ins(leaves), name=f"{self._name}_fwd")
        saved_shapes = first.outputs[len(shapes) :]
        wanted = [shape_of(one) for one in leaves]

        def backward(*values: Any) -> Any:
            moved = iter(values[len(saved_shapes) :])
            cotangents = [next(moved) if differentiable(shape) else _zeros(shape) for shape in shapes]
            saved = unflatten(kept[0], values[: len(saved_shapes)])
            found = bwd(*[given[n] for n in fixed], saved, unflatten(plain.structure, cotangents))
            return _cotangents(self._name, found, moving, wanted)

        floats = [shape for shape in shapes if differentiable(shape)]
        second = trace(backward, *saved_shapes, *floats, name=f"{self._name}_bwd")
        read = _together(plain, first, second)
        count = len(leaves)
        keeping = _reading(first, count, read)
        build = Builder(keeping)
        places = {id(one): count + n for n, one in enumerate(read)}
        also = [keeping.parameters[places[id(one)]] for one in second.captured]
        keeping.root = build.tuple([*keeping.root.operands, *also])
        computations = [
            _reading(plain, count, read), keeping,
            _reading(second, len(saved_shapes), list(second.captured), behind=len(floats)),
        ]  # fmt: skip
        return _instruction(CUSTOM_VJP, computations, leaves, read, plain)


def custom_jvp(function: Callable[..., Any] | None = None, *, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A function whose derivative is written by hand, in forward mode; gradients are made of it by transposing it.

    ``@hlotool.custom_jvp`` above the function, then ``@function.defjvp`` above ``jvp(primals, tangents)``, which gives
    the result and its tangent.  Arguments `nondiff_argnums` are constants of the function, such as other functions;
    rules get them first.  Within its own rules the function is differentiated as it is written.
    """
    numbers = _numbers(nondiff_argnums, "nondiff_argnums")
    return partial(custom_jvp, nondiff_argnums=numbers) if function is None else _Jvp(function, numbers)


def custom_vjp(function: Callable[..., Any] | None = None, *, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A function whose gradient is written by hand: ``function.defvjp(fwd, bwd)``.

    ``fwd(*arguments)`` gives the result and what to keep, ``bwd(kept, cotangent)`` a tuple with the cotangent of each
    argument.  Arguments `nondiff_argnums` are constants of the function; ``bwd`` gets them first.  There is no
    derivative forwards.
    """
    numbers = _numbers(nondiff_argnums, "nondiff_argnums")
    return partial(custom_vjp, nondiff_argnums=numbers) if function is None else _Vjp(function, numbers)


# ---- what they share


def _arrays(moving: tuple[Any, ...]) -> tuple[list[Any], Structure]:
    leaves, structure = flatten(moving)
    for leaf in leaves:
        shape_of(leaf)  # what is no array is refused
    return leaves, structure


def _stand_ins(leaves: Sequence[Any]) -> list[Any]:
    return [
        Weak(shape_of(one)) if is_scalar(one) or (isinstance(one, Array) and one._weak) else shape_of(one)
        for one in leaves
    ]


def _zeros(shape: Shape) -> Array:
    return Array(zeros_like_shape(shape))


def _pair(name: str, rule: str, found: Any) -> tuple[Any, Any]:
    if not isinstance(found, tuple) or len(found) != 2:
        raise type_error(f"{name}: {rule} gives a {type(found).__name__}, and a pair is asked for")
    return found


def _fitting(
    what: str, structure: Structure, shapes: Sequence[Shape], found: Any, like: str = "the function gives"
) -> list[Array]:
    """The leaves of `found`, which has this structure and these shapes."""
    leaves, own = flatten(found)
    if own != structure:
        raise type_error(f"{what} is {describe(own)}, and {like} {describe(structure)}")
    made = []
    for path, leaf, shape in zip(leaf_paths(structure), leaves, shapes, strict=True):
        one = concrete(leaf)
        if one.shape != shape.dimensions:
            raise type_error(f"{what}{path} has the shape {one.shape}, and {like} {shape}")
        made.append(_typed(one, shape))
    return made


def _typed(value: Array, shape: Shape) -> Array:
    zeros = zeros_like_shape(array(shape.element_type))
    return convert(value, zeros.dtype)


def _cotangents(name: str, found: Any, moving: tuple[Any, ...], shapes: Sequence[Shape]) -> list[Array]:
    """Cotangents of the arguments of floats, of what the second rule of defvjp gives."""
    if not isinstance(found, (tuple, list)) or len(found) != len(moving):
        given = f"{len(found)} of them" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
        raise type_error(
            f"{name}: the second rule of defvjp gives {given}, and a tuple with a cotangent for each of "
            f"{len(moving)} arguments is asked for"
        )
    made = []
    rest = iter(shapes)
    for number, (argument, cotangent) in enumerate(zip(moving, found, strict=True)):
        structure = flatten(argument)[1]
        own = [next(rest) for _ in leaf_paths(structure)]
        if cotangent is None:
            made += [_zeros(shape) for shape in own if differentiable(shape)]
            continue
        what = f"{name}: the cotangent of argument {number}"
        fitting = _fitting(what, structure, own, cotangent, "the argument is")
        made += [one for one, shape in zip(fitting, own, strict=True) if differentiable(shape)]
    return made


def _together(*traces: Traced) -> list[Array]:
    """What any of them reads from around it."""
    found: dict[int, Array] = {}
    for one in traces:
        found.update({id(value): value for value in one.captured})
    return list(found.values())


def _reading(traced: Traced, count: int, read: Sequence[Array], behind: int = 0) -> Computation:
    """`traced` with parameters for all values that are `read` from around, between `count` of its own and those
    `behind` them."""
    shapes = [p.shape for p in traced.computation.parameters]
    made = Computation(traced.computation.name)
    build = Builder(made)
    own = [build.parameter(n, shape) for n, shape in enumerate(shapes[:count])]
    around = [build.parameter(count + n, shape_of(one)) for n, one in enumerate(read)]
    last = [build.parameter(count + len(read) + n, shape) for n, shape in enumerate(shapes[count : count + behind])]
    places = {id(one): n for n, one in enumerate(read)}
    whole = build.call(traced.computation, [*own, *last, *(around[places[id(one)]] for one in traced.captured)])
    made.root = build.tuple([build.gte(whole, n) for n in range(len(traced.outputs))])
    return made


def _instruction(
    target: str, computations: Sequence[Computation], leaves: Sequence[Any], read: Sequence[Array], plain: Traced
) -> Any:
    attributes: dict[str, Any] = {
        "custom_call_target": target, "called_computations": tuple(computations),
        "frontend_attributes": {ARGUMENTS: str(len(leaves))},
    }  # fmt: skip
    whole = apply("custom-call", *map(concrete, leaves), *read, shape=tuple_shape(plain.outputs), **attributes)
    found = [apply("get-tuple-element", whole, index=n) for n in range(len(plain.outputs))]
    return unflatten(plain.structure, [
        Array(one._value, one._trace, weak) for one, weak in zip(found, plain.weak, strict=True)
    ])  # fmt: skip
