"""Options that are amounts of something: bytes, times."""

from __future__ import annotations

import re
from typing import Any

import click

__all__ = ["Bytes", "Seconds"]

_BYTES = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
    "tib": 1 << 40,
}  # fmt: skip
_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Bytes(click.ParamType[int]):
    """A number of bytes: ``1GiB``, ``500MB``, ``64K``, ``0``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = value if isinstance(value, int) else _amount(str(value), _BYTES)
        if number is None:
            self.fail(f"{value!r} is no size: expected something like 1GiB, 500MB or 64K", param, ctx)
        return int(number)


class Seconds(click.ParamType[float]):
    """A time: ``30d``, ``12h``, ``90s``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = value if isinstance(value, float) else _amount(str(value), _SECONDS)
        if number is None:
            self.fail(f"{value!r} is no time: expected something like 30d, 12h or 90s", param, ctx)
        return number


def _amount(text: str, units: dict[str, int]) -> float | None:
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)", text.strip(), re.ASCII)
    if found is None or found[2].lower() not in units:
        return None
    return float(found[1]) * units[found[2].lower()]
