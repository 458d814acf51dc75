"""What a study has measured already: a file of JSON lines, one more for each part that is done.

The first line says what the study is of.  A process that is killed leaves whole lines and at most half of one behind
them, which is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hlotool.ir import ExecutionError, InputError

__all__ = ["Journal"]


class Journal:
    """The file `path` of the study that `about` describes; `rows` are the values that were added, in that order.

    InputError where the file is that of another study, or none; ExecutionError where it cannot be written.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self._path = path
        head = json.loads(json.dumps(about))
        lines = self._lines()
        if lines and lines[0] != head:
            differs = sorted(
                name for name in {*head, *lines[0]} if head.get(name) != lines[0].get(name)
            )  # fmt: skip
            raise InputError(
                f"{path} is of another study: {', '.join(differs)} differ; choose another folder, or --restart"
            )
        self.rows: list[dict[str, Any]] = lines[1:]
        self._write_all([head, *self.rows])

    def add(self, row: Mapping[str, Any]) -> None:
        """One more line, on the disk when this returns."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ExecutionError(f"cannot write {self._path}: {error.strerror or error}") from error
        self.rows.append(json.loads(json.dumps(row)))

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = self._path.read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {self._path}: {error}") from error
        whole = text[: text.rfind("\n") + 1].splitlines()
        try:
            found = [json.loads(line) for line in whole]
        except ValueError as error:
            raise InputError(f"{self._path} is no journal of a study: {error}") from error
        if not all(isinstance(line, dict) for line in found):
            raise InputError(f"{self._path} is no journal of a study: a line is not an object")
        return found

    def _write_all(self, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, "utf-8")
            os.replace(temporary, self._path)
        except OSError as error:
            raise ExecutionError(f"cannot write {self._path}: {error.strerror or error}") from error
