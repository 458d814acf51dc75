"""The verifier: valid modules pass, every rule has a violation that is found at its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from models import models

from hlotool.ir import Computation, HloError, Instruction, Module, VerificationError, array, scalar
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.verifier import check, verify
from hlotool.text.load import load
from hlotool.text.parser import parse

_SHARED = Path(__file__).parents[2] / "shared"
_BAD = _SHARED / "badhlo"

_PRELUDE = """HloModule m

add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

state {
  s = (s32[], f32[4]{0}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  ROOT go = pred[] compare(n, n), direction=LT
}

double {
  p = f32[4]{0} parameter(0)
  ROOT d = f32[4]{0} add(p, p)
}

ENTRY main {
  x = f32[4,6]{1,0} parameter(0)
  v = f32[4]{0} parameter(1)
  s = f32[] parameter(2)
  i = s32[] parameter(3)
"""


def _found(line: str) -> list[tuple[int, int, str]]:
    """(line after the prelude, column, message) of what the verifier says."""
    result = []
    for diagnostic in verify(parse(f"{_PRELUDE}  {line}\n}}\n")):
        assert diagnostic.location is not None
        result.append((diagnostic.location.line - _PRELUDE.count("\n"), diagnostic.location.column, diagnostic.message))
    return result


def test_the_corpus_is_valid() -> None:
    for file in models():
        assert verify(load(file)) == []


@pytest.mark.skipif(not _BAD.exists(), reason="the corpus of bad modules is not here")
def test_bad_modules_are_reported_at_their_places() -> None:
    for case in json.loads((_BAD / "index.json").read_text()):
        file = _BAD / f"{case['name']}.hlo"
        if not file.exists():
            continue
        try:
            found = list(verify(load(file)))
        except HloError as error:
            found = list(error.diagnostics)
        assert bool(found) == (case["verdict"] == "error"), case["name"]
        wanted = case["errors"] if case.get("multiple") else case["errors"][:1]
        for number, want in enumerate(wanted):
            places = [want, *(want.get("also") or [])]
            candidates = found if number else found[:1]
            assert any(
                d.location is not None
                and d.location.line == p["line"]
                and p["column_start"] <= d.location.column <= p["column_end"]
                for d in candidates
                for p in places
            ), (case["name"], want["summary"])
        if case.get("fixed"):
            assert verify(load(_BAD / case["fixed"])) == [], case["fixed"]


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        ("ROOT r = f32[4,5]{1,0} negate(x)", 12, "r: negate gives f32[4,6], f32[4,5] is declared"),
        ("ROOT r = f32[4,6]{1,0} add(x, v)", 33, "operand dimensions differ"),
        ("ROOT r = f32[4]{0} reduce(x, s), dimensions={2}, to_apply=add_f32", 48, "reduce dimension 2 is out of range"),
        ("ROOT r = f32[4]{0} reduce(x, s), dimensions={1}, to_apply=double", 61, "must take 2 parameters"),
        ("ROOT r = f32[4]{0} while(v), condition=double, body=double", 42, "gives f32[4], must be pred[]"),
        ("ROOT r = f32[4]{0} while(v), condition=state, body=double", 42, "takes (s32[], f32[4]), the state is f32[4]"),
        ("ROOT r = f32[4]{0} call(x), to_apply=double", 27, "is f32[4,6], the parameter is f32[4]"),
        ("ROOT r = f32[4]{0} fusion(x), kind=kLoop, calls=double", 29, "the fused parameter is f32[4]"),
        ("ROOT r = f32[4,6]{1,0} sort(x), dimensions={0}, to_apply=add_f32", 60, "must be pred[]"),
        ("ROOT r = f32[4]{0} map(v), to_apply=double", 39, "the function works on f32[4]"),
        ("ROOT r = f32[4]{0} conditional(i, v), branch_computations={add_f32}", 62, "must take 1 parameter"),
        (
            "ROOT r = f32[4]{0} conditional(s, v, v), branch_computations={double, double}",
            34,
            "the selector must be s32[]",
        ),
        ("q = f32[] parameter(6) ROOT r = f32[] negate(q)", 23, "parameter 4 of main is missing"),
        ("q = f32[] parameter(1) ROOT r = f32[] negate(q)", 23, "parameter number 1 is used twice"),
        ("ROOT r = f32[4,6]{1,0} transpose(x), dimensions={0,0}", 51, "not a permutation"),
        ("ROOT r = f32[2,6]{1,0} slice(x), slice={[0:2], [0:7]}", 50, "beyond dimension 1"),
        ("ROOT r = f32[] get-tuple-element(s), index=0", 36, "which is no tuple"),
    ],
)
def test_violations(line: str, column: int, words: str) -> None:
    found = _found(line)
    assert len(found) == 1
    assert (found[0][0], found[0][1]) == (1, column)
    assert words in found[0][2]


def test_valid_lines() -> None:
    for line in (
        "ROOT r = f32[4]{0} reduce(x, s), dimensions={1}, to_apply=add_f32",
        "ROOT r = f32[4]{0} call(v), to_apply=double",
        "ROOT r = f32[4]{0} conditional(i, v, v), branch_computations={double, double}",
        "ROOT r = f32[4,4]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        'ROOT r = (f32[7], s32[]) custom-call(x), custom_call_target="t"',
    ):
        assert _found(line) == []


def test_several_errors_come_in_the_order_of_the_text() -> None:
    found = _found("a = f32[5] negate(v)\n  b = s32[4] negate(v)\n  ROOT c = f32[] add(s, i)")
    assert [line for line, _, _ in found] == [1, 2, 3]


def test_hints_and_related_places() -> None:
    (diagnostic,) = verify(parse(f"{_PRELUDE}  ROOT r = f32[5]{{0}} negate(v)\n}}"))
    assert diagnostic.hint == "did you mean 'f32[4]{0}'?"
    (diagnostic,) = verify(parse(f"{_PRELUDE}  ROOT r = f32[4]{{0}} fusion(x), kind=kLoop, calls=double\n}}"))
    assert diagnostic.related[0][1].line == 16


def test_module_attributes_are_compared() -> None:
    text = """HloModule m, input_output_alias={ {1}: (0, {}), {0}: (5, {}), {7}: (0, {}) }, ATTRIBUTE
ENTRY e {
  p = f32[2]{0} parameter(0)
  ROOT t = (f32[2]{0}, s32[]) tuple(p, i)
}"""
    text = text.replace("  ROOT", "  i = s32[] constant(1)\n  ROOT")
    layout = "entry_computation_layout={(f32[3]{0})->(f32[2]{0}, s32[])}"
    messages = [d.message for d in verify(parse(text.replace("ATTRIBUTE", layout)))]
    assert len(messages) == 4
    assert "cannot share memory" in messages[0]
    assert "parameter 5 does not exist" in messages[1]
    assert "output index {7} does not exist" in messages[2]
    assert "entry layout of parameter 0 is f32[3]" in messages[3]


def _small() -> tuple[Module, Instruction, Instruction]:
    module = Module("small")
    computation = module.add(Computation("main"), entry=True)
    builder = Builder(computation)
    p = builder.parameter(0, array("f32", (2,)))
    n = builder.unary("negate", p)
    computation.root = builder.unary("abs", n)
    return module, p, n


def test_edited_graphs_are_checked() -> None:
    module, p, n = _small()
    assert verify(module) == []
    p.users.clear()
    assert any("among its users" in d.message for d in verify(module))

    module, p, n = _small()
    module.entry.reorder([p, module.entry.root, n])
    assert any("before its definition" in d.message for d in verify(module))

    module, p, n = _small()
    n.name = p.name
    assert any("defined twice" in d.message for d in verify(module))

    module, p, n = _small()
    module.entry.root = Instruction("abs", scalar("f32"), (p,))
    assert any("not one of its instructions" in d.message for d in verify(module))

    module, p, n = _small()
    n.operands[0] = Instruction("parameter", p.shape, (), {"parameter_number": 0}, "elsewhere")
    assert any("not an instruction of this computation" in d.message for d in verify(module))


def test_calls_are_checked() -> None:
    module, p, _ = _small()
    outside = binary_computation("add", "f32", "outside")
    builder = Builder(module.entry, module.entry.root)
    builder.reduce(p, builder.scalar_constant(0, "f32"), (0,), outside)
    assert any("not a computation of the module" in d.message for d in verify(module))

    module, p, _ = _small()
    inner = module.add(Computation("inner"))
    q = Builder(inner).parameter(0, p.shape)
    inner.root = q
    inner.root = Builder(inner).call(inner, (q,))
    Builder(module.entry, module.entry.root).call(inner, (p,))
    assert any("calls itself" in d.message for d in verify(module))

    module, _, _ = _small()
    module.add(Computation("empty"))
    assert any("no instructions" in d.message for d in verify(module))


def test_control_cycles_are_found() -> None:
    module, p, n = _small()
    p.add_control_predecessor(n)
    (diagnostic,) = verify(module)
    assert "a cycle" in diagnostic.message


def test_check_raises_with_all_diagnostics() -> None:
    with pytest.raises(VerificationError, match="and 1 more") as caught:
        check(parse(f"{_PRELUDE}  a = f32[5] negate(v)\n  ROOT b = s32[4] negate(v)\n}}"))
    assert len(caught.value.diagnostics) == 2
