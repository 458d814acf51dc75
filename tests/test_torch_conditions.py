"""Indices out of bounds raise what they raise in eager PyTorch, and those within do not."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

import hlotool.torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    begin_anew()


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="hlotool", dynamic=False)


def written(x: Any, at: Any) -> Any:
    x = x.clone()
    x[at] = 1.0
    return x


X = torch.arange(12.0).view(4, 3)
ROWS: dict[str, tuple[Any, bool]] = {
    "embedding": (lambda x, at: functional.embedding(at, x), False),
    "index_select": (lambda x, at: x.index_select(0, at), False),
    "index_add": (lambda x, at: x.index_add(0, at, x[:2]), False),
    "index_copy": (lambda x, at: x.index_copy(0, at, x[2:]), False),
    "gather": (lambda x, at: x.gather(0, at[:, None]), False),
    "scatter": (lambda x, at: x.scatter(0, at[:, None], 5.0), False),
    "scatter_add": (lambda x, at: x.scatter_add(0, at[:, None], x), False),
    "scatter_reduce": (lambda x, at: x.scatter_reduce(0, at[:, None], x, "amax"), False),
    "index": (lambda x, at: x[at], True),
    "two indices": (lambda x, at: x[at, 0 * at], True),
    "index_put": (written, True),
    "take": (lambda x, at: x[:, 0].take(at), True),
}
"""A function of a matrix with four rows and of two of their numbers, and whether these may count from the end."""


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_there_are_not(name: str) -> None:
    function, from_the_end = ROWS[name]
    run = compiled(function)
    for numbers in ([0, 3], [2, 1], [3, -3] if from_the_end else [1, 0]):
        at = torch.tensor(numbers)
        torch.testing.assert_close(run(X, at), function(X, at), msg=str(numbers))
    for numbers in ([0, 4], [-5 if from_the_end else -1, 0], [2**32, 0]):
        at = torch.tensor(numbers)
        for one in (function, run):
            with pytest.raises((IndexError, RuntimeError)) as raised:
                one(X, at)
            if one is function:
                kind = raised.type
            else:
                assert raised.type is kind
                assert "out of" in str(raised.value)


def test_labels_that_there_are_not() -> None:
    run = compiled(functional.cross_entropy)
    logits = torch.randn(3, 5, requires_grad=True)
    run(logits, torch.tensor([0, 4, -100])).backward()  # the last one is to be left out
    for label in (5, -1):
        with pytest.raises(RuntimeError, match="out of bounds for dimension 1 with size 5"):
            run(logits, torch.tensor([0, label, 1]))


def test_the_first_wrong_index_is_named() -> None:
    run = compiled(lambda x, a, b: x[a] + x[:, b])
    x, inside, beyond = torch.eye(4), torch.arange(4), torch.arange(4) + 1
    assert run(x, inside, inside).shape == (4, 4)
    with pytest.raises(IndexError, match="dimension 0 with size 4"):
        run(x, beyond, beyond)
    with pytest.raises(IndexError, match="dimension 1 with size 4"):
        run(x, inside, beyond)


def test_narrow_indices() -> None:
    run = compiled(lambda x, at: x.index_select(0, at))
    x = torch.arange(300)
    assert run(x, torch.tensor([299], dtype=torch.int32)).item() == 299
    with pytest.raises(IndexError):
        run(x, torch.tensor([300], dtype=torch.int32))


def test_a_module_for_given_arguments() -> None:
    module = torch.nn.Embedding(3, 2)
    fast = hlotool.torch.compile(module, (torch.tensor([0, 1]),))
    torch.testing.assert_close(fast(torch.tensor([2, 0])), module(torch.tensor([2, 0])))
    with pytest.raises(IndexError, match="index out of range in self"):
        fast(torch.tensor([3, 0]))


@pytest.mark.parametrize("function", [torch.floor_divide, torch.remainder, torch.fmod])
def test_integers_divided_by_zero(function: Any) -> None:
    run = compiled(lambda a, b: function(a, b))
    a = torch.arange(4)
    torch.testing.assert_close(run(a, a + 1), function(a, a + 1))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(a, a)
    floats = compiled(lambda a, b: function(a, b))
    torch.testing.assert_close(floats(a.float(), a.float()), function(a.float(), a.float()), equal_nan=True)


REFUSED: dict[str, tuple[Any, ...]] = {
    "a product of two types": (torch.mm, torch.eye(3), torch.eye(3).long()),
    "a layer of another type": (functional.linear, torch.eye(3).long(), torch.eye(3)),
    "a bias of another type": (functional.linear, torch.eye(3), torch.eye(3), torch.ones(3).double()),
    "the largest of nothing": (lambda x: x.max(1), torch.ones(2, 0)),
    "indices that are floats": (lambda x, at: x.index_select(0, at), torch.ones(2), torch.ones(1)),
    "a variance of integers": (torch.var, torch.arange(3)),
    "complex numbers rounded": (torch.floor, torch.ones(2, dtype=torch.complex64)),
    "common divisors of floats": (torch.gcd, torch.ones(2), torch.ones(2)),
    "sums of exponentials of integers": (lambda x: x.logcumsumexp(0), torch.arange(3)),
    "too much output padding": (
        lambda x, w: functional.conv_transpose1d(x, w, output_padding=1), torch.ones(1, 1, 4), torch.ones(1, 1, 3),
    ),
    "a cross product of two types": (torch.linalg.cross, torch.ones(2, 3), torch.ones(2, 3).double()),
    "a normalisation of several types": (
        lambda x, w: functional.layer_norm(x, (3,), w), torch.ones(2, 3).double(), torch.ones(3),
    ),
    "largest truths of windows": (lambda x: functional.max_pool2d(x, 2), torch.ones(1, 1, 4, 4) > 0),
    "averages of windows of narrow integers": (lambda x: functional.avg_pool2d(x, 2), torch.ones(1, 1, 4, 4).int()),
    "averages of parts of integers": (lambda x: functional.adaptive_avg_pool2d(x, 3), torch.ones(1, 1, 4, 4).long()),
    "the largest of parts of integers": (lambda x: functional.adaptive_max_pool2d(x, 3), torch.ones(1, 4, 4).long()),
    "reflected truths": (lambda x: functional.pad(x, (1, 1), "reflect"), torch.ones(1, 1, 4) > 0),
    "an integer by the number zero": (lambda x: x // 0, torch.arange(3)),
    "a negative power of integers": (lambda x: x.pow(-1), torch.arange(3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs eagerly, so that who calls is told the same."""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    function, *given = REFUSED[name]
    with pytest.raises((RuntimeError, IndexError)):
        function(*given)
    with pytest.raises((RuntimeError, IndexError, torch._dynamo.exc.TorchRuntimeError)) as raised:
        compiled(lambda *tensors: function(*tensors))(*given)
    assert not isinstance(raised.value, torch._dynamo.exc.BackendCompilerFailed)
