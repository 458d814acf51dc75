"""Derivatives of collectives.  The result of a program on several devices counts as the sum of what each returns."""

from __future__ import annotations

from hlotool.analysis.reducers import opcodes
from hlotool.ir import Instruction, clone_instruction
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Path, refusal

__all__ = ["RULES"]


def _check_sum(instruction: Instruction) -> None:
    if set(opcodes(instruction.attributes["to_apply"])) != {"add"}:
        raise refusal(instruction, "what it combines is not added up")


def _all_reduce(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    _check_sum(instruction)
    for path, g in cotangents.items():
        operand = instruction.operands[path[0] if path else 0]
        if at.wants(operand):
            at.give(operand, at.build.put(_alone(instruction, g)))


def _alone(instruction: Instruction, value: Instruction) -> Instruction:
    new = clone_instruction(instruction, (value,))
    new.shape = value.shape
    return new


def _all_reduce_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    _check_sum(instruction)
    found: dict[Path, Instruction] = {}
    for number, operand in enumerate(instruction.operands):
        tangent = at.tangent(operand)
        if tangent is not None:
            found[(number,) if instruction.shape.is_tuple else ()] = at.build.put(_alone(instruction, tangent))
    return found


def _permute(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    if len(instruction.operands) != 1:
        raise refusal(instruction, "it has several operands")
    new = clone_instruction(instruction, (cotangents[()],))
    pairs = instruction.attributes["source_target_pairs"]
    new.attributes["source_target_pairs"] = tuple((target, source) for source, target in pairs)
    at.give(instruction.operands[0], at.build.put(new))


def _permute_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    if len(instruction.operands) != 1:
        raise refusal(instruction, "it has several operands")
    return {(): at.build.put(clone_instruction(instruction, (at.tangent_or_zeros(instruction.operands[0]),)))}


RULES: dict[str, Rule] = {
    "all-reduce": Rule(_all_reduce, _all_reduce_forward),
    "collective-permute": Rule(_permute, _permute_forward),
}
