"""Modules of the corpus that hlotool optimises worse than XLA are known, each with its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from against_xla import compare, explanations, optimised_by_xla, table

MODELS = Path(__file__).parents[2] / "shared" / "corpus" / "models"
XLA_PYTHON = os.environ.get("HLOTOOL_XLA_PYTHON", sys.executable)


def test_explanations_are_of_modules_and_in_order() -> None:
    names = list(explanations())
    assert names == sorted(names)
    if MODELS.exists():
        assert all((MODELS / f"{name}.hlo").exists() for name in names)


@pytest.mark.skipif(not MODELS.exists(), reason="the corpus of models is not here")
def test_every_row_that_is_worse_is_explained_and_no_other(tmp_path: Path) -> None:
    found = subprocess.run([XLA_PYTHON, "-c", "import jax, jaxlib._hlo"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"{XLA_PYTHON} has no jax; HLOTOOL_XLA_PYTHON may name a Python that has")
    made = optimised_by_xla(sorted(MODELS.glob("*.hlo")), tmp_path, XLA_PYTHON)
    assert len(made) > 100
    rows = [compare(file.stem, file.read_text(), text) for file, text in made.items()]
    assert {row.name for row in rows if row.is_worse} == set(explanations()), table(rows)
