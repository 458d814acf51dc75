"""Results that lie in the same memory in eager PyTorch do so in compiled graphs, and are as far apart there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import begin_anew  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    begin_anew()


def both(function: Any, x: Any, calls: int = 2, **options: Any) -> list[tuple[Sequence[Any], Any]]:
    """The results, compiled and then eagerly, each with the argument that they are of."""
    found = []
    for run in (torch.compile(function, backend="hlotool", **options), function):
        for _ in range(calls):
            given = x.detach().clone().requires_grad_(x.requires_grad)
            results = run(given)
        found.append((results if isinstance(results, (tuple, list)) else (results,), given))
    return found


def places(results: Sequence[Any], given: Any) -> list[Any]:
    """What of the results and the argument each result lies in, and how."""
    memory = [t.untyped_storage().data_ptr() for t in (given, *results)]
    return [(memory.index(one), result.stride()) for one, result in zip(memory[1:], results, strict=True)]


def made_twice(x: Any) -> Any:
    y = x * 2
    return y, y.view(-1)


FUNCTIONS = {
    "a result and a view of it": made_twice,
    "two views": lambda x: (lambda y: (y.view(-1), y.t()))(x * 2),
    "pieces": lambda x: (x * 2).split([1, 3]),
    "columns": lambda x: (x * 2).unbind(1),
    "columns of the argument": lambda x: x.unbind(1),
    "every element many times": lambda x: (x * 2).expand(3, 4, 4),
    "with holes": lambda x: (x + 1)[:, ::2],
    "a diagonal": lambda x: (x + 1).diagonal(),
    "one without a gradient": lambda x: (lambda y: (y, y[1].detach()))(x * 3),
    "other bits": lambda x: (lambda y: (y, y.detach().view(torch.int32)))(x * 3),
    "read further on": lambda x: (lambda y: (y[:, 1:], y[:, 1:].exp().sum()))(x * 2),
}


@pytest.mark.parametrize("gradient", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_memory_is_shared_as_eagerly(name: str, gradient: bool) -> None:
    for calls in (1, 2):  # the second call of a graph with gradients goes a shorter way
        own, eager = both(FUNCTIONS[name], torch.randn(4, 4, requires_grad=gradient), calls)
        torch.testing.assert_close(list(own[0]), list(eager[0]))
        assert places(*own) == places(*eager)
        assert [t.requires_grad for t in own[0]] == [t.requires_grad for t in eager[0]]
        if gradient:
            grads = []
            for results, given in (own, eager):
                torch.stack([r.square().sum() for r in results if r.requires_grad]).sum().backward()
                grads.append(given.grad)
            torch.testing.assert_close(*grads)


def test_sizes_that_vary() -> None:
    compiled = torch.compile(made_twice, backend="hlotool", dynamic=True)
    for rows in (2, 3, 5):
        one, other = compiled(torch.randn(rows, 4))
        other.zero_()
        assert not one.any()
        assert other.shape == (4 * rows,)


def test_what_is_written_where_a_graph_ends_is_seen_in_views() -> None:
    """Python asks for a number between the two times that `a` is written to."""

    def count(x: Any) -> Any:
        a = x + 1
        first = a[0:1].squeeze()
        a[0] = 0
        if a[0] < 1:
            a[0] = 2
        return first

    (own, _), (eager, _) = both(count, torch.ones(1))
    assert own[0] == eager[0] == 2


def test_views_of_results_may_be_written_to() -> None:
    """Autograd forbids it for views that one function gave of its argument: these are none."""
    for calls in (1, 2):
        grads = []
        for (result, *_), given in both(lambda x: (x * 2)[:, ::2], torch.ones(4, 4, requires_grad=True), calls):
            result.mul_(3)
            result.sum().backward()
            grads.append(given.grad)
        torch.testing.assert_close(*grads)


def test_within_vmap() -> None:
    compiled = torch.compile(lambda x: (x * 2).split(1), backend="hlotool")
    compiled(torch.ones(3))
    own = torch.vmap(compiled)(torch.arange(6.0).view(2, 3))
    torch.testing.assert_close(list(own), list((torch.arange(6.0).view(2, 3) * 2).split(1, dim=1)))
