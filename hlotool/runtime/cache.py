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
import re
import struct
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache_key import About, Key, about_from_bytes
from hlotool.runtime.promotion import PASSES
from hlotool.runtime.target_machines import SWITCHES
from hlotool.version import __version__

__all__ = [
    "Cache",
    "CacheWarning",
    "Entry",
    "code_key",
    "compiler_identity",
    "default_cache",
    "llvm_version",
    "objects_of",
    "pack",
    "unpack",
]

_MAGIC = b"hlotool object cache 2\n"
_START = len(_MAGIC) + 32
"""Behind the checksum of all that follows: the length of what an entry says of itself, that, and its content."""
_LARGEST_ABOUT = 1 << 16
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
        sound = data[: len(_MAGIC)] == _MAGIC and len(data) >= _START + 4
        if not sound or hashlib.sha256(memoryview(data)[_START:]).digest() != data[len(_MAGIC) : _START]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return data[_START + 4 + int.from_bytes(data[_START : _START + 4], "little") :]

    def about(self, key: str) -> About | None:
        """What the entry under `key` says of itself; None when there is none, or it says nothing."""
        try:
            with open(os.open(self._path(key), os.O_RDONLY | _NO_LINK), "rb") as file:
                data = file.read(_START + 4)
                length = int.from_bytes(data[_START:], "little")
                if data[: len(_MAGIC)] != _MAGIC or length > _LARGEST_ABOUT:
                    return None
                return about_from_bytes(file.read(length))
        except OSError:
            return None

    def has(self, key: str) -> bool:
        """Whether there is an entry under `key`, which stays as recently used as it was."""
        return self.is_ours() and self._path(key).is_file()

    def put(self, key: str, content: bytes, about: bytes = b"") -> bool:
        """Store `content` under `key`, with what `about` says of it; False when the directory does not take it."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.is_ours():
                return False
            handle, name = tempfile.mkstemp(prefix=_NEW, suffix=_SUFFIX, dir=self.directory)
        except (OSError, MemoryError):
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                said = len(about).to_bytes(4, "little") + about
                digest = hashlib.sha256(said)
                digest.update(content)
                file.write(_MAGIC + digest.digest() + said)
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

    def remove(self, key: str) -> bool:
        """Forget what is stored under `key`, if anything is; False where the directory does not let it go.

        Who reads it meanwhile still has all of it."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def remove_unfinished(self, before: int) -> None:
        """Remove what somebody began to write before a time (as `time.time_ns` counts) and never finished."""
        with contextlib.suppress(OSError), os.scandir(self.directory) as listing:
            for file in listing:
                if file.name.startswith(_NEW) and file.name.endswith(_SUFFIX):
                    with contextlib.suppress(OSError):
                        if file.stat(follow_symlinks=False).st_mtime_ns < before:
                            os.unlink(file.path)

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

    def is_empty(self) -> bool:
        """Whether nothing is there, as far as can be seen."""
        try:
            with os.scandir(self.directory) as listing:
                return next(listing, None) is None
        except OSError:
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


def code_key(texts: Sequence[str], machine: Machine) -> Key:
    """The key of the objects that `texts` compile to: the texts, the compilers and the instruction set."""
    import llvmlite

    features = sorted(name for name in machine.features.split(",") if name.startswith("+"))
    parts = {
        "hlotool": __version__, "llvmlite": llvmlite.__version__, "LLVM": llvm_version(),
        "switches": " ".join((*SWITCHES, *PASSES)), "triple": machine.triple, "cpu": machine.cpu,
        "features": ",".join(features),
        "text": "".join(f"{len(text)} {text}" for text in texts),
    }  # fmt: skip
    first = _DEFINED.search(texts[0]) if texts else None
    more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return Key("code", f"{first[1]}{more}" if first is not None else "", parts)


_DEFINED = re.compile(r"^define [^@\n]*@([^(\s]+)\(", re.MULTILINE)


def objects_of(
    texts: Sequence[str], machine: Machine, directory: Cache | None, make: Callable[[Sequence[str]], list[bytes]]
) -> list[bytes]:
    """The objects of `texts`, one entry of `directory`: from there, else what `make` gives, which is put there."""
    if directory is None:
        return make(texts)
    key = code_key(texts, machine)
    digest = key.digest
    found = directory.get(digest)
    if found is not None:
        return unpack(found)
    made = make(texts)
    directory.put(digest, pack(made), key.about_bytes())
    return made


@cache
def compiler_identity() -> Mapping[str, str]:
    """What turns files into code: our version, our own files (in a checkout they change without a new version), LLVM's
    and NumPy's version."""
    import llvmlite
    import numpy as np

    root = str(Path(__file__).parents[1])
    files = hashlib.sha256("\n".join(sorted(_sources(root))).encode()).hexdigest()
    numpy = np.__version__
    return {"hlotool": __version__, "folder": root, "sources": files, "llvmlite": llvmlite.__version__, "numpy": numpy}


def _sources(root: str) -> list[str]:
    """The path of every file of Python in a folder, with its size and the time when it was written."""
    found, folders = [], [root]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(".py"):
                    status = entry.stat()
                    found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
                elif name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return found


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
