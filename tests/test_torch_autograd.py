"""Training through ``torch.compile``: graphs whose passes are one function of autograd, and others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

from hlotool.torch.autograd import is_joined  # noqa: E402

close = torch.testing.assert_close


@pytest.fixture(autouse=True)
def fresh() -> None:
    begin_anew()


def backend(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="hlotool", **options)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


def is_one_function(tensor: Any) -> bool:
    """Whether a graph whose passes are one function is among what made a tensor."""
    pending = [tensor.grad_fn]
    while pending:
        node = pending.pop()
        if node is not None and is_joined(node):
            return True
        pending += [further for further, _ in node.next_functions] if node is not None else []
    return False


def squares(results: Any) -> Any:
    tensors = results if isinstance(results, tuple) else (results,)
    return sum(t.abs().square().sum() for t in tensors if t.requires_grad)


def same(function: Any, *examples: Any, loss: Callable[[Any], Any] = squares, **options: Any) -> bool:
    """Train by `function` eagerly and compiled: equal results, gradients and buffers.  Were they one
    function in the last call?"""
    own = copy.deepcopy(function) if isinstance(function, nn.Module) else function
    compiled = backend(own, **options)
    joined = False
    for _ in range(3):
        both = []
        for run, parts in ((function, function), (compiled, own)):
            given = [
                e.clone().requires_grad_(e.is_floating_point()) if isinstance(e, torch.Tensor) else e for e in examples
            ]
            results = run(*given)
            made = loss(results)
            joined = is_one_function(made)
            made.backward()
            found = [t.grad for t in given if isinstance(t, torch.Tensor)]
            if isinstance(parts, nn.Module):
                found += [*(p.grad for p in parts.parameters()), *parts.buffers()]
                found = [None if t is None else t.clone() for t in found]
                parts.zero_grad()
            outputs = results if isinstance(results, tuple) else (results,)
            both.append(([*outputs, *found], [t.requires_grad for t in outputs]))
        (wanted, needs), (got, needed) = both
        assert needed == needs
        for one, other in zip(got, wanted, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                close(one, other, rtol=1e-4, atol=1e-4)
    return joined


def pooled() -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))


def twice(x: Any) -> Any:
    result = x.sin()
    return result, result


def in_place(x: Any) -> Any:
    result = x.sin()
    result.add_(1)
    return result


ALONE: dict[str, tuple[Any, ...]] = {
    "layers": (mlp(), (torch.randn(4, 8),)),
    "buffers that are written to": (pooled(), (torch.randn(2, 3, 8, 8),)),
    "a result that nobody uses": (lambda x, w: (x @ w, (x * 2).sin()), (torch.randn(4, 4), torch.randn(4, 4)), 0),
    "integers": (lambda x: (x.sin(), x.argmax(-1)), (torch.randn(4, 4),)),
    "a constant": (lambda x: (x.sin(), x.cos().detach()), (torch.randn(4, 4),)),
    "an argument": (lambda x: (x.sin(), x), (torch.randn(4, 4),)),
    "a result twice": (twice, (torch.randn(4, 4),)),
    "a view": (lambda x: x.sin().t(), (torch.randn(4, 3),)),
    "written in between": (in_place, (torch.randn(4, 3),)),
    "indices": (lambda x, at: x[at].sin(), (torch.randn(5, 3), torch.tensor([1, 2, 1]))),
    "a number": (lambda x, n: x * n, (torch.randn(5, 3), 3)),
    "complex results": (torch.fft.rfft, (torch.randn(8),)),
}


@pytest.mark.parametrize("name", ALONE)
def test_passes_that_are_called_alone(name: str) -> None:
    function, examples, *only = ALONE[name]
    loss = (lambda results: results[only[0]].sum()) if only else squares
    assert same(function, *examples, loss=loss)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.t(), x.cos()),
        lambda x: (lambda made: (made, made.t()))(x.sin()),
    ],
    ids=["a view of an argument", "a result and its view"],
)
def test_what_needs_more(function: Any) -> None:
    assert not same(function, torch.randn(4, 3))


def test_sizes_that_are_not_known() -> None:
    function = mlp()
    own = copy.deepcopy(function)
    compiled = backend(own, dynamic=True)
    for batch in (4, 4, 7, 3, 7):
        x = torch.randn(batch, 8)
        results = [run(x) for run in (function, compiled)]
        for result in results:
            result.view(-1, 1, 2).expand(-1, batch, 2).square().sum().backward()
        close(*results)
        close(own[0].weight.grad, function[0].weight.grad)
    assert is_one_function(results[1])
    assert results[1]._dynamo_weak_dynamic_indices == {0}
    assert same(lambda x: x.sin().sum(0) * x.shape[0], torch.randn(4, 3), dynamic=True)


def test_gradients_as_they_come() -> None:
    """Transposed, and of one number for all elements."""
    numbers = torch.arange(20.0).reshape(5, 4)
    examples = torch.randn(4, 3), torch.randn(3, 5)
    assert same(torch.matmul, *examples, loss=lambda y: (y.t() * numbers).sum())
    assert same(torch.matmul, *examples, loss=lambda y: y.sum())


def test_arguments_whose_gradient_nobody_needs() -> None:
    """Autograd does not go on from there: what made such an argument is not asked for gradients."""
    asked: list[Any] = []

    class Asked(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            asked.append(gradient)
            return gradient

    compiled = backend(lambda x, y: x.sin() * y.detach())
    for _ in range(3):
        x, y = (torch.randn(3, requires_grad=True) for _ in range(2))
        made = compiled(x, Asked.apply(y))
        made.sum().backward()
        close(x.grad, x.detach().cos() * y.detach())
        assert y.grad is None
    assert is_one_function(made)
    assert not asked


def product(x: Any, w: Any) -> Any:
    return (x @ w).tanh()


def trained(count: int = 2) -> Any:
    """A compiled function whose passes are one function of autograd."""
    compiled = backend(product)
    for _ in range(count):
        compiled(torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)).sum().backward()
    return compiled


def test_backward_again() -> None:
    x, w = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    made = trained()(x, w).sum()
    assert is_one_function(made)
    made.backward(retain_graph=True)
    once = x.grad.clone()
    made.backward()
    close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        made.backward()


def test_gradients_of_gradients_are_refused() -> None:
    x, w = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    (found,) = torch.autograd.grad(trained()(x, w).sum(), x, create_graph=True)
    (wanted,) = torch.autograd.grad(product(x, w).sum(), x)
    assert found.requires_grad
    close(found.detach(), wanted)
    with pytest.raises(RuntimeError, match="double backward"):
        found.sum().backward()


def test_autocast() -> None:
    function = mlp()
    own = copy.deepcopy(function)
    compiled, x = backend(own), torch.randn(4, 8)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            wanted, got = function(x), compiled(x)
        assert got.dtype is wanted.dtype is torch.bfloat16
        for result in (wanted, got):
            result.float().sum().backward()
        close(got, wanted, rtol=2e-2, atol=2e-2)
        close(own[0].weight.grad, function[0].weight.grad, rtol=3e-2, atol=3e-2)
    assert is_one_function(got)


def test_checkpoints_and_hooks_of_saved_tensors() -> None:
    function = mlp()
    own = copy.deepcopy(function)
    compiled, x = backend(own), torch.randn(4, 8, requires_grad=True)
    for _ in range(3):
        for run in (function, compiled):
            checkpoint(run, x, use_reentrant=False).sum().backward()
        close(own[0].weight.grad, function[0].weight.grad)
    packed: list[Any] = []

    def pack(tensor: Any) -> int:
        packed.append(tensor)
        return len(packed) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
        made = compiled(x).sum()
    assert is_one_function(made)
    made.backward()
    assert packed


@pytest.mark.skipif(not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"), reason="not in this PyTorch")
def test_hooks_that_are_graphs() -> None:
    """They are a part of the passes, once."""
    function = mlp()
    own = copy.deepcopy(function)
    compiled, x = backend(own), torch.randn(4, 8, requires_grad=True)
    halves = [torch.fx.symbolic_trace(hook) for hook in (lambda x: x * 0.5, lambda x: x * 2.0)]
    for _ in range(3):
        gradients = []
        for run, parts in ((function, function), (compiled, own)):
            parts.zero_grad()
            with torch.autograd.graph.saved_tensors_hooks(*halves):
                run(x).sum().backward()
            gradients.append(parts[0].weight.grad.clone())
        close(*gradients)


def test_compiled_autograd() -> None:
    function = mlp()
    own = copy.deepcopy(function)
    compiled, x = backend(own), torch.randn(4, 8)
    for _ in range(3):
        function(x).sum().backward()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            compiled(x).sum().backward()
        close(own[0].weight.grad, function[0].weight.grad)


def test_transformations_of_functions() -> None:
    compiled, x, w = trained(), torch.randn(2, 3, 3), torch.randn(2, 3, 3)
    close(torch.func.vmap(compiled)(x, w), torch.func.vmap(product)(x, w))
    gradients = [torch.func.grad(lambda x, w, run=run: run(x, w).sum())(x[0], w[0]) for run in (compiled, product)]
    close(*gradients)
