"""Native time per instruction: what probes see, how time is divided, and the command that reports it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run, environment, has_worked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_schemas import check_json
from random_programs import Generator
from test_overlap import eager, loops  # noqa: F401
from test_random_programs import inputs
from tiny_modules import ENDLESS

from hlotool.analysis.cost import ModuleCost
from hlotool.codegen.machine import default_machine, named
from hlotool.codegen.plan.probes import Probe
from hlotool.codegen.program import build
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.harness.inside import estimated, peeled, read_values, remeasured
from hlotool.harness.profile import Measurement, Profile, shared
from hlotool.harness.trace import trace_json
from hlotool.inspect.flame import flame_page, folded
from hlotool.inspect.stacks import Timed, by_op_name, by_source, by_structure
from hlotool.ir import Module, UnsupportedError
from hlotool.ir.cut import cut
from hlotool.ir.verifier import check
from hlotool.runtime.recorder import Recorder
from hlotool.text.parser import parse
from hlotool.text.sources import Sources

Array = np.ndarray[Any, Any]
MLP = ROOT / "samples" / "mlp_step.hlo"
WHILE = ROOT / "samples" / "while_loop.hlo"
SAMPLES = sorted((ROOT / "samples").glob("*.hlo"))

CALLS = """HloModule calls

half {
  p = f32[256,256] parameter(0)
  c = f32[] constant(0.5)
  b = f32[256,256] broadcast(c), dimensions={}
  r = f32[256,256] reverse(p), dimensions={0}
  ROOT m = f32[256,256] multiply(r, b)
}

ENTRY main {
  x = f32[256,256] parameter(0)
  a = f32[256,256] call(x), to_apply=half
  t = f32[256,256] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[256,256] call(t), to_apply=half
}
"""
SCALARS = """HloModule scalars

more {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(1000)
  ROOT go = pred[] compare(i, n), direction=LT
}

step {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[] sine(v)
  ROOT t = (s32[], f32[]) tuple(j, w)
}

ENTRY main {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[]) tuple(zero, x)
  ROOT e = (s32[], f32[]) while(s), condition=more, body=step
}
"""
FRAMES = """HloModule frames

FileNames
1 "model.py"

FunctionNames
1 "main"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=4 end_line=4 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


ENTRY main {
  x = f32[1000] parameter(0)
  t = f32[1000] tanh(x), metadata={op_name="jit(f)/layer/tanh" stack_frame_id=2}
  ROOT y = f32[1000] negate(t), metadata={op_name="jit(f)/neg" stack_frame_id=1}
}
"""


def profiled(module: Module, arguments: list[Array], threads: int = 2, runs: int = 3, **options: Any) -> Profile:
    programs = [compile_module(module, threads=threads, profiled=on, **options) for on in (False, True)]
    measurement = Measurement(programs[0], programs[1], arguments, threads)
    measurement.run(runs=runs)
    return measurement.profile()


def counts(profile: Profile) -> dict[str, int]:
    return {step.name: step.count for step in profile.steps if step.kind == "kernel"}


# ---- code


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("machine", [default_machine(), named("aarch64"), named("generic")], ids=lambda m: m.cpu)
def test_only_the_code_around_kernels_changes_and_only_where_asked_for(path: Path, machine: Any) -> None:
    module = optimise(optimise(parse(path.read_text())), LOWERING)
    plain, probed = (build(module, machine, profiled=on) for on in (False, True))
    assert plain.probes is None
    assert not re.search("hlo_(mark|span|now|probes)", "".join(plain.texts))
    assert probed.probes
    kernels = [set(re.findall(r"^define [^{]*@k\d+_.*?^}", "\n".join(p.texts), re.M | re.S)) for p in (plain, probed)]
    inlined = {kernel for kernel in kernels[0] if " alwaysinline " in kernel}
    assert kernels[0] - inlined <= kernels[1]
    assert inlined or kernels[0] == kernels[1]  # where steps are to be told apart, no loop is small
    assert kernels[0] or path.stem == "while_loop"


@pytest.mark.usefixtures("eager")
def test_results_are_the_same_bits() -> None:
    texts = [loops(40), CALLS, SCALARS, *(path.read_text() for path in SAMPLES)]
    for module in map(parse, texts):
        arguments = random_inputs(module, 0)
        for threads in (1, 2):
            plain, probed = (compile_module(module, threads=threads, profiled=on) for on in (False, True))
            for one, other in zip(plain(*arguments), probed(*arguments), strict=True):
                assert one.tobytes() == other.tobytes()


@pytest.mark.usefixtures("eager")
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 12))
def test_any_program_may_be_profiled(choice: Any, length: int) -> None:
    program = Generator(choice, length)
    module, arguments = parse(program.text), inputs(program)
    plain, probed = (compile_module(module, threads=2, profiled=on) for on in (False, True))
    for one, other in zip(plain(*arguments), probed(*arguments), strict=True):
        assert one.tobytes() == other.tobytes()
    measurement = Measurement(plain, probed, arguments, 2)
    measurement.run(runs=1)
    profile = measurement.profile()
    total = profile.seconds + profile.looks
    assert total == pytest.approx(profile.probed.median, rel=1e-3)  # of one run, all time is somebody's


# ---- how often, and who


def test_steps_of_loops_are_counted() -> None:
    profile = profiled(parse(WHILE.read_text()), random_inputs(parse(WHILE.read_text()), 0))
    found = {step.count for step in profile.steps if step.instruction is not None and step.computation != "main"}
    assert any(count > 1 for count in found)
    (loop,) = (step for step in profile.steps if step.kind == "loop")
    assert loop.whole > loop.seconds
    assert loop.count == 1


def test_calls_share_the_time_of_what_they_run() -> None:
    module = parse(CALLS)
    profile = profiled(module, random_inputs(module, 0), pipeline="none")
    named_steps = {step.name: step for step in profile.steps}
    assert "main" in {step.computation for step in profile.steps}
    routines = [step for step in profile.steps if step.computation == "half" and step.kind == "kernel"]
    if routines:  # otherwise they were inlined
        assert sum(step.count for step in routines) % 2 == 0
    assert named_steps["t"].seconds > 0


@pytest.mark.usefixtures("eager")
def test_steps_side_by_side_share_their_time() -> None:
    module = parse(loops(40))
    profile = profiled(module, random_inputs(module, 0))
    assert any(probe.kind == "region" for probe in profile.probes)
    both = [step for step in profile.steps if step.kind == "kernel" and step.count in (39, 40)]
    assert both
    assert all(step.seconds > 0 for step in both)
    tracks = {row["tid"] for row in trace_json(profile)["traceEvents"] if row["ph"] == "X"}
    assert 0 in tracks


def test_arithmetic_alone_is_the_loops() -> None:
    module = parse(SCALARS)
    profile = profiled(module, random_inputs(module, 0))
    assert [step.kind for step in profile.steps if step.instruction is not None] == ["loop"]


def test_time_is_divided_by_work() -> None:
    def probe(kind: str, scope: str | None, opens: str | None = None) -> Probe:
        return Probe(kind=kind, scope=scope, computation="c", opens=opens)

    probes = [
        probe("tasks", "region"), probe("tasks", "region", "loop"), probe("kernel", "loop"), probe("loop", "loop"),
        probe("region", "main", "region"), probe("call", "main", "routine"), probe("call", "main", "routine"),
        probe("kernel", "routine"), probe("rest", "routine"), probe("span", None), probe("call", "main", "nobody"),
    ]  # fmt: skip
    own = np.array([[1.0, 3, 2, 1, 8, 5, 7, 9, 3, 99, 1], [0, 0, 0, 0, 8, 5, 7, 0, 0, 99, 1]])
    found = shared(probes, "main", own)
    assert found[0].tolist() == [2, 0, 4, 2, 0, 0, 0, 9, 3, 0, 1]
    assert found[1].tolist() == [0, 0, 0, 0, 8, 5, 7, 0, 0, 0, 1]  # too quick for the clock: whoever opened it has it
    np.testing.assert_allclose(found.sum(axis=1), own[:, [4, 5, 6, 10]].sum(axis=1))


def test_parts_of_a_fusion_add_up() -> None:
    module = optimise(optimise(parse(MLP.read_text())), LOWERING)
    costs = ModuleCost(module)
    fusions = [i for i in module.instructions() if i.opcode == "fusion"]
    assert fusions
    for fusion in fusions:
        parts = estimated(fusion, costs)
        assert sum(part.share for part in parts) == pytest.approx(1)
        assert {part.how for part in parts} == {"estimated"}


HEAVY = """HloModule heavy
ENTRY main {
  x = f32[200000] parameter(0)
  y = f32[200000] parameter(1)
  e = f32[200000] exponential(x)
  s = f32[200000] add(e, y)
  l = pred[200000] compare(x, y), direction=LT
  ROOT r = f32[200000] select(l, s, x)
}
"""


def test_re_runs_find_what_takes_the_time() -> None:
    module = parse(HEAVY)
    made = compile_module(module, threads=1).module
    (fusion,) = (one for one in made.entry if one.opcode == "fusion")
    values = read_values(
        made, random_inputs(module, 0), [fusion], lambda one: compile_module(one, pipeline="none", threads=1).run
    )
    assert all(array.shape == (200000,) for row in values.values() for array in row)
    inside = remeasured(
        fusion, values, lambda one: compile_module(one, pipeline="none", threads=1, profiled=True), 0.3
    )
    assert inside is not None
    assert sum(part.share for part in inside.parts) == pytest.approx(1)
    assert {part.how for part in inside.parts} == {"re-run"}
    taken = {part.instruction.opcode if part.instruction else "": part for part in inside.parts}
    assert {"exponential", "add", "select", ""} >= set(taken) >= {"exponential", ""}
    assert taken["exponential"].share == max(part.share for part in inside.parts if part.instruction is not None)
    measured = sum(part.seconds for part in inside.parts if part.seconds is not None)
    assert measured == pytest.approx(inside.seconds, rel=0.5)
    named = [one for part in inside.parts for one in (part.instruction, *part.others) if one is not None]
    assert len(named) == len(set(named))
    assert all(one.parent is fusion.attributes["calls"] for one in named)


def test_a_fusion_is_taken_apart_one_by_one() -> None:
    """What is left computes what it should: the operands in the place of what went."""
    module = parse(HEAVY)
    made = compile_module(module, threads=1).module
    (fusion,) = (one for one in made.entry if one.opcode == "fusion")
    x, y = random_inputs(module, 0)
    steps = peeled(cut([fusion]).module)
    assert [len(list(variant.instructions())) for variant, _ in steps] == sorted(
        (len(list(variant.instructions())) for variant, _ in steps), reverse=True
    )
    for variant, gone in steps:
        check(variant)
        assert gone
        (result,) = evaluate(variant, [x, y])
        assert result.shape == (200000,)
    last, _ = steps[-1]
    assert not {"exponential", "add"} & {one.opcode for one in last.instructions()}


def test_inside_is_measured_on_demand(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "heavy.hlo").write_text(HEAVY)
    done = hlotool(
        "profile", "heavy.hlo", "--inside", "--time", "0.05", "--format", "json", "--trace", "t.json",
        "--flame", "f.txt",
    )  # fmt: skip
    answer = check_json(done.stdout)
    (step,) = (step for step in answer["steps"] if step["rerun"])
    assert {part["how"] for part in step["inside"]} == {"re-run"}
    assert sum(part["seconds"] for part in step["inside"]) == pytest.approx(step["seconds"])
    assert step["rerun"]["programs"] == len(step["inside"])
    assert " [re-run] " in (tmp_path / "f.txt").read_text()
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert any("re-run" in word for row in events for word in row.get("args", {}).get("inside", {}).values())
    text = hlotool("profile", "heavy.hlo", "--inside", "--time", "0.05").stdout
    assert "inside of one fusion by re-runs of" in text.splitlines()[0]
    assert " re-run " in text
    assert "alone" in text


def test_times_feed_the_other_commands(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "heavy.hlo").write_text(HEAVY)
    done = hlotool("profile", "heavy.hlo", "--time", "0.05", "--format", "json", "-o", "times.json")
    assert done.returncode == 0
    (fusion,) = json.loads((tmp_path / "times.json").read_text())["times"]
    seconds = json.loads((tmp_path / "times.json").read_text())["times"][fusion]
    answer = json.loads(
        hlotool("explain", "e", "--file", "heavy.hlo", "--times", "times.json", "--format", "json").stdout
    )
    (kernel,) = answer["kernels"]  # of the fusion that the exponential is in
    assert (f"{kernel['computation']}/{kernel['name']}", kernel["seconds"], kernel["share"]) == (fusion, seconds, 1)
    for source in ("times.json", "native"):
        text = hlotool("explain", "e", "--file", "heavy.hlo", "--times", source).stdout
        assert "takes:" in text
        assert "100.0% of all" in text
        assert hlotool("report", "heavy.hlo", "-o", "pages", "--times", source).returncode == 0
        page = (tmp_path / "pages" / "cost.html").read_text()
        assert "Where the time goes" in page
        assert fusion.rpartition("/")[2] in page
        drawn = hlotool("graph", "heavy.hlo", "-p", "default", "--heat", "time", "--times", source, "--format", "dot")
        assert drawn.returncode == 0
    hlotool("report", "heavy.hlo", "-o", "plain")
    assert "Where the time goes" not in (tmp_path / "plain" / "cost.html").read_text()
    assert hlotool("explain", "HLO0102", "--times", "native").returncode == 2
    assert hlotool("explain", "e", "--file", "heavy.hlo", "--times", "absent.json").returncode == 3


def test_what_cannot_be_profiled_is_refused() -> None:
    text = "HloModule m, replica_count=2\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] add(p, p)\n}\n"
    module = parse(text)
    two = compile_module(module, profiled=True)
    with pytest.raises(UnsupportedError, match="one device"):
        Measurement(two, two, random_inputs(module, 0))
    evaluated = compile_module(module, "evaluate", replicas=1)
    with pytest.raises(UnsupportedError, match="no native code"):
        Measurement(evaluated, evaluated, random_inputs(module, 0))


def test_the_clock_has_a_rate() -> None:
    recorder = Recorder(1)
    assert 0.1 < recorder.nanoseconds_per_tick() < 1000


# ---- pictures


def test_a_trace_has_threads_and_what_was_left_out() -> None:
    module = parse(WHILE.read_text())
    profile = profiled(module, random_inputs(module, 0))
    found = json.loads(json.dumps(trace_json(profile)))
    events = [row for row in found["traceEvents"] if row["ph"] == "X"]
    assert events[0]["ts"] >= 0
    assert all(row["dur"] >= 0 and row["tid"] >= 0 for row in events)
    assert {row["args"]["name"] for row in found["traceEvents"] if row["name"] == "thread_name"} >= {"caller"}
    assert found["otherData"]["events"] == len(events)
    assert found["otherData"]["events_left_out"] == profile.passed.sum() - len(events)


def test_loops_that_run_often_leave_events_out() -> None:
    text = loops(1000).replace("64,64", "8,8")
    module = parse(text)
    profile = profiled(module, random_inputs(module, 0), threads=1, runs=1)
    assert trace_json(profile)["otherData"]["events_left_out"] > 0
    assert max(np.bincount(profile.events[:, 0])) == 256


def test_stacks_say_where_it_was_written() -> None:
    module = parse(FRAMES)
    x, t, y = module.entry
    assert [(f, p.line) for f, p in Sources(module).stack(t)] == [("main", 9), ("layer", 4)]
    rows = [Timed("main", y, "fusion", 5.0, ((x, 1.0), (t, 3.0), (y, 1.0)))]
    assert by_op_name(rows) == {("jit(f)", "neg"): 2.0, ("jit(f)", "layer", "tanh"): 3.0}
    assert by_source(module, rows) == {("main (model.py:9)",): 2.0, ("main (model.py:9)", "layer (model.py:4)"): 3.0}
    structure = by_structure(module, rows)
    assert structure == {("fusion", "read x"): 1.0, ("fusion", "t"): 3.0, ("fusion",): 1.0}
    assert folded({("a;b", "c\nd"): 2e-6, ("e",): 0.0}) == "a,b;c d 2000\n"
    assert "</script><b>" not in flame_page("</script><b>", "", {"structure": {("</script><b>",): 1.0}})


# ---- the command


ONE_FUSION = """HloModule one_fusion

ENTRY main {
  x = f32[1048576] parameter(0)
  s = f32[1048576] sine(x)
  t = f32[1048576] tanh(s)
  ROOT m = f32[1048576] multiply(t, x)
}
"""


def test_the_table_says_what_is_measured(hlotool: Run) -> None:
    # One fusion that takes milliseconds: parts of what is small beside the rest are not shown, and on a busy machine
    # any small kernel may be that.
    done = hlotool("profile", "-", "--runs", "3", stdin=ONE_FUSION)
    assert (done.returncode, done.stderr) == (0, "")
    head, columns, *_ = done.stdout.splitlines()
    said = re.match(r"\S+: [\d.]+ \w+ a run \(median of 3, .*\); steps add up to .*% of it; probes cost", head)
    assert said is not None
    assert columns.split() == ["time", "share", "busy", "predicted", "count", "how", "instruction", "opcode", "source"]
    assert " measured " in done.stdout
    assert " estimated " in done.stdout


def test_json_is_as_its_schema_says(hlotool: Run) -> None:
    done = hlotool("profile", "-", "--runs", "2", "--threads", "1", "--format", "json", stdin=WHILE.read_text())
    answer = check_json(done.stdout)
    assert (answer["runs"], answer["threads"], answer["measured"], answer["interrupted"]) == (2, 1, "native", False)
    assert answer["sum"] == pytest.approx(sum(step["seconds"] for step in answer["steps"]))
    assert sum(answer["times"].values()) <= answer["sum"] * 1.0001


def test_trace_and_flame_graph_go_where_they_are_asked_for(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool(
        "profile", MLP, "--runs", "1", "--trace", "t.json", "--flame", "f.html", "-o", "report.txt", "--top", "1"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    page = (tmp_path / "f.html").read_text()
    assert all(word in page for word in ("structure", "op_name", "source", "maximum_fusion"))
    assert "http" not in page.replace("http://www.w3.org", "")
    assert " more" in (tmp_path / "report.txt").read_text()
    stacks = hlotool("profile", MLP, "--runs", "1", "--flame", "-")
    assert all(re.fullmatch(r".+ \d+", line) for line in stacks.stdout.splitlines())
    assert json.loads(hlotool("profile", MLP, "--runs", "1", "--trace", "-").stdout)["traceEvents"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((MLP, "--runs", "0"), 2, "--runs"),
        ((MLP, "--trace", "-", "--flame", "-"), 2, "standard output"),
        ((MLP, "--input", "nobody=1"), 2, "the parameters are"),
        (("missing.hlo",), 3, "cannot read"),
        ((MLP, "--inputs", "missing.npz"), 3, "missing.npz"),
        (("two.hlo",), 4, "one device"),
        ((MLP, "--runs", "1", "-o", "nowhere/report.txt"), 5, "cannot write"),
    ],
)
def test_errors(hlotool: Run, tmp_path: Path, arguments: tuple[Any, ...], code: int, message: str) -> None:
    (tmp_path / "two.hlo").write_text(
        "HloModule m, replica_count=2\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] add(p, p)\n}\n"
    )
    done = hlotool("profile", *arguments)
    assert done.returncode == code
    assert message in done.stderr


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processor time is read from /proc")
@pytest.mark.parametrize("text", [MLP.read_text(), ENDLESS], ids=["some runs", "no run"])
def test_interrupted_it_shows_what_there_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.hlo").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "hlotool", "profile", tmp_path / "m.hlo", "--runs", "1000000000", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        has_worked(process, 4)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert (process.returncode, errors.strip()) == (130, "interrupted")
    assert ("; interrupted" in output) == (text != ENDLESS)


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f'"{sys.executable}" -m hlotool profile "{MLP}" --runs 1 | head -c 3; echo " ${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment(), check=False)
    assert (done.stdout[3:], done.stderr) == (" 0\n", "")


def test_examples_of_the_help_run(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    examples = re.findall(r"^ +hlotool (profile samples/.*)$", hlotool("profile", "--help").stdout, re.M)
    assert len(examples) >= 3
    for example in examples:
        done = hlotool(*example.split(), *([] if "--time" in example else ["--runs", "1"]))
        assert (done.returncode, done.stderr) == (0, ""), example
