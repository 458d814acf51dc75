"""Random numbers of compiled graphs: those of eager PyTorch, drawn before everything else."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

from hlotool.torch.record import reports  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew()
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")


def assert_as_eager(model: Any, *arguments: Any, **options: Any) -> None:
    """Results, gradients, and the generator afterwards."""
    own = torch.compile(model, backend="hlotool", **options)
    asked = [*model.parameters(), *(a for a in arguments if a.requires_grad)]
    ends = []
    for function in (model, own):
        torch.manual_seed(3)
        found = function(*arguments)
        ends.append((found, torch.autograd.grad(found.sum(), asked), torch.get_rng_state()))
    torch.testing.assert_close(ends[1][:2], ends[0][:2], rtol=1e-5, atol=1e-5)
    assert torch.equal(ends[0][2], ends[1][2])


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(16, 48)

    def forward(self, x: Any) -> Any:
        q, k, v = self.enter(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=0.25, is_causal=True)


DROPOUTS = {
    "plain": lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.GELU(), nn.Dropout(), nn.Linear(8, 8)),
    "all": lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(1.0), nn.Linear(8, 8)),
    "alpha": lambda: nn.Sequential(nn.Linear(8, 8), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.3)),
    "attention": lambda: nn.Sequential(nn.Linear(8, 16), Attention()),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_leaves_one_cluster(name: str, dynamic: bool) -> None:
    assert_as_eager(DROPOUTS[name](), torch.randn(3, 5, 8), dynamic=dynamic)
    forward, backward = (graph.partition for graph in reports())
    assert len(forward.clusters) == 1
    assert not backward.fallbacks
    assert {node.reason for part in forward.fallbacks for node in part.nodes} <= {
        "its random numbers are PyTorch's own"
    }


def test_numbers_are_drawn_as_elements_lie_in_memory() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout2d(0.3), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Dropout())
    assert_as_eager(model.to(memory_format=torch.channels_last), torch.randn(4, 3, 8, 8))


def test_draws_of_all_kinds_come_first_in_their_order() -> None:
    def f(x: Any) -> Any:
        y = x.sin()
        noise = torch.randn_like(y) * torch.rand(8) + torch.empty_like(y).uniform_()
        choice = functional.gumbel_softmax(y) + torch.bernoulli(y, 0.25) + torch.empty_like(y).normal_(1, 2)
        whole = torch.randint_like(y, 5, dtype=torch.int64) + torch.randint_like(y, 2, 7)
        return choice * y + noise * whole.cos() + torch.randn(1) + torch.rand_like(y, dtype=torch.float64)

    torch.manual_seed(3)
    wanted = f(torch.randn(6, 8))
    torch.manual_seed(3)
    torch.testing.assert_close(torch.compile(f, backend="hlotool")(torch.randn(6, 8)), wanted)
    (graph,) = reports()
    assert [part.compiled for part in graph.partition.parts] == [False, True]


def test_draws_whose_odds_are_computed_stay_where_they_are() -> None:
    def f(x: Any) -> Any:
        return torch.bernoulli(x.sigmoid()) * torch.rand_like(x) + x

    torch.manual_seed(3)
    wanted = f(torch.randn(6, 8))
    torch.manual_seed(3)
    torch.testing.assert_close(torch.compile(f, backend="hlotool")(torch.randn(6, 8)), wanted)
    (graph,) = reports()
    assert [part.compiled for part in graph.partition.parts] == [True, False, True]
