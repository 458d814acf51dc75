"""``hlotool census``."""

from __future__ import annotations

from collections import Counter

import click

from hlotool.cli.common import read_module

__all__ = ["command"]


@click.command("census")
@click.argument("file")
def command(file: str) -> None:
    """Count the opcodes in FILE."""
    counts = Counter(instruction.opcode for instruction in read_module(file).instructions())
    for opcode, count in sorted(counts.items()):
        click.echo(f"{count:6} {opcode}")
