"""Product expander: dots and convolutions of any element types and algorithms, by those that kernels know."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.contraction import sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, element_type
from hlotool.ir.builder import Builder
from hlotool.ir.dot_algorithms import ALGORITHMS, TF32_BITS, DotAlgorithm
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["ProductExpander"]


@dataclass(frozen=True, slots=True)
class ProductExpander:
    """Converts operands and results of dots and convolutions whose element types no kernel combines.

    Floats of eight bits become bf16, which holds them exactly; where one side is complex, both are.  A result that is
    narrower than the sum in another way than by one rounding of a kernel is converted from it.  Algorithms of dots
    round the operands; those of several products become plain ones, which are more precise.
    """

    name: ClassVar[str] = "product-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot", "convolution"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _expand, "product-types", "in types that kernels have")


def _needs_work(product: Instruction) -> bool:
    left, right, kind = _types(product)
    total = sum_type(left, right, kind)
    known = _held(left, total) == left and _held(right, total) == right and _stored(kind, total)
    return not known or "algorithm" in product.attributes


def _types(product: Instruction) -> tuple[str, str, str]:
    left, right = product.operands
    return left.shape.element_type, right.shape.element_type, product.shape.element_type


def _expand(build: Builder, product: Instruction) -> Instruction | None:
    if not _needs_work(product):
        return None
    left, right = product.operands
    kind = result = product.shape.element_type
    attributes = {name: value for name, value in product.attributes.items() if name != "algorithm"}
    algorithm = ALGORITHMS.get(product.attributes.get("algorithm", ""))
    if algorithm and all(element_type(x.shape.element_type).is_float for x in (left, right)):
        left, right = _rounded(build, left, algorithm), _rounded(build, right, algorithm)
        result = algorithm.total
        if algorithm.operand == algorithm.total:
            attributes["operand_precision"] = ("highest", "highest")  # of f32 numbers no parts
    total = sum_type(left.shape.element_type, right.shape.element_type, result)
    if result == total and _stored(kind, total):
        result = kind  # rounded once, on the way to memory
    elif not _stored(result, total):
        result = total
    left, right = (_converted(build, x, _held(x.shape.element_type, total)) for x in (left, right))
    made = build.add(product.opcode, product.shape.with_type(result), (left, right), attributes)
    return _converted(build, made, kind)


def _rounded(build: Builder, operand: Instruction, algorithm: DotAlgorithm) -> Instruction:
    """The operand as the algorithm wants it, where that is one number for each."""
    if algorithm.parts > 1 or not algorithm.operand:
        return operand
    if algorithm.operand != "tf32":
        return _converted(build, operand, algorithm.operand)
    if element_type(operand.shape.element_type).bits <= 16:
        return operand  # has no more bits than TF32
    single, (exponent, mantissa) = _converted(build, operand, "f32"), TF32_BITS
    bits = {"exponent_bits": exponent, "mantissa_bits": mantissa}
    return build.add("reduce-precision", single.shape, (single,), bits)


def _held(kind: str, total: str) -> str:
    """The type in which kernels that sum in `total` take operands of `kind`."""
    if element_type(total).is_complex:
        return total
    row = element_type(kind)
    if row.is_float and row.bits <= 8:
        return "f32" if kind == "f8e8m0fnu" else "bf16"  # 2**-127 is subnormal in bf16, and may count as zero there
    return kind


def _stored(kind: str, total: str) -> bool:
    """Whether kernels that sum in `total` write results of `kind`."""
    row, sums = element_type(kind), element_type(total)
    if row.kind == "pred" or sums.kind == "pred" or sums.is_complex:
        return kind == total
    if sums.is_float:
        return kind in (("f32", "bf16", "f16") if total == "f32" else ("f64", "f32"))
    return row.is_integer


def _converted(build: Builder, operand: Instruction, kind: str) -> Instruction:
    return operand if operand.shape.element_type == kind else build.convert(operand, kind)
