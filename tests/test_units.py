"""Compilation units: pieces of text shared out evenly, and alike whoever asks."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hlotool.codegen.units import Piece, gather


def piece(number: int, size: int) -> Piece:
    """A piece that offers ``f<number>`` and uses all others."""
    others = tuple(f"declare void @f{other}()" for other in range(50) if other != number)
    body = f"define void @f{number}() {{ ; {'x' * size}\n}}"
    return Piece((*others, "declare i64 @outside()"), body, (f"declare void @f{number}()",))


def test_little_text_is_one_unit() -> None:
    (unit,) = gather([piece(0, 900), piece(1, 1500), piece(2, 30)])
    assert unit.index("@f0() {") < unit.index("@f1() {") < unit.index("@f2() {")
    assert gather([]) == ()


def test_equal_kernels_are_shared_out_equally() -> None:
    sizes = [len(unit) for unit in gather([piece(number, 10_000) for number in range(16)])]
    assert len(sizes) == 4
    assert max(sizes) < 1.2 * min(sizes)


def test_a_short_rest_joins_another_unit() -> None:
    assert len(gather([piece(0, 30_000), piece(1, 800)])) == 1
    assert len(gather([piece(0, 30_000), piece(1, 25_000)])) == 2


@given(st.lists(st.integers(0, 60_000), max_size=30))
def test_every_piece_is_in_one_unit_and_declared_elsewhere_only(sizes: list[int]) -> None:
    pieces = [piece(number, size) for number, size in enumerate(sizes)]
    units = gather(pieces)
    assert units == gather(list(pieces))
    found = [re.findall(r"^define void @(\w+)", unit, re.MULTILINE) for unit in units]
    assert sorted(name for names in found for name in names) == sorted(f"f{n}" for n in range(len(sizes)))
    for names, unit in zip(found, units, strict=True):
        declared = re.findall(r"^declare \w+ @(\w+)", unit, re.MULTILINE)
        assert len(set(declared)) == len(declared)
        assert set(declared) == {f"f{n}" for n in range(50)} - set(names) | {"outside"}
