"""A slice of PyTorch's own samples, compiled as ``torch.compile`` compiles them, forward and backward, against eager.

`survey_torch_opinfo.py` goes over all of them.
"""

from __future__ import annotations

import argparse

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
database = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="PyTorch's test data need expecttest"
)

FORWARD = {
    torch.float32: [
        "_segment_reduce.lengths", "addbmm", "as_strided_scatter", "grid_sampler_3d", "histc", "linalg.cross", "median",
        "mode", "nanmedian", "nn.functional.adaptive_max_pool3d", "nn.functional.embedding", "nn.functional.pdist",
        "polygamma.polygamma_n_1", "put", "special.chebyshev_polynomial_t", "special.chebyshev_polynomial_w",
        "special.erfcx", "special.hermite_polynomial_he", "special.laguerre_polynomial_l", "special.modified_bessel_k1",
        "special.scaled_modified_bessel_k0", "special.shifted_chebyshev_polynomial_v",
    ],
    torch.complex64: ["logsumexp", "scatter"],
    torch.bfloat16: ["div.floor_rounding", "div.trunc_rounding", "nn.functional.instance_norm", "pow", "remainder"],
    torch.int64: ["gcd", "index_reduce.mean", "median", "mode", "nonzero_static", "tril_indices"],
}  # fmt: skip
BACKWARD = [
    "_batch_norm_with_update", "_segment_reduce.offsets", "_upsample_bilinear2d_aa", "cdist", "linalg.cholesky",
    "linalg.solve", "masked_scatter", "nn.functional.adaptive_max_pool2d", "nn.functional.conv_transpose3d",
    "nn.functional.bilinear", "nn.functional.embedding_bag", "nn.functional.grid_sample", "nn.functional.pdist", "sgn",
    "nn.functional.interpolate.bicubic", "nn.functional.interpolate.nearest",
    "nn.functional.interpolate.trilinear", "nn.functional.pad.replicate", "special.i0e",
]  # fmt: skip


def verdict(name: str, dtype: object, backward: bool) -> tuple[str, str]:
    from survey_torch_opinfo import one

    (op,) = [o for o in database.op_db if name == o.name + (f".{o.variant_test_name}" if o.variant_test_name else "")]
    found = one(op, dtype, argparse.Namespace(lowered=False, dynamo=False, backward=backward, samples=3))
    assert found.samples
    return found.mark, found.reason


@pytest.mark.parametrize(("dtype", "name"), [(dtype, name) for dtype, names in FORWARD.items() for name in names])
def test_results(dtype: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    assert verdict(name, dtype, False) == (".", "")


@pytest.mark.parametrize("name", ["nn.functional.pad.replicate", "sigmoid", "tanh"])
def test_gradients_of_complex_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    assert verdict(name, torch.complex64, True) == (".", "")


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    if name.startswith("linalg"):
        pytest.importorskip("scipy", reason="SciPy, whose LAPACK is called, is not installed")
    assert verdict(name, torch.float32, True) == (".", "")
