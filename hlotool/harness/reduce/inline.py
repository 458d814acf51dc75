"""Put what is called in the place of the call: of a loop its body, once, of a conditional one of its branches."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Computation, Instruction, Module
from hlotool.passes.framework.graph import inline_computation

__all__ = ["inlined"]


def inlined(module: Module) -> Sequence[Edit]:
    edits = []
    for computation in module.computations.values():
        for call in computation.calls:
            for number, (callee, arguments) in enumerate(_callees(call)):
                key = (computation.name, call.name, str(number))
                edits.append(Edit(key, _inline, (call, callee, arguments)))
    return edits


def _callees(call: Instruction) -> list[tuple[Computation, list[Instruction]]]:
    if call.opcode in ("call", "fusion"):
        return [(call.called[0], call.operands)]
    if call.opcode == "while":
        return [(call.attributes["body"], call.operands)]
    if call.opcode == "conditional":
        return [(callee, [call.operands[1 + number]]) for number, callee in enumerate(call.called)]
    return []


def _inline(draft: Draft, call: Instruction, callee: Computation, arguments: Sequence[Instruction]) -> None:
    copy = draft.of(call)
    root = inline_computation(copy, draft.computation(callee), [draft.of(argument) for argument in arguments])
    draft.replace(copy, root)
