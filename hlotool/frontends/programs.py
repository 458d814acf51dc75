"""What a front end compiled, what fell back, and why: the records that its ``explain()`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

from hlotool.lazy_dataclass import dataclass

__all__ = ["Program", "Programs"]

_MOST = 10_000  # records that are kept, the newest


@dataclass(slots=True)
class Program:
    """One program that came in.

    `signature` says what it takes and gives.  `reason` is why it fell back, empty where it was compiled; `note` is
    anything else that is worth knowing.  Times are in seconds; `runs` and `run_seconds` count as far as the front end
    does; where only some of the runs are timed, `timed` says how many.
    """

    name: str
    signature: str = ""
    reason: str = ""
    note: str = ""
    compile_seconds: float = 0.0
    runs: int = 0
    run_seconds: float = 0.0
    timed: int | None = None

    @property
    def compiled(self) -> bool:
        """Whether it runs as code of hlotool's."""
        return not self.reason

    @property
    def seconds_each(self) -> float | None:
        """How long a run takes, on average; None where that is not known."""
        timed = self.runs if self.timed is None else self.timed
        return self.run_seconds / timed if timed and self.run_seconds else None

    def as_json(self) -> dict[str, Any]:
        """The record for ``json.dumps``."""
        return {
            "name": self.name, "signature": self.signature, "compiled": self.compiled, "reason": self.reason,
            "note": self.note, "compile_seconds": self.compile_seconds, "runs": self.runs,
            "run_seconds": self.run_seconds, "seconds_each": self.seconds_each,
        }  # fmt: skip


class Programs:
    """The records of one front end, oldest first; its text is the table that people read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._programs: list[Program] = []

    def add(self, program: Program) -> Program:
        """Keep a record, which may be changed later."""
        with self._lock:
            self._programs.append(program)
            del self._programs[:-_MOST]
        return program

    def clear(self) -> None:
        """Forget all records."""
        with self._lock:
            self._programs.clear()

    def __iter__(self) -> Iterator[Program]:
        return iter(tuple(self._programs))

    def __len__(self) -> int:
        return len(self._programs)

    def as_json(self) -> list[dict[str, Any]]:
        """All records for ``json.dumps``."""
        return [program.as_json() for program in self]

    def __str__(self) -> str:
        programs = list(self)
        if not programs:
            return "no program has come in yet"
        lines = [f"{sum(program.compiled for program in programs)} of {len(programs)} programs compiled"]
        for program in programs:
            lines.append(f"  {program.name} {program.signature}".rstrip())
            took = f"compiled in {_time(program.compile_seconds)}"
            said = took if program.compiled else f"fell back: {program.reason}"
            if program.runs:
                said += f"; {program.runs:,} runs"
                each = program.seconds_each
                said += f", {_time(each)} each" if each is not None else ""
            lines.append(f"    {said}")
            if program.note:
                lines.append(f"    {program.note}")
        return "\n".join(lines)

    __repr__ = __str__


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
