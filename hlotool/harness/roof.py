"""The roofs of this machine, measured: operations per second and bytes per second that real kernels reach.

`Roof.flops` is that of a product of f32 matrices of 1024 by 1024; `Roof.rates` are those of a + 3 b: no program moves
data faster than the streaming kernel or multiplies and adds faster than the large product.
"""

from __future__ import annotations

import numpy as np

from hlotool.analysis.roofline import Roof
from hlotool.driver import compile_module
from hlotool.harness.times import best_time
from hlotool.text.parser import parse

__all__ = ["measure_roof"]

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


def measure_roof(threads: int | None = None, seconds: float = 0.2) -> Roof:
    """Measure this machine with `threads` (all by default), about `seconds` for each number."""
    product = compile_module(parse(_PRODUCT), threads=threads)
    square = np.ones((_SIZE, _SIZE), np.float32)
    flops = 2 * _SIZE**3 / best_time(lambda: product(square, square), seconds)
    return Roof(flops, tuple(_rate(length, threads, seconds) for length in _LENGTHS))


def _rate(length: int, threads: int | None, seconds: float) -> tuple[int, float]:
    triad = compile_module(parse(_TRIAD.replace("LENGTH", str(length))), threads=threads)
    line = np.ones(length, np.float32)
    other = line.copy()
    touched = 3 * line.nbytes
    return touched, touched / best_time(lambda: triad(line, other), seconds)
