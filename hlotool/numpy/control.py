"""Loops and branches of traced functions: ``while_loop, fori_loop, scan, map, cond, switch``.

What a loop carries from one iteration to the next is a container of arrays, whose structure, shapes and types stay the
same; Python numbers among them take the type that the body gives them.  Functions see traced values, and may read
others from around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy

from hlotool.ir import Computation, Instruction, Shape, array, clone_instruction, dtype_of, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.dtypes import dtype_of_value, hlo_type
from hlotool.numpy.elementwise import constant_like, expand, not_zero
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.jit import Jitted
from hlotool.numpy.manipulation import with_shape
from hlotool.numpy.operation import convert
from hlotool.numpy.pytree import LEAF, Structure, describe, flatten, leaf_paths, tree_map, unflatten
from hlotool.numpy.trace import Trace, Traced, Weak, active, apply, is_scalar, shape_of, trace

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]


# ---- outside of traces: compiled once for each function


@lru_cache(maxsize=512)
def _program(kind: Callable[..., Any], functions: tuple[Callable[..., Any], ...], *fixed: Any) -> Jitted:
    def run(*arguments: Any) -> Any:
        return kind(*functions, *arguments, *fixed)

    run.__name__ = run.__qualname__ = kind.__name__.strip("_")
    return Jitted(run, (), (), ())


def _check_callable(name: str, *functions: Any) -> None:
    for one in functions:
        if not callable(one):
            raise type_error(f"{name} takes functions, not a {type(one).__name__}")


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """``while cond_fun(value): value = body_fun(value)``, from `init`; the last value."""
    _check_callable("while_loop", cond_fun, body_fun)
    if active() is None:
        return _program(_while, (cond_fun, body_fun))(init)
    return _while(cond_fun, body_fun, init)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """``for i in range(lower, upper): value = body_fun(i, value)``, from `init`; the last value.

    The bounds are whole numbers, or arrays of one; the number of iterations is known where they are numbers.
    """
    _check_callable("fori_loop", body_fun)
    if active() is not None:
        return _fori(body_fun, lower, upper, init)
    if is_scalar(lower) and is_scalar(upper):
        return _program(_fori_fixed, (body_fun,), lower, upper)(init)
    return _program(_fori, (body_fun,))(lower, upper, init)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """``for x in xs: carry, y = f(carry, x)``, from `init`; the last carry, and all y as rows of arrays.

    `xs` are arrays (or containers of these) whose rows are read one by one, from the last one on if `reverse`; y stand
    where their x do.  `length` is how many iterations there are, where `xs` does not say it.
    """
    _check_callable("scan", f)
    if active() is None:
        found: tuple[Any, Any] = _program(_scan, (f,), length, bool(reverse))(init, xs)
        return found
    return _scan(f, init, xs, length, reverse)


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """``f(x)`` for each row of `xs`, as rows of arrays; one after the other (``hlotool.vmap``: all at once)."""
    _check_callable("map", f)
    if active() is None:
        return _program(_map, (f,))(xs)
    return _map(f, xs)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """``true_fun(*operands)`` if `pred`, else ``false_fun(*operands)``: only one of them runs."""
    _check_callable("cond", true_fun, false_fun)
    found = pred if isinstance(pred, Array) else concrete(pred)
    if found.shape:
        raise type_error(f"cond: the predicate has the shape {found.shape}; it must be a single value")
    if found._trace is None:
        return true_fun(*operands) if bool(found) else false_fun(*operands)
    return _branches(not_zero(found), (true_fun, false_fun), operands, "cond")


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index out of bounds is the nearest one."""
    _check_callable("switch", *branches)
    found = index if isinstance(index, Array) else concrete(index)
    if found.shape or found.dtype.kind not in "iu":
        raise type_error(f"switch: the index is {found.dtype}{list(found.shape)}; it must be a single integer")
    last = len(branches) - 1
    if last < 0:
        raise value_error("switch needs one branch at least")
    if found._trace is None or not last:
        return branches[min(max(int(found), 0), last) if last else 0](*operands)
    wide = convert(found, numpy.dtype(numpy.int64))
    inside = apply("clamp", constant_like(wide, 0), wide, constant_like(wide, last))
    return _branches(convert(inside, numpy.dtype(numpy.int32)), tuple(branches), operands, "switch")


# ---- what loops carry


def _values(tree: Any) -> tuple[list[Array], Structure]:
    """Leaves as arrays; Python numbers are weak."""
    leaves, structure = flatten(tree)
    return [
        Array(numpy.asarray(one, dtype_of_value(one)), weak=True) if is_scalar(one) else _array(one) for one in leaves
    ], structure


def _array(value: Any) -> Array:
    shape_of(value)  # what is no array is refused
    return concrete(value)


def _stand_ins(values: Sequence[Array]) -> list[Any]:
    return [Weak(shape_of(one)) if one._weak else shape_of(one) for one in values]


def _traced_body(
    name: str, function: Callable[[Any], Any], values: list[Array], structure: Structure
) -> tuple[Traced, list[Array]]:
    """The body of a loop, and the first values in the types that it keeps."""
    for _ in range(len(values) + 2):
        traced = trace(function, unflatten(structure, _stand_ins(values)), name=name)
        if traced.structure != structure:
            raise type_error(
                f"{name}: the body was given {describe(structure)} and gives {describe(traced.structure)}",
                "what a loop carries keeps its structure",
            )
        changed = False
        for number, (value, shape, weak) in enumerate(zip(values, traced.outputs, traced.weak, strict=True)):
            own = shape_of(value)
            if own.dimensions == shape.dimensions and value._weak and not weak:
                values[number] = _retyped(value, shape)
                changed = True
            elif not own.compatible(shape):
                raise _carried(name, structure, number, own, shape)
        if not changed:
            return traced, values
    raise type_error(f"{name}: the types of what the loop carries do not settle")


def _carried(name: str, structure: Structure, number: int, given: Shape, made: Shape) -> Exception:
    path = leaf_paths(structure)[number]
    return type_error(
        f"{name}: the body was given {given}{f' at {path}' if path else ''} and gives {made}",
        "what a loop carries keeps its shapes and types: use astype, or begin with another array",
    )


def _retyped(value: Array, shape: Shape) -> Array:
    made = convert(Array(value._value, value._trace), dtype_of(shape.element_type))
    return Array(made._value, made._trace)


def _zero(shape: Shape) -> numpy.ndarray[Any, Any]:
    return numpy.zeros((), dtype_of(shape.element_type))


def inlined(build: Builder, traced: Traced, operands: Sequence[Instruction]) -> list[Instruction]:
    """The instructions of a traced function, on `operands`; its results."""
    copies: dict[Instruction, Instruction] = {}
    root = traced.computation.root
    for one in traced.computation:
        if one.opcode == "parameter":
            copies[one] = operands[one.parameter_number]
        elif one is not root:
            made = clone_instruction(one, [copies[operand] for operand in one.operands])
            made.origins = ()
            copies[one] = build.put(made)
    return [copies[one] for one in root.operands]


def _unique(captured: Sequence[Array]) -> dict[int, Array]:
    return {id(one._value): one for one in captured}


def _here() -> Trace:
    found = active()
    assert found is not None
    return found


def _while(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    values, structure = _values(init)
    body, values = _traced_body("while_loop", body_fun, values, structure)
    test = trace(cond_fun, unflatten(structure, _stand_ins(values)), name="while_condition")
    if test.structure != LEAF or test.outputs[0] != array("pred"):
        found = ", ".join(str(one) for one in test.outputs) if test.structure == LEAF else describe(test.structure)
        raise type_error(f"while_loop: the condition gives {found}; it must be a single bool")
    around = _unique((*body.captured, *test.captured))
    state = [*values, *around.values()]
    shape = tuple_shape([shape_of(one) for one in state])
    places = {key: len(values) + n for n, key in enumerate(around)}

    def computation(name: str, traced: Traced, is_test: bool) -> Computation:
        made = Computation(name)
        build = Builder(made)
        whole = build.parameter(0, shape, "state")
        parts = [build.gte(whole, n) for n in range(len(state))]
        own = [*parts[: len(values)], *[parts[places[id(one._value)]] for one in traced.captured]]
        results = inlined(build, traced, own)
        made.root = results[0] if is_test else build.tuple([*results, *parts[len(values) :]])
        return made

    begun = apply("tuple", *state)
    loop = apply(
        "while", begun, condition=computation("while_condition", test, True),
        body=computation("while_body", body, False),
    )  # fmt: skip
    weak = body.weak
    results = [apply("get-tuple-element", loop, index=n, weak=weak[n]) for n in range(len(values))]
    return unflatten(structure, results)


def _fori_fixed(body_fun: Callable[[Any, Any], Any], init: Any, lower: int, upper: int) -> Any:
    return _fori(body_fun, lower, upper, init)


def _fori(body_fun: Callable[[Any, Any], Any], lower: Any, upper: Any, init: Any) -> Any:
    integer = numpy.dtype(numpy.int64)
    ends = []
    for one in (lower, upper):
        found = one if isinstance(one, Array) else concrete(one)
        if found.shape or found.dtype.kind not in "iu":
            raise type_error(f"fori_loop: a bound is {found.dtype}{list(found.shape)}; it must be a single integer")
        ends.append(convert(found, integer))
    first, last = ends
    first = Array(first._value, first._trace)

    def test(state: Any) -> Any:
        return apply("compare", state[0], last, direction="LT")

    def body(state: Any) -> Any:
        number, value = state
        after = apply("add", number, wrap(numpy.asarray(1)))
        return after, body_fun(Array(number._value, number._trace, weak=True), value)

    return _while(test, body, (first, init))[1]


def _map(f: Callable[[Any], Any], xs: Any) -> Any:
    return _scan(lambda carry, x: (carry, f(x)), (), xs, None, False)[1]


def _rows(values: Sequence[Array], length: int | None) -> int:
    sizes = {one.shape[0] if one.shape else -1 for one in values}
    if -1 in sizes:
        raise type_error("scan: an array without dimensions has no rows")
    if length is not None:
        sizes.add(length)
    if len(sizes) != 1:
        found = f"different numbers of rows: {sorted(sizes)}" if sizes else "no arrays; say the length"
        raise value_error(f"scan was given {found}")
    return sizes.pop()


def _scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: int | None, reverse: bool
) -> tuple[Any, Any]:
    rows, structure = _values(xs)
    count = _rows(rows, length)

    def checked(carry: Any, x: Any) -> tuple[Any, Any]:
        found = f(carry, x)
        if not isinstance(found, tuple) or len(found) != 2:
            raise type_error(f"scan: the function gives {describe(flatten(found)[1])}; it must give (carry, y)")
        return found

    def row_shape(one: Array) -> Shape:
        return array(hlo_type(one.dtype), one.shape[1:])

    begun, outside = _values(init)
    stand_in = unflatten(structure, [row_shape(one) for one in rows])
    _, begun = _traced_body("scan", lambda carry: checked(carry, _zeros(stand_in))[0], begun, outside)
    first = trace(checked, unflatten(outside, _stand_ins(begun)), stand_in, name="scan")
    outputs, inside = flatten(unflatten(first.structure, first.outputs)[1])
    stacks = [expand(wrap(_zero(one)), (count, *one.dimensions)) for one in outputs]

    if not count:
        return unflatten(outside, begun), unflatten(inside, stacks)

    def body(state: Any) -> Any:
        number, carry, before = state
        place = apply("subtract", wrap(numpy.asarray(count - 1)), number) if reverse else number
        x = unflatten(structure, [_row(one, place) for one in rows])
        carry, y = checked(carry, x)
        leaves, _ = flatten(y)
        after = [_with_row(one, _array(row), place) for one, row in zip(before, leaves, strict=True)]
        return apply("add", number, wrap(numpy.asarray(1))), carry, after

    def test(state: Any) -> Any:
        return apply("compare", state[0], wrap(numpy.asarray(count)), direction="LT")

    begin = wrap(numpy.asarray(0)), unflatten(outside, begun), stacks
    _, carry, made = _while(test, body, begin)
    return carry, unflatten(inside, made)


def _zeros(tree: Any) -> Any:
    """Zeros for the rows, of which only shapes and types count."""
    return tree_map(lambda one: expand(wrap(_zero(one)), one.dimensions), tree)


def _row(value: Array, place: Array) -> Array:
    zero = wrap(numpy.asarray(0))
    sizes = (1, *value.shape[1:])
    return with_shape(apply("dynamic-slice", value, place, *[zero] * (value.ndim - 1), dynamic_slice_sizes=sizes),
                      value.shape[1:])


def _with_row(value: Array, row: Array, place: Array) -> Array:
    zero = wrap(numpy.asarray(0))
    return apply("dynamic-update-slice", value, with_shape(row, (1, *row.shape)), place, *[zero] * (value.ndim - 1))


# ---- branches


def _branches(
    selector: Array, functions: tuple[Callable[..., Any], ...], operands: tuple[Any, ...], name: str
) -> Any:
    values, structure = _values(operands)
    stand_ins = unflatten(structure, _stand_ins(values))
    traced = [trace(one, *stand_ins, name=f"{name}_branch") for one in functions]
    first = traced[0]
    for one in traced[1:]:
        if one.structure != first.structure:
            raise type_error(
                f"{name}: branches give {describe(first.structure)} and {describe(one.structure)}",
                "all branches give the same structure of arrays",
            )
    columns = range(len(first.outputs))
    targets = [_branch_type(name, [t.outputs[n] for t in traced], [t.weak[n] for t in traced]) for n in columns]
    arguments, computations = [], []
    for one in traced:
        given = [*values, *one.captured]
        made = Computation(f"{name}_branch")
        build = Builder(made)
        whole = build.parameter(0, tuple_shape([shape_of(value) for value in given]), "operands")
        found = inlined(build, one, [build.gte(whole, n) for n in range(len(given))])
        made.root = build.tuple([
            value if value.shape.element_type == target else build.convert(value, target)
            for value, target in zip(found, targets, strict=True)
        ])
        arguments.append(apply("tuple", *given))
        computations.append(made)
    if name == "cond":
        chosen: dict[str, Any] = {"true_computation": computations[0], "false_computation": computations[1]}
    else:
        chosen = {"branch_computations": tuple(computations)}
    result = apply("conditional", selector, *arguments, **chosen)
    weak = [all(one.weak[n] for one in traced) for n in range(len(targets))]
    leaves = [apply("get-tuple-element", result, index=n, weak=weak[n]) for n in range(len(targets))]
    return unflatten(first.structure, leaves)


def _branch_type(name: str, shapes: list[Shape], weak: list[bool]) -> str:
    strong = [one for one, gives_way in zip(shapes, weak, strict=True) if not gives_way] or shapes
    if any(one.dimensions != shapes[0].dimensions for one in shapes) or len({one.element_type for one in strong}) > 1:
        raise type_error(
            f"{name}: branches give {' and '.join([str(one) for one in shapes])}",
            "all branches give arrays of the same shapes and types: use astype",
        )
    return strong[0].element_type

