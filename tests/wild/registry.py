"""What a program of `tests/wild/programs` is: a function of an element type, which recording calls.

Imported by the Python that has jax; knows nothing of hlotool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["PROGRAMS", "Program", "program"]

Body = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Program:
    """`run` is called with a NumPy name of an element type; float64 turns JAX's x64 mode on."""

    name: str
    run: Body
    kinds: tuple[str, ...]
    devices: int


PROGRAMS: list[Program] = []
"""Those of the files imported so far, in order."""


def program(kinds: Sequence[str] = ("float32",), devices: int = 1) -> Callable[[Body], Body]:
    """Make a function a program, to be run once for each of `kinds` with so many devices."""

    def register(run: Body) -> Body:
        PROGRAMS.append(Program(f"{run.__module__}.{run.__name__}", run, tuple(kinds), devices))
        return run

    return register
