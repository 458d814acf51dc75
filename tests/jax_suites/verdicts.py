"""A plug-in of pytest that writes one line of JSON per test as it starts and ends: they outlive a crash.

The environment says where (``JAX_SUITES_VERDICTS``), how many seconds a test may take (``JAX_SUITES_SECONDS``), and
which tests to run: ``JAX_SUITES_CHOICE`` is a file with JSON, the names of those that ``only`` are to run, of those
that are ``not`` to run, and how many the ``sample`` is that is taken of the rest, every so-manieth from the
``offset`` on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_late: set[str] = set()


def _write(**line: Any) -> None:
    with open(os.environ["JAX_SUITES_VERDICTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(test=report.nodeid, verdict="error", message=str(report.longrepr).strip().splitlines()[-1])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _write(collected=len(items))
    choice = json.loads(Path(os.environ["JAX_SUITES_CHOICE"]).read_text("utf-8"))
    only, but = choice.get("only"), {*choice.get("not", ())}
    items[:] = [item for item in items if (only is None or item.nodeid in only) and item.nodeid not in but]
    if choice["sample"] and items:
        step = -(-len(items) // choice["sample"])
        items[:] = items[choice["offset"] % step :: step]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Interrupt a test that takes too long, as soon as it is in Python."""

    def interrupt(*_: object) -> None:
        _late.add(item.nodeid)
        raise TimeoutError("this test took too long")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, float(os.environ["JAX_SUITES_SECONDS"]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(test=nodeid, verdict="crashed", message="the process ended")  # until something better is said


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.passed:
        return
    verdict = "failed" if report.failed else "skipped" if report.skipped else "passed"
    if report.failed and report.nodeid in _late:
        verdict = "late"
    message = ""
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = str(report.longrepr if crash is None else crash.message).strip()[:600]
    _write(test=report.nodeid, verdict=verdict, message=message, seconds=round(report.duration, 3))


def pytest_sessionfinish() -> None:
    _write(cpu_seconds=round(time.process_time(), 1))  # of all threads; a busy machine changes it little
    record = sys.modules.get("hlotool.jax.record")
    if record is not None:
        programs = list(record.PROGRAMS)
        fallbacks = Counter(program.reason for program in programs if program.reason)
        _write(programs=len(programs), fallbacks=fallbacks)
