"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = [
    "file_argument",
    "format_option",
    "numerics_options",
    "optional_file_argument",
    "passes_option",
    "threads_option",
]

file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
optional_file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), required=False)
passes_option = click.option(
    "-p",
    "--passes",
    default="default",
    metavar="PIPELINE",
    show_default=True,
    help="Passes to apply: simplify,fusion{max-ops=64},fixpoint(cse,dce). 'hlotool passes' lists them.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
threads_option = click.option(
    "--threads", type=click.IntRange(1, 1024), metavar="N", help="Threads to use; else HLOTOOL_THREADS, else all cores."
)


def numerics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that trade exactness for speed."""
    options = [
        click.option(
            "--excess-precision",
            is_flag=True,
            help="Native code may keep f16 and bf16 results in f32 between elementwise operations.",
        ),
        click.option(
            "--flush-denormals",
            is_flag=True,
            help="Arithmetic on f32, f64 and bf16 takes subnormal numbers for zeros.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command
