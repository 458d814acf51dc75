"""Loops whose trips are so short that calls of kernels, and values that go through memory, are most of their time.

Such a loop becomes a function of its own, which the kernels of its body are a part of, and in which every value of a
few elements is a variable.  LLVM makes registers of those (`hlotool.runtime.promotion`): a trip is then arithmetic
alone, and what it hands on to the next one never leaves the registers.

Loops are chosen by what is known before their kernels are written, so that those can be written for this.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod
from typing import Annotated

from hlotool.analysis.contraction import dot_dimensions
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.plan.dependencies import touched
from hlotool.codegen.plan.steps import CONTROL, HOST, Steps, called, inside, last_position
from hlotool.codegen.plan.values import KEPT_BYTES, Assignment, Value
from hlotool.ir import OPCODES, Computation, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Kept", "kept", "promotable", "small_computations", "small_loops"]

_STEPS: Annotated[int, Threshold("instructions")] = 800
"""Instructions of a small loop at most, those of loops and branches in it among them."""

_WORK: Annotated[int, Threshold("operations")] = 4096
"""Operations on single elements that they are at most, each counted once: with more, calls hardly matter."""

_VECTOR: Annotated[int, Threshold("bytes")] = 64
"""Bytes of a value whose elements may change places in registers, or that does not change."""

_ALGORITHMS = frozenset(
    {
        "cholesky", "convolution", "fft", "reduce-window", "rng", "rng-bit-generator", "rng-get-and-update-state",
        "select-and-scatter", "sort", "topk", "triangular-solve",
    }
)  # fmt: skip
"""Opcodes whose kernels are long texts for whatever sizes."""


def small_loops(computation: Computation, assignment: Assignment, log: DecisionLog) -> list[Instruction]:
    """The loops of `computation`, and of its loops and branches, to be written so: of nested ones the outermost."""
    log.pass_name = "small-loops"
    found = []
    waiting: list[tuple[Computation, tuple[Instruction, ...]]] = [(computation, ())]
    for inner, around in waiting:
        for instruction in inner:
            work = _work_of(instruction) if instruction.opcode == "while" else None
            if work is not None and _stands_alone(instruction, assignment, around):
                found.append(instruction)
                log.note("in-registers", instruction, "its trips are short", operations=work)
            else:
                within = (*around, instruction) if instruction.opcode == "while" else around
                waiting += [(inside, within) for inside in called(instruction)]
    return found


def small_computations(computation: Computation) -> set[Computation]:
    """Those of the loops of `computation`, and of its loops and branches, that may become small ones, and in them."""
    found: set[Computation] = set()
    waiting = [computation]
    for outer in waiting:
        for instruction in outer:
            within = called(instruction)
            if instruction.opcode == "while" and _work_of(instruction) is not None:
                found.update(within, *(called(inner) for inner in inside(instruction)))
            else:
                waiting += within
    return found


def _work_of(loop: Instruction) -> int | None:
    """Operations on single elements in the trip of a small loop; None of any other."""
    work = 0
    for number, instruction in enumerate(inside(loop)):
        work += _work(instruction)
        if number >= _STEPS or work > _WORK or instruction.opcode in HOST or instruction.opcode == "call":
            return None
    return work


def _stands_alone(loop: Instruction, assignment: Assignment, around: Sequence[Instruction]) -> bool:
    """Whether another function knows where everything is that a loop uses: no state that moves from trip to trip, and
    no views whose places are computed ahead of it."""
    moving = assignment.swapped(around)
    made: set[Value] = set()
    for instruction in (loop, *inside(loop)):
        for value in (v for operand in instruction.operands for v in assignment.leaves[operand]):
            root = value.find()
            if root in moving or (root.whole is not None and root.start is None and root not in made):
                return False
        if instruction in assignment.views:
            made.add(assignment.leaves[instruction][0].find())
        made.update(value.find() for value, _ in assignment.targets.get(instruction, ()))
    return True


_NOTHING = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape"}) | CONTROL


def _work(instruction: Instruction) -> int:
    """Operations on single elements, about."""
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _NOTHING or opcode in ("broadcast", "iota"):
        return 0
    if opcode == "fusion":
        return sum(_work(inner) for inner in instruction.attributes["calls"])
    if opcode in _ALGORITHMS or not all(leaf.is_static for leaf in shape.leaves() if leaf.is_array):
        return _WORK + 1
    if opcode == "dot":
        lhs = instruction.operands[0].shape.dimensions
        return shape.size * prod(lhs[d] for d in dot_dimensions(instruction).lhs_contracting)
    if opcode == "dynamic-update-slice":
        return instruction.operands[1].shape.size
    if OPCODES[opcode].group == "reduction":
        return sum(leaf.size for operand in instruction.operands for leaf in operand.shape.leaves())
    return sum(leaf.size for leaf in shape.leaves() if leaf.is_array)


def promotable(loop: Instruction, assignment: Assignment) -> set[Instruction]:
    """The instructions of a small loop that leave in registers what changes there: values of one vector, or of several
    whose elements stay where they are."""
    changing = {v.find() for i in inside(loop) if i.opcode not in _NOTHING for v in assignment.leaves[i]}
    return {i for i in inside(loop) if _leaves_in_registers(i, changing, assignment)}


def _leaves_in_registers(instruction: Instruction, changing: Container[Value], assignment: Assignment) -> bool:
    values = [value for i in (instruction, *instruction.operands) for value in assignment.leaves[i]]
    if all(value.find() not in changing or not _VECTOR < value.size <= KEPT_BYTES for value in values):
        return True
    body = instruction.attributes["calls"] if instruction.opcode == "fusion" else (instruction,)
    return not any(_VECTOR < source.shape.byte_size <= KEPT_BYTES for inner in body for source in _moved(inner))


def _moved(instruction: Instruction) -> Sequence[Instruction]:
    """The operands of which an instruction reads or writes elements elsewhere than where they are."""
    if instruction.has("elementwise") or instruction.opcode in _NOTHING or instruction.opcode in ("broadcast", "copy"):
        return ()
    dynamic = instruction.opcode in ("dynamic-slice", "dynamic-update-slice")
    return instruction.operands[:1] if dynamic else instruction.operands


@dataclass(frozen=True, slots=True)
class Kept:
    """The values that the function of a small loop keeps in variables of its own.

    Those `entering` are live before the loop, and are loaded once; those `leaving` are live after it, and are stored.
    """

    values: Sequence[Value]
    entering: Sequence[Value]
    leaving: Sequence[Value]


def kept(loop: Instruction, steps: Steps) -> Kept:
    """What a small loop keeps."""
    found = touched(loop, steps)
    written = {value.storage() for value in found.writes}
    values = [v for v in found.storage() if 0 < v.size <= (KEPT_BYTES if v in written else _VECTOR)]
    first, last = steps.assignment.positions[loop], last_position(loop, steps.assignment)
    return Kept(
        values,
        [value for value in values if not value.writable or _is_alive(value, first)],
        [value for value in values if value in written and _is_alive(value, last + 1)],
    )


def _is_alive(value: Value, position: int) -> bool:
    return any(start <= position <= end for start, end in value.intervals)
