"""The operating system that this process is on: what it can be asked, and which twin of the runtime's parts is used.

Nothing else in hlotool looks at what system this is.  On Linux native code sleeps on futexes, asks for huge pages and
for tile registers.  Everywhere else it does with what Python brings to every system (`hlotool.runtime.parts`): that is
the portable twin, which ``HLOTOOL_PORTABLE=1`` takes on Linux, too, with calls that go through ctypes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Name", "System", "cache_bytes", "caches_in", "locked", "may_use_tiles", "memory_bytes", "processor_numbers",
    "processors", "system", "wait_for_parent",
]  # fmt: skip

Name: TypeAlias = Literal["linux", "darwin", "windows", "other"]


@dataclass(frozen=True, slots=True)
class System:
    """A system by `name`; it is taken for one that hlotool knows nothing of where the environment has `forced` that."""

    name: Name
    forced: bool = False

    @property
    def portable(self) -> bool:
        """Whether native code has threads, sleep, a clock and memory from Python, not from the system itself."""
        return self.forced or self.name != "linux"

    @property
    def plain_calls(self) -> bool:
        """Whether executables are called through ctypes, not by native code that reads arrays of NumPy."""
        return self.forced

    @property
    def suffix(self) -> str:
        """What the triple of code that this process loads ends with.  On Windows it is the format of objects: LLVM's
        linker in the process places those in ELF wherever they lie, but tables for unwinding in COFF only below 4 GiB,
        and COFF for aarch64 not at all."""
        return "-elf" if self.name == "windows" else ""


def system() -> System:
    """The system that this process is on; ValueError where ``HLOTOOL_PORTABLE`` says neither 0 nor 1."""
    names: dict[str, Name] = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
    name = names.get(sys.platform, "other")
    text = os.environ.get("HLOTOOL_PORTABLE", "").strip()
    if text not in ("", "0", "1"):
        raise ValueError(f"HLOTOOL_PORTABLE={text!r}: expected 0 or 1")
    return System(name, text == "1")


def processors() -> int:
    """Processors that this process may run on."""
    return len(processor_numbers())


def processor_numbers() -> frozenset[int]:
    """Their numbers."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cache_bytes() -> dict[str, int]:
    """Bytes of the data caches of one processor: ``l1``, ``l2`` and ``l3``, those that the system tells."""
    here = system()
    if here.forced:
        return {}
    known = {"linux": _caches_of_linux, "darwin": _caches_of_darwin, "windows": _caches_of_windows}
    return known.get(here.name, dict)()


def _caches_of_linux() -> dict[str, int]:
    found: dict[str, int] = {}
    for index in range(8):
        folder = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}")
        try:
            level, kind, size = ((folder / name).read_text("ascii").strip() for name in ("level", "type", "size"))
        except OSError:
            break
        if kind != "Instruction" and level in ("1", "2", "3") and size[:-1].isdecimal() and size.endswith("K"):
            found[f"l{level}"] = int(size[:-1]) << 10
    return found


def _caches_of_darwin() -> dict[str, int]:
    """Those of the fast cores, where cores differ: ``sysctl hw.perflevel0``; else ``sysctl hw``.  The fast cores of a
    cluster have one L2 cache together."""
    import ctypes

    def asked(name: str) -> int:
        value, size = ctypes.c_int64(), ctypes.c_size_t(8)
        failed = sysctl(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
        return 0 if failed else value.value

    try:
        sysctl: Any = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError, TypeError):
        return {}
    found = {f"l{n}": asked(f"hw.perflevel0.{name}") or asked(f"hw.{name}") for n, name in enumerate(_SYSCTL, 1)}
    found["l2"] //= max(1, asked("hw.perflevel0.cpusperl2"))
    return {level: size for level, size in found.items() if size > 0}


_SYSCTL = ("l1dcachesize", "l2cachesize", "l3cachesize")


def _caches_of_windows() -> dict[str, int]:
    """What GetLogicalProcessorInformationEx tells of RelationCache (2)."""
    import ctypes

    try:
        ask: Any = ctypes.CDLL("kernel32").GetLogicalProcessorInformationEx
    except (AttributeError, OSError):
        return {}
    size = ctypes.c_uint32(0)
    ask(2, None, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    return caches_in(room.raw[: size.value]) if ask(2, room, ctypes.byref(size)) else {}


def caches_in(data: bytes) -> dict[str, int]:
    """The caches in records SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX: the relationship (2 is a cache) and the size of
    the record, 32 bits each; then level and associativity, bytes; the size of a line, 16 bits; that of the cache, and
    its type, 32 bits: 0 for all, 2 for data."""
    found: dict[str, int] = {}
    at = 0
    while at + 20 <= len(data):
        relationship, length = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (0, 4))
        level, size, kind = data[at + 8], *(int.from_bytes(data[at + n : at + n + 4], "little") for n in (12, 16))
        if relationship == 2 and kind in (0, 2) and 1 <= level <= 3:
            found.setdefault(f"l{level}", size)
        at += max(length, 20)
    return found


def may_use_tiles() -> bool:
    """Ask the system to let this process use tile registers (AMX); they are off until then.

    See "Using XSTATE features in user space applications" in the Linux kernel's documentation.
    """
    import ctypes

    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    if system().portable or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    arguments = (ctypes.c_long(number) for number in (arch_prctl, request_permission, tile_data))
    return bool(call(*arguments) == 0)


def memory_bytes() -> int | None:
    """Bytes of memory that the machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _memory_of_windows() if system().name == "windows" else None


def _memory_of_windows() -> int | None:
    """What GlobalMemoryStatusEx tells: a structure of 64 bytes, which begins with its own size."""
    import ctypes

    try:
        status = (ctypes.c_uint64 * 8)(64)
        return int(status[1]) if ctypes.CDLL("kernel32").GlobalMemoryStatusEx(status) else None
    except (AttributeError, OSError):
        return None


def wait_for_parent(parent: int, every: float) -> None:
    """Return when the process `parent`, which started this one, has ended: an orphan gets another parent, at which this
    looks `every` so many seconds.  On Windows it does not, but a process can be waited for."""
    import time

    if system().name == "windows":
        import ctypes

        kernel: Any = ctypes.CDLL("kernel32")
        kernel.OpenProcess.restype = ctypes.c_void_p
        kernel.WaitForSingleObject.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        synchronize, forever = 0x00100000, 0xFFFFFFFF
        handle = kernel.OpenProcess(synchronize, False, parent)
        if handle:
            kernel.WaitForSingleObject(handle, forever)
        return
    while os.getppid() == parent:
        time.sleep(every)


def locked(file: int) -> bool:
    """Lock an open file (its descriptor) against all others who do so; False where one of them has it.  It is free
    again once it is closed, or its process ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
