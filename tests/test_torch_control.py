"""Operations that are given functions (branches, loops, flexible attention), products in groups, and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

import hlotool.torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew()
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")


def flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def assert_as_eager(function: Callable[..., Any], *calls: tuple[Any, ...], dynamic: bool = False) -> None:
    """Results of all calls, and gradients where they are asked for; nothing falls back."""
    own = torch.compile(function, backend="hlotool", dynamic=dynamic, fullgraph=True)
    for arguments in calls:
        asked = [a for a in arguments if a.requires_grad]
        found, wanted = flat(own(*arguments)), flat(function(*arguments))
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        if asked:
            ours, theirs = (
                torch.autograd.grad(sum((r * r).sum() for r in rows if r.requires_grad), asked)
                for rows in (found, wanted)
            )
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def branching(x: Any, y: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a, b: (a.sin() + b, a * 2), lambda a, b: (a.cos(), b @ b), (x, y))


@pytest.mark.parametrize("dynamic", [False, True])
def test_branches(dynamic: bool) -> None:
    x, y = torch.rand(3, 3), torch.randn(3, 3)
    more = torch.rand(5, 5), torch.randn(5, 5)
    assert_as_eager(branching, (x, y), (-x, y), *([more] if dynamic else []), dynamic=dynamic)


def test_gradients_of_branches() -> None:
    for sign in (1, -1):
        x, y = (sign * torch.rand(3, 3)).requires_grad_(), torch.randn(3, 3, requires_grad=True)
        assert_as_eager(branching, (x, y))


def test_branches_in_branches_of_integers() -> None:
    def inner(n: Any) -> Any:
        return torch.cond(n.sum() > 10, lambda n: n - 10, lambda n: n * 2, (n,))

    def outer(n: Any) -> Any:
        return torch.cond(n[0] > 0, inner, lambda n: n.abs(), (n,))

    for values in ([1, 2], [20, 3], [-5, 8]):
        assert_as_eager(outer, (torch.tensor(values),))


def test_branches_with_constants_and_parameters() -> None:
    weight = torch.nn.Parameter(torch.randn(3, 3))

    def f(x: Any) -> Any:
        one = lambda a: a * torch.tensor([1.0, 2.0, 3.0]) @ weight.to(a.dtype)  # noqa: E731
        return torch.cond(x.real.sum() > 0, one, lambda a: a.conj() - 2, (x,))

    with torch.no_grad():
        for x in (torch.rand(3, 3), torch.rand(6, 3)[::2], -torch.rand(2, 3), torch.rand(2, 3, dtype=torch.complex64)):
            begin_anew()
            assert_as_eager(f, (x,))


@pytest.mark.parametrize("dynamic", [False, True])
def test_loops_until(dynamic: bool) -> None:
    def f(n: Any, x: Any, w: Any) -> Any:
        return while_loop(lambda n, x: n < 5, lambda n, x: (n + 1, (x @ w).tanh()), (n, x))

    first = torch.randn(2, 3), torch.randn(3, 3)
    more = torch.randn(4, 5), torch.randn(5, 5)
    calls = [(torch.tensor(0), *first), (torch.tensor(9), *first)]
    assert_as_eager(f, *calls, *([(torch.tensor(2), *more)] if dynamic else []), dynamic=dynamic)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans(dim: int, backwards: bool) -> None:
    def f(x: Any, w: Any) -> Any:
        step = lambda state, row: ((state + row @ w).tanh(), state * 2)  # noqa: E731
        return scan(step, torch.zeros(3), x.movedim(0, dim), dim=dim, reverse=backwards)

    assert_as_eager(f, (torch.randn(5, 3), torch.randn(3, 3)))
    assert_as_eager(f, (torch.randn(5, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)))


def test_associative_scans() -> None:
    def linear(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    assert_as_eager(lambda x, y: associative_scan(linear, (x, y), 1, combine_mode="generic"), (torch.rand(2, 5),) * 2)
    pointwise = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)  # on a processor
    for mode, rows in ((mode, rows) for mode in ("generic", "pointwise")[: 1 + pointwise] for rows in (5, 1)):
        x = torch.rand(rows, 3, requires_grad=True)
        assert_as_eager(lambda x, mode=mode: associative_scan(torch.mul, x, 0, combine_mode=mode), (x,))


def test_functions_over_rows() -> None:
    x, w = torch.randn(5, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    assert_as_eager(lambda x, w: map_rows(lambda row, w: (row @ w).sin(), x, w), (x, w))


@pytest.mark.parametrize("ends", [[8, 8, 24], [0, 8, 16], [8, 16, 24]])
def test_products_in_groups(ends: list[int]) -> None:
    def draw(*sizes: int) -> Any:
        return torch.randn(sizes, dtype=torch.bfloat16)

    offs = torch.tensor(ends, dtype=torch.int32)
    used = ends[-1]  # what is behind the last group PyTorch leaves as it comes
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this PyTorch has no products in groups")
    assert_as_eager(lambda a, b: torch._grouped_mm(a, b, offs)[:used], (draw(24, 8), draw(3, 8, 16)))
    assert_as_eager(lambda a, b: torch._grouped_mm(a, b, offs)[:, :used], (draw(3, 16, 8), draw(8, 24)))
    assert_as_eager(lambda a, b: torch._grouped_mm(a, b, offs), (draw(16, 24), draw(24, 8)))
    assert_as_eager(torch._grouped_mm, (draw(3, 16, 8), draw(3, 8, 16)))
    if used == 24:
        own = draw(24, 8).requires_grad_(), draw(3, 8, 16).requires_grad_()
        compiled = torch.compile(torch._grouped_mm, backend="hlotool")
        ours, theirs = (torch.autograd.grad(f(*own, offs).square().sum(), own) for f in (compiled, torch._grouped_mm))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_flexible_attention(dtype: Any) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = (torch.randn(2, heads, 16, 8, dtype=dtype) for heads in (4, 2, 2))
    bias = torch.randn(16)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")

    def f(query: Any, key: Any, value: Any) -> Any:
        def scored(score: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
            return score + bias[j] - (i - j) * head

        return flex_attention(query, key, value, score_mod=scored, block_mask=mask, enable_gqa=True)

    own = torch.compile(f, backend="hlotool", fullgraph=True)
    # PyTorch's own result is rounded to bfloat16 twice
    torch.testing.assert_close(own(query, key, value), f(query, key, value))


def test_checks_are_made_and_raise() -> None:
    def f(x: Any) -> Any:
        torch._assert_async((x > 0).all(), "not positive")
        return x.exp() * 2

    compiled = torch.compile(f, backend="hlotool", fullgraph=True), hlotool.torch.compile(f, (torch.rand(3),))
    for own in compiled:
        x = torch.rand(3)
        torch.testing.assert_close(own(x), f(x))
        with pytest.raises(RuntimeError, match="not positive"):
            own(-x)
    assert all("falls back" not in str(graph) for graph in hlotool.torch.explain())


def test_checks_of_numbers() -> None:
    def f(x: Any, n: Any) -> Any:
        torch._assert_async(n, "none")
        return x + n

    own = torch.compile(f, backend="hlotool", fullgraph=True)
    assert own(torch.ones(2), torch.tensor([3])).tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="none"):
        own(torch.ones(2), torch.tensor([0]))
