"""Custom calls that stand for operations whose sizes are operands, as JAX writes them where shapes are left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir import Instruction, Shape, Window, WindowDimension, array, tuple_shape
from hlotool.text.stablehlo.dynamism import constant_numbers
from hlotool.text.stablehlo.elementwise import result
from hlotool.text.stablehlo.reductions import largest_along_last
from hlotool.text.stablehlo.scope import Refusal, Scope, integers, known_shape, word
from hlotool.text.stablehlo.tree import Operation, Symbol

__all__ = ["DYNAMIC_CALLS", "sized_results"]


def _reduce_window(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """Arrays, initial values, then five lists: sizes, strides, both dilations, and pairs of paddings."""
    operands = scope.operands(operation)
    count = (len(operands) - 5) // 2
    called = operation.attributes.get("called_computations")
    names = [one.name for one in called if isinstance(one, Symbol)] if isinstance(called, list) else []
    if count < 1 or len(operands) != 2 * count + 5 or len(names) != 1:
        raise Refusal("dynamic_reduce_window takes arrays, as many initial values, five lists, and calls one function")
    arrays, initial = operands[:count], operands[count : 2 * count]
    rows = [constant_numbers(one, operation) for one in operands[2 * count :]]
    padding = list(zip(rows[4][::2], rows[4][1::2], strict=True))
    window = Window(tuple(
        WindowDimension(size, stride, low, high, base, spread)
        for size, stride, base, spread, (low, high) in zip(*rows[:4], padding, strict=True)
    ))  # fmt: skip
    kinds = [array(one.shape.element_type) for one in initial]
    attributes = {"window": window} if window.dimensions else {}
    reducer = scope.program.function(names[0], [*kinds, *kinds])
    made = scope.builder.add("reduce-window", None, (*arrays, *initial), {**attributes, "to_apply": reducer})
    return [made] if count == 1 else scope.several(made, count)


def _top_k(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    source, count = scope.operands(operation)
    (number,) = constant_numbers(count, operation)
    return largest_along_last(scope, source, number, True)


def _rng_bit_generator(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    state, sizes = scope.operands(operation)
    kind = word(operation, "rng_algorithm", ("DEFAULT", "THREE_FRY", "PHILOX"))
    shape = array(result(operation, 1).element_type, constant_numbers(sizes, operation))
    made = scope.builder.add(
        "rng-bit-generator", tuple_shape((state.shape, shape)), (state,), {"algorithm": f"rng_{kind.lower()}"}
    )
    return scope.several(made, 2)


def _same(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """The first operand, of which the others say the size."""
    return scope.operands(operation)[:1]


DYNAMIC_CALLS: dict[str, Callable[[Scope, Operation], Sequence[Instruction]]] = {
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "stablehlo.dynamic_top_k": _top_k,
    "stablehlo.shape_refinement_operand_wrapper": _same,
}
"""Targets, and what makes HLO of them."""


def sized_results(
    scope: Scope, operation: Operation, shapes: Sequence[Shape], operands: Sequence[Instruction]
) -> tuple[list[Shape], list[Instruction]]:
    """The shapes of results, sizes left open taken from the operands that say them, and the other operands."""
    places = integers(operation, "indices_of_shape_operands", ())
    if not places:
        return list(shapes), list(operands)
    flat = [leaf for shape in shapes for leaf in (shape.elements if shape.is_tuple else (shape,))]
    if len(places) != len(flat) or any(not 0 <= place < len(operands) for place in places):
        raise Refusal("'indices_of_shape_operands' names an operand for each result")
    found: list[Shape] = []
    for shape, place in zip(flat, places, strict=True):
        sizes = constant_numbers(operands[place], operation) if not known_shape(shape) else shape.dimensions
        if len(sizes) != shape.rank or min(sizes, default=0) < 0:
            raise Refusal(f"a result {shape} of sizes {list(sizes)}")
        found.append(array(shape.element_type, sizes) if not known_shape(shape) else shape)
    leaves = iter(found)
    made = [
        tuple_shape([next(leaves) for _ in shape.elements]) if shape.is_tuple else next(leaves) for shape in shapes
    ]
    return made, [one for n, one in enumerate(operands) if n not in places]
