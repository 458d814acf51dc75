"""Factorisations of matrices, solutions and determinants as hlotool lowers them, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("scipy", reason="SciPy, whose LAPACK is called, is not installed")

from torch_graphs import run_lowered  # noqa: E402

L = torch.linalg


def same(function: Any, *arguments: Any) -> None:
    found, wanted = run_lowered(function, *arguments), function(*arguments)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def drawn(dtype: Any) -> dict[str, Any]:
    """Square, positive definite, high and wide matrices, two of each, and right sides."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"square": (5, 5), "high": (6, 4), "wide": (4, 6), "right": (5, 3), "large": (40, 40), "c": (6, 3)}
    made = {name: torch.randn(2, *shape, dtype=dtype, generator=generator) for name, shape in shapes.items()}
    made["positive"] = made["square"] @ made["square"].mH + torch.eye(5, dtype=dtype)
    return made


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["f64", "c128"])
def test_factors(dtype: Any) -> None:
    """Vectors of which several are right are compared in size."""
    m = drawn(dtype)

    def every(high: Any, wide: Any, large: Any, positive: Any, square: Any, c: Any) -> Any:
        factors, tau = torch.geqrf(high)
        values, vectors = L.eig(square)
        own, across = L.eigh(positive)
        u, s, vh = L.svd(high, full_matrices=False)
        return (
            *L.lu(high), *L.lu(wide), *L.lu(large), *torch.lu_unpack(*L.lu_factor_ex(high)[:2]),
            *L.qr(high), *L.qr(high, mode="complete"), *L.qr(wide), *L.qr(wide, mode="r"),
            factors, tau, torch.ormqr(factors, tau, c), L.householder_product(factors, tau),
            L.cholesky_ex(positive)[0], L.cholesky_ex(positive, upper=True)[0], values, vectors.abs(), own,
            across.abs(), L.eigvalsh(positive), s, (u * s[..., None, :]) @ vh, L.svdvals(wide),
        )  # fmt: skip

    same(every, m["high"], m["wide"], m["large"], m["positive"], m["square"], m["c"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["f64", "c128"])
def test_solutions(dtype: Any) -> None:
    m = drawn(dtype)

    def every(square: Any, right: Any, positive: Any, high: Any) -> Any:
        lu, pivots, _ = L.lu_factor_ex(square)
        factor = L.cholesky_ex(positive)[0]
        return (
            *(L.lu_solve(lu, pivots, right, adjoint=adjoint) for adjoint in (False, True)),
            *(L.lu_solve(lu, pivots, right.mT, left=False, adjoint=adjoint) for adjoint in (False, True)),
            *L.solve_ex(square, right), L.solve_ex(square, right[..., 0])[0],
            L.solve_ex(square, right.mT, left=False)[0], *L.inv_ex(square), L.det(square), L.det(square.mT),
            *L.slogdet(square), torch.cholesky_solve(right, factor), torch.cholesky_inverse(factor), L.pinv(high),
            L.matrix_exp(square * 3),
        )  # fmt: skip

    same(every, m["square"], m["right"], m["positive"], m["high"])


def test_a_matrix_without_a_factor_is_named() -> None:
    a = torch.tensor([[4.0, 0, 0], [0, -1, 0], [0, 0, 1]])
    assert int(run_lowered(lambda x: L.cholesky_ex(x)[1], a)) == 2
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert int(run_lowered(lambda x: L.inv_ex(x)[1], singular)) == 2


def test_a_singular_matrix_is_an_error_as_in_eager_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an inverse, and of a gradient through a determinant, compiled as ``torch.compile`` compiles them."""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    inverse = torch.compile(lambda x: L.inv(x) + 1, backend="hlotool")
    good = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    torch.testing.assert_close(inverse(good), L.inv(good) + 1)
    with pytest.raises(RuntimeError, match="singular"):
        inverse(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    a = good.clone().requires_grad_()
    torch.compile(lambda x: L.det(x) * 3 + L.solve(x, x[0]).sum(), backend="hlotool")(a).backward()
    again = good.clone().requires_grad_()
    (L.det(again) * 3 + L.solve(again, again[0]).sum()).backward()
    torch.testing.assert_close(a.grad, again.grad)
