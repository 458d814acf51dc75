"""Machines, as options take them: a network, a chip, numbers of devices."""

from __future__ import annotations

from typing import Any

import click

from hlotool.analysis.collective_formulas import Link
from hlotool.analysis.network import Network, parse_link, parse_topology, seconds_of
from hlotool.analysis.sizes import number_of
from hlotool.analysis.timeline import Chip
from hlotool.lazy_dataclass import dataclass

__all__ = ["ChipNumbers", "Counts", "LinkNumbers", "NetworkChoice", "NetworkText", "network_option"]

_MOST_DEVICES = 1 << 16


@dataclass(frozen=True, slots=True)
class NetworkChoice:
    """A network as it is written, for any number of devices."""

    text: str

    def of(self, devices: int) -> Network:
        """The network of so many devices; UsageError where there is no room for them."""
        try:
            if "latency=" in self.text:
                return parse_topology("switch", devices, parse_link(self.text))
            return parse_topology(self.text, devices)
        except ValueError as problem:
            raise click.UsageError(f"--network: {problem}") from None


class NetworkText(click.ParamType[NetworkChoice]):
    """``latency=2us,bandwidth=25GB/s``, or a topology: ``nvlink(8)xib``."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NetworkChoice:
        if isinstance(value, NetworkChoice):
            return value
        try:
            if "=" in str(value):
                parse_link(str(value))
            else:
                parse_topology(str(value), 1)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        return NetworkChoice(str(value))


network_option = click.option(
    "--network", type=NetworkText(), metavar="LINK|TOPOLOGY",
    help="List what devices exchange, with the time that it takes: 'latency=2us,bandwidth=25GB/s' between any two, or "
    "a topology as 'hlotool simulate' takes it.",
)  # fmt: skip


class LinkNumbers(click.ParamType[Link]):
    """``latency=2us,bandwidth=25GB/s``."""

    name = "link"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Link:
        if isinstance(value, Link):
            return value
        try:
            return parse_link(str(value))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class ChipNumbers(click.ParamType[Chip]):
    """Operations and bytes per second, bytes of memory, and seconds to launch a kernel: ``197T,819G,16GiB,1us``."""

    name = "chip"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Chip:
        if isinstance(value, Chip):
            return value
        words = [word.strip() for word in str(value).split(",")]
        numbers = [number_of(word.lower().removesuffix("flop/s").removesuffix("/s")) for word in words[:3]]
        if len(words) not in (3, 4) or not all(number is not None and 1 <= number <= 1e24 for number in numbers):
            self.fail(
                f"{value!r}: expected operations and bytes per second and bytes of memory, as in 197T,819G,16GiB",
                param, ctx,
            )  # fmt: skip
        try:
            launch = seconds_of(words[3]) if len(words) == 4 else 0.0
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        flops, bandwidth, memory = (number or 0.0 for number in numbers)
        return Chip(flops=flops, bandwidth=bandwidth, memory=int(memory), launch=launch)


class Counts(click.ParamType[tuple[int, ...]]):
    """Numbers of devices between commas: ``8,64,512``."""

    name = "counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(word.isascii() and word.isdecimal() and 1 <= int(word[:9]) <= _MOST_DEVICES for word in words):
            known = f"numbers from 1 to {_MOST_DEVICES} between commas, as in 8,64,512"
            self.fail(f"{value!r}: expected {known}", param, ctx)
        return tuple(sorted({int(word) for word in words}))
