"""Programs that hlotool does not take, run by jaxlib's own client for CPUs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.jax.pjrt.lowering import Options, mlir_module_by_rows
from hlotool.jax.pjrt.native import CODES
from hlotool.jax.pjrt.table import PjrtError

__all__ = ["Stock", "check_options", "compile_stock", "cost_of", "lowered_cost"]

Array = npt.NDArray[Any]


class Stock:
    """A program of jaxlib's, on devices with the numbers that hlotool's have."""

    def __init__(self, executable: Any, devices: Sequence[Any]) -> None:
        self._executable = executable
        self._devices = tuple(devices)

    def run(self, arguments: Sequence[Sequence[Array]], arrays: Sequence[bool]) -> list[list[Array]]:
        """The results of every device, of the arguments of every device; `arrays` tells those results from tokens."""
        with _errors_of_jaxlib():
            return self._run(arguments, arrays)

    def _run(self, arguments: Sequence[Sequence[Array]], arrays: Sequence[bool]) -> list[list[Array]]:
        given = [self._placed(parts) for parts in zip(*arguments, strict=True)]
        results = self._executable.execute_sharded(given, with_tokens=True)
        leaves = list(compress(results.disassemble_into_single_device_arrays(), arrays))
        results.consume_token().block_until_ready()  # callbacks may still run when there are results
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


@contextmanager
def _errors_of_jaxlib() -> Iterator[None]:
    """Errors of jaxlib as ours, of the same code; as such they come back to JAX with not a word more."""
    from jax.errors import JaxRuntimeError

    try:
        yield
    except JaxRuntimeError as error:
        code, _, message = str(error).partition(": ")
        name = code.lower().replace("_", " ")
        if name not in CODES:
            raise
        raise PjrtError(name, message) from error


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
    with _errors_of_jaxlib(), make_ir_context():
        module = mlir_module_by_rows(code)
        executable = client.compile_and_load(module, _jax.DeviceList(tuple(chosen)), read, list(callbacks))
    return Stock(executable, chosen)


def check_options(options: bytes, settings: Options, available: int) -> None:
    """Let jaxlib look at options that have names of XLA's; its error where there are none of such names or values."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib import _jax
    from jaxlib.mlir import ir

    client = _client(available)
    found = {device.id: device for device in client.devices()}
    devices = _jax.DeviceList(tuple(found[number] for number in settings.devices))
    with _errors_of_jaxlib(), make_ir_context():
        nothing = ir.Module.parse("func.func public @main() { return }")
        client.compile_and_load(nothing, devices, _jax.CompileOptions.ParseFromString(options))


def lowered_cost(computation: Any) -> dict[str, float]:
    """What jaxlib says that a program costs which is lowered and not yet compiled."""
    from jaxlib import _jax

    return dict(_jax.hlo_module_cost_analysis(_client(1), computation.as_hlo_module()))


def cost_of(proto: bytes) -> dict[str, float]:
    """What jaxlib says that a program costs, of its serialized HloModuleProto."""
    try:
        from jaxlib._hlo import XlaComputation
    except ImportError:  # before jaxlib 0.10
        from jaxlib._jax import XlaComputation

    with _errors_of_jaxlib():
        return lowered_cost(XlaComputation(proto))


_lock = threading.Lock()


def _client(devices: int) -> Any:
    with _lock:
        return _made(devices)


@cache
def _made(devices: int) -> Any:
    from jaxlib import xla_client

    return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)
