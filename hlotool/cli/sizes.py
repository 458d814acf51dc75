"""Options that are numbers with units: ``1GiB``, ``512MB``, ``4096``."""

from __future__ import annotations

from typing import Any

import click

from hlotool.analysis.sizes import number_of

__all__ = ["Size", "number_of"]


class Size(click.ParamType[int]):
    """Bytes: ``1GiB``, ``512 MB``, ``4096``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = float(value) if isinstance(value, int) else number_of(str(value))
        if number is None:
            self.fail(f"{value!r} is no size: expected something like 1GiB, 512MB or 4096", param, ctx)
        return int(number)
