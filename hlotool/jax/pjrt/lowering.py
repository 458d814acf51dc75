"""From what JAX hands over to what hlotool compiles: StableHLO to HLO, by jaxlib; which callbacks come with it."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

from hlotool.ir import Shape
from hlotool.jax.pjrt.mhlo import register_dialect
from hlotool.jax.pjrt.table import PjrtError
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "CALLBACKS", "FORM", "Options", "Order", "hlo_proto", "message_fields", "mlir_module", "mlir_module_by_rows",
    "orders_in_memory", "read_options", "result_memories", "without_locations",
]  # fmt: skip

FORM = "mlir"
"""The format of the programs that JAX hands over: portable artifacts of StableHLO."""

Order: TypeAlias = tuple[int, ...]
"""The dimensions of an array from minor to major, as XLA's layouts list them."""

_MEMORY = "mhlo.memory_kind"
_LAYOUT = "mhlo.layout_mode"
_OVERRIDES = 7  # the field of CompileOptionsProto for options by their names
_HOST_CALLBACKS = 4  # among the arguments of JAX's function that compiles


@dataclass(frozen=True, slots=True)
class Options:
    """What hlotool looks at in the options of a compilation: `devices` are numbers, by replica and partition.

    `overrides` says whether the program sets options of XLA's; `free_parameters` and `free_outputs`, which of these
    arrays the compiler may divide among partitions as it likes.
    """

    replicas: int
    partitions: int
    devices: tuple[int, ...]
    overrides: bool = False
    free_parameters: tuple[bool, ...] = ()
    free_outputs: tuple[bool, ...] = ()


def read_options(data: bytes) -> Options:
    """The options of a serialized CompileOptionsProto."""
    from jaxlib import _jax

    options = _jax.CompileOptions.ParseFromString(data)
    assignment = options.device_assignment
    count = options.num_replicas * options.num_partitions
    devices = tuple(range(count)) if assignment is None else _assigned(assignment.serialize())
    overrides = any(field == _OVERRIDES for field, _ in message_fields(data))
    if count == 1:
        return Options(options.num_replicas, options.num_partitions, devices, overrides)
    build = options.executable_build_options
    free = [
        tuple(map(bool, getattr(build, f"allow_spmd_sharding_propagation_to_{what}")))
        for what in ("parameters", "output")
    ]
    return Options(options.num_replicas, options.num_partitions, devices, overrides, *free)


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
    if form != FORM:
        raise PjrtError("unimplemented", f"hlotool takes programs of the format {FORM}, not {form!r}")
    from jaxlib import _jax

    computation = _jax.mlir.mlir_module_to_xla_computation(code, use_tuple_args=False, return_tuple=False)
    return bytes(computation.as_serialized_hlo_module_proto())


class _Reader:
    """An MLIR context with the dialects of programs: to make one takes longer than to read a small program.

    It keeps all types and attributes that it ever saw, constants among them, so there is a new one after so many bytes
    of programs (`_SEEN`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: Any = None
        self._seen = 0

    def without_locations(self, code: bytes) -> tuple[str, bytes]:
        """As below; ValueError or RuntimeError where there is none."""
        from jaxlib.mlir import ir, passmanager

        with self._lock:
            if self._context is None or self._seen > _SEEN:
                self._context, self._seen = _context(), 0
            self._seen += len(code)
            with self._context:
                module = mlir_module(code)
                passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
                out = io.BytesIO()
                module.operation.write_bytecode(out)
                return ir.StringAttr(module.operation.attributes["sym_name"]).value, out.getvalue()


_SEEN = 1 << 20
_READER = _Reader()


def _context() -> Any:
    from jax._src.interpreters.mlir import upstream_dialects
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context = ir.Context()
    context.enable_multithreading(False)  # its threads would be those of one program, and gone after a fork
    context.append_dialect_registry(upstream_dialects)  # `func` is one
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    register_dialect(context)
    sdy.register_dialect(context)
    return context


def without_locations(code: bytes) -> tuple[str, bytes] | None:
    """The name of a program as JAX gives it, and the program without the lines of source that it was written in.

    None where it is in a dialect that is not expected here.
    """
    from jaxlib.mlir import ir

    try:
        return _READER.without_locations(code)
    except (ValueError, RuntimeError, ir.MLIRError):
        return None


def result_memories(code: bytes) -> tuple[str, ...]:
    """The kinds of memory that results of a program shall lie in; nothing where it asks for none in particular.

    HLO made of a program does not say so: these are attributes of the results of its function.
    """
    if b"pinned_host" not in code:  # to read a program once more takes time
        return ()
    return tuple(memory or "device" for memory in _attributes(code, "res_attrs", _MEMORY))


def orders_in_memory(
    code: bytes, parameters: Sequence[Shape], outputs: Sequence[Shape]
) -> tuple[tuple[Order | None, ...], tuple[Order | None, ...]]:
    """In which order the dimensions of arguments and of results shall lie in memory; None is row by row.

    Nothing where a program asks for none; PjrtError for what is no order of dimensions.  Where it leaves that
    to the compiler, results lie as what gives them says (`with_layout_constraint`), and row by row.
    """
    if _LAYOUT.encode() not in code:
        return (), ()
    wanted = _attributes(code, "arg_attrs", _LAYOUT)
    modes = _attributes(code, "res_attrs", _LAYOUT)
    given = tuple(_order(mode, shape) for mode, shape in zip(wanted, parameters, strict=bool(wanted)))
    results = tuple(_order(mode, shape) for mode, shape in zip(modes, outputs, strict=bool(modes)))
    if "auto" in modes:
        from hlotool.text.proto import read_proto

        leaves = read_proto(hlo_proto(code, FORM), "<jax>").entry.root.shape.leaves()
        own = [_by_rows_is_none(leaf.layout.minor_to_major) if leaf.layout else None for leaf in leaves]
        found = zip(modes, own, results, strict=True)
        results = tuple(here if mode == "auto" else order for mode, here, order in found)
    return given, results


def _order(mode: str, shape: Shape) -> Order | None:
    found = re.match(r"\{([-\d,]*)", mode)  # else it is "default" or "auto"
    if found is None:
        return None
    if ":" in mode:
        raise PjrtError("unimplemented", f"hlotool has no tiled layouts, as {mode} is one")
    order = tuple(int(number) for number in found[1].split(",") if number)
    if sorted(order) == [*range(shape.rank)]:
        return _by_rows_is_none(order)
    if len(order) != shape.rank:
        what = f"contains {len(order)} elements, but shape has {shape.rank} dimensions"
    else:
        what = f"has {'duplicate values' if all(0 <= d < shape.rank for d in order) else 'out-of-bounds value'}"
    said = f"{{{', '.join(map(str, order))}}}; shape: {shape}"
    raise PjrtError("invalid argument", f"layout minor_to_major field {what}: {said}")


def _by_rows_is_none(order: Order) -> Order | None:
    return None if order == tuple(reversed(range(len(order)))) else order


def _attributes(code: bytes, place: str, name: str) -> list[str]:
    """An attribute of the arguments (``arg_attrs``) or results (``res_attrs``) of a program; no text where none is."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir

    with make_ir_context():
        module = mlir_module(code)  # lives as long as what is read of it
        attributes = _main(module).attributes
        rows = [ir.DictAttr(row) for row in ir.ArrayAttr(attributes[place])] if place in attributes else []
        return [ir.StringAttr(row[name]).value if name in row else "" for row in rows]


def _main(module: Any) -> Any:
    from jaxlib.mlir import ir

    return next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")


def mlir_module_by_rows(code: bytes) -> Any:
    """A program as JAX gives it, in the MLIR context that is open, all of whose arrays lie row by row."""
    from jaxlib.mlir import ir

    module = mlir_module(code)
    if _LAYOUT.encode() in code:
        main = _main(module)
        for place in ("arg_attrs", "res_attrs"):
            if place in main.attributes:
                rows = [ir.DictAttr(row) for row in ir.ArrayAttr(main.attributes[place])]
                kept = [{one.name: one.attr for one in row if one.name != _LAYOUT} for row in rows]
                main.attributes[place] = ir.ArrayAttr.get([ir.DictAttr.get(row) for row in kept])
    return module


def mlir_module(code: bytes) -> Any:
    """A program as JAX gives it, in the MLIR context that is open."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.deserialize_portable_artifact(ir.Context.current, code)


class _Callbacks:
    """The Python functions that the program being compiled calls.

    JAX hands them to its client beside the program, and the client to executions, as objects of C++; the program comes
    to hlotool in a thread of the client's.  So they are noted where JAX calls its client, for one program at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._functions: Sequence[Callable[..., Any]] = ()

    def noted(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        """JAX's function that compiles, which notes the callbacks meanwhile."""

        @wraps(compile_)
        def noting(*arguments: Any, **options: Any) -> Any:
            given = arguments[_HOST_CALLBACKS] if len(arguments) > _HOST_CALLBACKS else ()
            functions = options.get("host_callbacks", given)
            if not functions:
                return compile_(*arguments, **options)
            with self._lock:
                self._functions = functions
                try:
                    return compile_(*arguments, **options)
                finally:
                    self._functions = ()

        return noting

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """Those of the program with callbacks that is being compiled now."""
        return self._functions


CALLBACKS = _Callbacks()
