"""Move reshapes and transposes towards the results, where they meet others and cancel."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.patterns import ELEMENTWISE
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rewrite, rule, rule_table
from hlotool.passes.simplify.algebra.movement import matching_dimensions

__all__ = ["RULES", "ReshapeMover"]


@dataclass(frozen=True, slots=True)
class ReshapeMover:
    """Computes elementwise operations on the arrays as they are, and reshapes or transposes the result.

    Reshapes move when all operands are reshapes from one shape (or repeat a scalar); transposes move when that leaves
    fewer of them, or when the result is transposed again.
    """

    name: ClassVar[str] = "reshape-mover"

    def run(self, module: Module, log: DecisionLog) -> bool:
        return rewrite(module, _TABLE, log)


def _moved(instruction: Instruction, views: list[Instruction], rewriter: Rewriter) -> Instruction:
    """The operation on what the views read; other operands are scalars or broadcast ones."""
    sizes = views[0].operands[0].shape.dimensions
    operands = []
    for operand in instruction.operands:
        if operand in views:
            operands.append(operand.operands[0])
        elif operand.opcode == "broadcast":
            source = operand.operands[0]
            operands.append(rewriter.broadcast(source, (), array(source.shape.element_type, sizes)))
        else:
            operands.append(operand)
    shape = array(instruction.shape.element_type, sizes)
    return rewriter.make(instruction.opcode, shape, *operands, **instruction.attributes)


def _views(instruction: Instruction, opcode: str) -> list[Instruction]:
    """Operands that are `opcode` from one shape in one way, if every other one is a scalar or repeats one."""
    views = [o for o in instruction.operands if o.opcode == opcode and o.shape.dimensions]
    for operand in instruction.operands:
        if operand in views or not operand.shape.dimensions:
            continue
        if operand.opcode != "broadcast" or operand.operands[0].shape.dimensions:
            return []
    for view in views[1:]:
        if view.operands[0].shape.dimensions != views[0].operands[0].shape.dimensions:
            return []
        if opcode == "transpose" and view.attributes["dimensions"] != views[0].attributes["dimensions"]:
            return []
    return views


@rule(ELEMENTWISE, reads="reshape")
def elementwise_of_reshapes(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """op(reshape(x), reshape(y)) = reshape(op(x, y)), where no reshape has another reader."""
    views = _views(instruction, "reshape")
    if not views or any(len(view.users) > 1 for view in views):
        return None
    return rewriter.make("reshape", instruction.shape, _moved(instruction, views, rewriter))


@rule(ELEMENTWISE, reads="transpose")
def elementwise_of_transposes(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """op(transpose(x), transpose(y)) = transpose(op(x, y)), where that leaves fewer transposes."""
    views = _views(instruction, "transpose")
    vanishing = [view for view in dict.fromkeys(views) if len(view.users) == 1]
    meets_another = bool(instruction.users) and all(u.opcode == "transpose" for u in instruction.users)
    if not views or not (len(vanishing) > 1 or (vanishing and meets_another)):
        return None
    moved = _moved(instruction, views, rewriter)
    return rewriter.make("transpose", instruction.shape, moved, dimensions=views[0].attributes["dimensions"])


@rule("transpose(inner: reshape(source: transpose))")
def reshape_then_transpose_ones(
    instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter
) -> Rewritten:
    """transpose(reshape(x)) = reshape(transpose(x)) where the reshape only adds or drops dimensions of size 1.

    Only where x is itself transposed, so that the two transposes become one.
    """
    matched = matching_dimensions(source.shape.dimensions, inner.shape.dimensions)
    if matched is None:
        return None
    back = {after: before for before, after in matched.items()}
    order = [back[d] for d in instruction.attributes["dimensions"] if d in back]
    order += [d for d in range(source.shape.rank) if d not in matched]
    return rewriter.reshape(rewriter.transpose(source, order), instruction.shape.dimensions)


RULES: tuple[Rule, ...] = (elementwise_of_reshapes, elementwise_of_transposes, reshape_then_transpose_ones)
_TABLE = rule_table(RULES)
