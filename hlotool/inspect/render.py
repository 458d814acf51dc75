"""Drawings to pictures, through Graphviz's ``dot``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hlotool.inspect.files import write_file

__all__ = ["HOW_TO_GET_DOT", "find_dot", "render_all"]

HOW_TO_GET_DOT = (
    "install Graphviz: 'apt-get install graphviz' (Debian, Ubuntu), 'brew install graphviz' (macOS), "
    "'conda install -c conda-forge graphviz' (anywhere)"
)


def find_dot() -> str | None:
    """The program ``dot``; None when it is not on PATH."""
    return shutil.which("dot")


def render_all(dot: str, drawings: Sequence[Path], seconds: float) -> dict[Path, str]:
    """Write ``X.svg`` beside every ``X.dot``, each within a time limit; drawing -> problem for those that failed."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        problems = pool.map(lambda path: _render(dot, path, seconds), drawings)
    return {path: problem for path, problem in zip(drawings, problems, strict=True) if problem}


def _render(dot: str, drawing: Path, seconds: float) -> str:
    """Write the picture of one drawing; the problem, empty when there is none."""
    try:
        done = subprocess.run(
            [dot, "-Tsvg", str(drawing)], capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"no picture: dot took more than {seconds:g} s"
    except OSError as error:
        return f"no picture: {error.strerror}"
    if done.returncode:
        return f"no picture: dot ended with status {done.returncode}"
    write_file(drawing.with_suffix(".svg"), done.stdout)
    return ""
