"""Drawings to pictures, through Graphviz's ``dot``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hlotool.inspect.files import write_file

__all__ = ["HOW_TO_GET_DOT", "NoPicture", "find_dot", "picture", "render_all"]

HOW_TO_GET_DOT = (
    "install Graphviz: 'apt-get install graphviz' (Debian, Ubuntu), 'brew install graphviz' (macOS), "
    "'conda install -c conda-forge graphviz' (anywhere)"
)


class NoPicture(Exception):  # noqa: N818
    """``dot`` made no picture; says why."""


def find_dot() -> str | None:
    """The program ``dot``; None when it is not on PATH."""
    return shutil.which("dot")


def picture(dot: str, text: str, form: str, seconds: float) -> bytes:
    """The picture of a DOT text as ``svg``, ``png`` or ``pdf``; NoPicture when there is none within the time."""
    try:
        done = subprocess.run(
            [dot, f"-T{form}"], input=text.encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoPicture(f"dot took more than {seconds:g} s") from None
    except OSError as error:
        raise NoPicture(error.strerror or str(error)) from None
    if done.returncode:
        raise NoPicture(f"dot ended with status {done.returncode}")
    return done.stdout


def render_all(dot: str, drawings: Sequence[Path], seconds: float) -> dict[Path, str]:
    """Write ``X.svg`` beside every ``X.dot``, each within a time limit; drawing -> problem for those that failed."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        problems = pool.map(lambda path: _render(dot, path, seconds), drawings)
    return {path: problem for path, problem in zip(drawings, problems, strict=True) if problem}


def _render(dot: str, drawing: Path, seconds: float) -> str:
    """Write the picture of one drawing; the problem, empty when there is none."""
    try:
        content = picture(dot, drawing.read_text(encoding="utf-8"), "svg", seconds)
    except NoPicture as problem:
        return f"no picture: {problem}"
    write_file(drawing.with_suffix(".svg"), content)
    return ""
