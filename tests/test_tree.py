"""``hlotool tree`` and the library functions under it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Run, environment
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_schemas import check_json
from large_module import large_module
from random_programs import Generator

from hlotool.analysis.cost import ModuleCost
from hlotool.inspect.tree import TreeRow, call_tree, scope_tree
from hlotool.text.parser import parse

LOOP = """HloModule loop

fused {
  p = f32[8]{0} parameter(0)
  e = f32[8]{0} exponential(p)
  ROOT n = f32[8]{0} negate(e)
}

body {
  s = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8]{0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[8]{0} fusion(x), kind=kLoop, calls=fused, metadata={op_name="jit(f)/loop/body/exp"}
  ROOT t = (s32[], f32[8]{0}) tuple(j, f)
}

condition {
  s = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT c = pred[] compare(i, ten), direction=LT
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8]{0}) tuple(zero, x)
  w = (s32[], f32[8]{0}) while(t), body=body, condition=condition, metadata={op_name="jit(f)/loop/while"}
  y = f32[8]{0} get-tuple-element(w), index=1
  f = f32[8]{0} fusion(y), kind=kLoop, calls=fused, metadata={op_name="jit(f)/exp"}
  ROOT r = f32[8]{0} add(f, f), metadata={op_name="jit(f)/last/add"}
}
"""


def shown(rows: list[TreeRow]) -> list[str]:
    return [f"{row.depth} {row.title} {row.instructions} {row.runs} {row.cost.flops}" for row in rows]


def children(rows: list[TreeRow], place: int) -> list[TreeRow]:
    """The rows right under one."""
    found = []
    for row in rows[place + 1 :]:
        if row.depth <= rows[place].depth:
            break
        if row.depth == rows[place].depth + 1:
            found.append(row)
    return found


def test_calls() -> None:
    assert shown(call_tree(parse(LOOP))) == [
        "0 main 24 1 117",
        "1 w: while 15 1 101",
        "2 body body 10 10 90",
        "3 f: fusion 4 10 80",
        "4 1 parameter, 1 exponential, 1 negate 3 10 80",
        "3 2 get-tuple-element, 1 parameter, 1 constant, 1 add, 1 more 6 10 10",
        "2 condition condition 4 11 11",
        "3 1 parameter, 1 get-tuple-element, 1 constant, 1 compare 4 11 11",
        "1 f: fusion 4 1 8",
        "1 1 parameter, 1 constant, 1 tuple, 1 get-tuple-element, 1 more 5 1 8",
    ]
    assert [row.note for row in call_tree(parse(LOOP)) if row.note] == ["10 trips", "as above"]


def test_scopes() -> None:
    assert shown(scope_tree(parse(LOOP))) == [
        "0 loop 21 1 117",
        "1 jit(f) 4 10 8",
        "2 loop 2 10 0",
        "3 body 1 10 0",
        "2 last 1 1 8",
        "1 without op_name 17 11 109",
    ]


def test_depth_and_order() -> None:
    rows = call_tree(parse(LOOP), depth=1)
    assert [(row.depth, row.hidden) for row in rows] == [(0, 0), (1, 6), (1, 0), (1, 0)]
    assert len(call_tree(parse(LOOP), depth=0)) == 1
    blocks = large_module(60).replace("block_1/mlp/tanh", "block_1/mlp/deep/tanh")
    by_cost = [row.cost.flops for row in scope_tree(parse(blocks), order="flops") if row.depth == 2]
    assert by_cost == sorted(by_cost, reverse=True)
    with pytest.raises(ValueError, match="size"):
        call_tree(parse(LOOP), order="size")


def test_what_is_called_often_is_shown_once() -> None:
    """Thirty levels that each call the next one twice are no billion rows."""
    text = "HloModule deep\n\nf0 {\n  ROOT p = f32[] parameter(0)\n}\n\n"
    for n in range(1, 31):
        head = f"f{n} {{" if n < 30 else "ENTRY main {"
        text += f"{head}\n  p = f32[] parameter(0)\n  a = f32[] call(p), to_apply=f{n - 1}\n"
        text += f"  ROOT b = f32[] call(a), to_apply=f{n - 1}\n}}\n\n"
    assert len(call_tree(parse(text))) < 200


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 40), st.booleans())
def test_the_parts_add_up(choice: random.Random, length: int, every: bool) -> None:
    module = parse(Generator(choice, length).text)
    total = ModuleCost(module).total
    rows = call_tree(module, every=every)
    assert rows[0].cost == total
    assert sum(row.cost.flops for row in children(rows, 0)) == total.flops
    assert sum(row.cost.bytes for row in children(rows, 0)) == total.bytes
    top = scope_tree(module)[0].cost
    assert (top.flops, top.bytes) == (total.flops, total.bytes)


# ---- the command


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    path = tmp_path / "loop.hlo"
    path.write_text(LOOP)
    return path


def test_main_use(hlotool: Run, loop: Path) -> None:
    done = hlotool("tree", loop, "--depth", "1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["instructions", "runs", "flops", "bytes"]
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "main", "├─ w: while", "├─ f: fusion",
        "└─ 1 parameter, 1 constant, 1 tuple, 1 get-tuple-element, 1 more",
    ]  # fmt: skip
    assert lines[2].endswith("(10 trips; 6 more below)")


def test_standard_input_and_all(hlotool: Run) -> None:
    done = hlotool("tree", "-", "--all", stdin=LOOP)
    assert done.returncode == 0
    assert "exponential" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("by", ["computation", "scope"])
def test_json_keeps_to_its_schema(hlotool: Run, loop: Path, by: str) -> None:
    answer = check_json(hlotool("tree", loop, "--by", by, "--format", "json").stdout)
    assert answer["by"] == by
    assert answer["rows"][0]["cost"]["loops"] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("none.hlo",), 3), (("bad.hlo",), 3), (("loop.hlo", "--depth", "-1"), 2),
        (("loop.hlo", "--all", "--by", "scope"), 2),
    ],
)
def test_what_is_refused(hlotool: Run, loop: Path, arguments: tuple[str, ...], code: int) -> None:
    loop.with_name("bad.hlo").write_text("nothing")
    done = hlotool("tree", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr


def test_what_can_only_be_looked_at(hlotool: Run, loop: Path) -> None:
    done = hlotool("tree", "-", stdin=LOOP.replace("negate(e)", "frobnicate(e)"))
    assert done.returncode == 0
    assert "unknown opcode 'frobnicate'" in done.stderr
    assert "1 frobnicate" in done.stdout


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{sys.executable} -m hlotool tree '{ROOT}/samples/mean.hlo' | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
