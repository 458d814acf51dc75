"""What hlotool takes apart itself: beyond PyTorch's samples, with gradients and with sizes that vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

from hlotool.torch.record import reports  # noqa: E402

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew()
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")


def assert_as_eager(function: Callable[..., Any], *calls: tuple[Any, ...], dynamic: bool = False) -> None:
    """Results and gradients, of one compiled function for all calls; nothing falls back."""
    own = torch.compile(function, backend="hlotool", dynamic=dynamic, fullgraph=True)
    for arguments in calls:
        asked = [a for a in arguments if a.requires_grad]
        found, wanted = own(*arguments), function(*arguments)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        if asked:
            ours, theirs = (torch.autograd.grad((r * r).sum(), asked) for r in (found, wanted))
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert reports()


def weights(*sizes: int) -> Any:
    return torch.randn(*sizes, requires_grad=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str, dynamic: bool) -> None:
    def f(table: Any, indices: Any, offsets: Any) -> Any:
        return functional.embedding_bag(indices, table, offsets, mode=mode, padding_idx=2)

    first = weights(7, 3), torch.tensor([0, 2, 1, 2, 5, 5, 6]), torch.tensor([0, 2, 2, 6])
    second = weights(9, 3), torch.tensor([8, 2, 2, 2, 1]), torch.tensor([0, 3])
    assert_as_eager(f, *((first, second) if dynamic else (first,)), dynamic=dynamic)


def test_bags_with_weights_and_by_frequency() -> None:
    indices, offsets = torch.tensor([0, 2, 1, 2, 5, 5, 6]), torch.tensor([0, 2, 2, 6, 7])

    def weighted(table: Any, each: Any) -> Any:
        return functional.embedding_bag(
            indices, table, offsets, mode="sum", per_sample_weights=each, include_last_offset=True
        )

    def by_frequency(table: Any) -> Any:
        return functional.embedding_bag(indices, table, offsets, mode="sum", scale_grad_by_freq=True)

    assert_as_eager(weighted, (weights(7, 3), weights(7)))
    table = weights(7, 3)
    (found,) = torch.autograd.grad(torch.compile(by_frequency, backend="hlotool")(table).sum(), table)
    # PyTorch 2.13 itself does not divide what the last index gets.
    wanted = torch.bincount(indices, minlength=7).clamp(max=1)[:, None].expand(7, 3)
    torch.testing.assert_close(found, wanted.to(table.dtype))


def test_rows_are_made_no_longer_than_a_norm() -> None:
    table, own = torch.randn(6, 4) * 3, torch.nn.Embedding(6, 4, max_norm=1.5)
    own.weight.data = table.clone()
    wanted = torch.nn.Embedding(6, 4, max_norm=1.5)
    wanted.weight.data = table.clone()
    index = torch.tensor([[1, 3, 3], [5, 1, 0]])
    torch.testing.assert_close(torch.compile(own, backend="hlotool")(index), wanted(index))
    torch.testing.assert_close(own.weight, wanted.weight)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("mode", "padding", "align"),
    [("bilinear", "zeros", True), ("bilinear", "reflection", False), ("nearest", "border", False)],
)
def test_images_read_at_any_place(mode: str, padding: str, align: bool, count: int, dynamic: bool) -> None:
    def f(image: Any, grid: Any) -> Any:
        return functional.grid_sample(image, grid, mode, padding, align_corners=align)

    def call(*have: int) -> tuple[Any, ...]:
        grid = (torch.rand(2, *have[::-1], count) * 2.6 - 1.3).requires_grad_(mode != "nearest")
        return weights(2, 3, *have), grid

    first, second = call(*(5, 4, 3)[:count]), call(*(3, 6, 2)[:count])
    assert_as_eager(f, *((first, second) if dynamic else (first,)), dynamic=dynamic)


@pytest.mark.parametrize(("padding", "align"), [("zeros", False), ("border", True), ("reflection", False)])
def test_images_read_by_cubic_convolution(padding: str, align: bool) -> None:
    def f(image: Any, grid: Any) -> Any:
        return functional.grid_sample(image, grid, "bicubic", padding, align_corners=align)

    assert_as_eager(f, (weights(2, 3, 5, 4), (torch.rand(2, 3, 6, 2) * 2.6 - 1.3).requires_grad_()))


@pytest.mark.parametrize("padding", ["border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_images_read_at_no_number_give_the_first_element(mode: str, padding: str) -> None:
    grid = torch.tensor([NAN, 0.1, 0.3, NAN, NAN, NAN, INF, 0.0, 1e20, -1e20]).view(1, 1, 5, 2)
    assert_as_eager(lambda image: functional.grid_sample(image, grid, mode, padding, False), (torch.randn(1, 3, 5, 4),))


@pytest.mark.parametrize("name", ["huber_loss", "mse_loss", "smooth_l1_loss"])
def test_mean_losses_of_nothing(name: str) -> None:
    loss = torch.compile(getattr(functional, name), backend="hlotool", fullgraph=True)
    of = weights(0, 3)
    found = loss(of, torch.ones(0, 3))
    assert found.isnan()
    found.backward()
    assert of.grad.shape == (0, 3)


def test_elements_at_indices_where_a_mask_is_true() -> None:
    """Also from the end; those out of bounds are the nearest ones, as eagerly."""
    mask, at, other = torch.arange(6) != 2, torch.tensor([-1, 0, 9, 4, -7, 7]), torch.tensor([1, -2, 0, 2, 0, -3])
    read = torch.ops.aten._unsafe_masked_index

    def f(x: Any) -> Any:
        return read(x, mask, [at, other], 1.5) + read(x, mask, [None, other], 2.0)

    assert_as_eager(f, (weights(5, 3),))
    assert_as_eager(lambda x: read(x, mask, [at, other], 7), (torch.arange(15).reshape(5, 3),))


def test_integers_times_powers_of_two() -> None:
    for dtype in (torch.float16, torch.float64, torch.int32):
        assert_as_eager(torch.ldexp, (torch.arange(5), torch.tensor(3).to(dtype)))


@pytest.mark.parametrize("count", [2, 3])
def test_fractional_pooling_with_given_samples(count: int) -> None:
    pool = getattr(functional, f"fractional_max_pool{count}d_with_indices")
    samples = torch.rand(2, 3, count)

    def f(x: Any) -> Any:
        return pool(x, (2, 3, 2)[:count], (4, 3, 1)[:count], _random_samples=samples)[0]

    assert_as_eager(f, (weights(2, 3, *(9, 8, 4)[:count]),))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("size", "align"), [((3, 4), False), ((9, 13), False), ((4, 2), True)])
def test_smoothed_images(mode: str, size: tuple[int, int], align: bool) -> None:
    def f(x: Any) -> Any:
        return functional.interpolate(x, size, mode=mode, antialias=True, align_corners=align)

    assert_as_eager(f, (weights(2, 3, 8, 7),))


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances_of_all_rows(p: float) -> None:
    x = torch.randn(5, 3)
    x[3] = x[1]  # no distance, and no gradient
    assert_as_eager(lambda a: torch.pdist(a, p), (x.requires_grad_(),))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_segments(reduce: str) -> None:
    lengths = torch.tensor([[2, 0, 3], [1, 3, 1]])

    def f(x: Any) -> Any:
        return torch.segment_reduce(x, reduce, lengths=lengths, axis=1, initial=0.5)

    assert_as_eager(f, (weights(2, 5, 3),))


def test_numbers_are_repeated_as_often_as_others_say() -> None:
    def f(x: Any, repeats: Any) -> Any:
        return torch.repeat_interleave(x, repeats, dim=0, output_size=6)

    assert_as_eager(f, (weights(4, 2), torch.tensor([1, 0, 2, 3])))


@pytest.mark.parametrize("dim", [0, 2])
def test_weights_of_a_direction_and_a_length(dim: int) -> None:
    own = torch.nn.Conv1d(4, 6, 3, groups=2)
    torch.nn.utils.parametrizations.weight_norm(own, dim=dim)
    parameters = dict(own.named_parameters())

    def f(x: Any, *values: Any) -> Any:
        return torch.func.functional_call(own, dict(zip(parameters, values, strict=True)), (x,))

    assert_as_eager(f, (weights(2, 4, 8), *(p.detach().clone().requires_grad_() for p in parameters.values())))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", ["", "pairs", "keys", "both"])
def test_encoders_that_are_one_operation(mask: str, norm_first: bool) -> None:
    """In inference ``torch.nn`` calls an operation for a whole layer; it leaves masks that both are to slow ways."""
    own = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=norm_first, activation="gelu").eval()
    hidden = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
    options = {
        "src_mask": torch.ones(5, 5).triu(1).bool() if mask in ("pairs", "both") else None,
        "src_key_padding_mask": hidden if mask in ("keys", "both") else None,
    }
    with torch.no_grad():
        assert_as_eager(lambda x: own(x, **options), (torch.randn(2, 5, 8),))


def test_attention_that_is_one_operation() -> None:
    own = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    hidden = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
    for options in ({}, {"need_weights": False}, {"key_padding_mask": hidden, "average_attn_weights": False}):
        with torch.no_grad():
            assert_as_eager(lambda x, options=options: own(x, x, x, **options), (torch.randn(2, 5, 8),))
