"""A plug-in of pytest that writes one line of JSON per test as it starts and ends: they outlive a crash."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest


def _write(**line: Any) -> None:
    with open(os.environ["JAX_SUITES_VERDICTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(test=report.nodeid, verdict="error", message=str(report.longrepr).strip().splitlines()[-1])


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(test=nodeid, verdict="crashed", message="the process ended")  # until something better is said


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.passed:
        return
    verdict = "failed" if report.failed else "skipped" if report.skipped else "passed"
    message = ""
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = str(report.longrepr if crash is None else crash.message).strip()[:600]
    _write(test=report.nodeid, verdict=verdict, message=message, seconds=round(report.duration, 3))
