"""Programs: compiled by hlotool or, where it refuses, by jaxlib; run, looked at, stored."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

import numpy.typing as npt

from hlotool.driver.compile import compile_module
from hlotool.frontends.fallback import fall_back, reason_of
from hlotool.frontends.programs import Program
from hlotool.ir import Module, Shape, UnsupportedError, dtype_of
from hlotool.jax.pjrt.buffers import alive, from_array, token
from hlotool.jax.pjrt.client import CLIENTS, Client, Pinned, device_at, named_values
from hlotool.jax.pjrt.fallback import Stock, compile_stock
from hlotool.jax.pjrt.interface import Structure
from hlotool.jax.pjrt.lowering import (
    CALLBACKS,
    Options,
    calls_python,
    forget,
    hlo_proto,
    message_fields,
    module_of,
    read_options,
    with_callbacks,
)
from hlotool.jax.pjrt.native import Buffer, number_of_type, ready_event
from hlotool.jax.pjrt.table import Function, PjrtError, callback
from hlotool.jax.record import PROGRAMS
from hlotool.runtime.cache import pack, unpack
from hlotool.runtime.executable import Executable
from hlotool.runtime.marshalling import is_plain
from hlotool.version import __version__

__all__ = ["executable_functions"]

Array: TypeAlias = npt.NDArray[Any]


@dataclass(slots=True)
class Loaded:
    """A program that JAX holds, `references` times.

    `words` is what native code reads of it (``native/execute.ll``); `donated` are the parameters that are given up.
    """

    client: Client
    name: str
    code: bytes
    options: bytes
    settings: Options
    proto: bytes
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    donated: frozenset[int]
    record: Program
    executable: Executable | None = None
    stock: Stock | None = None
    targets: Sequence[str] = ()
    pinned: Pinned = field(default_factory=Pinned)
    words: Any = None
    references: int = 1
    deleted: bool = False
    answers: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def address(self) -> int:
        """Where its words lie."""
        return ctypes.addressof(self.words)

    def once(self, what: str, make: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """An answer in pinned memory, made when it is first asked for."""
        if what not in self.answers:
            self.answers[what] = make()
        return self.answers[what]


_loaded: dict[int, Loaded] = {}
_lock = threading.Lock()


# ---- compiling


def _compile(arguments: Structure) -> None:
    program = Structure("struct Program", arguments.program)
    code, form = program.text("code"), program.text("format").decode()
    options = arguments.text("compile_options")
    arguments.executable = _load(CLIENTS[arguments.client], code, form, options).address


def _load(client: Client, code: bytes, form: str, options: bytes) -> Loaded:
    """Compile, by hlotool if it can be, else by jaxlib."""
    start = perf_counter()
    settings = read_options(options)
    proto = hlo_proto(code, form)
    module = module_of(proto)
    callbacks = CALLBACKS.functions
    parameters, outputs = _signature(module)
    executable, targets, why = None, [], None
    try:
        _check(settings, (*parameters, *outputs))
        targets = with_callbacks(module, callbacks)  # changes the module
        plain = all(is_plain(shape) for shape in (*parameters, *outputs) if shape.is_array)
        # Subnormal numbers are zeros, as they are on JAX's own CPU platform.
        executable = compile_module(module, donate="declared" if plain else (), flush_denormals=True)
    except (UnsupportedError, RecursionError, MemoryError) as error:
        forget(targets)
        why = error
    stock = None
    reason = ""
    if why is not None:
        if calls_python(module) and not callbacks:  # jaxlib would not look whether they are there
            raise PjrtError("unimplemented", f"the functions that {module.name} calls are not to be found")
        reason = reason_of(why, module)
        fall_back(module.name, reason, "jaxlib runs it", why)
        stock = compile_stock(code, options, settings.devices, callbacks, len(client.devices))
        if len(settings.devices) > 1:  # what each device takes and gives is for the partitioner to say
            parameters, outputs = _signature(module_of(stock.text()))
    record = PROGRAMS.add(Program(module.name, module.entry.signature(), reason))
    loaded = Loaded(
        client, module.name, code, options, settings, proto, parameters, outputs, _donated(module), record, executable,
        stock, targets,
    )  # fmt: skip
    record.compile_seconds = perf_counter() - start
    _describe(loaded)
    with _lock:
        _loaded[loaded.address] = loaded
    return loaded


def _signature(module: Module) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    return _leaves([p.shape for p in module.entry.parameters]), _leaves([module.entry.root.shape])


def _leaves(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """What JAX passes: arrays, and tokens, for which there are buffers of no bytes."""
    return tuple(leaf for shape in shapes for leaf in shape.leaves())


def _check(settings: Options, shapes: Sequence[Shape]) -> None:
    if len(settings.devices) > 1:
        raise UnsupportedError(
            f"programs for several devices ({settings.replicas} x {settings.partitions}) are not compiled"
        )
    for shape in shapes:
        if shape.is_array and not shape.is_static:
            raise UnsupportedError(f"{shape} is no array of a fixed size")


def _donated(module: Module) -> frozenset[int]:
    """Parameters that a run gives up: those that the module aliases with results."""
    return frozenset(alias.operand for alias in module.attributes.get("input_output_alias", ()))


def _describe(loaded: Loaded) -> None:
    """Write down for native code how to run the program."""
    pinned, entry = loaded.pinned, loaded.executable.entry if loaded.executable else None
    if any(shape.is_token for shape in (*loaded.parameters, *loaded.outputs)):
        entry = None  # the code knows arrays only
    aliases = dict(entry.aliases) if entry else {}
    overwritten = set(entry.overwritten) if entry else set()
    rows: list[int] = []
    for number, shape in enumerate(loaded.parameters):
        held = number in aliases.values()
        mode = (1 if held else 3) if number in overwritten else 2 if number in loaded.donated else 0
        rows += [number_of_type(shape.element_type), _bytes(shape), mode]
    out_rows: list[int] = []
    for number, shape in enumerate(loaded.outputs):
        dimensions = pinned.words(shape.dimensions, ctypes.c_int64)
        out_rows += [number_of_type(shape.element_type), shape.rank, dimensions, _bytes(shape), aliases.get(number, -1)]
    device = loaded.client.devices[loaded.settings.devices[0]]
    words = [
        len(loaded.parameters), len(loaded.outputs),
        entry.address if entry else 0, entry.arena_bytes if entry else 0, entry.constants if entry else 0,
        _slow(), device.address, device.memory,
        pinned.words(rows, ctypes.c_int64), pinned.words(out_rows, ctypes.c_int64), int(entry is not None), 0, 0,
        loaded.settings.replicas, loaded.settings.partitions,
    ]  # fmt: skip
    loaded.words = (ctypes.c_uint64 * len(words))(*words)


def _bytes(shape: Shape) -> int:
    return math.prod(shape.dimensions) * dtype_of(shape.element_type).itemsize if shape.is_array else 0


# ---- running


def _execute(arguments: Structure) -> None:
    """Run what native code does not: on several devices, with jaxlib, with arguments that may not be overwritten."""
    loaded = _of(arguments.executable)
    if loaded.deleted:
        raise PjrtError("invalid argument", f"{loaded.name} was deleted")
    count = len(loaded.settings.devices)
    if arguments.num_devices != count or arguments.num_args != len(loaded.parameters):
        raise PjrtError(
            "invalid argument",
            f"{loaded.name} takes {len(loaded.parameters)} arguments on {count} devices, and got "
            f"{arguments.num_args} on {arguments.num_devices}",
        )
    lists = arguments.words("argument_lists", count, ctypes.c_uint64)
    buffers = [[alive(at) for at in _pointers(one, arguments.num_args)] for one in lists]
    for row in buffers:
        _check_arguments(loaded, row)
    kept = _kept_arguments(arguments)
    memories = [loaded.client.devices[number].memory for number in loaded.settings.devices]
    if arguments.execute_device:
        memories = [device_at(arguments.execute_device).memory]
    for row in buffers:
        for buffer in row:
            buffer.hold()
    try:
        start = perf_counter()
        results = _results(loaded, buffers)
        loaded.record.run_seconds += perf_counter() - start
        loaded.record.runs += 1
        out_lists = arguments.words("output_lists", count, ctypes.c_uint64)
        for out, found, memory in zip(out_lists, results, memories, strict=True):
            arrays = iter(found)
            made = [
                (from_array(next(arrays), shape.element_type, memory) if shape.is_array else token(memory)).address
                for shape in loaded.outputs
            ]
            _write(out, made)
    finally:
        for row in buffers:
            for buffer in row:
                buffer.release()
    for row in buffers:
        for number in loaded.donated - kept:
            row[number].delete()
    if arguments.device_complete_events:
        _write(arguments.device_complete_events, [ready_event()] * count)


def _results(loaded: Loaded, buffers: Sequence[Sequence[Buffer]]) -> Sequence[Sequence[Array]]:
    arrays = [
        [buffer.array() for buffer, shape in zip(row, loaded.parameters, strict=True) if shape.is_array]
        for row in buffers
    ]
    if loaded.stock is not None:
        return loaded.stock.run(arrays)
    executable = loaded.executable
    assert executable is not None
    overwritten = executable.entry.overwritten if executable.entry else tuple(executable.donated.values())
    given = [array.copy() if number in overwritten else array for number, array in enumerate(arrays[0])]
    return [executable.run(*given)]


def _kept_arguments(arguments: Structure) -> set[int]:
    """Arguments that must not be donated in this run."""
    if not arguments.options:
        return set()
    options = Structure("struct ExecuteOptions", arguments.options)
    return {*options.words("non_donatable_input_indices", options.num_non_donatable_input_indices)}


def _check_arguments(loaded: Loaded, buffers: Sequence[Buffer]) -> None:
    for number, (buffer, shape) in enumerate(zip(buffers, loaded.parameters, strict=True)):
        # JAX begins a chain of tokens with an array of no bytes.
        if buffer.word(4) != _bytes(shape) or (shape.is_array and buffer.kind != shape.element_type):
            raise PjrtError(
                "invalid argument",
                f"argument {number} of {loaded.name}: expected {shape}, got {buffer.kind}{list(buffer.dimensions)}",
            )
    seen: dict[int, int] = {}
    for number, buffer in enumerate(buffers):
        other = seen.setdefault(buffer.address, number)
        if other != number and loaded.donated & {number, other}:
            raise PjrtError(
                "invalid argument",
                f"arguments {other} and {number} of {loaded.name} are one buffer, and one of them is donated: "
                "f(donate(a), a)",
            )


def _write(address: int, words: Sequence[int]) -> None:
    ctypes.memmove(address, (ctypes.c_uint64 * len(words))(*words), 8 * len(words))


def _pointers(address: int, count: int) -> list[int]:
    return [*(ctypes.c_uint64 * count).from_address(address)] if count else []


# ---- questions


def _of(address: int) -> Loaded:
    return _loaded[address]


def _update(loaded: Loaded) -> None:
    """Bring what native code counted to the record."""
    if loaded.words[10]:
        loaded.record.runs, loaded.record.run_seconds = loaded.words[11], loaded.words[12] / 1e9


def _destroy(arguments: Structure) -> None:
    with _lock:
        loaded = _loaded[arguments.executable]
        loaded.references -= 1
        if loaded.references:
            return
        del _loaded[arguments.executable]
    _update(loaded)
    forget(loaded.targets)


def _get_executable(arguments: Structure) -> None:
    with _lock:
        _loaded[arguments.loaded_executable].references += 1
    arguments.executable = arguments.loaded_executable


def _delete(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    loaded.deleted = True
    loaded.words[10] = 0


def _is_deleted(arguments: Structure) -> None:
    arguments.is_deleted = _of(arguments.executable).deleted


def _name(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    found = loaded.once("name", lambda: loaded.pinned.text(loaded.name))
    arguments.executable_name, arguments.executable_name_size = found


def _code_size(arguments: Structure) -> None:
    executable = _of(arguments.executable).executable
    arguments.size_in_bytes = sum(map(len, executable.objects)) if executable else 0


def _addressable(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    devices = [loaded.client.devices[number].address for number in loaded.settings.devices]
    arguments.addressable_devices = loaded.once("devices", lambda: (loaded.pinned.words(devices),))[0]
    arguments.num_addressable_devices = len(devices)


def _output_types(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    numbers = [number_of_type(shape.element_type) for shape in loaded.outputs]
    arguments.output_types = loaded.once("types", lambda: (loaded.pinned.words(numbers, ctypes.c_int32),))[0]
    arguments.num_output_types = len(numbers)


def _output_dimensions(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    flat = [size for shape in loaded.outputs for size in shape.dimensions]
    ranks = [shape.rank for shape in loaded.outputs]
    found = loaded.once("dims", lambda: (loaded.pinned.words(flat, ctypes.c_int64), loaded.pinned.words(ranks)))
    arguments.num_outputs, (arguments.dims, arguments.dim_sizes) = len(ranks), found


def _output_memories(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    count = len(loaded.outputs)

    def make() -> tuple[int, ...]:
        text, size = loaded.pinned.text("device")
        return loaded.pinned.words([text] * count), loaded.pinned.words([size] * count)

    arguments.num_outputs = count
    arguments.memory_kinds, arguments.memory_kind_sizes = loaded.once("memories", make)


def _fingerprint(arguments: Structure) -> None:
    loaded = _of(arguments.executable)

    def make() -> tuple[int, ...]:
        digest = hashlib.sha256(loaded.code + loaded.options + __version__.encode()).hexdigest()
        return loaded.pinned.text(digest)

    arguments.executable_fingerprint, arguments.executable_fingerprint_size = loaded.once("fingerprint", make)


def _optimized(arguments: Structure) -> None:
    """The program; the caller asks twice, first for the size."""
    loaded = _of(arguments.executable)
    program = Structure("struct Program", arguments.program)
    text, size = loaded.once("optimized", lambda: loaded.pinned.text(_with_config(_optimized_proto(loaded))))
    program.format, program.format_size = loaded.once("format", lambda: loaded.pinned.text("hlo_with_config"))
    if program.code:
        ctypes.memmove(program.code, text, size)
    program.code_size = size


def _optimized_proto(loaded: Loaded) -> bytes:
    if loaded.stock is not None:
        return loaded.stock.text()
    return loaded.proto


def _with_config(proto: bytes) -> bytes:
    """An HloModuleProtoWithConfig, whose configuration says what the entry takes and gives, as the module does."""
    shape = next(value for number, value in message_fields(proto) if number == 4 and isinstance(value, bytes))
    config = _message(1, shape)
    return _message(1, proto) + _message(2, config)


def _message(number: int, data: bytes) -> bytes:
    """A field of a message that is bytes."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _cost(arguments: Structure) -> None:
    loaded = _of(arguments.executable)

    def make() -> tuple[int, ...]:
        from hlotool.analysis.cost import ModuleCost

        cost = ModuleCost(module_of(loaded.proto)).total
        values = {"flops": cost.flops, "transcendentals": cost.transcendentals, "bytes accessed": cost.bytes}
        return named_values(loaded.pinned, {name: float(value) for name, value in values.items()})

    arguments.properties, arguments.num_properties = loaded.once("cost", make)


def _memory(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    taken = sum(map(_bytes, loaded.parameters))
    given = sum(map(_bytes, loaded.outputs))
    aliases = loaded.executable.donated if loaded.executable else {}
    shared = sum(_bytes(loaded.outputs[number]) for number in aliases)
    temporary = loaded.executable.memory.arena_bytes if loaded.executable else 0
    code = sum(map(len, loaded.executable.objects)) if loaded.executable else 0
    arguments.generated_code_size_in_bytes = code
    arguments.argument_size_in_bytes, arguments.output_size_in_bytes = taken, given
    arguments.alias_size_in_bytes, arguments.temp_size_in_bytes = shared, temporary
    for name in ("generated_code", "argument", "output", "alias", "temp"):
        setattr(arguments, f"host_{name}_size_in_bytes", 0)
    arguments.peak_memory_in_bytes = taken + given - shared + temporary
    arguments.total_size_in_bytes = taken + given - shared + temporary


# ---- storing


_serial = itertools.count(1)
_stored: dict[int, Pinned] = {}


def _serialize(arguments: Structure) -> None:
    loaded = _of(arguments.executable)
    if loaded.targets:
        raise PjrtError("unimplemented", "a program that calls functions of Python cannot be stored")
    data = pack([b"hlotool", loaded.code, loaded.options])
    _give(arguments, "serialized_executable", data)


def _give(arguments: Structure, owner: str, data: bytes) -> None:
    """Bytes for the caller, who hands them back when they were read."""
    number, pinned = next(_serial), Pinned()
    _stored[number] = pinned
    arguments.serialized_bytes, arguments.serialized_bytes_size = pinned.text(data)
    setattr(arguments, owner, number)
    setattr(arguments, f"{owner}_deleter", _deleter())


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_drop = _DELETER(lambda number: _stored.pop(number, None))


def _deleter() -> int:
    return int(ctypes.cast(_drop, ctypes.c_void_p).value or 0)


def _deserialize(arguments: Structure) -> None:
    data = arguments.text("serialized_executable")
    try:
        mark, code, options = unpack(data)
    except ValueError as error:
        raise PjrtError("invalid argument", "this is no program that hlotool stored") from error
    if mark != b"hlotool":
        raise PjrtError("invalid argument", "this is no program that hlotool stored")
    if arguments.overridden_serialized_compile_options:
        options = arguments.text("overridden_serialized_compile_options")
    client = CLIENTS[arguments.client]
    arguments.loaded_executable = _load(client, code, "mlir", options).address


def _compile_options(arguments: Structure) -> None:
    _give(arguments, "serialized_compile_options", _of(arguments.executable).options)


def _assignment(arguments: Structure) -> None:
    """A DeviceAssignmentProto: replicas, partitions, and the devices of each partition."""
    settings = _of(arguments.executable).settings
    columns = b""
    for partition in range(settings.partitions):
        numbers = b"".join(map(_varint, settings.devices[partition :: settings.partitions]))
        column = b"\x0a" + _varint(len(numbers)) + numbers
        columns += b"\x1a" + _varint(len(column)) + column
    data = b"\x08" + _varint(settings.replicas) + b"\x10" + _varint(settings.partitions) + columns
    _give(arguments, "serialized_device_assignment", data)


_slow_address: list[int] = []


def _slow() -> int:
    if not _slow_address:
        _slow_address.append(callback("LoadedExecutable_Execute", _execute))
    return _slow_address[0]


def executable_functions() -> dict[str, Function]:
    """The functions of the table about programs that are not native code."""
    return {
        "Client_Compile": _compile,
        "Executable_Destroy": _destroy,
        "LoadedExecutable_Destroy": _destroy,
        "LoadedExecutable_GetExecutable": _get_executable,
        "LoadedExecutable_Delete": _delete,
        "LoadedExecutable_IsDeleted": _is_deleted,
        "LoadedExecutable_AddressableDevices": _addressable,
        "LoadedExecutable_Fingerprint": _fingerprint,
        "LoadedExecutable_GetDeviceAssignment": _assignment,
        "Executable_Name": _name,
        "Executable_SizeOfGeneratedCodeInBytes": _code_size,
        "Executable_OutputElementTypes": _output_types,
        "Executable_OutputDimensions": _output_dimensions,
        "Executable_OutputMemoryKinds": _output_memories,
        "Executable_Fingerprint": _fingerprint,
        "Executable_OptimizedProgram": _optimized,
        "Executable_GetCostAnalysis": _cost,
        "Executable_GetCompiledMemoryStats": _memory,
        "Executable_Serialize": _serialize,
        "Executable_DeserializeAndLoad": _deserialize,
        "Executable_GetCompileOptions": _compile_options,
    }
