"""The journal of a search: what was measured, a line of JSON each, so that a search that was stopped goes on.

The first line says what search it is: the modules, the space, what was asked for.  A last line without its end is what
a process was writing when it died; it is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hlotool.harness.application.measure import Result, result_of
from hlotool.harness.application.space import Configuration, configuration_of
from hlotool.ir import ExecutionError, InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Entry", "Journal", "open_journal"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A measurement, and the seconds that it took of the budget."""

    configuration: Configuration
    result: Result
    seconds: float


@dataclass(frozen=True, slots=True)
class Journal:
    """A file, and what was in it when it was opened."""

    path: Path
    entries: tuple[Entry, ...]

    def add(self, entry: Entry) -> None:
        """Write a line, whole, at once."""
        row = {
            "configuration": entry.configuration.json(), "result": entry.result.json(),
            "seconds": round(entry.seconds, 3),
        }  # fmt: skip
        _append(self.path, json.dumps(row) + "\n")


def open_journal(path: Path, about: Mapping[str, Any]) -> Journal:
    """The journal at `path`, which is made if it is not there, of the search that `about` describes.

    InputError for one of another search, or that is none.
    """
    header = json.loads(json.dumps({"schema_version": _VERSION, "kind": "optimise-app-journal", **about}))
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        data = b""
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    whole, end, _ = data.rpartition(b"\n")
    if not end:
        _replace(path, json.dumps(header) + "\n")
        return Journal(path, ())
    rows = list(_rows(path, whole))
    if rows[0] != header:
        raise InputError(
            f"{path} is the journal of another search: other modules, options or version; --restart begins anew"
        )
    entries = []
    for row in rows[1:]:
        try:
            entries.append(Entry(configuration_of(row["configuration"]), result_of(row["result"]), row["seconds"]))
        except (KeyError, TypeError) as error:
            raise InputError(f"{path}: a line that is no measurement: {error}") from None
    if len(data) > len(whole) + 1:
        _replace(path, whole.decode() + "\n")
    return Journal(path, tuple(entries))


def _rows(path: Path, data: bytes) -> Iterator[Any]:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            yield json.loads(line)
        except ValueError:
            raise InputError(f"{path}:{number}: no line of JSON; --restart begins anew") from None


def _append(path: Path, text: str) -> None:
    try:
        with open(path, "ab") as file:
            file.write(text.encode())
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error


def _replace(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
