"""Writing what was found to a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from hlotool.codegen.choices import FORMULAS
from hlotool.codegen.configured import checked
from hlotool.driver.tuned import HEAD, VERSION, Database, Entry, Wanted, line_of, read_database
from hlotool.harness.tune.search import Found

__all__ = ["add_entries", "entry_for", "text_of"]


def entry_for(found: Found, target: str) -> Entry:
    """The entry of what a search found on a target."""
    subject, values = found.subject, dict(found.values)
    costs = {name: bool(value) if name == "prologues" else value for name, value in values.items()}
    return Entry(
        scope="module" if subject.is_module else "kernel", key=subject.key, target=target, version=VERSION,
        about=subject.about, choices=FORMULAS if subject.is_module else checked(values, subject.about),
        costs=costs if subject.is_module else {}, gain=round(found.gain, 4), seconds=found.seconds, exact=found.exact,
    )  # fmt: skip


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
