"""Sharding propagation: what follows for all values from the shardings of a few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, UnsupportedError, Verbatim
from hlotool.ir.sharding import print_sharding, replicated
from hlotool.ir.sharding_axes import ShardingValueError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.annotations import Annotations, written_shardings
from hlotool.passes.sharding.graph import Graph
from hlotool.passes.sharding.propagation import Propagation, Step, name_of
from hlotool.passes.sharding.shardy import import_shardy

__all__ = ["RULE_OF_WAY", "ShardingPropagation", "propagate", "why_kept"]

RULE_OF_WAY = {"operand": "forward", "manual": "forward", "user": "backward", "beside": "beside", "group": "group"}
"""How a sharding came along an edge -> the rule of the decision."""


@dataclass(frozen=True, slots=True)
class ShardingPropagation:
    """Gives values the shardings that follow from those that are annotated, forward and backward, to a fixed point.

    First through what computes element by element, then through products, reductions and movement; a sharding that
    arrives where there is one refines it where both fit together.  Parameters and results of the program keep what is
    annotated, all of them on every device where nothing is, unless the module's header allows propagation to them
    (`allow_spmd_sharding_propagation_to_parameters`, `..._to_output`).  Annotations of Shardy become those of GSPMD.
    """

    name: ClassVar[str] = "sharding-propagation"

    def run(self, module: Module, log: DecisionLog) -> bool:
        imported, propagation = propagate(module, log)
        changed = imported
        if propagation is None:
            return changed
        for computation in propagation.graph.computations:
            for one in computation:
                changed |= _write(one, propagation, log)
        for conflict in propagation.conflicts():
            target, source = (name_of(propagation.graph.places[node]) for node in (conflict.node, conflict.source))
            own = propagation.found[conflict.node]
            where = "" if conflict.edge.via.name == target else f" at {conflict.edge.via.name}"
            log.refuse("conflict", target, f"{own}, not {conflict.offered} as {source} has it{where}")
        return changed


def propagate(module: Module, log: DecisionLog) -> tuple[bool, Propagation | None]:
    """Whether annotations of Shardy were replaced, and the shardings that follow; None where nothing is annotated.

    `UnsupportedError` where an annotation cannot be read.
    """
    try:
        changed = import_shardy(module, log)
        said = Annotations(module)
    except ShardingValueError as error:
        raise UnsupportedError(f"a sharding cannot be read: {error}") from error
    if not said.any:
        return changed, None
    propagation = Propagation(said.graph, said.given, said.hints, said.opened)
    propagation.run()
    return changed, propagation


def _write(one: Instruction, propagation: Propagation, log: DecisionLog) -> bool:
    """Write what was found of an instruction; whether that is new."""
    graph = propagation.graph
    nodes = graph.nodes(one)
    found = [propagation.found.get(node) for node in nodes]
    if not any(sharding is not None for sharding in found):
        return False
    before = one.attributes.get("sharding")
    given = [*written_shardings(one)]
    rows = [sharding if sharding is not None else replicated() for sharding in found]
    if given == rows or not log.allow():
        return False
    for n, sharding in enumerate(given):
        if sharding is not None and n < len(rows):
            rows[n] = replace(rows[n], metadata=sharding.metadata)
    whole = rows if one.shape.is_tuple else rows[0]
    one.attributes["sharding"] = Verbatim(print_sharding(whole))
    for n, node in enumerate(nodes):
        steps = propagation.steps.get(node, ())
        subject = name_of((one, n))
        for step in steps:
            reason = _reason(step, propagation, (one.name, propagation.graph.places[node][0].name))
            log.rewrite(RULE_OF_WAY[step.edge.way], subject, (), reason, level=step.edge.level)
        if not steps and node in propagation.found and before is None:
            log.rewrite("kept", subject, (), f"{rows[n]}: {why_kept(one, node, graph)}")
    return True


def _reason(step: Step, propagation: Propagation, target: Sequence[str]) -> str:
    source, leaf = propagation.graph.places[step.source]
    via = step.edge.via.name
    by = f" by {via}" if via not in (source.name, *target) else ""
    return f"{step.sharding} from {name_of((source, leaf))}{by}"


def why_kept(one: Instruction, node: int, graph: Graph) -> str:
    """Why a value without annotation has a sharding that came from no other."""
    if one.opcode in ("partition-id", "replica-id"):
        return "every device has another number"
    other = next((place for place in graph.members[node] if place[0] is not one), None)
    return "the header does not allow propagation to it" if other is None else f"as {name_of(other)}"
