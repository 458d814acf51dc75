"""Programs that hlotool does not take, run by jaxlib's own client for CPUs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.jax.pjrt.lowering import mlir_module, without_layouts

__all__ = ["Stock", "compile_stock", "lowered_cost"]

Array = npt.NDArray[Any]


class Stock:
    """A program of jaxlib's, on devices with the numbers that hlotool's have."""

    def __init__(self, executable: Any, devices: Sequence[Any]) -> None:
        self._executable = executable
        self._devices = tuple(devices)

    def run(self, arguments: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of every device, of the arguments of every device."""
        given = [self._placed(arrays) for arrays in zip(*arguments, strict=True)]
        results = self._executable.execute_sharded(given)
        leaves = results.disassemble_into_single_device_arrays()
        return [[np.asarray(leaf[number]) for leaf in leaves] for number in range(len(self._devices))]

    def text(self) -> bytes:
        """The optimised program, as a serialized HloModuleProto."""
        return bytes(self._executable.hlo_modules()[0].as_serialized_hlo_module_proto())

    def parameter_shardings(self) -> list[bytes] | None:
        """A serialized OpSharding for every parameter; None where nothing is divided."""
        found = self._executable.get_parameter_shardings()
        return None if found is None else [bytes(sharding.SerializeToString()) for sharding in found]

    def output_shardings(self) -> list[bytes] | None:
        """A serialized OpSharding for every result; None where nothing is divided."""
        found = self._executable.get_output_shardings()
        return None if found is None else [bytes(sharding.SerializeToString()) for sharding in found]

    def _placed(self, arrays: Sequence[Array]) -> Any:
        """One argument, on all devices."""
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

        single = [jax.device_put(a, SingleDeviceSharding(d)) for a, d in zip(arrays, self._devices, strict=True)]
        if len(single) == 1:
            return single[0]
        # Only the parts count; what they are parts of is nobody's concern.
        sharding = NamedSharding(Mesh(np.array(self._devices), "x"), PartitionSpec())
        return jax.make_array_from_single_device_arrays(arrays[0].shape, sharding, single)


def compile_stock(
    code: bytes, options: bytes, devices: Sequence[int], callbacks: Sequence[Callable[..., Any]], available: int
) -> Stock:
    """`code` for `devices` of as many as are `available`; the error of jaxlib where it does not take it either."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib import _jax

    client = _client(available)
    found = {device.id: device for device in client.devices()}
    chosen = [found[number] for number in devices]
    read = _jax.CompileOptions.ParseFromString(options)
    with make_ir_context():
        module = without_layouts(mlir_module(code))  # arrays come and go row by row
        executable = client.compile_and_load(module, _jax.DeviceList(tuple(chosen)), read, list(callbacks))
    return Stock(executable, chosen)


def lowered_cost(computation: Any) -> dict[str, float]:
    """What jaxlib says that a program costs which is lowered and not yet compiled."""
    from jaxlib import _jax

    return dict(_jax.hlo_module_cost_analysis(_client(1), computation.as_hlo_module()))


_lock = threading.Lock()


def _client(devices: int) -> Any:
    with _lock:
        return _made(devices)


@cache
def _made(devices: int) -> Any:
    from jaxlib import xla_client

    return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)
