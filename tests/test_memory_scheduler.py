"""The scheduler: fewer bytes alive at once, never another meaning."""

from __future__ import annotations

from random import Random

from random_programs import Generator

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.driver import optimise
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.ir.verifier import check
from hlotool.text.parser import parse


def test_random_programs_keep_their_meaning() -> None:
    changed = 0
    for seed in range(60):
        module = parse(Generator(Random(seed), 14).text)
        log = DecisionLog()
        scheduled = optimise(module, "memory-scheduler{at-least=0}", log)
        changed += any(d.action == "rewrite" for d in log)
        check(scheduled)
        arguments = random_inputs(module, seed)
        for got, want in zip(evaluate(scheduled, arguments), evaluate(module, arguments), strict=True):
            assert got.tobytes() == want.tobytes()
        assert peak_bytes(scheduled) <= peak_bytes(module)
    assert changed > 10


def test_a_computation_may_be_fused_and_called() -> None:
    module = parse("""HloModule m
f {
 p = f32[4] parameter(0)
 ROOT r = f32[4] multiply(p, p)
}
ENTRY e {
 p = f32[4] parameter(0)
 a = f32[4] call(p), to_apply=f
 ROOT b = f32[4] fusion(a), kind=kLoop, calls=f
}""")
    check(optimise(module, "memory-scheduler", strict=True))
