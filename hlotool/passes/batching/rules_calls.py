"""Batching of custom calls, by their targets, and of random bits.

A target may have one of these rules: `LEADING`, the call itself takes arrays with more dimensions in front (as LAPACK's
do); `BY_TURNS`, it is called for one example after the other; or a function that builds the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.xla_annotations import is_annotation
from hlotool.ir import Computation, Instruction, Module, Shape, clone_instruction
from hlotool.ir.builder import Builder
from hlotool.passes.batching.batcher import Batcher, Rule, refusal
from hlotool.passes.batching.values import Value, batched_tuple
from hlotool.passes.expand.rng_bit_generator_expander import RngBitGeneratorExpander

__all__ = ["BY_TURNS", "LEADING", "RULES", "CallRule", "batching_of", "register_batching", "unregister_batching"]

LEADING, BY_TURNS = "leading", "by turns"

CallRule: TypeAlias = "str | Callable[[Builder, Instruction, Sequence[Instruction], int], Instruction]"
"""`LEADING`, `BY_TURNS`, or (where to build, the call, operands, number of examples) -> result, with the batch in
front of all arrays of the operands and of the result."""

_registered: dict[str, CallRule] = {}
_LAPACK = re.compile(r"lapack_[sdcz]\w+_ffi")


def register_batching(target: str, rule: CallRule, *, replace: bool = False) -> None:
    """Let `rule` batch custom calls of `target` in this process: `LEADING`, `BY_TURNS` or a function (`CallRule`).

    ValueError where the target has a rule already, unless `replace`, and for other words.
    """
    if target in _registered and not replace:
        raise ValueError(f"custom call {target!r} has a batching rule already; pass replace=True to change it")
    if isinstance(rule, str) and rule not in (LEADING, BY_TURNS):
        raise ValueError(f"a batching rule is {LEADING!r}, {BY_TURNS!r} or a function, not {rule!r}")
    _registered[target] = rule


def unregister_batching(target: str) -> None:
    """Forget the rule of `target`; KeyError when there is none."""
    del _registered[target]


def batching_of(target: str) -> CallRule | None:
    """The rule of `target`: a registered one, or that of LAPACK's targets."""
    return _registered.get(target) or (LEADING if _LAPACK.fullmatch(target) else None)


def _custom_call(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    if is_annotation(i):
        return values[0]
    rule = batching_of(i.attributes["custom_call_target"])
    if rule is None:
        raise refusal(i, "nothing is known of it; register_batching says how to")
    if rule == BY_TURNS:
        return b.by_turns(i, values, "it is registered so")
    operands = [
        b.packed(b.settled(v, o.shape, iter([leaf.is_array for leaf in o.shape.leaves()])))
        for v, o in zip(values, i.operands, strict=True)
    ]
    flags = [leaf.is_array for leaf in i.shape.leaves()]
    made = _leading(b, i, operands) if isinstance(rule, str) else rule(b.build, i, operands, b.size)
    wanted = _batched(i.shape, b.size)
    if not made.shape.compatible(wanted):
        raise refusal(i, f"its rule gives {made.shape}, not {wanted}")
    return b.unpacked(made, i.shape, iter(flags))


def _batched(shape: Shape, size: int) -> Shape:
    return batched_tuple(shape, iter([leaf.is_array for leaf in shape.leaves()]), size)


def _leading(b: Batcher, i: Instruction, operands: Sequence[Instruction]) -> Instruction:
    changed: dict[str, Any] = {}
    if "operand_layout_constraints" in i.attributes:
        changed["operand_layout_constraints"] = tuple(
            _batched(shape, b.size) for shape in i.attributes["operand_layout_constraints"]
        )
    config = i.attributes.get("backend_config")
    return b.emit(i, _batched(i.shape, b.size), operands, backend_config=config, **changed)


def _random_bits(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """The arithmetic of the cipher, for all states at once; one after the other where the state has another form."""
    name = b.work.module.unique_name(i.opcode)
    computation = Computation(name)
    build = Builder(computation, like=i)
    state = build.parameter(0, i.operands[0].shape)
    computation.root = build.put(clone_instruction(i, [state]))
    alone = Module(name)
    alone.add(computation, entry=True)
    if not RngBitGeneratorExpander().run(alone, DecisionLog()):
        return b.by_turns(i, values, "its state has another form than the cipher's")
    return b.inlined(computation, values)


RULES: dict[str, Rule] = {
    "custom-call": _custom_call,
    "rng-bit-generator": _random_bits,
}
