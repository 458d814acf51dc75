"""Versions of everything that matters in a bug report.  They are read, not imported."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from hlotool.codegen.machine import host
from hlotool.version import __version__

__all__ = ["version_text"]


def version_text() -> str:
    """Versions of everything that matters in a bug report, one per line."""
    machine = host()
    rows: Sequence[tuple[str, str]] = [
        ("hlotool", __version__),
        ("Python", platform.python_version()),
        *((name, _version(name)) for name in ("numpy", "llvmlite", "ml_dtypes", "click", "graphviz", "scipy")),
        ("platform", platform.platform()),
        ("processor", f"{machine.cpu}, {machine.vector_bits}-bit vectors, {machine.cores} cores"),
    ]
    return "\n".join(f"{name} {value}" for name, value in rows)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
