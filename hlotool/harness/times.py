"""Time per instruction: measured by the evaluator, or read from a file.

The file is JSON, ``{"times": {"COMPUTATION/INSTRUCTION": SECONDS, ...}}``; other keys of it are not looked at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from hlotool.evaluate import evaluate
from hlotool.evaluate.values import Value
from hlotool.ir import InputError, Instruction, Module

__all__ = ["measure_times", "read_times", "times_json"]

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


def times_json(times: Times) -> dict[str, Any]:
    """Times for a file."""
    return {"schema_version": 1, "kind": "times", "times": {f"{c}/{i}": seconds for (c, i), seconds in times.items()}}


def read_times(path: str) -> Times:
    """The times in a file; InputError when it is not of the form above."""
    try:
        with open(path, encoding="utf-8") as file:
            times = json.load(file)["times"]
        return {(name.rpartition("/")[0], name.rpartition("/")[2]): float(times[name]) for name in times}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f'{path}: expected {{"times": {{"COMPUTATION/INSTRUCTION": SECONDS}}}}: {error}') from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
