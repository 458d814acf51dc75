"""One LLVM IR text to machine code.

llvmlite guards every call into LLVM with one process-wide lock, which would make threads useless here; LLVM itself only
asks that two threads do not share a context, so the two long calls (parse and emit) are made on the raw functions when
llvmlite has them where expected.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from hlotool.codegen.kernel import is_plumbing, is_promoted
from hlotool.codegen.machine import Machine
from hlotool.runtime.cache import Cache, objects_of
from hlotool.runtime.promotion import promote
from hlotool.runtime.target_machines import emitter

if TYPE_CHECKING:
    from llvmlite import binding

__all__ = ["CodeError", "assembly", "compiled", "has_raw_functions", "object_of", "with_attributes", "with_header"]


class CodeError(RuntimeError):
    """LLVM does not take a text: its message."""


def object_of(text: str, machine: Machine) -> bytes:
    """The relocatable object that `text` compiles to; CodeError has LLVM's message when it does not parse or verify."""
    return _compile_unlocked(text, machine) if has_raw_functions() else _compile_locked(text, machine)


def compiled(texts: Sequence[str], machine: Machine, cache: Cache | None = None) -> list[bytes]:
    """The objects of `texts`, taken from `cache` where they are there; CodeError as `object_of`."""

    def make(texts: Sequence[str]) -> list[bytes]:
        return [object_of(text, machine) for text in texts]

    return [objects_of([text], machine, cache, make)[0] for text in texts]


def assembly(text: str, machine: Machine) -> str:
    """The assembly that `text` compiles to on `machine`; CodeError as `object_of`."""
    return str(_emitted(text, machine, lambda target, module: target.emit_assembly(module)))


def with_header(text: str, target: binding.TargetMachine, vscale: int = 0) -> str:
    """`text` with the target's data layout put before its first line (line numbers stay as they are), for scalable
    vectors of `vscale` times 128 bits."""
    if vscale:
        text = with_attributes(text, f"vscale_range({vscale},{vscale})")
    return f'target datalayout = "{target.target_data}" target triple = "{target.triple}" {text}'


def with_attributes(text: str, attributes: str) -> str:
    """`text`, each function that it defines having LLVM's `attributes` as well."""
    return _DEFINE.sub(rf"\1 {attributes} {{", text)


_DEFINE = re.compile(r"^(define .*) \{$", re.MULTILINE)


@contextmanager
def _parsed(
    text: str, target: binding.TargetMachine, vscale: int, parse: Callable[[str, Any], binding.ModuleRef]
) -> Iterator[binding.ModuleRef]:
    """A module in a context of its own.  Both end here, in this order: an error that keeps their variables alive would
    leave it to the garbage collector, which may end the context first."""
    from llvmlite import binding

    context = binding.create_context()
    try:
        module = parse(with_header(text, target, vscale), context)
        try:
            yield module
        finally:
            module.close()
    finally:
        context.close()


def _compile_locked(text: str, machine: Machine) -> bytes:
    return bytes(_emitted(text, machine, lambda target, module: target.emit_object(module)))


def _emitted(text: str, machine: Machine, emit: Callable[[binding.TargetMachine, binding.ModuleRef], Any]) -> Any:
    """What `emit` makes of the verified module of `text`, with llvmlite's lock held."""
    from llvmlite import binding

    try:
        parse, vscale = binding.parse_assembly, machine.vscale
        with emitter(machine, is_plumbing(text)) as target, _parsed(text, target, vscale, parse) as module:
            module.verify()
            if is_promoted(text):
                promote(module, target)
            return emit(target, module)
    except RuntimeError as error:
        raise CodeError(str(error)) from error


def _compile_unlocked(text: str, machine: Machine) -> bytes:
    """As `_compile_locked`, without llvmlite's lock around the long calls."""
    from llvmlite import binding
    from llvmlite.binding import ffi

    functions = _raw_functions()
    assert functions is not None
    parse, verify, emit = functions

    def parse_unlocked(text: str, context: Any) -> binding.ModuleRef:
        with ffi.OutputString() as message:
            module = binding.ModuleRef(parse(context, text.encode(), message), context)
            if message:
                module.close()
                raise CodeError(f"LLVM IR parsing error\n{message}")
            return module

    with emitter(machine, is_plumbing(text)) as target, _parsed(text, target, machine.vscale, parse_unlocked) as module:
        with ffi.OutputString() as message:
            if verify(module, message):
                raise CodeError(str(message))
        if is_promoted(text):
            promote(module, target)
        with ffi.OutputString() as message:
            memory = emit(target, module, 1, message)
            if not memory:
                raise CodeError(str(message))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def has_raw_functions() -> bool:
    """Whether llvmlite's functions can be called without its lock."""
    return _raw_functions() is not None


@cache
def _raw_functions() -> tuple[Callable[..., Any], ...] | None:
    """llvmlite's parse, verify and emit functions without the lock, or None where they are not to be found."""
    from llvmlite.binding import ffi

    names = ("LLVMPY_ParseAssembly", "LLVMPY_VerifyModule", "LLVMPY_TargetMachineEmitToMemory")
    try:
        functions = tuple(getattr(ffi.lib, name)._cfn for name in names)
    except AttributeError:
        return None
    return functions if all(function.argtypes for function in functions) else None
