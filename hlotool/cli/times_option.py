"""``--times``: time per instruction, from a file or of native code, for commands that show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hlotool.ir import Module

if TYPE_CHECKING:
    from hlotool.harness.times import Times

__all__ = ["native_times", "read_or_measure", "times_option"]

_PROFILED = 0.5
"""Seconds to measure times for."""


def times_option(more: str = "", help_: str = "") -> Callable[[Any], Any]:
    """The option; `more` names what it takes besides a file and ``native``."""
    words = "Time per instruction: from a file, as 'profile --format json' writes it, or of native code"
    return click.option("--times", metavar=f"FILE.json|native{more}", help=f"{words}{help_}.")


def read_or_measure(source: str | None, module: Module) -> tuple[Module, Times]:
    """The module that times are of, and these: of a file those of `module`, of ``native`` those of `module` as code
    generation gets it; none without a `source`."""
    if source is None:
        return module, {}
    if source == "native":
        return native_times(module)
    from hlotool.harness.times import read_times

    return module, read_times(source)


def native_times(module: Module) -> tuple[Module, Times]:
    """The module as code generation gets it without passes of the user, and the times of its native code on random
    inputs."""
    from hlotool.driver import compile_module
    from hlotool.harness.inputs import random_inputs
    from hlotool.harness.profile import Measurement

    bare, probed = (compile_module(module, pipeline="none", profiled=profiled) for profiled in (False, True))
    measurement = Measurement(bare, probed, random_inputs(module, 0))
    measurement.run(_PROFILED)
    profile = measurement.profile()
    return profile.module, profile.times()
