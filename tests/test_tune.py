"""Tuned choices: every legal value gives right numbers, databases say what they are for, and searches end the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, environment
from fake_lab import SUBJECTS, FakeLab, entries
from json_schemas import check_json

from hlotool.cli import tune_command
from hlotool.codegen.choices import FORMULAS, Choices, knobs
from hlotool.codegen.configured import checked, choices_of, configured, unconfigured
from hlotool.codegen.machine import named, runs_here
from hlotool.driver import compile_module
from hlotool.driver.tuned import (
    HEAD,
    VERSION,
    Entry,
    about,
    alone,
    entry_of,
    kernels_of,
    key_of,
    line_of,
    read_database,
)
from hlotool.harness import awake
from hlotool.harness.awake import Awake
from hlotool.harness.children import ChildDied, Children
from hlotool.harness.compare import verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.harness.references import Rules, Truth, judge
from hlotool.harness.tune import Budget, Journal, Local, Plan, Subject, add_entries, search
from hlotool.harness.tune.model import Model
from hlotool.harness.tune.space import changes
from hlotool.harness.tune.subjects import kind_of
from hlotool.harness.tune.trial import Check, Setting
from hlotool.inspect.files import write_file
from hlotool.ir import ExecutionError, InputError, Module, UnsupportedError
from hlotool.runtime.tuning import Tuning, target_key, tuning_of
from hlotool.text.parser import parse

_SUM = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n\n"
_MAX = "most {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] maximum(x, y)\n}\n\n"


def _dot(draw: random.Random) -> str:
    m, n, k = (draw.choice(sizes) for sizes in ((1, 3, 17, 64, 130), (1, 8, 48, 100, 257), (1, 5, 64, 130, 600)))
    kind = draw.choice(["f32", "f32", "f32", "bf16", "f64", "f16"])
    left, right = draw.choice([1, 0]), draw.choice([1, 0])
    a = f"{kind}[{m},{k}]" if left else f"{kind}[{k},{m}]"
    b = f"{kind}[{n},{k}]" if right else f"{kind}[{k},{n}]"
    return (
        f"HloModule d\n\nENTRY e {{\n  a = {a} parameter(0)\n  b = {b} parameter(1)\n  ROOT r = {kind}[{m},{n}] "
        f"dot(a, b), lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}\n}}\n"
    )


def _conv(draw: random.Random) -> str:
    size, features, out = draw.choice([5, 8, 14]), draw.choice([3, 16, 32, 64]), draw.choice([8, 32, 64])
    window, pad = draw.choice([(1, 0), (3, 1), (3, 0)])
    result = size + 2 * pad - window + 1
    labels = draw.choice(["b01f_01io->b01f", "bf01_oi01->bf01"])
    if labels.startswith("b01f"):
        a, w, r = f"2,{size},{size},{features}", f"{window},{window},{features},{out}", f"2,{result},{result},{out}"
    else:
        a, w, r = f"2,{features},{size},{size}", f"{out},{features},{window},{window}", f"2,{out},{result},{result}"
    return (
        f"HloModule c\n\nENTRY e {{\n  a = f32[{a}] parameter(0)\n  w = f32[{w}] parameter(1)\n  ROOT r = f32[{r}] "
        f"convolution(a, w), window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels={labels}\n}}\n"
    )


def _softmax(draw: random.Random) -> str:
    rows, columns = draw.choice([1, 7, 64]), draw.choice([5, 64, 1000])
    shape = f"f32[{rows},{columns}]"
    return (
        f"HloModule s\n\n{_SUM}{_MAX}body {{\n  p = {shape} parameter(0)\n  low = f32[] constant(-inf)\n"
        f"  m = f32[{rows}] reduce(p, low), dimensions={{1}}, to_apply=most\n"
        f"  mb = {shape} broadcast(m), dimensions={{0}}\n"
        f"  d = {shape} subtract(p, mb)\n  e = {shape} exponential(d)\n  zero = f32[] constant(0)\n"
        f"  t = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add\n"
        f"  tb = {shape} broadcast(t), dimensions={{0}}\n"
        f"  ROOT r = {shape} divide(e, tb)\n}}\n\nENTRY e {{\n  a = {shape} parameter(0)\n"
        f"  ROOT f = {shape} fusion(a), kind=kLoop, calls=body\n}}\n"
    )


def _chain(draw: random.Random) -> str:
    size = draw.choice([100, 1 << 15, 40_000])
    shape = f"f32[{size}]"
    lines, last = [], "p"
    for number in range(draw.choice([2, 9, 14])):
        opcode = draw.choice(["sine", "tanh", "exponential", "cosine", "log-plus-one", "negate"])
        if opcode in ("exponential", "log-plus-one"):
            lines += [f"  a{number} = {shape} tanh({last})", f"  b{number} = {shape} abs(a{number})"]
            last = f"b{number}"
        lines.append(f"  n{number} = {shape} {opcode}({last})")
        last = f"n{number}"
    lines[-1] = lines[-1].replace("  n", "  ROOT n")
    body = "\n".join([f"  p = {shape} parameter(0)", *lines])
    return (
        f"HloModule h\n\nbody {{\n{body}\n}}\n\nENTRY e {{\n  a = {shape} parameter(0)\n"
        f"  ROOT f = {shape} fusion(a), kind=kLoop, calls=body\n}}\n"
    )


def _reduce(draw: random.Random) -> str:
    a, b = draw.choice([(3, 70_000), (700, 300), (4096, 64), (1, 200_000)])
    dimension = draw.choice([0, 1])
    left = (b, a)[dimension]
    return (
        f"HloModule r\n\n{_SUM}ENTRY e {{\n  a = f32[{a},{b}] parameter(0)\n  zero = f32[] constant(0)\n"
        f"  ROOT r = f32[{left}] reduce(a, zero), dimensions={{{dimension}}}, to_apply=add\n}}\n"
    )


def _transpose(draw: random.Random) -> str:
    a, b, c = draw.choice([(8, 33, 64), (64, 48, 5), (128, 128, 1)])
    return (
        f"HloModule t\n\nENTRY e {{\n  a = f32[{a},{b},{c}] parameter(0)\n"
        f"  ROOT r = f32[{b},{a},{c}] transpose(a), dimensions={{1,0,2}}\n}}\n"
    )


def _sort(draw: random.Random) -> str:
    size, kind = draw.choice([30, 3000, 20_000]), draw.choice(["f32", "s32", "u8", "f64"])
    return (
        f"HloModule o\n\nless {{\n  x = {kind}[] parameter(0)\n  y = {kind}[] parameter(1)\n"
        f"  ROOT c = pred[] compare(x, y), direction=LT\n}}\n\nENTRY e {{\n  a = {kind}[{size}] parameter(0)\n"
        f"  ROOT r = {kind}[{size}] sort(a), dimensions={{0}}, to_apply=less\n}}\n"
    )


def _product(m: int, n: int, k: int) -> str:
    return (
        f"HloModule d\n\nENTRY e {{\n  a = f32[{m},{k}] parameter(0)\n  b = f32[{k},{n}] parameter(1)\n  "
        f"ROOT r = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    )


def _image(size: int, features: int, out: int) -> str:
    return (
        f"HloModule c\n\nENTRY e {{\n  a = f32[1,{size},{size},{features}] parameter(0)\n"
        f"  w = f32[3,3,{features},{out}] parameter(1)\n"
        f"  ROOT r = f32[1,{size},{size},{out}] convolution(a, w), window={{size=3x3 pad=1_1x1_1}}, "
        f"dim_labels=b01f_01io->b01f\n}}\n"
    )


_EPILOGUE = """HloModule p

body {
  a = f32[256,512] parameter(0)
  b = f32[512,512] parameter(1)
  d = f32[256,512] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[256,512] tanh(d)
}

ENTRY e {
  a = f32[256,512] parameter(0)
  b = f32[512,512] parameter(1)
  ROOT f = f32[256,512] fusion(a, b), kind=kOutput, calls=body
}
"""
_FAR = """HloModule f

ENTRY e {
  a = f32[16777216] parameter(0)
  ROOT s = f32[16777216] tanh(a)
}
"""
_LARGE = [
    _product(1024, 1024, 1024), _product(128, 512, 2048), _product(32, 2048, 2048), _image(56, 64, 64),
    _image(7, 512, 512), _EPILOGUE, _FAR,
    _EPILOGUE.replace("[256,512] parameter(0)", "[256,16] parameter(0)").replace("[512,512]", "[16,512]"),
]  # fmt: skip

KERNELS = [_dot, _dot, _conv, _softmax, _chain, _reduce, _transpose, _sort]
CPUS = [cpu for cpu in ("host", "x86-64-v3", "x86-64") if runs_here(named(cpu))]


def _with(text: str, choices: Choices) -> Module:
    module = parse(text)
    assert configured(module.entry.root, choices)
    return module


@pytest.mark.parametrize("seed", range(48))
def test_any_choices_give_right_numbers(seed: int) -> None:
    """Random kernels, each with random legal values of random knobs, against the evaluator; where a knob is said to
    leave sums alone, against the bits of the untuned kernel."""
    draw = random.Random(seed)
    text = KERNELS[seed % len(KERNELS)](draw)
    module = parse(text)
    machine = named(CPUS[seed % len(CPUS)]) if seed % 4 else named("host") if seed % 8 else None
    arrays = random_inputs(module, seed)
    usual = compile_module(parse(text), pipeline="none", machine=machine, strict=True, tune="off")(*arrays)
    truth = Truth(module, arrays)
    own = {name: knob for name, knob in knobs().items() if kind_of(module.entry.root) in knob.of}
    for _ in range(6):
        names = draw.sample(sorted(own), min(len(own), draw.choice([1, 2, 5])))
        choices = Choices(**{name: draw.choice(own[name].values) for name in names})
        made = compile_module(_with(text, choices), pipeline="none", machine=machine, strict=True, tune="off")
        outputs = made(*arrays)
        if not any(own[name].sums for name in names):
            for one, other in zip(outputs, usual, strict=True):
                assert one.tobytes() == other.tobytes(), choices.text()
        found = judge(outputs, truth, lambda: list(compile_module(module, "evaluate")(*arrays)), Rules())
        assert verdict_of(found.comparisons) == "ok", choices.text()


def test_every_knob_changes_code_of_some_kernel() -> None:
    """A knob that does nothing anywhere is none."""
    machine = named("host")
    texts = [make(random.Random(seed)) for make in dict.fromkeys(KERNELS) for seed in range(12)]
    texts += [*_LARGE, *(text for seed in range(4) for text in [_softmax(random.Random(seed)).replace("64", "4096")])]
    missing = set(knobs())
    for text in texts:
        if not missing:
            break
        module = parse(text)
        kind = kind_of(module.entry.root)
        wanted = [name for name in missing if kind in knobs()[name].of]
        usual = compile_module(module, pipeline="none", machine=machine, to_run=False, tune="off").program
        for name in wanted:
            for value in knobs()[name].values:
                made = _with(text, Choices(**{name: value}))
                program = compile_module(made, pipeline="none", machine=machine, to_run=False, tune="off").program
                if program.texts != usual.texts:
                    missing.discard(name)
                    break
    if not machine.has_tiles:
        missing -= {"split_f32", "split_group", "split_rows", "split_tasks", "split_copies"}
    assert not missing


def test_choices_are_read_and_written_beside_what_others_say() -> None:
    root = parse(_dot(random.Random(0))).entry.root
    assert choices_of(root) is FORMULAS
    root.attributes["backend_config"] = '{"other": 1}'
    assert configured(root, Choices(block_rows=56))
    assert json.loads(root.attributes["backend_config"]) == {"other": 1, "hlotool": {"block_rows": 56}}
    assert choices_of(root) == Choices(block_rows=56)
    unconfigured(root)
    assert json.loads(root.attributes["backend_config"]) == {"other": 1}
    root.attributes["backend_config"] = "words of another backend"
    assert not configured(root, Choices(block_rows=56))
    assert root.attributes["backend_config"] == "words of another backend"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"tile_row": 4}, "unknown knob 'tile_row'"), ({"tile_rows": 1000}, "legal values are"),
        ({"tile_rows": True}, "legal values are"), ({"tile_rows": "4"}, "legal values are"), ([], "expected knobs"),
    ],
)  # fmt: skip
def test_what_is_no_choice_is_said(values: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        checked(values, "here")


def test_an_unknown_knob_in_a_module_ends_in_a_diagnostic(hlotool, tmp_path: Path) -> None:
    text = MODULE.replace("{0}\n}", '{0}, backend_config={"hlotool":{"knob":1}}\n}')
    found = hlotool("run", "-", "--strict", stdin=text)
    assert found.returncode == 3
    assert "unknown knob 'knob'" in found.stderr


# ---- databases

MODULE = """HloModule small

ENTRY main {
  x = f32[64,80]{1,0} parameter(0)
  y = f32[80,96]{1,0} parameter(1)
  ROOT product = f32[64,96]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def _entry(**changes: object) -> Entry:
    """For the kernel of `MODULE`."""
    lowered = compile_module(parse(MODULE), tune="off").module
    (root,) = list(kernels_of(lowered))
    given = Entry(
        scope="kernel", key=key_of(alone(root)), target=target_key(named("host")), version=VERSION,
        about=about(root), choices=Choices(block_rows=28, tile_rows=2), costs={}, gain=0.2, seconds=1e-4, exact=False,
    )  # fmt: skip
    return replace(given, **changes)


def _host_entry(**changes: object) -> Entry:
    from hlotool.codegen.machine import host

    return _entry(**{"target": target_key(host()), **changes})


def _written(path: Path, *rows: Entry) -> Path:
    add_entries(path, rows, write_file)
    return path


def test_entries_are_what_was_written(tmp_path: Path) -> None:
    one = _entry()
    assert entry_of(json.loads(line_of(one))) == one
    found = read_database(_written(tmp_path / "db", one))
    assert list(found.entries.values()) == [one]
    assert not found.notes


def test_a_program_takes_what_a_database_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_TUNE_DATABASE", str(_written(tmp_path / "db", _host_entry())))
    plain = compile_module(parse(MODULE), tune="off")
    tuned = compile_module(parse(MODULE), tune="read")
    (taken,) = [one for one in tuned.decisions if one.rule == "choices"]
    assert (taken.code, taken.reason) == ("HLO4170", "tile_rows=2 block_rows=28")
    assert dict(taken.numbers) == {"percent_gained": 20.0}
    assert tuned.program.texts != plain.program.texts
    arrays = random_inputs(parse(MODULE), 0)
    np.testing.assert_allclose(tuned(*arrays)[0], plain(*arrays)[0], rtol=1e-4, atol=1e-4)
    for mode in (None, "off", "exact"):
        assert compile_module(parse(MODULE), tune=mode).program.texts == plain.program.texts, mode
    monkeypatch.setenv("HLOTOOL_TUNE", "read")
    assert compile_module(parse(MODULE)).program.texts == tuned.program.texts


def test_names_make_no_difference_and_the_target_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_TUNE_DATABASE", str(_written(tmp_path / "db", _host_entry())))
    other = MODULE.replace("product", "p2").replace("x", "left").replace("y", "right").replace("small", "large")
    other = other.replace("ENTRright", "ENTRY")
    assert any(one.rule == "choices" for one in compile_module(parse(other), tune="read").decisions)
    smaller = named("host,l2=256K")
    other_caches = compile_module(parse(MODULE), machine=smaller, tune="read")
    assert not any(one.rule == "choices" for one in other_caches.decisions)


def test_exact_takes_what_leaves_all_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = _host_entry(choices=Choices(block_rows=28), exact=True)
    monkeypatch.setenv("HLOTOOL_TUNE_DATABASE", str(_written(tmp_path / "db", entry)))
    tuned = compile_module(parse(MODULE), tune="exact")
    assert any(one.rule == "choices" for one in tuned.decisions)
    arrays = random_inputs(parse(MODULE), 0)
    assert tuned(*arrays)[0].tobytes() == compile_module(parse(MODULE), tune="off")(*arrays)[0].tobytes()


def test_costs_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(MODULE)
    entry = _host_entry(scope="module", key=key_of(module), choices=FORMULAS, costs={"places": 1, "prologues": False})
    monkeypatch.setenv("HLOTOOL_TUNE_DATABASE", str(_written(tmp_path / "db", entry)))
    found = compile_module(parse(MODULE), tune="read")
    assert found.module.costs.places == 1
    assert found.module.costs.prologues is False
    assert [one.code for one in found.decisions if one.pass_name == "tuning"] == ["HLO4171"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "no JSON object"), ("[]", "no JSON object"), ("\udcff", "no JSON object"),
        (line_of(_entry(version="0/0")), "of version '0/0'"),
        (line_of(_entry()).replace("tile_rows", "tile_lines"), "unknown knob"),
        (line_of(_entry()).replace('"gain": 0.2', '"gain": NaN'), "an entry has"),
        (line_of(_entry(scope="module", choices=FORMULAS, costs={"places": -1})), "costs"),
    ],
    ids=["cut", "list", "bytes", "version", "knob", "number", "costs"],
)  # fmt: skip
def test_lines_that_say_nothing_are_left_out_with_a_note(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "db"
    text = "\n".join([json.dumps(HEAD), line, line_of(_host_entry()), ""])
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = read_database(path)
    assert len(found.entries) == 1
    (note,) = found.notes
    assert note.startswith(f"{path}:2: left out:")
    assert says in note
    monkeypatch.setenv("HLOTOOL_TUNE_DATABASE", str(path))
    decisions = compile_module(parse(MODULE), tune="read").decisions
    assert [one.code for one in decisions if one.pass_name == "tuning"] == ["HLO4172", "HLO4170"]


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "no tuning database"), ("HloModule x", "no tuning database"),
     (json.dumps({**HEAD, "format": 99}), "format 99")],
)  # fmt: skip
def test_files_that_are_no_database(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hlotool
) -> None:
    path = tmp_path / "db"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_database(path)
    monkeypatch.setenv("HLOTOOL_TUNE_DATABASE", str(path))
    found = compile_module(parse(MODULE), tune="read").decisions
    assert [one.code for one in found if one.pass_name == "tuning"] == ["HLO4172"]
    shown = hlotool("tune", "--show", "--database", path)
    assert shown.returncode == 3
    assert says in shown.stderr


def test_unknown_words_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="expected off, exact, read or write"):
        compile_module(parse(MODULE), tune="always")
    monkeypatch.setenv("HLOTOOL_TUNE", "on")
    with pytest.raises(InputError, match="HLOTOOL_TUNE='on'"):
        compile_module(parse(MODULE))


def test_merging_takes_what_gains_more(tmp_path: Path) -> None:
    less, more = _entry(gain=0.1), _entry(gain=0.3, choices=Choices(tile_rows=4))
    path = _written(tmp_path / "db", less)
    assert list(add_entries(path, [more], write_file, better=True).entries.values()) == [more]
    assert list(add_entries(path, [less], write_file, better=True).entries.values()) == [more]
    assert list(read_database(path).entries.values()) == [more]


def test_a_database_changes_what_stored_programs_are_called(tmp_path: Path) -> None:
    target = _host_entry().target
    path = tmp_path / "db"
    empty = Tuning("read", path).identity(target)
    _written(path, _host_entry())
    assert Tuning("read", path).identity(target) != empty
    assert Tuning("off", path).identity(target) != Tuning("read", path).identity(target)
    assert tuning_of("off").files(target) == ()


# ---- searches


def _searched(folder: Path, wait: float = 0.0) -> subprocess.Popen[str]:
    script = ROOT / "tests" / "fake_lab.py"
    words = [sys.executable, *map(str, (script, folder / "journal", folder / "db", wait))]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT / "tests")


def test_a_search_killed_five_times_ends_the_same(tmp_path: Path) -> None:
    """What was measured is in the journal: the search goes on from there, and asks nothing twice."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    process = _searched(whole)
    asked = int(process.communicate()[0])
    draw, killed = random.Random(5), 0
    while killed < 5:
        process = _searched(broken, 0.1)
        journal, size = broken / "journal", (broken / "journal").stat().st_size if killed else 0
        while (not journal.exists() or journal.stat().st_size <= size) and process.poll() is None:
            time.sleep(0.005)  # it has measured something new
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        if killed == 2:  # as if it had been killed in the middle of a line
            journal.write_bytes(journal.read_bytes()[:-7])
        killed += 1
    process = _searched(broken)
    again = int(process.communicate()[0])
    assert process.returncode == 0
    assert 0 < again < asked
    assert (broken / "db").read_bytes() == (whole / "db").read_bytes()
    assert len(read_database(whole / "db").entries) >= 2


def _search(lab: FakeLab | None = None, journal: Path | None = None, **options: object):
    head = {"seed": 0}
    return search(SUBJECTS, lab or FakeLab(), Budget(trials=80), Plan(), Journal.open(journal, head), **options)


def test_a_search_goes_on_after_candidates_that_crash_and_hang() -> None:
    result = _search()
    words = {one.word for one in result.tries}
    assert {"faster", "no gain", "crashed", "wrong"} <= words
    assert len(result.tries) == 80
    assert result.found
    assert all(0.01 < one.gain < 1 for one in result.found)


class _Beside(FakeLab):
    """One choice helps one kernel and hurts the other, which another choice helps only beside a third one."""

    def distinct(self, subject: Subject, changes: object, beside: object) -> list[tuple[str, int]]:
        return [("steps", 2), ("tile_rows", 4), ("fetch_terms", 8), ("pack_left", 1)]

    def check(self, subject: Subject, candidates: list) -> list:
        return [Check("ok", exact=True) for _ in candidates]

    def _time(self, subject: Subject, values: dict) -> float:
        rows = 0.8 if "tile_rows" in values else 1.0
        steps = (0.9 if rows < 1 else 1.01) if "steps" in values else 1.0
        fetch = (0.5 if subject is SUBJECTS[0] else 1.3) if "fetch_terms" in values else 1.0
        return rows * steps * fetch * (1.5 if "pack_left" in values else 1.0)


def test_a_search_goes_by_what_choices_did_for_this_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other kernels lost much by, and what this one did though others gained by it, comes at the end."""
    monkeypatch.setattr(sys.modules["hlotool.harness.tune.search"], "_ALIKE", 0)
    result = search(SUBJECTS[:2], _Beside(), Budget(trials=24), Plan(), Journal.open(None, {}))
    tried = [one.change for one in result.tries if one.subject == 1 and len(one.change) == 1 and one.change[0][1] > 0]
    assert [change[0][0] for change in tried] == ["fetch_terms", "tile_rows", "steps", "fetch_terms", "pack_left"]
    found = [sorted(one.values) for one in result.found]
    assert found == [["fetch_terms", "steps", "tile_rows"], ["steps", "tile_rows"]]


def test_a_search_tries_first_what_a_like_kernel_gained_by() -> None:
    """All of it together; then what does not help here is left out again."""
    result = search(SUBJECTS[:2], _Beside(), Budget(trials=24), Plan(), Journal.open(None, {}))
    tried = [(one.change, one.word) for one in result.tries if one.subject == 1]
    gained = ("fetch_terms", 8), ("steps", 2), ("tile_rows", 4)
    assert tried[:2] == [(gained, "faster"), ((("fetch_terms", -1),), "faster")]
    found = [sorted(one.values) for one in result.found]
    assert found == [["fetch_terms", "steps", "tile_rows"], ["steps", "tile_rows"]]
    other = replace(SUBJECTS[1], kind="loop")
    result = search([SUBJECTS[0], other], _Beside(), Budget(trials=24), Plan(), Journal.open(None, {}))
    assert gained not in [one.change for one in result.tries if one.subject == 1]


class _Ordered(FakeLab):
    """The larger a value is the slower, and another choice comes behind all values."""

    def distinct(self, subject: Subject, changes: object, beside: object) -> list[tuple[str, int]]:
        return [*(("tile_rows", value) for value in range(1, 29)), ("steps", 2)]

    def check(self, subject: Subject, candidates: list) -> list:
        return [Check("ok", exact=True) for _ in candidates]

    def _time(self, subject: Subject, values: dict) -> float:
        return (0.7 + 0.1 * values.get("tile_rows", 3)) * (0.9 if "steps" in values else 1.0)


def test_a_search_leaves_values_to_the_end_that_become_worse() -> None:
    (found,) = search(SUBJECTS[:1], _Ordered(), Budget(trials=16), Plan(), Journal.open(None, {})).found
    assert dict(found.values) == {"tile_rows": 1, "steps": 2}


class _Ways(_Ordered):
    """One choice matters only beside another one."""

    def distinct(self, subject: Subject, changes: object, beside: object) -> list[tuple[str, int]]:
        return [("pack_right", 1), *([("steps", 8)] if "pack_right" in dict(beside) else [])]

    def _time(self, subject: Subject, values: dict) -> float:
        return (0.9 if "pack_right" in values else 1.0) * (0.8 if "steps" in values else 1.0)


def test_a_search_asks_again_what_makes_a_difference_once_another_way_was_chosen() -> None:
    (found,) = search(SUBJECTS[:1], _Ways(), Budget(trials=16), Plan(), Journal.open(None, {})).found
    assert dict(found.values) == {"pack_right": 1, "steps": 8}


def test_exact_searches_choose_no_knob_that_changes_sums() -> None:
    plan = Plan(exact=True)
    result = search(SUBJECTS, FakeLab(), Budget(trials=40), plan, Journal.open(None, {}))
    assert result.tries
    assert not any(knobs()[name].sums for one in result.tries for name, _ in one.change)
    assert all(not knobs()[name].sums for name, _ in changes(SUBJECTS[0], exact=True))


def test_a_clock_that_goes_back_ends_the_search_with_what_it_has(tmp_path: Path) -> None:
    ticks = iter([0.0, 1.0, 2.0, 3.0, 4.0, 3.5])
    journal = tmp_path / "journal"
    with pytest.raises(ExecutionError, match=r"the clock went back by 0\.5 s"):
        _search(journal=journal, clock=lambda: next(ticks))
    assert len(journal.read_text().splitlines()) == 3  # its head, and two answers
    lab = FakeLab()
    result = _search(lab, journal)
    assert entries(result.found) == entries(_search().found)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device without space")
def test_no_space_left(tmp_path: Path) -> None:
    (tmp_path / "journal").symlink_to("/dev/full")
    with pytest.raises(ExecutionError, match=r"No space left on device"):
        _search(journal=tmp_path / "journal")


def test_the_journal_of_another_search_is_not_taken(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    _search(journal=journal)
    with pytest.raises(InputError, match=r"journal of something else \(seed\): remove"):
        Journal.open(journal, {"seed": 1})
    lines = journal.read_text().splitlines()
    row = json.loads(lines[3])
    lines[3] = json.dumps({**row, "asked": {"race": "something"}})
    journal.write_text("\n".join([*lines, ""]))
    with pytest.raises(InputError, match="to another question"):
        _search(journal=journal)
    journal.write_text("words\n")
    with pytest.raises(InputError, match="no line of a journal"):
        _search(journal=journal)


def test_trees_need_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'hlotool\[tune\]'"):
        search(SUBJECTS, FakeLab(), Budget(trials=9), Plan(model="trees"), Journal.open(None, {}))


def test_trees_learn_what_gains() -> None:
    """One value of a knob gains on every kernel: of two that were tried nowhere else, it comes first."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    model = Model("trees")
    for number in range(40):
        subject = replace(SUBJECTS[0], bytes=10.0 ** (3 + number % 5), flops=10.0 ** (4 + number % 3))
        value = (1, 2, 4, 8)[number % 4]
        model.learn(subject, ("steps", value), 0.2 if value == 8 else -0.1)
        model.learn(subject, ("tile_rows", 1 + number % 20), 0.0)
    new = replace(SUBJECTS[0], bytes=3e4, flops=3e5)
    ranks = {value: model.rank(new, ("steps", value)) for value in (1, 2, 4, 8)}
    assert max(ranks, key=ranks.__getitem__) == 8
    assert ranks[8] > model.rank(new, ("tile_rows", 7)) > ranks[1]


def test_searches_by_trees_end_the_same(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    plan, journal = Plan(model="trees"), tmp_path / "journal"
    whole = search(SUBJECTS, FakeLab(), Budget(trials=80), plan, Journal.open(journal, {}))
    assert whole.found
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[: len(lines) // 2]))
    lab = FakeLab()
    again = search(SUBJECTS, lab, Budget(trials=80), plan, Journal.open(journal, {}))
    assert [(one.change, one.word, one.ratio) for one in again.tries if one.ratio == one.ratio] == [
        (one.change, one.word, one.ratio) for one in whole.tries if one.ratio == one.ratio
    ]
    assert entries(again.found) == entries(whole.found)
    assert 0 < lab.asked < len(lines)


def test_a_budget_counts_no_time_for_which_the_process_was_stopped() -> None:
    now = [10.0]
    clock = Awake(lambda: now[0])
    begin = clock()
    for step in (0.25, 0.5, 3600.0, 0.25):
        now[0] += step
        clock()
    assert 1.0 < clock() - begin < 5.0
    now[0] -= 5.0
    assert clock() < begin  # a clock that goes back is no secret: searches end there


def test_a_job_has_its_time_though_all_are_stopped_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of five seconds, and a stop of an hour: most of the five are still to come then."""
    now, looks = [0.0], []

    class Done:
        def wait(self, seconds: float) -> bool:
            now[0] += 3600.0 if len(looks) == 3 else seconds
            looks.append(seconds)
            return False

    monkeypatch.setattr(awake.time, "monotonic", lambda: now[0])
    assert awake.elapses(5.0, Done())
    assert 2.0 < sum(looks) <= 5.0


# ---- in child processes

_BIG = MODULE.replace("64,", "128,").replace("[80,96]", "[80,256]").replace(",96]", ",256]")


def _subject(text: str = _BIG) -> Subject:
    root = parse(text).entry.root
    return Subject(kind=kind_of(root), key="key", about=about(root), text=text, seconds=1e-3)


@pytest.fixture
def lab():
    found = Local(Setting(named("host"), None, False), limit=60)
    yield found
    found.close()


def test_candidates_are_compiled_checked_and_timed(lab: Local) -> None:
    subject = _subject()
    found = lab.distinct(subject, changes(subject, exact=False), {})
    assert ("tile_vectors", 1) in found or ("tile_rows", 1) in found
    assert len(found) < len(changes(subject, exact=False))
    right, same = lab.check(subject, [{"vector_bits": 128}, {"block_rows": 28}])
    assert (right.word, same.word, same.exact) == ("ok", "ok", True)
    row = lab.race(subject, {}, {"vector_bits": 128}, 0.2, 0)
    assert row.low <= row.ratio <= row.high
    assert row.seconds > 0


def test_code_that_cannot_be_written_costs_a_search_that_choice_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child dies of one choice of several that it was asked about; of two others the code is the same."""

    def start(self: Local, function: object, subject: Subject, steps: list[dict[str, int]], setting: Setting):
        answer = Future()
        if {"steps": 4} in steps:
            answer.set_exception(ChildDied(11, ""))
        else:
            answer.set_result([str(sorted(one.items())) if one != {"steps": 8} else "[]" for one in steps])
        return answer

    monkeypatch.setattr(Local, "_start", start)
    every = [*(("steps", value) for value in (1, 2, 4, 8)), *(("tile_rows", value) for value in range(1, 12))]
    found = Local(Setting(named("host"), None, False)).distinct(SUBJECTS[0], every, {})
    assert found == [one for one in every if one not in (("steps", 4), ("steps", 8))]


def test_a_candidate_that_dies_or_hangs_takes_nothing_down(lab: Local) -> None:
    assert lab._answer(lab._start(os.abort)) == "crashed: the process died of signal 6"
    assert lab._answer(lab._start(os._exit, 3)) == "crashed: the process died of exit code 3"
    lab._child.allow(0.3)
    assert lab._answer(lab._start(time.sleep, 60)) == "hung: longer than 0.3 s"
    lab._child.allow(60)
    assert lab.check(_subject(), [{"block_rows": 28}])[0].word == "ok"


def test_wrong_numbers_are_never_timed(lab: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits that differ are wrong where all have to stay; numbers beyond their bounds always are."""
    exact = Local(Setting(named("host"), None, True), limit=60)
    try:
        found = exact.check(_subject(), [{"vector_bits": 128, "tile_vectors": 1}, {"block_rows": 28}])
    finally:
        exact.close()
    assert found[1].word == "ok"
    assert all(one.exact for one in found if one.word == "ok")
    from hlotool.harness.tune import trial

    arrays, zeros = tuple(random_inputs(parse(_BIG), 0)), np.zeros((128, 256), np.float32)
    usual = compile_module(parse(_BIG), tune="off")(*arrays)
    monkeypatch.setattr(trial, "_usual", lambda subject, setting: (arrays, usual))
    monkeypatch.setattr(trial, "_executable", lambda *given: lambda *arrays: (zeros,))
    answer = trial.check(_subject(), {}, Setting(named("host"), None, False))
    assert answer.word == "wrong"
    assert "elements differ" in answer.why


# ---- the command


def _home(tmp_path: Path) -> dict[str, str]:
    return {"HLOTOOL_TUNE_DATABASE": str(tmp_path / "db.jsonl")}


def test_tune_and_take(hlotool, tmp_path: Path) -> None:
    file, env = tmp_path / "m.hlo", _home(tmp_path)
    file.write_text(MODULE)
    found = hlotool("tune", file, "--trials", "8", "--format", "json", "--picture", tmp_path / "p.svg", env=env)
    assert found.returncode == 0, found.stderr
    answer = check_json(found.stdout)
    assert answer["tries"] == sum(answer["outcomes"].values()) <= 8
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    assert not (tmp_path / "db.jsonl.journal").exists()
    shown = check_json(hlotool("tune", "--show", "--format", "json", env=env).stdout)
    assert len(shown["entries"]) == len(answer["found"])
    assert hlotool("run", file, "--tune", "read", "--compare", "evaluate", env=env).returncode == 0


def test_kernels_are_noted_and_searched(hlotool, tmp_path: Path) -> None:
    file, env = tmp_path / "m.hlo", _home(tmp_path)
    file.write_text(MODULE)
    nothing = hlotool("tune", "--trials", "3", env=env)
    assert nothing.returncode == 3
    assert "give a FILE" in nothing.stderr
    assert hlotool("run", file, "--tune", "write", env=env).returncode == 0
    assert hlotool("run", file, "--tune", "write", env=env).returncode == 0
    shown = check_json(hlotool("tune", "--show", "--format", "json", env=env).stdout)
    assert shown["wanted"] == 1
    found = check_json(hlotool("tune", "--trials", "3", "--format", "json", env=env).stdout)
    assert found["subjects"] == 1


def test_the_space_is_data(hlotool, tmp_path: Path) -> None:
    answer = check_json(hlotool("tune", "-", "--space", "--format", "json", stdin=MODULE).stdout)
    (kernel,) = answer["kernels"]
    assert kernel["kind"] == "product"
    names = {knob["name"] for knob in kernel["knobs"]}
    assert {"tile_rows", "pack_right", "vector_bits", "threads"} <= names
    assert any(knob["other_code"] for knob in kernel["knobs"])
    assert "tile_" in hlotool("tune", "-", "--space", stdin=MODULE).stdout


def test_a_search_that_is_cut_off_goes_on(hlotool, tmp_path: Path) -> None:
    file, env = tmp_path / "m.hlo", _home(tmp_path)
    file.write_text(MODULE)
    (tmp_path / "db.jsonl.journal").write_text('{"kind": "tune-journal", "seed": 7}\n')
    other = hlotool("tune", file, "--trials", "3", env=env)
    assert other.returncode == 3
    assert "the journal of something else" in other.stderr
    assert "--journal" in other.stderr


def test_a_search_that_is_cut_off_while_it_profiles_goes_on_with_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were profiled are not profiled again, and their seconds count in the budget."""
    files = {name: parse(MODULE.replace("64,", f"{size},")) for name, size in (("one", 64), ("two", 32))}
    asked: list[str] = []

    def kernels(module: Module, *given: object) -> list[Subject]:
        asked.append(str(module.entry.root.shape))
        if cut_off and len(asked) == 2:
            raise KeyboardInterrupt
        now[0] += 7.0
        return [replace(SUBJECTS[len(asked)], about=str(module.entry.root.shape))]

    monkeypatch.setattr(tune_command, "_kernels", kernels)
    setting, journal, now, cut_off = Setting(named("host"), None, False), tmp_path / "journal", [0.0], True

    def find() -> tuple[list[Subject], float]:
        return tune_command._kernel_subjects(
            files, setting, 9, tmp_path / "db", {}, Journal.open(journal, {}), lambda: now[0], lambda words: None
        )

    with pytest.raises(KeyboardInterrupt):
        find()
    cut_off = False
    subjects, seconds = find()
    assert asked == ["f32[64,96]", "f32[32,96]", "f32[32,96]"]
    assert {one.about for one in subjects} == {"f32[64,96]", "f32[32,96]"}
    assert seconds == 14.0
    assert find() == (subjects, seconds)
    assert len(asked) == 3
    assert tune_command._less(100.0, 14.0, 100.0) == 86.0
    assert tune_command._less(20.0, 14.0, 100.0) == 10.0
    assert tune_command._less(None, 14.0, None) is None


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--executor", "nowhere:make"), 3, "No module named"), (("--executor", "os:getpid"), 3, "no executor"),
        (("--executor", "processes:0"), 2, "N from 1 to 256"), (("--show",), 2, "go without FILE"),
        (("--cpu", "aarch64"), 4, "cannot"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(hlotool, tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(MODULE)
    found = hlotool("tune", file, "--trials", "2", *words, env=_home(tmp_path))
    assert found.returncode == code, found.stderr
    assert says in found.stderr


def test_databases_are_looked_after(hlotool, tmp_path: Path) -> None:
    env, path, other = _home(tmp_path), tmp_path / "db.jsonl", tmp_path / "other"
    _written(path, _host_entry(gain=0.1))
    with path.open("a") as file:
        file.write(line_of(_host_entry(version="0/0", key="old")) + "\n")
    _written(other, _host_entry(gain=0.3, choices=Choices(tile_rows=4)), _host_entry(key="more", target="elsewhere"))
    found = hlotool("tune", "--merge", other, "--prune", "--show", env=env)
    assert found.returncode == 0, found.stderr
    assert "tile_rows=4" in found.stdout
    assert len(read_database(path).entries) == 2
    assert not read_database(path).notes
    assert hlotool("tune", "--export", tmp_path / "mine", env=env).returncode == 0
    assert len(read_database(tmp_path / "mine").entries) == 1


def test_workers_check_candidates(hlotool, tmp_path: Path) -> None:
    file, env = tmp_path / "m.hlo", _home(tmp_path)
    file.write_text(MODULE)
    found = hlotool(
        "tune", file, "--trials", "6", "--scope", "kernels", "--executor", "processes:2", "--format", "json", env=env
    )
    assert check_json(found.stdout)["tries"] == 6


def test_children_are_executors() -> None:
    """What --executor takes by name: any executor that runs pickled functions."""
    with Children(1, 30) as workers:
        lab = Local(Setting(named("host"), None, False), 30, workers)
        try:
            assert lab.check(_subject(), [{"block_rows": 28}])[0].word == "ok"
        finally:
            lab.close()
