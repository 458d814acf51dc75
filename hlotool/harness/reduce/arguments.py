"""Leave out arguments of calls and fusions that nobody reads in there."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit, EditFailed
from hlotool.ir import Instruction, Module

__all__ = ["arguments"]


def arguments(module: Module) -> Sequence[Edit]:
    callers = module.callers()
    edits = []
    for computation in module.computations.values():
        for call in computation.calls:
            if call.opcode not in ("fusion", "call") or len(callers[call.called[0]]) != 1:
                continue
            for parameter in call.called[0].parameters:
                if not parameter.users and not parameter.is_root:
                    edits.append(Edit((computation.name, call.name, parameter.name), _without, (call, parameter)))
    return edits


def _without(draft: Draft, call: Instruction, parameter: Instruction) -> None:
    copy, unread = draft.of(call), draft.of(parameter)
    callee = unread.parent
    if callee is None or unread.users or unread.is_root:
        raise EditFailed
    number = unread.parameter_number
    argument = copy.operands[number]
    copy.set_operands([*copy.operands[:number], *copy.operands[number + 1 :]])
    callee.erase(unread)
    callee.renumber_parameters()
    draft.loosen(argument)
