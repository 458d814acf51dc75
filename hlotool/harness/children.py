"""Work in child processes that may die or never end, without harm to this one.

`Children` is an executor as those of `concurrent.futures` are, of processes that live on from job to job.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, ParamSpec, TypeVar

from hlotool.harness.awake import elapses
from hlotool.harness.child import receive, send
from hlotool.harness.failure import Failure, Outcome, bad
from hlotool.ir import ExecutionError

__all__ = ["ChildDied", "Children", "TimeLimit", "outcome_of"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_KILLED = 9
"""The signal that ends a process whatever it does, where there are signals."""

_START = "import pickle,sys; sys.path[:] = pickle.loads({path!r}); from hlotool.harness.child import serve; serve()"


class ChildDied(Exception):  # noqa: N818
    """The process that did the job died: of the signal `code`, or, where that is not positive, with the exit code
    ``-code``; `said` is the last line of what it wrote to standard error."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(code, said)
        self.code, self.said = code, said


class TimeLimit(Exception):  # noqa: N818
    """The job took longer than it may."""


def outcome_of(future: Future[Outcome]) -> Outcome:
    """What a trial answered in a child; its death, and the end of its time, are failures."""
    try:
        return future.result()
    except ChildDied as death:
        if death.code <= 0:
            return bad(Failure(kind="exit", code=-death.code, message=f"the process ended by itself: {death.said}"))
        name = signal.Signals(death.code).name if death.code in set(signal.Signals) else str(death.code)
        return bad(Failure(kind="signal", code=death.code, message=f"native code died: {name}"))
    except TimeLimit as late:
        return bad(Failure(kind="timeout", code=124, message=str(late)))


class Children(Executor):
    """Runs pickled functions in `count` child processes, each job for at most `seconds`, in which this process runs.

    A child that dies, or takes too long, ends its job with ChildDied or TimeLimit, and another takes its place.  The
    children end with the executor, which kills them whatever they do.
    """

    def __init__(self, count: int = 1, seconds: float | None = None) -> None:
        self._threads = ThreadPoolExecutor(count)
        self._seconds = seconds
        self._free: list[_Child] = []
        self._all: set[_Child] = set()
        self._lock = Lock()
        self._closed = False

    def allow(self, seconds: float | None) -> None:
        """The time limit of jobs that begin from now on."""
        self._seconds = seconds

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        if kwargs:
            raise TypeError("jobs of children take no arguments by name")
        return self._threads.submit(self._do, fn, args, lambda: self._seconds)

    def begin(self, seconds: float | None, function: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """As `submit`, with a time limit of the job's own."""
        return self._threads.submit(self._do, function, arguments, lambda: seconds)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._closed = True
            children = list(self._all)
        for child in children:
            child.end()
        self._threads.shutdown(wait, cancel_futures=True)

    def _do(
        self, function: Callable[..., _T], arguments: tuple[Any, ...], limit: Callable[[], float | None]
    ) -> _T:
        with self._lock:
            if self._closed:
                raise ChildDied(_KILLED, "the executor is closed")
            child = self._free.pop() if self._free else None
            if child is None:
                child = _Child()
                self._all.add(child)
        try:
            good, value = child.ask(function, arguments, limit())
        except BaseException:
            child.end()
            with self._lock:
                self._all.discard(child)
            raise
        with self._lock:
            self._free.append(child)
        if not good:
            raise value
        result: _T = value
        return result


class _Child:
    """A process that does one job after another."""

    def __init__(self) -> None:
        import pickle

        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # for as long as the child lives
        self._late = self._ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=pickle.dumps(sys.path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )

    def ask(self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float | None) -> tuple[bool, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        done = Event()
        try:
            if not self._ready:
                receive(stdout)
                self._ready = True
            if seconds is not None:
                Thread(target=self._expire, args=(seconds, done), daemon=True).start()
            send(stdin, (function, arguments, seconds))
            good, value = receive(stdout)
            return good, value
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            if self._late:
                raise TimeLimit(f"longer than {seconds:g} s") from None
            self._said.seek(0)
            rows = self._said.read().decode("utf-8", "replace").split("\n")
            said = next((row.strip() for row in reversed(rows) if row.strip()), "")
            if not self._ready:
                raise ExecutionError(f"no child process starts: {said}") from None
            raise ChildDied(-code, said) from None
        finally:
            done.set()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            with suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()

    def _expire(self, seconds: float, done: Event) -> None:
        if elapses(seconds, done):
            self._late = True
            self._process.kill()
