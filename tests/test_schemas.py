"""The schemas of JSON answers are schemas, are printed, and fit what commands print."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT
from json_schemas import SCHEMAS, check_json
from jsonschema import Draft202012Validator

MODULE = "HloModule m\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  ROOT r = f32[4]{0} add(p, p)\n}\n"
TUPLE = """HloModule t, input_output_alias={ {1}: (1, {}, may-alias) }, buffer_donor={ (0, {1}) }

ENTRY e {
  t = (f32[4]{0}, pred[]) parameter(0)
  c = c64[3]{0} parameter(1)
  a = f32[4]{0} get-tuple-element(t), index=0
  k = f32[4]{0} custom-call(a), custom_call_target="somewhere"
  ROOT r = (f32[4]{0}, c64[3]{0}) tuple(k, c)
}
"""
WRONG = MODULE.replace("ROOT r = f32[4]", "ROOT r = f32[5]")
KINDS = sorted(path.stem for path in SCHEMAS.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_and_strict(kind):
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"] == {"const": kind}
    assert schema["properties"]["schema_version"] == {"const": 1}
    assert {"schema_version", "kind"} <= set(schema["required"])
    assert not list(_open_objects(schema, kind))


def _open_objects(schema, where):
    """Where a schema allows fields that it does not name."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("additionalProperties") is not False:
            yield where
        for name, part in schema.items():
            yield from _open_objects(part, f"{where}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from _open_objects(part, where)


def test_schemas_are_printed(hlotool):
    assert hlotool("schema").stdout.split() == KINDS
    assert hlotool("schema", "hash").stdout == (SCHEMAS / "hash.json").read_text()
    assert hlotool("schema", "nothing").returncode == 2


@pytest.fixture(params=["module", "tuple", "wrong", "mean", "while_loop", "attention"])
def module(request, tmp_path):
    """Modules of all kinds: what is unknown or wrong in one is said in notes."""
    texts = {"module": MODULE, "tuple": TUPLE, "wrong": WRONG}
    if request.param not in texts:
        return ROOT / "samples" / f"{request.param}.hlo"
    path = tmp_path / f"{request.param}.hlo"
    path.write_text(texts[request.param])
    return path


def test_answers_about_a_module(hlotool, module):
    for command in ("hash", "stats", "signature", "tree"):
        answer = check_json(hlotool(command, module, "--format", "json").stdout)
        assert bool(answer.get("notes")) == (module.stem == "wrong" and command != "hash")
    found = hlotool("verify", module, "--format", "json")
    assert bool(check_json(found.stdout)["errors"]) == (found.returncode == 3) == (module.stem == "wrong")
    found = check_json(hlotool("query", "users >= 0", module, "--format", "json").stdout)
    assert found["count"] == len(found["matches"]) > 0


def test_a_query_that_finds_nothing(hlotool):
    found = hlotool("query", "opcode == dot", "-", "--format", "json", stdin=MODULE)
    assert (found.returncode, check_json(found.stdout)["matches"]) == (1, [])
    found = hlotool("query", "rank == 1", "-", "--count", "--format", "json", stdin=MODULE)
    assert (check_json(found.stdout)["count"], "matches" in found.stdout) == (2, False)


@pytest.mark.parametrize("name", ["mean", "while_loop", "attention"])
def test_answers_about_native_code(hlotool, tmp_path, name):
    file = ROOT / "samples" / f"{name}.hlo"
    check_json(hlotool("compile", file, "--format", "json").stdout)
    answer = check_json(hlotool("run", file, "--compare", "evaluate", "--format", "json").stdout)
    assert answer["verdict"] == "ok"
    answer = check_json(hlotool("run", file, "--repeat", "2", "--bitwise", "--format", "json").stdout)
    assert "verdict" not in answer
    assert hlotool("opt", file, "-p", "default", "--statistics-to", "s.json", "--pass-statistics").returncode == 0
    assert check_json((tmp_path / "s.json").read_text())["runs"]


def test_a_donated_argument(hlotool):
    answer = check_json(hlotool("compile", "-", "--donate", "0", "--format", "json", stdin=MODULE).stdout)
    assert answer["donated"] == {"out0": "arg0"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain"], ["explain", "HLO0102"], ["explain", "HLO4012"], ["passes"], ["passes", "fusion"],
        ["passes", "default"], ["passes", "--thresholds"],
    ],
)  # fmt: skip
def test_answers_about_hlotool(hlotool, arguments):
    check_json(hlotool(*arguments, "--format", "json").stdout)


def test_explanations_of_instructions(hlotool):
    file = ROOT / "samples" / "attention.hlo"
    found = check_json(hlotool("query", "rank > 0", file, "--format", "json").stdout)
    names = [row["name"] for row in found["matches"]]
    for name in (names[0], names[-1]):
        answer = check_json(hlotool("explain", name, "--file", file, "--format", "json").stdout)
        assert answer["kind"] == "explain-instruction"
    answer = check_json(hlotool("explain", "fusion", file, names[0], names[-1], "--format", "json").stdout)
    assert answer["kind"] == "explain-fusion"


def test_explanations_of_shardings(hlotool):
    file = ROOT / "tests" / "data" / "sharded" / "scan_layers.hlo"
    answer = check_json(hlotool("explain", "sharding", file, "dot_general.2", "--format", "json").stdout)
    assert answer["kind"] == "explain-sharding"
    assert answer["values"][-1]["why"] == "annotated"
    assert answer["values"][0]["sharding"] == "{devices=[2,4]<=[8]}"
