"""The cost model, operation by operation with numbers by hand, and against XLA's totals on real models."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from conftest import ROOT, Run, environment
from hypothesis import given, settings
from hypothesis import strategies as st
from json_schemas import check_json
from models import model

from hlotool.analysis.cost import Cost, ModuleCost
from hlotool.analysis.cost_rules import RULES, meetings
from hlotool.analysis.roofline import Roof
from hlotool.analysis.traffic import TRAFFIC, shape_bytes
from hlotool.cli import cli
from hlotool.inspect.cost_table import GROUPINGS, CostRow, Grouping, cost_rows, sort_rows, total_row
from hlotool.inspect.roofline_picture import roofline_picture, roofline_text
from hlotool.ir import OPCODES, UNBOUNDED, Module, Shape, WindowDimension
from hlotool.ir.verifier import check
from hlotool.text.load import load
from hlotool.text.parser import parse

MODELS = Path(__file__).parents[2] / "shared" / "corpus" / "models"

ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
LESS = "less {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT\n}\n"
LOOP = """HloModule loop
more {{
  s = (s32[], f32[10]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[10]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] {step}
  x = f32[10] get-tuple-element(s), index=1
  y = f32[10] multiply(x, x)
  ROOT t = (s32[], f32[10]) tuple(j, y)
}}
ENTRY main {{
  zero = s32[] constant(0)
  x = f32[10] parameter(0)
  t = (s32[], f32[10]) tuple(zero, x)
  ROOT r = (s32[], f32[10]) while(t), condition=more, body=body
}}
"""


def cost_of(text: str, helpers: str = "") -> Cost:
    """The cost of one instruction whose operands carry their shapes."""
    names: list[str] = []

    def parameter(shape: str) -> str:
        names.append(shape)
        return f"p{len(names) - 1}"

    shape, rest = text.split(" ", 1)
    opcode, inside = rest.split("(", 1)
    operands, attributes = inside.split(")", 1)
    listed = [parameter(one) for one in operands.split(" ") if one]
    lines = [f" p{n} = {one} parameter({n})" for n, one in enumerate(names)]
    body = "\n".join([*lines, f" ROOT r = {shape} {opcode}({', '.join(listed)}){attributes}"])
    module = parse(f"HloModule m\n{helpers}\nENTRY main {{\n{body}\n}}\n")
    check(module)
    return ModuleCost(module).of(module.entry.root)


@pytest.mark.parametrize(
    ("text", "helpers", "flops", "transcendentals", "read", "written"),
    [
        ("f32[4,5] add(f32[4,5] f32[4,5])", "", 20, 0, 160, 80),
        ("s8[16] multiply(s8[16] s8[16])", "", 16, 0, 32, 16),
        ("c64[10] add(c64[10] c64[10])", "", 20, 0, 160, 80),
        ("c64[10] multiply(c64[10] c64[10])", "", 60, 0, 160, 80),
        ("f32[8] exponential(f32[8])", "", 0, 8, 32, 32),
        ("f64[8] power(f64[8] f64[8])", "", 0, 8, 128, 64),
        ("pred[8] compare(f32[8] f32[8]), direction=LT", "", 8, 0, 64, 8),
        ("f32[8] select(pred[8] f32[8] f32[8])", "", 8, 0, 72, 32),
        ("bf16[8] convert(f32[8])", "", 8, 0, 32, 16),
        ("s32[8] bitcast-convert(f32[8])", "", 0, 0, 32, 32),
        ("f32[2,8] broadcast(f32[8]), dimensions={1}", "", 0, 0, 32, 64),
        ("f32[8,2] transpose(f32[2,8]), dimensions={1,0}", "", 0, 0, 64, 64),
        ("f32[16] reshape(f32[2,8])", "", 0, 0, 0, 0),
        ("f32[16] bitcast(f32[2,8])", "", 0, 0, 0, 0),
        ("s32[9] iota(), iota_dimension=0", "", 0, 0, 0, 36),
        ("f32[2] slice(f32[100]), slice={[3:5]}", "", 0, 0, 8, 8),
        ("f32[2] dynamic-slice(f32[100] s32[]), dynamic_slice_sizes={2}", "", 0, 0, 12, 8),
        ("f32[100] dynamic-update-slice(f32[100] f32[2] s32[])", "", 0, 0, 12, 8),
        ("f32[3,7] dot(f32[3,5] f32[5,7]), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", 210, 0, 200, 84),
        ("c64[3,7] dot(c64[3,5] c64[5,7]), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", 840, 0, 400, 168),
        (
            "f32[2,3,7] dot(f32[2,3,5] f32[2,5,7]), lhs_batch_dims={0}, rhs_batch_dims={0}, "
            "lhs_contracting_dims={2}, rhs_contracting_dims={1}", "", 420, 0, 400, 168,
        ),
        # one row of 4 positions, window 3, no padding: 12 meetings; 2 x 2 batch x 5 results x 3 features x 12
        (
            "f32[2,4,5] convolution(f32[2,6,3] f32[3,3,5]), window={size=3}, dim_labels=b0f_0io->b0f",
            "", 720, 0, 324, 160,
        ),
        # padding of one on each side: the first and last position miss one element: 3 x 6 - 2 meetings
        (
            "f32[2,6,5] convolution(f32[2,6,3] f32[3,3,5]), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
            "", 960, 0, 324, 240,
        ),
        # three groups of one feature
        (
            "f32[1,6,6] convolution(f32[1,6,3] f32[1,1,6]), window={size=1}, dim_labels=b0f_0io->b0f, "
            "feature_group_count=3", "", 72, 0, 96, 144,
        ),
        ("f32[4] reduce(f32[4,8] f32[]), dimensions={1}, to_apply=add", ADD, 28, 0, 132, 16),
        ("f32[6] reduce-window(f32[8] f32[]), window={size=3}, to_apply=add", ADD, 12, 0, 36, 24),
        ("f32[9] map(f32[9] f32[9]), to_apply=add", ADD, 9, 0, 72, 36),
        ("f32[3,8] sort(f32[3,8]), dimensions={1}, to_apply=less", LESS, 72, 0, 96, 96),
        ("f32[4] all-reduce(f32[4]), replica_groups={{0,1,2}}, to_apply=add", ADD, 8, 0, 16, 16),
        ("c64[16] fft(c64[16]), fft_type=FFT, fft_length={16}", "", 320, 0, 128, 128),
        ("c64[9] fft(f32[16]), fft_type=RFFT, fft_length={16}", "", 160, 0, 64, 72),
        ("f32[2,3,3] cholesky(f32[2,3,3]), lower=true", "", 18, 6, 72, 72),
        ("f32[3,5] triangular-solve(f32[3,3] f32[3,5]), left_side=true", "", 45, 0, 96, 60),
        (
            "f32[2,5] gather(f32[9,5] s32[2,1]), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1,5}", "", 0, 0, 48, 40,
        ),
        (
            "f32[9,5] scatter(f32[9,5] s32[2,1] f32[2,5]), update_window_dims={1}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", ADD, 10, 0, 88, 40,
        ),
        # more rows than there are: each of the operand counts once
        (
            "f32[8,5] gather(f32[2,5] s32[8,1]), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1,5}", "", 0, 0, 40 + 32, 160,
        ),
        (
            "f32[2,5] scatter(f32[2,5] s32[8,1] f32[8,5]), update_window_dims={1}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", ADD, 40, 0, 40 + 32 + 160, 40,
        ),
        ("f32[8,4] batch-norm-inference(f32[8,4] f32[4] f32[4] f32[4] f32[4]), epsilon=0.1, feature_index=1",
         "", 136, 4, 192, 128),
    ],
)  # fmt: skip
def test_by_hand(text: str, helpers: str, flops: int, transcendentals: int, read: int, written: int) -> None:
    cost = cost_of(text, helpers)
    assert (cost.flops, cost.transcendentals) == (flops, transcendentals)
    assert (cost.bytes_read, cost.bytes_written) == (read, written)
    assert cost.is_exact


def test_a_custom_call_is_unknown_but_its_bytes_are_not() -> None:
    cost = cost_of('f32[4] custom-call(f32[4]), custom_call_target="secret"')
    assert (cost.flops, cost.unknown, cost.bytes) == (0, 1, 32)
    assert not cost.is_exact
    assert cost_of('f32[4] custom-call(f32[4]), custom_call_target="Sharding"').unknown == 0


def test_an_unbounded_dimension_is_unknown() -> None:
    cost = cost_of("f32[?] negate(f32[?])")
    assert (cost.flops, cost.bytes, cost.unknown) == (0, 0, 1)
    assert shape_bytes(Shape("f32", (UNBOUNDED,), None, (), (True,))) is None


def loop(step: str = "add(i, one)") -> Module:
    return parse(LOOP.format(step=step))


def test_a_loop_counts_its_trips_and_one_condition_more() -> None:
    total = ModuleCost(loop()).total
    assert total.flops == 7 * (1 + 10) + 8 * 1
    assert total.bytes == 7 * (12 + 80) + 8 * 9
    assert total.is_exact


def test_a_loop_counts_once_as_in_xla_when_asked() -> None:
    total = ModuleCost(loop(), trip_counts=False).total
    assert (total.flops, total.loops) == (12, 0)


def test_a_loop_of_unknown_length_is_flagged() -> None:
    total = ModuleCost(loop("multiply(i, i)")).total
    assert (total.flops, total.loops, total.is_exact) == (11 + 2, 1, False)


def test_own_costs_times_executions_add_up_to_the_total() -> None:
    costs = ModuleCost(loop())
    runs = costs.executions()
    sums = sum((costs.own(i).times(n).flops for c, n in runs.items() for i in c))
    assert sums == costs.total.flops
    assert {c.name: n for c, n in runs.items()} == {"more": 8, "body": 7, "main": 1}


FUSION = """HloModule fused
body {
  a = f32[100] parameter(0)
  b = f32[4] parameter(1)
  s = f32[4] slice(a), slice={[0:4]}
  m = f32[4] multiply(s, b)
  ROOT e = f32[4] exponential(m)
}
ENTRY main {
  a = f32[100] parameter(0)
  b = f32[4] parameter(1)
  ROOT f = f32[4] fusion(a, b), kind=kLoop, calls=body
}
"""


def test_a_fusion_moves_operands_and_results_only_and_the_parts_that_it_reads() -> None:
    costs = ModuleCost(parse(FUSION))
    assert (costs.total.flops, costs.total.transcendentals) == (4, 4)
    assert (costs.total.bytes_read, costs.total.bytes_written) == (16 + 16, 16)


def test_a_fused_update_in_place_moves_the_update() -> None:
    text = """HloModule fused
body {
  a = f32[100] parameter(0)
  b = f32[4] parameter(1)
  i = s32[] parameter(2)
  ROOT u = f32[100] dynamic-update-slice(a, b, i)
}
ENTRY main {
  a = f32[100] parameter(0)
  b = f32[4] parameter(1)
  i = s32[] parameter(2)
  ROOT f = f32[100] fusion(a, b, i), kind=kLoop, calls=body
}
"""
    total = ModuleCost(parse(text)).total
    assert (total.bytes_read, total.bytes_written) == (20, 16)


def test_bodies_of_fusions_may_give_arrays_other_shapes() -> None:
    text = """HloModule fused
body {
  a = f32[10,10] parameter(0)
  b = f32[4] parameter(1)
  i = s32[] parameter(2)
  flat = f32[100] bitcast(a)
  u = f32[100] dynamic-update-slice(flat, b, i)
  ROOT r = f32[10,10] bitcast(u)
}
ENTRY main {
  a = f32[10,10] parameter(0)
  b = f32[4] parameter(1)
  i = s32[] parameter(2)
  ROOT f = f32[10,10] fusion(a, b, i), kind=kLoop, calls=body
}
"""
    total = ModuleCost(parse(text)).total
    assert (total.bytes_read, total.bytes_written) == (20, 16)


def test_a_fused_scatter_counts_as_one_alone() -> None:
    """The operand's rows that are hit, all of them at most; indices and updates."""
    text = f"""HloModule fused
{ADD}
body {{
  a = f32[2,5] parameter(0)
  i = s32[8] parameter(1)
  u = f32[8,5] parameter(2)
  j = s32[8,1] bitcast(i)
  ROOT r = f32[2,5] scatter(a, j, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}
ENTRY main {{
  a = f32[2,5] parameter(0)
  i = s32[8] parameter(1)
  u = f32[8,5] parameter(2)
  ROOT f = f32[2,5] fusion(a, i, u), kind=kLoop, calls=body
}}
"""
    total = ModuleCost(parse(text)).total
    assert (total.bytes_read, total.bytes_written) == (40 + 32 + 160, 40)


def test_a_view_moves_nothing_and_an_array_read_twice_counts_once() -> None:
    text = """HloModule views
ENTRY main {
  x = f32[6,8] parameter(0)
  s = f32[2,8] slice(x), slice={[2:4], [0:8]}
  ROOT r = f32[2,8] multiply(s, s)
}
"""
    total = ModuleCost(parse(text)).total
    assert (total.bytes_read, total.bytes_written) == (64, 64)


def test_the_most_expensive_branch_counts() -> None:
    text = """HloModule branches
cheap { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }
dear { x = f32[8] parameter(0) y = f32[8] negate(x) ROOT z = f32[8] add(y, y) }
ENTRY main {
  p = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT r = f32[8] conditional(p, x, x), true_computation=cheap, false_computation=dear
}
"""
    costs = ModuleCost(parse(text))
    assert costs.total.flops == 16
    assert {c.name: n for c, n in costs.executions().items()} == {"cheap": 0, "dear": 1, "main": 1}


def test_tables_name_opcodes() -> None:
    assert set(RULES) <= set(OPCODES)
    assert set(TRAFFIC) <= set(OPCODES)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 4), st.integers(-3, 5), st.integers(1, 4), st.integers(1, 4),
    st.integers(1, 8), st.integers(0, 9),
)  # fmt: skip
def test_meetings_are_those_of_a_double_loop(
    size: int, stride: int, low: int, base_dilation: int, window_dilation: int, base: int, positions: int
) -> None:
    window = WindowDimension(size, stride, low, 0, base_dilation, window_dilation)
    reach = (base - 1) * base_dilation
    looked = [p * stride + e * window_dilation - low for p in range(positions) for e in range(size)]
    assert meetings(window, base, positions) == sum(0 <= x <= reach and x % base_dilation == 0 for x in looked)


DIFFERENT = {
    "argsort_pairs": "comparators", "sort_100k": "comparators", "sampling_step": "comparators", "top_k": "comparators",
    "complex_ops": "complex numbers", "rfft_conv": "real transforms", "triangular_solve_native": "half of the square",
    "clamp_select_round": "bitcasts", "monte_carlo_pi": "bitcasts", "random_normal": "bitcasts",
    "random_uniform": "bitcasts", "random_permutation_categorical": "bitcasts", "rng_bit_generator": "bitcasts",
    "eigh_svd": "rounding", "lu_solve_det_inv": "rounding", "transpose_4d": "nothing to count",
}  # fmt: skip
"""Models for which the conventions of `analysis.cost` differ from XLA's, and why."""


@pytest.mark.skipif(not MODELS.exists(), reason="the corpus of models is not here")
def test_flops_of_models_are_xlas() -> None:
    wrong = []
    for path in sorted(MODELS.glob("*.json")):
        facts = json.loads(path.read_text())
        if path.stem in DIFFERENT or not facts.get("flops_xla") or path.with_suffix(".hlo").stat().st_size > 60_000:
            continue
        total = ModuleCost(load(path.with_suffix(".hlo")), trip_counts=False).total
        if abs(total.flops - facts["flops_xla"]) > 0.001 * facts["flops_xla"]:
            wrong.append(f"{path.stem}: {total.flops}, XLA says {facts['flops_xla']}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "contractions"),
    [("lstm_scan_fwd_50", 128_000_000), ("matmul_1024", 2_147_483_648), ("bert_block", 1_862_270_976)],
)
def test_contractions_of_models(name: str, contractions: int) -> None:
    """The exact number for dots and convolutions: XLA's own figure counts one trip of a loop."""
    assert contractions <= ModuleCost(load(model(name))).total.flops <= 1.1 * contractions


# ---- the command


SCOPED = """HloModule scoped
body {
  a = f32[8,8] parameter(0)
  e = f32[8,8] exponential(a), metadata={op_name="jit(f)/layer_1/exp"}
  ROOT n = f32[8,8] negate(e), metadata={op_name="jit(f)/layer_2/neg" source_file="net.py" source_line=7}
}
ENTRY main {
  x = f32[8,8] parameter(0)
  d = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layer_1/dot"}
  ROOT f = f32[8,8] fusion(d), kind=kLoop, calls=body,
    metadata={op_name="jit(f)/layer_2/neg" source_file="net.py" source_line=7}
}
"""


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("text", [SCOPED, LOOP.format(step="add(i, one)"), FUSION])
def test_rows_add_up_to_the_cost_of_the_module(by: Grouping, text: str) -> None:
    module = parse(text)
    total, cost = total_row(cost_rows(module, by)).cost, ModuleCost(module).total
    assert (total.flops, total.transcendentals, total.bytes_read, total.bytes_written) == (
        cost.flops, cost.transcendentals, cost.bytes_read, cost.bytes_written
    )  # fmt: skip


def test_rows_of_loops_count_their_runs() -> None:
    rows = {row.name: row for row in cost_rows(loop())}
    assert (rows["y"].runs, rows["y"].cost.flops) == (7, 70)
    assert (rows["go"].runs, rows["go"].cost.flops) == (8, 8)
    assert {row.name: row.runs for row in cost_rows(loop(), "computation")} == {"more": 8, "body": 7}
    module = loop()
    (whole,) = cost_rows(module, whole=[module.entry.root])
    assert (whole.name, whole.cost) == ("r", ModuleCost(module).total)


def test_scopes_are_those_that_not_all_have_in_common() -> None:
    rows = {row.name: row for row in cost_rows(parse(SCOPED), "scope", depth=1)}
    assert set(rows) == {"layer_1", "layer_2"}
    assert (rows["layer_1"].cost.flops, rows["layer_1"].cost.transcendentals) == (2 * 8**3, 64)
    assert (rows["layer_2"].cost.flops, rows["layer_2"].cost.bytes) == (64, 512)
    assert {row.name for row in cost_rows(parse(FUSION), "scope")} == {"(no scope)"}


def test_the_least_time_is_that_of_the_nearer_roof() -> None:
    roof = Roof(1e9, ((100, 1e9), (1000, 1e8)))
    assert roof.seconds(Cost(1000, 0, 50, 50), 100) == 1e-6
    assert roof.bound(Cost(1000, 0, 50, 50), 100) == "compute"
    assert roof.seconds(Cost(10, 0, 5000, 5000), 10_000) == 1e-4
    assert roof.bound(Cost(10, 0, 5000, 5000), 10_000) == "memory"
    assert roof.bound(Cost(), 0) == ""
    dot, fusion = cost_rows(parse(SCOPED), roof=roof, times={("main", "d"): 0.5, ("body", "e"): 0.25})
    assert dot.roof_seconds == pytest.approx(512 / 1e8)
    assert dot.saving == pytest.approx(0.5 - 512 / 1e8)
    assert fusion.seconds == 0.25
    assert total_row([dot, fusion]).seconds == 0.75


def test_sorting() -> None:
    rows = cost_rows(parse(SCOPED), "instruction")
    assert [row.name for row in sort_rows(rows, "flops")] == ["d", "n", "e", "f"]
    assert sort_rows(rows, "transcendentals")[0].name == "e"
    assert [row.name for row in sort_rows(rows, "name")] == ["d", "e", "f", "n"]
    assert [row.name for row in sort_rows(rows, "bytes")][:2] == ["d", "f"]


@pytest.fixture
def scoped(tmp_path: Path) -> Path:
    path = tmp_path / "scoped.hlo"
    path.write_text(SCOPED)
    return path


def test_the_table(hlotool: Run, scoped: Path) -> None:
    done = hlotool("cost", scoped)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["scoped", "by", "kernel"]
    assert [line[0] for line in lines[2:]] == ["d", "f", "total"]
    assert "net.py:7" in done.stdout
    assert "layer_2" in hlotool("cost", "-", "--by", "scope", stdin=SCOPED).stdout
    cut = hlotool("cost", scoped, "--limit", "1").stdout
    assert "1 of 2 rows; --limit 0 shows all" in cut
    rows = hlotool("cost", scoped, "--format", "csv").stdout.splitlines()
    assert rows[0].startswith("name,opcode,computation,shape,runs,flops")
    assert len(rows) == 3


def test_unknown_costs_are_said_to_be_lower_bounds(hlotool: Run) -> None:
    done = hlotool("cost", "-", stdin=LOOP.format(step="multiply(i, i)"))
    assert "1 loops of unknown length are counted once" in done.stdout
    assert ">= " in done.stdout


def test_the_roofline(hlotool: Run, scoped: Path, tmp_path: Path) -> None:
    done = hlotool("cost", scoped, "--peaks", "2T,1GB")
    assert "roofs, given: 2 TFLOP/s, 1 GB/s" in done.stdout
    assert "A  d: " in done.stdout
    assert hlotool("cost", scoped, "--peaks", "2T,1G", "-o", "roof.svg").returncode == 0
    names = [node.tag.rpartition("}")[2] for node in ElementTree.parse(tmp_path / "roof.svg").iter()]
    assert names.count("polyline") == 1
    assert "circle" in names


def test_times_of_a_file(hlotool: Run, scoped: Path, tmp_path: Path) -> None:
    (tmp_path / "times.json").write_text(json.dumps({"times": {"main/d": 1e-3, "main/f": 1e-6}}))
    done = hlotool("cost", scoped, "--times", "times.json", "--peaks", "1G,1G", "--format", "json", "--sort", "saving")
    answer = check_json(done.stdout)
    assert [row["name"] for row in answer["rows"]] == ["d", "f"]
    assert answer["rows"][0]["saving_seconds"] == pytest.approx(1e-3 - 1024e-9)
    assert answer["total"]["seconds"] == pytest.approx(1.001e-3)
    assert answer["roof"] == {"flops_per_s": 1e9, "bytes_per_s": [{"touched": None, "rate": 1e9}], "measured": False}


def test_measured_times(hlotool: Run, scoped: Path) -> None:
    answer = check_json(hlotool("cost", scoped, "--measure", "--peaks", "1T,1T", "--format", "json").stdout)
    assert {row["name"] for row in answer["rows"]} == {"d", "f"}
    assert all(row["seconds"] > 0 for row in answer["rows"])
    assert answer["run_seconds"] > 0


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (("--peaks", "fast"), SCOPED, 2, "expected 'host', or operations and bytes"),
        (("--peaks", "0,1"), SCOPED, 2, "expected 'host'"),
        (("--peaks", "1e999,1"), SCOPED, 2, "expected 'host'"),
        (("--peaks", "1e-9,1e300"), SCOPED, 2, "expected 'host'"),
        (("--times", "t.json", "--measure"), SCOPED, 2, "give one of them"),
        (("--times", "none.json"), SCOPED, 3, "cannot read none.json"),
        ((), "HloModule m\nENTRY e { p = f32[", 3, "error"),
        (("--measure",), "HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] woolly(p) }", 3, "woolly"),
    ],
)
def test_what_cost_refuses(hlotool: Run, arguments: tuple[str, ...], stdin: str, code: int, words: str) -> None:
    done = hlotool("cost", "-", *arguments, stdin=stdin)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_of_what_is_unknown_there_is_the_cost_of_the_rest(hlotool: Run) -> None:
    text = "HloModule m\nENTRY e { p = f32[2] parameter(0) n = f32[2] negate(p) ROOT r = f32[2] woolly(n) }"
    done = hlotool("cost", "-", "--format", "json", stdin=text)
    answer = check_json(done.stdout)
    assert answer["total"]["flops"] == 2
    assert answer["total"]["unknown"] == 1
    assert answer["notes"]


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-1"])
def test_times_that_are_none_are_refused(hlotool: Run, scoped: Path, tmp_path: Path, seconds: str) -> None:
    (tmp_path / "times.json").write_text('{"times": {"main/d": SECONDS}}'.replace("SECONDS", seconds))
    done = hlotool("cost", scoped, "--times", "times.json", "--peaks", "1G,1G")
    assert (done.returncode, "negative or not finite" in done.stderr) == (3, True)


def test_the_picture_is_xml_whatever_is_in_names() -> None:
    roof = Roof(1e9, ((100, 1e9), (1000, 1e8)))
    rows = [
        CostRow(name=f"<a>\x01&{n}", cost=Cost(10**n, 0, 100, 100), roof_seconds=1e-9, seconds=seconds)
        for n, seconds in enumerate([1e-12, 1e300, None, 0.0, *[1e-3] * 40])
    ]
    ElementTree.fromstring(roofline_picture(rows, roof, "a\x02 < b"))
    assert "more have no letter" in roofline_text(rows, roof)
    for few in ([], rows[:1]):
        ElementTree.fromstring(roofline_picture(few, roof, ""))
        assert roofline_text(few, roof)


def examples(command: str) -> list[str]:
    """The lines of a command's help that call it."""
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert found.help
    return [line.strip() for line in found.help.splitlines() if line.strip().startswith(f"hlotool {command} ")]


@pytest.mark.parametrize("line", [*examples("cost"), *examples("memory")])
def test_examples_of_the_help_work(hlotool: Run, tmp_path: Path, line: str) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    done = hlotool(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["cost", "memory"])
def test_a_reader_who_goes_away_is_no_error(command: str) -> None:
    words = f"{sys.executable} -m hlotool {command} samples/attention.hlo; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({words}) | true"], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stderr.split() == ["0"]
