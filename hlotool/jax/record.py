"""What JAX handed over in this process: the records behind `hlotool.jax.explain`."""

from __future__ import annotations

from hlotool.frontends.programs import Programs

__all__ = ["PROGRAMS"]

PROGRAMS = Programs()
