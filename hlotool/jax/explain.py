"""``hlotool.jax.explain``: what became of the programs of this process."""

from __future__ import annotations

import sys

from hlotool.frontends.programs import Programs
from hlotool.jax.record import PROGRAMS

__all__ = ["explain"]


def explain() -> Programs:
    """What was compiled, what was left to jax and why, with times: print it, or go through its records."""
    for name in ("hlotool.jax.foreign", "hlotool.jax.pjrt.executables"):  # they count runs by themselves
        if name in sys.modules:
            sys.modules[name].count_runs()
    return PROGRAMS
