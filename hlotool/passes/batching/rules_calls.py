"""Batching of custom calls, by their targets, and of random bits.

A target may have one of these rules: `LEADING`, the call itself takes arrays with more dimensions in front (as LAPACK's
do); `BY_TURNS`, it is called for one example after the other; or a function that builds the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import own_derivatives
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
    if i.attributes["custom_call_target"] in own_derivatives.TARGETS:
        return _own_derivative(b, i, values)
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


def _own_derivative(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """The function and its derivative, each of all examples."""
    given = [flag for value, o in zip(values, i.operands, strict=True) for flag in b.flags(value, o.shape)]
    moving = own_derivatives.floats_of([one.shape for one in own_derivatives.arguments_of(i)])
    floats = own_derivatives.floats_of(i.shape.elements)
    function, second, *third = i.called
    flow, count = b.work.flow, len(i.shape.elements)
    taken = given if third else [*given, *(given[n] for n in moving)]
    also = flow.results(second, taken)
    results = [one or other for one, other in zip(flow.results(function, given), also, strict=False)]
    if third:
        kept = also[count:]
        cotangents = [*kept, *(results[n] for n in floats)]
        called = [
            b.work.computation(second, given, [*results, *kept]),
            _summed(b, third[0], cotangents, [given[n] for n in moving]),
        ]
    else:
        for n, moves in zip(floats, also[count:], strict=True):
            results[n] = results[n] or moves
        called = [b.work.computation(second, taken, [*results, *(results[n] for n in floats)])]
    computations = (b.work.computation(function, given, results), *called)
    operands = [
        b.packed(b.settled(value, o.shape, iter([flag])))
        for value, o, flag in zip(values, i.operands, given, strict=True)
    ]
    shape = batched_tuple(i.shape, iter(results), b.size)
    return b.unpacked(b.emit(i, shape, operands, called_computations=computations), i.shape, iter(results))


def _summed(b: Batcher, backward: Computation, given: list[bool], wanted: list[bool]) -> Computation:
    """The cotangents of all examples, and their sum for an argument that the examples share."""
    found = b.work.flow.results(backward, given)
    inner = b.work.computation(backward, given, [a or w for a, w in zip(found, wanted, strict=True)])
    shared = [n for n, (a, w) in enumerate(zip(found, wanted, strict=True)) if a and not w]
    if not shared:
        return inner
    outer = Computation(b.work.module.unique_name(f"{backward.name}_summed"))
    build = Builder(outer)
    whole = build.call(inner, [build.parameter(n, p.shape) for n, p in enumerate(inner.parameters)])
    parts = [build.gte(whole, n) for n in range(len(found))]
    for n in shared:
        element_type = parts[n].shape.element_type
        zero = build.scalar_constant(0.0, element_type)
        parts[n] = build.reduce(parts[n], zero, (0,), b.work.combiner("add", element_type))
    outer.root = build.tuple(parts)
    return b.work.finish(outer)


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
