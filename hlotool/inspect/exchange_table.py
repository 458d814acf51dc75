"""What devices exchange, as rows of words and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.analysis.exchanges import Exchange
from hlotool.inspect.svg import byte_words, time_words

__all__ = ["EXCHANGE_HEADINGS", "EXCHANGE_NUMBERS", "exchange_cells", "exchanges_json"]

EXCHANGE_HEADINGS = ("name", "opcode", "runs", "bytes", "groups", "algorithm", "steps", "sent", "time")
EXCHANGE_NUMBERS = ("runs", "bytes", "steps", "sent", "time")


def exchange_cells(exchanges: Sequence[Exchange]) -> list[tuple[str, ...]]:
    """A row for each: bytes of the whole array, steps, bytes that a device sends and time of one run."""
    return [
        (
            one.instruction.name, one.opcode, f"{one.runs:,}", byte_words(one.bytes, 4),
            f"{one.groups:,} of {one.members:,}",
            *(("", "", "", "") if one.predicted is None else (
                one.predicted.algorithm, f"{one.predicted.steps:,}", byte_words(one.predicted.sent, 4),
                time_words(one.predicted.seconds))),
        )
        for one in exchanges
    ]  # fmt: skip


def exchanges_json(exchanges: Sequence[Exchange]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "name": one.instruction.name, "opcode": one.opcode, "runs": one.runs, "bytes": one.bytes,
            "groups": one.groups, "members": one.members,
            "algorithm": None if one.predicted is None else one.predicted.algorithm,
            "steps": None if one.predicted is None else one.predicted.steps,
            "sent_bytes": None if one.predicted is None else round(one.predicted.sent),
            "predicted_seconds": None if one.predicted is None else one.predicted.seconds,
        }
        for one in exchanges
    ]  # fmt: skip
