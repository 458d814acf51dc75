"""Transpose folding: dots read transposed operands, and write transposed results, by their dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from hlotool.analysis.contraction import dot_dimensions, matrix_views
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import erase, origins_of, replace_with

__all__ = ["TransposeFolding"]


@dataclass(frozen=True, slots=True)
class TransposeFolding:
    """``dot(transpose(a), b)`` reads ``a``; ``transpose(dot(a, b))`` becomes ``dot(b, a)`` where that is the same.

    Only where the kernel can still read the operand in place (its dimensions collapse).
    """

    name: ClassVar[str] = "transpose-folding"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for instruction in computation:
                if instruction.opcode == "dot":
                    for index in (0, 1):
                        while _fold_operand(instruction, index, log):
                            changed = True
                elif instruction.opcode == "transpose" and log.allow():
                    changed |= _fold_result(instruction, log)
        return changed


def _fold_operand(dot: Instruction, index: int, log: DecisionLog) -> bool:
    transpose = dot.operands[index]
    if transpose.opcode != "transpose" or not log.allow():
        return False
    permutation = transpose.attributes["dimensions"]
    side = ("lhs", "rhs")[index]
    numbers = dot_dimensions(dot)
    free = numbers.lhs_free if index == 0 else numbers.rhs_free
    if not _ascending([permutation[d] for d in free]):
        log.refuse("fold-transpose", dot, f"the free dimensions of the {side} operand would change order")
        return False
    names = (f"{side}_batch_dims", f"{side}_contracting_dims")
    before = {name: dot.attributes.get(name, ()) for name in names}
    dot.attributes.update({name: tuple(permutation[d] for d in dims) for name, dims in before.items()})
    dot.replace_operand(index, transpose.operands[0])
    if matrix_views(dot) is None:
        dot.attributes.update(before)
        dot.replace_operand(index, transpose)
        log.refuse("fold-transpose", dot, f"the dimensions of the {side} operand would not collapse")
        return False
    dot.origins = tuple(dict.fromkeys([*origins_of(dot), *origins_of(transpose)]))
    log.rewrite("fold-transpose", transpose, dot, f"read through strides of the {side} operand")
    if not transpose.users and not transpose.is_root:
        erase(transpose)
    return True


def _fold_result(transpose: Instruction, log: DecisionLog) -> bool:
    dot = transpose.operands[0]
    if dot.opcode != "dot" or len(dot.users) > 1 or dot.is_root:
        return False
    numbers = dot_dimensions(dot)
    batch, m, n = len(numbers.lhs_batch), len(numbers.lhs_free), len(numbers.rhs_free)
    swapped = [*range(batch), *range(batch + m, batch + m + n), *range(batch, batch + m)]
    if list(transpose.attributes["dimensions"]) != swapped:
        return False
    attributes = dict(dot.attributes)
    for name in ("batch_dims", "contracting_dims"):
        attributes[f"lhs_{name}"] = dot.attributes.get(f"rhs_{name}", ())
        attributes[f"rhs_{name}"] = dot.attributes.get(f"lhs_{name}", ())
    if "operand_precision" in attributes:
        attributes["operand_precision"] = tuple(reversed(attributes["operand_precision"]))
    assert transpose.parent is not None
    build = Builder(transpose.parent, transpose, like=transpose)
    result = build.add("dot", transpose.shape, list(reversed(dot.operands)), attributes)
    log.rewrite("swap-operands", transpose, result, "the transpose of a product is the product the other way round")
    result.origins = tuple(dict.fromkeys([*origins_of(dot), *origins_of(transpose)]))
    replace_with(transpose, result)
    erase(dot)
    return True


def _ascending(values: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(values))
