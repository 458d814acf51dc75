"""Computations that call each other deeper than anybody writes by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.inspect.stats import stats
from hlotool.ir import UnsupportedError, clone_module
from hlotool.ir.depth import DEEPEST, depth_of, room
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

_STATE = "(s32[], f32[])"
_ENDS = f"""c {{
  p = {_STATE} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}}
"""
_INNERMOST = f"""f0 {{
  p = {_STATE} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[] sine(x)
  ROOT r = {_STATE} tuple(j, y)
}}
"""


def whiles(depth: int) -> str:
    """Loops in loops: the innermost goes round three times."""
    bodies = [
        f"f{n} {{\n  p = {_STATE} parameter(0)\n  ROOT w = {_STATE} while(p), condition=c, body=f{n - 1}\n}}\n"
        for n in range(1, depth)
    ]
    entry = (
        f"ENTRY main {{\n  i = s32[] parameter(0)\n  x = f32[] parameter(1)\n  t = {_STATE} tuple(i, x)\n"
        f"  w = {_STATE} while(t), condition=c, body=f{depth - 1}\n  ROOT r = f32[] get-tuple-element(w), index=1\n}}\n"
    )
    return "\n".join(["HloModule deep\n", _ENDS, _INNERMOST, *bodies, entry])


def chain(depth: int, call: str) -> str:
    """Computations that call each other; `call` has the name of the callee in braces."""
    first = "f0 {\n  p = f32[] parameter(0)\n  ROOT r = f32[] sine(p)\n}\n"
    bodies = [
        f"{'ENTRY main' if n == depth else f'f{n}'} {{\n  p = f32[] parameter(0)\n  zero = f32[] constant(0)\n"
        f"  q = pred[] compare(p, zero), direction=LT\n  ROOT r = f32[] {call.format(f'f{n - 1}')}\n}}\n"
        for n in range(1, depth + 1)
    ]
    return "\n".join(["HloModule deep\n", first, *bodies])


CHAINS = {
    "call": "call(p), to_apply={}",
    "fusion": "fusion(p), kind=kLoop, calls={}",
    "conditional": "conditional(q, p, p), true_computation=f0, false_computation={}",
    "map": "map(p), dimensions={{}}, to_apply={}",
}


def test_200_nested_loops_compile_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    module, arguments = parse(whiles(200)), (np.int32(0), np.float32(0.5))
    limit = sys.getrecursionlimit()
    (wanted,) = evaluate(module, arguments)
    (found,) = compile_module(module, strict=True)(*arguments)
    assert found == pytest.approx(float(np.sin(np.sin(np.sin(np.float32(0.5))))), rel=1e-6)
    assert wanted == pytest.approx(float(found), rel=1e-6)
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("form", CHAINS)
def test_deep_calls_are_optimised_and_evaluated(form: str) -> None:
    module = parse(chain(300, CHAINS[form]))
    (wanted,) = evaluate(module, (np.float32(0.5),))
    (found,) = evaluate(optimise(module, strict=True), (np.float32(0.5),))
    assert wanted == pytest.approx(float(np.sin(np.float32(0.5))), rel=1e-6)
    assert found == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize("form", [*CHAINS, "while"])
def test_what_only_reads_goes_deeper(form: str) -> None:
    text = whiles(2000) if form == "while" else chain(2000, CHAINS[form])
    module = parse(text)
    assert not verify(module)
    assert depth_of(module) == 2001
    assert print_module(parse(print_module(clone_module(module)))) == print_module(module)
    assert stats(module).instructions == module.instruction_count()


def test_deeper_than_there_is_room_for_is_said(tmp_path: Path) -> None:
    deep = parse(chain(DEEPEST + 1, CHAINS["call"]))
    with pytest.raises(UnsupportedError, match=f"{DEEPEST + 2} deep; {DEEPEST} are supported"):
        optimise(deep)
    with pytest.raises(UnsupportedError, match="deep"):
        compile_module(deep)
    with pytest.raises(UnsupportedError, match="deep"):
        evaluate(deep, (np.float32(1),))
    file = tmp_path / "deep.hlo"
    file.write_text(print_module(deep))
    done = subprocess.run([sys.executable, "-m", "hlotool", "opt", str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("HLO0800")) == (4, 1)


def test_room_goes_back_with_the_last() -> None:
    limit = sys.getrecursionlimit()
    outer, inner = parse(chain(100, CHAINS["call"])), parse(chain(300, CHAINS["call"]))
    with room(outer):
        small = sys.getrecursionlimit()
        with room(inner):
            assert sys.getrecursionlimit() > small > limit
        assert sys.getrecursionlimit() >= small
    assert sys.getrecursionlimit() == limit


def test_loops_that_run_once_inside_of_each_other_grow_a_bounded_way() -> None:
    """Replacing each by its body copies what was copied before."""
    text = whiles(150).replace("constant(3)", "constant(1)")
    bodies = text.replace(
        "p = (s32[], f32[]) parameter(0)\n  ROOT w = (s32[], f32[]) while(p)",
        "p = (s32[], f32[]) parameter(0)\n  x = f32[] get-tuple-element(p), index=1\n  z = s32[] constant(0)\n"
        "  y = f32[] cosine(x)\n  t = (s32[], f32[]) tuple(z, y)\n  ROOT w = (s32[], f32[]) while(t)",
    )
    arguments = (np.int32(0), np.float32(0.5))
    (wanted,) = evaluate(parse(bodies), arguments)
    (found,) = evaluate(optimise(parse(bodies), strict=True), arguments)
    assert found == pytest.approx(float(wanted), rel=1e-5)


_ELIDED = """HloModule elided

ENTRY main {
  x = f32[] parameter(0)
  c = f32[1048576,1048576] constant({...})
  d = f32[1048576,1048576] constant({...})
  s = f32[1048576,1048576] add(c, d)
  t = f32[1048576,1048576] transpose(s), dimensions={1,0}
  e = f32[1,1] slice(t), slice={[0:1], [0:1]}
  r = f32[] reshape(e)
  ROOT y = f32[] add(r, x)
}
"""


def test_passes_do_not_look_into_elided_constants() -> None:
    module = optimise(parse(_ELIDED), strict=True)
    constants = [i.literal for i in module.instructions() if i.opcode == "constant" and i.shape.rank]
    assert constants
    assert all(literal.elided and not literal.is_splat for literal in constants)


CALLS = {
    "TopK of one output": 'f32[4,3] custom-call(x), custom_call_target="TopK"',
    "TopK of three": '(f32[4,3], s32[4,3], s32[4,3]) custom-call(x), custom_call_target="TopK"',
    "TopK of two operands": '(f32[4,3], s32[4,3]) custom-call(x, x), custom_call_target="TopK"',
    "TopK of other rows": '(f32[5,3], s32[5,3]) custom-call(x), custom_call_target="TopK"',
    "TopK of more than there are": '(f32[4,30], s32[4,30]) custom-call(x), custom_call_target="TopK"',
    "TopK of unlike outputs": '(f32[4,3], s32[4,2]) custom-call(x), custom_call_target="TopK"',
    "X64Combine of one": 'u64[4,16] custom-call(x), custom_call_target="X64Combine"',
    "X64SplitLow of another shape": 'u32[4] custom-call(x), custom_call_target="X64SplitLow"',
    "AllocateBuffer of something": 'f32[4,16] custom-call(x), custom_call_target="AllocateBuffer"',
}


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
@pytest.mark.parametrize("call", CALLS)
def test_custom_calls_in_forms_that_xla_does_not_give_them(call: str, backend: str) -> None:
    module = parse(f"HloModule m\n\nENTRY main {{\n  x = f32[4,16] parameter(0)\n  ROOT t = {CALLS[call]}\n}}\n")
    with pytest.raises(UnsupportedError, match=r"^t: custom call '\w+'"):
        compile_module(module, backend, strict=True)(np.zeros((4, 16), np.float32))
