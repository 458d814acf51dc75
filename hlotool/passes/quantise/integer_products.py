"""Products of dequantised operands, as products of what they are stored as."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hlotool.analysis.contraction import dot_dimensions
from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import evaluate_instruction
from hlotool.ir import ELEMENT_TYPES, Instruction, Literal, Module, array
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import has_sizes, replace_with
from hlotool.passes.quantise.products import PRODUCTS, free_axes, take_place, terms_of

__all__ = ["MOST_SUM", "IntegerProducts", "largest_sum"]

MOST_SUM = int(np.iinfo(np.int32).max)
"""What a sum in s32 holds."""

_SUMS = {"integer": "s32", "float": "f32"}


@dataclass(frozen=True, slots=True)
class IntegerProducts:
    """Computes a dot or convolution of dequantised operands on the stored numbers, and scales its sums.

    An operand is dequantised where it is ``convert(q) * scale``, ``(convert(q) - zero) * scale``, with the difference
    in f32 or s32, for a `q` of 8 bits or fewer; scales may differ along dimensions that are not summed over, a zero
    point is one constant.  Integers are added up in s32, small floats in f32; what zero points add is taken off the
    sums.  The sums are exact, where those of floats would be rounded.
    """

    name: ClassVar[str] = "integer-products"
    changes_program: ClassVar[bool] = True
    opcodes: ClassVar[frozenset[str]] = PRODUCTS

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for product in list(computation) if not computation.opcodes.isdisjoint(PRODUCTS) else ():
                if product.opcode in PRODUCTS and product.parent is not None:
                    changed |= _rewrite(module, product, log)
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dequantised:
    """An operand ``(q - zero) * scale``: `scale` is the instruction that is broadcast along `axes`."""

    q: Instruction
    scale: Instruction
    axes: tuple[int, ...]
    zero: int = 0


def largest_sum(product: Instruction, lhs: str, rhs: str, zeros: tuple[int, int] = (0, 0)) -> int:
    """How large a sum of a product of integers of these types can be, with what is taken off for zero points."""
    far = [max(abs(limit - zero) for limit in _range(kind)) for kind, zero in zip((lhs, rhs), zeros, strict=True)]
    near = [max(abs(limit) for limit in _range(kind)) for kind in (lhs, rhs)]
    return terms_of(product) * max(far[0] * far[1], near[0] * near[1])


def _range(kind: str) -> tuple[int, int]:
    row = ELEMENT_TYPES[kind]
    return (0, (1 << row.bits) - 1) if row.kind == "unsigned" else (-(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1)


def _rewrite(module: Module, product: Instruction, log: DecisionLog) -> bool:
    if product.shape.element_type != "f32" or has_sizes(product) or len(product.operands) != 2:
        return False
    found = [_dequantised(operand) for operand in product.operands]
    lhs, rhs = found
    if lhs is None or rhs is None:
        return False
    rows = [ELEMENT_TYPES[side.q.shape.element_type] for side in (lhs, rhs)]
    reason = _obstacle(product, lhs, rhs)
    if reason:
        log.refuse("not-integer", product, reason)
        return False
    if not log.allow():
        return False
    assert product.parent is not None
    build = Builder(product.parent, product, like=product)
    sums = _SUMS["float" if rows[0].is_float else "integer"]
    attributes = {key: value for key, value in product.attributes.items() if key != "operand_precision"}
    new = build.add(product.opcode, product.shape.with_type(sums), [lhs.q, rhs.q], attributes)
    total = new
    if lhs.zero or rhs.zero:
        total = _corrected(module, build, product, total, lhs, rhs)
    value = total if sums == "f32" else build.convert(total, "f32")
    result = build.binary("multiply", value, _scales(build, product, lhs, rhs))
    take_place(product, new, result)
    log.rewrite("integer", product, new, f"{rows[0].name} times {rows[1].name}, added up in {sums}")
    return True


def _obstacle(product: Instruction, lhs: _Dequantised, rhs: _Dequantised) -> str:
    """Why the stored numbers cannot be multiplied; nothing where they can."""
    rows = [ELEMENT_TYPES[side.q.shape.element_type] for side in (lhs, rhs)]
    if rows[0].is_float != rows[1].is_float:
        return f"{rows[0].name} and {rows[1].name} are not of a kind"
    if "algorithm" in product.attributes:
        return "it asks for an algorithm"
    for number, side in enumerate((lhs, rhs)):
        if not set(side.axes) <= set(free_axes(product, number).axes):
            return "a scale differs along a dimension that is summed over"
    if rows[0].is_float:
        return ""
    if product.opcode == "convolution" and rhs.zero:
        return "its kernel has a zero point"
    if product.attributes.get("batch_group_count", 1) != 1 and lhs.zero:
        return "a zero point with groups along the batch"
    if largest_sum(product, rows[0].name, rows[1].name, (lhs.zero, rhs.zero)) > MOST_SUM:
        return "its sums may not fit s32"
    return ""


def _dequantised(value: Instruction) -> _Dequantised | None:
    """`value` as stored numbers, a scale and a zero point; None where it is something else."""
    if value.opcode != "multiply":
        return None
    for number, spread in enumerate(value.operands):
        inner = value.operands[1 - number]
        if spread.opcode != "broadcast" or list(spread.attributes.get("dimensions", ())) != sorted(
            spread.attributes.get("dimensions", ())
        ):
            continue
        found = _unshifted(inner)
        if found is not None:
            return _Dequantised(q=found[0], zero=found[1], scale=spread.operands[0],
                                axes=tuple(spread.attributes.get("dimensions", ())))  # fmt: skip
    return None


def _unshifted(value: Instruction) -> tuple[Instruction, int] | None:
    """Stored numbers and zero point of ``convert(q)`` or ``convert(q) - zero``."""
    if value.opcode == "convert" and value.operands[0].shape.element_type == "s32":
        value = value.operands[0]
    zero = 0
    if value.opcode == "subtract":
        spread = value.operands[1]
        single = spread.operands[0] if spread.opcode == "broadcast" else spread
        number = single.literal.number if single.opcode == "constant" else None
        if not isinstance(number, int | float) or isinstance(number, bool) or number != int(number):
            return None
        zero, value = int(number), value.operands[0]
    if value.opcode != "convert":
        return None
    row = ELEMENT_TYPES[value.operands[0].shape.element_type]
    if row.bits > 8 or row.kind == "pred" or not (row.is_integer or row.is_float) or (zero and row.is_float):
        return None
    return value.operands[0], zero


def _scales(build: Builder, product: Instruction, lhs: _Dequantised, rhs: _Dequantised) -> Instruction:
    """The scales of both operands, multiplied, in the sizes of the result."""
    sizes = product.shape.dimensions
    along = []
    for number, side in enumerate((lhs, rhs)):
        free = free_axes(product, number)
        places = dict(zip(free.axes, free.result, strict=True))
        along.append(tuple(places[axis] for axis in side.axes))
    if not lhs.axes or not rhs.axes:  # a scalar goes into the other's vector, ahead of the broadcast
        few, many, axes = (lhs, rhs, along[1]) if not lhs.axes else (rhs, lhs, along[0])
        single = few.scale if not axes else build.broadcast(few.scale, (), many.scale.shape.dimensions)
        return build.broadcast(_folded(build.binary("multiply", many.scale, single)), axes, sizes)
    spread = [build.broadcast(side.scale, axes, sizes) for side, axes in zip((lhs, rhs), along, strict=True)]
    return build.binary("multiply", *spread)


def _folded(value: Instruction) -> Instruction:
    """A constant in the place of what only depends on constants; scalars and vectors, so that it costs nothing."""
    operands = [_constant(operand) for operand in value.operands]
    if any(operand is None for operand in operands):
        return value
    found = evaluate_instruction(value, [operand.value() for operand in operands if operand is not None])
    assert value.parent is not None
    build = Builder(value.parent, value, like=value)
    new = build.constant(Literal(value.shape.without_layout(), np.ascontiguousarray(found).reshape(np.shape(found))))
    replace_with(value, new)
    return new


def _constant(value: Instruction) -> Literal | None:
    """The contents of a constant, or of a broadcast of one."""
    if value.opcode == "constant" and not value.literal.elided:
        return value.literal
    if value.opcode == "broadcast" and value.operands[0].opcode == "constant" and not value.operands[0].literal.elided:
        found = np.asarray(evaluate_instruction(value, [value.operands[0].literal.value()]))
        return Literal(value.shape.without_layout(), np.ascontiguousarray(found))
    return None


def _corrected(
    module: Module, build: Builder, product: Instruction, total: Instruction, lhs: _Dequantised, rhs: _Dequantised
) -> Instruction:
    """The sums of ``(a - za) * (b - zb)`` from those of ``a * b``, by the sums of each operand alone."""
    if product.opcode == "convolution":
        return build.binary("subtract", total, _padded_sums(build, product, lhs, rhs))
    d = dot_dimensions(product)
    add = module.add(binary_computation("add", "s32", "add_s32"))
    zero = build.scalar_constant(0, "s32")
    for number, side, other, contracted in (
        (1, rhs, lhs, d.rhs_contracting), (0, lhs, rhs, d.lhs_contracting)
    ):  # fmt: skip
        if not other.zero:
            continue
        wide = _folded(build.convert(side.q, "s32"))
        sums = _folded(build.reduce(wide, zero, contracted, add))
        times = _folded(build.binary("multiply", sums, build.splat(other.zero, sums.shape)))
        if number == 1 and lhs.zero and rhs.zero:  # both zero points together are taken off twice
            both = lhs.zero * rhs.zero * terms_of(product)
            times = _folded(build.binary("subtract", times, build.splat(both, times.shape)))
        total = build.binary("subtract", total, build.broadcast(times, free_axes(product, number).result, total.shape))
    return total


def _padded_sums(build: Builder, product: Instruction, lhs: _Dequantised, rhs: _Dequantised) -> Instruction:
    """What the zero point of the input adds to a convolution: that of an image which is the zero point everywhere.

    It differs at the edges, where padding takes part in fewer terms; images do not differ.
    """
    labels = product.attributes["dim_labels"]
    sizes, result = list(lhs.q.shape.dimensions), list(product.shape.dimensions)
    sizes[labels.input_batch] = result[labels.output_batch] = 1
    kind = lhs.q.shape.element_type
    image = build.splat(lhs.zero, array(kind, sizes))
    one = _folded(build.add("convolution", array("s32", result), [image, rhs.q], product.attributes))
    kept = [axis for axis in range(len(result)) if axis != labels.output_batch]
    flat = _folded(build.reshape(one, [result[axis] for axis in kept]))
    return build.broadcast(flat, kept, array("s32", product.shape.dimensions))
