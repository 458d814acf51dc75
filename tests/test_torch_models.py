"""Models through ``torch.compile(backend="hlotool")`` and `hlotool.torch.compile`, against eager PyTorch."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import begin_anew  # noqa: E402
from torch_models import MODELS, training_step  # noqa: E402

import hlotool.torch  # noqa: E402
from hlotool.torch.record import reports  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> None:
    begin_anew(1)


def all_compiled() -> None:
    """No operation ran eagerly but for what is not worth a call."""
    fell = [f for graph in reports() for f in graph.fallbacks if "not worth a call" not in f.reason]
    assert reports()
    assert fell == []


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_what_they_do_eagerly(name: str) -> None:
    make, example = MODELS[name]
    model, x = make().eval(), example()
    with torch.no_grad():
        wanted = model(x)
        torch.testing.assert_close(hlotool.torch.compile(model, (x,))(x), wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(torch.compile(model, backend="hlotool")(x), wanted, rtol=1e-4, atol=1e-5)
    all_compiled()


@pytest.mark.parametrize("name", MODELS)
def test_models_train_as_they_do_eagerly(name: str) -> None:
    """Three steps of SGD: losses, gradients, parameters and buffers stay the same."""
    make, example = MODELS[name]
    eager = make()
    model = copy.deepcopy(eager)
    compiled = torch.compile(model, backend="hlotool")
    optimisers = [torch.optim.SGD(m.parameters(), lr=1e-2) for m in (eager, model)]
    for _ in range(3):
        x = example()
        for optimiser in optimisers:
            optimiser.zero_grad()
        wanted, gradients = training_step(eager, x)
        found = compiled(x).square().mean()
        found.backward()
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-4, atol=1e-5)
        for own, theirs in zip(model.parameters(), gradients, strict=True):
            torch.testing.assert_close(own.grad, theirs, rtol=1e-3, atol=1e-4)
        for optimiser in optimisers:
            optimiser.step()
    for own, theirs in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-3, atol=1e-4)
    all_compiled()
