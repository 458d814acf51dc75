"""XLA as a second opinion (see `hlotool.harness.xla`)."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from hlotool.harness.xla import RefusedError, Xla, xla_python
from hlotool.ir import UnsupportedError

__all__ = ["Job", "missing", "run_xla"]

Array: TypeAlias = np.ndarray[Any, Any]
Job: TypeAlias = tuple[str, Sequence[Array]]
"""HLO text, and arguments of its entry computation: one array per parameter, tuples flattened."""


@functools.cache
def missing() -> str:
    """Why there is no XLA to ask; empty when there is.  For ``pytest.mark.skipif``."""
    python = xla_python()
    try:
        looks = "import sys, importlib.util as u; sys.exit(not (u.find_spec('jax') and u.find_spec('jaxlib')))"
        found = subprocess.run([python, "-c", looks], capture_output=True, timeout=600, check=False)
    except OSError as error:
        return f"{python} does not run: {error.strerror}"
    return "" if found.returncode == 0 else f"{python} has no jax (set HLOTOOL_XLA_PYTHON to one that has)"


def run_xla(jobs: Sequence[Job], timeout: float = 600, flags: str = "") -> list[list[Array] | UnsupportedError]:
    """The outputs of each module, one array per leaf of its root, or why there are none.

    All jobs share a child process (starting one takes seconds); when one kills it, another child takes the rest.
    """
    answers: list[list[Array] | UnsupportedError] = []
    while len(answers) < len(jobs):
        with Xla(flags=flags, timeout=timeout) as xla:
            for text, arguments in jobs[len(answers) :]:
                try:
                    xla.compile(text)
                    xla.give(arguments)
                    answers.append(xla.run()[0])
                except RefusedError as error:
                    answers.append(error)
                except UnsupportedError as error:
                    if not xla.started:
                        raise
                    answers.append(error)
                    break
    return answers
