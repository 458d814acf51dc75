"""Memory as the plan has it: what takes it, when, and for what; the chart, the hints, the gate, a process measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import ROOT, Run, environment, has_worked
from json_schemas import check_json
from tiny_modules import ENDLESS

from hlotool.codegen.machine import host
from hlotool.codegen.program import build
from hlotool.driver import compile_module
from hlotool.harness.resident import measure_resident, process_bytes
from hlotool.inspect.memory import BufferPlan, buffer_plan, live_bytes, peak_buffers, peak_position, step_at
from hlotool.inspect.memory_chart import charted, live_range_chart, live_range_text
from hlotool.inspect.memory_hints import donatable, waiting
from hlotool.runtime.executable import Executable
from hlotool.runtime.memory import held_bytes
from hlotool.text.parser import parse

MLP = ROOT / "samples" / "mlp_step.hlo"
CHAIN = """HloModule chain
ENTRY e {
  x = f32[1024,256] parameter(0), metadata={op_name="jit(f)/x" source_file="net.py" source_line=3}
  w = f32[256,256] parameter(1)
  held = f32[1024,256] exponential(x), metadata={op_name="jit(f)/exp" source_file="net.py" source_line=4}
  a = f32[1024,256] dot(held, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[1024,256] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[1024,256] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[1024,256] add(held, c)
}
"""
MANY = 1024 * 256 * 4


def compiled(text: str) -> Executable:
    return compile_module(parse(text), pipeline="none")


def plan_of(executable: Executable) -> BufferPlan:
    assert executable.program is not None
    return buffer_plan(executable.program.assignment, executable.module)


def test_every_buffer_has_a_name_and_they_add_up() -> None:
    executable = compile_module(parse(MLP.read_text()))
    plan, memory = plan_of(executable), executable.memory
    assert all(buffer.title for buffer in plan.buffers)
    titles = [buffer.title for buffer in plan.buffers]
    assert len(set(titles)) == len(titles)
    assert sum(b.size for b in plan.buffers if b.kind == "parameter") == memory.parameter_bytes
    assert sum(b.size for b in plan.buffers if b.kind == "output") == memory.output_bytes
    assert max(amount for _, amount in live_bytes(plan)) <= memory.arena_bytes == plan.arena_bytes


def test_scratch_says_what_it_is_for() -> None:
    plan = plan_of(compiled(CHAIN))
    scratch = [buffer for buffer in plan.buffers if buffer.kind == "scratch"]
    assert {buffer.title for buffer in scratch} == {"scratch of a", "scratch of b", "scratch of c"}
    for buffer in scratch:
        assert sum(size for _, size in buffer.uses) == buffer.size
        assert any("right operand" in use for use, _ in buffer.uses)


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("f32[64,5000] sort(x), dimensions={1}, to_apply=less", "private arrays of 16 tasks"),
        ("c64[64,5000] fft(z), fft_type=FFT, fft_length={5000}", "lines that are being transformed"),
    ],
)
def test_scratch_of_other_kernels_says_so_too(instruction: str, words: str) -> None:
    text = (
        "HloModule m\nless { a = f32[] parameter(0) b = f32[] parameter(1) "
        "ROOT c = pred[] compare(a, b), direction=LT }\n"
        "ENTRY e { x = f32[64,5000] parameter(0)\n z = c64[64,5000] parameter(1)\n ROOT r = " + instruction + " }"
    )
    (scratch,) = [buffer for buffer in plan_of(compiled(text)).buffers if buffer.kind == "scratch"]
    assert words in scratch.uses[0][0]
    assert scratch.uses[0][1] == scratch.size


def test_scratch_of_a_call_is_for_what_it_calls() -> None:
    body = CHAIN.replace("HloModule chain\nENTRY e", "HloModule m\nchain")
    module = parse(
        body + "ENTRY e { x = f32[1024,256] parameter(0)\n w = f32[256,256] parameter(1)\n"
        " one = f32[1024,256] call(x, w), to_apply=chain\n ROOT two = f32[1024,256] call(one, w), to_apply=chain }"
    )
    plan = buffer_plan(build(module, host()).assignment, module)
    assert {use for buffer in plan.buffers for use, _ in buffer.uses} == {"temporaries of chain"}


def test_buffers_know_where_they_come_from_and_who_touches_them() -> None:
    plan = plan_of(compiled(CHAIN))
    held = next(buffer for buffer in plan.buffers if "held" in buffer.names)
    assert (held.source, held.op_name, held.line) == ("net.py:4", "jit(f)/exp", 5)
    assert [name for _, name in held.touches][:2] == ["held", "a"]
    assert [name for _, name in held.touches][-1] == "r"


def test_what_waits_at_the_peak_is_named() -> None:
    text = CHAIN.replace("  ROOT r = f32[1024,256] add(held, c)", """  d = f32[1024,256] add(held, c)
  ROOT r = f32[256,256] dot(d, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}""")
    plan = plan_of(compiled(text))
    assert step_at(plan, peak_position(plan)) in ("b", "c")
    assert [(one.buffer.names[0], one.after, one.until) for one in waiting(plan, 4 * MANY)] == [("held", "a", "d")]
    assert waiting(plan, 100 * MANY) == []
    assert all(b.start <= peak_position(plan) <= b.end for b in peak_buffers(plan))


def test_donations_that_would_save_are_found_and_save_as_much_as_they_say() -> None:
    executable = compiled(CHAIN)
    found, taken = donatable(executable.module, host(), executable.donated)
    assert [(one.result, one.number, one.name, one.bytes) for one in found] == [(0, 0, "x", MANY)]
    memory = executable.memory
    saved = memory.arena_bytes + memory.output_bytes - taken
    after = compile_module(parse(CHAIN), pipeline="none", donate=[0]).memory
    assert saved == memory.peak_bytes - after.peak_bytes > 0
    again = compile_module(parse(CHAIN), pipeline="none", donate=[0])
    assert donatable(again.module, host(), again.donated)[0] == []


def test_the_chart_names_every_bar() -> None:
    plan = plan_of(compile_module(parse(MLP.read_text())))
    rows = charted(plan, 0)
    root = ElementTree.fromstring(live_range_chart(plan, "title", 0))
    words = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(buffer.title in words for buffer in rows)
    bars = [n for n in root.iter("{http://www.w3.org/2000/svg}rect") if n.get("height") == "14"]
    assert len(bars) == len(rows)
    lines = live_range_text(plan, 4).splitlines()
    assert len(lines) == 1 + 4 + 2
    assert lines[-1].startswith("not drawn: ")
    nothing = plan_of(compiled("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }"))
    assert "no temporaries" in live_range_chart(nothing, "t")


def test_the_chart_of_nothing() -> None:
    plan = plan_of(compiled("HloModule m\nENTRY e { ROOT p = f32[0] parameter(0) }"))
    assert live_range_text(plan)
    ElementTree.fromstring(live_range_chart(plan, "t"))


# ---- the command


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "chain.hlo"
    path.write_text(CHAIN)
    return path


def test_the_report(hlotool: Run, chain: Path) -> None:
    done = hlotool("memory", chain, "-p", "none", "--cpu", "x86-64-v3")  # tile registers take other scratch
    assert done.returncode == 0
    for words in ("at peak, most at", "largest buffers at the peak", "net.py:4", "packed right operand", "live ranges",
                  "--donate 0, where the caller can give them up, saves 1 MiB"):  # fmt: skip
        assert words in done.stdout, words
    donated = hlotool("memory", "-", "-p", "none", "--donate", "0", stdin=CHAIN)
    assert "1 lie in arguments" in donated.stdout
    assert "--donate" not in donated.stdout


def test_the_json(hlotool: Run, chain: Path) -> None:
    answer = check_json(hlotool("memory", chain, "-p", "none", "--format", "json", "--limit", "3").stdout)
    parts = ("arena_bytes", "parameter_bytes", "output_bytes", "constant_bytes")
    assert answer["peak_bytes"] == sum(answer[part] for part in parts)
    assert len(answer["at_peak"]) == 3
    sizes = [buffer["bytes"] for buffer in answer["at_peak"]]
    assert sizes == sorted(sizes, reverse=True)
    assert answer["hints"]["donations"] == [{"result": 0, "number": 0, "leaf": 0, "name": "x", "bytes": MANY}]
    assert (answer["limit_bytes"], answer["within_limit"], answer["measured"]) == (None, None, None)


def test_declared_donations_that_nobody_makes(hlotool: Run) -> None:
    text = CHAIN.replace("HloModule chain", "HloModule chain, input_output_alias={ {}: (0, {}, may-alias) }")
    assert "--donate declared makes them" in hlotool("memory", "-", stdin=text).stdout
    assert "makes them" not in hlotool("memory", "-", "--donate", "declared", stdin=text).stdout


def test_pictures(hlotool: Run, chain: Path, tmp_path: Path) -> None:
    for name in ("ranges.svg", "page.html"):
        assert hlotool("memory", chain, "-o", name).returncode == 0
    ElementTree.parse(tmp_path / "ranges.svg")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "largest buffers" in page.lower()


@pytest.mark.parametrize(("ceiling", "code"), [("1GiB", 0), ("4MiB", 1), ("4000000", 1), ("1 KB", 1)])
def test_the_gate(hlotool: Run, chain: Path, ceiling: str, code: int) -> None:
    done = hlotool("memory", chain, "-p", "none", "--fail-if-peak", ceiling, "--format", "json")
    assert done.returncode == code
    assert check_json(done.stdout)["within_limit"] is (code == 0)
    assert ("takes more than" in done.stderr) is (code == 1)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (("--fail-if-peak", "much"), CHAIN, 2, "is no size"),
        (("--donate", "7"), CHAIN, 3, "no parameter 7"),
        ((), "HloModule m\nENTRY e { p = f32[", 3, "error"),
        ((), "HloModule m\nENTRY e { ROOT p = f32[?] parameter(0) }", 4, ""),
        (("--measure", "--inputs", "none.npz"), CHAIN, 3, "none.npz"),
    ],
)
def test_what_memory_refuses(hlotool: Run, arguments: tuple[str, ...], stdin: str, code: int, words: str) -> None:
    done = hlotool("memory", "-", *arguments, stdin=stdin)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


# ---- measured

LARGE = """HloModule large
ENTRY e {
  x = f32[1600,4096] parameter(0)
  w = f32[4096,64] parameter(1)
  k = f32[2000,1000] parameter(2)
  t = f32[4096,1600] transpose(x), dimensions={1,0}
  e = f32[4096,1600] exponential(t)
  d = f32[64,1600] dot(w, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  s = f32[4096,1600] cosine(e)
  p = f32[2000,1000] add(k, k)
  ROOT r = (f32[64,1600], f32[4096,1600], f32[2000,1000]) tuple(d, s, p)
}
"""

linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux counts memory")


@linux
def test_a_process_takes_what_is_predicted() -> None:
    executable = compiled(LARGE)
    arrays = [np.ones(shape.dimensions, np.float32) for shape in executable.parameters]
    held = measure_resident(executable, arrays)
    assert held.peak_bytes == pytest.approx(process_bytes(executable), rel=0.05)
    assert held.argument_bytes == pytest.approx(executable.memory.parameter_bytes, rel=0.05)


@linux
def test_measured_memory_is_reported_and_gated(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "large.hlo").write_text(LARGE)
    done = hlotool("memory", "large.hlo", "--measure", "--format", "json", "--fail-if-peak", "1MiB")
    answer = check_json(done.stdout)
    assert done.returncode == 1
    assert answer["measured"]["peak_bytes"] > 60 << 20
    np.savez(tmp_path / "in.npz", arg0=np.ones((1600, 4096), np.float32))
    assert "arg1" in hlotool("memory", "large.hlo", "--measure", "--inputs", "in.npz").stderr


@linux
def test_what_calls_python_is_not_measured(hlotool: Run) -> None:
    text = "HloModule m\nENTRY e { t = token[] after-all() ROOT r = (f32[2], token[]) infeed(t) }"
    done = hlotool("memory", "-", "--measure", stdin=text)
    assert (done.returncode, "do not call Python" in done.stderr) == (4, True), done.stderr


@linux
def test_an_interrupt_ends_the_measured_process_too(tmp_path: Path) -> None:
    (tmp_path / "endless.hlo").write_text(ENDLESS)
    command = [sys.executable, "-m", "hlotool", "memory", "endless.hlo", "--measure"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    has_worked(process, 3)  # of which the child's endless loop is all but the start
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said


@linux
@pytest.mark.parametrize("nbytes", [1, 4096, 1 << 20, (1 << 20) + 1, (3 << 19) + 1, 2 << 20, (2 << 20) + 1, 11_570_000])
def test_what_a_block_holds_is_within_its_size_class(nbytes: int) -> None:
    held = held_bytes(nbytes)
    assert nbytes <= held < max(1.25 * nbytes + 1, nbytes + (2 << 20))
    assert held in (nbytes, -(-nbytes // (2 << 20)) * (2 << 20), *range(2 << 20, 3 * nbytes, 2 << 20))
