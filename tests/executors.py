"""Executors for tests of jobs, good ones and bad ones: what ``--executor executors:NAME`` finds, too."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from functools import partial
from typing import Any
from unittest import mock

from hlotool.harness.jobs.worker import do

__all__ = ["Told", "killed", "killed_once", "no_executor", "other", "pool"]


class Told(Executor):
    """An executor in this process that does with each job what it is told: `answer` gets the number of the job, and
    its request and contents."""

    def __init__(self, answer: Callable[[int, str, Mapping[str, bytes]], str]) -> None:
        self.answer, self.count = answer, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.count += 1
        try:
            future.set_result(self.answer(self.count, *args))
        except BrokenExecutor:
            raise
        except Exception as error:
            future.set_exception(error)
        return future


def pool() -> Executor:
    """Two processes."""
    return ProcessPoolExecutor(2)


class _Bad(ProcessPoolExecutor):
    """A process that does what `instead` does with jobs."""

    def __init__(self, instead: Callable[..., str]) -> None:
        super().__init__(1)
        self.instead = instead

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(self.instead, *args, **kwargs)


def killed_once() -> Executor:
    """A process that is killed in the middle of the first job that it ever has; HLOTOOL_TEST_MARK names a file for
    that."""
    return _Bad(partial(_killing, os.environ["HLOTOOL_TEST_MARK"]))


def killed() -> Executor:
    """A process that is killed by every job."""
    return _Bad(_kill)


def other() -> Executor:
    """A process with another hlotool."""
    return _Bad(_other)


def no_executor() -> int:
    return 3


def _kill(request: str, contents: Mapping[str, bytes]) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def _killing(mark: str, request: str, contents: Mapping[str, bytes]) -> str:
    if not os.path.exists(mark):
        with open(mark, "w", encoding="utf-8"):
            pass
        _kill(request, contents)
    return do(request, contents)


def _other(request: str, contents: Mapping[str, bytes]) -> str:
    with mock.patch("hlotool.harness.jobs.worker.build", return_value="0.0.1+elsewhere"):
        return do(request, contents)
