"""Real programs: the evaluator against results recorded from XLA."""

import importlib.util
from pathlib import Path

import pytest

from hlotool.evaluate import evaluate
from hlotool.text.parser import parse

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "corpus.py"


def _load():
    spec = importlib.util.spec_from_file_location("corpus", CORPUS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cases():
    if not CORPUS.exists():
        return []
    corpus = _load()
    cases = [corpus.Case(path) for path in corpus.names()]
    return [case for case in cases if case.meta["size_class"] != "large"]


CASES = _cases()


@pytest.mark.skipif(not CASES, reason="the corpus of programs is not here")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_program(case):
    if any(target.startswith("lapack_") for target in case.meta["custom_calls"]):
        pytest.importorskip("scipy", reason="LAPACK custom calls need SciPy")
    report = case.check(list(evaluate(parse(case.hlo), case.inputs())))
    assert report["ok"], report
