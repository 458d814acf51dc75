"""Numbers with units, as options take them: ``1GiB``, ``20e9``, ``100G``."""

from __future__ import annotations

import re
from typing import Any

import click
from click.shell_completion import CompletionItem

from hlotool.analysis.roofline import Roof

__all__ = ["HOST", "Peaks", "Size"]

_BINARY = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))}
_DECIMAL = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P"))}
_FACTORS = {
    **{unit.lower(): factor for unit, factor in _BINARY.items()},
    **{unit.lower(): factor for unit, factor in _DECIMAL.items()},
    **{f"{unit}b".lower(): factor for unit, factor in _DECIMAL.items()},
}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def _number(text: str) -> float | None:
    """A number with a unit; None where the text is none."""
    found = _NUMBER.fullmatch(text)
    factor = None if found is None else _FACTORS.get(found[2].lower())
    return None if found is None or factor is None else float(found[1]) * factor


class Size(click.ParamType[int]):
    """Bytes: ``1GiB``, ``512 MB``, ``4096``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = float(value) if isinstance(value, int) else _number(str(value))
        if number is None:
            self.fail(f"{value!r} is no size: expected something like 1GiB, 512MB or 4096", param, ctx)
        return int(number)


HOST = "host"


class Peaks(click.ParamType[Roof | str]):
    """``host``, or operations and bytes per second: ``2T,200G``."""

    name = "peaks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Roof | str:
        if isinstance(value, Roof):
            return value
        if value == HOST:
            return HOST
        numbers = [_number(part.lower().removesuffix("flop/s").removesuffix("/s")) for part in str(value).split(",")]
        if len(numbers) != 2 or not numbers[0] or not numbers[1]:
            self.fail(f"{value!r}: expected 'host', or operations and bytes per second, as in 2T,200G", param, ctx)
        return Roof(numbers[0], ((0, numbers[1]),))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(HOST)] if HOST.startswith(incomplete) else []
