"""Reducer upcaster: reductions and scatters whose computation works in the types of what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, scalar
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import applied

__all__ = ["ReducerUpcaster"]

_COMPUTATION = {
    "reduce": "to_apply", "reduce-window": "to_apply", "scatter": "to_apply", "select-and-scatter": "scatter"
}  # fmt: skip
"""Opcodes -> the attribute that combines two values."""


@dataclass(frozen=True, slots=True)
class ReducerUpcaster:
    """Converts where a computation that combines values works in wider types than it is given.

    A reduce or reduce-window of bf16 by an addition of f32 adds up, and gives, f32: what is reduced is converted.  A
    scatter gives the type that it was given: its computation converts on the way in and out.  All later passes, and
    code, take for granted that arrays, initial values, parameters and results have the same type.
    """

    name: ClassVar[str] = "reducer-upcaster"
    opcodes: ClassVar[frozenset[str]] = frozenset(_COMPUTATION)

    def run(self, module: Module, log: DecisionLog) -> bool:
        def upcast(build: Builder, instruction: Instruction) -> Instruction | None:
            return _upcast(module, build, instruction)

        def reason(instruction: Instruction) -> str:
            computation = instruction.attributes[_COMPUTATION[instruction.opcode]]
            return f"the computation takes {', '.join(dict.fromkeys(_taken(computation)))}"

        return expand_each(module, log, self.opcodes, upcast, "upcast", reason)


def _upcast(module: Module, build: Builder, instruction: Instruction) -> Instruction | None:
    attribute = _COMPUTATION[instruction.opcode]
    computation: Computation = instruction.attributes[attribute]
    kinds = [leaf.element_type for leaf in instruction.shape.leaves()]
    operands = list(instruction.operands)
    if instruction.opcode in ("reduce", "reduce-window"):
        wanted = zip(operands, kinds * 2, strict=True)
        operands = [o if o.shape.element_type == kind else build.convert(o, kind) for o, kind in wanted]
    given = [leaf.element_type for leaf in computation.root.shape.leaves()]
    if operands == instruction.operands and _taken(computation) == kinds * 2 and given == kinds:
        return None
    if _taken(computation) != kinds * 2 or given != kinds:
        computation = module.add(_between(computation, kinds))
    attributes = {**instruction.attributes, attribute: computation}
    return build.add(instruction.opcode, instruction.shape, operands, attributes)


def _taken(computation: Computation) -> list[str]:
    return [parameter.shape.element_type for parameter in computation.parameters]


def _between(computation: Computation, kinds: Sequence[str]) -> Computation:
    """`computation` for values of these types, converted to those that it takes and from those that it gives."""
    own = Computation(computation.name)
    build = Builder(own)
    values = []
    for number, (inside, outside) in enumerate(zip(_taken(computation), [*kinds, *kinds], strict=True)):
        value = build.parameter(number, scalar(outside))
        values.append(value if inside == outside else build.convert(value, inside))
    found = zip(applied(build, computation, values), kinds, strict=True)
    results = [r if r.shape.element_type == kind else build.convert(r, kind) for r, kind in found]
    own.root = build.tuple(results) if computation.root.shape.is_tuple else results[0]
    return own
