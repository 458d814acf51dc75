"""Numbers with units, as people write them: ``1GiB``, ``512MB``, ``4096``."""

from __future__ import annotations

import math
import re

__all__ = ["number_of"]

_BINARY = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))}
_DECIMAL = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P"))}
_FACTORS = {
    **{unit.lower(): factor for unit, factor in _BINARY.items()},
    **{unit.lower(): factor for unit, factor in _DECIMAL.items()},
    **{f"{unit}b".lower(): factor for unit, factor in _DECIMAL.items()},
}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def number_of(text: str) -> float | None:
    """A number with a unit; None where the text is none, or too large for a float."""
    found = _NUMBER.fullmatch(text)
    factor = None if found is None else _FACTORS.get(found[2].lower())
    number = math.inf if found is None or factor is None else float(found[1]) * factor
    return number if math.isfinite(number) else None
