"""NumPy's own functions, called as NumPy's users call them, on arrays of ours: under jit they are traced."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np

X = numpy.array([[3.0, -1.0, 2.0, 7.0], [0.5, 2.0, -0.0, 1.0]])

CALLS: list[Callable[[Any], Any]] = [
    lambda x: numpy.sum(x, 0, None, None, True),
    lambda x: numpy.sum(a=x, axis=1, keepdims=True, out=None),
    lambda x: numpy.mean(x, axis=0, dtype=None, out=None, keepdims=True),
    lambda x: numpy.std(x, 0, None, None, 1),
    lambda x: numpy.var(x, ddof=1, axis=1),
    lambda x: numpy.max(x, 1, None, True),
    lambda x: numpy.clip(x, a_min=0.0, a_max=2.0),
    lambda x: numpy.clip(x, 0.0, None),
    lambda x: numpy.take(x, numpy.array([1, 0]), 1),
    lambda x: numpy.repeat(x, 2, 1),
    lambda x: numpy.sort(x, 0, None, None),
    lambda x: numpy.argsort(a=x, axis=0, kind="stable"),
    lambda x: numpy.reshape(x, (4, 2), order="C"),
    lambda x: numpy.swapaxes(a=x, axis1=0, axis2=1),
    lambda x: numpy.trace(x, 1, 0, 1),
    lambda x: numpy.tile(A=x, reps=(2, 1)),
    lambda x: numpy.roll(a=x, shift=1, axis=1),
    lambda x: numpy.diff(x, 1, 1),
    lambda x: numpy.zeros_like(a=x),
    lambda x: numpy.full_like(x, 3.0),
    lambda x: numpy.tril(m=x, k=1),
    lambda x: numpy.median(x, 0, None, False),
    lambda x: numpy.quantile(x, 0.25, 1, None, False),
    lambda x: numpy.nanmean(a=x, axis=0),
    lambda x: numpy.searchsorted(a=numpy.array([0.0, 1.0]), v=x),
    lambda x: numpy.isin(element=x, test_elements=numpy.array([2.0])),
    lambda x: numpy.linalg.solve(a=x[:, :2], b=x[:, 2:]),
    lambda x: numpy.linalg.det(a=x[:, :2]),
    lambda x: numpy.fft.fft(a=x, axis=1),
    lambda x: numpy.tensordot(a=x, b=x, axes=([1], [1])),
    lambda x: numpy.concatenate([x, x], 1),
    lambda x: numpy.where(x > 0, x, 0.0),
    lambda x: numpy.stack([x, x], 1),
    lambda x: numpy.cumsum(x, 1, None, None),
    lambda x: numpy.average(x, 0, None),
    lambda x: numpy.add.reduce(x, axis=1),
    lambda x: numpy.squeeze(a=x[:1]),
    lambda x: numpy.moveaxis(a=x, source=0, destination=1),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_of_numpy_are_traced(number: int) -> None:
    call = CALLS[number]
    wanted = call(X)
    agree(hlotool.jit(call)(X), wanted, rtol=1e-12)
    found = call(np.asarray(X))
    assert isinstance(found, np.Array)
    agree(found, wanted, rtol=1e-12)


def test_what_has_no_namesake_says_so() -> None:
    with pytest.raises(TypeError, match=r"test_numpy_protocols.py:.*numpy.unpackbits needs the value"):
        hlotool.jit(lambda x: numpy.unpackbits(x.astype(numpy.uint8)))(X)
    agree(numpy.unpackbits(np.asarray([3], dtype=np.uint8)), numpy.unpackbits(numpy.array([3], numpy.uint8)))


SCIPY = """
import numpy, hlotool.numpy as np
import scipy.special, scipy.integrate, scipy.stats
x = numpy.array([[0.5, 2.0, 1.0], [3.0, 0.25, 4.0]])
calls = [
    lambda a: scipy.special.softmax(a, axis=0),
    lambda a: scipy.integrate.trapezoid(a, axis=1),
    lambda a: scipy.stats.gmean(a, axis=1),
    lambda a: scipy.stats.moment(a, 2, axis=1),
    lambda a: scipy.stats.skew(a, axis=1),
    lambda a: scipy.special.xlogy(a, a),
    lambda a: scipy.special.expit(a),
]
for number, call in enumerate(calls):
    found = call(np.asarray(x))
    assert isinstance(found, np.Array), (number, type(found))
    numpy.testing.assert_allclose(numpy.asarray(found), call(x), rtol=1e-12)
print("done")
"""


def test_functions_of_scipy_take_our_arrays() -> None:
    pytest.importorskip("scipy", reason="SciPy is not installed")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", SCIPY], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "done\n", done.stderr[-2000:]
