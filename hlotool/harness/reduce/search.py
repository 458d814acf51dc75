"""Which edits can be made together, so that the failure is still there: the search, in parallel.

Candidates are tried several at a time, and the first in order that fails is taken, so that the result is the same on
any number of processes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeVar

from hlotool.harness.children import Children, outcome_of
from hlotool.harness.failure import Outcome, Sought
from hlotool.harness.jobs import Jobs
from hlotool.harness.reduce.draft import Draft, Edit, EditFailed
from hlotool.ir import HloError, Module
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_module

__all__ = ["OutOfTime", "Search", "Step", "Strategy"]


_T = TypeVar("_T")

_FIRST_FEW = 4
"""So many edits that are tried alone, while the module is large."""

_LEAST_SECONDS, _PATIENCE = 5.0, 8.0
"""How long a trial may take: so many seconds, or so many times what the last one took that failed."""


class OutOfTime(Exception):  # noqa: N818
    """The time for the whole search is over."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """Edits of one kind, in the order in which they lie in the module.

    Of those that are `alone` one is tried at a time; of the others many at once, and then fewer.
    """

    name: str
    edits: Callable[[Module], Sequence[Edit]]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """How far a search has come: the module in `text`, made smaller by `strategy`, after so many `trials`."""

    text: str
    instructions: int
    strategy: str
    trials: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The module that the chunk of this number makes."""

    number: int
    module: Module
    text: str
    digest: bytes


@dataclass(slots=True)
class Search:
    """A search from `module`, whose text is `text`, for the failure of `sought`.

    `width` trials run at a time on `executor`.  `seen` hears of each step, and of each trial with `text` unchanged.
    `end` is the time (of `time.monotonic`) at which OutOfTime is raised.  If it may `adapt`, smaller modules get less
    time.
    """

    module: Module
    text: str
    sought: Sought
    executor: Executor
    width: int
    seen: Callable[[Step], None]
    end: float | None
    adapt: bool
    trials: int
    tried: set[bytes]
    changed: bool = False

    def apply(self, strategy: Strategy, smallest: float) -> bool:
        """Make as many edits of a strategy as can be, in chunks of at least the share `smallest` of them; whether any
        could."""
        changed = False
        few = _FIRST_FEW if strategy.alone and smallest else None
        edits = list(strategy.edits(self.module))[:few]
        size = 1 if strategy.alone else len(edits)
        floor = 1 if strategy.alone else max(1, int(len(edits) * smallest))
        while edits and size >= floor:
            refused: set[tuple[str, ...]] = set()
            while True:
                pending = [edit for edit in edits if edit.key not in refused]
                chunks = [pending[at : at + size] for at in range(0, len(pending), size)]
                number = self._first(strategy, chunks)
                refused.update(edit.key for chunk in chunks[:number] for edit in chunk)
                if number is None:
                    break
                changed = True
                edits = list(strategy.edits(self.module))[:few]
            if size == 1:
                break
            size = min((size + 1) // 2, max(1, len(edits)))
        return changed

    def accept(self, module: Module, text: str, strategy: str) -> None:
        """Go on from here."""
        self.module, self.text, self.changed = module, text, True
        self.seen(self._step(strategy))

    def outcome(self, future: Future[Outcome]) -> Outcome:
        """What a trial answered; OutOfTime when the time is over before it does."""
        self._await(future)
        return self.sought.judged(outcome_of(future))

    def wait(self, future: Future[_T]) -> _T:
        """What a job gave; OutOfTime as above."""
        self._await(future)
        return future.result()

    def _await(self, future: Future[Any]) -> None:
        left = None if self.end is None else max(0.0, self.end - time.monotonic())
        if wait([future], left).not_done:
            raise OutOfTime

    def _first(self, strategy: Strategy, chunks: Sequence[Sequence[Edit]]) -> int | None:
        """The number of the first chunk that can be made, which is then made."""
        candidates = self._candidates(chunks)
        running: deque[tuple[_Candidate, Future[Outcome], float]] = deque()
        try:
            while True:
                while len(running) < self.width and (made := next(candidates, None)) is not None:
                    running.append((made, self.executor.submit(self.sought, made.text), time.monotonic()))
                if not running:
                    return None
                candidate, future, begin = running.popleft()
                verdict = self.outcome(future).verdict
                self.trials += 1
                self.tried.add(candidate.digest)
                if verdict == "bad":
                    self._limit(time.monotonic() - begin)
                    self.accept(candidate.module, candidate.text, strategy.name)
                    return candidate.number
                self.seen(self._step(strategy.name))
        finally:
            for _, future, _ in running:
                future.cancel()

    def _candidates(self, chunks: Sequence[Sequence[Edit]]) -> Iterator[_Candidate]:
        for number, chunk in enumerate(chunks):
            if self.end is not None and time.monotonic() > self.end:
                raise OutOfTime
            draft = Draft(self.module)
            made = 0
            for edit in chunk:
                with suppress(EditFailed):
                    edit.apply(draft)
                    made += 1
            if not made:
                continue
            try:
                module = draft.finish()
                check(module)
                text = print_module(module)
            except (EditFailed, HloError):
                continue
            digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
            if digest not in self.tried and text != self.text:
                yield _Candidate(number, module, text, digest)

    def _limit(self, seconds: float) -> None:
        """Smaller modules get less time: one that takes much longer than what it was made from never ends."""
        if self.adapt and isinstance(self.executor, (Children, Jobs)):
            self.executor.allow(max(_LEAST_SECONDS, _PATIENCE * seconds))

    def _step(self, strategy: str) -> Step:
        return Step(self.text, self.module.instruction_count(), strategy, self.trials)
