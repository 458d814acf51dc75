"""LLVM IR text to machine code, several texts at the same time.

No IR pass is run: the emitters write code that is vectorised already, so instruction selection is
all that is left; texts of nothing but plumbing are compiled without any optimisation.  Loop strength reduction, which
the code generator runs of itself, is off: it took a sixth of the whole time and gained nothing where addresses are
written as pointers that move on.  So is constant hoisting, which wants to know how often every block runs and then
finds nothing to do: vectors of constants are no business of it.  So is list scheduling after registers are assigned:
the analyses that it asks for took a fifth of the time, and processors that reorder instructions gain nothing.
(LLVM knows these switches for the process as a whole: other users of llvmlite in it go without those passes as well.
There is none for a module or a function, but ``optnone``, which turns all else off too; and a switch cannot be given to
and fro around a compilation, for others may be under way, and LLVM takes each switch once.)

llvmlite guards every call into LLVM with one process-wide lock, which would make threads useless here; LLVM itself only
asks that two threads do not share a context, so the two long calls (parse and emit) are made on the raw functions when
llvmlite has them where expected.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from llvmlite import binding
from llvmlite.binding import ffi

from hlotool.codegen.kernel import is_plumbing
from hlotool.codegen.machine import Machine

if TYPE_CHECKING:
    from hlotool.runtime.compile_queue import Emitters, Queue

__all__ = ["SWITCHES", "CodeError", "Compiler", "assembly", "compile_units", "initialize", "target_machine"]


SWITCHES = ("-disable-lsr", "-disable-constant-hoisting", "-disable-post-ra")
"""LLVM's switches that make other code."""


class CodeError(RuntimeError):
    """LLVM does not take a text: its message."""


@cache
def initialize() -> None:
    """Make LLVM's targets known (all of them, so that other machines can be compiled for), and set its switches."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    for switch in SWITCHES:
        binding.set_option("hlotool", switch)


def target_machine(machine: Machine, quick: bool = False) -> binding.TargetMachine:
    """LLVM's target machine for `machine`: position-independent code, small code model, opt level 2 (0 if `quick`)."""
    initialize()
    target = binding.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=0 if quick else 2, reloc="pic", codemodel="small"
    )


def compile_units(texts: Sequence[str], machine: Machine, threads: int = 1) -> list[bytes]:
    """Compile each IR text to a relocatable object, in order, with at most `threads` threads; the longest first.

    The objects are the same whatever the number of threads.  Raises CodeError with LLVM's message
    when a text does not parse or verify.
    """
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    with Compiler(machine, min(threads, len(texts))) as compiler:
        for number in order[1:]:
            compiler.add(texts[number])
        made = compiler.finish([texts[number] for number in order[:1]])
    objects = dict(zip([*order[1:], *order[:1]], made, strict=True))
    return [objects[number] for number in range(len(texts))]


class Compiler:
    """Texts on their way to objects: with `threads` of two and more, others begin with them while Python writes more.

    To be left as a context: then nobody is at work any longer.
    """

    __slots__ = ("_emitters", "_machine", "_objects", "_others", "_queue", "_texts", "_workers")

    def __init__(self, machine: Machine, threads: int = 1) -> None:
        initialize()
        self._machine = machine
        self._others = threads - 1
        self._texts: list[str] = []
        self._objects: list[bytes | None] = []
        self._queue = _queue() if threads > 1 else None
        self._workers = 0
        self._emitters = ExitStack()  # what the workers have

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._queue is not None:
            self._queue.close(abandon=True)
            self._gather(self._queue)

    def add(self, text: str) -> None:
        """Have `text` compiled, by another thread if there may be one."""
        self._texts.append(text)
        if self._queue is None:
            return
        with _emitter(self._machine) as emitter:
            self._queue.add(_header(text, emitter), is_plumbing(text))
        if self._workers < self._others:
            self._workers += 1
            self._queue.start(self._emitters.enter_context(_both_emitters(self._machine)))
        if self._queue.is_full:
            self._finish(self._queue)
            self._queue = _queue()

    def finish(self, own: Sequence[str] = ()) -> list[bytes]:
        """The objects of all texts that were added, in that order, then of those in `own`.

        This thread compiles `own` first and then helps with the rest.  CodeError as in `compile_units`.
        """
        last = [_compile(text, self._machine) for text in own]
        if self._queue is not None:
            self._finish(self._queue)
        made = [*self._objects, *(None for _ in self._texts[len(self._objects) :])]
        pairs = zip(self._texts, made, strict=True)
        return [*(_compile(text, self._machine) if found is None else found for text, found in pairs), *last]

    def _finish(self, queue: Queue) -> None:
        queue.close()
        with _both_emitters(self._machine) as emitters:
            queue.work(emitters)  # this thread's memory is warm, and a new one takes its first from the system
        self._gather(queue)

    def _gather(self, queue: Queue) -> None:
        queue.join()
        self._emitters.close()
        self._objects += queue.objects()
        self._queue, self._workers = None, 0


def _queue() -> Queue | None:
    """A queue; None where llvmlite lacks what its native code calls."""
    from hlotool.runtime.compile_queue import Queue, is_there

    return Queue() if is_there() and _raw_functions() is not None else None


def _compile(text: str, machine: Machine) -> bytes:
    return _compile_locked(text, machine) if _raw_functions() is None else _compile_unlocked(text, machine)


def assembly(text: str, machine: Machine) -> str:
    """The assembly that `text` compiles to on `machine`; CodeError as `compile_units`."""
    return str(_emitted(text, machine, binding.TargetMachine.emit_assembly))


@cache
def _idle(machine: Machine, quick: bool) -> SimpleQueue[binding.TargetMachine]:
    """Target machines that no thread is using."""
    return SimpleQueue()


@contextmanager
def _emitter(machine: Machine, quick: bool = False) -> Iterator[binding.TargetMachine]:
    """A target machine for one thread.  Making one, and its table of the processor's features, takes a millisecond."""
    idle = _idle(machine, quick)
    try:
        emitter = idle.get_nowait()
    except Empty:
        emitter = target_machine(machine, quick)
    try:
        yield emitter
    finally:
        idle.put(emitter)


@contextmanager
def _both_emitters(machine: Machine) -> Iterator[Emitters]:
    with _emitter(machine) as usual, _emitter(machine, quick=True) as quick:
        yield usual, quick


def _header(text: str, emitter: binding.TargetMachine) -> str:
    """`text` with the target's data layout put before its first line (line numbers stay as they are)."""
    return f'target datalayout = "{emitter.target_data}" target triple = "{emitter.triple}" {text}'


@contextmanager
def _parsed(
    text: str, emitter: binding.TargetMachine, parse: Callable[[str, Any], binding.ModuleRef]
) -> Iterator[binding.ModuleRef]:
    """A module in a context of its own.  Both end here, in this order: an error that keeps their variables alive would
    leave it to the garbage collector, which may end the context first."""
    context = binding.create_context()
    try:
        module = parse(_header(text, emitter), context)
        try:
            yield module
        finally:
            module.close()
    finally:
        context.close()


def _compile_locked(text: str, machine: Machine) -> bytes:
    return bytes(_emitted(text, machine, binding.TargetMachine.emit_object))


def _emitted(text: str, machine: Machine, emit: Callable[[binding.TargetMachine, binding.ModuleRef], Any]) -> Any:
    """What `emit` makes of the verified module of `text`, with llvmlite's lock held."""
    try:
        with _emitter(machine, is_plumbing(text)) as emitter, _parsed(text, emitter, binding.parse_assembly) as module:
            module.verify()
            return emit(emitter, module)
    except RuntimeError as error:
        raise CodeError(str(error)) from error


def _compile_unlocked(text: str, machine: Machine) -> bytes:
    """As `_compile_locked`, without llvmlite's lock around the long calls."""
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

    with _emitter(machine, is_plumbing(text)) as emitter, _parsed(text, emitter, parse_unlocked) as module:
        with ffi.OutputString() as message:
            if verify(module, message):
                raise CodeError(str(message))
        with ffi.OutputString() as message:
            memory = emit(emitter, module, 1, message)
            if not memory:
                raise CodeError(str(message))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


@cache
def _raw_functions() -> tuple[Callable[..., Any], ...] | None:
    """llvmlite's parse, verify and emit functions without the lock, or None where they are not to be found."""
    names = ("LLVMPY_ParseAssembly", "LLVMPY_VerifyModule", "LLVMPY_TargetMachineEmitToMemory")
    try:
        functions = tuple(getattr(ffi.lib, name)._cfn for name in names)
    except AttributeError:
        return None
    return functions if all(function.argtypes for function in functions) else None
