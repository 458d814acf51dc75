"""Functions of Python that programs call: custom calls with targets of their own."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hlotool.ir import Instruction, Module, UnsupportedError
from hlotool.jax.pjrt.table import PjrtError

if TYPE_CHECKING:
    from hlotool.evaluate.custom_call import Array, CustomCall, Handler

__all__ = ["calls_python", "forget", "with_callbacks"]

_CALLBACK = "xla_ffi_python_cpu_callback"
_TARGETS = frozenset({_CALLBACK, "xla_ffi_partitioned_python_cpu_callback"})
_numbers = itertools.count()


def calls_python(module: Module) -> bool:
    """Whether a module calls functions of Python."""
    return any(_is_callback(instruction) for instruction in module.instructions())


def _is_callback(instruction: Instruction) -> bool:
    return instruction.opcode == "custom-call" and instruction.attributes.get("custom_call_target") in _TARGETS


def with_callbacks(module: Module, callbacks: Sequence[Callable[..., Any]]) -> list[str]:
    """Let custom calls of `module` call the functions of Python that they mean; gives what to forget in the end.

    Each call has a target of its own afterwards.  UnsupportedError where a function is not to be found.
    """
    found = [instruction for instruction in module.instructions() if _is_callback(instruction)]
    if not found:
        return []
    from hlotool.evaluate.custom_calls import custom_call_of, register_custom_call

    targets: list[str] = []
    for instruction in found:
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
    if not targets:
        return
    from hlotool.evaluate.custom_calls import unregister_custom_call

    for target in targets:
        unregister_custom_call(target)


def _handler(function: Callable[..., Any], tokens: Sequence[bool], results: Sequence[bool]) -> Handler:
    def handler(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
        arrays = iter(inputs)
        try:
            given = function(*(None if token else next(arrays) for token in tokens))
        except KeyboardInterrupt:  # the user's: it is to reach them as it is
            raise
        except BaseException as error:
            raise PjrtError("internal", _told(error)) from error
        return [np.asarray(value) for value, token in zip(given, results, strict=True) if not token]

    return handler


def _told(error: BaseException) -> str:
    """What JAX says of a function that failed: where it did, too."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None  # without the one of this module
    lines = traceback.format_exception(type(error), error, frames)
    return f"CpuCallback error calling callback: {''.join(lines).rstrip()}"


def _no_computation(*arguments: object) -> Any:
    raise UnsupportedError("a callback has no computation")
