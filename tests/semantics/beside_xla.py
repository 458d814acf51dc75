"""The evaluator beside XLA on drawn instructions, thousands of them: ``python -m semantics.beside_xla``.

    cd tests && python -m semantics.beside_xla [--examples N] [--opcode RE] [--type RE] [--seed N] [--all]

Each opcode is drawn N times on each of its types, with edges among the values, as XLA runs programs of JAX: with
denormals flushed.  Where results differ, that is shown with the module and its arguments, once for each opcode and
type (``--all``: each time); `semantics.differences` says which differences are XLA's.  It takes a Python that has jax
(``HLOTOOL_XLA_PYTHON``).  Exit status 1 when something differs.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

import semantics.families  # noqa: F401
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare
from hlotool.ir import ELEMENT_TYPES, Module, UnsupportedError
from hlotool.text.printer import print_module
from semantics.check import leaves_of, without_tiny
from semantics.differences import known
from semantics.sample import FAMILIES, Family, Sample
from semantics.units import distance
from semantics.values import Array
from semantics.xla_oracle import missing, run_xla

__all__ = ["FLAGS", "Drawn", "difference", "drawn"]

FLAGS = "--xla_cpu_enable_fast_min_max=false --xla_allow_excess_precision=false"
"""Without these NaNs are lost, and roundings."""

_LEFT_OUT = re.compile(
    "infeed|outfeed|send.*|recv.*|rng|rng-get.*|custom-call|async.*|copy-.*|domain|scan|dynamic-reshape|"
    "(all|collective|reduce-scatter|ragged-all).*|partition-id|replica-id|add-dependency|after-all"
)
"""What XLA draws otherwise, or runs in no program of one device."""

_BATCH = 100
"""Modules for one child process with XLA."""

_LOOSE = 256.0
"""Units of the last place by which functions may differ: XLA's own are off by tens."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One instruction, and arguments for it."""

    family: Family
    kind: str
    seed: int
    module: Module
    arguments: list[Array]


def drawn(family: Family, kind: str, seed: int) -> Drawn | None:
    """None where it takes several devices."""
    sample = Sample(Random(f"{family.opcode} {family.draw.__name__} {kind} {seed}"))
    sample.entry.root = family.draw(sample, family.opcode, kind)
    sample.module.add(sample.entry, entry=True)
    if "replica_count" in sample.module.attributes:
        return None
    for instruction in sample.entry:
        if instruction.opcode == "sort":
            instruction.attributes["is_stable"] = True
    return Drawn(family, kind, seed, sample.module, sample.arguments(np.random.default_rng(seed)))


def difference(case: Drawn, theirs: Sequence[Array]) -> str:
    """What is other than XLA has it; empty if nothing is."""
    mine = evaluate(case.module, case.arguments, flush_denormals=True)
    kinds = [leaf.element_type for leaf in leaves_of(case.module.entry.root.shape)]
    for number, (own, other, kind) in enumerate(zip(mine, theirs, kinds, strict=True)):
        if own.dtype != other.dtype and own.dtype.itemsize == other.dtype.itemsize:
            other = other.view(own.dtype)  # XLA gives random bits of floats as integers
        ulps = case.family.ulps
        if ulps is None:
            found = compare(own, other)
            if not found.ok:
                return f"result {number}: {found}: evaluator {own[found.worst]!r}, XLA {other[found.worst]!r}"
            continue
        row = ELEMENT_TYPES[kind]
        own, other = without_tiny(own), without_tiny(other)
        far = distance(own, other, signed_zeros=ulps == 0 and (row.is_float or row.is_complex))
        limit = _LOOSE if ulps else 0
        bad = far > limit
        if bad.any():
            at = tuple(int(n) for n in np.argwhere(bad)[0])
            return f"result {number}, {np.count_nonzero(bad)} of {own.size}: at {at} {own[at]!r}, XLA {other[at]!r}"
    return ""


def cases(examples: int, opcodes: str, types: str, seed: int) -> Iterator[Drawn]:
    for opcode, families in FAMILIES.items():
        if _LEFT_OUT.fullmatch(opcode) or not re.fullmatch(opcodes, opcode):
            continue
        for family in families:
            for kind in family.types:
                if re.fullmatch(types, kind):
                    found = (drawn(family, kind, seed + number) for number in range(examples))
                    yield from filter(None, found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m semantics.beside_xla", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--examples", type=int, default=20, help="of each way to draw an opcode, and type")
    parser.add_argument("--opcode", default=".*", metavar="RE")
    parser.add_argument("--type", default=".*", metavar="RE")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--all", action="store_true", help="show every difference")
    options = parser.parse_args()
    if missing():
        sys.exit(missing())
    work = list(cases(options.examples, options.opcode, options.type, options.seed))
    counts: Counter[str] = Counter()
    refused: dict[tuple[str, str], str] = {}
    shown: set[tuple[str, str]] = set()
    for start in range(0, len(work), _BATCH):
        some = work[start : start + _BATCH]
        answers = run_xla([(print_module(case.module), case.arguments) for case in some], flags=FLAGS)
        for case, answer in zip(some, answers, strict=True):
            where = case.family.opcode, case.kind
            if isinstance(answer, UnsupportedError):
                counts["refused by XLA"] += 1
                refused.setdefault(where, str(answer)[:160])
                continue
            try:
                why = difference(case, answer)
            except Exception:
                why = traceback.format_exc(limit=-4)
            counts["different" if why else "equal"] += 1
            if why and (options.all or where not in shown):
                shown.add(where)
                given = enumerate(case.arguments)
                arguments = "\n".join(f"arg{n} = {np.array2string(a, threshold=100)}" for n, a in given)
                note = f" [known: {known(*where)}]" if known(*where) else ""
                text = print_module(case.module)
                print(f"\n{where[0]} on {where[1]}, seed {case.seed}{note}: {why}\n{text}\n{arguments}", flush=True)
        print(f"{start + len(some)} of {len(work)}: {dict(counts)}", file=sys.stderr, flush=True)
    for where, why in refused.items():
        print(f"refused: {where[0]} on {where[1]}: {why}", file=sys.stderr)
    return int(counts["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
