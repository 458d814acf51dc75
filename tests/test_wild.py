"""A sample of what programs of JAX's libraries compile to; and that the machinery which finds more of it works."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.models import MUTATIONS, mutant
from wild.judge import judge

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
