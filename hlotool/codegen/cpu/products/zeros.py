"""Arrays of zeros: results of empty sums, and what fills others up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlotool.codegen.cpu.products.pack import Axis
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import Place, argument, begin_tasks, unravel
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.values import zeros
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["emit_zeros"]


def emit_zeros(unit: Unit, name: str, outer: Sequence[Axis], inner: Axis, place: Place) -> Step:
    """Define step function `name`, which clears an array (only `target` strides count)."""
    f, element = Function(unit, signature(name)), place.element
    task = begin_tasks(f)
    at = argument(f, place)
    for axis, where in zip(outer, unravel(task.index, [axis.extent for axis in outer]), strict=True):
        at += where * axis.target
    loop = begin_loop(f, 0, inner.extent, 1, at)
    (at,) = loop.values
    for part in range(element.components):
        (at + part * element.size).store(zeros(f, element.storage), element.size)
    loop.end(at + inner.target)
    task.end()
    f.finish()
    tasks = math.prod(axis.extent for axis in outer)
    return Step(name, tasks, float(tasks * inner.extent))
