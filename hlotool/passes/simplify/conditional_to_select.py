"""Compute both branches of cheap conditionals and select."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, Shape, array
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import inline_computation, is_pure, replace_with
from hlotool.passes.framework.rewriter import Rewriter
from hlotool.passes.simplify.conditional_simplifier import branches_of

__all__ = ["ConditionalToSelect"]

_FREE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape", "broadcast", "iota"})


@dataclass(frozen=True, slots=True)
class ConditionalToSelect:
    """Replaces a conditional of two branches by both of them and a select for each result, where that is cheaper.

    A branch ends what fusions can see, so branches of a few elementwise operations on little data are better computed
    both: at most `max-elements` elements in at most `max-instructions` instructions that do work.
    """

    name: ClassVar[str] = "conditional-to-select"
    opcodes: ClassVar[frozenset[str]] = frozenset({"conditional"})
    max_elements: int = 4096
    max_instructions: int = 16

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        known: dict[Computation, bool] = {}
        for conditional in calls_of(module, "conditional"):
            changed |= self._select(conditional, known, log)
        if changed:
            module.remove_unreachable()
        return changed

    def _select(self, conditional: Instruction, known: dict[Computation, bool], log: DecisionLog) -> bool:
        branches = branches_of(conditional)
        if len(branches) != 2 or conditional.control_predecessors or conditional.control_successors:
            return False
        leaves = list(conditional.shape.leaves())
        if not leaves or not all(leaf.is_array and leaf.is_static for leaf in leaves):
            return False
        if not is_pure(conditional, known):
            return False
        work = [i for branch in branches for i in branch if i.opcode not in _FREE]
        obstacle = self._obstacle(work)
        if obstacle:
            log.refuse("branches-kept", conditional, obstacle, instructions=len(work))
            return False
        if not log.allow():
            return False
        results = [inline_computation(conditional, b, [conditional.operands[1 + n]]) for n, b in enumerate(branches)]
        rewriter = Rewriter(conditional)
        selector = conditional.operands[0]
        if selector.shape.element_type != "pred":  # branch 0 is for 0 only: every other number runs the last one
            zero = rewriter.scalar_constant(0, selector.shape.element_type)
            selector = rewriter.make("compare", array("pred"), selector, zero, direction="EQ")
        chosen = _choose(rewriter, selector, results[0], results[1], conditional.shape)
        log.rewrite("select", conditional, chosen, "both branches are cheap", instructions=len(work))
        replace_with(conditional, chosen)
        return True

    def _obstacle(self, work: list[Instruction]) -> str:
        if len(work) > self.max_instructions:
            return "the branches have too many instructions"
        for instruction in work:
            if not instruction.has("elementwise") or instruction.has("transcendental"):
                return f"{instruction.name} is not cheap ({instruction.opcode})"
            if instruction.shape.size > self.max_elements:
                return f"{instruction.name} has many elements"
        return ""


def _choose(rewriter: Rewriter, selector: Instruction, yes: Instruction, no: Instruction, shape: Shape) -> Instruction:
    """``selector ? yes : no`` for every array of a value."""
    if shape.is_tuple:
        elements = []
        for index, element in enumerate(shape.elements):
            pair = [rewriter.make("get-tuple-element", element, value, index=index) for value in (yes, no)]
            elements.append(_choose(rewriter, selector, pair[0], pair[1], element))
        return rewriter.make("tuple", shape, *elements)
    wide = rewriter.broadcast(selector, (), shape.with_type("pred"))
    return rewriter.make("select", shape, wide, yes, no)
