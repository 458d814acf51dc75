"""Inputs in words and files, edge values, repeated and isolated runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from conftest import Run, environment

from hlotool.harness.edge_values import edge_values, with_edge_values
from hlotool.harness.input_spec import parse_input
from hlotool.harness.inputs import Input
from hlotool.harness.repeats import first_differences
from hlotool.harness.safetensors import Safetensors, write_safetensors
from hlotool.ir import ELEMENT_TYPES, InputError, Shape, UnsupportedError, dtype_of

MODULE = """HloModule m

ENTRY e {
  p = f32[4]{0} parameter(0)
  q = s32[3]{0} parameter(1)
  s = f32[4]{0} multiply(p, p)
  ROOT t = (f32[4]{0}, s32[3]{0}) tuple(s, q)
}
"""
LONG = """HloModule m

c {
  p = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}

b {
  p = s32[] parameter(0)
  i = s32[] constant(1)
  ROOT n = s32[] add(p, i)
}

ENTRY e {
  p = s32[] parameter(0)
  ROOT w = s32[] while(p), condition=c, body=b
}
"""


def _outputs(text: str) -> list[list[float]]:
    return [[float(word) for word in line[1:-1].split()] for line in text.splitlines() if line.startswith("[")]


@pytest.mark.parametrize(
    ("text", "kind", "size", "values"),
    [
        ("1..4", "f32", (4,), [1, 2, 3, 4]),
        ("0.5 .. -0.5", "f64", (3,), [0.5, 0, -0.5]),
        ("0..10", "s32", (2, 2), [[0, 3], [7, 10]]),
        ("3..9", "u8", (), 3),
        ("4xf32=2", "f32", (4,), [2, 2, 2, 2]),
        ("2x2xs8=[[1, 2], [3, 4]]", "s8", (2, 2), [[1, 2], [3, 4]]),
        ("f32[2]=[1 2]", "f32", (2,), [1, 2]),
        ("f32=7", "f32", (), 7),
        ("pred[]=true", "pred", (), True),
        ("integers(5,5)", "s64", (2,), [5, 5]),
        ("uniform(2,2)", "bf16", (2,), [2, 2]),
        ("normal(3,0)", "c64", (2,), [3 + 0j, 3 + 0j]),
    ],
)
def test_values_in_words(text: str, kind: str, size: tuple[int, ...], values: object) -> None:
    found = parse_input(text, Shape(kind, size))
    assert found.shape == size
    assert found.dtype == dtype_of(kind)
    np.testing.assert_array_equal(found.astype(np.asarray(values).dtype), np.asarray(values))


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        ("5xf32=1", "f32", "5xf32 is given, where f32\\[2\\] is taken"),
        ("2xf64=1", "f32", "where f32\\[2\\] is taken"),
        ("normal(0)", "f32", "expected normal\\(MEAN,DEVIATION\\)"),
        ("normal(0,-1)", "f32", "expected normal"),
        ("normal(0,1)", "s32", "normal is not for s32"),
        ("integers(0,1)", "f32", "integers is not for f32"),
        ("integers(0,300)", "u8", "out of the range"),
        ("integers(0,1e30)", "s32", "expected integers"),
        ("1..x", "f32", "expected numbers"),
        ("-1..4", "u8", "out of the range"),
    ],
)
def test_words_that_do_not_fit(text: str, kind: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        parse_input(text, Shape(kind, (2,)))


def test_random_words_follow_their_generator() -> None:
    shape = Shape("f32", (1000,))
    one, same, other = (parse_input("normal(5,2)", shape, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert abs(one.mean() - 5) < 0.5
    assert abs(one.std() - 2) < 0.3
    drawn = parse_input("integers(-2,3)", Shape("s16", (1000,)))
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2, 3}
    parse_input("integers(0,18446744073709551615)", Shape("u64", (4,)))


def test_inputs_without_a_name_go_in_order(hlotool: Run) -> None:
    ran = hlotool("run", "-", "--input", "4xf32=1..4", "--input", "3xs32=7", stdin=MODULE)
    assert _outputs(ran.stdout) == [[1, 4, 9, 16], [7, 7, 7]]
    ran = hlotool("run", "-", "--input", "q=7", "--input", "4xf32=1..4", stdin=MODULE)
    assert _outputs(ran.stdout) == [[1, 4, 9, 16], [7, 7, 7]]
    assert hlotool("run", "-", "--input", "4xf32=1", "--input", "4xf32=1", stdin=MODULE).returncode == 3
    missing = hlotool("run", "-", "--input", "4xf32=1..4", stdin=MODULE)
    assert missing.returncode == 2
    assert "no value for q" in missing.stderr


def test_files_of_arrays(hlotool: Run, tmp_path: Path) -> None:
    p, q = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.int32)
    np.savez(tmp_path / "by_name.npz", p=p, q=q, unused=p)
    np.savez(tmp_path / "by_number.npz", arg0=p, arg1=q)
    np.save(tmp_path / "p.npy", p)
    with open(tmp_path / "x.safetensors", "wb") as stream:
        write_safetensors(stream, [("p", p), ("q", q), ("unused", q)])
    want = [[0, 1, 4, 9], [0, 1, 2]]
    for words in (
        ["--inputs", "by_name.npz"], ["--inputs", "by_number.npz"], ["--inputs", "x.safetensors"],
        ["--input", "@p.npy", "--input", "q=@by_name.npz:q"], ["--input", "@x.safetensors:p", "--input", "q=0,1,2"],
    ):  # fmt: skip
        ran = hlotool("run", "-", *words, stdin=MODULE)
        assert _outputs(ran.stdout) == want, (words, ran.stderr)
    assert hlotool("run", "-", "--inputs", "x.safetensors", "-o", "y.safetensors", stdin=MODULE).returncode == 0
    with Safetensors(str(tmp_path / "y.safetensors")) as found:
        assert found.names == {"out0", "out1"}
        assert found.read("out0").tolist() == want[0]
    for words, match in (
        (["--inputs", "y.safetensors"], "no array arg0 or p"), (["--inputs", "p.npy"], "neither an archive"),
        (["--input", "@x.safetensors:w", "--random", "0"], "no array w; there are p, q, unused"),
        (["--inputs", "nothing.safetensors"], "cannot read|No such file"), (["--inputs", "nothing"], "cannot read"),
    ):  # fmt: skip
        ran = hlotool("run", "-", *words, stdin=MODULE)
        assert ran.returncode == 3
        assert any(part in ran.stderr for part in match.split("|")), ran.stderr
    (tmp_path / "bad.safetensors").write_bytes(b"\x01" * 100)
    assert "not a file of safetensors" in hlotool("run", "-", "--inputs", "bad.safetensors", stdin=MODULE).stderr


@pytest.mark.parametrize("kind", ["bf16", "f8e4m3fn", "f8e5m2", "f8e8m0fnu", "f16", "pred", "s8", "u64", "c64"])
def test_types_of_safetensors(kind: str, tmp_path: Path) -> None:
    array = np.arange(1, 5).astype(dtype_of(kind))
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as stream:
        write_safetensors(stream, [("x", array)])
    with Safetensors(str(path)) as found:
        back = found.read("x")
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


def test_types_that_safetensors_lack() -> None:
    with open(os.devnull, "wb") as stream, pytest.raises(UnsupportedError, match=r"\.npz"):
        write_safetensors(stream, [("x", np.zeros(2, ml_dtypes.int4))])


@pytest.mark.parametrize("kind", [kind for kind in ELEMENT_TYPES if kind not in ("token", "opaque", "tuple", "buffer")])
def test_edge_values_are_of_their_type(kind: str) -> None:
    values = edge_values(Shape(kind, ()))
    assert values.dtype == dtype_of(kind)
    assert values.size >= 2
    if kind in ("f32", "f64", "f16", "bf16"):
        wide = values.astype(np.float64)
        about = ml_dtypes.finfo(values.dtype)
        for wanted in (np.inf, -np.inf, float(about.max), float(about.smallest_subnormal), 0.0, 1.0):
            assert wanted in wide
        assert np.isnan(wide).any()
        assert (np.signbit(wide) & (wide == 0)).any()


def test_edge_values_stay_within_what_they_index() -> None:
    leaf, array = Input("i", Shape("s32", (100,)), bound=5), np.full(100, 2, np.int32)
    (found,) = with_edge_values([leaf], [array], 0.5, 0)
    assert set(found.tolist()) == {0, 2, 4}
    assert (array == 2).all()
    assert np.count_nonzero(found == 2) in range(30, 70)


def test_edge_values_reach_the_program(hlotool: Run) -> None:
    one, again, other = (
        hlotool("run", "-", "--edge-values", "100%", *more, stdin=MODULE).stdout
        for more in ([], ["--random", "0"], ["--random", "5"])
    )
    assert one == again != other
    assert any(str(value) in one for value in (-(2**31), 2**31 - 1, -1))
    assert hlotool("run", "-", "--edge-values", "7", stdin=MODULE).returncode == 2
    assert hlotool("run", "-", "--edge-values", "--compare", "evaluate", stdin=MODULE).returncode == 0


def test_runs_are_compared_bit_for_bit(hlotool: Run) -> None:
    ran = hlotool("run", "-", "--repeat", "4", "--bitwise", stdin=MODULE)
    assert ran.returncode == 0
    assert "4 runs: equal bit for bit" in ran.stdout
    answer = json.loads(hlotool("run", "-", "--repeat", "4", "--bitwise", "--format", "json", stdin=MODULE).stdout)
    assert answer["repeats"] == {"runs": 4, "verdict": "ok", "differing": []}
    assert hlotool("run", "-", "--bitwise", stdin=MODULE).returncode == 2
    assert hlotool("run", "-", "--repeat", "3", "-o", "x.npz", stdin=MODULE).stdout == ""


def test_runs_that_differ_are_told(hlotool: Run, tmp_path: Path) -> None:
    """A custom call that counts gives something else every time."""
    (tmp_path / "counting.py").write_text(
        "import itertools\n"
        "import numpy as np\n"
        "import hlotool\n"
        "from hlotool.cli import main\n"
        "count = itertools.count()\n"
        "hlotool.register_custom_call('count', lambda given, call: [given[0] + np.float32(next(count) // 2)])\n"
        "main()\n"
    )
    module = MODULE.replace("multiply(p, p)", 'custom-call(p), custom_call_target="count"')
    (tmp_path / "m.hlo").write_text(module)
    ran = subprocess.run(
        [sys.executable, "counting.py", "run", "m.hlo", "--repeat", "4", "--bitwise"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert "out0: 4 elements differ in run 3, the first at [0]" in ran.stderr


def test_first_differences_sees_bits() -> None:
    zeros = np.zeros((2, 3), np.float32)
    runs = iter([[zeros, zeros], [zeros, -zeros], [zeros, zeros]])
    (found,) = first_differences([zeros, zeros], lambda: next(runs), 4)
    assert (found.output, found.run, found.count, found.index) == (1, 3, 6, (0, 0))
    complex_ = np.array([1 + 0j, complex(0, np.nan)])
    assert first_differences([complex_], lambda: [complex_.copy()], 2) == []
    assert first_differences([np.zeros(0)], lambda: [np.zeros(0)], 2) == []
    scalar = np.array(1, np.int8)
    assert first_differences([scalar], lambda: [np.array(2, np.int8)], 2)[0].index == ()
    (sizes,) = first_differences([zeros], lambda: [np.zeros((2, 2), np.float32)], 2)
    assert sizes.count == 4


def test_a_run_in_a_process_of_its_own(hlotool: Run) -> None:
    for words in ([], ["--memory-limit", "8GiB"], ["--memory-limit=8GiB"]):
        ran = hlotool("run", "-", "--isolate", *words, "--input", "p=1..4", "--input", "q=0", stdin=MODULE)
        assert (ran.returncode, _outputs(ran.stdout)) == (0, [[1, 4, 9, 16], [0, 0, 0]])
    assert hlotool("run", "-", "--isolate", stdin="nonsense").returncode == 3
    assert hlotool("run", "-", "--isolate", "--input", "nonsense", stdin=MODULE).returncode == 2
    assert hlotool("run", "-", "--memory-limit", "1GiB", stdin=MODULE).returncode == 2
    assert hlotool("run", "-", "--isolate", "--memory-limit", "much", stdin=MODULE).returncode == 2


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
def test_memory_that_a_run_may_take(hlotool: Run) -> None:
    large = MODULE.replace("f32[4]", "f32[400000000]")
    ran = hlotool("run", "-", "--isolate", "--memory-limit", "1GiB", "--input", "p=1", "--input", "q=1", stdin=large)
    assert ran.returncode == 5
    assert "memory" in ran.stderr


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found in /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGSEGV, 5), (signal.SIGKILL, 5), (signal.SIGINT, 130)])
def test_how_an_isolated_run_ends(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(LONG)
    process = subprocess.Popen(
        [sys.executable, "-m", "hlotool", "run", "m.hlo", "--isolate", "--input", "p=1"],
        cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.05)
    while int(Path(f"/proc/{found[0]}/stat").read_text().rpartition(")")[2].split()[11]) < 100:  # it runs
        time.sleep(0.05)
    if sent == signal.SIGINT:
        os.killpg(process.pid, sent)
    else:
        os.kill(int(found[0]), sent)
    _, errors = process.communicate()
    assert process.returncode == code, errors
    assert ("interrupted" if code == 130 else f"ended by {sent.name}") in errors
    assert not Path(f"/proc/{found[0]}").exists()


def test_a_snapshot_gives_its_arguments_to_another_file(hlotool: Run, tmp_path: Path) -> None:
    snapshot = (
        'hlo { hlo_module { name: "m" entry_computation_name: "e" id: 1 entry_computation_id: 1 computations { '
        'name: "e" id: 1 root_id: 1 instructions { name: "p" opcode: "parameter" id: 1 '
        "shape { element_type: F32 dimensions: 4 is_dynamic_dimension: false layout { minor_to_major: 0 } } } } } } "
        "arguments { shape { element_type: F32 dimensions: 4 is_dynamic_dimension: false "
        "layout { minor_to_major: 0 } } f32s: 1 f32s: 2 f32s: 3 f32s: 5 }"
    )
    (tmp_path / "s.pbtxt").write_text(snapshot)
    double = "HloModule d\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  ROOT r = f32[4]{0} add(p, p)\n}\n"
    ran = hlotool("run", "-", "--inputs", "s.pbtxt", stdin=double)
    assert _outputs(ran.stdout) == [[2, 4, 6, 10]], ran.stderr
    assert hlotool("run", "-", "--inputs", "s.pbtxt", stdin=MODULE).returncode == 3
    with pytest.raises(InputError):
        Safetensors(str(tmp_path / "none.safetensors"))


@pytest.mark.parametrize(
    "line",
    [
        "bench m.hlo --no-roof --time 0 --warmup 0 --rounds 1", "extract m.hlo s --capture out.npz -o out.hlo",
        "memory m.hlo --measure", "opt m.hlo --check-each evaluate", "bisect passes m.hlo",
    ],
)  # fmt: skip
@pytest.mark.parametrize("archive", ["named.npz", "named.safetensors"])
def test_inputs_by_name_for_other_commands(hlotool: Run, tmp_path: Path, line: str, archive: str) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    p, q = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.int32)
    np.savez(tmp_path / "named.npz", p=p, q=q)
    with open(tmp_path / "named.safetensors", "wb") as stream:
        write_safetensors(stream, [("p", p), ("q", q)])
    done = hlotool(*line.split(), "--inputs", archive)
    assert done.returncode == (1 if line.startswith("bisect") else 0), done.stderr
    if "--capture" in line:
        with np.load(tmp_path / "out.npz") as found:
            assert found["out0"].tolist() == (p * p).tolist()
    done = hlotool(*line.split(), "--inputs", "absent.npz")
    assert (done.returncode, "cannot read absent.npz" in done.stderr) == (3, True)
