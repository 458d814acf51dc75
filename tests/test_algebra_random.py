"""The rules of algebra on random modules: every opcode on every type, with what rules look for around it.

Rules that are exact keep each bit, those that are said to round stay within the error bounds of what they replace.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import semantics.families  # noqa: F401
from semantics.dressed import Dressed, undressed
from semantics.sample import FAMILIES, Family
from semantics.units import distance

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import truth
from hlotool.harness.compare import compare_with_truth
from hlotool.ir import OPCODES, Module, UnsupportedError, clone_module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.printer import print_module

Arrays = list[np.ndarray[Any, Any]]

ROUNDING = {
    "divide-by-root", "divide-by-exponential", "power-small", "power-inverse", "power-half", "divide-by-softmax-sum",
    "divide-by-inverse-root", "inverse-of-inverse-root", "reduce-broadcast", "reduce-twice", "reduce-of-transpose",
    "reduce-of-reverse", "window-of-everything", "reduce-of-batches", "reduce-of-joined", "reduce-of-reshape",
    "reduce-of-pad", "slice-dot", "dot-of-repeated-rows", "dot-of-repeated-matrix",
}  # fmt: skip
"""These round otherwise, or add in another order."""
FREE = {
    "constant-right", "combine-constants", "add-zero", "reduce-ones", "reduce-of-negated", "reduce-of-reverse",
    "dot-outer", "window-of-one", "scatter-known", "multiply-one",
}  # fmt: skip
"""These may give the other zero (of two zeros either is the larger), and an infinite complex number times 1 stays."""
GROUPS = {"elementwise", "constant", "broadcast", "data-movement", "tuple", "reduction", "dot", "sort", "gather"}
CASES = [opcode for opcode, row in OPCODES.items() if row.group in GROUPS and not opcode.startswith("batch-norm")]


def simplified(module: Module, without: set[str]) -> tuple[Module, set[str]]:
    copy, log = clone_module(module), DecisionLog()
    names = f'{{without="{" ".join(sorted(without))}"}}' if without else ""
    run_pipeline(copy, parse_pipeline(f"algebraic-simplifier{names}"), log)
    check(copy)
    assert not [str(d) for d in log if d.rule == "rules-loop"], print_module(module)
    return copy, {d.rule for d in log if d.action == "rewrite"}


def apart(before: Module, after: Module, values: Arrays) -> bool:
    inexact = any("transcendental" in i.info.traits or i.opcode == "power" for i in before.instructions())
    pairs = zip(evaluate(after, values), evaluate(before, values), strict=True)
    return any((distance(*map(np.asarray, pair), signed_zeros=True) > (2 if inexact else 0)).any() for pair in pairs)


def too_far(before: Module, after: Module, values: Arrays) -> bool:
    try:
        bounds = truth(before, values)
    except UnsupportedError:
        return False
    found = compare_with_truth(list(evaluate(after, values)), list(bounds), max_undecided=1.0)
    return not all(row.ok for row in found)


def attempt(family: Family, kind: str, seed: int) -> set[str]:
    """One module, before and after; the rules that it was rewritten by."""
    sample = Dressed(Random(seed))
    sample.rng = Random(f"{family.opcode} {kind} {seed}")
    sample.results.append(undressed(sample, family.draw(sample, family.opcode, kind)))
    module = sample.finish()
    check(module)
    after, rules = simplified(module, set())
    if rules & FREE:
        after, rules = simplified(module, FREE)
    wrong = too_far if rules & ROUNDING else apart
    generator = np.random.default_rng(seed)
    for _ in range(2 if rules else 0):
        values = sample.arguments(generator)
        assert not wrong(module, after, values), f"{kind}, seed {seed}, {sorted(rules)}:\n{print_module(module)}"
    return rules


@pytest.mark.parametrize("opcode", CASES)
def test_random_modules(opcode: str) -> None:
    used: set[str] = set()
    with np.errstate(all="ignore"):
        for family in FAMILIES[opcode]:
            if not family.draw.__module__.endswith("dynamic"):
                for kind in family.types:
                    used |= attempt(family, kind, CASES.index(opcode))
    assert used
