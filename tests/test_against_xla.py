"""Modules of the corpus that hlotool optimises worse than XLA are known, each with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from against_xla import compare, explanations, optimised_by_xla, table
from semantics.xla_oracle import missing

MODELS = Path(__file__).parents[2] / "shared" / "corpus" / "models"


def test_explanations_are_of_modules_and_in_order() -> None:
    names = list(explanations())
    assert names == sorted(names)
    if MODELS.exists():
        assert all((MODELS / f"{name}.hlo").exists() for name in names)


@pytest.mark.skipif(not MODELS.exists(), reason="the corpus of models is not here")
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_every_row_that_is_worse_is_explained_and_no_other(tmp_path: Path) -> None:
    made = optimised_by_xla(sorted(MODELS.glob("*.hlo")), tmp_path)
    assert len(made) > 100
    rows = [compare(file.stem, file.read_text(), text) for file, text in made.items()]
    assert {row.name for row in rows if row.is_worse} == set(explanations()), table(rows)
