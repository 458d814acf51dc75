"""Collectives as scripts that native code carries out without Python: messages, copies, waits, and what is computed.

A script is made once for an instruction, and works on arrays wherever they lie: it is given a table of their addresses.
Each step begins with what it does, where, and how much of it (`Place`, two words); bytes, if not said otherwise::

    1 copy bytes here, from a place     2 receive bytes here, from a rank     3 send bytes from here, to a rank
    4 let MPI reduce elements into here, from a place, with the addresses of a data type and an operation
    5 wait for all that was begun       6 fold elements into here, by the function at an address, of so many places
    0 that is all

``native/exchange.ll`` is who carries them out.  It looks at requests for a while, lets others have the processor, and
then calls Python, which goes on looking, and ends a run that failed.  It is given a record, in 64-bit words::

    0 its function  1 scratch memory  2 script  3 requests  4 statuses  5 pointers, for folds  6 requests that are going
    on  7 the address of a counter of calls  8 that of a word which is not 0 after a failure  9 a Python callable that
    attends to what takes long  10 looks before others have the processor  11 looks before Python is called
    12, 13 addresses of the handles of the communicator and of MPI_BYTE  14 MPI_IN_PLACE  15 the code of an error
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.devices.mpi.library import mpi
from hlotool.evaluate.values import AnyArray
from hlotool.runtime.cache import default_cache
from hlotool.runtime.callback import incomplete, symbols
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled

__all__ = ["Place", "Running", "Script"]

_COPY, _RECEIVE, _SEND, _REDUCE, _WAIT, _FOLD = range(1, 7)

_TAG = 32767
"""Of all messages: the highest that every MPI has."""

_OFTEN = 1023
"""Calls, and one, between two looks into Python: something is to end a loop of collectives that never wait."""

_YIELDS = 20
"""Looks between which others may have the processor, before Python is called: where many want it, each takes long."""

_LINE = 64  # bytes


class Place(NamedTuple):
    """Bytes from the beginning of an array of the table, or of the scratch memory (-1)."""

    array: int
    offset: int = 0


class Script:
    """Steps that are being written."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.scratch = 0
        self.kept: list[object] = []
        self.members = 0  # of the largest fold
        self.requests = 0  # that go on at the same time, at most
        self._going = 0

    def room(self, size: int) -> Place:
        """Scratch memory of so many bytes."""
        found = Place(-1, self.scratch)
        self.scratch += lines(size)
        return found

    def copy(self, to: Place, source: Place, size: int) -> None:
        self.words += [_COPY, *to, size, *source]

    def receive(self, to: Place, size: int, rank: int) -> None:
        self._message(_RECEIVE, to, size, rank)

    def send(self, source: Place, size: int, rank: int) -> None:
        self._message(_SEND, source, size, rank)

    def reduce(self, to: Place, source: Place, count: int, datatype: Any, operation: Any) -> None:
        self._begin([_REDUCE, *to, count, *source, mpi()._addressof(datatype), mpi()._addressof(operation)])
        self.kept += [datatype, operation]

    def wait(self) -> None:
        if self._going:
            self.words += [_WAIT, -1, 0, 0]
            self._going = 0

    def fold(self, to: Place, places: Sequence[Place], count: int, function: tuple[int, Library]) -> None:
        """`function` is one of `hlotool.runtime.fold`."""
        address, library = function
        self.words += [_FOLD, *to, count, address, len(places), *(word for place in places for word in place)]
        self.kept.append(library)
        self.members = max(self.members, len(places))

    def _message(self, what: int, place: Place, size: int, rank: int) -> None:
        if size:  # what is empty, is so at both ends
            self._begin([what, *place, size, rank])

    def _begin(self, words: Sequence[int]) -> None:
        self.words += words
        self._going += 1
        self.requests = max(self.requests, self._going)


class Running:
    """A finished script on a communicator of MPI.  Used by one thread.

    `attend` is called where requests take long, or something else is to be looked at.
    """

    def __init__(self, script: Script, comm: Any, alarm: AnyArray, looks: int) -> None:
        """`alarm` is a word that is not 0 after a failure; `looks` are those until others may have the processor."""
        library, yields = _library()
        self._function = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)(
            library.address("hlo_exchange")
        )
        self._look = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(library.address("hlo_look"))
        self._attend: Callable[[int], None] = lambda _: None
        words = np.array([*script.words, 0, -1, 0, 0], np.int64)
        scratch = np.zeros(script.scratch + _LINE, np.uint8)
        requests = np.zeros(script.requests * mpi()._sizeof(mpi().Request), np.uint8)
        statuses = np.zeros(script.requests * mpi()._sizeof(mpi().Status), np.uint8)
        pointers = np.zeros(script.members, np.uint64)
        self._kept = (script.kept, comm, alarm, words, scratch, requests, statuses, pointers, library)
        at = scratch.ctypes.data
        given = [
            library.address("hlo_exchange"), at + -at % _LINE, words.ctypes.data, requests.ctypes.data,
            statuses.ctypes.data, pointers.ctypes.data, 0, 0, alarm.ctypes.data, 0, looks, looks + yields,
            mpi()._addressof(comm), mpi()._addressof(mpi().BYTE), int(mpi().IN_PLACE) % (1 << 64), 0,
        ]  # fmt: skip
        self._record = np.array(given, np.uint64)

    @property
    def record(self) -> int:
        """The address of its record."""
        return self._record.ctypes.data

    def prepare(self, counter: AnyArray, attend: Callable[[int], None]) -> None:
        """From now on calls are counted in a word, and `attend` is who is called."""
        self._attend, self._counter = attend, counter
        self._record[7], self._record[9] = counter.ctypes.data, id(attend)

    def __call__(self, table: int) -> None:
        """Carry it out on the arrays whose addresses are in a table; an error is that of `attend`."""
        if self._function(self.record, table) != COMPLETE:
            incomplete()

    @property
    def going(self) -> bool:
        """Whether there are requests to wait for."""
        return bool(self._record[6])

    def look(self) -> bool:
        """Whether they are complete; an exception of MPI's after an error."""
        complete = self._look(self.record) == 1
        self.check()
        return bool(complete)

    def check(self) -> None:
        """An exception of MPI's if there was an error."""
        code = int(self._record[15])
        if code:
            raise mpi().Exception(code)


def lines(size: int) -> int:
    """The first multiple of a line of the caches that is not less than `size` bytes."""
    return -(-size // _LINE) * _LINE


@cache
def _library() -> tuple[Library, int]:
    """The code, and how often it can let others have the processor."""
    found = mpi()
    wide = found._sizeof(found.Comm) == 8
    machine = host()
    text = native_text(
        "exchange", HANDLE="i64" if wide else "i32", GIVEN="i64" if wide else "i32 signext", COPY=_COPY,
        RECEIVE=_RECEIVE, SEND=_SEND, REDUCE=_REDUCE, WAIT=_WAIT, FOLD=_FOLD, TAG=_TAG, OFTEN=_OFTEN, COMPLETE=COMPLETE,
    )  # fmt: skip
    imports = {"hlo_host": symbols()["hlo_host"]}
    own = ctypes.CDLL(found.__file__)  # what it was linked with can be found through it
    for name in ("MPI_Isend", "MPI_Irecv", "MPI_Iallreduce", "MPI_Testall"):
        imports[name] = _address(own, name)
    gives_way = hasattr(os, "sched_yield")
    imports["hlo_yield"] = _address(ctypes.CDLL(None), "sched_yield") if gives_way else imports["MPI_Testall"]
    return load(compiled([text], machine, cache=default_cache()), imports), _YIELDS if gives_way else 0


def _address(library: ctypes.CDLL, name: str) -> int:
    return int(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
