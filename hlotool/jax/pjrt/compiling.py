"""A program of JAX through the compiler or, where that refuses it, through jaxlib's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hlotool.analysis.donation import Donate, buffer_donors
from hlotool.driver import compile_module, optimise
from hlotool.driver.fallback import fall_back, reason_of
from hlotool.ir import Module, Shape, UnsupportedError
from hlotool.jax.pjrt.callbacks import calls_python, forget, with_callbacks
from hlotool.jax.pjrt.fallback import compile_stock
from hlotool.jax.pjrt.lowering import CALLBACKS, Options, hlo_proto
from hlotool.jax.pjrt.programs import Code, Made, remember
from hlotool.jax.pjrt.table import PjrtError
from hlotool.runtime.cache_key import Key
from hlotool.runtime.executable import Executable
from hlotool.runtime.marshalling import is_plain
from hlotool.runtime.recalled import stays
from hlotool.text.proto import read_proto

__all__ = ["made_of", "module_of", "optimised_proto"]


def module_of(proto: bytes) -> Module:
    """The module of a serialized HloModuleProto."""
    return read_proto(proto, "<jax>")


def optimised_proto(proto: bytes) -> bytes:
    """The module of a serialized HloModuleProto after hlotool's passes.

    It is the module as it is where jaxlib does not read what the passes wrote.
    """
    try:
        from jaxlib._hlo import hlo_module_from_text
    except ImportError:  # before jaxlib 0.10
        from jaxlib._jax import hlo_module_from_text
    from hlotool.text.printer import print_module

    text = print_module(optimise(module_of(proto)))
    try:
        return bytes(hlo_module_from_text(text).as_serialized_hlo_module_proto())
    except (ValueError, RuntimeError):
        return proto


def made_of(program: bytes, form: str, options: bytes, settings: Options, available: int, key: Key | None) -> Made:
    """What is made of a program, of so many devices as are `available`; it is kept under `key` where it can be."""
    module = module_of(hlo_proto(program, form))
    signature = module.entry.signature()
    callbacks = CALLBACKS.functions
    parameters, outputs = _signature(module)
    donated = _donated(module, parameters, outputs)
    targets: Sequence[str] = ()
    try:
        _check(settings, (*parameters, *outputs))
        targets = with_callbacks(module, callbacks)  # changes the module
        plain = all(is_plain(shape) for shape in (*parameters, *outputs) if shape.is_array)
        # Subnormal numbers are zeros, as they are on JAX's own CPU platform.
        # Native code calls the entry.
        donate: Donate = "declared" if plain else ()
        executable = compile_module(module, donate=donate, flush_denormals=True, quick_calls=False)
    except (UnsupportedError, RecursionError, MemoryError) as error:
        forget(targets)
        if calls_python(module) and not callbacks:  # jaxlib would not look whether they are there
            raise PjrtError("unimplemented", f"the functions that {module.name} calls are not to be found") from error
        reason = reason_of(error, module)
        fall_back(module.name, reason, "jaxlib runs it", error)
        stock = compile_stock(program, options, settings.devices, callbacks, available)
        if len(settings.devices) > 1:  # what each device takes and gives is for the partitioner to say
            divided = module_of(stock.text())
            parameters, outputs = _signature(divided)
            donated = _donated(divided, parameters, outputs)
        return Made(module.name, signature, parameters, outputs, donated, stock=stock, reason=reason)
    made = Made(module.name, signature, parameters, outputs, donated, _code(executable), targets=tuple(targets))
    if key is not None and all(shape.is_array for shape in (*parameters, *outputs)) and stays(executable, module):
        remember(key, made, executable.image)
    return made


def _code(executable: Executable) -> Code:
    size = sum(map(len, executable.objects))
    return Code(executable.run, executable.entry, executable.donated, executable.memory.arena_bytes, size)


def _signature(module: Module) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    return _leaves([p.shape for p in module.entry.parameters]), _leaves([module.entry.root.shape])


def _donated(module: Module, parameters: Sequence[Shape], outputs: Sequence[Shape]) -> frozenset[int]:
    """The parameters that a run gives up: those that have a result, and donors for which there is one of their size.

    XLA pairs donors and results so, and JAX takes for deleted what has a pair; types and dimensions do not matter.
    """
    aliases = module.attributes.get("input_output_alias", ())
    taken = {alias.operand for alias in aliases}
    held = {alias.output[0] if alias.output else 0 for alias in aliases}
    left = Counter(shape.byte_size for number, shape in enumerate(outputs) if number not in held and shape.is_array)
    for number, _ in sorted(buffer_donors(module)):
        size = parameters[number].byte_size
        if number not in taken and left[size]:
            left[size] -= 1
            taken.add(number)
    return frozenset(taken)


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
