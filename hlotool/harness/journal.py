"""The journal of a long measurement: a line of JSON as soon as something is known, so that it goes on after a kill.

The first line, the head, says what the journal is of.  A process that is killed leaves whole lines and at most half of
one behind them, which is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hlotool.ir import ExecutionError, InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Journal"]


@dataclass(slots=True)
class Journal:
    """A file, and its `rows` after the head; without a `path` it is kept in memory only.  `Journal.open` makes one.

    Rows can be answers to questions (`answer`), of which so many were `used`.
    """

    path: Path | None
    rows: list[dict[str, Any]]
    used: int = 0

    @classmethod
    def open(
        cls, path: Path | None, about: Mapping[str, Any], anew: str = "remove the file to begin anew"
    ) -> Journal:
        """The journal at `path`, which is begun, with its folder, where it is not there, of what `about` describes.

        InputError where the file is no journal, or that of something else; `anew` tells people how to begin another
        one.  ExecutionError where it cannot be written.
        """
        if path is None:
            return cls(None, [])
        head = json.loads(json.dumps(about))
        try:
            data = path.read_bytes() if path.is_file() else b""
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        whole = data[: data.rfind(b"\n") + 1]
        rows = [_row(path, number, line, anew) for number, line in enumerate(whole.split(b"\n")[:-1], 1)]
        if rows and rows[0] != head:
            differ = sorted(name for name in {*head, *rows[0]} if head.get(name) != rows[0].get(name))
            raise InputError(f"{path} is the journal of something else ({', '.join(differ)}): {anew}")
        try:
            if len(whole) < len(data):
                os.truncate(path, len(whole))
            if not rows:
                path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
        if not rows:
            _append(path, json.dumps(head))
        return cls(path, rows[1:])

    def add(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Write one more line, whole, at once; the row as it will be read.  ExecutionError where the file takes none.
        """
        text = json.dumps(row)
        if self.path is not None:
            _append(self.path, text)
        self.rows.append(json.loads(text))
        return self.rows[-1]

    @property
    def replayed(self) -> bool:
        """Whether the next answer is in the file."""
        return self.used < len(self.rows)

    def answer(self, question: Mapping[str, Any], ask: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The answer to a question: that of the file, or else what `ask` says, which is written to it.

        Who asks the same questions again is where it was when it was cut off: numbers are those that were measured, to
        the last digit.  InputError where the file has the answer to another question here.
        """
        if self.replayed:
            row = self.rows[self.used]
            if row.get("asked") != json.loads(json.dumps(question)) or not isinstance(row.get("answer"), dict):
                raise InputError(
                    f"{self.path}: answer {self.used + 1} is to another question than is asked; remove the file to "
                    "begin anew"
                )
        else:
            row = self.add({"asked": question, "answer": ask()})
        self.used += 1
        found: dict[str, Any] = row["answer"]
        return found

    def remove(self) -> None:
        """Remove the file: what it was kept for is at its end."""
        if self.path is not None and self.path.is_file():
            self.path.unlink()


def _row(path: Path, number: int, line: bytes, anew: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}:{number}: this is no line of a journal: {anew}")
    return found


def _append(path: Path, line: str) -> None:
    try:
        with open(path, "ab", buffering=0) as file:
            file.write(line.encode() + b"\n")
    except OSError as error:
        why = error.strerror or error
        raise ExecutionError(f"cannot write {path}: {why}; started again, it goes on with what it has") from error
