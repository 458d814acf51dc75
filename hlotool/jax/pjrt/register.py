"""Makes hlotool a backend of JAX, which is then its backend for CPUs."""

from __future__ import annotations

from functools import cache
from typing import Any

from hlotool.jax.pjrt.buffers import buffer_functions
from hlotool.jax.pjrt.client import client_functions
from hlotool.jax.pjrt.executables import executable_functions
from hlotool.jax.pjrt.extensions import extensions
from hlotool.jax.pjrt.table import Function, capsule

__all__ = ["register"]

NAME = "hlotool"


def register() -> None:
    """Register the plug-in; whoever asks JAX for the backend ``cpu`` gets it, too."""
    from jax._src import config, xla_bridge

    xla_bridge._nonexperimental_plugins.add(NAME)
    xla_bridge.register_plugin(NAME, c_api=capsule(_functions, extensions), options=_options)
    platforms = [name.strip() for name in config.jax_platforms.value.split(",")]
    if "cpu" not in platforms:
        registration = xla_bridge._backend_factories[NAME]
        made = cache(registration.factory)
        registration.factory = made
        xla_bridge.register_backend_factory("cpu", made, priority=0, fail_quietly=False)
        config.update("jax_platforms", ",".join([*platforms, "cpu"]))


def _functions() -> dict[str, Function]:
    return client_functions() | buffer_functions() | executable_functions()


def _options() -> dict[str, Any]:
    """How many devices JAX wants of a CPU."""
    from jax._src import xla_bridge

    count = xla_bridge.num_cpu_devices.value
    return {"num_devices": max(count, 1)}
