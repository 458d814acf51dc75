"""Inline calls and fusions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import has_many_sources, is_fusible, is_variadic_reduce
from hlotool.analysis.product_epilogue import fused_product
from hlotool.ir import Computation, HloError, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import inline_computation, made_from, replace_with, room_to_grow
from hlotool.passes.fuse.fusion_rules import has_own_fusions

__all__ = ["CallInliner"]


@dataclass(frozen=True, slots=True)
class CallInliner:
    """Replaces each call by a copy of what it calls.

    Metadata and origins of the callee's instructions are kept.  Callees come first, so one visit flattens nested
    calls.  A computation stays that several call if copies of it would use up the module's room to grow, which is as
    much as it has and `max-growth` instructions: calls of calls double it level by level.  So does one that would bring
    its caller above `max-instructions`.  What stays is compiled once, as a function; a fusion becomes a call of it.

    Calls with the entry `keep` among their frontend attributes stay, and those that say ``inlineable="false"`` there,
    as XLA has it.

    `fusions` says which fusions are calls too: ``none``; ``all``, which undoes what another compiler made, whatever
    library or kernel it had in mind; ``foreign``, those with instructions that no loop fusion may hold.  Of a module
    whose fusions are hlotool's own, ``all`` are the foreign ones.
    """

    name: ClassVar[str] = "call-inliner"
    budget: ClassVar[float] = inf  # `max-instructions` is one
    max_instructions: int = 1_000_000
    max_growth: int = 4000
    fusions: str = "none"
    keep: str = ""

    def __post_init__(self) -> None:
        if self.fusions not in _FUSIONS:
            raise HloError(f"call-inliner: fusions is {', '.join(_FUSIONS)}, not {self.fusions!r}")

    def run(self, module: Module, log: DecisionLog) -> bool:
        chosen = _FUSIONS["foreign" if self.fusions == "all" and has_own_fusions(module) else self.fusions]
        changed = False
        inliner = _Inliner(module, self, chosen, log)
        for computation in module.callees_first():
            changed |= inliner.inline_into(computation)
        if changed:
            module.remove_unreachable()
        return changed


class _Inliner:
    """One run: `uses` counts the callers of computations, `room` the instructions that copies may still add."""

    def __init__(
        self, module: Module, options: CallInliner, chosen: Callable[[Instruction], bool], log: DecisionLog
    ) -> None:
        self.max_instructions, self.chosen, self.log = options.max_instructions, chosen, log
        self.keep = options.keep
        callers = module.callers()
        self.uses = {computation: len(found) for computation, found in callers.items()}
        self.shared = {c for c, found in callers.items() if len(found) > 1 and any(_is_all(call) for call in found)}
        self.room = room_to_grow(module, options.max_growth)
        self.sizes: dict[Computation, int] = {}  # with the bodies of fusions, which will be copied for their callers
        self.copied: dict[Computation, bool] = {}

    def inline_into(self, computation: Computation) -> bool:
        changed = False
        for call in computation.calls:
            said = call.attributes.get("frontend_attributes") or {}
            if (self.keep and self.keep in said) or said.get("inlineable") == "false":
                continue
            if not (call.opcode == "call" or (call.opcode == "fusion" and self.chosen(call))):
                continue
            (callee,) = call.called
            if not self._copies(callee) or len(computation) + len(callee) > self.max_instructions:
                self.log.refuse("too-large", call, "the caller would grow too large", instructions=len(callee))
                changed |= self._as_call(call)
                continue
            if not self.log.allow():
                return changed
            root = inline_computation(call, callee, call.operands)
            call.replace_all_uses(root)
            computation.erase(call)
            self.log.rewrite("inline", call, root, f"calls {callee.name}", instructions=len(callee))
            changed = True
        return changed

    def _copies(self, callee: Computation) -> bool:
        """Whether everyone who calls `callee`, which is done, gets a copy."""
        if callee not in self.copied:
            inner = [i.attributes["calls"] for i in callee.calls if i.opcode == "fusion"]
            self.sizes[callee] = len(callee) + sum(self.sizes.get(body, len(body)) for body in inner)
            more = self.uses[callee] - 1
            self.copied[callee] = more * self.sizes[callee] <= self.room and callee not in self.shared
            if more and self.copied[callee]:
                self.room -= more * self.sizes[callee]
                for called in callee.callees:
                    self.uses[called] += more
        return self.copied[callee]

    def _as_call(self, call: Instruction) -> bool:
        """Make a fusion that stays a call of the same computation."""
        if call.opcode != "fusion" or not self.log.allow():
            return False
        computation = call.parent
        assert computation is not None
        new = computation.add(
            made_from(call, "call", call.shape, call.operands, to_apply=call.attributes["calls"]), before=call
        )
        self.log.rewrite("fusion-to-call", call, new, "its computation is shared by too many to be copied")
        replace_with(call, new)
        return True


def _is_all(call: Instruction) -> bool:
    """Whether a computation does nothing but call another one: it is a loop's or branch's, which `flatten-call-graph`
    let share that with others."""
    return call.opcode == "call" and call.is_root and all(operand.opcode == "parameter" for operand in call.operands)


def _is_foreign(fusion: Instruction) -> bool:
    """Whether the body holds what hlotool's own fusions do not."""
    body: Computation = fusion.attributes["calls"]
    root = body.root
    product = fused_product(fusion)
    if product is not None and product[1].against is None:
        return False
    if not (root.opcode == "tuple" or is_variadic_reduce(root) or is_fusible(root)) or has_many_sources(*body):
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
