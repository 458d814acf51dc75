"""How a module is cut for a backend that does not take all of it.

The instructions of the entry are the nodes of a graph, each with all that it calls; `hlotool.analysis.clusters` cuts
it.  Constants are copied to where they are read.  Tuples and their elements are no work: what matters is who made what
is in them.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.analysis.clusters import Node, Partition, partition
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.gain import USUAL, operation_gain
from hlotool.driver.backend import Backend
from hlotool.driver.optimise import optimised
from hlotool.driver.options import CompileOptions
from hlotool.driver.support import PLUMBING
from hlotool.ir import Instruction, Module
from hlotool.ir.effects import is_pure
from hlotool.passes.framework.manager import Progress
from hlotool.passes.framework.pipeline import parse_pipeline

__all__ = ["clusters_of", "prepared"]

_SYNCHRONOUS = "async-to-sync"
"""What was started in one part cannot be ended in another."""


def prepared(backend: Backend, module: Module, options: CompileOptions) -> Module:
    """A copy of the module, ready to be cut for `backend`."""
    preparation = parse_pipeline(f"{_SYNCHRONOUS},{backend.preparation}".rstrip(","))
    copy = optimised(
        module, preparation, None, options.log, options.instruments, Progress(), options.strict
    )  # fmt: skip
    for element in list(copy.entry):
        if element.opcode == "get-tuple-element" and element.operands[0].opcode == "tuple":
            element.replace_all_uses(element.operands[0].operands[element.attributes["index"]])
            copy.entry.erase(element)
    return copy


def clusters_of(backend: Backend, module: Module, against: Mapping[str, str]) -> Partition:
    """How a module that is `prepared` is cut, where reasons are known `against` instructions with these names."""
    costs = ModuleCost(module)
    nodes: list[Node] = []
    effect: tuple[str, ...] = ()
    for instruction in module.entry:
        if instruction.opcode in PLUMBING:
            continue
        after = [one.name for before in instruction.control_predecessors for one in _made_by(before)]
        if not is_pure(instruction):  # effects stay in order
            after, effect = [*after, *effect], (instruction.name,)
        place = instruction.location
        sources = (one.name for operand in instruction.operands for one in _made_by(operand))
        nodes.append(
            Node(
                name=instruction.name, op=instruction.written, inputs=tuple(dict.fromkeys(sources)),
                reason=against.get(instruction.name, ""), after=tuple(dict.fromkeys(after)),
                cost=_worth(backend, instruction, costs),
                where=f"{place.file}:{place.line}" if place is not None else "",
            )
        )  # fmt: skip
    outputs = [one.name for one in _made_by(module.entry.root) if one.opcode not in PLUMBING]
    least = backend.least_work if backend.least_gain is None else backend.least_gain + USUAL.call
    return partition(nodes, minimum=least, outputs=outputs)


def _worth(backend: Backend, instruction: Instruction, costs: ModuleCost) -> float:
    """What an instruction counts towards what a cluster must have at least: work, or seconds that compiling saves."""
    if backend.least_gain is not None:
        return operation_gain(instruction, costs, USUAL)
    cost = costs.of(instruction)
    return float(cost.flops + cost.transcendentals + cost.bytes)


def _made_by(value: Instruction) -> list[Instruction]:
    """What makes the arrays of a value: instructions that are no tuples, nor elements of any, nor constants."""
    stack, seen = [value], dict[Instruction, None]()
    while stack:
        one = stack.pop()
        if one not in seen:
            seen[one] = None
            stack += reversed(one.operands) if one.opcode in ("tuple", "get-tuple-element") else ()
    return [one for one in seen if one.opcode not in ("tuple", "get-tuple-element", "constant")]
