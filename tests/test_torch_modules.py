"""Optimisers and modules of PyTorch's own databases, compiled: a few of what `survey_torch_modules.py` goes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torch.testing._internal.common_modules", reason="PyTorch's test data need expecttest")

MODULES = ["nn.BatchNorm2d.train.f32.0", "nn.GroupNorm.train.f32.0", "nn.MultiheadAttention.train.f32.0"]
STEPS = ["Adadelta.foreach.f32.1", "Adam.foreach.f32.0", "Adam.loop.f32.0", "Muon.loop.f32.0", "SGD.foreach.f32.0"]


def run_of(listed: Callable[[str, int], Any], name: str) -> Any:
    return dict(listed("f32", 2))[name]


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")


@pytest.mark.parametrize("name", MODULES)
def test_modules_train_as_eager(name: str) -> None:
    from survey_torch_modules import modules, verdict

    found = verdict(run_of(modules, name))
    assert (found.mark, found.reason) == (".", "")


@pytest.mark.parametrize("name", STEPS)
def test_optimisers_step_as_eager_and_whole(name: str) -> None:
    """Operations on lists of tensors, and the product and sum in one that dynamo makes of ``addcmul_``, are lowered."""
    from survey_torch_modules import optimisers, verdict

    found = verdict(run_of(optimisers, name))
    assert (found.mark, found.reason) == (".", "")


def test_lists_of_tensors() -> None:
    """Every kind of argument that goes with a list."""

    def f(xs: list[Any], ys: list[Any]) -> Any:
        made = torch._foreach_add(xs, ys, alpha=2)
        made = torch._foreach_mul(made, [0.5, 2.0])
        made = torch._foreach_addcdiv(made, xs, torch._foreach_exp(ys), [0.5, 3.0])
        made = torch._foreach_lerp(made, ys, 0.25)
        made = torch._foreach_maximum(torch._foreach_pow(made, 2), torch._foreach_pow(2.0, ys))
        return made, torch._foreach_norm(made), torch._foreach_clamp_min(made, 0.5)

    torch._dynamo.reset()
    torch.manual_seed(0)
    given = [torch.randn(3), torch.randn(2, 2)], [torch.randn(3), torch.randn(2, 2)]
    torch.testing.assert_close(torch.compile(f, backend="hlotool", fullgraph=True)(*given), f(*given))
