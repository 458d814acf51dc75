"""Writing what was found to a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from hlotool.driver.tuned import HEAD, Database, Entry, Wanted, line_of, read_database

__all__ = ["add_entries", "text_of"]


def text_of(entries: Iterable[Entry], wanted: Iterable[Wanted] = ()) -> str:
    """A database as the text of a file: sorted, so that the same entries are the same bytes."""
    rows = [line_of(one) for one in sorted(entries, key=lambda entry: (entry.target, *entry.place))]
    rows += [line_of(one) for one in sorted(wanted, key=lambda one: (one.target, one.key))]
    return "".join(f"{row}\n" for row in [json.dumps(HEAD), *rows])


def add_entries(
    path: Path, entries: Iterable[Entry], write: Callable[[Path, str], object], better: bool = False
) -> Database:
    """Put entries into a database, by `write`; what was there of the same kernels and targets goes, or with `better`
    only where the new one gains more.  Kernels that have an entry then are no longer wanted."""
    before = read_database(path) if path.exists() else Database({}, {}, ())
    found = dict(before.entries)
    for entry in entries:
        old = found.get(entry.place)
        if not better or old is None or entry.gain > old.gain:
            found[entry.place] = entry
    done = {(entry.key, entry.target) for entry in found.values()}
    wanted = {place: one for place, one in before.wanted.items() if place not in done}
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text_of(found.values(), wanted.values()))
    return Database(found, wanted, before.notes)
