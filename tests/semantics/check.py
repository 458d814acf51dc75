"""Native code against the evaluator, on modules drawn from the families."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from random import Random

import numpy as np

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare
from hlotool.ir import Module
from hlotool.ir.verifier import check as verify
from hlotool.text.printer import print_module
from semantics.sample import Family, Sample
from semantics.values import Array

__all__ = ["Failure", "run_cell"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, with a module and arguments that show it."""

    seed: int
    why: str
    text: str
    arguments: tuple[Array, ...] = ()

    def __str__(self) -> str:
        shown = "\n".join(f"arg{n} = {np.array2string(a, threshold=200)}" for n, a in enumerate(self.arguments))
        return f"seed {self.seed}: {self.why}\n{self.text}\n{shown}"


def run_cell(family: Family, kind: str, seed: int, instructions: int = 5, rounds: int = 10) -> Failure | None:
    """One module of several instructions, compiled once and run on several rounds of values: instructions x rounds
    examples.  A failure is narrowed down to one instruction where it can be."""
    found = _attempt(family, kind, seed, range(instructions), rounds)
    if found is None or instructions == 1:
        return found
    for number in range(instructions):
        alone = _attempt(family, kind, seed, range(number, number + 1), rounds)
        if alone is not None:
            return alone
    return found


def draw(family: Family, kind: str, seed: int, numbers: range) -> Sample:
    """A sample of the instructions of these numbers: each has random choices of its own."""
    sample = Sample(Random(seed))
    for number in numbers:
        sample.rng = Random(f"{family.opcode} {kind} {seed} {number}")
        sample.results.append(family.draw(sample, family.opcode, kind))
    sample.finish()
    return sample


def _attempt(family: Family, kind: str, seed: int, numbers: range, rounds: int) -> Failure | None:
    sample = draw(family, kind, seed, numbers)
    module = sample.module
    text = print_module(module)
    generator = np.random.default_rng([seed, numbers.start])
    values: list[Array] = []
    try:
        verify(module)
        executable = compile_module(module, pipeline=("default", "none")[seed % 2], threads=1)
        for _ in range(rounds):
            values = sample.arguments(generator)
            why = _difference(module, values, executable(*values))
            if why:
                return Failure(seed, why, text, tuple(values))
    except Exception:
        return Failure(seed, traceback.format_exc(limit=-6), text, tuple(values))
    return None


def _difference(module: Module, values: list[Array], got: tuple[Array, ...]) -> str:
    want = evaluate(module, values)
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        comparison = compare(g, w)
        if not comparison.ok:
            at = comparison.worst
            return f"result {number}: {comparison}: native {g[at]!r}, evaluator {w[at]!r}"
    return ""
