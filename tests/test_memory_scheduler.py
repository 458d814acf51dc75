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

WIDE = """
HloModule wide
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[1000] parameter(0)
  zero = f32[] constant(0)
  a = f32[1000] sort(x), dimensions={0}, to_apply=less
  b = f32[1000] reverse(x), dimensions={0}
  c = f32[1000] sine(x)
  ra = f32[] reduce(a, zero), dimensions={0}, to_apply=add
  rb = f32[] reduce(b, zero), dimensions={0}, to_apply=add
  rc = f32[] reduce(c, zero), dimensions={0}, to_apply=add
  s = f32[] add(ra, rb)
  ROOT r = f32[] add(s, rc)
}
"""

UPDATED = """
HloModule updated
ENTRY e {
  x = f32[1000] parameter(0)
  i = s32[] constant(3)
  one = f32[1] constant({1})
  a = f32[1000] negate(x)
  big = f32[1000,4] broadcast(a), dimensions={0}
  old = f32[1000,4] exponential(big)
  new = f32[1000] dynamic-update-slice(a, one, i)
  ROOT r = (f32[1000,4], f32[1000]) tuple(old, new)
}
"""


def names(text: str, options: str = "") -> list[str]:
    module = optimise(parse(text), f"memory-scheduler{options}")
    check(module)
    return [i.name for i in module.entry]


def test_values_are_used_up_before_others_are_made() -> None:
    order = names(WIDE)
    for array, total in (("a", "ra"), ("b", "rb"), ("c", "rc")):
        assert order.index(total) == order.index(array) + 1
    before = parse(WIDE)
    assert peak_bytes(before) > 16000
    assert peak_bytes(optimise(before, "memory-scheduler")) <= 8000 + 100


def test_a_small_gain_changes_nothing() -> None:
    log = DecisionLog()
    unchanged = optimise(parse(WIDE), "memory-scheduler{at-least=0.9}", log)
    assert [i.name for i in unchanged.entry] == [i.name for i in parse(WIDE).entry]
    assert [d.rule for d in log] == ["order-kept"]


def test_readers_stay_ahead_of_updates_in_place() -> None:
    order = names(UPDATED)
    assert order.index("big") < order.index("new")


def test_control_dependencies_hold() -> None:
    text = WIDE.replace(
        "ra = f32[] reduce(a, zero), dimensions={0}, to_apply=add",
        "ra = f32[] reduce(a, zero), dimensions={0}, to_apply=add, control-predecessors={c}",
    )
    order = names(text)
    assert order.index("c") < order.index("ra")


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
