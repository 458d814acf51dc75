"""Kernels for fusions and for single instructions that a loop can compute: the front door of the loop emitter.

The outputs of a fusion are grouped by their dimensions; every group becomes one nest of loops over them (one step of
the kernel).  Reductions inside are loops of their own, written where their kept indices are known, so that a row-wise
group such as softmax is one pass over rows with several short passes inside each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.fusions.plan import partial_uses, plan_group
from hlotool.codegen.cpu.fusions.step import emit_step
from hlotool.codegen.kernel import Kernel, Step, signature
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.rules import can_trace
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.outputs import Output, body_of_one, groups_of, parts_of
from hlotool.ir import Instruction

__all__ = ["can_emit", "emit_fusion", "emit_outputs"]

SMALL: Annotated[int, Threshold("bytes")] = 1 << 16
"""Bytes of a result whose pieces are written one after the other by a single task."""

MOST_JOBS: Annotated[int, Threshold("outputs")] = 128
"""Jobs of a function, and outputs of a loop: LLVM's time for straight code grows faster than the code."""


def can_emit(instruction: Instruction) -> bool:
    """Whether `emit_fusion` takes `instruction`: a fusion, or one instruction as a fusion of itself."""
    if instruction.opcode == "fusion":
        return all(can_trace(i) for i in instruction.attributes["calls"])
    if instruction.opcode in ("parameter", "tuple", "get-tuple-element", "constant"):
        return False
    return can_trace(instruction)


def emit_fusion(
    name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int] = frozenset()
) -> Kernel:
    """The kernel of a fusion, or of a single instruction as if it were one.

    The argument table holds the leaves of the operands, then of the result.  `in_place` numbers the output
    leaves that share memory with an operand: of a dynamic-update-slice with its first operand, and then only
    the updated region is written; of anything else with one that is read only at the element being written.
    Raises UnsupportedError when the body holds an instruction that no loop can compute.
    """
    body = body_of_one(instruction)
    leaves = (sum(1 for _ in operand.shape.leaves()) for operand in instruction.operands)
    *slots, count = accumulate(leaves, initial=0)
    groups = groups_of(body.root, count, in_place)
    scratch_slot, there = count + sum(1 for _ in instruction.shape.leaves()), {count + leaf for leaf in in_place}
    return emit_outputs(name, groups, slots, scratch_slot, machine, there)


def emit_rest(name: str, concatenate: Instruction, machine: Machine, there: frozenset[int]) -> Kernel:
    """The kernel of a concatenate that copies all operands but those in `there`, which lie in the result already.

    Each is the update of a part of the result; those of the same dimensions share a loop, up to `MOST_JOBS`.
    """
    slot = len(concatenate.operands)
    return emit_outputs(name, parts_of(concatenate, there, MOST_JOBS), range(slot + 1), slot + 1, machine)


def emit_outputs(
    name: str, groups: list[list[Output]], slots: Sequence[int], scratch_slot: int, machine: Machine,
    in_place: Collection[int] = (),
) -> Kernel:
    """The kernel that computes `groups` of outputs, those of a group over the same loops.

    `slots` are those of the first leaves of the body's parameters in the argument table, and `in_place` those of
    outputs that share memory with one.
    """
    unit = Unit(machine)
    steps: list[Step] = []
    scratch = 0
    while groups:
        moved = groups[0][0].shape.byte_size
        plans, groups = plan_group(groups, slots, machine)
        jobs = [job for plan in plans for job in plan.jobs()]
        most = MOST_JOBS if len(plans) > 1 and moved < SMALL else 1
        for together in (jobs[first : first + most] for first in range(0, len(jobs), most)):
            function = name if not steps else f"s{len(steps)}_{name}"
            steps.append(emit_step(unit, function, together, machine, scratch_slot, in_place))
        scratch = max(scratch, *(plan.tracer.scratch for plan in plans))
    if not steps:  # every output is empty
        Function(unit, signature(name)).finish()
        steps.append(Step(name))
    return finish_kernel(unit, steps, scratch, partial_uses(scratch))
