"""hlotool quantise: scales, exact integers, the search for a mixture, files, and what is said of bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Run
from json_schemas import check_json

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.quantise.engine import constant_bytes, quantise
from hlotool.harness.quantise.histogram import BINS, Histogram
from hlotool.harness.quantise.metric import RelativeError
from hlotool.harness.quantise.options import TARGETS, Options, Sample
from hlotool.harness.quantise.ranges import METHODS, activation_quantiser, range_of, weight_quantiser
from hlotool.harness.quantise.weights import with_weights_outside
from hlotool.ir import InputError, Module, UnsupportedError, array
from hlotool.ir.builder import Builder
from hlotool.passes.quantise.integer_products import IntegerProducts
from hlotool.passes.quantise.quantiser import Quantiser, limits_of
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

Floats = npt.NDArray[Any]


def _text(values: Floats) -> str:
    if values.ndim:
        return "{" + ", ".join(map(_text, values)) + "}"
    return repr(float(values))


def _network(columns: int = 32) -> str:
    """Two layers with a rectifier between them."""
    random = np.random.default_rng(0)
    by = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    first, second = random.standard_normal((64, columns)), random.standard_normal((columns, 8))
    return f"""HloModule network

ENTRY main {{
  x = f32[16,64] parameter(0)
  w = f32[64,{columns}] constant({_text(first.astype(np.float32))})
  d = f32[16,{columns}] dot(x, w), {by}, metadata={{op_name="net/first"}}
  zero = f32[] constant(0)
  zeros = f32[16,{columns}] broadcast(zero), dimensions={{}}
  r = f32[16,{columns}] maximum(d, zeros)
  v = f32[{columns},8] constant({_text(second.astype(np.float32))})
  ROOT e = f32[16,8] dot(r, v), {by}
}}
"""


def _samples(count: int = 3, seed: int = 0) -> list[Sample]:
    random = np.random.default_rng(seed)
    return [Sample([random.standard_normal((16, 64)).astype(np.float32)]) for _ in range(count)]


# ---- scales


@pytest.mark.parametrize("kind", ["s8", "s4", "f8e4m3fn"])
@pytest.mark.parametrize("method", METHODS)
def test_weights_are_within_half_a_step(kind: str, method: str) -> None:
    random = np.random.default_rng(1)
    values = (random.standard_normal((32, 6)) * np.array([1e-30, 1e-3, 1, 10, 1e5, 0])).astype(np.float32)
    found = weight_quantiser(values, kind, (1,), method)
    assert found.scale.shape == (6,)
    assert (found.scale > 0).all()
    inside = np.abs(values) <= found.scale * limits_of(kind)[1]
    if method != "mse":
        assert inside.all()
    step = found.scale if kind != "f8e4m3fn" else np.maximum(np.abs(values) / 8, found.scale / 512)
    assert (np.abs(found.rounded(values) - values) <= 0.501 * step)[inside].all()


def test_groups_have_scales_of_their_own() -> None:
    values = np.random.default_rng(2).standard_normal((64, 3)).astype(np.float32)
    values[32:] *= 100
    whole = weight_quantiser(values, "s4", (1,), "min-max")
    groups = weight_quantiser(values, "s4", (1,), "min-max", (0, 32))
    assert groups.scale.shape == (2, 3)
    off = [np.abs(found.rounded(values) - values)[:32].max() for found in (whole, groups)]
    assert off[1] < off[0] / 10


@pytest.mark.parametrize("quantiser", [
    Quantiser(type="s8", scale=np.float32(0.1)), Quantiser(type="u8", scale=np.float32(0.02), zero=100),
    Quantiser(type="s8", scale=np.array([0.1, 2], np.float32), axes=(1,)),
    Quantiser(type="s4", scale=np.array([[0.5, 1], [2, 4]], np.float32), axes=(0, 1), group=(0, 2)),
    Quantiser(type="f8e4m3fn", scale=np.float32(0.01)),
], ids=str)  # fmt: skip
def test_instructions_compute_what_arrays_do(quantiser: Quantiser) -> None:
    values = np.array([[-9.0, 0.05], [0.15, 1e9], [3.3, -1e-9], [-0.25, 7]], np.float32)
    if quantiser.group is None:
        module = Module("stored")
        stored = _main(module, values, lambda build, x: quantiser.quantise(build, x))
        assert np.array_equal(stored, quantiser.stored(values))
    module = Module("meant")
    meant = _main(module, quantiser.stored(values), lambda build, q: quantiser.dequantise(build, q))
    assert np.array_equal(meant, quantiser.meant(quantiser.stored(values)))


def _main(module: Module, given: Floats, write: Any) -> Floats:
    from hlotool.ir import Computation, literal

    entry = Computation("main")
    build = Builder(entry)
    kind = literal(given).shape.element_type
    entry.root = write(build, build.parameter(0, array(kind, given.shape), "x"))
    module.add(entry, entry=True)
    (found,) = evaluate(module, [given])
    return np.asarray(found)


def test_histograms_do_not_depend_on_order() -> None:
    random = np.random.default_rng(3)
    parts = [random.standard_normal(1000) * scale for scale in (0.01, 1, 30)]
    one, other = Histogram("a"), Histogram("b")
    for part in parts:
        one.add(part)
    for part in reversed(parts):
        other.add(part)
    assert one.count == 3000
    assert (one.low, one.high, one.reach) == (other.low, other.high, other.reach)
    away = np.abs(np.cumsum(one.counts) - np.cumsum(other.counts))
    assert away.max() <= 3000 / BINS + 3000 * 0.02  # bins of the first part were merged or made anew


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (0.0, 4.0), (-4.0, 0.0), (0.0, 0.0), (2.0, 3.0)])
def test_ranges_hold_zero_and_no_more_than_was_seen(method: str, low: float, high: float) -> None:
    seen = Histogram("x")
    seen.add(np.random.default_rng(4).uniform(low, high, 5000))
    least, most = range_of(seen, method, 99.9, 256)
    assert min(low, 0) <= least <= 0 <= most <= max(high, 0)
    for symmetric in (False, True):
        found = activation_quantiser(seen, "s8", method, 99.9, symmetric=symmetric, signed=False)
        assert found.rounded(np.zeros(1, np.float32))[0] == 0  # padding and rectified values are exact
        assert found.scale > 0


def test_outliers_are_cut_off_but_by_min_max() -> None:
    values = np.random.default_rng(5).standard_normal(100_000)
    values[0] = 1000
    seen = Histogram("x")
    seen.add(values)
    reach = {method: range_of(seen, method, 99.99, 256)[1] for method in METHODS}
    assert reach["min-max"] == 1000
    assert max(reach["percentile"], reach["kl"]) < 200
    assert reach["mse"] <= 1000


# ---- what is made


@pytest.mark.parametrize("to", TARGETS)
def test_results_stay_close(to: str) -> None:
    bounds = {"int8": 0.02, "fp8": 0.08, "int8-weights": 0.02, "int4-weights": 0.2, "bf16": 0.01, "f16": 0.001}
    module, samples = parse(_network()), _samples()
    found = quantise(module, samples, Options(to=to), RelativeError())
    assert found.chosen == ("d", "e")
    assert found.error is not None
    assert 0 < found.error < bounds[to]
    assert found.bytes[1] < found.bytes[0]
    fresh = _samples(1, seed=9)[0].arrays
    (wanted,), (got,) = compile_module(module).run(*fresh), evaluate(found.module, fresh)
    assert np.sqrt(np.mean((got - wanted) ** 2) / np.mean(wanted**2)) < 1.5 * bounds[to]
    again = quantise(module, samples, Options(to=to), RelativeError())
    assert print_module(again.module) == print_module(found.module)


@pytest.mark.parametrize("options", [Options(), Options(symmetric=False), Options(per_channel=False)], ids=str)
def test_products_are_of_integers(options: Options) -> None:
    found = quantise(parse(_network()), _samples(), options, RelativeError())
    dots = [one for one in found.module.entry if one.opcode == "dot"]
    assert [one.shape.element_type for one in dots] == ["s32", "s32"]
    assert all(operand.shape.element_type in ("s8", "u8") for one in dots for operand in one.operands)
    arrays = _samples(1)[0].arrays
    np.testing.assert_allclose(compile_module(found.module).run(*arrays)[0], evaluate(found.module, arrays)[0], 1e-5)


def test_integer_sums_are_exact() -> None:
    """What the pass makes differs from products in wide floats by the rounding of one conversion and two scales."""
    random = np.random.default_rng(6)
    for left, right, zero in (("u8", "s8", 131), ("s8", "s8", -90), ("s4", "u8", 3)):
        a = random.integers(*_numbers(left), (5, 300))
        b = random.integers(*_numbers(right), (300, 4))
        module = parse(f"""HloModule exact
ENTRY main {{
  a = {left}[5,300] parameter(0)
  b = {right}[300,4] parameter(1)
  zero = f32[] constant({zero})
  zeros = f32[5,300] broadcast(zero), dimensions={{}}
  s = f32[] constant(0.125)
  t = f32[4] constant({{1, 2, 0.5, 4}})
  fa = f32[5,300] convert(a)
  ma = f32[5,300] subtract(fa, zeros)
  sa = f32[5,300] broadcast(s), dimensions={{}}
  x = f32[5,300] multiply(ma, sa)
  fb = f32[300,4] convert(b)
  sb = f32[300,4] broadcast(t), dimensions={{1}}
  y = f32[300,4] multiply(fb, sb)
  ROOT d = f32[5,4] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""")
        from hlotool.ir import dtype_of

        arrays = [a.astype(dtype_of(left)), b.astype(dtype_of(right))]
        assert IntegerProducts().run(module, DecisionLog())
        exact = ((a - zero) @ b).astype(np.float32) * (np.float32(0.125) * np.array([1, 2, 0.5, 4], np.float32))
        assert np.array_equal(evaluate(module, arrays)[0], exact)
        assert np.array_equal(compile_module(module).run(*arrays)[0], exact)


def _numbers(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (0, 1 << bits) if kind[0] == "u" else (-(1 << (bits - 1)), 1 << (bits - 1))


def test_a_bound_leaves_out_the_product_that_hurts_most() -> None:
    module, samples = parse(_network()), _samples()
    free = quantise(module, samples, Options(), RelativeError())
    worst = max(free.layers, key=lambda layer: layer.error)
    assert free.error is not None
    found = quantise(module, samples, Options(max_error=free.error * 0.8), RelativeError())
    assert found.within
    assert worst.name not in found.chosen
    assert len(found.chosen) == 1
    assert [(one.code, one.before) for one in found.log if one.rule == "accuracy"] == [("HLO4298", (worst.name,))]
    none = quantise(module, samples, Options(max_error=0), RelativeError())
    assert (none.chosen, none.error, none.within) == ((), 0, True)


def test_every_other_product_has_a_reason() -> None:
    text = _network().replace(", metadata", ", operand_precision={high,high}, metadata")
    found = quantise(parse(text), _samples(), Options(), RelativeError())
    assert found.chosen == ("e",)
    assert [one.code for one in found.log if one.action == "refuse"] == ["HLO4296"]
    kept = quantise(parse(_network()), _samples(), Options(keep="net/fir.t"), RelativeError())
    assert kept.chosen == ("e",)
    assert [one.code for one in kept.log if one.action == "refuse"] == ["HLO4295"]
    with pytest.raises(UnsupportedError, match="no product can be quantised: 33 weights in a sum are no whole"):
        quantise(parse(_network(33)), [], Options(to="int4-weights", group=128), RelativeError())


def test_correction_helps_where_weights_are_rounded_one_way() -> None:
    text = _network()
    samples = [Sample([np.abs(one.arrays[0]) + 1]) for one in _samples()]
    errors = [
        quantise(parse(text), samples, Options(correct=on, per_channel=False), RelativeError()).error
        for on in (False, True)
    ]
    assert errors[0] is not None
    assert errors[1] is not None
    assert errors[1] < errors[0]


def test_batch_norms_go_into_kernels() -> None:
    random = np.random.default_rng(8)
    kernel = random.standard_normal((3, 3, 2, 4)).astype(np.float32)
    text = f"""HloModule normed
ENTRY main {{
  x = f32[2,8,8,2] parameter(0)
  k = f32[3,3,2,4] constant({_text(kernel)})
  c = f32[2,8,8,4] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
  scale = f32[4] constant({{1, 2, 0.5, -1}})
  offset = f32[4] constant({{0, 1, 2, 3}})
  mean = f32[4] constant({{0.1, 0.2, 0.3, 0.4}})
  variance = f32[4] constant({{1, 2, 3, 4}})
  ROOT n = f32[2,8,8,4] batch-norm-inference(c, scale, offset, mean, variance), epsilon=0.001, feature_index=3
}}
"""
    samples = [Sample([random.standard_normal((2, 8, 8, 2)).astype(np.float32)]) for _ in range(2)]
    for symmetric in (True, False):
        found = quantise(parse(text), samples, Options(symmetric=symmetric), RelativeError())
        assert found.error is not None
        assert found.error < 0.02
        (made,) = [one for one in found.module.entry if one.opcode == "convolution"]
        assert made.name == "c"
        assert made.shape.element_type == "s32"
        after = [one.opcode for one in found.source.entry]
        assert after.count("multiply") == 0, after


def test_large_constants_become_parameters() -> None:
    found = quantise(parse(_network()), [], Options(to="int8-weights"), RelativeError())
    module, arrays = with_weights_outside(found.module)
    assert list(arrays) == ["w.s8"]
    assert constant_bytes(module) < constant_bytes(found.module)
    (x,) = _samples(1)[0].arrays
    assert np.array_equal(evaluate(module, [x, arrays["w.s8"]])[0], evaluate(found.module, [x])[0])


# ---- the command


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "model.hlo").write_text(_network())
    for number, sample in enumerate(_samples()):
        labels = np.arange(16) % 8
        np.savez(tmp_path / f"in{number}.npz", x=sample.arrays[0], y=labels)
    return tmp_path


def test_pages_json_and_a_module_that_runs(hlotool: Run, files: Path) -> None:
    done = hlotool("quantise", "model.hlo", "--calibrate", "in0.npz", "--calibrate", "in1.npz", "--labels", "y",
                   "--report", "pages", "-o", "q.hlo", "--format", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert answer["quantised"] == ["d", "e"]
    assert answer["accuracy"][0] >= 0
    assert answer["measured_seconds"]
    assert len(answer["layers"]) == 2
    page = (files / "pages" / "index.html").read_text()
    assert "The worst channels" in page
    assert "HLO4294" in page
    assert "signal to noise" in (files / "pages" / "graph.html").read_text()
    assert hlotool("run", "q.hlo", "--compare", "evaluate").returncode == 0


def test_a_metric_is_a_module(hlotool: Run, files: Path) -> None:
    (files / "metric.hlo").write_text("""HloModule half
ENTRY main {
  a = f32[16,8] parameter(0)
  b = f32[16,8] parameter(1)
  ROOT c = f32[] constant(0.5)
}
""")
    line = ["quantise", "model.hlo", "--calibrate", "in0.npz", "--metric", "metric.hlo", "-o", "q.hlo", "--time", "0"]
    done = hlotool(*line)
    assert done.returncode == 0, done.stderr
    assert "half" in done.stdout
    done = hlotool(*line, "--max-error", "0.1")
    assert done.returncode == 1
    assert "stays above --max-error 0.1: nothing is written" in done.stderr


@pytest.mark.parametrize(("line", "code", "words"), [
    ("model.hlo", 3, "--to int8 needs inputs to calibrate with"),
    ("model.hlo --max-error 1 --to bf16", 3, "--max-error needs inputs"),
    ("model.hlo --calibrate nan.npz", 3, "nan.npz: x has 1 values of 1,024 that are infinite or NaN"),
    ("model.hlo --calibrate none.npz", 3, "no array arg0 or x"),
    ("model.hlo --calibrate other.npz", 3, "no array arg0 or x (a f32[16,64]); there are z"),
    ("model.hlo --calibrate small.npz", 3, "expected f32[16,64]"),
    ("model.hlo --calibrate folder", 3, "no archive"),
    ("model.hlo --calibrate absent.npz", 2, "absent.npz"),
    ("model.hlo --calibrate in0.npz --keep nothing", 3, "--keep nothing finds no product; there are d, e"),
    ("model.hlo --calibrate in0.npz --keep (", 2, "is no regular expression"),
    ("model.hlo --calibrate in0.npz --labels z", 3, "no array z, which --labels names"),
    ("model.hlo --calibrate in0.npz --labels x", 3, "x is float32; expected whole numbers"),
    ("model.hlo --calibrate in0.npz --metric model.hlo", 3, "expected the results of the module"),
    ("model.hlo --calibrate in0.npz --metric model.hlo --labels y", 2, "give one"),
    ("model.hlo --to int8 --calibrate in0.npz --group-size 32", 2, "--group-size goes with"),
    ("model.hlo --to int4-weights --weights other.npz", 3, "no parameter is called z; there are x"),
    ("model.hlo --labels y", 2, "--labels needs inputs"),
    ("absent.hlo", 3, "absent.hlo"),
])  # fmt: skip
def test_bad_input(hlotool: Run, files: Path, line: str, code: int, words: str) -> None:
    x = np.zeros((16, 64), np.float32)
    np.savez(files / "small.npz", x=x[:8])
    np.savez(files / "other.npz", z=x)
    np.savez(files / "none.npz")
    x[3, 4] = np.nan
    np.savez(files / "nan.npz", x=x)
    (files / "folder").mkdir()
    done = hlotool("quantise", *line.split(), "-o", "q.hlo")
    assert done.returncode == code, done
    assert words in done.stderr
    assert not (files / "q.hlo").exists()


def test_values_that_overflow_while_calibrating_are_named() -> None:
    text = _network().replace("r = f32[16,32] maximum(d, zeros)", "r = f32[16,32] divide(d, zeros)")
    with pytest.raises(InputError, match=r"calibration: r has 512 values of 512 that are infinite or NaN"):
        quantise(parse(text), _samples(), Options(), RelativeError())
