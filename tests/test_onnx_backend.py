"""ONNX's own tests for backends, a part of them; `tests/survey_onnx.py` runs all, and wrote the manual's page."""

from __future__ import annotations

import re
import unittest
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from conftest import ROOT  # noqa: E402
from onnx.backend.test import BackendTest  # noqa: E402
from survey_onnx import PASSED, cases, verdict  # noqa: E402

import hlotool.onnx.backend as backend  # noqa: E402
from hlotool.onnx.importer import has_body  # noqa: E402
from hlotool.onnx.lowering import PREVIEW_TRAINING, find  # noqa: E402

PAGE = (ROOT / "man" / "guide" / "docs" / "onnx-operators.md").read_text(encoding="utf-8")
LISTED = frozenset(re.findall(r"`(test_\w+)`", PAGE))
_EACH = 12  # of so many tests of nodes one is run here
_FIRST = 7  # operator set

WITHOUT = {
    "ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "CastMap", "CategoryMapper",
    "DictVectorizer", "LabelEncoder", "ZipMap", "Gradient",
}  # fmt: skip
"""Operators on strings, maps, images or graphs; of LabelEncoder the first version, which is from strings or to them."""


def _sample() -> list[Any]:
    nodes = [case for _, case in cases(["node"], [])]
    return [*nodes[::_EACH], *(case for _, case in cases(["simple", "pytorch-operator"], []))]


@pytest.mark.skipif(f"onnx {onnx.__version__} " not in PAGE, reason="the page is of another version of onnx")
@pytest.mark.parametrize("part", range(8))
def test_verdicts_are_those_of_the_page(part: int) -> None:
    found = {case.name: verdict(case) for case in _sample()[part::8]}
    wrong = {name: row for name, row in found.items() if (row[0] in PASSED) != (name not in LISTED)}
    assert not wrong
    assert sum(row[0] in PASSED for row in found.values()) > 20


def test_every_operator_has_a_lowering_or_a_function() -> None:
    missing = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.deprecated or schema.domain not in ("", "ai.onnx.ml", "ai.onnx.preview", PREVIEW_TRAINING):
            continue
        version = max(schema.since_version, _FIRST) if not schema.domain else schema.since_version
        if find(schema.domain, schema.name, version) is None and not has_body(schema.domain, schema.name, version):
            missing.add(schema.name)
    assert missing == WITHOUT


def test_the_suite_of_onnx_runs_with_this_backend() -> None:
    suite = BackendTest(backend, __name__)
    suite.include("^test_(relu|add_bcast|split_to_sequence_1)_cpu$")
    result = unittest.TestResult()
    suite.test_suite.run(result)
    assert result.wasSuccessful(), [*result.failures, *result.errors]
    assert result.testsRun - len(result.skipped) == 3


def test_nodes_run_alone() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    (found,) = backend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])])
    np.testing.assert_array_equal(found, [4, 6])
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
