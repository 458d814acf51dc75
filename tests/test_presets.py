"""Presets of the printer, the content hash, and the page hlo(5)."""

from __future__ import annotations

import base64
import json
import re
import runpy
from pathlib import Path

import pytest
from conftest import ROOT, Run
from models import models

from hlotool.ir import Module, UnsupportedError
from hlotool.ir.opcodes import COMMON_ATTRIBUTES, SPELLED
from hlotool.ir.verifier import check
from hlotool.text.arrange import arrange
from hlotool.text.compare import difference
from hlotool.text.fingerprint import content_hash, without_places
from hlotool.text.header import HEADER_ATTRIBUTES
from hlotool.text.load import parse_all
from hlotool.text.parser import parse
from hlotool.text.presets import PRESETS, print_preset

FILES = models() + sorted((ROOT / "samples").glob("*.hlo"))
SMALL = [path for path in FILES if path.stat().st_size < 60_000]

LOOP = """HloModule loop, frontend_attributes={b="1",a="2"}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b), metadata={op_name="add" source_file="/home/me/model.py" source_line=3}
}

other {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0), sharding={replicated metadata={op_name="x"}}
  k = f32[2,3]{1,0} constant({ { 1, 2.5, 0.1 }, { 3.14159274, 1e-7, 16777216 } })
  z = f32[] constant(0)
  y = f32[2,3]{1,0} multiply(x, k), backend_config={"b":1,"a":{"file":"/home/me/model.py:3"}}
  s = f32[2]{0} reduce(y, z), dimensions={1}, to_apply=add
  ROOT t = f32[] reduce(s, z), dimensions={0}, to_apply=other
}
"""


@pytest.fixture(scope="module", params=SMALL, ids=lambda path: path.stem)
def model(request: pytest.FixtureRequest) -> Module:
    return parse(request.param.read_text(encoding="utf-8"))


def stripped(module: Module) -> Module:
    """The module without what the short preset leaves out."""
    module.stack_frames = None
    for instruction in module.instructions():
        instruction.metadata = None
        for name in COMMON_ATTRIBUTES:
            instruction.attributes.pop(name, None)
        for before in list(instruction.control_predecessors):
            instruction.remove_control_predecessor(before)
    return module


def test_default_reads_back_as_the_same_module(model: Module) -> None:
    assert difference(parse(print_preset(model, "default")), model) is None


def test_xla_text_is_stable_and_keeps_the_meaning(model: Module) -> None:
    text = print_preset(model, "xla")
    again = parse(text)
    assert print_preset(again, "xla") == text
    if "{...}" not in text:
        assert content_hash(again) == content_hash(model)


def test_canonical_text_is_stable(model: Module) -> None:
    for preset in ("canonical", "fingerprint"):
        text = print_preset(model, preset)
        again = parse(text)
        check(again)
        assert print_preset(again, preset) == text


def test_the_hash_survives_printing(model: Module) -> None:
    assert content_hash(parse(print_preset(model, "default"))) == content_hash(model)


def test_short_reads_back_without_annotations(model: Module) -> None:
    again = parse(print_preset(model, "short"))
    assert difference(again, stripped(parse(print_preset(model, "default")))) is None


# ---- what differs and what does not


def renamed(text: str) -> str:
    """The same program under other names, without metadata."""
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    for name in ("add", "other", "main", "loop", "x", "k", "z", "y", "s", "t", "a", "b", "c", "p", "q", "r"):
        text = re.sub(rf"(?<![\w\"{{]){name}(?= (?:=|{{)|[,)\n]| )", f"new_{name}", text)
    return text.replace("new_add(", "add(")


SAME = {
    "names": renamed(LOOP).replace("HloModule new_loop", "HloModule other"),
    "shared computations": LOOP.replace("to_apply=other", "to_apply=add"),
    "order": LOOP.replace(
        '  x = f32[2,3]{1,0} parameter(0), sharding={replicated metadata={op_name="x"}}\n', ""
    ).replace("  z = ", "  x = f32[2,3]{1,0} parameter(0), sharding={replicated}\n  z = "),
    "default layouts": LOOP.replace("{1,0}", "").replace("f32[2]{0}", "f32[2]"),
    "source paths": LOOP.replace("/home/me", "/tmp/other place"),
    "order in JSON": LOOP.replace('"b":1,"a":{"file":"/home/me/model.py:3"}', '"a":{"file":""},"b":1'),
    "defaults": LOOP.replace("parameter(0), sharding", "parameter(0), frontend_attributes={}, sharding"),
}
OTHER = {
    "a constant": LOOP.replace("2.5", "2.25"),
    "a layout": LOOP.replace("k = f32[2,3]{1,0}", "k = f32[2,3]{0,1}"),
    "an opcode": LOOP.replace("add(p, q)", "maximum(p, q)"),
    "operand order": LOOP.replace("multiply(x, k)", "multiply(k, x)"),
    "a configuration": LOOP.replace('"b":1', '"b":2'),
    "a sharding": LOOP.replace("{replicated ", "{manual "),
    "attributes of the module": LOOP.replace('a="2"', 'a="3"'),
}


@pytest.mark.parametrize("change", SAME)
def test_the_hash_ignores(change: str) -> None:
    assert SAME[change] != LOOP
    assert content_hash(parse(SAME[change])) == content_hash(parse(LOOP))


@pytest.mark.parametrize("change", OTHER)
def test_the_hash_sees(change: str) -> None:
    assert OTHER[change] != LOOP
    assert content_hash(parse(OTHER[change])) != content_hash(parse(LOOP))


def test_modules_that_differ_in_names_have_one_canonical_text() -> None:
    assert print_preset(parse(SAME["names"]), "canonical") == print_preset(parse(LOOP), "canonical")


def test_paths_in_base64_do_not_matter() -> None:
    def config(path: str) -> str:
        body = base64.b64encode(f'module {{ loc("{path}":3:4) }} and more text'.encode()).decode()
        return json.dumps({"custom_call_config": {"body": body}})

    assert without_places(config("/home/me/kernel_a.py")) == without_places(config("/data/of/kernel_a.py"))
    assert without_places(config("/home/me/kernel.py")) != without_places(config("/home/me/kernel").replace("A", "B"))
    assert without_places('{"a": "' + "QUJD" * 8 + '"}') == '{"a":"' + "QUJD" * 8 + '"}'


def test_the_scheduled_order_matters() -> None:
    first = LOOP.replace("HloModule loop", "HloModule loop, is_scheduled=true")
    second = SAME["order"].replace("HloModule loop", "HloModule loop, is_scheduled=true")
    assert content_hash(parse(first)) != content_hash(parse(second))


def test_endless_canonical_forms_are_refused_but_hashed() -> None:
    parts = ["c0 {\n  ROOT x = f32[] parameter(0)\n}"]
    for n in range(1, 60):
        calls = f"  a = f32[] call(p), to_apply=c{n - 1}\n  ROOT b = f32[] call(a), to_apply=c{n - 1}\n"
        parts.append(f"c{n} {{\n  p = f32[] parameter(0)\n{calls}}}")
    module = parse("\n\n".join(parts))
    with pytest.raises(UnsupportedError, match="instructions"):
        print_preset(module, "canonical")
    assert len(content_hash(module)) == 64


# ---- XLA's bytes (checked against XLA; these are excerpts)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[2,1]{1,0}", "{ {0}, {1} }"),
        ("f32[2,2,2]{2,1,0}", "{ { { 0, 1 }, { 2, 3 } }, { { 4, 5 }, { 6, 7 } } }"),
        ("f32[1,2,2,1]{3,2,1,0}", "{ { /*i0=0*/ { /*i1=0*/ {0}, {1} }, { /*i1=1*/ {2}, {3} } } }"),
        ("f32[3,0]{1,0}", "{ {}, {}, {} }"),
        ("f32[4294967296,0]{1,0}", "{...}"),
        ("f32[11]{0}", "{...}"),
        ("f32[]", "123456792"),
        ("f32[]", "1.4013e-45"),
        ("f64[]", "1.2345678901234568e+17"),
        ("f16[]", "0.099976"),
        ("bf16[]", "0.1001"),
        ("f8e5m2[]", "5.7e+04"),
        ("f8e4m3fn[]", "0.102"),
        ("pred[]", "true"),
        ("pred[2]{0}", "{1, 0}"),
        ("c64[]", "(0.1, 1e+10)"),
        ("f32[2]{0}", "{-nan, nan(0x1)}"),
    ],
)
def test_xla_prints_literals_so(shape: str, text: str) -> None:
    given = text if text != "{...}" else "{}" if "0]" in shape else "{1,2,3,4,5,6,7,8,9,10,11}"
    module = parse(f"ENTRY e {{\n  ROOT c = {shape} constant({given})\n}}\n")
    assert f"ROOT %c = {shape} constant({text})" in print_preset(module, "xla")


def test_xla_order_of_computations_instructions_and_attributes() -> None:
    text = print_preset(parse(LOOP), "xla")
    assert text.startswith("HloModule loop, entry_computation_layout={(f32[2,3]{1,0})->f32[]}, frontend_attributes={")
    assert re.findall(r"^%(\w+)", text, re.MULTILINE) == ["add", "other"]
    assert "ENTRY %main (x: f32[2,3]) -> f32[] {\n  %x = " in text
    assert text.endswith("}\n\n")
    dot = parse(
        "ENTRY e {\n  a = f32[2,3,4] parameter(0)\n  b = f32[2,4,5] parameter(1)\n  ROOT d = f32[2,3,5] dot(a, b), "
        "rhs_contracting_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, lhs_batch_dims={0}, "
        "operand_precision={default,default}\n}\n"
    )
    assert "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}\n" in (
        print_preset(dot, "xla")
    )


def test_repeated_names_become_unique_as_in_xla() -> None:
    module = arrange(
        parse("f {\n  a = f32[] parameter(0)\n  ROOT a.1 = f32[] negate(a)\n}\n\n"
              "ENTRY e {\n  a = f32[] parameter(0)\n  ROOT a.1 = f32[] call(a), to_apply=f\n}\n")
    )  # fmt: skip
    assert [i.name for i in module.entry] == ["a.2", "a.3"]


# ---- commands


@pytest.mark.parametrize("preset", PRESETS)
def test_fmt_knows_every_preset(tmp_path: Path, hlotool: Run, preset: str) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(LOOP, encoding="utf-8")
    done = hlotool("fmt", "--preset", preset, path)
    assert done.returncode == 0
    assert done.stdout == print_preset(parse(LOOP), preset)


def test_hash_prints_a_line_per_module(tmp_path: Path, hlotool: Run) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(f"{LOOP}// -----\n{OTHER['a constant']}", encoding="utf-8")
    lines = hlotool("hash", path).stdout.splitlines()
    assert [line.split("  ") for line in lines] == [
        [content_hash(parse(LOOP)), str(path)],
        [content_hash(parse(OTHER["a constant"])), f"{path}#2"],
    ]
    report = json.loads(hlotool("hash", "--format", "json", path).stdout)
    assert [row["sha256"] for row in report["modules"]] == [line[:64] for line in lines]


# ---- hlo(5)

PAGE = runpy.run_path(str(ROOT / "man" / "hlo_page.py"))


@pytest.mark.parametrize("title", PAGE["EXAMPLES"])
def test_examples_of_the_page_are_valid(title: str) -> None:
    for module in parse_all(PAGE["EXAMPLES"][title]):
        check(module)
        assert difference(parse(print_preset(module, "default")), module) is None


def test_the_grammar_defines_every_rule_once_and_every_kind() -> None:
    text = "\n".join(PAGE["GRAMMAR"].values())
    rules = re.findall(r"^([a-z_]+(?: [a-z]+)?)\s+= ", text, re.MULTILINE)
    assert len(rules) == len(set(rules))
    rows = [*HEADER_ATTRIBUTES.values(), *COMMON_ATTRIBUTES.values()]
    rows += [attribute for opcode in SPELLED.values() for attribute in opcode.attributes]
    assert {row.kind for row in rows} <= set(rules)


def test_the_page_names_every_opcode_and_attribute() -> None:
    page = PAGE["page"]().replace("\\-", "-")
    for opcode in SPELLED.values():
        assert re.search(rf"[ B]{re.escape(opcode.name)}\*?[ \\]", page), opcode.name
        for row in opcode.attributes:
            assert row.name in ("parameter_number", "literal") or f"{row.name}=" in page
    assert all(f"{name}=" in page for name in (*COMMON_ATTRIBUTES, *HEADER_ATTRIBUTES))
