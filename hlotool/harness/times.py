"""Time per instruction: measured by the evaluator or as native code, or read from a file.

The file is JSON, ``{"times": {"COMPUTATION/INSTRUCTION": SECONDS, ...}}``; other keys of it are not looked at.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from hlotool.evaluate import evaluate
from hlotool.evaluate.values import Value
from hlotool.harness.op_by_op import op_by_op
from hlotool.ir import InputError, Instruction, Module

__all__ = ["Times", "best_time", "measure_kernels", "measure_times", "read_times", "time_of", "times_json"]

Times = dict[tuple[str, str], float]
"""(computation, instruction) -> seconds, all its executions together, without what it calls."""


def measure_times(module: Module, arrays: Sequence[npt.NDArray[Any]]) -> Times:
    """The seconds that the evaluator spends on each instruction in one run of the program."""
    found: Times = {}
    last = time.perf_counter()

    def observe(instruction: Instruction, value: Value) -> None:
        nonlocal last
        now = time.perf_counter()
        key = (instruction.parent.name if instruction.parent is not None else "", instruction.name)
        found[key] = found.get(key, 0.0) + now - last
        last = time.perf_counter()

    evaluate(module, arrays, observe)
    return found


def measure_kernels(
    module: Module, arrays: Sequence[npt.NDArray[Any]], seconds: float = 1.0, threads: int | None = None
) -> Times:
    """The seconds that native code takes for each instruction of the entry computation, in a call of its own: the
    shortest of the runs that fit into `seconds`, at least three.  Loops and calls count with all that they run.

    UnsupportedError names an instruction without native code.
    """
    found: Times = {}

    def observe(instruction: Instruction, taken: float) -> None:
        key = (module.entry.name, instruction.name)
        found[key] = min(taken, found.get(key, taken))

    run = op_by_op(module, threads, observe=observe)
    best_time(lambda: run(*arrays), seconds)
    return found


def best_time(run: Callable[[], Any], seconds: float) -> float:
    """The shortest of the runs that fit into `seconds`, at least three."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def time_of(instruction: Instruction, times: Times) -> tuple[Instruction, float] | None:
    """The seconds of an instruction, else of the kernel that it is in: that, and its seconds; None where there are
    none."""
    seen: set[Instruction] = set()
    at: Instruction | None = instruction
    while at is not None and at not in seen:
        seen.add(at)
        if at.parent is None:
            return None
        seconds = times.get((at.parent.name, at.name))
        if seconds is not None:
            return at, seconds
        callers = at.parent.module.callers().get(at.parent, []) if at.parent.module is not None else []
        at = callers[0] if len(callers) == 1 and callers[0].opcode != "while" else None
    return None


def times_json(times: Times) -> dict[str, Any]:
    """Times for a file."""
    return {"schema_version": 1, "kind": "times", "times": {f"{c}/{i}": seconds for (c, i), seconds in times.items()}}


def read_times(path: str) -> Times:
    """The times in a file; InputError when it is not of the form above."""
    try:
        with open(path, encoding="utf-8") as file:
            times = json.load(file)["times"]
        found = {(name.rpartition("/")[0], name.rpartition("/")[2]): float(times[name]) for name in times}
        if not all(0 <= seconds < math.inf for seconds in found.values()):
            raise ValueError("a time is negative or not finite")
        return found
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f'{path}: expected {{"times": {{"COMPUTATION/INSTRUCTION": SECONDS}}}}: {error}') from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
