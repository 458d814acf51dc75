"""Do the dots of all iterations at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import known_trip_count
from hlotool.ir import Computation, Instruction, Module, array
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import has_sizes, made_from
from hlotool.passes.framework.rewriter import Rewriter
from hlotool.passes.loops.while_loops import append_elements, initial_element, invariant_elements, obstacle, prepare
from hlotool.passes.simplify.dce import sweep

__all__ = ["WhileLoopDotBatching"]


@dataclass(frozen=True, slots=True)
class WhileLoopDotBatching:
    """Computes dots of a loop's input with its weights before the loop, for all iterations together.

    In a scan, ``dot(x[i], w)`` with an unchanging w is row i of ``dot(x, w)``: one large dot in place of many small
    ones (the input projection of recurrent networks).  Only for loops known to visit at least half of x, for dots of
    at most `max-rows` rows, and for results of at most `max-bytes`; refusals are recorded.
    """

    name: ClassVar[str] = "while-loop-dot-batching"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})
    max_rows: int = 128
    max_bytes: int = 64 << 20

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers = module.callers()
        for loop in calls_of(module, "while"):
            if obstacle(loop, callers) is None:
                changed |= self._batch(loop, log)
        return changed

    def _batch(self, loop: Instruction, log: DecisionLog) -> bool:
        body: Computation = loop.attributes["body"]
        count = known_trip_count(loop)
        invariant = set(invariant_elements(loop))
        changed = False
        for dot in body:
            if dot.opcode != "dot" or count is None or has_sizes(dot):
                continue
            part = _sliced_input(dot, body, invariant)
            if part is None or not self._is_worthwhile(dot, part, count, log) or not log.allow():
                continue
            prepare(loop)
            whole = _dot_of_all(dot, part, loop)
            reader = append_elements(loop, [whole])[0]
            row = _read_row(dot, part, reader)
            log.rewrite("batch", dot, whole, f"all iterations of {loop.name} at once", iterations=count)
            dot.replace_all_uses(row)
            changed = True
        if changed:
            sweep(body, {}, log, record=False)
        return changed

    def _is_worthwhile(self, dot: Instruction, part: Instruction, count: int, log: DecisionLog) -> bool:
        source = part.operands[0].shape
        contracted = prod(dot.operands[0].shape.dimensions[d] for d in dot.attributes["lhs_contracting_dims"])
        rows = dot.operands[0].shape.size // max(1, contracted)
        size = dot.shape.byte_size * source.dimensions[0]
        if 2 * count < source.dimensions[0]:
            log.refuse("few-iterations", dot, "most rows would not be used", iterations=count)
        elif rows > self.max_rows:
            log.refuse("large-already", dot, "the dot of one iteration is large enough", rows=rows)
        elif size > self.max_bytes:
            log.refuse("too-large", dot, "the results of all iterations take too much memory", bytes=size)
        else:
            return True
        return False


def _sliced_input(dot: Instruction, body: Computation, invariant: set[int]) -> Instruction | None:
    """The dynamic-slice of one row of an unchanging array that is the left side of `dot`, whose right side is fixed."""
    left, right = dot.operands
    part = left.operands[0] if left.opcode == "reshape" else left
    if part.opcode != "dynamic-slice" or dot.attributes.get("lhs_batch_dims") or not _is_fixed(right, body, invariant):
        return None
    source, _, *others = part.operands
    sizes = part.shape.dimensions
    if not _is_fixed(source, body, invariant) or len(others) != len(sizes) - 1:
        return None
    if sizes[0] != 1 or sizes[1:] != source.shape.dimensions[1:]:
        return None
    if left.opcode == "reshape" and left.shape.dimensions != sizes[1:]:
        return None
    contracting: Sequence[int] = dot.attributes.get("lhs_contracting_dims", ())
    return None if not contracting or (left is part and 0 in contracting) else part


def _is_fixed(value: Instruction, body: Computation, invariant: set[int]) -> bool:
    return (
        value.opcode == "get-tuple-element"
        and value.operands[0] is body.parameters[0]
        and value.attributes["index"] in invariant
    )


def _dot_of_all(dot: Instruction, part: Instruction, loop: Instruction) -> Instruction:
    """Before the loop: the dot of all rows, which are its first dimension."""
    left, right = dot.operands
    shift = 0 if left is part else 1
    source = initial_element(loop, part.operands[0].attributes["index"])
    weights = initial_element(loop, right.attributes["index"])
    contracting = tuple(d + shift for d in dot.attributes["lhs_contracting_dims"])
    sizes = (source.shape.dimensions[0], *dot.shape.dimensions[1 - shift :])
    attributes = {**dot.attributes, "lhs_contracting_dims": contracting}
    assert loop.parent is not None
    made = made_from(dot, "dot", array(dot.shape.element_type, sizes), [source, weights], **attributes)
    return loop.parent.add(made, before=loop)


def _read_row(dot: Instruction, part: Instruction, whole: Instruction) -> Instruction:
    """In the loop: the row that the iteration wants."""
    rewriter = Rewriter(dot)
    sizes = (1, *whole.shape.dimensions[1:])
    zero = rewriter.scalar_constant(0, part.operands[1].shape.element_type)
    row = rewriter.make(
        "dynamic-slice",
        array(dot.shape.element_type, sizes),
        whole,
        part.operands[1],
        *[zero] * (len(sizes) - 1),
        dynamic_slice_sizes=sizes,
    )
    return rewriter.reshape(row, dot.shape.dimensions)
