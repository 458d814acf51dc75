"""``hlotool lint``: what each rule finds and what it leaves alone, fixes that are right, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Run, environment
from json_schemas import check_json

from hlotool.evaluate import evaluate
from hlotool.harness.compare import verdict_of
from hlotool.harness.lint_fixes import fixed, no_worse
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.lint import RULES, lint
from hlotool.lint.comments import Silence, silence_of
from hlotool.lint.match import ADD
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

FIXABLE = {
    "HLO6002", "HLO6003", "HLO6004", "HLO6005", "HLO6006", "HLO6010", "HLO6101", "HLO6102", "HLO6103", "HLO6105",
    "HLO6107", "HLO6108", "HLO6113",
}  # fmt: skip
SMELLY = """HloModule smelly

ENTRY main {
  x = f32[8,64]{1,0} parameter(0)
  one = f32[] constant(1)
  ones = f32[8,64]{1,0} broadcast(one), dimensions={}
  s = f32[8,64]{1,0} add(ones, x)@
  ROOT y = f32[8,64]{1,0} log(s)#
}
"""
PLAIN = SMELLY.replace("@", "").replace("#", "")
MAX = "max {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] maximum(a, b)\n}\n\n"


def entry(body: str, before: str = "") -> Module:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    module = parse(f"HloModule m\n\n{before}ENTRY main {{\n{lines}\n}}\n")
    check(module)
    return module


def codes(module: Module) -> list[str]:
    return [rule.code for rule, _ in lint(module, RULES.values())]


def mended(module: Module, *rules: str) -> Module:
    chosen = [RULES[code] for code in rules] if rules else list(RULES.values())
    return fixed(module, chosen, Silence({})).module


# ---- rules


@pytest.mark.parametrize("code", sorted(RULES))
def test_examples(code: str) -> None:
    rule = RULES[code]
    assert code == rule.code
    for text, found in ((rule.wrong, True), (rule.right, False)):
        if text:
            module = parse(text)
            check(module)
            assert (code in codes(module)) is found
    fixes = [finding.fix is not None for _, finding in lint(parse(rule.wrong), [rule])] if rule.wrong else []
    assert any(fixes) is (code in FIXABLE)


@pytest.mark.parametrize("code", sorted(FIXABLE))
def test_fixes_of_examples_are_right(code: str) -> None:
    before = parse(RULES[code].wrong)
    after = mended(before, code)
    again = parse(print_module(after))
    check(again)
    assert code not in codes(again)
    assert again.entry.root.shape == before.entry.root.shape
    assert verdict_of(no_worse(before, again)) == "ok"
    assert code in codes(before)  # stays as it is


def test_large_constants() -> None:
    body = "x = f32[1200000] parameter(0)\nc = f32[1200000] constant({@})\nROOT y = f32[1200000] add(x, c)"
    assert codes(entry(body.replace("@", ", ".join(["1", "2"] * 600000)))) == ["HLO6104"]
    assert codes(entry(body.replace("@", "..."))) == []


LEFT_ALONE = {
    "f64-sum": (
        "x = f32[64] parameter(0)\nw = f64[64] convert(x)\nc = f64[] constant(0.5)\n"
        "b = f64[64] broadcast(c), dimensions={}\nm = f64[64] multiply(w, b)\nz = f64[] constant(0)\n"
        "s = f64[] reduce(m, z), dimensions={0}, to_apply=add64\nROOT y = f32[] convert(s)",
        ADD.replace("f32", "f64").replace("add {", "add64 {"),
    ),
    "f64-result": (
        "x = f32[64] parameter(0)\nw = f64[64] convert(x)\nc = f64[] constant(0.5)\n"
        "b = f64[64] broadcast(c), dimensions={}\nROOT m = f64[64] multiply(w, b)", "",
    ),
    "softmax-of-bounded": (
        "x = f32[8,64] parameter(0)\nt = f32[8,64] tanh(x)\ne = f32[8,64] exponential(t)\nz = f32[] constant(0)\n"
        "s = f32[8] reduce(e, z), dimensions={1}, to_apply=add\nb = f32[8,64] broadcast(s), dimensions={0}\n"
        "ROOT y = f32[8,64] divide(e, b)", ADD,
    ),
    "softmax-guarded-maximum": (
        "x = f32[8,64] parameter(0)\nlow = f32[] constant(-inf)\n"
        "m = f32[8] reduce(x, low), dimensions={1}, to_apply=max\n"
        "f = pred[8] is-finite(m)\nz = f32[] constant(0)\nzs = f32[8] broadcast(z), dimensions={}\n"
        "g = f32[8] select(f, m, zs)\nr = f32[8,1] reshape(g)\nq = f32[8] reshape(r)\n"
        "mb = f32[8,64] broadcast(q), dimensions={0}\nd = f32[8,64] subtract(x, mb)\ne = f32[8,64] exponential(d)\n"
        "s = f32[8] reduce(e, z), dimensions={1}, to_apply=add\nb = f32[8,64] broadcast(s), dimensions={0}\n"
        "ROOT y = f32[8,64] divide(e, b)", ADD + MAX,
    ),
    "log-of-two": ("x = f32[4] parameter(0)\nc = f32[] constant(2)\nb = f32[4] broadcast(c), dimensions={}\n"
                   "s = f32[4] add(x, b)\nROOT y = f32[4] log(s)", ""),
    "one-less-exp": ("x = f32[4] parameter(0)\nc = f32[] constant(1)\nb = f32[4] broadcast(c), dimensions={}\n"
                     "e = f32[4] exponential(x)\nROOT y = f32[4] subtract(b, e)", ""),
    "rsqrt-of-anything": ("x = f32[4] parameter(0)\nROOT y = f32[4] rsqrt(x)", ""),
    "norm-with-a-select": (
        "x = f32[8,64] parameter(0)\nq = f32[8,64] multiply(x, x)\nz = f32[] constant(0)\n"
        "s = f32[8] reduce(q, z), dimensions={1}, to_apply=add\nn = f32[8] sqrt(s)\n"
        "zs = f32[8] broadcast(z), dimensions={}\n"
        "p = pred[8] compare(n, zs), direction=GT\none = f32[] constant(1)\nos = f32[8] broadcast(one), dimensions={}\n"
        "g = f32[8] select(p, n, os)\nb = f32[8,64] broadcast(g), dimensions={0}\nROOT y = f32[8,64] divide(x, b)", ADD,
    ),
    "variance-with-a-maximum": (
        "x = f32[8,64] parameter(0)\nq = f32[8,64] multiply(x, x)\nz = f32[] constant(0)\n"
        "s = f32[8] reduce(x, z), dimensions={1}, to_apply=add\nt = f32[8] reduce(q, z), dimensions={1}, to_apply=add\n"
        "n = f32[] constant(64)\nnb = f32[8] broadcast(n), dimensions={}\nm = f32[8] divide(s, nb)\n"
        "k = f32[8] divide(t, nb)\nmm = f32[8] multiply(m, m)\nd = f32[8] subtract(k, mm)\n"
        "zs = f32[8] broadcast(z), dimensions={}\nROOT v = f32[8] maximum(d, zs)", ADD,
    ),
    "short-narrow-sum": (
        "x = bf16[4,256] parameter(0)\nz = bf16[] constant(0)\n"
        "ROOT y = bf16[4] reduce(x, z), dimensions={1}, to_apply=add",
        ADD.replace("f32", "bf16"),
    ),
    "maximum-of-squares": (
        "x = f32[8] parameter(0)\nq = f32[8] multiply(x, x)\nz = f32[] constant(0)\n"
        "ROOT y = f32[] reduce(q, z), dimensions={0}, to_apply=max", MAX,
    ),
    "maximum-from-the-lowest": (
        "x = f32[8] parameter(0)\nz = f32[] constant(-3.4028235e38)\n"
        "ROOT y = f32[] reduce(x, z), dimensions={0}, to_apply=max",
        MAX,
    ),
    "iota-that-fits": ("ROOT i = bf16[257] iota(), iota_dimension=0", ""),
    "transpose-read-twice": (
        "x = f32[4,8,2] parameter(0)\nt = f32[8,4,2] transpose(x), dimensions={1,0,2}\n"
        "u = f32[8,2,4] transpose(t), dimensions={0,2,1}\nn = f32[8,4,2] negate(t)\n"
        "ROOT r = (f32[8,2,4], f32[8,4,2]) tuple(u, n)", "",
    ),
    "narrow-and-back": ("x = f32[4] parameter(0)\nn = bf16[4] convert(x)\nROOT y = f32[4] convert(n)", ""),
    "copies-to-another-layout": (
        "x = f32[4,8]{1,0} parameter(0)\nc = f32[4,8]{0,1} copy(x)\nd = f32[4,8]{0,1} negate(c)\n"
        "ROOT y = f32[4,8]{1,0} copy(d)", "",
    ),
    "slice-at-a-parameter": (
        "x = f32[64] parameter(0)\ni = s32[] parameter(1)\n"
        "ROOT y = f32[8] dynamic-slice(x, i), dynamic_slice_sizes={8}", "",
    ),
    "random-numbers-that-nobody-reads": (
        "x = f32[4] parameter(0)\na = f32[] constant(0)\nb = f32[] constant(1)\n"
        "r = f32[4] rng(a, b), distribution=rng_uniform\nROOT y = f32[4] negate(x)", "",
    ),
    "unique-scatter": (
        "x = f32[16] parameter(0)\ni = s32[3,1] constant({{1},{4},{2}})\nu = f32[3] parameter(1)\n"
        "ROOT y = f32[16] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", ADD,
    ),
    "repeating-integers": (
        "x = s32[16] parameter(0)\ni = s32[3,1] parameter(1)\nu = s32[3] parameter(2)\n"
        "ROOT y = s32[16] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", ADD.replace("f32", "s32"),
    ),
    "doubling-broadcast": (
        "x = f32[8] parameter(0)\nb = f32[8,2] broadcast(x), dimensions={0}\nROOT y = f32[8,2] exponential(b)", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LEFT_ALONE))
def test_left_alone(name: str) -> None:
    assert codes(entry(*LEFT_ALONE[name])) == []


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e30])
def test_mended_softmaxes_do_not_overflow(scale: float) -> None:
    body = (
        "x = f32[4,16] parameter(0)\ne = f32[4,16] exponential(x)\nz = f32[] constant(0)\n"
        "s = f32[4] reduce(e, z), dimensions={1}, to_apply=add\nb = f32[4,16] broadcast(s), dimensions={0}\n"
        "p = f32[4,16] divide(e, b)\nl = f32[4] log(s)\nROOT r = (f32[4,16], f32[4]) tuple(p, l)"
    )
    x = (np.random.default_rng(0).standard_normal((4, 16)) * scale).astype(np.float32)
    x[1] = -np.inf
    x[2, 0] = np.inf
    softmax, total = evaluate(mended(entry(body, ADD)), [x])
    shifted = x[[0, 3]].astype(np.float64) - x[[0, 3]].max(1, keepdims=True)
    want = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    np.testing.assert_allclose(softmax[[0, 3]], want, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(total[[0, 3]], np.log(np.exp(shifted).sum(1)) + x[[0, 3]].max(1), rtol=1e-5)
    assert (total[1], total[2]) == (-np.inf, np.inf)  # as the unmended one says
    assert np.isnan(softmax[1]).all()


def test_softmaxes_with_kept_dimensions_are_mended() -> None:
    body = (
        "x = f32[8,8] parameter(0)\ne = f32[8,8] exponential(x)\nz = f32[] constant(0)\n"
        "s = f32[8] reduce(e, z), dimensions={1}, to_apply=add\nk = f32[8,1] reshape(s)\n"
        "c = f32[8,1] broadcast(k), dimensions={0,1}\nr = f32[8] reshape(c)\n"
        "b = f32[8,8] broadcast(r), dimensions={0}\np = f32[8,8] divide(e, b)\nROOT l = f32[8,8] log(p)"
    )
    module = entry(body, ADD)
    assert set(codes(module)) == {"HLO6002", "HLO6004"}
    for rules in (("HLO6002",), ("HLO6004",), ("HLO6002", "HLO6004")):
        after = mended(module, *rules)
        assert verdict_of(no_worse(module, after)) == "ok"
        assert not set(rules) & set(codes(after))


@pytest.mark.parametrize("start", [-5, 0, 8, 60, 100])
def test_mended_slices_are_clamped(start: int) -> None:
    module = entry(
        f"x = f32[64] parameter(0)\ni = s32[] constant({start})\n"
        "ROOT y = f32[8] dynamic-slice(x, i), dynamic_slice_sizes={8}"
    )
    x = np.arange(64, dtype=np.float32)
    after = mended(module)
    assert after.entry.root.opcode == "slice"
    assert np.array_equal(evaluate(after, [x])[0], evaluate(module, [x])[0])


def test_fixes_of_fixes() -> None:
    chain = "\n".join(
        f"t{n} = f32[{'4,8' if n % 2 else '8,4'}] transpose({'x' if n == 1 else f't{n - 1}'}), dimensions={{1,0}}"
        for n in range(1, 8)
    )
    module = entry(f"x = f32[8,4] parameter(0)\n{chain}\nROOT y = f32[4,8] negate(t7)")
    after = mended(module)
    assert Counter(i.opcode for i in after.entry) == {"parameter": 1, "transpose": 1, "negate": 1}
    assert codes(after) == []


def test_worse_modules_are_found() -> None:
    before = entry("x = f32[64] parameter(0)\nROOT y = f32[64] log-plus-one(x)")
    assert verdict_of(no_worse(before, before)) == "ok"
    after = entry("x = f32[64] parameter(0)\nROOT y = f32[64] log(x)")
    assert verdict_of(no_worse(before, after)) != "ok"


def test_samples_have_no_smells() -> None:
    found = {path.stem: [r.code for r, _ in lint(parse(path.read_text()))] for path in (ROOT / "samples").glob("*.hlo")}
    assert {name: these for name, these in found.items() if these} == {"while_loop": ["HLO6007"]}  # a power iteration


# ---- silence


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("#", ", metadata={op_name=\"// lint: off\"}"), True),
        (("#", "  // lint: off"), False),
        (("#", "  // lint: off HLO6005"), False),
        (("#", "  /* lint: off=HLO6101, hlo6005 */"), False),
        (("#", "  // lint: off HLO6101"), True),
        (("#", "  // lint: offer"), True),
        (("@", "\n  // lint: off HLO6005"), False),
        (("@", "  // lint: off HLO6005"), True),
        (("HloModule", "// lint: off-file HLO6005\nHloModule"), False),
        (("HloModule", "// lint: off-file\nHloModule"), False),
        (("#", ', frontend_attributes={lint="off"}'), False),
        (("#", ', frontend_attributes={lint="off:HLO6101, HLO6005"}'), False),
        (("#", ', frontend_attributes={lint="off:HLO6101"}'), True),
        (("#", ', frontend_attributes={lint="on"}'), True),
    ],
)
def test_silence(change: tuple[str, str], found: bool) -> None:
    text = SMELLY.replace(*change, 1).replace("@", "").replace("#", "")
    places = [finding.instruction.location for _, finding in lint(parse(text))]
    silence = silence_of(text)
    assert any(place and not silence.covers("HLO6005", place.line, place.end_line) for place in places) is found


# ---- the command


@pytest.fixture
def smelly(tmp_path: Path) -> Path:
    path = tmp_path / "smelly.hlo"
    path.write_text(PLAIN)
    return path


def test_text_and_exit_codes(hlotool: Run, smelly: Path) -> None:
    done = hlotool("lint", "smelly.hlo")
    assert done.returncode == 1
    assert "smelly.hlo:8:8: warning[HLO6005]: y: log(1 + x)" in done.stdout
    assert "1 found, 1 that --fix mends; 'hlotool explain HLO6005'" in done.stderr
    assert hlotool("lint", "-", "--format", "concise", stdin=PLAIN).stdout.startswith("<stdin>:8:8: HLO6005 y: log")
    assert hlotool("lint", "smelly.hlo", "--exit-zero").returncode == 0
    ignored = hlotool("lint", "smelly.hlo", "--ignore", "log1p")
    assert (ignored.returncode, ignored.stdout, ignored.stderr) == (0, "", "")
    assert hlotool("lint", "smelly.hlo", "--select", "HLO61,6006").returncode == 0
    assert hlotool("lint", "smelly.hlo", "--select", "HLO60").returncode == 1


def test_forms(hlotool: Run, smelly: Path) -> None:
    (finding,) = check_json(hlotool("lint", "smelly.hlo", "--format", "json").stdout)["findings"]
    assert (finding["code"], finding["line"], finding["column"], finding["fixable"]) == ("HLO6005", 8, 8, True)
    assert check_json(hlotool("lint", "--select", "HLO61", "smelly.hlo", "--format", "json").stdout)["findings"] == []
    assert hlotool("lint", "smelly.hlo", "--format", "github").stdout.startswith("::warning file=smelly.hlo,line=8,")
    (run,) = json.loads(hlotool("lint", "smelly.hlo", "--format", "sarif").stdout)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["HLO6005"]
    assert run["results"][0]["level"] == "warning"
    assert "log-plus-one" in run["tool"]["driver"]["rules"][0]["help"]["text"]


def test_fix(hlotool: Run, smelly: Path, tmp_path: Path) -> None:
    done = hlotool("lint", "--fix", "smelly.hlo")
    assert (done.returncode, "log-plus-one(x)" in done.stdout, "add(" in done.stdout) == (0, True, False)
    assert done.stderr.endswith("1 mended, no result is worse\n")
    assert hlotool("lint", "-", stdin=done.stdout).returncode == 0
    assert hlotool("lint", "--fix", "smelly.hlo", "-o", "better.hlo").stdout == ""
    assert (tmp_path / "better.hlo").read_text() == done.stdout
    diff = hlotool("lint", "--diff", "smelly.hlo")
    assert diff.returncode == 1
    assert "\n+  ROOT log-plus-one.1" in diff.stdout
    assert smelly.read_text() == PLAIN
    smelly.write_text(PLAIN.replace("one = f32[] constant(1)", "one = f32[] constant(1)\n  w = f32[8]{0} parameter(1)"))
    left = hlotool("lint", "--fix", "--select", "all", "smelly.hlo")
    assert (left.returncode, "HLO6109" in left.stderr, "log-plus-one(x)" in left.stdout) == (1, True, True)
    clean = hlotool("lint", "--fix", "better.hlo")
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, done.stdout, "0 mended\n")


def test_what_cannot_be_tried_is_not_written(hlotool: Run, tmp_path: Path) -> None:
    text = PLAIN.replace("ROOT y", "z").replace(
        "\n}\n", '\n  ROOT c = f32[8,64]{1,0} custom-call(z), custom_call_target="unheard-of"\n}\n'
    )
    (tmp_path / "call.hlo").write_text(text)
    done = hlotool("lint", "--fix", "call.hlo", "-o", "better.hlo")
    assert (done.returncode, "--no-check" in done.stderr, (tmp_path / "better.hlo").exists()) == (4, True, False)
    done = hlotool("lint", "--fix", "--no-check", "call.hlo", "-o", "better.hlo")
    assert (done.returncode, done.stderr.endswith("1 mended, not tried\n")) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "FILES"),
        (["smelly.hlo", "--select", "HLO1"], 2, "no rule is called 'HLO1'"),
        (["smelly.hlo", "-o", "x.hlo"], 2, "--fix"),
        (["--fix", "--diff", "smelly.hlo"], 2, "--diff"),
        (["--fix", "smelly.hlo", "smelly.hlo"], 2, "one file"),
        (["--fix", "--format", "json", "smelly.hlo"], 2, "text"),
        (["absent.hlo"], 3, "absent.hlo"),
        (["bad.hlo"], 3, "error[HLO"),
        (["--fix", "smelly.hlo", "-o", "no/folder.hlo"], 5, "no/folder.hlo"),
    ],
)
def test_mistakes(hlotool: Run, smelly: Path, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "bad.hlo").write_text(PLAIN.replace("ROOT y = f32[8,64]", "ROOT y = f32[8,65]"))
    done = hlotool("lint", *arguments)
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (code, True, False)


def test_codes_are_completed(hlotool: Run) -> None:
    asked = {"_HLOTOOL_COMPLETE": "bash_complete", "COMP_WORDS": "hlotool lint --select HLO61,log", "COMP_CWORD": "3"}
    words = {line.removeprefix("plain,") for line in hlotool(env=asked).stdout.splitlines()}
    assert words == {"HLO61,log1p", "HLO61,log-sum-exp-overflow", "HLO61,log-of-softmax"}


def test_pages(hlotool: Run) -> None:
    listed = hlotool("lint", "--list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(RULES)
    assert "log-plus-one" in hlotool("explain", "HLO6005").stdout
    assert "HLO6005" in hlotool("explain").stdout


def test_a_reader_that_goes_away_is_no_error(smelly: Path) -> None:
    line = f"'{sys.executable}' -m hlotool lint --exit-zero smelly.hlo | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, cwd=smelly.parent, env=environment(), check=False)
    assert done.returncode == 0
