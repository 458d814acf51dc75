"""A lab for searches whose answers hang on the question alone, so that two searches can be held against each other.

    python tests/fake_lab.py JOURNAL DATABASE SECONDS    a search, in which every answer takes so long
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hlotool.driver.tuned import VERSION, Entry
from hlotool.harness.tune import Budget, Journal, Plan, Subject, add_entries, search
from hlotool.harness.tune.lab import Lab
from hlotool.harness.tune.trial import Check, Race
from hlotool.inspect.files import write_file

SUBJECTS = [
    Subject(kind="product", key=f"key{number}", about=f"dot f32[{number}]", text="", seconds=1.0 / (1 + number))
    for number in range(4)
]


def share(*words: object) -> float:
    """A number from 0 to 1 that hangs on the words alone."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:4], "big") / 2**32


class FakeLab(Lab):
    """Some candidates crash, some hang, some are wrong; others are up to a third quicker than what they start from."""

    def __init__(self, wait: float = 0.0) -> None:
        self.wait, self.asked = wait, 0

    def distinct(
        self, subject: Subject, changes: Sequence[tuple[str, int]], beside: Any
    ) -> list[tuple[str, int]]:
        self._take()
        return [change for change in changes if share(change) < 0.4]

    def check(self, subject: Subject, candidates: Sequence[Any]) -> list[Check | str]:
        self._take()
        found: list[Check | str] = []
        for one in candidates:
            drawn = share(subject.key, sorted(one.items()))
            answers = ["crashed: the process died of signal 11", "hung: longer than 1 s", Check("wrong", "MISMATCH")]
            found.append(answers[int(drawn * 30)] if drawn < 0.1 else Check("ok", exact=drawn > 0.5))
        return found

    def race(self, subject: Subject, best: Any, candidate: Any, seconds: float, seed: int) -> Race | str:
        self._take()
        ratio = self._time(subject, candidate) / self._time(subject, best)
        return Race(ratio, ratio * 0.999, ratio * 1.001, self._time(subject, best), 9)

    def _take(self) -> None:
        self.asked += 1
        time.sleep(self.wait)

    def _time(self, subject: Subject, values: Any) -> float:
        found = subject.seconds
        for change in values.items():
            found *= 0.85 + 0.3 * share(subject.key, change)
        return found


def entries(found: Sequence[Any]) -> list[Entry]:
    from hlotool.codegen.configured import checked

    return [
        Entry(
            scope="kernel", key=one.subject.key, target="here", version=VERSION, about=one.subject.about,
            choices=checked(dict(one.values), ""), costs={}, gain=one.gain, seconds=one.seconds, exact=one.exact,
        )
        for one in found
    ]  # fmt: skip


def main() -> None:
    journal, database, wait = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    lab = FakeLab(wait)
    result = search(SUBJECTS, lab, Budget(trials=100), Plan(seed=3), Journal.open(journal, {"seed": 3}))
    add_entries(database, entries(result.found), write_file)
    print(lab.asked)


if __name__ == "__main__":
    main()
