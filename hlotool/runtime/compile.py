"""LLVM IR texts to machine code, several at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hlotool.codegen.kernel import is_plumbing, is_promoted
from hlotool.codegen.machine import Machine
from hlotool.runtime.object_code import has_raw_functions, object_of, with_header
from hlotool.runtime.target_machines import both_emitters, emitter

if TYPE_CHECKING:
    from hlotool.runtime.compile_queue import Queue

__all__ = ["Compiler", "compile_units"]


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
        self._machine = machine
        self._others = threads - 1
        self._texts: list[str] = []
        self._objects: list[bytes | None] = []
        self._queue: Queue | None = None  # made for the first text: a small program has no other than its last
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
            self._queue = _queue() if self._others > 0 else None
        if self._queue is None:
            return
        with emitter(self._machine) as target:
            self._queue.add(with_header(text, target, self._machine.vscale), is_plumbing(text), is_promoted(text))
        if self._workers < self._others:
            self._workers += 1
            self._queue.start(self._emitters.enter_context(both_emitters(self._machine)))
        if self._queue.is_full:
            self._finish(self._queue)

    def finish(self, own: Sequence[str] = ()) -> list[bytes]:
        """The objects of all texts that were added, in that order, then of those in `own`.

        This thread compiles `own` first and then helps with the rest.  CodeError as in `compile_units`.
        """
        last = [object_of(text, self._machine) for text in own]
        if self._queue is not None:
            self._finish(self._queue)
        made = [*self._objects, *(None for _ in self._texts[len(self._objects) :])]
        pairs = zip(self._texts, made, strict=True)
        return [*(object_of(text, self._machine) if found is None else found for text, found in pairs), *last]

    def _finish(self, queue: Queue) -> None:
        queue.close()
        with both_emitters(self._machine) as emitters:
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

    return Queue() if is_there() and has_raw_functions() else None
