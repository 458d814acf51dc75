"""Factors of matrices on graphics processors, in every order of blocks and threads."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.driver import compile_module
from hlotool.text.parser import parse


@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("batch", "n"), [(1, 1), (3, 2), (2, 17), (1, 65), (1, 300)])
def test_blocks_factor_matrices(kind: str, lower: bool, batch: int, n: int) -> None:
    """The other triangle of the operand is not read; that of the result is zero; one matrix of several is none."""
    dtype = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}[kind]
    drawn = np.random.default_rng(n)
    x = drawn.normal(size=(batch, n, n)) + (1j * drawn.normal(size=(batch, n, n)) if kind[0] == "c" else 0)
    whole = x @ x.conj().swapaxes(1, 2) + n * np.eye(n)
    right = np.linalg.cholesky(whole)
    right = right if lower else right.conj().swapaxes(1, 2)
    rubbish = np.full((n, n), 7.0)
    given = np.tril(whole) + np.triu(rubbish, 1) if lower else np.triu(whole) + np.tril(rubbish, -1)
    given = given.astype(dtype)
    if batch > 1:
        given[-1, n - 1, n - 1] = -1
    module = parse(f"ENTRY e {{ x = {kind}[{batch},{n},{n}] parameter(0) "
                   f"ROOT c = {kind}[{batch},{n},{n}] cholesky(x), lower={str(lower).lower()} }}")  # fmt: skip
    results = set()
    for order in ("emulate", "emulate-reversed", "emulate-shuffled"):
        executable = compile_module(module, f"nvptx:{order}")
        assert "block-per-matrix" in {decision.rule for decision in executable.decisions}
        (got,) = executable(given)
        results.add(got.tobytes())
        good = got[:-1] if batch > 1 else got
        rtol = 1e-4 if kind in ("f32", "c64") else 1e-10
        np.testing.assert_allclose(good, right[: len(good)], rtol=rtol, atol=rtol * float(np.abs(right).max()))
        assert batch == 1 or np.isnan(got[-1]).all()
    assert len(results) == 1
