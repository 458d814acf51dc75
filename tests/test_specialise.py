"""``hlotool specialise`` and the library function under it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run, environment
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import Generator

from hlotool.driver.specialise import specialise
from hlotool.evaluate import evaluate
from hlotool.ir import InputError, Module, UnsupportedError, dtype_of
from hlotool.ir.verifier import check
from hlotool.text.load import load
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

SAMPLES = ROOT / "samples"
ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"


def module(body: str, header: str = "") -> str:
    return f"HloModule m{header}\n\n{ADD}ENTRY main {{\n{body}}}\n"


LAYER = module(
    """  x = f32[32,128]{1,0} parameter(0)
  w = f32[128,10]{1,0} parameter(1)
  rate = f32[] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[32,10]{1,0} broadcast(zero), dimensions={}
  rates = f32[32,10]{1,0} broadcast(rate), dimensions={}
  d = f32[32,10]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  m = f32[32,10]{1,0} maximum(d, zeros)
  s = f32[32,10]{1,0} multiply(m, rates)
  flat = f32[320]{0} reshape(s)
  again = f32[32,10]{1,0} reshape(flat)
  head = f32[32,4]{1,0} slice(again), slice={[0:32], [0:4]}
  both = f32[32,14]{1,0} concatenate(head, again), dimensions={1}
  count = f32[] constant(32)
  total = f32[14]{0} reduce(both, zero), dimensions={0}, to_apply=add
  ROOT out = (f32[32,14]{1,0}, f32[14]{0}, f32[]) tuple(both, total, count)
""",
    ", entry_computation_layout={(f32[32,128]{1,0}, f32[128,10]{1,0}, f32[])->(f32[32,14]{1,0}, f32[14]{0}, f32[])}",
)


def arrays(program: Module, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(seed)
    shapes = [parameter.shape for parameter in program.entry.parameters]
    return [np.asarray(generator.standard_normal(s.dimensions)).astype(dtype_of(s.element_type)) for s in shapes]


@pytest.mark.parametrize("name", ["x.0", "p0.0", "32"])
def test_all_sizes_follow(name: str) -> None:
    found = specialise(parse(LAYER), {name: "8"})
    text = print_module(found.module)
    assert text == LAYER.replace("f32[32,", "f32[8,").replace("320", "80").replace("[0:32]", "[0:8]")
    assert [note.message.split(":")[0] for note in found.notes] == ["count"]


@pytest.mark.parametrize("sample", ["attention", "conv_net", "lstm_cell"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_fewer_rows_give_the_same_rows(sample: str, size: int) -> None:
    """What is computed for each row alone is computed for fewer rows alike."""
    program = load(SAMPLES / f"{sample}.hlo")
    batch = program.entry.parameters[0].shape.dimensions[0]
    less = specialise(program, {"p0.0": str(size)}).module
    given_ = arrays(program)
    pairs = zip(given_, less.entry.parameters, strict=True)
    fewer = [array[:size] if p.shape.dimensions != array.shape else array for array, p in pairs]
    assert batch > size
    for one, other in zip(evaluate(program, given_), evaluate(less, fewer), strict=True):
        np.testing.assert_allclose(other, one[:size], rtol=1e-6, atol=1e-6)


def test_there_and_back() -> None:
    there = specialise(parse(LAYER), {"x.0": "8"}).module
    assert print_module(specialise(there, {"x.0": "32"}).module) == LAYER


def test_loops_branches_and_fusions_take_part() -> None:
    text = """HloModule m

fused {
  p = f32[32]{0} parameter(0)
  ROOT n = f32[32]{0} negate(p)
}

body {
  s = (s32[], f32[32]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[32]{0} get-tuple-element(s), index=1
  f = f32[32]{0} fusion(x), kind=kLoop, calls=fused
  ROOT t = (s32[], f32[32]{0}) tuple(i, f)
}

condition {
  s = (s32[], f32[32]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT c = pred[] compare(i, ten), direction=LT
}

ENTRY main {
  x = f32[32]{0} parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[32]{0}) tuple(zero, x)
  ROOT w = (s32[], f32[32]{0}) while(t), body=body, condition=condition
}
"""
    assert print_module(specialise(parse(text), {"x.0": "5"}).module) == text.replace("32]", "5]").replace("s5", "s32")


def test_sizes_without_a_bound_become_fixed() -> None:
    text = module(
        "  x = f32[<=32,4]{1,0} parameter(0)\n  y = f32[<=32,4]{1,0} parameter(1)\n"
        "  ROOT s = f32[<=32,4]{1,0} add(x, y)\n"
    )
    found = print_module(specialise(parse(text), {"batch": "8"}).module)
    assert found == text.replace("<=32", "8")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  c = f32[32]{0} constant({%s})\n  ROOT r = f32[32]{0} add(x, c)\n", "c: a constant has the elements"),
        ("  ROOT r = f32[16]{0} slice(x), slice={[0:16]}\n", "r: it takes elements [0:16:1]"),
        ("  ROOT r = f32[31]{0} slice(x), slice={[1:32]}\n", "r: it takes elements [1:32:1]"),
        ("  z = f32[] constant(0)\n  ROOT r = f32[40]{0} pad(x, z), padding=0_8\n", "r: the padding of dimension 0"),
        ("  ROOT r = f32[4,8]{1,0} reshape(x)\n", "r: of [32] to [4, 8], which dimensions"),
        ('  ROOT r = f32[32]{0} custom-call(x), custom_call_target="own"\n', "r: what the sizes of custom-call"),
        ("  i = s32[] parameter(1)\n  ROOT r = f32[4]{0} dynamic-slice(x, i), dynamic_slice_sizes={4}\n", "r: it takes 4 of 32"),  # noqa: E501
    ],
)
def test_nothing_is_guessed(body: str, message: str) -> None:
    body = body.replace("%s", ", ".join(map(str, range(32))))
    text = module(f"  x = f32[32]{{0}} parameter(0)\n{body}")
    with pytest.raises(UnsupportedError) as caught:
        specialise(parse(text), {"x.0": "8"})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith(message)
    assert diagnostic.location is not None
    assert print_module(specialise(parse(text), {"x.0": "32"}).module) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("rate", "0.5"), ("p2", "0.5")],
)
def test_a_scalar_becomes_a_constant(name: str, text: str) -> None:
    program = parse(LAYER)
    found = specialise(program, {name: text}).module
    given_ = arrays(program)
    expected = evaluate(program, [given_[0], given_[1], np.float32(0.5)])
    for one, other in zip(expected, evaluate(found, given_[:2]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "rate = f32[] constant(0.5)" in print_module(found) or "constant(0.5)" in print_module(found)
    check(parse(print_module(found)))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"nothing": "3"}, "no such parameter or size"),
        ({"batch": "3"}, "without a fixed size"),
        ({"x.7": "3"}, "dimensions are numbered from 0"),
        ({"x.0": "0"}, "whole number"),
        ({"x.0": "a"}, "whole number"),
        ({"x.0": "3", "32": "4"}, "is set to 3 too"),
        ({"x": "3"}, "only scalars"),
        ({"rate": "many"}, "that is no f32"),
        ({"77": "3"}, "no such parameter or size"),
    ],
)
def test_settings_that_say_nothing(settings_: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        specialise(parse(LAYER), settings_)


def test_integers_must_fit() -> None:
    text = module("  n = u8[] parameter(0)\n  ROOT r = u8[] add(n, n)\n")
    for number in ("256", "-1", "1.5"):
        with pytest.raises(InputError, match="that is no u8"):
            specialise(parse(text), {"n": number})


def test_aliases_go_by_number() -> None:
    with pytest.raises(UnsupportedError, match="input_output_alias"):
        specialise(parse(LAYER.replace("HloModule m", "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }")),
                   {"rate": "1"})  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 25), st.integers(1, 40))
def test_what_comes_out_is_valid(choice: random.Random, length: int, size: int) -> None:
    """Either the sizes cannot be, or the module has them, verified again from its text, and setting them back gives
    the module back."""
    program = parse(Generator(choice, length).text)
    places = [(p, n) for p in program.entry.parameters for n in range(p.shape.rank) if p.shape.dimensions[n] > 1]
    if not places:
        return
    parameter, dimension = choice.choice(places)
    name, old = f"{parameter.name}.{dimension}", parameter.shape.dimensions[dimension]
    try:
        found = specialise(program, {name: str(size)}).module
    except UnsupportedError as error:
        refused = error.diagnostics
    else:
        refused = []
    if refused:
        assert size != old
        assert all(one.location is not None for one in refused)
        return
    text = print_module(found)
    check(parse(text))
    assert parse(text).entry.parameters[parameter.parameter_number].shape.dimensions[dimension] == size
    if size > 1:
        assert print_module(specialise(found, {name: str(old)}).module) == print_module(program)


# ---- the command


def test_main_use(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(LAYER)
    done = hlotool("specialise", "m.hlo", "--set", "x.0=8", "--set", "rate=2", "-o", "out.hlo")
    assert (done.returncode, done.stdout) == (0, "")
    assert "m.hlo:" in done.stderr
    assert "count: the constant 32 may have been computed from an old size" in done.stderr
    assert "x = f32[8,128]" in (tmp_path / "out.hlo").read_text()


def test_standard_input(hlotool: Run) -> None:
    done = hlotool("specialise", "-", "--set", "32=8", stdin=LAYER)
    assert done.returncode == 0
    check(parse(done.stdout))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("m.hlo",), 2, "--set"),
        (("m.hlo", "--set", "x.0"), 2, "NAME=VALUE"),
        (("m.hlo", "--set", "x.0=1", "--set", "x.0=2"), 2, "given twice"),
        (("m.hlo", "--set", "y.0=1"), 3, "no such parameter"),
        (("none.hlo", "--set", "x.0=1"), 3, "none.hlo"),
        (("part.hlo", "--set", "x.0=8"), 4, "part.hlo:11:"),
        (("m.hlo", "--set", "x.0=8", "-o", "no/such/file"), 5, "no/such"),
    ],
)
def test_what_is_refused(hlotool: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    (tmp_path / "m.hlo").write_text(LAYER)
    part = "  x = f32[32]{0} parameter(0)\n  ROOT r = f32[16]{0} slice(x), slice={[0:16]}\n"
    (tmp_path / "part.hlo").write_text(module(part))
    done = hlotool("specialise", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{sys.executable} -m hlotool specialise '{SAMPLES}/attention.hlo' --set 4=2 | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
