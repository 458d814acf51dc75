"""Compilation units: pieces of text that LLVM begins with while more are written, and alike whoever asks."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.codegen.plan.units import Piece, Units


def piece(number: int, size: int) -> Piece:
    """A piece that offers ``f<number>``, which only it has to know unless others call it, and uses all others."""
    others = tuple(f"declare void @f{other}()" for other in range(50) if other != number)
    body = f"define internal void @f{number}() {{ ; {'x' * size}\n}}"
    return Piece((*others, "declare i64 @outside()"), body, (f"declare void @f{number}()",))


def units_of(pieces: list[Piece]) -> tuple[tuple[str, ...], list[str]]:
    """All units, and those that were begun with before."""
    begun: list[str] = []
    units = Units(begun.append)
    for one in pieces:
        units.add(one)
    return units.finish(), begun


def test_little_text_is_one_unit() -> None:
    (unit,), begun = units_of([piece(0, 900), piece(1, 1500), piece(2, 30)])
    assert begun == []
    assert unit.index("@f0() {") < unit.index("@f1() {") < unit.index("@f2() {")
    assert units_of([]) == ((), [])


def test_units_begin_as_soon_as_they_are_long_enough() -> None:
    begun: list[str] = []
    units = Units(begun.append)
    counts = []
    for number in range(16):
        units.add(piece(number, 10_000))
        counts.append(len(begun))
    assert counts == sorted(counts)
    assert 4 <= counts[-1] <= 8
    assert counts[0] == 1  # LLVM has nothing to do until then
    sizes = [len(unit) for unit in begun[1:]]
    assert max(sizes) < 1.2 * min(sizes)
    assert list(units.finish()[: len(begun)]) == begun


@settings(deadline=None)
@given(st.lists(st.integers(0, 60_000), max_size=30))
def test_every_piece_is_in_one_unit_and_declared_elsewhere_only(sizes: list[int]) -> None:
    pieces = [piece(number, size) for number, size in enumerate(sizes)]
    units, begun = units_of(pieces)
    assert units == units_of(pieces)[0]
    assert list(units[: len(begun)]) == begun
    found = [re.findall(r"^define (?:internal )?void @(\w+)", unit, re.MULTILINE) for unit in units]
    assert [name for names in found for name in names] == [f"f{n}" for n in range(len(sizes))]
    for names, unit in zip(found, units, strict=True):
        declared = re.findall(r"^declare \w+ @(\w+)", unit, re.MULTILINE)
        assert len(set(declared)) == len(declared)
        assert set(declared) == {f"f{n}" for n in range(50)} - set(names) | {"outside"}
        assert "internal" not in unit or len(units) == 1
