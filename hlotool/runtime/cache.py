"""Compiled code on disk, so that the second start of a program compiles nothing.

An entry is one file named by a hash of everything that its content depends on.  Files are written
under another name and then renamed, and carry a checksum of their content: a reader sees a
whole entry or a miss, never a torn one.  The cache is an optimisation and nothing else: an
unreadable, unwritable, full or damaged directory makes things slower, not wrong.  What is read is run: a directory or a
file that belongs to somebody else, or that others may write to, is not touched.

``HLOTOOL_CACHE`` is ``off`` or a directory; the default is ``hlotool`` under ``XDG_CACHE_HOME`` or ``~/.cache``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hlotool.codegen.machine import Machine
from hlotool.runtime.target_machines import SWITCHES
from hlotool.version import __version__

__all__ = [
    "Cache",
    "CacheWarning",
    "Entry",
    "compiler_identity",
    "default_cache",
    "llvm_version",
    "objects_of",
    "pack",
    "text_key",
    "unpack",
]

_MAGIC = b"hlotool object cache 1\n"
_SUFFIX = ".hlo-cache"
_NEW = ".new-"  # how the names of files begin that are being written
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class CacheWarning(RuntimeWarning):
    """A cache is not used: others could put code there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the cache: its key, its bytes, and when it was last used (nanoseconds, as `time.time_ns` counts)."""

    key: str
    size: int
    used: int


@dataclass(frozen=True, slots=True)
class Cache:
    """A directory of entries; the least recently used ones go when it holds more than `limit` bytes."""

    directory: Path
    limit: int = 1 << 30

    def get(self, key: str) -> bytes | None:
        """The content stored under `key`; None when there is none, or it is damaged (it is then removed)."""
        path = self._path(key)
        if not self.is_ours():
            return None
        try:
            with open(os.open(path, os.O_RDONLY | _NO_LINK), "rb") as file:
                if not _ours(os.fstat(file.fileno())):
                    return None
                data = file.read()
        except (OSError, MemoryError):
            return None
        start = len(_MAGIC) + 32
        content = data[start:]
        if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(content).digest() != data[len(_MAGIC) : start]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> bool:
        """Store `content` under `key`; False when the directory does not take it."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.is_ours():
                return False
            handle, name = tempfile.mkstemp(prefix=_NEW, suffix=_SUFFIX, dir=self.directory)
        except (OSError, MemoryError):
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(content).digest())
                file.write(content)
            os.replace(name, self._path(key))
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(name)
            if not isinstance(error, (OSError, MemoryError)):
                raise
            return False
        if key.endswith("0") or len(content) > self.limit // 64:
            self.prune()
        return True

    def remove(self, key: str) -> None:
        """Forget what is stored under `key`, if anything is."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def is_ours(self) -> bool:
        """Whether nobody else may write to the directory (or it is not there); a warning says so once."""
        try:
            status = os.stat(self.directory)
        except OSError:
            return True
        if not _ours(status):
            _warn(self.directory)
            return False
        return True

    def entries(self) -> list[Entry]:
        """What is there, the least recently used first; nothing where the directory cannot be read."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as listing:
            for file in listing:
                if file.name.endswith(_SUFFIX) and not file.name.startswith(_NEW):
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        found.append(Entry(file.name.removesuffix(_SUFFIX), status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda entry: (entry.used, entry.key))

    def prune(self) -> None:
        """Remove entries, the least recently used first, until the cache is at four fifths of its limit."""
        entries = self.entries()
        size = sum(entry.size for entry in entries)
        if size <= self.limit:
            return
        for entry in entries:
            if size <= self.limit * 4 // 5:
                return
            self.remove(entry.key)
            size -= entry.size

    def _path(self, key: str) -> Path:
        return self.directory / (key + _SUFFIX)


def _ours(status: os.stat_result) -> bool:
    """Whether a file or directory is this user's, and nobody else may write to it."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


@cache
def _warn(directory: Path) -> None:
    warnings.warn(
        f"{directory}: others may write to it: nothing is taken from there or kept; chmod go-w, or HLOTOOL_CACHE=DIR",
        CacheWarning,
        stacklevel=2,
    )


def default_cache() -> Cache | None:
    """The cache that the environment asks for; None when it is off or the user has no home."""
    chosen = os.environ.get("HLOTOOL_CACHE", "").strip()
    if chosen.lower() in ("off", "0", "no", "false"):
        return None
    if chosen:
        return Cache(Path(chosen))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Cache(Path(base) / "hlotool")
    try:
        return Cache(Path.home() / ".cache" / "hlotool")
    except RuntimeError:
        return None


def text_key(texts: Sequence[str], machine: Machine) -> str:
    """The key of the objects that `texts` compile to: the texts, the compilers and the instruction set."""
    import llvmlite

    features = sorted(name for name in machine.features.split(",") if name.startswith("+"))
    compiler = [__version__, llvmlite.__version__, llvm_version(), *SWITCHES]
    parts = [*compiler, machine.triple, machine.cpu, ",".join(features), *texts]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()


def objects_of(
    texts: Sequence[str], machine: Machine, directory: Cache | None, make: Callable[[Sequence[str]], list[bytes]]
) -> list[bytes]:
    """The objects of `texts`, one entry of `directory`: from there, else what `make` gives, which is put there."""
    if directory is None:
        return make(texts)
    key = text_key(texts, machine)
    found = directory.get(key)
    if found is not None:
        return unpack(found)
    made = make(texts)
    directory.put(key, pack(made))
    return made


@cache
def compiler_identity() -> str:
    """What turns files into code: our version, our own files (in a checkout they change without a new version), LLVM's
    and NumPy's version."""
    import llvmlite
    import numpy as np

    root = str(Path(__file__).parents[1])
    return repr((__version__, llvmlite.__version__, np.__version__, root, sorted(_sources(root))))


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns


def pack(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as one."""
    return b"".join([struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts)), *parts])


def unpack(data: bytes) -> list[bytes]:
    """The byte strings that `pack` joined."""
    (count,) = struct.unpack_from("<Q", data)
    lengths = struct.unpack_from(f"<{count}Q", data, 8)
    at, parts = 8 * (count + 1), []
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return parts


def llvm_version() -> str:
    """The version of LLVM that makes code."""
    from llvmlite import binding

    return ".".join(map(str, binding.llvm_version_info))
