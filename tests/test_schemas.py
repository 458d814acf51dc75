"""The schemas of JSON answers are schemas, are printed, and fit what commands print."""

from __future__ import annotations

import json

import pytest
from json_schemas import SCHEMAS, check_json
from jsonschema import Draft202012Validator

MODULE = "HloModule m\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  ROOT r = f32[4]{0} add(p, p)\n}\n"
KINDS = sorted(path.stem for path in SCHEMAS.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_and_strict(kind):
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"] == {"const": kind}
    assert schema["properties"]["schema_version"] == {"const": 1}
    assert {"schema_version", "kind"} <= set(schema["required"])


def test_schemas_are_printed(hlotool):
    assert hlotool("schema").stdout.split() == KINDS
    assert hlotool("schema", "hash").stdout == (SCHEMAS / "hash.json").read_text()
    assert hlotool("schema", "nothing").returncode == 2


def test_hash(hlotool):
    answer = check_json(hlotool("hash", "-", "--format", "json", stdin=MODULE).stdout)
    assert len(answer["modules"]) == 1
