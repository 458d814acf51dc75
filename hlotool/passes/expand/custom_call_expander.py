"""Custom calls that say what instructions can say."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.backend_config import parse_backend_config
from hlotool.ir import Computation, Instruction, Module, dtype_of
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.framework.graph import custom_call_target

__all__ = ["CustomCallExpander"]


@dataclass(frozen=True, slots=True)
class CustomCallExpander:
    """Replaces custom calls of XLA's own by instructions: TopK, AllocateBuffer, and the X64 ones, which take 64-bit
    integers apart and put them together."""

    name: ClassVar[str] = "custom-call-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"custom-call"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        def instead(build: Builder, call: Instruction) -> Instruction | None:
            rule = _RULES.get(custom_call_target(call))
            result = None if rule is None else rule(build, call)
            if rule is not None and result is None:
                log.refuse("form", call, "not the form that XLA gives it")
            return result

        return expand_each(module, log, self.opcodes, instead, "expand", custom_call_target, static=True)


def _top_k(build: Builder, call: Instruction) -> Instruction | None:
    largest = _takes_largest(call)
    fits = len(call.operands) == 1 and call.shape.is_tuple and len(call.shape.elements) == 2
    if largest is None or not fits:
        return None
    (operand,), (values, positions) = call.operands, call.shape.elements
    fits = operand.shape.is_array and values.is_array and operand.shape.rank == values.rank > 0
    if not fits or operand.shape.dimensions[:-1] != values.dimensions[:-1] or positions.element_type != "s32":
        return None
    if positions.dimensions != values.dimensions or values.dimensions[-1] > operand.shape.dimensions[-1]:
        return None
    return build.add("topk", call.shape, (operand,), {"k": values.dimensions[-1], "largest": largest})


def _takes_largest(call: Instruction) -> bool | None:
    """Whether the comparator, or else the config, puts larger values first; None for another comparator."""
    if not call.called:
        config = parse_backend_config(call.attributes.get("backend_config", ""))
        return True if isinstance(config, str) else bool(config.get("largest", True))
    comparator: Computation = call.called[0]
    root = comparator.root
    if root.opcode != "compare" or root.operands != comparator.parameters[:2]:
        return None
    return {"GT": True, "LT": False}.get(root.attributes["direction"])


def _allocate_buffer(build: Builder, call: Instruction) -> Instruction | None:
    """Bytes of zero."""
    shape = call.shape
    if call.operands or not shape.is_array:
        return None
    single = build.constant(np.zeros((), dtype_of(shape.element_type)), shape.element_type)
    return single if not shape.dimensions else build.broadcast(single, (), shape)


def _combine(build: Builder, call: Instruction) -> Instruction | None:
    if len(call.operands) != 2 or any(operand.shape.element_type != "u32" for operand in call.operands):
        return None
    low, high = (build.convert(operand, "u64") for operand in call.operands)
    shifted = build.binary("shift-left", high, build.splat(32, high.shape))
    return build.convert(build.binary("or", low, shifted), call.shape.element_type)


def _split(shift: int) -> Callable[[Builder, Instruction], Instruction | None]:
    def rule(build: Builder, call: Instruction) -> Instruction | None:
        if len(call.operands) != 1 or call.operands[0].shape.element_type not in ("s64", "u64"):
            return None
        whole = build.convert(call.operands[0], "u64")
        half = build.binary("shift-right-logical", whole, build.splat(shift, whole.shape))
        return build.convert(half, call.shape.element_type)

    return rule


_RULES: dict[str, Callable[[Builder, Instruction], Instruction | None]] = {
    "AllocateBuffer": _allocate_buffer,
    "TopK": _top_k,
    "X64Combine": _combine,
    "X64SplitLow": _split(0),
    "X64SplitHigh": _split(32),
}
