"""Programs of users of NumPy: eagerly and compiled they give what they give with NumPy."""

from __future__ import annotations

from typing import Any

import numpy
import numpy_programs
import pytest
from numpy_programs import EAGER, PROGRAMS

import hlotool
import hlotool.numpy as np


def _agree(found: Any, wanted: Any) -> None:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        numpy.testing.assert_allclose(numpy.asarray(one), numpy.asarray(other), rtol=1e-9, atol=1e-11)
        assert numpy.asarray(one).dtype == numpy.asarray(other).dtype


def _copies(inputs: tuple[Any, ...]) -> list[Any]:
    return [one.copy() if isinstance(one, numpy.ndarray) else one for one in inputs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_eagerly(name: str) -> None:
    function, inputs = PROGRAMS[name]
    wanted = function(numpy, *_copies(inputs))
    given = [np.asarray(one) if isinstance(one, numpy.ndarray) else one for one in inputs]
    _agree(function(np, *given), wanted)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in EAGER])
def test_compiled(name: str) -> None:
    function, inputs = PROGRAMS[name]
    wanted = function(numpy, *_copies(inputs))
    _agree(hlotool.jit(lambda *given: function(np, *given))(*inputs), wanted)


@pytest.mark.parametrize("name", sorted(EAGER - {"primes", "changed_in_a_loop", "sudoku", "bubble_sort"}))
def test_what_looks_at_values_is_refused_by_name_in_traced_functions(name: str) -> None:
    function, inputs = PROGRAMS[name]
    with pytest.raises(TypeError, match="traced"):
        hlotool.jit(lambda *given: function(np, *given))(*inputs)


def test_programs_are_many() -> None:
    assert len(PROGRAMS) >= 40, numpy_programs.__doc__
