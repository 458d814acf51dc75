"""The part of the self-test that runs native code, in a process of its own: code that a processor does not know ends
the process, and nothing else.

    python -m hlotool.harness.self_test_child PROCESSOR

A line of JSON for each module: ``{"name": ..., "problem": ...}``, where the problem of what is well is empty.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial

from hlotool.codegen.machine import Machine, named
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.harness.orphans import end_with_parent
from hlotool.harness.self_test_modules import KERNELS, SHARED
from hlotool.text.parser import parse

__all__ = ["THREADS", "main"]

THREADS = "threads"
"""The line that says whether several threads compute what one does."""


def main(processor: str) -> None:
    """Try all modules on `processor`."""
    end_with_parent()
    machine = named(processor)
    for name, text in KERNELS.items():
        _say(name, partial(_against_the_evaluator, text, machine))
    _say(THREADS, partial(_threads, machine))


def _say(name: str, test: Callable[[], str]) -> None:
    try:
        problem = test()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    print(json.dumps({"name": name, "problem": problem}), flush=True)


def _against_the_evaluator(text: str, machine: Machine) -> str:
    module = parse(text)
    arrays = random_inputs(module, 1)
    got = compile_module(module, machine=machine, strict=True)(*arrays)
    wrong = [row for row in compare_all(got, evaluate(module, arrays)) if not row.ok]
    return str(wrong[0]) if wrong else ""


def _threads(machine: Machine) -> str:
    module = parse(SHARED)
    arrays = random_inputs(module, 1)
    alone, *others = (compile_module(module, machine=machine, threads=count, strict=True) for count in (1, 2, 8))
    want = [array.tobytes() for array in alone(*arrays)]
    for count, executable in zip((2, 8), others, strict=True):
        for _ in range(5):
            if [array.tobytes() for array in executable(*arrays)] != want:
                return f"{count} threads compute something else than one"
    wrong = [row for row in compare_all(alone(*arrays), evaluate(module, arrays)) if not row.ok]
    return str(wrong[0]) if wrong else ""


if __name__ == "__main__":
    main(sys.argv[1])
