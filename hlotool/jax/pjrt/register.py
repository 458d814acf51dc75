"""Makes hlotool a backend of JAX, which is then its backend for CPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from hlotool.ending import end_quickly
from hlotool.jax.pjrt.buffers import VIEWS, buffer_functions
from hlotool.jax.pjrt.client import client_functions
from hlotool.jax.pjrt.executables import executable_functions
from hlotool.jax.pjrt.extensions import extensions
from hlotool.jax.pjrt.fallback import lowered_cost
from hlotool.jax.pjrt.lowering import CALLBACKS
from hlotool.jax.pjrt.mhlo import leave_out_operations
from hlotool.jax.pjrt.table import Function, capsule

__all__ = ["register"]

NAME = "hlotool"


def register() -> None:
    """Register the plug-in; whoever asks JAX for the backend ``cpu`` gets it, too."""
    from jax._src import compiler, config, xla_bridge
    from jax._src.interpreters.pxla import MeshComputation
    from jaxlib import _jax

    end_quickly()
    leave_out_operations()
    xla_bridge._nonexperimental_plugins.add(NAME)
    xla_bridge.register_plugin(NAME, c_api=capsule(_functions, extensions), options=_options)
    compiler.backend_compile_and_load = CALLBACKS.noted(compiler.backend_compile_and_load)
    _jax.dlpack_managed_tensor_to_buffer = VIEWS.noted(_jax.dlpack_managed_tensor_to_buffer, NAME)
    MeshComputation.cost_analysis = _costed(MeshComputation.cost_analysis)
    platforms = [name.strip() for name in config.jax_platforms.value.split(",")]
    if "cpu" not in platforms:
        registration = xla_bridge._backend_factories[NAME]
        make = registration.factory

        def client() -> Any:
            """The client that there is; a new one where JAX has given up its clients."""
            found = xla_bridge._backends
            return found.get(NAME) or found.get("cpu") or make()

        registration.factory = client
        xla_bridge.register_backend_factory("cpu", client, priority=0, fail_quietly=False)
        config.update("jax_platforms", ",".join([*platforms, "cpu"]))


def _costed(cost_analysis: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """JAX's method of lowered programs, which refuses plug-ins although the answer does not depend on them."""

    @wraps(cost_analysis)
    def costed(lowered: Any) -> Any:
        try:
            return cost_analysis(lowered)
        except NotImplementedError:
            return lowered_cost(lowered.hlo())

    return costed


def _functions() -> dict[str, Function]:
    return client_functions() | buffer_functions() | executable_functions()


def _options() -> dict[str, Any]:
    """How many devices JAX wants of a CPU."""
    from jax._src import xla_bridge

    count = xla_bridge.num_cpu_devices.value
    if count < 0:  # not said; the last of equal flags counts
        flags = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
        count = int(flags[-1]) if flags else 1
    return {"num_devices": max(count, 1)}
