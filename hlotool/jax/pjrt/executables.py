"""Programs: compiled by hlotool or, where it refuses, by jaxlib; run, looked at, stored."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.frontends.programs import Program
from hlotool.ir import Shape, dtype_of
from hlotool.ir.collector import collector_paused, settle
from hlotool.jax.pjrt.buffers import GONE, from_array, token
from hlotool.jax.pjrt.client import CLIENTS, Client, Pinned, device_at, named_values
from hlotool.jax.pjrt.fallback import check_options, cost_of
from hlotool.jax.pjrt.interface import Structure
from hlotool.jax.pjrt.lowering import (
    FORM,
    Options,
    Order,
    hlo_proto,
    message_fields,
    orders_in_memory,
    read_options,
    result_memories,
)  # fmt: skip
from hlotool.jax.pjrt.native import Buffer, ended_executables, number_of_type, python_pointer, ready_event
from hlotool.jax.pjrt.programs import Made, key_of, recall
from hlotool.jax.pjrt.table import Function, InterruptedRunError, PjrtError, error_of
from hlotool.jax.record import PROGRAMS
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import pack, unpack
from hlotool.version import __version__

__all__ = ["Loaded", "count_runs", "executable_functions", "loaded_at"]

Array: TypeAlias = npt.NDArray[Any]

_NO_BYTES = np.zeros(0, np.bool_)


@dataclass(slots=True)
class Loaded:
    """A program that JAX holds; native code counts the references to it.

    `words` is what native code reads of it (``native/execute.ll``); `memories` are the kinds of memory of the results,
    empty where all of them are the usual one, and `orders` are those of arguments and results in memory, None and
    empty being row by row.
    """

    client: Client
    made: Made
    code: bytes
    options: bytes
    settings: Options
    record: Program
    memories: tuple[str, ...] = ()
    orders: tuple[tuple[Order | None, ...], tuple[Order | None, ...]] = ((), ())
    pinned: Pinned = field(default_factory=Pinned)
    words: Any = None
    deleted: bool = False
    answers: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def proto(self) -> bytes:
        """The program as a serialized HloModuleProto."""
        return hlo_proto(self.code, FORM)

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
    with collector_paused():
        arguments.executable = _load(CLIENTS[arguments.client], code, form, options).address


def _load(client: Client, code: bytes, form: str, options: bytes) -> Loaded:
    """The program from the cache, else compiled, by hlotool if it can be, else by jaxlib."""
    _end()
    start = perf_counter()
    settings = read_options(options)
    if settings.overrides:
        check_options(options, settings, len(client.devices))
    key = key_of(code, settings) if form == FORM else None
    made = None if key is None else recall(key)
    if made is None:
        is_first = "hlotool.codegen.cpu.target" not in sys.modules  # what compiles is loaded with the first program
        from hlotool.jax.pjrt.compiling import made_of

        made = made_of(code, form, options, settings, len(client.devices), key)
        if is_first:
            settle()
    record = PROGRAMS.add(Program(made.name, made.signature, made.reason, made.note))
    orders = orders_in_memory(code, made.parameters, made.outputs)
    loaded = Loaded(client, made, code, options, settings, record, result_memories(code), orders)
    record.compile_seconds = perf_counter() - start
    _describe(loaded)
    with _lock:
        _loaded[loaded.address] = loaded
    return loaded


def _describe(loaded: Loaded) -> None:
    """Write down for native code how to run the program."""
    pinned, entry = loaded.pinned, loaded.made.code.entry if loaded.made.code else None
    if any(shape.is_token for shape in (*loaded.made.parameters, *loaded.made.outputs)):
        entry = None  # the code knows arrays only
    if loaded.memories or any(order is not None for orders in loaded.orders for order in orders):
        entry = None  # and one memory, and rows
    aliases = dict(entry.aliases) if entry else {}
    overwritten = set(entry.overwritten) if entry else set()
    rows: list[int] = []
    for number, shape in enumerate(loaded.made.parameters):
        held = number in aliases.values()
        alone = number in overwritten or number in loaded.made.donated  # nobody else may have it: see native code
        mode = (1 if held else 3) if alone else 0
        rows += [number_of_type(shape.element_type), _bytes(shape), mode]
    out_rows: list[int] = []
    for number, shape in enumerate(loaded.made.outputs):
        dimensions = pinned.words(shape.dimensions, ctypes.c_int64)
        out_rows += [number_of_type(shape.element_type), shape.rank, dimensions, _bytes(shape), aliases.get(number, -1)]
    devices = [loaded.client.devices[number] for number in loaded.settings.devices]
    coroutines = loaded.made.code.coroutines if entry and loaded.made.code else None
    words = [
        len(loaded.made.parameters), len(loaded.made.outputs),
        entry.address if entry else 0, entry.arena_bytes if entry else 0, entry.constants if entry else 0,
        id(_execute), devices[0].address, pinned.words([device.memory for device in devices]),
        pinned.words(rows, ctypes.c_int64), pinned.words(out_rows, ctypes.c_int64), int(entry is not None), 0, 0,
        loaded.settings.replicas, loaded.settings.partitions, 1, 0, len(devices),
        coroutines.address if coroutines else 0,
    ]  # fmt: skip
    loaded.words = (ctypes.c_uint64 * len(words))(*words)


def _bytes(shape: Shape) -> int:
    return math.prod(shape.dimensions) * dtype_of(shape.element_type).itemsize if shape.is_array else 0


# ---- running


@dataclass(slots=True)
class _Run:
    """A run that native code does not do: on several devices, with jaxlib, with arguments that may not be overwritten.

    Ctrl-C can come between any two steps.  `proceed` goes on where it was; in the program itself it ends the run, whose
    results are undefined then.
    """

    arguments: Structure
    loaded: Loaded
    buffers: list[list[Buffer]]
    given_up: list[Buffer]
    results: Sequence[Sequence[Array]] | None = None
    made: list[list[Buffer]] = field(default_factory=list)
    finished: bool = False

    def proceed(self) -> None:
        """Do what remains."""
        if self.results is None:
            self._run()
        self._hand_over()
        for buffer in self.given_up:
            buffer.delete()
        if self.arguments.device_complete_events:
            _write(self.arguments.device_complete_events, [ready_event()] * len(self.buffers))
        self.finished = True

    def _run(self) -> None:
        loaded = self.loaded
        self.results = [_undefined(loaded)] * len(self.buffers)
        for row in self.buffers:
            for buffer in row:
                buffer.hold()
        try:
            start = perf_counter()
            self.results = _results(loaded, self.buffers)
            loaded.words[11] += 1
            loaded.words[12] += int((perf_counter() - start) * 1e9)
        finally:
            for row in self.buffers:
                for buffer in row:
                    buffer.release()

    def _hand_over(self) -> None:
        loaded, arguments = self.loaded, self.arguments
        devices = [loaded.client.devices[number] for number in loaded.settings.devices]
        if arguments.execute_device:
            devices = [device_at(arguments.execute_device)]
        kinds = loaded.memories or ("device",) * len(loaded.made.outputs)
        orders = loaded.orders[1] or (None,) * len(loaded.made.outputs)
        assert self.results is not None
        for found, device in [*zip(self.results, devices, strict=True)][len(self.made) :]:
            arrays, memories = iter(found), map(device.memory_of, kinds)
            made = [
                from_array(next(arrays), shape.element_type, memory, order) if shape.is_array else token(memory)
                for shape, memory, order in zip(loaded.made.outputs, memories, orders, strict=True)
            ]
            self.made.append(made)
        out_lists = arguments.words("output_lists", len(devices), ctypes.c_uint64)
        for out, made in zip(out_lists, self.made, strict=True):
            _write(out, [buffer.address for buffer in made])


def _begun(arguments: Structure) -> _Run:
    """A run that has done nothing yet."""
    loaded = loaded_at(arguments.executable)
    if loaded.deleted:
        raise PjrtError("invalid argument", f"{loaded.made.name} was deleted")
    count = len(loaded.settings.devices)
    if arguments.num_devices != count:
        raise PjrtError("invalid argument", f"{loaded.made.name} is for {count} devices, not {arguments.num_devices}")
    if arguments.num_args != len(loaded.made.parameters):
        raise PjrtError(
            "invalid argument",
            f"Execution supplied {arguments.num_args} arguments but compiled program expected "
            f"{len(loaded.made.parameters)}",
        )
    lists = arguments.words("argument_lists", count, ctypes.c_uint64)
    buffers = [[Buffer(at) for at in _pointers(one, arguments.num_args)] for one in lists]
    for number, row in enumerate(buffers):
        _check_arguments(loaded, row, *divmod(number, loaded.settings.partitions))
    kept = _kept_arguments(arguments)
    # Who looks at the memory of an argument keeps it: that argument is not given up.
    given_up = [
        row[number] for row in buffers for number in loaded.made.donated - kept if not row[number].is_shared
    ]
    return _Run(arguments, loaded, buffers, given_up)


def _execute(address: int) -> int:
    """Run a program with the arguments there; the address of an error."""
    run: _Run | None = None
    interrupted = False
    while run is None or not run.finished:
        try:
            if run is None:
                run = _begun(Structure("LoadedExecutable_Execute", address))
            run.proceed()
        except KeyboardInterrupt:
            interrupted = True
        except BaseException as caught:
            return error_of(caught)
    return error_of(InterruptedRunError()) if interrupted else 0


def _undefined(loaded: Loaded) -> list[Array]:
    """Results that nobody looks at."""
    shapes = [shape for shape in loaded.made.outputs if shape.is_array]
    return [np.empty(shape.dimensions, dtype_of(shape.element_type)) for shape in shapes]


def _results(loaded: Loaded, buffers: Sequence[Sequence[Buffer]]) -> Sequence[Sequence[Array]]:
    """The arrays of the results, for every device."""
    made = loaded.made
    if made.runner is not None:
        # A token is an array of no bytes where a chain of them begins, and jaxlib looks no closer.
        arrays = [shape.is_array for shape in made.parameters]
        given = [
            [buffer.array() if is_array else _NO_BYTES for buffer, is_array in zip(row, arrays, strict=True)]
            for row in buffers
        ]
        return made.runner.run(given, [shape.is_array for shape in made.outputs])
    code = made.code
    assert code is not None
    overwritten = code.entry.overwritten if code.entry else tuple(code.donated.values())
    values = [
        np.ascontiguousarray(buffer.array()).reshape(shape.dimensions)
        for buffer, shape in zip(buffers[0], made.parameters, strict=True)
        if shape.is_array
    ]
    return [code.run(*[array.copy() if number in overwritten else array for number, array in enumerate(values)])]


def _kept_arguments(arguments: Structure) -> set[int]:
    """Arguments that must not be donated in this run."""
    if not arguments.options:
        return set()
    options = Structure("struct ExecuteOptions", arguments.options)
    return {*options.words("non_donatable_input_indices", options.num_non_donatable_input_indices)}


def _check_arguments(loaded: Loaded, buffers: Sequence[Buffer], replica: int, partition: int) -> None:
    """The arguments of one device; the errors have the words of XLA's, for which programs look."""
    for number, (buffer, shape) in enumerate(zip(buffers, loaded.made.parameters, strict=True)):
        if buffer.deleted:
            raise PjrtError(
                "invalid argument",
                f"Invalid buffer passed to Execute() as argument {number} to replica {replica}: INVALID_ARGUMENT: "
                f"{GONE}",
            )
        # JAX begins a chain of tokens with an array of no bytes.
        if buffer.word(4) != _bytes(shape):
            raise PjrtError(
                "invalid argument",
                f"Executable({loaded.made.name}) expected parameter {number} of size {_bytes(shape)} ({shape}) but got "
                f"buffer with incompatible size {buffer.word(4)} ({buffer.kind}{list(buffer.dimensions)})",
            )
        if shape.is_array and buffer.kind != shape.element_type:
            raise PjrtError(
                "invalid argument",
                f"Executable({loaded.made.name}) expected parameter {number} of type {shape}, but got "
                f"{buffer.kind}{list(buffer.dimensions)}",
            )
    donated = loaded.made.donated
    seen: dict[int, int] = {}
    for number, buffer in enumerate(buffers):
        other = seen.setdefault(buffer.address, number)
        if other == number or not donated & {number, other}:
            continue
        if donated >= {number, other}:
            what = "donate the same buffer twice in Execute()"
        elif other in donated:
            what = "use a buffer that was previously donated in the same call to Execute()"
        else:
            what = "donate a buffer which is also used by the same call to Execute()"
        uses = ", ".join("donate(a)" if one in donated else "a" for one in (other, number))
        raise PjrtError(
            "invalid argument",
            f"Attempt to {what} (flattened argument {number}, replica {replica}, partition {partition}, first use: "
            f"{other}). Toy example for this bug: `f({uses})`.",
        )


def _write(address: int, words: Sequence[int]) -> None:
    ctypes.memmove(address, (ctypes.c_uint64 * len(words))(*words), 8 * len(words))


def _pointers(address: int, count: int) -> list[int]:
    return [*(ctypes.c_uint64 * count).from_address(address)] if count else []


# ---- questions


def loaded_at(address: int) -> Loaded:
    """The program that lies there."""
    return _loaded[address]


def count_runs() -> None:
    """Bring what was counted to the records of programs."""
    with _lock:
        programs = list(_loaded.values())
    for loaded in programs:
        _update(loaded)


def _update(loaded: Loaded) -> None:
    loaded.record.runs, loaded.record.run_seconds = loaded.words[11], loaded.words[12] / 1e9


def _end() -> None:
    """End the programs that JAX has given up."""
    address = ended_executables()
    while address:
        with _lock:
            loaded = _loaded.pop(address)
        address = loaded.words[16]
        _update(loaded)
        if loaded.made.targets:
            from hlotool.jax.pjrt.callbacks import forget

            forget(loaded.made.targets)


def _delete(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    loaded.deleted = True
    loaded.words[10] = 0


def _is_deleted(arguments: Structure) -> None:
    arguments.is_deleted = loaded_at(arguments.executable).deleted


def _name(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    found = loaded.once("name", lambda: loaded.pinned.text(loaded.made.name))
    arguments.executable_name, arguments.executable_name_size = found


def _code_size(arguments: Structure) -> None:
    code = loaded_at(arguments.executable).made.code
    arguments.size_in_bytes = code.code_bytes if code else 0


def _addressable(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    devices = [loaded.client.devices[number].address for number in loaded.settings.devices]
    arguments.addressable_devices = loaded.once("devices", lambda: (loaded.pinned.words(devices),))[0]
    arguments.num_addressable_devices = len(devices)


def _output_types(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    numbers = [number_of_type(shape.element_type) for shape in loaded.made.outputs]
    arguments.output_types = loaded.once("types", lambda: (loaded.pinned.words(numbers, ctypes.c_int32),))[0]
    arguments.num_output_types = len(numbers)


def _output_dimensions(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    flat = [size for shape in loaded.made.outputs for size in shape.dimensions]
    ranks = [shape.rank for shape in loaded.made.outputs]
    found = loaded.once("dims", lambda: (loaded.pinned.words(flat, ctypes.c_int64), loaded.pinned.words(ranks)))
    arguments.num_outputs, (arguments.dims, arguments.dim_sizes) = len(ranks), found


def _output_memories(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    count = len(loaded.made.outputs)

    def make() -> tuple[int, ...]:
        kinds = [loaded.pinned.text(kind) for kind in loaded.memories or ("device",) * count]
        return loaded.pinned.words([text for text, _ in kinds]), loaded.pinned.words([size for _, size in kinds])

    arguments.num_outputs = count
    arguments.memory_kinds, arguments.memory_kind_sizes = loaded.once("memories", make)


def _fingerprint(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)

    def make() -> tuple[int, ...]:
        digest = hashlib.sha256(loaded.code + loaded.options + __version__.encode()).hexdigest()
        return loaded.pinned.text(digest)

    arguments.executable_fingerprint, arguments.executable_fingerprint_size = loaded.once("fingerprint", make)


def _optimized(arguments: Structure) -> None:
    """The program; the caller asks twice, first for the size."""
    loaded = loaded_at(arguments.executable)
    program = Structure("struct Program", arguments.program)
    settings = loaded.settings
    text, size = loaded.once(
        "optimized", lambda: loaded.pinned.text(_with_config(_optimized_proto(loaded), settings))
    )
    program.format, program.format_size = loaded.once("format", lambda: loaded.pinned.text("hlo_with_config"))
    if program.code:
        ctypes.memmove(program.code, text, size)
    program.code_size = size


def _optimized_proto(loaded: Loaded) -> bytes:
    if loaded.made.runner is not None:
        return loaded.made.runner.text()
    from hlotool.jax.pjrt.compiling import optimised_proto

    return optimised_proto(loaded.proto)


def _with_config(proto: bytes, settings: Options) -> bytes:
    """An HloModuleProtoWithConfig, whose configuration says what the entry takes and gives, as the module does, and how
    many devices run it."""
    shape = next(value for number, value in message_fields(proto) if number == 4 and isinstance(value, bytes))
    config = _message(1, shape) + b"\x20" + _varint(settings.replicas) + b"\x28" + _varint(settings.partitions)
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
    loaded = loaded_at(arguments.executable)

    def make() -> tuple[int, ...]:
        return named_values(loaded.pinned, cost_of(_optimized_proto(loaded)))

    arguments.properties, arguments.num_properties = loaded.once("cost", make)


def _memory(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    taken = sum(map(_bytes, loaded.made.parameters))
    given = sum(map(_bytes, loaded.made.outputs))
    if len(loaded.made.outputs) > 1:
        given += 8 * len(loaded.made.outputs)  # XLA has a table of their addresses
    compiled = loaded.made.code
    aliases = compiled.donated if compiled else {}
    shared = sum(_bytes(loaded.made.outputs[number]) for number in aliases)
    temporary = compiled.arena_bytes if compiled else 0
    arguments.generated_code_size_in_bytes = compiled.code_bytes if compiled else 0
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
    loaded = loaded_at(arguments.executable)
    if loaded.made.targets:
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


def _drop(number: int) -> int:
    """Forget bytes that were read; there is no error."""
    _stored.pop(number, None)
    return 0


@cache
def _deleter() -> int:
    """What the caller calls with what it owns: after every program that is loaded, so that Ctrl-C can come in it."""
    return python_pointer(_drop)


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
    arguments.loaded_executable = _load(client, code, FORM, options).address


def _compile_options(arguments: Structure) -> None:
    _give(arguments, "serialized_compile_options", loaded_at(arguments.executable).options)


def _assignment(arguments: Structure) -> None:
    """A DeviceAssignmentProto: replicas, partitions, and the devices of each partition."""
    settings = loaded_at(arguments.executable).settings
    columns = b""
    for partition in range(settings.partitions):
        numbers = b"".join(map(_varint, settings.devices[partition :: settings.partitions]))
        column = b"\x0a" + _varint(len(numbers)) + numbers
        columns += b"\x1a" + _varint(len(column)) + column
    data = b"\x08" + _varint(settings.replicas) + b"\x10" + _varint(settings.partitions) + columns
    _give(arguments, "serialized_device_assignment", data)


def executable_functions() -> dict[str, Function]:
    """The functions of the table about programs that are not native code."""
    return {
        "Client_Compile": _compile,
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
