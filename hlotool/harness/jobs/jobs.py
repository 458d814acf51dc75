"""Jobs on an executor: sent, sent again where a worker is lost, and remembered.

A job is a call of a function of hlotool, which gives the same answer wherever, and however often, it is made; so the
results depend neither on the executor nor on the order in which they come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, ParamSpec, TypeVar

from hlotool.harness.children import ChildDied, TimeLimit
from hlotool.harness.jobs.codec import Contents, digest_of, packed, unpacked, unpacked_error
from hlotool.harness.jobs.executors import Pool
from hlotool.harness.jobs.worker import build, do
from hlotool.harness.journal import Journal
from hlotool.ir import ExecutionError, HloError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Jobs", "WorkerLost"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_ATTEMPTS = 3
"""How often a job is sent before it counts as one that loses its workers."""
_GRACE = 60.0
"""Seconds beyond the time limit of a job in which a worker has to answer."""


class WorkerLost(ExecutionError):  # noqa: N818
    """Those that were to do a job went away, or said nothing."""


@dataclass(slots=True)
class _Job:
    """A job: its request, the contents that it needs, and the `future` that its caller waits for.

    `sent` counts how often it was given to the executor, `died` how often the process that did it ended; `on_its_way`
    is the executor's own future, while there is one.
    """

    digest: str
    request: str
    contents: Contents
    future: Future[Any]
    limit: float | None
    machine: Callable[[Mapping[str, Any]], None]
    sent: int = 0
    died: int = 0
    on_its_way: Future[str] | None = None


class Jobs(Executor):
    """Does jobs on a `pool`, each for at most `seconds`; an executor whose jobs are functions of hlotool, by position,
    on values that `codec.py` knows.

    A job whose process dies is tried so many times more (`again`), and then ends with ChildDied; TimeLimit, and what
    its function raises, come as they do from `Children`.  WorkerLost (exit code 5) is said of workers that go away, or
    are silent for longer than the time limit and `grace` seconds.  Answers go into the `journal`, and are taken from
    it; who `keeps_journal` has more to ask another time.
    """

    def __init__(
        self, pool: Pool, seconds: float | None = None, *, again: int = 0, journal: Journal | None = None,
        grace: float = _GRACE,
    ) -> None:  # fmt: skip
        self._pool, self._seconds, self._again, self._journal, self._grace = pool, seconds, again, journal, grace
        self._known = {row.get("job"): row for row in journal.rows} if journal is not None else {}
        self.keeps_journal = False
        self._lock, self._closed = Lock(), Event()
        self._there: set[str] = set()
        self._pending: set[int] = set()
        self._jobs: dict[int, _Job] = {}
        self._heard = time.monotonic()
        self._executor = pool.start()
        self._watch: Thread | None = None

    @property
    def width(self) -> int:
        """The jobs that are done at a time."""
        return self._pool.width(self._executor)

    def allow(self, seconds: float | None) -> None:
        """The time limit of jobs that are submitted from now on."""
        self._seconds = seconds

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        if kwargs:
            raise TypeError("jobs take no arguments by name")
        return self.begin(fn, *args)

    def begin(
        self, function: Callable[..., _T], *arguments: Any, alone: bool = False,
        machine: Callable[[Mapping[str, Any]], None] = lambda found: None,
    ) -> Future[_T]:  # fmt: skip
        """As `submit`; a job that is `alone` waits until no other such job runs on its machine, and `machine` hears on
        which one it was."""
        contents: Contents = {}
        asked = {"function": packed(function, contents), "arguments": packed(list(arguments), contents)}
        digest = digest_of(json.dumps([build(), asked]).encode())
        request = {
            "build": build(), "call": asked, "contents": list(contents), "seconds": self._seconds, "alone": alone,
        }  # fmt: skip
        job = _Job(digest, json.dumps(request), contents, Future(), self._seconds, machine)
        job.future.add_done_callback(partial(self._dropped, job))
        if digest in self._known:
            self._answered(job, self._known[digest], known=True)
        else:
            self._send(job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End; jobs that are not done are dropped."""
        self._closed.set()
        with self._lock:
            left = list(self._jobs.values())
        for job in left:
            if job.on_its_way is not None:
                job.on_its_way.cancel()  # not every executor has `cancel_futures`
            self._fail(job, CancelledError())
        self._executor.shutdown(wait=wait and not left)
        self._pool.end()

    def _send(self, job: _Job, all_contents: bool = False) -> None:
        """Send a job, with those of its contents that were not sent before, or all of them."""
        with self._lock:
            if not self._jobs:
                self._heard = time.monotonic()
            self._jobs[id(job)] = job
            if job.limit is not None and self._watch is None:
                self._watch = Thread(target=self._listen, daemon=True)
                self._watch.start()
            new = [one for one in job.contents if all_contents or one not in self._there]
            self._there.update(new)
            executor = self._executor
        job.sent += 1
        try:
            sent = executor.submit(do, job.request, {one: job.contents[one] for one in new})
        except Exception as error:
            self._lost(job, executor, error)
            return
        job.on_its_way = sent
        sent.add_done_callback(partial(self._came, job, executor))

    def _dropped(self, job: _Job, future: Future[Any]) -> None:
        """Nobody waits for a job any more."""
        if future.cancelled():
            with self._lock:
                self._jobs.pop(id(job), None)
            if job.on_its_way is not None:
                job.on_its_way.cancel()

    def _came(self, job: _Job, executor: Executor, sent: Future[str]) -> None:
        """What became of a job that was sent."""
        with self._lock:
            self._heard = time.monotonic()
            if id(job) not in self._jobs or self._closed.is_set():
                return
        error = CancelledError("it was given up") if sent.cancelled() else sent.exception()
        if isinstance(error, ImportError):
            self._fail(job, ExecutionError(
                f"a worker of {self._pool.name} cannot load hlotool ({error}): install hlotool {build()} there"
            ))  # fmt: skip
        elif error is not None:
            self._lost(job, executor, error)
        else:
            try:
                self._answered(job, json.loads(sent.result()))
            except HloError as wrong:  # of the journal
                self._fail(job, wrong)
            except Exception as wrong:  # no answer may be lost on its way to who waits for it
                words = f"{type(wrong).__name__}: {wrong}"
                self._fail(job, ExecutionError(f"{self._pool.name}: a worker gave an answer that is none: {words}"))

    def _answered(self, job: _Job, answer: Mapping[str, Any], known: bool = False) -> None:
        where = answer.get("machine", {})
        if "missing" in answer:
            job.sent -= 1
            self._send(job, all_contents=True)
        elif "build" in answer:
            self._fail(job, ExecutionError(
                f"a worker of {self._pool.name} on {where.get('host')} has hlotool {answer['build']}, and this is "
                f"{build()}: install the same there"
            ))  # fmt: skip
        elif "died" in answer:
            job.died += 1
            if job.died <= self._again:
                self._send(job)
            else:
                self._fail(job, ChildDied(answer["died"], answer["said"]))
        elif "late" in answer:
            self._fail(job, TimeLimit(f"longer than {answer['late']:g} s"))
        else:
            job.machine(where)
            if not known and self._journal is not None:
                with self._lock:
                    self._journal.add({"job": job.digest, **answer})
            if "error" in answer:
                self._fail(job, unpacked_error(answer["error"]))
            else:
                self._end(job, unpacked(answer["value"], {}))

    def _lost(self, job: _Job, executor: Executor, error: BaseException) -> None:
        """The worker of a job is lost, and maybe its executor, of which there is another one then."""
        if self._closed.is_set():
            return
        if job.sent >= _ATTEMPTS:
            said = (str(error).strip().splitlines() or [""])[0]
            self._fail(job, WorkerLost(
                f"{self._pool.name}: a job was sent {job.sent} times, and its worker was lost each time: "
                f"{type(error).__name__}: {said}"
            ))  # fmt: skip
            return
        if isinstance(error, BrokenExecutor):
            with self._lock:
                broken = self._executor is executor
            if broken:
                try:
                    made = self._pool.start()
                except Exception as wrong:
                    self._fail(job, wrong)
                    return
                with self._lock:
                    self._executor = made
                executor.shutdown(wait=False)
        self._send(job, all_contents=True)

    def _listen(self) -> None:
        """Until the end: give up jobs when no worker says anything for longer than any of them may take."""
        while not self._closed.wait(0.2):
            with self._lock:
                late = [job for job in self._jobs.values() if job.limit is not None]
                most = max((job.limit or 0.0 for job in late), default=0.0) + self._grace
                silent = time.monotonic() - self._heard > most
            if silent:
                for job in late:
                    self._fail(job, WorkerLost(f"{self._pool.name}: no worker said anything for {most:g} s"))

    def _fail(self, job: _Job, error: BaseException) -> None:
        with self._lock:
            self._jobs.pop(id(job), None)
        with suppress(InvalidStateError):
            job.future.set_exception(error)

    def _end(self, job: _Job, value: Any) -> None:
        with self._lock:
            self._jobs.pop(id(job), None)
        with suppress(InvalidStateError):
            job.future.set_result(value)
