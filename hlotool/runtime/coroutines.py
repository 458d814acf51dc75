"""The devices of a run as coroutines, in the thread of the caller.

Every device has a stack of its own (``native/coroutines.ll``).  It runs up to the rendezvous of a collective
(`hlotool.runtime.rendezvous`); there the next one has its turn, until the last one comes, which does the work of
all.  No thread is woken, and none waits: that takes longer than most programs take between two collectives, by far so
where there are more devices than processors.  What is large is shared by the threads of the pool, as on one device.

Python runs on the stack of the thread alone, to which a device goes back for what it calls there.  Between turns
signals are handled and the time is looked at.  When nobody can go on, the devices wait in vain, and the run ends with
an error; where one device fails, or Ctrl-C comes, the others are left where they are: all that they have is memory.

Programs that call functions of Python, or meet in ways that native code does not know, have a thread for every device
instead (`hlotool.evaluate.devices`): such functions may wait for each other.

A member is a device of a run, these words; then those of a run, and of a rendezvous, of which there are as many as the
program has collectives and groups::

    0 its stack pointer  1 number of the device  2 frame of its entry function  3 is it at an end?
    4 the rendezvous in which it waits, or 0  5 until so many of these are over  6 its record  7 the end of its stack

    0 the member whose turn it is  1 all rendezvous  2 bytes of each  3 how many members there are  4 a Python object
    to be called now and then, with 0, or when nobody can go on, with the address of the run  5 entry function  6 the
    word of its frame that says how it ended  7 members  8 the thread's stack pointer  9 number of the program  10 a
    function to be called on the thread's stack, 11 and 12 with these  13 what it gave  14 bytes of all rendezvous

    0 how many have come  1 how many such rendezvous are over  2... tables of the members
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.evaluate.devices import Device, ThreadWorld
from hlotool.ir import ExecutionError, Instruction
from hlotool.ir.devices import Topology
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import callback
from hlotool.runtime.cache import default_cache
from hlotool.runtime.entry import Entry
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import part, python_function
from hlotool.system import system

__all__ = ["COPY", "FOLD", "MOST", "STEP_WORDS", "ZERO", "Coroutines", "meet_address", "number_address", "usable"]

COPY, ZERO, FOLD = 1, 2, 3
STEP_WORDS = 12
"""Of a step of `hlotool.runtime.rendezvous`."""

_DEVICE, _FRAME, _ENDED, _WHERE, _UNTIL, _WHAT, _STACK, _MEMBER_WORDS = 1, 2, 3, 4, 5, 6, 7, 8

_NANOSECONDS = 20_000_000
"""Between two looks into Python."""

_STACK_BYTES = 8 << 20
"""Of which only those take memory that are used."""

_KEPT = 64
"""Stacks that wait for the next run, at most."""


@dataclass(frozen=True, slots=True)
class _Switch:
    """Instructions that go from one stack to another: they save what functions leave as it is, and `mode`, the rounding
    and denormals, in so many bytes, and return.  A new stack begins with the usual mode, and where to return to."""

    text: str
    saved: int
    mode: int
    mode_at: int
    return_at: int


_X86_64 = (
    "pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15; subq $$8, %rsp; stmxcsr (%rsp); "
    "fnstcw 4(%rsp); movq %rsp, (%rdi); movq %rsi, %rsp; ldmxcsr (%rsp); fldcw 4(%rsp); addq $$8, %rsp; popq %r15; "
    "popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; retq"
)
_AARCH64 = (
    "sub sp, sp, #176; stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]; "
    "stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]; stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; "
    "stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]; mrs x9, fpcr; str x9, [sp, #160]; mov x9, sp; str x9, [x0]; "
    "mov sp, x1; ldr x9, [sp, #160]; msr fpcr, x9; ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; "
    "ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]; "
    "ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]; "
    "add sp, sp, #176; ret"
)
_SWITCHES = {
    "x86_64": _Switch(_X86_64, 72, 0x037F << 32 | 0x1F80, 0, 56),
    "aarch64": _Switch(_AARCH64, 176, 0, 160, 88),
}


def usable() -> bool:
    """Whether there is code for this processor that goes from stack to stack, on a system that lets it."""
    return not system().portable and host().triple.split("-")[0] in _SWITCHES


class Rendezvous(Protocol):
    """A collective, as `hlotool.runtime.rendezvous` has it."""

    instruction: Instruction
    groups: Sequence[tuple[int, ...]]


class RendezvousTable(Protocol):
    """The collectives of a program there."""

    topology: Topology
    count: int
    stride: int
    program: int

    def record_at(self, address: int) -> Rendezvous:
        """The one whose record lies there."""
        ...


class Coroutines:
    """How the devices of a program take turns in its entry function.

    `address` is that of a record, in 64-bit words, for native code that has frames: 0 a function, ``i64 function(ptr
    record, ptr frames, i64 words of each)``, which gives 0, and does nothing, where others are on 1, the stacks of the
    process; 2 a run.
    """

    __slots__ = ("_record", "_run", "entry", "rendezvous")

    def __init__(self, entry: Entry, rendezvous: RendezvousTable) -> None:
        self.entry = entry
        self.rendezvous = rendezvous
        self._run: _Run | None = None
        self._record = np.zeros(3, np.uint64)

    @property
    def address(self) -> int:
        if self._run is None:
            self._run = _Run(self.entry, self.rendezvous, lambda name: None)
            stacks = _common_stacks(self.rendezvous.topology.devices)
            self._record[:] = _native().library.address("hlo_run_frames"), stacks, self._run.address
        return self._record.ctypes.data

    def __call__(self, world: ThreadWorld, arrays: Sequence[Sequence[object]]) -> list[tuple[npt.NDArray[Any], ...]]:
        """The results of all devices of a world, for the arrays of each; it raises what a device does."""
        parts = [self.entry.prepare(row) for row in arrays]
        stacks = [_stacks.pop() if _stacks else _stack() for _ in parts]
        run = _Run(self.entry, self.rendezvous, world.check)
        run.members[:, _FRAME] = [prepared.frame.ctypes.data for prepared in parts]
        run.members[:, _STACK] = [stack.end for stack in stacks]
        with callback.on_device(Device(world)):
            _native().together(run.address)
        if len(_stacks) < _KEPT:
            _stacks.extend(stacks)
        if not all(prepared.frame[-2] == COMPLETE for prepared in parts):
            callback.incomplete()
        return [prepared.outputs for prepared in parts]


class _Run:
    """What native code is given of a run; `check` is called now and then, and may raise."""

    __slots__ = ("_attend", "_room", "_words", "members")

    def __init__(self, entry: Entry, rendezvous: RendezvousTable, check: Callable[[str], None]) -> None:
        count = rendezvous.topology.devices
        self.members = members = np.zeros((count, _MEMBER_WORDS), np.uint64)
        members[:, _DEVICE] = range(count)
        self._room = np.zeros(rendezvous.count * rendezvous.stride // 8, np.uint64)

        def attend(stuck: int) -> None:
            check(_waited_in(members, rendezvous))
            if stuck:
                raise ExecutionError(_in_vain(members, rendezvous))

        self._attend = attend
        status_word = len(entry.parameters) + len(entry.outputs) + 2
        room = self._room
        words = [0, room.ctypes.data, rendezvous.stride, count, id(attend), entry.address, status_word]
        words += [members.ctypes.data, 0, rendezvous.program, 0, 0, 0, 0, room.nbytes]
        self._words = np.array(words, np.uint64)

    @property
    def address(self) -> int:
        return self._words.ctypes.data


@dataclass(frozen=True, slots=True)
class _Stack:
    """Memory, and the address of its end, where the stack begins."""

    memory: mmap.mmap
    end: int


def _common_stacks(count: int) -> int:
    """The address of a word that is not 0 while somebody is on the stacks of the process, and of the ends of those: so
    many of them at least."""
    with _lock:
        for number in range(len(_common), count):
            _common.append(_stack())
            _common_words[1 + number] = _common[-1].end
    return _common_words.ctypes.data


MOST = 256
"""Devices of a program that takes turns."""

_lock = threading.Lock()
_common_words = np.zeros(1 + MOST, np.uint64)
_common: list[_Stack] = []
_stacks: list[_Stack] = []

if hasattr(os, "register_at_fork"):  # who was on the stacks is not there in the child
    os.register_at_fork(after_in_child=lambda: _common_words.__setitem__(0, 0))


def _stack() -> _Stack:
    """A stack; below it lies a page that nobody may touch."""
    memory = mmap.mmap(-1, _STACK_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(mmap.PAGESIZE), 0)
    return _Stack(memory, begin + _STACK_BYTES)


def _waited_in(members: npt.NDArray[np.uint64], rendezvous: RendezvousTable) -> str:
    """The name of a collective in which a device waits, if any does."""
    waiting = (words for words in members if words[_WHERE] and not words[_ENDED])
    return next((rendezvous.record_at(int(words[_WHAT])).instruction.name for words in waiting), "")


def _in_vain(members: npt.NDArray[np.uint64], rendezvous: RendezvousTable) -> str:
    """Who waits for whom, where nobody can go on."""
    waiting, ended, first = [], [], ""
    for device, words in enumerate(members):
        if words[_ENDED]:
            ended.append(f"device {device} has ended")
            continue
        record = rendezvous.record_at(int(words[_WHAT]))
        group = next(group for group in record.groups if device in group)
        tables = (ctypes.c_uint64 * len(group)).from_address(int(words[_WHERE]) + 16)
        absent = [str(one) for one, table in zip(group, tables, strict=True) if not table]
        name = record.instruction.name
        first = first or name
        waiting.append(
            f"device {device} waits in {name} for device{'' if len(absent) == 1 else 's'} {', '.join(absent)}"
        )
    return f"{first}: the devices wait in vain: {', '.join(waiting + ended)}"


# ---- native code


@dataclass(frozen=True, slots=True)
class _Native:
    """`key` finds the run of a thread."""

    library: Library
    together: Callable[[int], None]
    key: Any


@once
def _native() -> _Native:
    """Loaded once and never unloaded."""
    machine = host()
    switch = _SWITCHES[machine.triple.split("-")[0]]
    key = ctypes.create_string_buffer(64)  # Py_tss_t, all zeros before it is made
    if ctypes.pythonapi.PyThread_tss_create(key):
        raise ExecutionError("the system has no more values for threads")
    text = native_text(
        "coroutines", SWITCH=switch.text, SAVED=switch.saved, MODE=switch.mode, MODE_AT=switch.mode_at,
        RETURN_AT=switch.return_at, NANOSECONDS=_NANOSECONDS, DEVICE=_DEVICE, FRAME=_FRAME, ENDED=_ENDED, WHERE=_WHERE,
        UNTIL=_UNTIL, WHAT=_WHAT, STACK=_STACK, MEMBER_WORDS=_MEMBER_WORDS, WORDS=STEP_WORDS, COPY=COPY, ZERO=ZERO,
        FOLD=FOLD, COMPLETE=COMPLETE,
    )  # fmt: skip
    names = ("PyThread_tss_get", "PyThread_tss_set", "PyEval_SaveThread", "PyEval_RestoreThread")
    imports = {name: python_function(name) for name in names}
    imports |= {"hlo_host": callback.symbols()["hlo_host"], "hlo_key": ctypes.addressof(key)}
    library = load(compiled([text + part("clock", machine)], machine, cache=default_cache()), imports)
    callback.set_aside(library.address("hlo_aside"))
    together = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(library.address("hlo_together"))
    return _Native(library, together, key)


def meet_address() -> int:
    """The address of the function of records of `hlotool.runtime.rendezvous`."""
    return _native().library.address("hlo_meet")


def number_address() -> int:
    """That of the function of records of numbers of devices."""
    return _native().library.address("hlo_number")
