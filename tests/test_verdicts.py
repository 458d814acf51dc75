"""Verdicts: ok means decided and within bounds; what is not decided is a verdict of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run
from planted_passes import KINDS, findings, load

import hlotool
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded, growth, unit
from hlotool.evaluate.stochastic import Runs, statistical
from hlotool.evaluate.truth import bounded_results, truth
from hlotool.evaluate.truth_sums import repeats
from hlotool.harness.check_each import CheckEach, NumbersChanged, NumbersUndecided
from hlotool.harness.compare import Comparison, compare_with_truth, verdict_of
from hlotool.harness.elided import filled
from hlotool.harness.inputs import inputs_of, random_inputs
from hlotool.ir import UnsupportedError, dtype_of
from hlotool.passes.simplify.simplify_fp_conversions import SimplifyFPConversions
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

CLOSE = """ENTRY main { p0 = f32[3] parameter(0)
  e = f32[3] exponential(p0)
  l = f32[3] log(e)
  ROOT r = pred[3] compare(l, p0), direction=GE }"""
"""Three comparisons too close to call."""


def within(text: str, *arrays: Array) -> list[Comparison]:
    """Native code (optimised and not) and the evaluator against the bounds."""
    module = parse(text)
    bounds = bounded_results(module, arrays)
    runs = [compile_module(module, threads=1), compile_module(module, pipeline="none", threads=1)]
    outputs = [*(run(*arrays) for run in runs), evaluate(module, arrays)]
    return [row for got in outputs for row in compare_with_truth(got, bounds)]


# ---- the verdict


def test_undecided_is_a_verdict_of_its_own(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(CLOSE)
    done = hlotool("run", "m.hlo", "--compare", "evaluate")
    assert done.returncode == 1
    assert "out0: UNDECIDED: " in done.stderr
    assert "undecided: 3 of 3" in done.stderr
    done = hlotool("run", "m.hlo", "--compare", "evaluate", "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["verdict"] == report["outputs"][0]["verdict"] == "UNDECIDED"
    assert (report["outputs"][0]["undecided"], report["outputs"][0]["ok"]) == (3, False)
    assert hlotool("run", "m.hlo", "--compare", "evaluate", "--max-undecided", "100%").returncode == 0
    assert hlotool("run", "m.hlo", "--compare", "evaluate", "--max-undecided", "0.5").returncode == 1
    for wrong in ("110%", "-1", "few", "nan"):
        assert hlotool("run", "m.hlo", "--compare", "evaluate", "--max-undecided", wrong).returncode == 2


def test_an_undecided_module_cannot_be_checked_pass_by_pass(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(CLOSE)
    done = hlotool("opt", "m.hlo", "--check-each", "evaluate")
    assert done.returncode == 1
    assert "UNDECIDED: out0 of the module itself" in done.stderr
    assert hlotool("opt", "m.hlo", "--check-each", "evaluate", "--max-undecided", "1").returncode == 0
    module = parse(CLOSE)
    with pytest.raises(NumbersUndecided):
        CheckEach(module, random_inputs(module, 0))


ROUNDED = """HloModule rounded
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] sine(x)
  h = bf16[64] convert(y)
  z = f32[64] convert(h)
  ROOT r = f32[64] add(z, z)
}
"""


def test_a_pass_that_leaves_out_roundings_is_not_called_wrong(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(ROUNDED)
    passes = ("-p", "simplify-fp-conversions,default")
    done = hlotool("opt", "m.hlo", *passes, "--check-each", "evaluate")
    assert done.returncode == 0, done.stderr
    assert "convert" not in done.stdout
    assert hlotool("run", "m.hlo", *passes, "--compare", "evaluate").returncode == 0
    assert hlotool("bench", "m.hlo", "-p", "default", *passes, "--no-roof", "--time", "0.01").returncode == 0
    module, changed = parse(ROUNDED), parse(done.stdout)
    arrays = random_inputs(module, 0)
    assert not all(c.ok for c in compare_with_truth(evaluate(changed, arrays), bounded_results(module, arrays)))


def test_a_wrong_pass_is_found_after_one_that_leaves_out_roundings() -> None:
    module = parse(ROUNDED)
    check = CheckEach(module, random_inputs(module, 0))
    check.after(SimplifyFPConversions(), module, True, 0.0)
    with pytest.raises(NumbersChanged):
        check.after(SimplifyFPConversions(), parse(ROUNDED.replace("add(z, z)", "subtract(z, z)")), True, 0.0)


@pytest.mark.parametrize("power", ["power(one, k)", "power(x, zero)"])
def test_powers_that_are_one_are_exact(power: str) -> None:
    """As in the first step of Adafactor: its average weighs the old one by 1 - 1^-0.8, which is nothing."""
    text = """HloModule m
ENTRY e {
  x = f32[] parameter(0)
  one = f32[] constant(1)
  zero = f32[] constant(0)
  k = f32[] constant(-0.8)
  p = f32[] POWER
  old = f32[] subtract(one, p)
  ROOT r = f32[] rsqrt(old)
}"""
    (found,) = bounded_results(parse(text.replace("POWER", power)), [np.asarray(0.3, np.float32)])
    assert found.value == np.inf
    assert (found.errors() == 0).all()


SIGNS = """HloModule signs
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[4000,65] parameter(0)
  m = f32[4000] parameter(1)
  y = f32[4000,65] reverse(x), dimensions={1}
  zero = f32[] constant(0)
  s = f32[4000] reduce(x, zero), dimensions={1}, to_apply=add
  t = f32[4000] reduce(y, zero), dimensions={1}, to_apply=add
  d = f32[4000] subtract(s, t)
  g = f32[4000] add(d, m)
  w = f32[4000] multiply(g, g)
  v = f32[4000] sqrt(w)
  ROOT q = f32[4000] OP
}"""


@pytest.mark.parametrize("op", ["divide(g, v)", "multiply(g, r)"])
def test_a_sign_is_no_surer_than_the_number_that_it_is_of(op: str) -> None:
    """As in the first step of Adam: a few runs may all have the same sign by chance."""
    text = SIGNS.replace("ROOT q", "r = f32[4000] rsqrt(w)\n  ROOT q").replace("OP", op)
    module = parse(text)
    small = np.arange(4000) % 10 == 0
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((4000, 65)).astype(np.float32), np.where(small, 1e-6, 1).astype(np.float32)]
    (found,) = bounded_results(module, arrays)
    assert (found.errors()[small] > 2 * np.abs(found.value[small]) - 1e-6).all()
    assert (found.errors()[~small] < 1e-3).all()


def test_the_gravest_verdict_counts() -> None:
    rows = {
        "ok": Comparison(True, "", 0, 100, 0, 0, undecided=1),
        "UNDECIDED": Comparison(False, "", 0, 100, 0, 0, undecided=2),
        "MISMATCH": Comparison(False, "", 1, 100, 0, 0, undecided=99),
    }
    assert [row.verdict for row in rows.values()] == list(rows)
    assert verdict_of(list(rows.values())) == "MISMATCH"
    assert verdict_of([rows["ok"], rows["UNDECIDED"]]) == "UNDECIDED"
    assert verdict_of([]) == "ok"


# ---- bounds that decide


def layers(depth: int, size: int, kind: str = "f32", wrong: str = "add") -> str:
    """Attention with a mask, a residual sum (`wrong` in the last layer), and a layer norm, over and over."""
    t, square, row = kind, f"{kind}[{size},{size}]", f"{kind}[{size}]"
    lines = [f"x0 = {square} parameter(0)", f"w = {square} parameter(1)", f"zero = {t}[] constant(0)"]
    lines += [f"low = {t}[] constant(-inf)", f"n = {t}[] constant({size})", f"tiny = {t}[] constant(0.001)"]
    lines += [f"lows = {square} broadcast(low), dimensions={{}}", f"ns = {row} broadcast(n), dimensions={{}}"]
    lines += [f"tinies = {row} broadcast(tiny), dimensions={{}}"]
    lines += [f"i = s32[{size},{size}] iota(), iota_dimension=0", f"j = s32[{size},{size}] iota(), iota_dimension=1"]
    lines += [f"mask = pred[{size},{size}] compare(i, j), direction=GE"]
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims="
    for n in range(depth):
        plus = wrong if n == depth - 1 else "add"
        lines += [
            f"h{n} = {square} dot(x{n}, w), {dims}{{0}}",
            f"s{n} = {square} dot(h{n}, x{n}), {dims}{{1}}",
            f"m{n} = {square} select(mask, s{n}, lows)",
            f"t{n} = {row} reduce(m{n}, low), dimensions={{1}}, to_apply=max",
            f"tb{n} = {square} broadcast(t{n}), dimensions={{0}}",
            f"d{n} = {square} subtract(m{n}, tb{n})",
            f"e{n} = {square} exponential(d{n})",
            f"z{n} = {row} reduce(e{n}, zero), dimensions={{1}}, to_apply=sum",
            f"zb{n} = {square} broadcast(z{n}), dimensions={{0}}",
            f"p{n} = {square} divide(e{n}, zb{n})",
            f"v{n} = {square} dot(p{n}, x{n}), {dims}{{0}}",
            f"r{n} = {square} {plus}(x{n}, v{n})",
            f"q{n} = {square} multiply(r{n}, r{n})",
            f"a{n} = {row} reduce(q{n}, zero), dimensions={{1}}, to_apply=sum",
            f"b{n} = {row} divide(a{n}, ns)",
            f"c{n} = {row} add(b{n}, tinies)",
            f"k{n} = {row} rsqrt(c{n})",
            f"kb{n} = {square} broadcast(k{n}), dimensions={{0}}",
            f"x{n + 1} = {square} multiply(r{n}, kb{n})",
        ]
    folds = "".join(
        f"{name} {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT c = {t}[] {opcode}(a, b) }}\n"
        for name, opcode in (("sum", "add"), ("max", "maximum"))
    )
    lines[-1] = "ROOT " + lines[-1]
    return "HloModule layers\n" + folds + "ENTRY main {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_deep_networks_with_masks_are_decided(kind: str) -> None:
    module = parse(layers(10, 16, kind))
    arrays = random_inputs(module, 0)
    (worst,) = truth(module, arrays)
    assert not (worst.errors() < 0.1).all()  # bounds of the worst case say nothing after some layers
    (found,) = bounded_results(module, arrays)
    size = float(np.sqrt(np.mean(found.value**2)))
    assert float(np.median(found.errors())) < 3000 * unit(kind) * size
    assert all(row.verdict == "ok" and not row.undecided for row in within(layers(10, 16, kind), *arrays))


def test_a_wrong_pass_in_a_deep_network_is_caught() -> None:
    module, wrong = parse(layers(10, 16)), parse(layers(10, 16, wrong="subtract"))
    arrays = random_inputs(module, 0)
    rows = compare_with_truth(compile_module(wrong, threads=1)(*arrays), bounded_results(module, arrays))
    assert verdict_of(rows) == "MISMATCH"


def test_chaos_is_undecided() -> None:
    """The logistic map doubles errors at every step: after 200 nothing is left of f32."""
    text = """HloModule m
    body { s = (f32[4], s32[]) parameter(0)
      x = f32[4] get-tuple-element(s), index=0
      i = s32[] get-tuple-element(s), index=1
      one = f32[] constant(1)
      ones = f32[4] broadcast(one), dimensions={}
      four = f32[] constant(3.99)
      fours = f32[4] broadcast(four), dimensions={}
      r = f32[4] subtract(ones, x)
      m = f32[4] multiply(x, r)
      y = f32[4] multiply(m, fours)
      step = s32[] constant(1)
      j = s32[] add(i, step)
      ROOT t = (f32[4], s32[]) tuple(y, j) }
    condition { s = (f32[4], s32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=1
      n = s32[] constant(COUNT)
      ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY main { x = f32[4] parameter(0)
      z = s32[] constant(0)
      s = (f32[4], s32[]) tuple(x, z)
      w = (f32[4], s32[]) while(s), condition=condition, body=body
      ROOT r = f32[4] get-tuple-element(w), index=0 }"""
    x = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    assert {row.verdict for row in within(text.replace("COUNT", "200"), x)} == {"UNDECIDED"}
    assert {row.verdict for row in within(text.replace("COUNT", "8"), x)} == {"ok"}


def test_what_cancels_to_zero_is_decided() -> None:
    """The sum of what is left of numbers without their mean is a rounding error: a zero, and no other number."""
    text = """HloModule m
    sum { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
    ENTRY main { x = f32[64] parameter(0)
      z = f32[] constant(0)
      n = f32[] constant(64)
      s = f32[] reduce(x, z), dimensions={0}, to_apply=sum
      m = f32[] divide(s, n)
      b = f32[64] broadcast(m), dimensions={}
      d = f32[64] subtract(x, b)
      ROOT r = f32[] reduce(d, z), dimensions={0}, to_apply=sum }"""
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    assert all(row.verdict == "ok" for row in within(text, x))
    (bound,) = bounded_results(parse(text), [x])
    assert compare_with_truth([np.asarray(np.float32(0.01))], [bound])[0].verdict == "MISMATCH"


# ---- no false alarms


@pytest.mark.parametrize("count", [4, 63, 64, 65, 300])
@pytest.mark.parametrize("narrow", ["bf16", "f16", "f8e4m3fn"])
def test_products_of_numbers_that_were_rounded_to_a_narrower_type(count: int, narrow: str) -> None:
    text = f"""ENTRY main {{ a = f32[40,{count}] parameter(0)
      b = f32[{count},30] parameter(1)
      c = {narrow}[40,{count}] convert(a)
      d = {narrow}[{count},30] convert(b)
      e = f32[40,{count}] convert(c)
      f = f32[{count},30] convert(d)
      ROOT r = f32[40,30] dot(e, f), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    random = np.random.default_rng(count)
    arrays = [random.standard_normal(sizes).astype(np.float32) for sizes in ((40, count), (count, 30))]
    assert not [str(row) for row in within(text, *arrays) if row.bad]


@pytest.mark.parametrize("kind", ["f8e4m3fn", "f8e5m2", "f8e3m4", "f4e2m1fn", "bf16", "f16"])
def test_narrow_products_that_may_overflow(kind: str) -> None:
    text = f"""ENTRY main {{ a = {kind}[20,300] parameter(0)
      b = {kind}[300,20] parameter(1)
      t = {kind}[20,300] tanh(a)
      s = {kind}[20,20] dot(t, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      u = {kind}[20,20] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      ROOT r = ({kind}[20,20], {kind}[20,20]) tuple(s, u) }}"""
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(sizes).astype(dtype_of(kind)) for sizes in ((20, 300), (300, 20))]
    assert not [str(row) for row in within(text, *arrays) if row.bad]


@pytest.mark.parametrize("kind", ["f32", "f64", "c64"])
@pytest.mark.parametrize("values", [1, 3])
def test_equal_terms_scattered_into_one_place(kind: str, values: int) -> None:
    count = 20_000
    text = f"""HloModule m
    sum {{ a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      ROOT c = {kind}[] add(a, b) }}
    ENTRY main {{ x = {kind}[4] parameter(0)
      i = s32[{count},1] parameter(1)
      u = {kind}[{count}] parameter(2)
      ROOT r = {kind}[4] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum }}"""
    terms = np.random.default_rng(2).choice([0.1, 0.7, 1.3][:values], count).astype(dtype_of(kind))
    rows = within(text, np.zeros(4, dtype_of(kind)), np.full((count, 1), 2, np.int32), terms)
    assert all(row.verdict == "ok" for row in rows), [str(row) for row in rows]


def test_terms_that_round_alike() -> None:
    random = np.random.default_rng(3)
    assert repeats(random.standard_normal((3, 500)), [1]) == 1
    assert repeats(np.full((3, 500), 0.1), [1]) == 500
    assert repeats(np.zeros((3, 500)), [1]) == 1  # zeros do not round
    assert 90 < repeats(random.choice([1.0, 2, 3, 4, 5], (2, 500)), [1]) < 120
    rows = random.standard_normal((500, 2))
    rows[:, 1] = 0.3
    assert repeats(rows, [0]) == 500  # of the row where they repeat most
    assert repeats(np.zeros((0, 4)), [1]) == 1
    u = unit("f32")
    assert growth(200_000, u) < 0.05 * growth(200_000, u, 200_000) <= 0.05 * 200_000 * u / (1 - 200_000 * u) * 1.001


FOLD = """sum { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }"""


def all_decided(text: str, *arrays: Array) -> bool:
    return all(row.verdict == "ok" and not row.undecided for row in within(text, *arrays))


def test_more_draws_decide_what_may_be_chance() -> None:
    """Four runs that happen to agree on an element say that it is more exact than it is."""
    true = np.linspace(1, 2, 1000)
    narrow, wide = (Bounded(true, np.full(1000, error)) for error in (1e-6, 1e-4))
    asked: list[int] = []

    def again(draws: int) -> list[Bounded]:
        asked.append(draws)
        return [wide]

    got = true.astype(np.float32)
    got[7] += 1e-5
    assert compare_with_truth([got], [narrow])[0].verdict == "MISMATCH"
    assert compare_with_truth([got], [narrow], again=again)[0].verdict == "ok"
    got[7] += 1e-3
    assert compare_with_truth([got], [narrow], again=again)[0].verdict == "MISMATCH"
    assert len(asked) == 2
    assert min(asked) > 1
    got[:500] += 1e-5
    assert compare_with_truth([got], [narrow], again=again)[0].verdict == "MISMATCH"
    assert len(asked) == 2  # so many are no chance


def test_the_largest_bound_of_several_draws_counts() -> None:
    text = """ENTRY e {
  x0 = f32[300] parameter(0)
  one = f32[] constant(1)
  rate = f32[] constant(3.7)
  ones = f32[300] broadcast(one), dimensions={}
  rates = f32[300] broadcast(rate), dimensions={}
""" + "".join(
        f"  y{n} = f32[300] subtract(ones, x{n})\n  z{n} = f32[300] multiply(x{n}, y{n})\n"
        f"  {'ROOT ' if n == 9 else ''}x{n + 1} = f32[300] multiply(rates, z{n})\n" for n in range(10)
    ) + "}"  # fmt: skip
    x = np.linspace(0.1, 0.9, 300, dtype=np.float32)
    once, more = (bounded_results(parse(text), [x], draws=draws)[0].errors() for draws in (1, 4))
    decided = np.isfinite(once) & np.isfinite(more)
    assert decided.mean() > 0.5
    assert (more[decided] >= once[decided]).all()
    assert (more[decided] > once[decided]).mean() > 0.3


@pytest.mark.parametrize("narrow", ["f8e5m2", "f8e4m3fn", "bf16", "f16"])
def test_conversions_round_and_are_no_errors(narrow: str) -> None:
    text = f"""HloModule m
    {FOLD}
    ENTRY main {{ p = f32[256,16] parameter(0)
      a = {narrow}[256,16] convert(p)
      b = bf16[256,16] convert(a)
      c = f32[256,16] convert(b)
      z = f32[] constant(0)
      s = f32[16] reduce(c, z), dimensions={{0}}, to_apply=sum
      d = f32[16,16] dot(c, c), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
      ROOT r = (f32[16], f32[16,16]) tuple(s, d) }}"""
    x = np.random.default_rng(4).standard_normal((256, 16)).astype(np.float32)
    assert all_decided(text, x)
    for bound in bounded_results(parse(text), [x]):
        assert float(bound.errors().max()) < unit("bf16") / 5 * float(np.abs(bound.value).max())


@pytest.mark.parametrize("seed", range(3))
def test_one_rounding_that_all_terms_share(seed: int) -> None:
    text = f"""HloModule m
    {FOLD}
    ENTRY main {{ p = f32[1000] parameter(0)
      s = f32[] parameter(1)
      r = bf16[] convert(s)
      w = f32[] convert(r)
      b = f32[1000] broadcast(w), dimensions={{}}
      q = f32[1000] divide(p, b)
      m = f32[1000] multiply(q, q)
      z = f32[] constant(0)
      ROOT t = f32[] reduce(m, z), dimensions={{0}}, to_apply=sum }}"""
    random = np.random.default_rng(seed)
    p, s = random.standard_normal(1000).astype(np.float32), np.float32(random.uniform(0.5, 1.5))
    assert all_decided(text, p, np.asarray(s))
    (bound,) = bounded_results(parse(text), [p, np.asarray(s)])
    assert float(bound.errors()) < 1e-3 * float(bound.value)  # the scalar alone is rounded by up to 4e-3 of it
    (loose,) = bounded_results(parse(text), [p, np.asarray(s)], excess_precision=True)
    assert abs(float(loose.value) - float(bound.value)) <= float(loose.errors())


def test_roundings_after_other_roundings() -> None:
    """Where what comes before them is inexact they may go either way, but most of them are sure."""
    text = f"""HloModule m
    {FOLD}
    ENTRY main {{ p = f32[2000,8] parameter(0)
      e = f32[2000,8] exponential(p)
      a = bf16[2000,8] convert(e)
      b = f32[2000,8] convert(a)
      k = f32[] constant(0.00042517006)
      s = f32[2000,8] broadcast(k), dimensions={{}}
      m = f32[2000,8] multiply(b, s)
      c = bf16[2000,8] convert(m)
      f = f32[2000,8] convert(c)
      z = f32[] constant(0)
      t = f32[8] reduce(f, z), dimensions={{0}}, to_apply=sum
      ROOT r = (bf16[2000,8], f32[8]) tuple(c, t) }}"""
    x = np.random.default_rng(5).standard_normal((2000, 8)).astype(np.float32)
    assert all_decided(text, x)
    rounded, total = bounded_results(parse(text), [x])
    assert (rounded.errors() == 0).mean() > 0.99
    assert float((total.errors() / total.value).max()) < unit("bf16") / 50


# ---- what is the same, and what goes its own way


def test_what_hangs_together_is_compared_by_its_difference() -> None:
    """NaN tests (x != x) and gradients of extremes (x == max(x, y)) are sure, however far off x itself may be."""
    text = """HloModule m
    max { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] maximum(a, b) }
    ENTRY main { p = f32[40,30] parameter(0)
      w = f32[30,30] parameter(1)
      x = f32[40,30] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      n = pred[40,30] compare(x, x), direction=NE
      y = f32[40,30] tanh(x)
      m = f32[40,30] maximum(x, y)
      g = pred[40,30] compare(x, m), direction=EQ
      low = f32[] constant(-inf)
      t = f32[40] reduce(x, low), dimensions={1}, to_apply=max
      b = f32[40,30] broadcast(t), dimensions={0}
      h = pred[40,30] compare(x, b), direction=EQ
      ROOT r = (pred[40,30], pred[40,30], pred[40,30]) tuple(n, g, h) }"""
    random = np.random.default_rng(6)
    p, w = (random.standard_normal(sizes).astype(np.float32) for sizes in ((40, 30), (30, 30)))
    assert all_decided(text, p, w)
    itself, _, largest = truth(parse(text), [p, w])
    assert itself.error is None
    assert largest.errors().any()  # in the worst case each of two equal numbers may be the larger


ROOT_OF = """HloModule m
    body { s = (f32[], f32[], s32[]) parameter(0)
      a = f32[] get-tuple-element(s), index=0
      x = f32[] get-tuple-element(s), index=1
      i = s32[] get-tuple-element(s), index=2
      q = f32[] divide(a, x)
      t = f32[] add(x, q)
      h = f32[] constant(0.5)
      y = f32[] multiply(t, h)
      one = s32[] constant(1)
      j = s32[] add(i, one)
      ROOT r = (f32[], f32[], s32[]) tuple(a, y, j) }
    more { s = (f32[], f32[], s32[]) parameter(0)
      a = f32[] get-tuple-element(s), index=0
      x = f32[] get-tuple-element(s), index=1
      i = s32[] get-tuple-element(s), index=2
      q = f32[] multiply(x, x)
      d = f32[] subtract(q, a)
      e = f32[] abs(d)
      l = f32[] constant(LIMIT)
      c = pred[] compare(e, l), direction=GT
      n = s32[] constant(40)
      f = pred[] compare(i, n), direction=LT
      ROOT r = pred[] and(c, f) }
    ENTRY main { a = f32[] parameter(0)
      x = f32[] constant(1)
      i = s32[] constant(0)
      s = (f32[], f32[], s32[]) tuple(a, x, i)
      w = (f32[], f32[], s32[]) while(s), condition=more, body=body
      y = f32[] get-tuple-element(w), index=1
      k = s32[] get-tuple-element(w), index=2
      ROOT r = (f32[], s32[]) tuple(y, k) }"""
"""The square root by Newton's method, until it is no further off than LIMIT, or for 40 steps."""


def test_what_a_loop_converges_to_is_decided() -> None:
    """Not how long it takes where that hangs on roundings."""
    a = np.asarray(np.float32(7))
    # 2e-7 is less than a unit of 7 in f32: whether that is ever reached is a matter of luck.
    root, count = bounded_results(parse(ROOT_OF.replace("LIMIT", "2e-7")), [a])
    assert abs(float(root.value) - 7**0.5) < 1e-6
    assert 0 < float(root.errors()) < 1e-4
    assert np.isinf(count.errors())
    assert {row.verdict for row in within(ROOT_OF.replace("LIMIT", "2e-7"), a)[::2]} == {"ok"}
    assert all_decided(ROOT_OF.replace("LIMIT", "0.001"), a)
    wrong = parse(ROOT_OF.replace("LIMIT", "2e-7").replace("constant(0.5)", "constant(0.6)"))
    row, _ = compare_with_truth(compile_module(wrong, threads=1)(a), [root, count])
    assert row.verdict == "MISMATCH"


def test_branches_that_meet_are_decided() -> None:
    """Where either may be taken, and both give nearly the same."""
    text = """HloModule m
    up { x = f32[] parameter(0)
      ROOT r = f32[] exponential(x) }
    down { x = f32[] parameter(0)
      e = f32[] exponential(x)
      ROOT r = f32[] abs(e) }
    flat { x = f32[] parameter(0)
      ROOT r = f32[] constant(-3) }
    ENTRY main { p = f32[] parameter(0)
      e = f32[] exponential(p)
      l = f32[] log(e)
      c = pred[] compare(l, p), direction=GE
      ROOT r = f32[] conditional(c, p, p), true_computation=up, false_computation=OTHER }"""
    x = np.asarray(np.float32(0.3))
    assert all_decided(text.replace("OTHER", "down"), x)
    assert {row.verdict for row in within(text.replace("OTHER", "flat"), x)} == {"UNDECIDED"}


def test_zeros_beside_other_numbers_do_not_widen_their_bounds() -> None:
    """What is left of sums that cancel is large beside them, and not beside others."""
    value = np.full(64, 1e-17)
    value[:3] = (6.7e-4, 0.5, 3)
    noise = 1e-7 * np.random.default_rng(7).standard_normal((4, 64))
    bound = statistical(Runs(value, tuple(value + row for row in noise)), "f32")
    assert (bound.errors() > 0).all()
    assert float(bound.errors().max()) < 1e-5


@pytest.mark.parametrize("seed", range(8))
def test_steps_that_few_elements_take(seed: int) -> None:
    """Numbers that a rounding may bring to the next whole one: few in a sum, each of which counts."""
    text = """ENTRY main { a = bf16[40,65] parameter(0)
      b = bf16[40,65] parameter(1)
      v = f32[40,65] parameter(2)
      m = bf16[40,65] multiply(a, b)
      n = bf16[40,65] add(m, a)
      f = bf16[40,65] floor(n)
      g = f32[40,65] convert(f)
      ROOT r = f32[40] dot(g, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
        rhs_contracting_dims={1} }"""
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal((40, 65)).astype(dtype_of("bf16")) for _ in range(2))
    v = random.standard_normal((40, 65)).astype(np.float32)
    assert not [str(row) for row in within(text, a, b, v) if row.bad]


# ---- inputs


def test_inputs_suit_what_a_program_does_with_them() -> None:
    text = """HloModule m
    scale { s = (f32[32,32], f32[32], s32[], f32[]) parameter(0)
      w = f32[32,32] get-tuple-element(s), index=0
      h = f32[32] get-tuple-element(s), index=1
      i = s32[] get-tuple-element(s), index=2
      d = f32[] get-tuple-element(s), index=3
      p = f32[32] dot(h, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      t = f32[32] tanh(p)
      one = s32[] constant(1)
      j = s32[] subtract(i, one)
      ROOT r = (f32[32,32], f32[32], s32[], f32[]) tuple(w, t, j, d) }
    more { s = (f32[32,32], f32[32], s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=2
      z = s32[] constant(0)
      ROOT c = pred[] compare(i, z), direction=GT }
    ENTRY main { x = f32[8,64] parameter(0)
      w = f32[64,32] parameter(1)
      v = f32[32,32] parameter(2)
      variance = f32[32] parameter(3)
      a = f32[6,6] parameter(4)
      count = s32[] parameter(5)
      angle = f32[9] parameter(6)
      step = f32[] parameter(7)
      h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      g = f32[1,32] slice(h), slice={[0:1], [0:32]}
      f = f32[32] reshape(g)
      k = (f32[32,32], f32[32], s32[], f32[]) tuple(v, f, count, step)
      o = (f32[32,32], f32[32], s32[], f32[]) while(k), condition=more, body=scale
      b = f32[32] get-tuple-element(o), index=1
      tiny = f32[] constant(0.001)
      e = f32[32] broadcast(tiny), dimensions={}
      y = f32[32] add(variance, e)
      q = f32[32] rsqrt(y)
      c = f32[6,6] cholesky(a), lower=true
      s = f32[9] asin(angle)
      ROOT r = (f32[32], f32[32], f32[6,6], f32[9]) tuple(b, q, c, s) }"""
    module = parse(text)
    roles = {leaf.name: leaf.role for leaf in inputs_of(module)}
    assert roles["x"].scale == 1
    assert roles["w"].scale == pytest.approx(64**-0.5)
    assert roles["v"].scale == pytest.approx(32**-0.5)
    assert [roles[name].values for name in ("variance", "a", "angle", "step")] == [
        "positive", "definite", "fraction", "step",
    ]  # fmt: skip
    x, w, v, variance, a, count, angle, step = random_inputs(module, 0)
    assert 0.9 < x.std() < 1.1
    assert w.std() == pytest.approx(1 / 8, rel=0.1)
    assert v.std() == pytest.approx(32**-0.5, rel=0.1)
    assert variance.min() > 0
    assert np.linalg.eigvalsh(a).min() > 0.5
    assert count >= 1
    assert np.abs(angle).max() < 1
    assert 0 < step < 0.1
    assert all(np.isfinite(output).all() for output in evaluate(module, [x, w, v, variance, a, count, angle, step]))


def test_weights_are_known_by_what_happens_to_them_in_computations_and_loops() -> None:
    """Slices of stacked weights, taken by a computation that others share, in the body of a loop; behind a barrier."""
    text = """HloModule m
    pick { w = f32[3,64,64] parameter(0)
      i = s32[] parameter(1)
      z = s32[] constant(0)
      s = f32[1,64,64] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,64,64}
      ROOT r = f32[64,64] reshape(s) }
    body { s = (s32[], f32[8,64], f32[3,64,64], f32[3,64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[8,64] get-tuple-element(s), index=1
      w = f32[3,64,64] get-tuple-element(s), index=2
      b = f32[3,64,64] get-tuple-element(s), index=3
      v = f32[64,64] call(w, i), to_apply=pick
      c = f32[64,64] call(b, i), to_apply=pick
      d = f32[8,64] slice(c), slice={[0:8], [0:64]}
      h = f32[8,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      y = f32[8,64] add(h, d)
      one = s32[] constant(1)
      j = s32[] add(i, one)
      ROOT t = (s32[], f32[8,64], f32[3,64,64], f32[3,64,64]) tuple(j, y, w, b) }
    more { s = (s32[], f32[8,64], f32[3,64,64], f32[3,64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY main { x = f32[8,64] parameter(0)
      w = f32[3,64,64] parameter(1)
      b = f32[3,64,64] parameter(2)
      u = f32[64,16] parameter(3)
      lower = s32[] parameter(4)
      count = s32[] parameter(5)
      z = s32[] constant(0)
      s = (s32[], f32[8,64], f32[3,64,64], f32[3,64,64]) tuple(z, x, w, b)
      o = (s32[], f32[8,64], f32[3,64,64], f32[3,64,64]) while(s), condition=more, body=body
      y = f32[8,64] get-tuple-element(o), index=1
      p = (f32[8,64], f32[64,16]) tuple(y, u)
      q = (f32[8,64], f32[64,16]) opt-barrier(p)
      left = f32[8,64] get-tuple-element(q), index=0
      right = f32[64,16] get-tuple-element(q), index=1
      a = f32[8,16] dot(left, right), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      l = f32[] convert(lower)
      e = f32[] erf(l)
      f = f32[] convert(count)
      k = s32[] add(count, z)
      ROOT r = (f32[8,16], f32[], f32[], s32[]) tuple(a, e, f, k) }"""
    roles = {leaf.name: leaf.role for leaf in inputs_of(parse(text))}
    assert {name: roles[name].scale for name in "xwbu"} == {"x": 1, "w": 64**-0.5, "b": 1, "u": 64**-0.5}
    assert (roles["lower"].least, roles["lower"].below) == (1, 4)  # an argument of erf
    assert (roles["count"].least, roles["count"].below) == (1, 8)


def test_matrices_of_quadratic_forms_are_positive() -> None:
    """As those of conjugate gradients, which divide by x'Ax."""
    text = """ENTRY main { A = f32[20,20] parameter(0)
      B = f32[20,20] parameter(1)
      x = f32[20] parameter(2)
      p = f32[20] dot(A, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      q = f32[20] dot(B, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      f = f32[] dot(x, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      ROOT r = (f32[], f32[20]) tuple(f, q) }"""
    roles = {leaf.name: leaf.role.values for leaf in inputs_of(parse(text))}
    assert roles == {"A": "definite", "B": "normal", "x": "normal"}


# ---- constants without contents

ELIDED = """ENTRY main { p0 = f32[4,8] parameter(0)
  w = f32[8,16] constant({...})
  ROOT d = f32[4,16] dot(p0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def test_constants_without_contents_are_refused(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(ELIDED)
    quick = ("--time", "0", "--rounds", "1", "--no-roof")
    for words in (["run", "m.hlo"], ["run", "m.hlo", "--backend", "evaluate"], ["bench", "m.hlo", *quick]):
        done = hlotool(*words)
        assert done.returncode == 4
        assert "m.hlo:2:3: error[HLO0800]: w: the contents of this constant were left out of the text" in done.stderr
        assert "--elided zeros or random" in done.stderr
    assert hlotool("run", "m.hlo", "--elided", "zeros", "--compare", "evaluate").returncode == 0
    assert hlotool("run", "m.hlo").returncode == 4  # nothing that was compiled with --elided is kept for it
    assert hlotool("run", "m.hlo", "--elided", "random", "--compare", "evaluate").returncode == 0
    assert hlotool("bench", "m.hlo", *quick, "--elided", "random").returncode == 0
    for command in ("opt", "compile", "stats"):
        done = hlotool(command, "m.hlo")
        assert done.returncode == 0
        assert "warning[HLO0800]" in done.stderr


def test_the_library_refuses_them_too() -> None:
    module = parse(ELIDED)
    for backend in ("cpu", "evaluate"):
        with pytest.raises(UnsupportedError, match="left out of the text"):
            hlotool.compile(module, backend)
    with pytest.raises(UnsupportedError, match="left out of the text"):
        evaluate(module, random_inputs(module, 0))
    hlotool.compile(module, to_run=False)
    x = random_inputs(module, 0)
    assert not compile_module(filled(module, "zeros"), threads=1)(*x)[0].any()
    first, again = (compile_module(filled(module, "random"), threads=1)(*x)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert 0.5 < first.std() < 2  # made up as weights are
    assert module.entry.root.operands[1].literal.elided  # which stays as it is


# ---- planted wrong passes


def test_planted_passes_are_caught() -> None:
    """Every kind that has a place in a network of two layers; tests/planted_passes.py has 24 models."""
    rows = list(findings("layers", parse(layers(2, 12))))
    words = {row.kind: row.word for row in rows}
    assert set(words.values()) <= {"caught", "-"}, words
    caught = {kind for kind, word in words.items() if word == "caught"}
    assert caught >= {
        "add-subtract", "multiply-add", "reduce-init", "transposed-operand", "lost-function", "broadcast-dimension",
        "wrong-constant", "swapped-select", "swapped-divide", "contraction", "reduced-axis", "compare-direction",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["mlp_bf16_fwd", "dlrm_fwd"])
def test_planted_passes_in_real_models_are_caught(name: str) -> None:
    rows = list(findings(name, load(name)))
    assert sum(row.word == "caught" for row in rows) >= 8
    assert {row.word for row in rows} <= {"caught", "-"}, rows
    assert {row.kind for row in rows} == set(KINDS)
