"""Symbolic indices against plain integers."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.indexing import (
    Atom,
    Condition,
    Index,
    atom_index,
    constant,
    delinearize,
    linearize,
    row_major_strides,
    runtime,
    variable,
)


def value(index: Index, counters: Mapping[Atom, int]) -> int:
    total = index.constant
    for atom, coefficient in index.terms:
        if atom.inner is None:
            number = counters[atom]
        else:
            inner = value(atom.inner, counters)
            number = inner // atom.divisor if atom.kind == "quotient" else inner % atom.divisor
        assert atom.low <= number <= atom.high
        total += coefficient * number
    return total


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_arithmetic_agrees_with_integers(data: st.DataObject) -> None:
    """Whatever is built from counters by + - * // % has the right value and lies in its range."""
    extents = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=3, max_size=3))
    atoms = [variable(number, extent) for number, extent in enumerate(extents)]
    counters = {atom: data.draw(st.integers(atom.low, atom.high)) for atom in atoms}
    known = [(atom_index(atom), counters[atom]) for atom in atoms]
    for _ in range(data.draw(st.integers(1, 8))):
        (a, x), (b, y) = (data.draw(st.sampled_from(known)) for _ in range(2))
        k = data.draw(st.sampled_from([2, 3, 4, 6, 12]))
        operation = data.draw(st.sampled_from("+-*/%c"))
        match operation:
            case "+":
                known.append((a + b, x + y))
            case "-":
                known.append((a - b, x - y))
            case "*":
                known.append((a * k, x * k))
            case "/":
                known.append((a // k, x // k))
            case "%":
                known.append((a % k, x % k))
            case "c":
                known.append((a + k, x + k))
    for index, right in known:
        assert value(index, counters) == right
        assert index.low <= right <= index.high


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (7,), (1, 6, 1), (3, 1, 5)])
def test_positions_fold_back(sizes: tuple[int, ...]) -> None:
    """Taking a position apart and putting it together again leaves the counter alone."""
    position = atom_index(variable(0, prod(sizes)))
    assert linearize(delinearize(position, sizes), sizes) == position


def test_reshapes_of_aligned_dimensions_leave_no_division() -> None:
    i, j, k = (atom_index(variable(n, extent)) for n, extent in enumerate((4, 6, 8)))
    assert delinearize(linearize((i, j, k), (4, 6, 8)), (24, 8)) == (i * 6 + j, k)
    assert delinearize(linearize((i, j, k), (4, 6, 8)), (4, 48)) == (i, j * 8 + k)
    assert delinearize(i * 48 + j * 8 + k, (4, 6, 2, 4))[:2] == (i, j)


def test_strides() -> None:
    assert row_major_strides((2, 3, 4)) == [12, 4, 1]
    assert row_major_strides(()) == []


def test_conditions_are_decided_by_ranges() -> None:
    i = atom_index(variable(0, 10))
    assert Condition(i, 0, 10).always
    assert not Condition(i, 0, 9).always
    assert Condition(i + 10, 0, 10).never
    assert Condition(i, 3, 3).never
    assert not Condition(i - 5, 0, 5).never


def test_run_time_integers_keep_their_range() -> None:
    start = atom_index(runtime(3, "start", 0, 7, 0))
    i = atom_index(variable(0, 4))
    assert ((start + i).low, (start + i).high) == (0, 10)
    assert atom_index(runtime(3, "start", 5, 5, 0)) == constant(5)
    assert (start * 8 + i * 2) // 8 == start
