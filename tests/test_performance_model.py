"""The model of how long kernels take: predictions, the fit of its figures, calibration, and where that is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from json_schemas import check_json

from hlotool.analysis.figures import BUILT_IN
from hlotool.analysis.performance import FIGURES, Performance, Sample, fitted
from hlotool.codegen.machine import Machine, default_machine, named
from hlotool.driver.predict import predict
from hlotool.harness import calibration
from hlotool.harness.advice import advise, measured
from hlotool.ir import Module
from hlotool.runtime.cache import default_cache
from hlotool.runtime.performance import built_in, keep_performance, performance_of
from hlotool.text.parser import parse

V3 = named("x86-64-v3")


def chain(length: int) -> Module:
    return parse(f"""HloModule chain
ENTRY e {{
  a = f32[{length}] parameter(0)
  b = f32[{length}] parameter(1)
  c = f32[{length}] multiply(a, b)
  ROOT d = f32[{length}] exponential(c)
}}""")


def square(size: int) -> Module:
    return parse(f"""HloModule square
ENTRY e {{
  a = f32[{size},{size}] parameter(0)
  ROOT d = f32[{size},{size}] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")


def predicted_seconds(module: Module, threads: int = 1) -> float:
    return predict(module, machine=V3, threads=threads, performance=built_in(V3, threads)).seconds


@pytest.mark.parametrize("level", sorted(BUILT_IN))
def test_every_level_has_every_figure_and_all_are_positive(level: str) -> None:
    assert set(BUILT_IN[level]) == set(FIGURES)
    assert all(figure > 0 for figure in BUILT_IN[level].values())


@pytest.mark.parametrize("make", [chain, square])
def test_more_work_takes_longer(make: Callable[[int], Module]) -> None:
    times = [predicted_seconds(make(size)) for size in (16, 64, 256, 1024)]
    assert times == sorted(times)
    assert 0 < times[0] < 1e-5  # seconds, not nanoseconds
    assert times[-1] > 2 * times[0]


def test_threads_share_what_is_long_and_nothing_else() -> None:
    assert predicted_seconds(square(512), 2) < 0.7 * predicted_seconds(square(512), 1)
    assert predicted_seconds(chain(64), 2) == pytest.approx(predicted_seconds(chain(64), 1))


def test_loops_count_as_often_as_they_run() -> None:
    def looped(trips: int) -> Module:
        return parse(f"""HloModule looped
body {{
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64,64] get-tuple-element(p), index=1
  y = f32[64,64] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  o = s32[] constant(1)
  j = s32[] add(i, o)
  ROOT r = (s32[], f32[64,64]) tuple(j, y)
}}
condition {{
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[64,64] parameter(0)
  o = s32[] constant(0)
  s = (s32[], f32[64,64]) tuple(o, x)
  l = (s32[], f32[64,64]) while(s), condition=condition, body=body
  ROOT r = f32[64,64] get-tuple-element(l), index=1
}}""")

    assert predicted_seconds(looped(200)) == pytest.approx(2 * predicted_seconds(looped(100)), rel=0.1)


def test_arrays_that_others_have_pushed_out_of_the_caches_take_longer() -> None:
    alone = predict(chain(1000), machine=V3, threads=1, performance=built_in(V3, 1)).prediction
    text = """HloModule between
ENTRY e {
  a = f32[1000] parameter(0)
  big = f32[30000000] parameter(1)
  t = f32[30000000] negate(big)
  u = (f32[1000], f32[30000000]) tuple(a, t)
  v = (f32[1000], f32[30000000]) opt-barrier(u)
  w = f32[1000] get-tuple-element(v), index=0
  x = f32[1000] exponential(w)
  y = f32[30000000] get-tuple-element(v), index=1
  ROOT r = (f32[1000], f32[30000000]) tuple(x, y)
}"""
    far = predict(parse(text), machine=V3, threads=1, performance=built_in(V3, 1)).prediction
    small = next(k for k in far.kernels if k.instruction.shape.size == 1000)
    assert small.amounts["read memory"] == pytest.approx(4000, rel=0.05)
    assert "read memory" not in alone.kernels[0].amounts


def amounts_of(text: str, machine: Machine = V3) -> dict[str, float]:
    """The work of the one kernel of a module."""
    (kernel,) = predict(parse(text), machine=machine, threads=1, performance=built_in(machine, 1)).prediction.kernels
    return dict(kernel.amounts)


def test_a_product_of_two_vectors_takes_a_step_for_each_vector_of_terms() -> None:
    found = amounts_of("""HloModule thin
ENTRY e {
  a = f32[1,4000] parameter(0)
  b = f32[4000,1] parameter(1)
  ROOT d = f32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    assert found["tile"] == 1
    assert 4000 / V3.lanes(32) / 2 <= found["tile step"] <= 4000 / V3.lanes(32) * 2


def test_tiles_at_the_edge_count_for_what_they_have() -> None:
    steps = [amounts_of(f"""HloModule edge
ENTRY e {{
  a = f32[{rows},200] parameter(0)
  b = f32[200,256] parameter(1)
  ROOT d = f32[{rows},256] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")["tile step"] for rows in (60, 61, 120)]  # fmt: skip
    assert steps[0] < steps[1] < 1.2 * steps[0]
    assert steps[2] == pytest.approx(2 * steps[0], rel=0.1)


def test_short_reductions_do_not_wait_for_each_other() -> None:
    def waiting(rows: int, columns: int) -> float:
        return amounts_of(f"""HloModule sums
add {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}}
ENTRY e {{
  a = f32[{rows},{columns}] parameter(0)
  o = f32[] constant(0)
  ROOT r = f32[{columns}] reduce(a, o), dimensions={{0}}, to_apply=add
}}""").get("waiting", 0.0)

    assert waiting(4000, 4) >= 4000  # one vector of sums, each addition behind the one before
    assert waiting(4, 4000) == 0


def test_narrow_elements_take_as_many_vectors_as_the_wide_ones_beside_them() -> None:
    found = amounts_of("""HloModule narrow
ENTRY e {
  a = s8[4096] parameter(0)
  b = f32[4096] parameter(1)
  n = s8[4096] negate(a)
  c = f32[4096] convert(n)
  ROOT d = f32[4096] add(c, b)
}""")
    vectors = 4096 / V3.lanes(32)
    assert found["vector"] == 3 * vectors
    assert found["access"] >= 3.5 * vectors  # two loads, and a store


def test_what_all_rows_need_is_read_again_for_each() -> None:
    def accesses(operand: str) -> float:
        return amounts_of(f"""HloModule rows
ENTRY e {{
  a = f32[50,64] parameter(0)
  b = f32[{operand}] parameter(1)
  c = f32[50,64] broadcast(b), dimensions={{{"0,1" if "," in operand else "1"}}}
  ROOT d = f32[50,64] add(a, c)
}}""")["access"]

    assert accesses("64") == pytest.approx(accesses("50,64"), rel=0.05)


def test_divisions_count_where_all_else_waits_for_them() -> None:
    def waits(work: str) -> float:
        return amounts_of(f"""HloModule quotients
ENTRY e {{
  a = f32[4096] parameter(0)
  b = f32[4096] parameter(1)
  c = f32[4096] divide(a, b)
  ROOT d = f32[4096] {work}(c)
}}""").get("division", 0.0)

    assert waits("sqrt") > waits("negate") > 0
    assert waits("sine") == 0


def test_a_chain_of_operations_takes_its_time_once() -> None:
    def latency(length: int, rows: int) -> float:
        steps = "".join(f"  x{n + 1} = f32[{rows}] multiply(x{n}, x{n})\n" for n in range(length))
        return amounts_of(f"""HloModule chained
ENTRY e {{
  x0 = f32[{rows}] parameter(0)
{steps}  ROOT r = f32[{rows}] negate(x{length})
}}""")["latency"]

    assert latency(8, 100) >= latency(1, 100) + 7 * 4
    assert latency(8, 5000) == latency(8, 100)


def test_a_row_that_is_written_into_an_array_is_not_read() -> None:
    found = amounts_of("""HloModule row
ENTRY e {
  a = f32[100,4000] parameter(0)
  b = f32[1,4000] parameter(1)
  i = s32[] parameter(2)
  o = s32[] constant(0)
  ROOT c = f32[100,4000] dynamic-update-slice(a, b, i, o)
}""")
    assert not any(name.startswith("update") for name in found)


def test_what_a_long_kernel_wrote_first_is_far_from_it_at_its_end() -> None:
    """A result of 1 MiB of a product that reads 8 MiB of weights beside it."""
    text = """HloModule behind
ENTRY e {
  a = f32[256,2000] parameter(0)
  w = f32[2000,1000] parameter(1)
  p = f32[256,1000] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[256,1000] opt-barrier(p)
  ROOT r = f32[256,1000] negate(q)
}"""
    machine = named("x86-64-v3,l1=48K,l2=2M,l3=32M")
    kernels = predict(parse(text), machine=machine, threads=1, performance=built_in(machine, 1)).prediction.kernels
    amounts = next(k.amounts for k in kernels if k.instruction.name == "r")
    assert amounts["read L2"] > 1000
    assert amounts["read L3"] > amounts["read L2"]


def test_an_array_takes_longer_to_find_the_longer_it_was_not_used() -> None:
    def found(trips: int) -> float:
        """A small array behind a large one, which is read so often."""
        kernels = predict(parse(f"""HloModule old
body {{
  p = (s32[], f32[4000000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4000000] get-tuple-element(p), index=1
  y = f32[4000000] negate(x)
  o = s32[] constant(1)
  j = s32[] add(i, o)
  ROOT r = (s32[], f32[4000000]) tuple(j, y)
}}
condition {{
  p = (s32[], f32[4000000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[4000000] parameter(0)
  a = f32[64] parameter(1)
  o = s32[] constant(0)
  s = (s32[], f32[4000000]) tuple(o, x)
  l = (s32[], f32[4000000]) while(s), condition=condition, body=body
  y = f32[4000000] get-tuple-element(l), index=1
  b = f32[64] negate(a)
  ROOT r = (f32[64], f32[4000000]) tuple(b, y)
}}"""), machine=V3, threads=1, performance=built_in(V3, 1)).prediction.kernels
        return next(k.amounts["array"] for k in kernels if k.instruction.name == "b")

    assert found(1000) == pytest.approx(10 ** (1 / 3) * found(100), rel=0.1)


def test_what_is_moved_and_what_is_computed_hide_each_other() -> None:
    performance = built_in(V3, 1)
    computed, moved, alone = {"vector": 1000.0}, {"read L3": 3000.0}, {"start": 1.0}
    times = [performance.nanoseconds(amounts) for amounts in (computed, moved, alone)]
    both = {**computed, **moved, **alone}
    assert performance.nanoseconds(both) == pytest.approx((times[0] ** 2 + times[1] ** 2) ** 0.5 + times[2])
    assert sum(performance.parts(both).values()) == pytest.approx(performance.nanoseconds(both))
    assert performance.parts(both)["start"] == pytest.approx(times[2])


def test_operations_of_several_instructions_count_so() -> None:
    def vectors(kinds: str, work: str, level: str = "x86-64-v3") -> float:
        source, result = kinds.split()
        found = amounts_of(f"""HloModule several
ENTRY e {{
  a = {source}[4096] parameter(0)
  b = {source}[4096] parameter(1)
  ROOT c = {result}[4096] {work}
}}""", named(level))
        return sum(amount for name, amount in found.items() if name in ("vector", "half"))

    assert vectors("s32 bf16", "convert(a)") > 4 * vectors("f32 bf16", "convert(a)")
    assert vectors("f32 f16", "convert(a)", "generic") > 4 * vectors("f32 f16", "convert(a)")
    assert vectors("f32 s32", "convert(a)") > 4 * vectors("s32 f32", "convert(a)")
    assert vectors("f32 f32", "maximum(a, b)") >= 4 * vectors("s32 s32", "maximum(a, b)")
    assert vectors("u32 u32", "count-leading-zeros(a)") > 4 * vectors("u32 u32", "count-leading-zeros(a)", "x86-64-v4")


def test_elements_that_no_vector_holds_together_are_gathered() -> None:
    def read(columns: int) -> dict[str, float]:
        return amounts_of(f"""HloModule strided
ENTRY e {{
  a = f32[4096,{columns}] parameter(0)
  b = f32[4096,1] slice(a), slice={{[0:4096], [0:1]}}
  ROOT c = f32[4096,1] negate(b)
}}""")

    assert read(4).get("scattered load", 0.0) > 0
    assert read(10)["indexed load"] == pytest.approx(2 * 4096)


def test_functions_of_single_elements_take_as_long_as_those_of_vectors() -> None:
    found = amounts_of("""HloModule rows
ENTRY e {
  a = f32[128] parameter(0)
  b = f32[128,40] parameter(1)
  c = f32[128] log(a)
  d = f32[128,40] broadcast(c), dimensions={0}
  ROOT e = f32[128,40] add(b, d)
}""")
    assert found["function log"] >= 128 / V3.lanes(32)


def test_the_fit_finds_the_figures_that_made_the_times() -> None:
    truth = {"start": 20.0, "vector": 0.5, "read L2": 0.01}
    works = [{"start": 1.0, "vector": v, "read L2": b} for v in (1.0, 100.0, 9000.0) for b in (1.0, 1e4, 1e6)]
    made = Performance(cpu="x86-64-v3", threads=1, origin="made", figures=truth)
    samples = [Sample(work, made.nanoseconds(work)) for work in works]
    found = fitted(samples, {"start": 5.0, "vector": 2.0, "read L2": 0.1}, trust=1e-3)
    assert found == pytest.approx(truth, rel=0.05)
    spoilt = fitted([*samples, Sample(works[0], 1e6)], {"start": 5.0, "vector": 2.0, "read L2": 0.1}, trust=1e-3)
    assert spoilt == pytest.approx(truth, rel=0.6)  # one that nothing explains is no reason to give up the others
    assert found == fitted(samples, {"start": 5.0, "vector": 2.0, "read L2": 0.1}, trust=1e-3)


def test_what_no_kernel_says_anything_of_stays_as_it_was() -> None:
    found = fitted([Sample({"start": 1.0}, 40.0)] * 50, {"start": 20.0, "sort": 3.0})
    assert found["sort"] == pytest.approx(3.0)
    assert found["start"] == pytest.approx(40.0, rel=0.1)


# ---- calibration


def test_calibration_finds_a_machine_that_is_twice_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that says twice what is predicted."""
    names = ("functions", "rows of 64 x 1000", "product 1 x 64 x 64 x 64", "algorithms")
    chosen = [pair for pair in calibration.synthetic_modules() if pair[0] in names]
    monkeypatch.setattr(calibration, "synthetic_modules", lambda: iter(chosen))

    def clock(module: Module, machine: Machine, threads: int) -> Any:
        forecast = predict(module, machine=machine, threads=threads, performance=built_in(machine, threads))
        steps = [
            SimpleNamespace(kind="kernel", instruction=k.instruction, count=k.runs, seconds=2 * k.seconds)
            for k in forecast.prediction.kernels
        ]
        return SimpleNamespace(module=forecast.module, steps=steps)

    found = calibration.calibrate(V3, 1, measure=clock)
    assert found.kernels >= len(names)
    assert found.error < 0.3 < found.error_before  # 24 kernels, against the trust in 70 figures
    assert found.performance.origin == "calibrated"


def test_every_synthetic_module_can_be_predicted() -> None:
    for name, text in calibration.synthetic_modules():
        assert predict(parse(text), machine=V3, threads=1, performance=built_in(V3, 1)).seconds > 0, name


def test_real_kernels_are_timed() -> None:
    name, text = next(calibration.synthetic_modules())
    machine = default_machine()
    profile = calibration.measured(parse(text), machine, 1, seconds=0.01)
    assert calibration.samples_of(profile, built_in(machine, 1), machine, 1), name


def test_a_calibration_is_kept_by_processor_and_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path / "cache"))
    mine = Performance(cpu=V3.cpu, threads=2, origin="calibrated", figures=dict.fromkeys(FIGURES, 1.5))
    assert keep_performance(V3, mine)
    assert performance_of(V3, 2).performance == mine
    assert performance_of(V3, 1).performance.origin == "built in"
    assert performance_of(named("x86-64-v2"), 2).performance.cpu == "generic"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"figures": {"start": -1}}', b"\xff" * 100])
def test_a_corrupt_calibration_is_ignored_with_a_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path / "cache"))
    mine = Performance(cpu=V3.cpu, threads=1, origin="calibrated", figures=BUILT_IN["generic"])
    assert keep_performance(V3, mine)
    (file,) = (tmp_path / "cache").glob("*.hlo-cache")
    cache = default_cache()
    assert cache is not None
    if content == b"":
        file.write_bytes(b"torn")
    else:
        assert cache.put(file.name.removesuffix(".hlo-cache"), content)
    found = performance_of(V3, 1)
    assert found.performance.origin == "built in"
    assert "hlotool doctor --calibrate" in found.note


# ---- advice

_BARRIER = """HloModule barrier
ENTRY e {
  a = f64[300,40] parameter(0)
  b = f64[300,40] exponential(a)
  c = f64[300,40] opt-barrier(b)
  ROOT d = f64[300,40] negate(c)
}"""


def test_advice_is_predicted_and_measured() -> None:
    module, machine = parse(_BARRIER), default_machine()
    _, found = advise(module, machine, 1)
    kinds = {one.kind: one for one in found}
    assert {"barrier", "f64-to-f32"} <= set(kinds)
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)
    tried = measured(module, kinds["barrier"], machine, 1, seconds=0.02)
    assert tried.trial is not None
    assert tried.trial.verdict == "ok"
    assert tried.trial.low <= tried.trial.high
    other = measured(module, kinds["f64-to-f32"], machine, 1, seconds=0.02)
    assert other.trial is not None
    assert other.trial.verdict == "not comparable"


def test_advise_through_a_process(hlotool: Any, tmp_path: Path) -> None:
    file = tmp_path / "barrier.hlo"
    file.write_text(_BARRIER)
    done = hlotool("advise", str(file), "--threads", "1")
    assert done.returncode == 0
    assert "barrier.hlo:5" in done.stdout
    answer = check_json(hlotool("advise", str(file), "--measure", "--time", "0.01", "--format", "json").stdout)
    changes = {change["change"]: change for change in answer["changes"]}
    assert changes["barrier"]["measured"]["verdict"] == "ok"
    assert changes["barrier"]["effect"] == "same"
    assert json.dumps(answer)


def test_what_cannot_be_tried_says_so(hlotool: Any, tmp_path: Path) -> None:
    file = tmp_path / "turned.hlo"
    file.write_text("""HloModule turned
ENTRY e {
  a = f32[700,300] parameter(0)
  ROOT b = f32[300,700] transpose(a), dimensions={1,0}
}""")
    done = hlotool("advise", str(file), "--measure", "--time", "0.01")
    assert done.returncode == 0
    assert "results: not tried" in done.stdout
    assert "not measured: the changed program cannot be made from here" in done.stdout


def test_doctor_refuses_to_calibrate_what_does_not_run_here(hlotool: Any) -> None:
    done = hlotool("doctor", "--calibrate", "--cpu", "rv64gcv")
    assert done.returncode == 4
    assert "does not run here" in done.stderr
    assert hlotool("doctor", "--threads", "1").returncode == 2
