"""What the system lets this process use: the limits of its control groups, and of its own.

See "Control Group v2" and "Control Groups version 1" in the Linux kernel's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["address_space_limit", "cpu_limit", "keep_no_core", "memory_limit"]

_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 writes a number near the largest one for none."""


def cpu_limit(root: Path = _ROOT, own: Path = _OWN) -> float | None:
    """How many processors' worth of time the control groups allow; None where they do not say, or set no limit."""
    found: list[float] = []
    for folder in _folders("cpu", root, own):
        quota, *period = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") or [""]
        period = period or _words(folder / "cpu.cfs_period_us") or [""]
        if quota.isdecimal() and period[0].isdecimal() and int(period[0]):
            found.append(int(quota) / int(period[0]))
    return min(found, default=None)


def memory_limit(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """How many bytes the control groups allow; None where they do not say, or set no limit."""
    found: list[int] = []
    for folder in _folders("memory", root, own):
        (text, *_) = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes") or [""]
        if text.isdecimal() and int(text) < _NO_LIMIT:
            found.append(int(text))
    return min(found, default=None)


def address_space_limit() -> int | None:
    """Bytes of address space that this process may have (``ulimit -v``); None for no limit."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return None

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def keep_no_core() -> None:
    """Have the system write no file of this process when it dies."""
    try:
        import resource
    except ImportError:  # a system that writes none
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _folders(controller: str, root: Path, own: Path) -> Iterator[Path]:
    """The folders of the control groups that this process is in, of version 2 or of `controller`, up to the root."""
    try:
        rows = [line.split(":", 2) for line in own.read_text("utf-8").splitlines()]
    except OSError:
        return
    for row in rows:
        if len(row) < 3 or (row[1] and controller not in row[1].split(",")):
            continue
        top = root / controller if row[1] else root
        inside = top / row[2].lstrip("/")
        for folder in (inside, *inside.parents):
            if folder.is_dir():
                yield folder
            if folder == top:
                break


def _words(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").split()
    except (OSError, UnicodeDecodeError):
        return []
