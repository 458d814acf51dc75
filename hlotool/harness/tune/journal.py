"""The journal of a search: what was asked and what the answer was, a line each, written before the search goes on.

A search asks the same questions again when it gets the same answers.  So one that was cut off is done again from the
start, with the answers that the journal has; a line that was cut off is one that was not written.  Numbers that were
measured are taken from it to the last digit: that is what makes the end the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hlotool.ir import ExecutionError, InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Journal"]


@dataclass(slots=True)
class Journal:
    """The answers of a file, of which so many were `used`; None for a search that is not kept.

    `open_journal` makes one.  Of another search (`head` tells) it is an InputError.
    """

    path: Path | None
    lines: list[dict[str, Any]]
    used: int = 0

    @classmethod
    def open(cls, path: Path | None, head: dict[str, Any]) -> Journal:
        """The journal in a file, which is begun where there is none."""
        journal = cls(path, [])
        if path is None:
            return journal
        try:
            data = path.read_bytes() if path.is_file() else b""
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        whole = data[: data.rfind(b"\n") + 1]
        rows = [_row(line) for line in whole.decode("utf-8", "replace").splitlines()]
        if None in rows:
            place = rows.index(None) + 1
            raise InputError(f"{path}:{place}: this is no line of a journal; remove the file to begin anew")
        if rows and rows[0] != json.loads(json.dumps({"head": head})):
            raise InputError(f"{path} is the journal of another search; remove it, or name another one with --journal")
        if len(whole) < len(data):  # the last line was cut off
            try:
                os.truncate(path, len(whole))
            except OSError as error:
                raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
        if not rows:
            journal._write({"head": head})
        journal.lines = [row for row in rows[1:] if row is not None]
        return journal

    @property
    def replayed(self) -> bool:
        """Whether the next answer is in the file."""
        return self.used < len(self.lines)

    def answer(self, question: dict[str, Any], ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The answer to a question: that of the file, or else what `ask` says, which is written to it."""
        asked = json.loads(json.dumps(question))
        if self.replayed:
            row = self.lines[self.used]
            if row.get("asked") != asked:
                where = f"{self.path}: answer {self.used + 1}"
                raise InputError(f"{where} is to another question than the search asks; remove the file to begin anew")
        else:
            row = json.loads(json.dumps({"asked": asked, "answer": ask()}))
            self._write(row)
            self.lines.append(row)
        self.used += 1
        found: dict[str, Any] = row["answer"]
        return found

    def remove(self) -> None:
        """Remove the file: the search is at its end."""
        if self.path is not None and self.path.is_file():
            self.path.unlink()

    def _write(self, row: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with open(self.path, "ab", buffering=0) as file:
                file.write(json.dumps(row).encode() + b"\n")
        except OSError as error:
            why = error.strerror or error
            raise ExecutionError(f"cannot write {self.path}: {why}; started again, the search goes on") from error


def _row(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
