"""Times as options take them: ``30d``, ``12h``, ``90s``."""

from __future__ import annotations

import re
from typing import Any

import click

__all__ = ["Seconds"]

_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Seconds(click.ParamType[float]):
    """A time: ``30d``, ``12h``, ``90s``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = value if isinstance(value, float) else _seconds(str(value))
        if number is None:
            self.fail(f"{value!r} is no time: expected something like 30d, 12h or 90s", param, ctx)
        return number


def _seconds(text: str) -> float | None:
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)", text.strip(), re.ASCII)
    if found is None or found[2].lower() not in _SECONDS:
        return None
    return float(found[1]) * _SECONDS[found[2].lower()]
