"""Reductions, products, windows, indices, orders and normalisation of PyTorch as hlotool lowers them, against eager.

`survey_torch_opinfo.py` goes over all samples of PyTorch's own database; here are edges that those do not have, and a
sample of every family, forward and backward.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import run_lowered  # noqa: E402

from hlotool.torch.refusal import Refused  # noqa: E402

F = torch.nn.functional
NAN, INF = float("nan"), float("inf")


def close(function: Any, *arguments: Any, **tolerance: float) -> None:
    torch.manual_seed(0)
    wanted, found = function(*arguments), run_lowered(function, *arguments)
    wanted = tuple(wanted) if isinstance(wanted, (list, tuple)) else wanted
    torch.testing.assert_close(found, wanted, equal_nan=True, **tolerance)


def given(function: Any, **options: Any) -> Any:
    """The function of tensors alone that `function` is with these options."""
    return lambda *tensors: function(*tensors, **options)


def draw(*sizes: int, dtype: Any = None) -> Any:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype or torch.float32)


def test_sums_of_half_floats_are_rounded_once() -> None:
    x = torch.full((4096,), 1.0, dtype=torch.bfloat16)
    close(lambda a: a.sum(), x)
    close(lambda a: torch.cumsum(a, 0), x)
    close(lambda a: a.mean(), x + 0.5)


def test_integers_add_up_in_64_bits() -> None:
    x = torch.full((3, 100), 100, dtype=torch.int8)
    close(lambda a: (a.sum(), a.sum(1), a.prod(0), torch.cumsum(a, 1)), x)
    close(lambda a: (a.sum(), a.any(1), a.all()), x > 0)


@pytest.mark.parametrize("largest", [True, False])
def test_extremes_take_nan_and_the_first_of_equals(largest: bool) -> None:
    x = torch.tensor([[1.0, 3.0, 3.0, -INF], [NAN, 5.0, NAN, 1.0], [INF, INF, 0.0, 0.0], [-0.0, 0.0, -0.0, 0.0]])
    if largest:
        close(lambda a: (*a.max(1), a.argmax(), a.argmax(0), a.amax(0), *torch.cummax(a, 1)), x)
    else:
        close(lambda a: (*a.min(1), a.argmin(), a.argmin(0), a.amin(0), *torch.cummin(a, 1)), x)


def test_all_minus_infinity_has_a_place() -> None:
    x = torch.full((2, 1, 4, 4), -INF)
    close(lambda a: (*a.flatten().max(0), *F.max_pool2d(a, 2, return_indices=True)), x)


def test_nothing_and_scalars() -> None:
    empty, one = torch.empty(0, 3), torch.tensor(2.5)
    close(lambda a: (a.sum(0), a.prod(0), a.any(0), a.all(), a.mean(0), a.sum()), empty)
    close(lambda a: (a.sum(0), *a.max(0), a.argmax(), *a.sort(), a.cumsum(0), a.var(correction=0)), one)
    close(lambda a, b: (a @ b, torch.addmm(b.new_ones(4), a, b)), torch.empty(2, 0), torch.empty(0, 4))


def test_variance_of_one_and_of_none() -> None:
    close(lambda a: (a.var(0), a.std(0), *torch.var_mean(a, 1, correction=2)), draw(1, 2))


def test_beta_zero_does_not_read() -> None:
    close(lambda a, b, c: torch.addmm(a, b, c, beta=0), torch.full((2, 2), NAN), draw(2, 3), draw(3, 2))


def test_max_pool_takes_the_last_nan_and_the_first_of_equals() -> None:
    x = torch.tensor([[[[1.0, NAN, 2.0, 2.0], [NAN, 0.0, 2.0, 2.0], [7.0, 7.0, -INF, -INF], [7.0, 1.0, -INF, 3.0]]]])
    close(lambda a: F.max_pool2d(a, 2, return_indices=True), x)
    close(lambda a: F.max_pool2d(a, 3, 1, 1, return_indices=True), x)


def test_average_pools_count_as_pytorch_does() -> None:
    x = draw(2, 3, 7, 8)
    for pad in (True, False):
        close(given(F.avg_pool2d, kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=pad), x)
    close(lambda a: (F.avg_pool2d(a, 2, divisor_override=3), F.adaptive_avg_pool2d(a, (3, 5))), x)


CONVOLUTIONS = [
    {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 3}, {"groups": 2}, {"groups": 4, "stride": (1, 2)},
]  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_convolutions_and_their_gradients(options: dict[str, Any], transposed: bool) -> None:
    groups = options.get("groups", 1)
    x, bias = draw(2, 4, 9, 8), draw(8)
    weight = draw(4, 8 // groups, 3, 2) if transposed else draw(8, 4 // groups, 3, 2)
    apply = F.conv_transpose2d if transposed else F.conv2d
    made = apply(x, weight, bias, **options)
    grad = draw(*made.shape)
    close(lambda a, w, b: apply(a, w, b, **options), x, weight, bias, rtol=1e-4, atol=1e-5)

    def backward(a: Any, w: Any, g: Any) -> Any:
        pairs = [(v, v) if isinstance(v, int) else v for v in (
            options.get("stride", 1), options.get("padding", 0), options.get("dilation", 1))]
        return torch.ops.aten.convolution_backward(
            g, a, w, [8], *pairs, transposed, [0, 0], groups, [True, True, True]
        )

    close(backward, x, weight, grad, rtol=1e-4, atol=1e-4)


def test_negative_indices_count_from_the_end() -> None:
    x, i = draw(5, 6, 3), torch.tensor([[-1, 0], [2, -5]])
    close(lambda a, n: (a[n], a[:, n], a[n, n], a[n, :, torch.tensor([0, -1])]), x, i)


def test_values_are_put_and_added_at_indices() -> None:
    x, i = draw(5, 4), torch.tensor([0, -1, 0])
    close(lambda a, n, v: a.index_put((n,), v, accumulate=True), x, i, draw(3, 4))
    put = torch.ops.aten.index_put
    close(lambda a, n, v: put(a, [None, n], v), x, torch.tensor([1, -2]), draw(5, 2))
    close(lambda a, m, v: a.index_put((m,), v), x, x > 0, torch.tensor(7.0))


def test_scatter_and_gather_with_smaller_indices() -> None:
    x, i, v = draw(4, 5), torch.tensor([[0, 3], [1, 1], [3, 0]]), draw(4, 4)
    close(lambda a, n, s: (a.gather(0, n), a.scatter(0, n, s), a.scatter_add(0, n, s)), x, i, v)
    for reduce in ("sum", "prod", "amax", "amin", "mean"):
        for own in (True, False):
            close(given(lambda a, n, s, **o: a.scatter_reduce(0, n, s, **o), reduce=reduce, include_self=own), x, i, v)
    close(lambda a, n, s: a.scatter_reduce(0, n, s, "mean"), torch.tensor([-7, 3]), torch.tensor([0, 1]),
          torch.tensor([2, 2]))


def test_embedding_gradient() -> None:
    i = torch.tensor([[1, 2, 1], [0, 1, 2]])
    for scaled in (False, True):
        close(given(lambda g, n, s: torch.ops.aten.embedding_dense_backward(g, n, 5, 2, s), s=scaled), draw(2, 3, 4), i)


@pytest.mark.parametrize("descending", [True, False])
def test_sorting_is_stable_and_nan_is_greatest(descending: bool) -> None:
    x = torch.tensor([[1.0, NAN, -INF, 1.0, INF, NAN, 0.0, -0.0]])
    close(lambda a: torch.sort(a, stable=True, descending=descending), x)
    close(lambda a: torch.sort(a, dim=0, stable=True, descending=descending), x.T.contiguous())


def test_searching_sorted_sequences() -> None:
    s, v = torch.tensor([1.0, 2.0, 2.0, 4.0, NAN]), torch.tensor([0.0, 2.0, 3.0, 5.0, NAN, -INF, INF])
    for right in (True, False):
        close(given(lambda a, b, right: (torch.bucketize(b, a, right=right), torch.searchsorted(a, b, right=right)),
                    right=right), s, v)


def test_softmax_of_masked_rows_and_of_half_floats() -> None:
    x = torch.tensor([[-INF, -INF], [1.0, -INF], [200.0, 100.0]])
    close(lambda a: (a.softmax(1), a.log_softmax(1), a.logsumexp(1), torch.ops.aten._safe_softmax(a, 1)), x)
    close(lambda a: (a.softmax(1), a.log_softmax(0)), draw(5, 7, dtype=torch.bfloat16))


def test_normalisation_gives_its_statistics() -> None:
    aten, x, w, v = torch.ops.aten, draw(4, 6, 5), draw(6), draw(6).abs() + 0.5
    close(lambda a, b: aten.native_layer_norm(a, [5], None, b, 1e-5), x, draw(5), rtol=1e-4, atol=1e-5)
    close(lambda a, b: aten.native_group_norm(a, b, b, 4, 6, 5, 3, 1e-5), x, w, rtol=1e-4, atol=1e-5)
    norm = aten._native_batch_norm_legit_functional
    close(lambda a, b, s: norm(a, b, b, b, s, True, 0.1, 1e-5), x, w, v, rtol=1e-4, atol=1e-5)
    close(lambda a, b, s: norm(a, b, b, b, s, False, 0.1, 1e-5), x, w, v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("heads", [4, 2])
def test_attention_and_its_gradient(heads: int) -> None:
    """A head of keys may serve several of queries that follow one another."""
    q, k, v = draw(2, 4, 5, 8), draw(2, heads, 7, 8), draw(2, heads, 7, 8) + 1
    mask = torch.zeros(5, 7).masked_fill(draw(5, 7) > 0.3, -INF)
    mask[2] = -INF  # a query that sees nothing
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.3}):
        close(given(lambda a, b, c, **o: flash(a, b, c, **o)[0], **options), q, k, v, rtol=1e-4, atol=1e-5)
    out, logs = flash(q, k, v, is_causal=True)
    back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    close(lambda g, a, b, c, o, s: back(g, a, b, c, o, s, 0.0, True), out, q, k, v, out, logs, rtol=1e-4, atol=1e-5)


def test_borders() -> None:
    x = draw(2, 3, 5, 6)
    close(lambda a: (F.pad(a, (2, 1, 0, 3), mode="reflect"), F.pad(a, (2, -1, 0, 3), mode="replicate")), x)
    close(lambda a: F.fold(a, (5, 6), (3, 2), padding=1, stride=2), draw(2, 18, 12))


def test_images_are_resampled() -> None:
    aten, x = torch.ops.aten, draw(2, 3, 5, 6)
    for size, factors in (((8, 4), None), ((5, 12), None), (None, (1.5, 2.3))):
        close(given(aten.upsample_nearest2d.vec, output_size=size, scale_factors=factors), x)
        for align in (True, False):
            options = {"output_size": size, "align_corners": align, "scale_factors": factors}
            close(given(aten.upsample_bilinear2d.vec, **options), x, rtol=1e-5, atol=1e-5)
    close(lambda a: aten.upsample_trilinear3d.vec(a, (3, 9, 6), False, None), draw(1, 2, 4, 5, 6), rtol=1e-5, atol=1e-5)
    close(lambda a: aten.topk(a, 1), torch.tensor(3.0))


def test_fourier_transforms() -> None:
    x = draw(3, 6, 5)
    close(lambda a: torch.fft.rfft2(a, norm="ortho"), x, rtol=1e-4, atol=1e-5)
    close(lambda a: torch.fft.irfft(torch.fft.rfft(a, dim=1), n=6, dim=1), x, rtol=1e-4, atol=1e-5)
    close(lambda a: torch.fft.ifftn(torch.fft.fftn(torch.complex(a, a))), x, rtol=1e-4, atol=1e-5)


def test_masked_scatter_counts_through() -> None:
    close(lambda a, m, s: a.masked_scatter(m, s), draw(3, 4), draw(3, 4) > 0, torch.arange(12.0))


def test_values_put_where_a_mask_says() -> None:
    """As many as there are places under the mask are refused: only one row that is put everywhere has a known size."""
    put, x, rows, whole = torch.ops.aten.index_put, draw(2, 3, 4), draw(2, 3) > 0, draw(2, 3, 4) > 0
    for value in (torch.tensor(7.0), draw(4), draw(1, 4), draw(1)):
        close(lambda a, m, v: put(a, [m], v), x, rows, value)
        close(lambda a, m, v: put(a, [m], v, True), x, rows, value)
    close(lambda a, m, v: put(a, [m], v), x, whole, draw(1))
    close(lambda a, m, v: put(a, [None, m], v), x, draw(3) > 0, draw(2, 1, 4))
    close(lambda a, m, v: put(a, [None, m], v), x, draw(3, 4) > 0, draw(2, 1))
    with pytest.raises(Refused, match="a mask"):
        run_lowered(lambda a, m, v: put(a, [m], v), x, torch.ones(2, 3) > 0, draw(6, 4))
