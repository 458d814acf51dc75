"""Passes on collectives: the same results on every device, bit for bit, with fewer or plainer exchanges."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.ir import Module, clone_module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse

HEAD = """HloModule m, replica_count=4
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
largest {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y)
}
ENTRY e {
p = f32[8] parameter(0)
q = f32[4,2] parameter(1)
"""


def changed(body: str, pipeline: str, rewrites: int) -> Module:
    """The module after a pipeline; what its devices compute stays the same."""
    before = parse(f"{HEAD}{body}\n}}\n")
    check(before)
    after, log = clone_module(before), DecisionLog()
    run_pipeline(after, parse_pipeline(pipeline), log)
    check(after)
    assert log.rewrites == rewrites
    generator = np.random.default_rng(6)
    arrays = [generator.standard_normal((4, *sizes)).astype(np.float32) for sizes in ((8,), (4, 2))]
    expected = compile_module(before, "evaluate")(*arrays)
    for module, backend in ((after, "evaluate"), (after, "cpu"), (before, "cpu")):
        found = compile_module(module, backend, threads=1)(*arrays)
        assert [f.tobytes() for f in found] == [e.tobytes() for e in expected]
    return after


def count(module: Module, opcode: str) -> int:
    return Counter(i.opcode for i in module.entry)[opcode]


def test_all_reduces_are_combined() -> None:
    body = """a = f32[8] all-reduce(p), to_apply=sum
b = f32[8] negate(a)
c = f32[4,2] all-reduce(q), to_apply=sum
d = f32[4,2] all-reduce(q), to_apply=largest
s = f32[8] add(p, p)
f = f32[8] all-reduce(s), to_apply=sum
ROOT r = (f32[8], f32[4,2], f32[4,2], f32[8]) tuple(b, c, d, f)"""
    after = changed(body, "all-reduce-combiner", 1)
    assert count(after, "all-reduce") == 2
    assert max(len(i.operands) for i in after.entry if i.opcode == "all-reduce") == 3


@pytest.mark.parametrize(
    "body",
    [
        "a = f32[8] all-reduce(p), to_apply=sum\nb = f32[8] negate(a)\nROOT r = f32[8] all-reduce(b), to_apply=sum",
        "a = f32[8] all-reduce(p), to_apply=sum, replica_groups={{0,1},{2,3}}\n"
        "b = f32[8] all-reduce(p), to_apply=sum\nROOT r = (f32[8], f32[8]) tuple(a, b)",
    ],
    ids=["dependent", "other-groups"],
)
def test_all_reduces_that_stay(body: str) -> None:
    changed(body, "all-reduce-combiner", 0)


def test_groups_do_not_wait_for_each_other() -> None:
    """Sums and maxima cross: the sum of the maximum, and the maximum of another sum."""
    body = """a = f32[8] all-reduce(p), to_apply=sum
b = f32[8] all-reduce(a), to_apply=largest
c = f32[4,2] all-reduce(q), to_apply=largest
d = f32[4,2] all-reduce(c), to_apply=sum
ROOT r = (f32[8], f32[4,2]) tuple(b, d)"""
    after = changed(body, "all-reduce-combiner", 1)
    assert count(after, "all-reduce") == 3


def test_all_reduces_up_to_a_size() -> None:
    body = """a = f32[8] all-reduce(p), to_apply=sum
b = f32[4,2] all-reduce(q), to_apply=sum
ROOT r = (f32[8], f32[4,2]) tuple(a, b)"""
    changed(body, "all-reduce-combiner{max-bytes=63}", 0)
    changed(body, "all-reduce-combiner{max-bytes=64}", 1)
    changed(body, "all-reduce-combiner{max-count=1}", 0)


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = f32[8] all-to-all(p), dimensions={0}",
        "ROOT r = f32[4,2] all-to-all(q), dimensions={1}, replica_groups={{3,1},{0,2}}",
    ],
)
def test_all_to_all_decomposer(body: str) -> None:
    after = changed(body, "all-to-all-decomposer", 1)
    assert not any(i.attributes.get("dimensions") for i in after.entry if i.opcode == "all-to-all")
    assert after.entry.root.opcode == "concatenate"
