"""The programs of samples/jax: some of them on stock and on the plug-in; all, by ``tests/survey_jax_samples.py``."""

from __future__ import annotations

import importlib.util

import pytest
import survey_jax_samples as survey

pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")


@pytest.mark.parametrize("name", ["linear_regression", "logistic_newton", "k_means", "mlp_adam", "fluid"])
def test_the_same_numbers_on_stock_and_on_the_plug_in(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "mlp_adam" and importlib.util.find_spec("optax") is None:
        pytest.skip("optax is not installed")
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    stock, _, failed = survey.run(survey.FOLDER / f"{name}.py", "cpu")
    assert not failed
    found, _, failed = survey.run(survey.FOLDER / f"{name}.py", "hlotool")
    assert not failed
    assert survey.difference(stock, found) < 1e-4


def test_differences_are_seen() -> None:
    assert survey.difference("loss 1.0", "loss 1.0") == 0
    assert survey.difference("loss 1.0", "loss 1.1") > 0.05
    assert survey.difference("loss 1.0", "gain 1.0") == float("inf")
    assert not survey.difference("loss 1.0", "loss nan") <= 1
