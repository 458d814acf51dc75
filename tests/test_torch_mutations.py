"""Graphs that write to their inputs: the tensors themselves have the results, as in eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from hlotool.torch import fastcall  # noqa: E402
from hlotool.torch.mutations import must_follow  # noqa: E402


@pytest.fixture(autouse=True, params=["short", "numpy"])
def fresh(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways from tensors into the code."""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    if request.param == "numpy":
        monkeypatch.setattr(fastcall, "usable", lambda executable: False)
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend="hlotool", **options)
    return made


def check(function: Callable[..., Any], *tensors: Any, exact: bool = False, **options: Any) -> None:
    """Results and arguments are afterwards what they are in eager PyTorch, at two calls."""
    own, other = copy.deepcopy(tensors), copy.deepcopy(tensors)
    places = [t.data_ptr() for t in own]
    run = compiled(function, **options)
    bounds = {"rtol": 0.0, "atol": 0.0} if exact else {}
    for _ in range(2):
        torch.testing.assert_close(run(*own), function(*other), **bounds)
        torch.testing.assert_close(own, other, **bounds)
    assert [t.data_ptr() for t in own] == places


def test_one_input_is_written() -> None:
    def add(x: Any, y: Any) -> Any:
        x.add_(y)
        return x * 2

    check(add, torch.randn(5, 7), torch.randn(5, 7), exact=True)


def test_nothing_is_given_back() -> None:
    def decay(x: Any, y: Any) -> None:
        x.mul_(0.5)
        y.sub_(x)

    check(decay, torch.randn(33), torch.randn(33), exact=True)


def test_an_input_is_written_from_another_of_another_type() -> None:
    def fill(x: Any, y: Any) -> None:
        x.copy_(y.exp() + 1)

    check(fill, torch.randint(9, (4, 6)), torch.randn(6))


def test_inputs_change_places() -> None:
    def swap(x: Any, y: Any) -> None:
        old = x + 0
        x.copy_(y)
        y.copy_(old)

    check(swap, torch.randn(64, 3), torch.randn(64, 3), exact=True)


def test_what_is_written_is_a_result_too() -> None:
    """The result has memory of its own: it stays when the input changes again."""

    def step(x: Any) -> Any:
        new = x.sin() + 1
        x.copy_(new)
        return new

    x = torch.randn(40)
    run = compiled(step)
    first = run(x)
    kept = first.clone()
    run(x)
    assert first.data_ptr() != x.data_ptr()
    assert torch.equal(first, kept)
    check(step, torch.randn(40))


@pytest.mark.parametrize("lie", ["transposed", "sliced", "unaligned", "channels last", "scalar", "empty"])
def test_however_the_input_lies(lie: str) -> None:
    def made() -> Any:
        base = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32)
        return {
            "transposed": lambda: base.reshape(24, 5).t(),
            "sliced": lambda: base.reshape(12, 10)[:, 1:7:2],
            "unaligned": lambda: base[1:9],
            "channels last": lambda: base.reshape(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "scalar": lambda: torch.tensor(3.0),
            "empty": lambda: torch.empty(0, 4),
        }[lie]()

    def step(x: Any) -> None:
        x.mul_(1.5).add_(x.sum() * 0.25)

    own, other = made(), made()
    run = compiled(step)
    for _ in range(3):
        run(own)
        step(other)
        torch.testing.assert_close(own, other)


def test_a_part_that_runs_eagerly_reads_the_input_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")

    def step(x: Any) -> Any:
        old = torch.kthvalue(x, 3).values if hasattr(torch, "kthvalue") else x[2]
        x.add_(x.mean()).mul_(2)
        return old

    check(step, torch.randn(50))
    check(lambda x: (torch.randperm(3), step(x))[1], torch.randn(50))


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_change(dynamic: bool) -> None:
    def step(x: Any, y: Any) -> Any:
        x.add_(y * 0.5)
        return x.sum()

    run = compiled(step, dynamic=dynamic)
    for size in (3, 8, 65):
        own, other, y = torch.ones(size, 2), torch.ones(size, 2), torch.randn(size, 2)
        torch.testing.assert_close(run(own, y), step(other, y))
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {}), ("Adam", {"amsgrad": True}),
        ("AdamW", {}), ("RMSprop", {"centered": True}), ("Adagrad", {}),
    ],
)  # fmt: skip
def test_a_step_of_an_optimiser_writes_to_the_parameters(kind: str, options: dict[str, Any]) -> None:
    def made() -> tuple[list[Any], Any]:
        torch.manual_seed(1)
        weights = [torch.nn.Parameter(torch.randn(size)) for size in ((33, 17), (17,), (1,))]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        return weights, getattr(torch.optim, kind)(weights, lr=0.01, **options)

    own, optimiser = made()
    other, eager = made()
    places, step = [weight.data_ptr() for weight in own], compiled(optimiser.step)
    for _ in range(5):
        step()
        eager.step()
    torch.testing.assert_close(own, other)
    assert [weight.data_ptr() for weight in own] == places
    for a, b in zip(own, other, strict=True):
        torch.testing.assert_close(optimiser.state[a], eager.state[b])


def test_autograd_is_told() -> None:
    """What a graph saved is found to have changed."""
    weight = torch.nn.Parameter(torch.randn(5))
    weight.grad = torch.randn(5)
    optimiser = torch.optim.SGD([weight], lr=0.1)
    step = compiled(optimiser.step)
    step()
    loss = (weight**2).sum()
    step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_running_statistics_are_written_and_trained_with() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh())
    other = copy.deepcopy(model)
    run = compiled(model)
    for _ in range(3):
        x = torch.randn(16, 6)
        run(x).sum().backward()
        other(x).sum().backward()
    torch.testing.assert_close(dict(model.named_buffers()), dict(other.named_buffers()))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_tensors_that_lie_otherwise_are_seen() -> None:
    tensor = torch.ones(3, 4)
    fastcall.assert_lying((tensor,), ((3, 4),), ((4, 1),))
    with pytest.raises((AssertionError, RuntimeError)):
        fastcall.assert_lying((tensor, tensor), ((3, 4), (4, 3)), ((4, 1), (3, 1)))
    with pytest.raises((AssertionError, RuntimeError)):
        fastcall.assert_lying((tensor.t(),), ((4, 3),), ((3, 1),))


def test_what_must_follow() -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    first = graph.call_function(torch.ops.aten.sin.default, (x,))
    second = graph.call_function(torch.ops.aten.copy_.default, (x, y))
    third = graph.call_function(torch.ops.aten.add.Tensor, (first, x))
    fourth = graph.call_function(torch.ops.aten.copy_.default, (x, third))
    assert must_follow(graph.nodes) == {
        second.name: (first.name,),
        third.name: (second.name,),
        fourth.name: (first.name, second.name, third.name),
    }
