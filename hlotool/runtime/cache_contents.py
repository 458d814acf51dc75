"""Looking into a cache: what is there, why something is not, and making room.  Everything here is safe while others use
the cache: an entry is there as a whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import Cache, Entry
from hlotool.runtime.cache_key import About, Key

__all__ = ["Answer", "Difference", "contents", "prune", "why"]

_UNFINISHED = 3_600_000_000_000
"""Nanoseconds after which nobody is still writing a file."""

_SAME = {"program": ("file", "content"), "code": ("text",)}
"""Of each kind of entry, the parts of which one at least must be equal in an entry that is near."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a key that an entry has with another value; None where one of the two lacks it."""

    part: str
    cached: str | None
    wanted: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether there is an entry under a key (`hit`), the entry, else the nearest one, and how that differs."""

    hit: bool
    entry: Entry | None = None
    about: About | None = None
    differences: tuple[Difference, ...] = ()


def contents(cache: Cache) -> list[tuple[Entry, About | None]]:
    """All entries, the least recently used first, with what they say of themselves (None: nothing that is known)."""
    return [(entry, cache.about(entry.key)) for entry in cache.entries()]


def why(cache: Cache, key: Key, known: Sequence[tuple[Entry, About | None]] | None = None) -> Answer:
    """Whether `key` is there; if not, which entry is nearest, and what differs.

    Near is what is of the same file or text; nearest what differs in the fewest parts, and of those the one that was
    used last.  `known` are the `contents`, where they were asked for already.
    """
    digest, wanted = key.digest, key.about
    known = contents(cache) if known is None else known
    if cache.has(digest):
        return Answer(True, next((entry for entry, _ in known if entry.key == digest), None), cache.about(digest))
    nearest: Answer | None = None
    for entry, about in reversed(known):
        if about is None or about.kind != wanted.kind or not _is_near(about, wanted):
            continue
        found = Answer(False, entry, about, _differences(about.parts, wanted.parts))
        if nearest is None or len(found.differences) < len(nearest.differences):
            nearest = found
    return nearest or Answer(False)


def _is_near(about: About, wanted: About) -> bool:
    return any(about.parts.get(part) == wanted.parts.get(part) for part in _SAME.get(wanted.kind, ()))


def _differences(cached: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[Difference, ...]:
    names = dict.fromkeys([*wanted, *cached])
    pairs = [Difference(name, cached.get(name), wanted.get(name)) for name in names]
    return tuple(pair for pair in pairs if pair.cached != pair.wanted)


def prune(
    cache: Cache, *, max_size: int | None = None, older_than: float | None = None, dry_run: bool = False
) -> list[Entry]:
    """Remove entries that were not used for `older_than` seconds, then the least recently used ones until no more than
    `max_size` bytes are left, and what somebody began to write hours ago; what was removed, or would be (`dry_run`)."""
    now = time.time_ns()
    entries = cache.entries()
    doomed = [entry for entry in entries if older_than is not None and now - entry.used > older_than * 1e9]
    size = sum(entry.size for entry in entries) - sum(entry.size for entry in doomed)
    for entry in entries[len(doomed) :] if max_size is not None else ():
        if size <= (max_size or 0):
            break
        doomed.append(entry)
        size -= entry.size
    if dry_run:
        return doomed
    cache.remove_unfinished(now - _UNFINISHED)
    return _removed(cache, doomed)


def _removed(cache: Cache, entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if cache.remove(entry.key)]
