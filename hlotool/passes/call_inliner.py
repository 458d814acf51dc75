"""Inline calls and fusions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import is_fusible, is_variadic_reduce
from hlotool.analysis.product_epilogue import fused_product
from hlotool.ir import Computation, HloError, Instruction, Module
from hlotool.passes.fusion_rules import has_own_fusions
from hlotool.passes.graph import inline_computation

__all__ = ["CallInliner"]


@dataclass(frozen=True, slots=True)
class CallInliner:
    """Replaces each call by a copy of what it calls.

    Metadata and origins of the callee's instructions are kept.  Callees come first, so one visit flattens nested
    calls.  A call that would bring its caller above `max-instructions` stays.

    `fusions` says which fusions are calls too: ``none``; ``all``, which undoes what another compiler made, whatever
    library or kernel it had in mind; ``foreign``, those with instructions that no loop fusion may hold.  Of a module
    whose fusions are hlotool's own, ``all`` are the foreign ones.
    """

    name: ClassVar[str] = "call-inliner"
    budget: ClassVar[float] = inf  # `max-instructions` is one
    max_instructions: int = 1_000_000
    fusions: str = "none"

    def run(self, module: Module, log: DecisionLog) -> bool:
        if self.fusions not in _FUSIONS:
            raise HloError(f"call-inliner: fusions is {', '.join(_FUSIONS)}, not {self.fusions!r}")
        chosen = _FUSIONS["foreign" if self.fusions == "all" and has_own_fusions(module) else self.fusions]
        changed = False
        for computation in module.callees_first():
            if not computation.callees:
                continue
            changed |= self._inline_into(computation, chosen, log)
        if changed:
            module.remove_unreachable()
        return changed

    def _inline_into(self, computation: Computation, chosen: Callable[[Instruction], bool], log: DecisionLog) -> bool:
        changed = False
        for call in computation:
            if not (call.opcode == "call" or (call.opcode == "fusion" and chosen(call))):
                continue
            (callee,) = call.called
            if len(computation) + len(callee) > self.max_instructions:
                log.refuse("too-large", call, "the caller would grow too large", instructions=len(callee))
                continue
            if not log.allow():
                return changed
            root = inline_computation(call, callee, call.operands)
            call.replace_all_uses(root)
            computation.erase(call)
            log.rewrite("inline", call, root, f"calls {callee.name}", instructions=len(callee))
            changed = True
        return changed


def _is_foreign(fusion: Instruction) -> bool:
    """Whether the body holds what hlotool's own fusions do not."""
    body: Computation = fusion.attributes["calls"]
    root = body.root
    product = fused_product(fusion)
    if product is not None and product[1].against is None:
        return False
    if not (root.opcode == "tuple" or is_variadic_reduce(root) or is_fusible(root)):
        return True
    return any(not (i is root or i.opcode == "parameter" or is_fusible(i) or _is_of_reduce(i)) for i in body)


def _is_of_reduce(instruction: Instruction) -> bool:
    """A reduce with several results, or one of them."""
    element = instruction.opcode == "get-tuple-element"
    return is_variadic_reduce(instruction.operands[0] if element else instruction)


_FUSIONS: dict[str, Callable[[Instruction], bool]] = {
    "none": lambda fusion: False,
    "foreign": _is_foreign,
    "all": lambda fusion: True,
}
