"""A program of JAX through the compiler or, where that refuses it, through jaxlib's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hlotool.analysis.donation import Donate, buffer_donors
from hlotool.driver import compile_module, optimise
from hlotool.driver.fallback import fall_back, reason_of
from hlotool.ir import Module, Shape, UnsupportedError
from hlotool.jax.pjrt.callbacks import calls_python, forget, with_callbacks
from hlotool.jax.pjrt.fallback import compile_stock
from hlotool.jax.pjrt.lowering import CALLBACKS, Options, hlo_proto
from hlotool.jax.pjrt.programs import Code, Made, Runner, remember
from hlotool.jax.pjrt.table import PjrtError
from hlotool.runtime.cache_key import Key
from hlotool.runtime.executable import Executable
from hlotool.runtime.marshalling import is_plain
from hlotool.runtime.recalled import stays
from hlotool.text.proto import read_proto

if TYPE_CHECKING:
    from hlotool.jax.pjrt.divided import Shardings

__all__ = ["made_of", "module_of", "optimised_proto"]


def module_of(proto: bytes) -> Module:
    """The module of a serialized HloModuleProto."""
    return read_proto(proto, "<jax>")


def optimised_proto(proto: bytes) -> bytes:
    """The module of a serialized HloModuleProto after hlotool's passes.

    It is the module as it is where jaxlib does not read what the passes wrote.
    """
    return _proto_of(optimise(module_of(proto))) or proto


def _proto_of(module: Module) -> bytes | None:
    """A module as a serialized HloModuleProto; None where jaxlib does not read it."""
    try:
        from jaxlib._hlo import hlo_module_from_text
    except ImportError:  # before jaxlib 0.10
        from jaxlib._jax import hlo_module_from_text
    from hlotool.text.printer import print_module

    try:
        return bytes(hlo_module_from_text(print_module(module)).as_serialized_hlo_module_proto())
    except (ValueError, RuntimeError):
        return None


def made_of(program: bytes, form: str, options: bytes, settings: Options, available: int, key: Key | None) -> Made:
    """What is made of a program, of so many devices as are `available`; it is kept under `key` where it can be."""
    module = module_of(hlo_proto(program, form))
    signature = module.entry.signature()
    callbacks = CALLBACKS.functions
    several = len(settings.devices) > 1
    targets: Sequence[str] = ()
    try:
        own, shardings = _divided(module, settings) if several else (module, None)
        parameters, outputs = _signature(own)
        donated = _donated(own, parameters, outputs)
        _check((*parameters, *outputs))
        targets = with_callbacks(own, callbacks)  # changes the module
        plain = all(is_plain(shape) for shape in (*parameters, *outputs) if shape.is_array)
        # Subnormal numbers are zeros, as they are on JAX's own CPU platform.
        # Native code calls the entry.
        donate: Donate = "declared" if plain and not several else ()
        executable = compile_module(own, donate=donate, flush_denormals=True, quick_calls=several)
    except (UnsupportedError, RecursionError, MemoryError) as error:
        forget(targets)
        if calls_python(module) and not callbacks:  # jaxlib would not look whether they are there
            raise PjrtError("unimplemented", f"the functions that {module.name} calls are not to be found") from error
        reason = reason_of(error, module)
        fall_back(module.name, reason, "jaxlib runs it", error)
        stock = compile_stock(program, options, settings.devices, callbacks, available)
        own = module_of(stock.text()) if several else module  # jaxlib's partitioner has divided it
        parameters, outputs = _signature(own)
        donated = _donated(own, parameters, outputs)
        return Made(module.name, signature, parameters, outputs, donated, runner=stock, reason=reason)
    code, targets = _code(executable), tuple(targets)
    if several:
        text = partial(_divided_proto, program, form, settings)
        runner = _runner(executable, shardings, text)
        return Made(
            module.name, signature, parameters, outputs, donated, code, runner, note=_note(settings), targets=targets
        )
    made = Made(module.name, signature, parameters, outputs, donated, code, targets=targets)
    if key is not None and all(shape.is_array for shape in (*parameters, *outputs)) and stays(executable, module):
        remember(key, made, executable.image)
    return made


def _divided(module: Module, settings: Options) -> tuple[Module, Shardings | None]:
    from hlotool.jax.pjrt.divided import divided_among  # most processes have one device

    return divided_among(module, settings)


def _runner(executable: Executable, shardings: Shardings | None, text: Callable[[], bytes]) -> Runner:
    from hlotool.jax.pjrt.divided import Divided

    return Divided(executable, shardings, text)


def _note(settings: Options) -> str:
    kinds = {"replicas": settings.replicas, "partitions": settings.partitions}
    return "on " + " x ".join(f"{count} {kind}" for kind, count in kinds.items() if count > 1)


def _divided_proto(program: bytes, form: str, settings: Options) -> bytes:
    """What each device runs, after hlotool's passes, as a serialized HloModuleProto."""
    module, _ = _divided(module_of(hlo_proto(program, form)), settings)
    found = _proto_of(optimise(module)) or _proto_of(module)
    if found is None:
        raise PjrtError("unimplemented", f"jaxlib does not read what each device runs of {module.name}")
    return found


def _code(executable: Executable) -> Code:
    size = sum(map(len, executable.objects))
    coroutines = executable.together
    entry = executable.entry if coroutines is None else coroutines.entry
    return Code(executable.run, entry, executable.donated, executable.memory.arena_bytes, size, coroutines)


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


def _check(shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        if shape.is_array and not shape.is_static:
            raise UnsupportedError(f"{shape} is no array of a fixed size")
