"""The roofs of a machine, as an option takes them: ``host``, or ``2T,200G``."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from hlotool.analysis.roofline import Roof
from hlotool.cli.sizes import number_of

__all__ = ["HOST", "Peaks"]

HOST = "host"
_LEAST, _MOST = 1.0, 1e24


class Peaks(click.ParamType[Roof | str]):
    """``host``, or operations and bytes per second: ``2T,200G``."""

    name = "peaks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Roof | str:
        if isinstance(value, Roof):
            return value
        if value == HOST:
            return HOST
        numbers = [number_of(part.lower().removesuffix("flop/s").removesuffix("/s")) for part in str(value).split(",")]
        if len(numbers) != 2 or not all(number is not None and _LEAST <= number <= _MOST for number in numbers):
            self.fail(f"{value!r}: expected 'host', or operations and bytes per second, as in 2T,200G", param, ctx)
        return Roof(numbers[0] or 0.0, ((0, numbers[1] or 0.0),))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(HOST)] if HOST.startswith(incomplete) else []
