"""The evaluator against XLA itself, on drawn instructions; skipped where no Python has jax (see `xla_oracle`)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import semantics.families_linalg
import semantics.families_random
import semantics.families_reduction  # noqa: F401
from semantics.sample import FAMILIES, Family, Sample
from semantics.values import Array, anything, modest
from semantics.xla_oracle import missing, run_xla

from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare
from hlotool.ir import ELEMENT_TYPES, Module, UnsupportedError
from hlotool.text.printer import print_module

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

KINDS = ("pred", "s8", "s32", "s64", "u8", "u16", "u32", "u64", "f32", "f64", "c64", "c128")
"""Types that XLA computes in themselves: narrow floats and integers it widens, and drops roundings on the way."""
SEEDS = {"rng-bit-generator": 20}
"""Drawn per type; 2 of other opcodes."""
OPCODES = (
    "reduce", "reduce-window", "select-and-scatter", "map", "sort", "topk", "cholesky", "triangular-solve", "fft",
    "rng-bit-generator", "batch-norm-training", "batch-norm-inference", "batch-norm-grad",
)  # fmt: skip


def drawn(family: Family, kind: str, seed: int) -> tuple[Module, list[Array]]:
    """One instruction and arguments for it.

    Floats are of ordinary size: XLA takes denormals for zeros, and adds and multiplies in another order, which shows
    where infinity is near.
    """
    sample = Sample(Random(f"{family.opcode} {kind} {seed}"))
    sample.entry.root = family.draw(sample, family.opcode, kind)
    sample.module.add(sample.entry, entry=True)
    for instruction in sample.entry:
        if instruction.opcode == "sort":
            instruction.attributes["is_stable"] = True
    sample.fillers = [
        (modest if fill is anything and _is_inexact(shape.element_type) else fill, shape)
        for fill, shape in sample.fillers
    ]
    return sample.module, sample.arguments(np.random.default_rng(seed))


def _is_inexact(kind: str) -> bool:
    return ELEMENT_TYPES[kind].is_float or ELEMENT_TYPES[kind].is_complex


def _is_comparable(family: Family, module: Module) -> bool:
    """XLA leaves out the initial value where as many elements are left as there were, and takes long rows in parts.

    What a singular matrix spoils is open (it is asked for as ``is-finite``).
    """
    if family.draw.__name__ == "reduce_long" or module.entry.root.opcode == "is-finite":
        return False
    if family.opcode == "rng-bit-generator":
        return module.entry.parameters[0].shape.element_type == "u64"  # XLA expands no others
    if family.opcode == "select-and-scatter":  # XLA dies of scalars, and of padding that takes away more than there is
        source = module.entry.root.operands[1].shape
        return bool(source.dimensions) and source.size > 0
    whole = module.entry.root if module.entry.root.opcode == family.opcode else module.entry.root.operands[0]
    results = next(whole.shape.leaves()).size
    return family.opcode not in ("reduce", "reduce-window") or results != whole.operands[0].shape.size


@pytest.mark.parametrize("opcode", OPCODES)
def test_evaluator_agrees_with_xla(opcode: str) -> None:
    cases = [
        (kind, module, arguments)
        for family in FAMILIES[opcode]
        for kind in family.types
        if kind in KINDS
        for seed in range(SEEDS.get(opcode, 2))
        for module, arguments in [drawn(family, kind, seed)]
        if _is_comparable(family, module)
    ]
    flags = "--xla_cpu_enable_fast_min_max=false"  # which loses NaNs
    answers = run_xla([(print_module(module), arguments) for _, module, arguments in cases], flags=flags)
    answered = 0
    for (kind, module, arguments), theirs in zip(cases, answers, strict=True):
        if isinstance(theirs, UnsupportedError):
            continue
        answered += 1
        for mine, other in zip(evaluate(module, arguments), theirs, strict=True):
            # XLA gives random bits of floats as integers.
            found = compare(mine, other.view(mine.dtype) if opcode == "rng-bit-generator" else other)
            assert found.ok, f"{kind}: {found}\n{print_module(module)}\n{arguments}\n{mine}\n{other}"
    assert answered * 2 >= len(cases), [str(a)[:200] for a in answers if isinstance(a, UnsupportedError)]
