"""Compare what is kept instead of what would have to be kept for it."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.product_epilogue import PRODUCTS
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import replace_with
from hlotool.passes.framework.rewriter import Rewriter

__all__ = ["LimitReuse"]

_LIMITS = {"GT": "maximum", "LE": "maximum", "LT": "minimum", "GE": "minimum"}
"""By direction of a comparison of x with c: what c may limit x by without changing the answer, be it NaN."""


@dataclass(frozen=True, slots=True)
class LimitReuse:
    """``x > c`` reads ``maximum(x, c)`` where a product reads that, and nothing else reads x.

    Training keeps the input of a ReLU for the comparison in its gradient, and its result for the gradient of weights:
    with the result alone, x need not be written.  The same goes for <= and, with a minimum, for < and >=.
    """

    name: ClassVar[str] = "limit-reuse"
    opcodes: ClassVar[frozenset[str]] = frozenset({"compare"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            compares = (i for i in computation if i.opcode == "compare")
            found = [(limited, compare) for compare in compares if (limited := _limited(compare)) is not None]
            if found:
                changed |= _reuse(computation, found, log)
        return changed


def _limited(compare: Instruction) -> Instruction | None:
    """The limited value that a product reads and that may stand for the first operand of `compare`, the last to read
    that."""
    value, limit = compare.operands
    if value is limit or value.is_root or not (value.has("elementwise") or value.opcode in PRODUCTS):
        return None
    opcode = _LIMITS.get(compare.attributes["direction"])
    limited = next((u for u in value.users if u.opcode == opcode and limit in u.operands), None)
    if limited is None or not _is_free(limited) or not any(user.opcode in PRODUCTS for user in limited.users):
        return None
    others = (user for user in value.users if user is not limited)
    return limited if all(_asks(user, value, limit, limited.opcode) for user in others) else None


def _asks(user: Instruction, value: Instruction, limit: Instruction, opcode: str) -> bool:
    """Whether `user` compares `value` with `limit` in a way that a limited value answers, too."""
    if user.opcode != "compare" or user.operands != [value, limit] or user.attributes.get("type") == "TOTALORDER":
        return False
    return _is_free(user) and _LIMITS.get(user.attributes["direction"]) == opcode


def _is_free(instruction: Instruction) -> bool:
    """Whether nothing orders the instruction but what it reads and who reads it."""
    return not instruction.control_predecessors and not instruction.control_successors


def _reuse(computation: Computation, found: list[tuple[Instruction, Instruction]], log: DecisionLog) -> bool:
    position = {instruction: number for number, instruction in enumerate(computation)}
    changed = False
    standing: dict[Instruction, Instruction] = {}  # for limited values that came too late
    for limited, compare in found:
        if not log.allow():
            break
        limited = standing.get(limited, limited)
        if position.get(limited, -1) > position[compare]:
            earlier = Rewriter(compare).same(limited, *limited.operands)
            standing[limited] = earlier
            replace_with(limited, earlier)
            limited = earlier
        value = compare.operands[0]
        compare.replace_operand(0, limited)
        log.rewrite("reuse", compare, limited, f"{value.name} need not be kept for it", bytes=value.shape.byte_size)
        changed = True
    return changed
