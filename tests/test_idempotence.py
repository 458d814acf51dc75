"""What is optimised stays as it is: the pipeline has nothing to add to its own result."""

from __future__ import annotations

from pathlib import Path

import pytest
from models import models

from hlotool.driver import optimise
from hlotool.text.fingerprint import content_hash
from hlotool.text.load import load

ROOT = Path(__file__).parents[1]
FILES = [*sorted((ROOT / "samples").glob("*.hlo")), *models()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rewriting_twice_changes_nothing(file: Path) -> None:
    once = optimise(load(file))
    assert content_hash(optimise(once)) == content_hash(once)
