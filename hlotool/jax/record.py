"""The programs of JAX that came in, by `hlotool.jax.jit` or the plug-in."""

from __future__ import annotations

from hlotool.frontends.programs import Programs

__all__ = ["PROGRAMS"]

PROGRAMS = Programs()
