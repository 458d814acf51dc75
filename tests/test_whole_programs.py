"""Random programs of all opcodes at once; ``python -m semantics.programs`` runs more of them."""

from __future__ import annotations

import pytest
from semantics.programs import run_program


@pytest.mark.parametrize("seed", range(20))
def test_native_code_and_evaluator_agree(seed: int) -> None:
    failure = run_program(seed)
    assert failure is None, str(failure)
