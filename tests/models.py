"""Real programs as text: some are part of every clone, in tests/data/models; the whole corpus may lie beside it.

What needs the results that were recorded with the corpus is a sweep over it, and is skipped where it is not.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["model", "models"]

_HERE = Path(__file__).parent / "data" / "models"
_WHOLE = Path(__file__).parents[2] / "shared" / "corpus" / "models"


def model(name: str) -> Path:
    """One that every clone has."""
    return _HERE / f"{name}.hlo"


def models() -> list[Path]:
    """The whole corpus, or as much of it as there is."""
    return sorted(_WHOLE.glob("*.hlo")) or sorted(_HERE.glob("*.hlo"))
