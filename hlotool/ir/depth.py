"""How deep computations call each other, and room for functions that follow the calls.

Python bounds recursion to protect its stack; what is fine for a program that somebody wrote (loops, branches and calls
some dozen deep) is too little for one that a program wrote.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hlotool.ir.errors import UnsupportedError
from hlotool.ir.module import Computation, Module

__all__ = ["DEEPEST", "check_depth", "depth_of", "room"]

DEEPEST = 500
"""Computations that may call each other in a row in a program that is compiled, evaluated or drawn."""

_USUAL = 40  # levels for which there is room anyway
_FRAMES = 24  # of Python that a level takes at most
_lock = threading.Lock()
_levels: list[int] = []  # depths that there is room for now, in all threads
_before = [0]  # the bound of Python itself


def depth_of(module: Module) -> int:
    """The length of the longest chain of calls that starts at the entry, the entry included."""
    depth: dict[Computation, int] = {}
    for computation in module.callees_first():
        depth[computation] = 1 + max((depth.get(callee, 0) for callee in computation.callees), default=0)
    return depth[module.entry]


def check_depth(module: Module) -> int:
    """How deep the computations of a module call each other; UnsupportedError where that is deeper than `DEEPEST`."""
    depth = depth_of(module)
    if depth > DEEPEST:
        raise UnsupportedError(f"computations call each other {depth} deep; {DEEPEST} are supported")
    return depth


@contextmanager
def room(module: Module) -> Iterator[None]:
    """While this lasts, functions may call themselves once per level of `module`; UnsupportedError as `check_depth`.

    The bound is one for all threads, so that it is what the deepest needs, and goes back with the last of them.
    """
    depth = check_depth(module)
    if depth <= _USUAL:
        yield
        return
    with _lock:
        if not _levels:
            _before[0] = sys.getrecursionlimit()
        _levels.append(depth)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _before[0] + _FRAMES * max(_levels)))
    try:
        yield
    finally:
        with _lock:
            _levels.remove(depth)
            if not _levels:
                sys.setrecursionlimit(_before[0])
