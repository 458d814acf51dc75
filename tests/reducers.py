"""The head of test modules: computations that reductions, scatters, sorts and selections apply."""

from __future__ import annotations

__all__ = ["REDUCERS"]

REDUCERS = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}

ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}

second {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

pair {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = f32[] add(a, c)
  f = f32[] add(b, d)
  ROOT g = (f32[], f32[]) tuple(e, f)
}

"""
"""Ends where the entry computation begins."""
