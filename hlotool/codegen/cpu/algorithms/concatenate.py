"""Concatenations of many arrays: one loop over a table of what to copy, so that the code is the same for any number."""

from __future__ import annotations

import struct
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import address, empty_kernel, step_function
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, byte_size

__all__ = ["emit_concatenate"]

_TASK_BYTES: Annotated[int, Threshold("bytes")] = 64 << 10
"""That a task copies, about, and no more of one array."""


def emit_concatenate(
    name: str, instruction: Instruction, machine: Machine, there: frozenset[int] = frozenset()
) -> Kernel:
    """The kernel of a concatenate; the operands in `there` lie in the result already.

    A row of the table says of some bytes: argument, where they begin there, how far the next row of the array is, where
    they go, how many they are.
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
        for begun in range(0, 0 if argument in there else length, _TASK_BYTES):
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
    unit.data(f"table_{name}", b"".join(struct.pack("<5q", *row) for row in table))
    unit.data(f"first_{name}", struct.pack(f"<{len(first)}q", *first))
    f, _ = step_function(unit, name, 0)
    result = f.let(f"load ptr, ptr {address(f, '%args', 'ptr', slot)}")
    task = f.begin_loop("%begin", "%end", at_least_once=True)
    ends = f.let(f"getelementptr i64, ptr @first_{name}, i64 {task.index}")
    begin, end = (f.let(f"load i64, ptr {address(f, ends, 'i64', place)}") for place in range(2))
    entry = f.begin_loop(begin, end, at_least_once=True, most=len(table))
    at = f.let(f"getelementptr [5 x i64], ptr @table_{name}, i64 {entry.index}")
    number, start, step, to, size = (
        f.let(f"load i64, ptr {address(f, at, 'i64', place)}") for place in range(5)
    )
    array = f.let(f"load ptr, ptr {address(f, '%args', 'ptr', number)}")
    read = f.let(f"getelementptr i8, ptr {array}, i64 {start}")
    write = f.let(f"getelementptr i8, ptr {result}, i64 {to}")
    row = f.begin_loop(0, rows, carried=[("ptr", read), ("ptr", write)])
    f.copy(row.values[1], row.values[0], size)
    following = f.let(f"getelementptr i8, ptr {row.values[0]}, i64 {step}")
    f.end_loop(row, [following, f.let(f"getelementptr i8, ptr {row.values[1]}, i64 {whole}")])
    f.end_loop(entry)
    f.end_loop(task)
    f.finish()
    moved = rows * sum(part for *_, part in table)
    return finish_kernel(unit, [Step(name, len(first) - 1, moved / 10.0 + 5.0 * len(table) * rows)])
