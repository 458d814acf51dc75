"""Concatenations of many arrays: one loop over a table of what to copy, so that the code is the same for any number."""

from __future__ import annotations

from math import prod
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Ptr
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, byte_size

__all__ = ["emit_concatenate"]

_TASK_BYTES: Annotated[int, Threshold("bytes")] = 64 << 10
"""That a task copies, about, and no more of one array."""


def emit_concatenate(
    name: str, instruction: Instruction, machine: Machine, present: frozenset[int] = frozenset()
) -> Kernel:
    """The kernel of a concatenate; the operands numbered in `present` lie in the result already.

    A row of the table is a run of bytes to copy in every row of the arrays: number of the argument, where the run
    begins there, bytes from one row to the next, where it begins in the result, its size.
    """
    shape, slot = instruction.shape, len(instruction.operands)
    along = instruction.attributes["dimensions"][0]
    rows = prod(shape.dimensions[:along])
    inner = prod(shape.dimensions[along + 1 :]) * byte_size(shape.element_type)
    table: list[tuple[int, ...]] = []
    first = [0]  # row of the table for every task
    whole = taken = 0
    for argument, operand in enumerate(instruction.operands):
        length = operand.shape.dimensions[along] * inner
        for begun in range(0, 0 if argument in present else length, _TASK_BYTES):
            part = min(_TASK_BYTES, length - begun)
            table.append((argument, begun, length, whole + begun, part))
            taken += part * rows
            if taken >= _TASK_BYTES:
                first.append(len(table))
                taken = 0
        whole += length
    if not table or not rows:
        return empty_kernel(name, machine)
    if first[-1] < len(table):
        first.append(len(table))
    unit = Unit(machine)
    unit.data(f"table_{name}", np.array(table, np.int64))
    unit.data(f"first_{name}", np.array(first, np.int64))
    f, _ = step_function(unit, name, 0)
    pointers = Ptr(f, "%args")
    result = pointers.slot(slot).load_ptr()
    task = begin_tasks(f, at_least_once=True)
    ends = Ptr(f, f"@first_{name}").at("i64", task.index)
    begin, end = (ends.at("i64", place).load_int() for place in range(2))
    entry = begin_loop(f, begin, end, at_least_once=True, most=len(table))
    at = Ptr(f, f"@table_{name}").at("[5 x i64]", entry.index)
    number, start, step, to, size = (at.at("i64", place).load_int() for place in range(5))
    array = pointers.slot(number).load_ptr()
    row = begin_loop(f, 0, rows, 1, array + start, result + to)
    source, target = row.values
    target.copy_from(source, size)
    row.end(source + step, target + whole)
    entry.end()
    task.end()
    f.finish()
    moved = rows * sum(part for *_, part in table)
    return finish_kernel(unit, [Step(name, len(first) - 1, moved / 10.0 + 5.0 * len(table) * rows)])
