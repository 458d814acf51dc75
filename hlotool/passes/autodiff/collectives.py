"""Derivatives of collectives.  The result of a program on several devices counts as the sum of what each returns.

All but extremes are linear, so that forward mode is the collective itself, on tangents, and reverse mode its transpose:
what was gathered is added up where it came from, what was added up is gathered, and parts and values that went from
one device to another go back.
"""

from __future__ import annotations

from typing import Any

from hlotool.analysis.reducers import opcodes
from hlotool.ir import Computation, Instruction, clone_instruction
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.movement import jointly
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Path, Writer, refusal

__all__ = ["RULES"]


def _operand(instruction: Instruction, path: Path) -> Instruction:
    """The operand that leaf `path` of the result comes from, of those that treat each operand alone."""
    return instruction.operands[path[0] if path else 0]


def _each_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    """The collective of the tangents that there are, one by one."""
    found: dict[Path, Instruction] = {}
    for number, operand in enumerate(instruction.operands):
        tangent = at.tangent(operand)
        if tangent is not None:
            shape = instruction.shape.elements[number] if instruction.shape.is_tuple else instruction.shape
            new = clone_instruction(instruction, (tangent,))
            new.shape = shape
            found[(number,) if instruction.shape.is_tuple else ()] = at.build.put(new)
    return found


def _put(at: Writer, like: Instruction, opcode: str, value: Instruction, operand: Instruction, **changed: Any) -> Any:
    """A collective among the devices of `like`, whose result is an array as `operand` is."""
    kept = {name: one for name, one in like.attributes.items() if name not in ("to_apply", "constrain_layout")}
    return at.build.add(opcode, operand.shape.with_layout(None), (value,), {**kept, **changed})


def _sum(at: Writer, value: Instruction) -> Computation:
    return at.sum_computation(value.shape.element_type)


# ---- all-reduce, reduce-scatter


def _combined(instruction: Instruction) -> str:
    names = set(opcodes(instruction.attributes["to_apply"]))
    if names == {"add"}:
        return "add"
    if len(names) == 1 and names <= {"maximum", "minimum"} and instruction.opcode == "all-reduce":
        return "extreme"
    raise refusal(instruction, "what it combines is no sum and no extreme")


def _chosen(at: Writer, all_reduce: Instruction, number: int) -> tuple[Instruction, Instruction]:
    """Where an operand is the extreme, and on how many devices it is, as numbers of the type."""
    operand = all_reduce.operands[number]
    whole = at.primal(all_reduce)
    extreme = at.build.gte(whole, number) if all_reduce.shape.is_tuple else whole
    mask = at.build.compare(at.primal(operand), extreme, "EQ")
    counted = at.build.convert(mask, operand.shape.element_type)
    return mask, _put(at, all_reduce, "all-reduce", counted, operand, to_apply=_sum(at, counted))


def _all_reduce(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    kind = _combined(instruction)
    for path, g in cotangents.items():
        operand = _operand(instruction, path)
        if at.wants(operand):
            total = _put(at, instruction, "all-reduce", g, operand, to_apply=_sum(at, g))
            if kind == "extreme":
                mask, count = _chosen(at, instruction, path[0] if path else 0)
                total = at.build.select(mask, at.build.binary("divide", total, count), at.zeros(total.shape))
            at.give(operand, total)


def _all_reduce_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    if _combined(instruction) == "add":
        return _each_forward(at, instruction)
    found: dict[Path, Instruction] = {}
    for number, operand in enumerate(instruction.operands):
        tangent = at.tangent(operand)
        if tangent is not None:
            mask, count = _chosen(at, instruction, number)
            own = at.build.select(mask, tangent, at.zeros(tangent.shape))
            total = _put(at, instruction, "all-reduce", own, operand, to_apply=_sum(at, own))
            path = (number,) if instruction.shape.is_tuple else ()
            found[path] = at.build.binary("divide", total, count)
    return found


def _reduce_scatter(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    _combined(instruction)
    for path, g in cotangents.items():
        operand = _operand(instruction, path)
        if at.wants(operand):
            at.give(operand, _put(at, instruction, "all-gather", g, operand))


def _reduce_scatter_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    _combined(instruction)
    return _each_forward(at, instruction)


# ---- what moves


def _all_gather(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    for path, g in cotangents.items():
        operand = _operand(instruction, path)
        if not operand.shape.rank:
            raise refusal(instruction, "it has a number among its arrays")
        if at.wants(operand):
            at.give(operand, _put(at, instruction, "reduce-scatter", g, operand, to_apply=_sum(at, g)))


def _all_to_all(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    """What went to a device comes back from there: the same again."""
    if not instruction.shape.is_tuple:
        at.give(instruction.operands[0], at.build.put(clone_instruction(instruction, (cotangents[()],))))
        return
    given = [cotangents.get((number,)) or at.zeros(one.shape) for number, one in enumerate(instruction.operands)]
    back = at.build.put(clone_instruction(instruction, given))
    for number, operand in enumerate(instruction.operands):
        at.give(operand, at.build.gte(back, number))


def _broadcast(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    """The sum of all goes to the first of each group; a permute from it to itself gives the others zeros."""
    written = instruction.attributes.get("replica_groups")
    pairs = tuple((group[0], group[0]) for group in (written.groups if written else ()) if group)
    if not pairs:
        raise refusal(instruction, "it has no groups, so that who sends is not known")
    for path, g in cotangents.items():
        operand = _operand(instruction, path)
        if at.wants(operand):
            total = _put(at, instruction, "all-reduce", g, operand, to_apply=_sum(at, g))
            kept = {name: one for name, one in instruction.attributes.items() if name == "channel_id"}
            kept["source_target_pairs"] = pairs
            at.give(operand, at.build.add("collective-permute", operand.shape.with_layout(None), (total,), kept))


def _check_permute(instruction: Instruction) -> None:
    if "slice_sizes" in instruction.attributes:
        raise refusal(instruction, "it writes into a part of its operand, at places that it is handed")


def _permute(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    _check_permute(instruction)
    pairs = tuple((target, source) for source, target in instruction.attributes["source_target_pairs"])
    for path, g in cotangents.items():
        operand = _operand(instruction, path)
        if at.wants(operand):
            at.give(operand, _put(at, instruction, "collective-permute", g, operand, source_target_pairs=pairs))


def _permute_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    _check_permute(instruction)
    return _each_forward(at, instruction)


# ---- ragged


def _ragged(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    raise refusal(
        instruction,
        "where rows come from is known to those that send them alone, so that they cannot be sent back",
        "forward mode (jvp) works",
    )


def _tuple_or_one(at: Forward, instruction: Instruction) -> ByLeaf:
    """All operands together, where parts of one go into another."""
    found = jointly(lambda one: range(len(one.operands)))(at, instruction)[()]
    if not instruction.shape.is_tuple:
        return {(): found}
    return {(number,): at.build.gte(found, number) for number in range(len(instruction.operands))}


RULES: dict[str, Rule] = {
    "all-reduce": Rule(_all_reduce, _all_reduce_forward),
    "reduce-scatter": Rule(_reduce_scatter, _reduce_scatter_forward),
    "all-gather": Rule(_all_gather, _each_forward),
    "all-to-all": Rule(_all_to_all, _tuple_or_one),
    "ragged-all-to-all": Rule(_ragged, jointly(lambda one: (0, 1))),
    "collective-broadcast": Rule(_broadcast, _each_forward),
    "collective-permute": Rule(_permute, _permute_forward),
}
