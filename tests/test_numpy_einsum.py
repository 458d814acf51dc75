"""einsum against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import hlotool
import hlotool.numpy as np

CASES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ii", [(4, 4)]), ("ii->i", [(4, 4)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("i,j->ij", [(3,), (4,)]),
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("ij,ij->ij", [(3, 4), (3, 4)]), ("ij,ij->i", [(3, 4), (3, 4)]), ("iij,jk->ik", [(3, 3, 4), (4, 5)]),
    ("abc,cd,def->abef", [(2, 3, 4), (4, 5), (5, 2, 3)]), ("i...,i...->...", [(3, 4), (3, 4)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]), ("ijk,ijl->kl", [(2, 3, 4), (2, 3, 5)]),
    ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]), ("...", [(2, 3)]), ("ij,k->ijk", [(2, 0), (3,)]),
    (" i j , j k -> k i ", [(3, 4), (4, 5)]), ("ij,jk,kl,lm,mn", [(3, 4), (4, 5), (5, 2), (2, 6), (6, 3)]),
    ("ij,k->ik", [(2, 3), (4,)]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_cases(number: int) -> None:
    text, shapes = CASES[number]
    generator = numpy.random.default_rng(number)
    for dtype in ("f8", ("i8", "c16", "f4", "?")[number % 4]):
        operands = [(generator.normal(size=shape) * 3).astype(dtype) for shape in shapes]
        expected = numpy.einsum(text, *operands, optimize=len(operands) > 2)
        for found in (np.einsum(text, *operands), hlotool.jit(lambda *given: np.einsum(text, *given))(*operands)):
            held = numpy.asarray(found)
            assert (held.shape, held.dtype) == (numpy.shape(expected), expected.dtype)
            assert numpy.allclose(held, expected, rtol=1e-4 if dtype == "f4" else 1e-11, atol=1e-4)


def test_lists_of_numbers_and_orders() -> None:
    a, b = numpy.arange(12.0).reshape(3, 4), numpy.arange(20.0).reshape(4, 5)
    assert numpy.allclose(np.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b)
    assert numpy.allclose(np.einsum(a, [0, 1], b, [1, 2]), a @ b)
    path: Any
    for path in (True, False, "optimal", ["einsum_path", (0, 1), (0, 1)]):
        assert numpy.allclose(np.einsum("ij,jk,kl->il", a, b, b.T, optimize=path), a @ b @ b.T)
    assert np.einsum_path("ij,jk,kl->il", a, b, b.T)[0][0] == "einsum_path"


@pytest.mark.parametrize(
    ("text", "count"), [("ij,jk", 1), ("i", 1), ("ij->k", 1), ("i-j", 1), ("ij->ii", 1), ("ij,jk", 2)]
)
def test_bad_subscripts_are_told(text: str, count: int) -> None:
    with pytest.raises(ValueError, match="einsum") as caught:
        np.einsum(text, *[numpy.ones((3, 4))] * count)
    assert __file__ in str(caught.value)
