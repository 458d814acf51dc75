"""From what JAX hands over to what hlotool compiles: StableHLO to HLO, by jaxlib; callbacks as custom calls."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from hlotool.evaluate.custom_call import Array, CustomCall, Handler
from hlotool.evaluate.custom_calls import custom_call_of, register_custom_call, unregister_custom_call
from hlotool.ir import Module, UnsupportedError
from hlotool.jax.pjrt.table import PjrtError
from hlotool.text.proto import read_proto

__all__ = [
    "Options", "forget", "hlo_proto", "host_callbacks", "message_fields", "module_of", "read_options", "with_callbacks",
]  # fmt: skip

_CALLBACK = "xla_ffi_python_cpu_callback"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Options:
    """What hlotool looks at in the options of a compilation: `devices` are numbers, by replica and partition."""

    replicas: int
    partitions: int
    devices: tuple[int, ...]


def read_options(data: bytes) -> Options:
    """The options of a serialized CompileOptionsProto."""
    from jaxlib import _jax

    options = _jax.CompileOptions.ParseFromString(data)
    assignment = options.device_assignment
    count = options.num_replicas * options.num_partitions
    devices = tuple(range(count)) if assignment is None else _assigned(assignment.serialize())
    return Options(options.num_replicas, options.num_partitions, devices)


def _assigned(data: bytes) -> tuple[int, ...]:
    """The devices of a serialized DeviceAssignmentProto, replica by replica."""
    columns = [_numbers_of(value) for field, value in message_fields(data) if field == 3 and isinstance(value, bytes)]
    return tuple(int(number) for row in zip(*columns, strict=True) for number in row)


def _numbers_of(data: bytes) -> list[int]:
    found: list[int] = []
    for field, value in message_fields(data):
        if field == 1 and isinstance(value, bytes):
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                found.append(number)
        elif field == 1 and isinstance(value, int):
            found.append(value)
    return found


def message_fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers, as far as they are integers and bytes: their numbers and values."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 in (1, 5):
            at += 8 if key & 7 == 1 else 4
            continue
        value, at = _varint(data, at)
        if key & 7 == 2:
            found.append((key >> 3, data[at : at + value]))
            at += value
        else:
            found.append((key >> 3, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def hlo_proto(code: bytes, form: str) -> bytes:
    """A serialized HloModuleProto of a program as JAX gives it."""
    if form != "mlir":
        raise PjrtError("unimplemented", f"hlotool takes programs of the format mlir, not {form!r}")
    from jaxlib import _jax

    computation = _jax.mlir.mlir_module_to_xla_computation(code, use_tuple_args=False, return_tuple=False)
    return bytes(computation.as_serialized_hlo_module_proto())


def module_of(proto: bytes) -> Module:
    """The module of a serialized HloModuleProto."""
    return read_proto(proto, "<jax>")


def host_callbacks(name: str) -> list[Callable[..., Any]]:
    """The Python functions that the program called `name`, which is being compiled, calls.

    JAX hands them to its client beside the program, and the client to executions, as objects of C++.  They are in the
    frame of the function of JAX that is compiling, in a thread that waits for this one.
    """
    found: list[Callable[..., Any]] = []
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            names = at.f_locals if at.f_globals.get("__name__") == "jax._src.compiler" else {}
            if names.get("host_callbacks") and "module" in names:
                found = list(names["host_callbacks"])
                if _called(names["module"]) == name:
                    return found
            at = at.f_back
    return found


def _called(module: Any) -> str:
    """The name of a module of MLIR, as HLO has it."""
    return str(module.operation.attributes["sym_name"]).strip('"')


def with_callbacks(module: Module, callbacks: Sequence[Callable[..., Any]]) -> list[str]:
    """Let custom calls of `module` call the functions of Python that they mean; gives what to forget in the end.

    Each call has a target of its own afterwards.  UnsupportedError where a function is not to be found.
    """
    targets: list[str] = []
    for instruction in module.instructions():
        if instruction.opcode != "custom-call" or instruction.attributes.get("custom_call_target") != _CALLBACK:
            continue
        config = custom_call_of(instruction, _no_computation).backend_config
        number = int(config["index"]) if isinstance(config, Mapping) and "index" in config else -1
        if not 0 <= number < len(callbacks):
            forget(targets)
            raise UnsupportedError(f"{instruction.name}: the function of this callback is not to be found")
        tokens = [leaf.is_token for operand in instruction.operands for leaf in operand.shape.leaves()]
        results = [leaf.is_token for leaf in instruction.shape.leaves()]
        target = f"{_CALLBACK}.{next(_numbers)}"
        register_custom_call(target, _handler(callbacks[number], tokens, results))
        instruction.attributes["custom_call_target"] = target
        targets.append(target)
    return targets


def forget(targets: Sequence[str]) -> None:
    """Undo what `with_callbacks` registered."""
    for target in targets:
        unregister_custom_call(target)


def _handler(function: Callable[..., Any], tokens: Sequence[bool], results: Sequence[bool]) -> Handler:
    def handler(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
        arrays = iter(inputs)
        given = function(*(None if token else next(arrays) for token in tokens))
        return [np.asarray(value) for value, token in zip(given, results, strict=True) if not token]

    return handler


def _no_computation(*arguments: object) -> Any:
    raise UnsupportedError("a callback has no computation")
