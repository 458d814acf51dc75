"""``hlotool.jax.explain``: what became of the programs of this process."""

from __future__ import annotations

from hlotool.frontends.programs import Programs
from hlotool.jax.record import PROGRAMS

__all__ = ["explain"]


def explain() -> Programs:
    """What was compiled, what was left to jax and why, with times: print it, or go through its records."""
    return PROGRAMS
