"""What commands print with ``--format json``, held against the schemas that ``hlotool schema`` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import hlotool.cli

SCHEMAS = Path(hlotool.cli.__file__).parent / "schemas"


def check_json(text: str) -> dict[str, Any]:
    """The answer in `text`; AssertionError lists where it differs from the schema of its kind."""
    answer: dict[str, Any] = json.loads(text)
    schema = json.loads((SCHEMAS / f"{answer['kind']}.json").read_text(encoding="utf-8"))
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(answer)]
    assert not errors, "\n".join(errors)
    return answer
