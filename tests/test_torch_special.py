"""Special functions as hlotool lowers them, against eager PyTorch, over all their domain."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import run_lowered  # noqa: E402

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-10, -1e-10, 1e5, 0.5, 1.0, 2.0]


def along(low: float, high: float, edges: list[float]) -> Any:
    return torch.cat([torch.linspace(low, high, 201, dtype=torch.float64), torch.tensor(edges, dtype=torch.float64)])


LINE, INSIDE, SHARE = along(-6, 30, EDGES), along(-1, 1, [1 - 1e-12, 1e-12, 2.0]), along(0, 1, [1e-300, 1e-20, -1.0])
FUNCTIONS = {
    "lgamma": LINE, "digamma": LINE, "erfc": LINE, "special.erfcx": LINE, "erfinv": INSIDE, "special.ndtri": SHARE,
    "i0": LINE, "special.i0e": LINE, "special.i1": LINE, "special.i1e": LINE,
}  # fmt: skip


def test_functions_of_one_number() -> None:
    """In one graph; f32 is computed in f64 and rounded once."""
    names = {name: name.removeprefix("special.") for name in FUNCTIONS}
    functions = [getattr(torch if n == own else torch.special, own) for n, own in names.items()]

    def every(*tensors: Any) -> Any:
        return tuple(f(t) for f, t in zip(functions, tensors, strict=True))

    tensors = list(FUNCTIONS.values())
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-5)):
        given = [t.to(dtype) for t in tensors]
        found = run_lowered(every, *given)
        for name, ours, theirs in zip(FUNCTIONS, found, every(*given), strict=True):
            torch.testing.assert_close(
                ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_functions_of_two_numbers() -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.tensor([[0, 0, 1, 1e3, 1e4, math.inf, math.inf, 1, -1, math.nan, 50],
                          [0, 1, 0, 1.01e3, 1e4, math.inf, 1, math.inf, 1, 1, 300]], dtype=torch.float64)  # fmt: skip
    drawn = torch.rand((2, 100), generator=generator, dtype=torch.float64) * torch.tensor([[20], [30]])
    a, x = torch.cat([drawn, edges], dim=1)

    def every(a: Any, x: Any) -> Any:
        return torch.igamma(a, x), torch.igammac(a, x), torch.special.zeta(a + 1.01, x), torch.nextafter(a, x)

    for ours, theirs in zip(run_lowered(every, a, x), every(a, x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, equal_nan=True)


def test_divisors_and_mantissas() -> None:
    generator = torch.Generator().manual_seed(0)
    i, j = torch.randint(-50, 50, (2, 100), generator=generator)
    x = torch.tensor([0.0, -0.0, 1.0, -3.5, 1e-40, 2.0**100, math.inf, math.nan])

    def every(i: Any, j: Any, x: Any) -> Any:
        return torch.gcd(i, j), torch.lcm(i, j), torch.gcd(i.byte(), j.byte()), *torch.frexp(x)

    torch.testing.assert_close(run_lowered(every, i, j, x), every(i, j, x), rtol=0, atol=0, equal_nan=True)
