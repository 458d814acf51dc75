"""The backend ``evaluate``: the module is interpreted as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hlotool.driver.backend import Backend, Capabilities
from hlotool.driver.options import CompileOptions
from hlotool.driver.program_shape import program_shape
from hlotool.ir import Module
from hlotool.ir.devices import check_devices, topology_of
from hlotool.ir.dynamic import check_bounds
from hlotool.runtime.executable import Executable, Memory
from hlotool.runtime.marshalling import check_arrays

if TYPE_CHECKING:
    from hlotool.evaluate.devices import Device

__all__ = ["BACKEND", "evaluated"]


def evaluated(module: Module, options: CompileOptions) -> Executable:
    """`module`, to be interpreted; of the options the time limit counts, and what becomes of subnormal numbers."""
    from hlotool.evaluate import evaluate
    from hlotool.evaluate.devices import Device, ThreadWorld

    parameters, outputs = program_shape(module)
    flush, timeout = options.machine.numerics.flush_denormals, options.timeout
    check_devices(module)
    check_bounds(module)

    def work(device: Device, arrays: Sequence[object]) -> tuple[Any, ...]:
        return evaluate(module, check_arrays(parameters, arrays), device=device, flush_denormals=flush)

    def run(*arrays: object) -> tuple[Any, ...]:
        return work(Device(ThreadWorld(seconds=timeout)), arrays)

    memory = Memory(0, sum(s.byte_size for s in parameters), sum(s.byte_size for s in outputs), 0)
    devices = topology_of(module).devices
    return Executable(module, parameters, outputs, memory, (), run, work=work, devices=devices, timeout=timeout)


BACKEND = Backend(
    name="evaluate",
    compile=evaluated,
    capabilities=Capabilities(
        time_limit=True, dynamic_shapes=True, custom_calls=True, collectives=True, feeds=True
    ),
)  # fmt: skip
