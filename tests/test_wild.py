"""A sample of what programs of JAX's libraries compile to; and that the machinery which finds more of it works."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import model_sweep
from fuzz.models import MUTATIONS, mutant
from semantics.xla_oracle import missing
from wild import store, sweep
from wild.children import answers
from wild.judge import judge

from hlotool import driver
from hlotool.evaluate import evaluate
from hlotool.harness.xla import xla_python
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse

SAMPLE = sorted((Path(__file__).parent / "data" / "wild").glob("*.hlo"))
TEXTS = [path.read_text() for path in SAMPLE]


def test_the_sample_is_there() -> None:
    assert len(SAMPLE) == 100
    assert sum(map(len, TEXTS)) < 3_000_000


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_compiled_code_is_as_true_as_its_types_allow(path: Path) -> None:
    verdict = judge(path.read_text())
    assert verdict.word == "ok", verdict
    assert verdict.by


@pytest.mark.parametrize("number", range(40))
def test_mutants_of_the_sample(number: int) -> None:
    small = [text for text in TEXTS if len(text) < 6000]
    text = next(filter(None, (mutant(small, 1, 100 * number + again) for again in range(100))))
    verdict = judge(text, work=2e6, timeout=60)
    assert verdict.word in ("ok", "undecided", "endless", "unchecked"), f"{verdict}\n{text}"


def test_mutants_are_reproducible_and_mostly_valid() -> None:
    small = [text for text in TEXTS if len(text) < 6000]
    made = [mutant(small, 3, number) for number in range(60)]
    assert made == [mutant(small, 3, number) for number in range(60)]
    valid = [text for text in made if text is not None]
    assert len(set(valid)) > 40
    assert not any(verify(parse(text)) for text in valid)
    assert len(MUTATIONS) > 10


def test_orders_of_sorts_stay_orders() -> None:
    """With any other comparison, what a sort gives is not defined."""
    text = (
        "HloModule m\norder { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = pred[] compare(a, b), direction=LT }\n"
        "ENTRY e { p = f32[9] parameter(0)\n ROOT s = f32[9] sort(p), dimensions={0}, to_apply=order }\n"
    )
    made = [found for number in range(80) if (found := mutant([text], 1, number)) is not None and " sort(" in found]
    assert len(made) > 20
    for module in map(parse, made):
        orders = [i.attributes["to_apply"] for i in module.instructions() if i.opcode == "sort"]
        assert all(order.root.attributes["direction"] == "LT" for order in orders)


# ---- verdicts

_ADD = "HloModule m\nENTRY e { p = f32[3] parameter(0)\n q = f32[3] parameter(1)\n ROOT r = f32[3] add(p, q) }\n"


def test_a_wrong_result_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(_ADD).word == "ok"
    wrong = _ADD.replace("add", "subtract")
    monkeypatch.setattr("wild.judge.compile_module", lambda module, **options: lambda *a: evaluate(parse(wrong), a))
    assert judge(_ADD).word == "mismatch"


_STEEP = """HloModule m, num_partitions=2
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY e { p = f32[9] parameter(0)
 k = f32[] constant(30000)
 s = f32[9] broadcast(k), dimensions={}
 t = f32[9] multiply(p, s)
 w = f32[9] sine(t)
 ROOT r = f32[9] all-reduce(w), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add }
"""


def test_several_devices_are_judged_by_how_far_their_inputs_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a unit of an input's last place moves a result by 1e-3, so may a rounding."""
    compile_ = driver.compile_module

    class Off:
        def __init__(self, executable: Any) -> None:
            self.executable = executable

        def run_devices(self, *a: Any) -> Any:
            return [[b + np.float32(1e-3) for b in row] for row in self.executable.run_devices(*a)]

    def compiled(module: Any, backend: str = "cpu", **options: Any) -> Any:
        made = compile_(module, backend, **options)
        return made if backend == "evaluate" else Off(made)

    monkeypatch.setattr("wild.judge.compile_module", compiled)
    inputs = [[np.linspace(1, 2, 9, dtype=np.float32)]] * 2
    assert judge(_STEEP, inputs, devices=2).word == "ok"
    assert judge(_STEEP.replace("constant(30000)", "constant(1)"), inputs, devices=2).word == "mismatch"


def test_a_crash_and_a_refusal_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(_ADD.replace("add(p, q)", "add(p)")).word == "refused"
    monkeypatch.setattr("hlotool.driver.compile.donation_of", None)
    assert judge(_ADD).word == "crash"


def test_a_child_that_dies_or_hangs_is_replaced() -> None:
    child = ["-u", "-c", "import os, sys\nfor line in sys.stdin: print(1) if 'a' in line else os._exit(3)"]
    found = [said for _, said in answers(child, ["a", "b", "a"], seconds=600)]
    assert found == [1, {"word": "crash", "detail": "the process ended with 3"}, 1]
    sleeper = ["-c", "import time; time.sleep(600)"]
    assert [said["word"] for _, said in answers(sleeper, ["a", "b"], seconds=0.02)] == ["timeout", "timeout"]


def test_a_child_may_use_so_much_of_the_processor() -> None:
    spinner = "for line in requests(1):\n    while line != 'a': pass\n    print(1, flush=True)"
    child = ["-c", f"import sys\nsys.path.insert(0, 'tests')\nfrom wild.children import requests\n{spinner}"]
    found = [said for _, said in answers(child, ["a", "b", "a"], seconds=600)]
    assert found == [1, {"word": "timeout", "detail": "600 s"}, 1]


def test_sweeps_of_models_and_of_mutants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.hlo").write_text(_ADD)
    assert sweep.main([str(tmp_path)]) == 0
    assert "| ok | 1 |" in capsys.readouterr().out
    log = tmp_path / "mutants.jsonl"
    assert model_sweep.main([str(tmp_path), "--count", "5", "--log", str(log)]) == 0
    assert len(log.read_text().splitlines()) == 5
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit, match="2"):
        model_sweep.main([str(tmp_path / "none"), "--count", "5"])


_PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from recorder import Recorder
recorder = Recorder(Path(sys.argv[2]), None)
recorder.install()
recorder.program = "test"
import jax, jax.numpy as jnp
jax.jit(lambda x, y: jnp.tanh(x @ y).sum(0))(jnp.ones((3, 4)), jnp.ones((4, 5)))
"""


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_what_jax_compiles_is_recorded_with_its_arrays(tmp_path: Path) -> None:
    command = [xla_python(), "-c", _PROGRAM, str(Path(__file__).parent / "wild"), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    (key,) = [key for key in store.keys(tmp_path) if " dot(" in store.text(tmp_path, key)]
    assert store.programs(tmp_path, key) == ["test"]
    given, wanted = store.arrays(tmp_path, key, parse(store.text(tmp_path, key)))
    assert given is not None
    assert wanted is not None
    assert [a.shape for a in given[0]] == [(3, 4), (4, 5)]
    verdict = judge(store.text(tmp_path, key), given, wanted)
    assert verdict.word == "ok"
    assert "XLA" in verdict.by
