"""The roofs of this machine, measured: operations per second and bytes per second that real kernels reach.

After Williams, Waterman and Patterson (Roofline, CACM 2009): no program moves data faster than the streaming kernel
or multiplies and adds faster than the large product.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlotool.driver import compile_module
from hlotool.text.parser import parse

__all__ = ["Roof", "measure_roof"]

_SIZE = 1024
_LENGTHS = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
"""Elements of the three arrays that are streamed: caches hold the smaller ones."""

_PRODUCT = f"""HloModule product
ENTRY e {{
  a = f32[{_SIZE},{_SIZE}] parameter(0)
  b = f32[{_SIZE},{_SIZE}] parameter(1)
  ROOT c = f32[{_SIZE},{_SIZE}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
_TRIAD = """HloModule triad
ENTRY e {
  a = f32[LENGTH] parameter(0)
  b = f32[LENGTH] parameter(1)
  s = f32[] constant(3)
  t = f32[LENGTH] broadcast(s), dimensions={}
  m = f32[LENGTH] multiply(b, t)
  ROOT c = f32[LENGTH] add(a, m)
}"""


@dataclass(frozen=True, slots=True)
class Roof:
    """`flops` per second of a product of f32 matrices of 1024 by 1024; `rates` has pairs of the bytes that a + 3 b
    touches and the bytes that it moves per second, small arrays first."""

    flops: float
    rates: tuple[tuple[int, float], ...]

    def bytes(self, touched: int) -> float:
        """Bytes per second for a program that touches so many: those of the next larger arrays that were streamed."""
        return next((rate for size, rate in self.rates if size >= touched), self.rates[-1][1])


def measure_roof(threads: int | None = None, seconds: float = 0.2) -> Roof:
    """Measure this machine with `threads` (all by default), about `seconds` for each number."""
    product = compile_module(parse(_PRODUCT), threads=threads)
    square = np.ones((_SIZE, _SIZE), np.float32)
    flops = 2 * _SIZE**3 / _best(lambda: product(square, square), seconds)
    return Roof(flops, tuple(_rate(length, threads, seconds) for length in _LENGTHS))


def _rate(length: int, threads: int | None, seconds: float) -> tuple[int, float]:
    triad = compile_module(parse(_TRIAD.replace("LENGTH", str(length))), threads=threads)
    line = np.ones(length, np.float32)
    other = line.copy()
    touched = 3 * line.nbytes
    return touched, touched / _best(lambda: triad(line, other), seconds)


def _best(run: Callable[[], Any], seconds: float) -> float:
    """The shortest of the runs that fit into `seconds`, at least three."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)
