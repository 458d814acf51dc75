"""Measuring a configuration: its replicas in processes of their own, which may die or hang; what they say together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, wait
from dataclasses import asdict
from math import isfinite
from typing import Any

from hlotool.harness.application.replica import Job, Report, run_replica
from hlotool.harness.application.space import Configuration
from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.statistics import summarise
from hlotool.ir import HloError, InputError, UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["STATUSES", "Figures", "Result", "cores_here", "measure_configuration", "result_of"]

STATUSES = ("measured", "refused", "wrong", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of a configuration: seconds of a request, items per second of all replicas, bytes that all of them hold at most,
    joules per item.  An item is one of a batch, or a request where nothing has a batch."""

    latency: float | None = None
    throughput: float | None = None
    memory: int | None = None
    energy: float | None = None

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How it went: ``measured``, ``refused`` (it cannot be made), ``wrong`` (its error is larger than it may be) or
    ``failed`` (it died, or took too long), with the `reason` if not measured; the `error` if its numbers were looked
    at."""

    status: str
    reason: str = ""
    error: float | None = None
    figures: Figures = Figures()

    def json(self) -> dict[str, Any]:
        return {"status": self.status, "reason": self.reason, "error": self.error, "figures": self.figures.json()}


def result_of(values: Mapping[str, Any]) -> Result:
    """What `json` gave; InputError where that is none."""
    try:
        figures = Figures(**values["figures"])
        found = Result(status=values["status"], reason=values["reason"], error=values["error"], figures=figures)
    except (KeyError, TypeError) as problem:
        raise InputError(f"this is no result: {problem}") from None
    if found.status not in STATUSES:
        raise InputError(f"this is no result: status {found.status!r}")
    return found


def cores_here() -> tuple[int, ...]:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def measure_configuration(
    folder: str, configuration: Configuration, seconds: float, limit: float, accuracy: float, energy: bool
) -> Result:
    """Run all replicas at once for `seconds` each; those that take longer than `limit` to get there and back failed."""
    cores = cores_here()
    with tempfile.TemporaryDirectory() as meeting, Children(configuration.replicas, limit) as children:
        jobs = []
        for number in range(configuration.replicas):
            first = number * configuration.threads
            own = tuple(cores[n % len(cores)] for n in range(first, first + configuration.threads))
            jobs.append(
                Job(
                    configuration=configuration, number=number, cores=own, folder=folder, meeting=meeting,
                    seconds=seconds, accuracy=accuracy, energy=energy,
                )
            )
        futures = [children.submit(run_replica, job) for job in jobs]
        wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((future for future in futures if future.done() and future.exception() is not None), None)
        if failed is not None:
            children.shutdown(wait=False)  # the others wait for one that will not come
            return _failure(failed.exception(), limit)
        return _together([future.result() for future in futures], configuration, accuracy)


def _failure(error: BaseException | None, limit: float) -> Result:
    match error:
        case UnsupportedError():
            return Result(status="refused", reason=_line(error))
        case TimeLimit():
            return Result(status="failed", reason=f"it took longer than {limit:.0f} s")
        case ChildDied():
            how = f"signal {error.code}" if error.code > 0 else f"exit code {-error.code}"
            return Result(status="failed", reason=f"its process died: {how}")
        case HloError():
            return Result(status="failed", reason=_line(error))
        case _:
            return Result(status="failed", reason=f"{type(error).__name__}: {error}")


def _line(error: HloError) -> str:
    return error.message.splitlines()[0] if error.message else type(error).__name__


def _together(reports: list[Report], configuration: Configuration, accuracy: float) -> Result:
    error = max(report.error for report in reports)
    if not isfinite(error):
        return Result(status="wrong", reason="integers differ, or NaN and infinities are elsewhere")
    if error > accuracy:
        return Result(status="wrong", reason=f"error {error:.3g} > {accuracy:g}", error=error)
    items = configuration.batch or 1
    throughput = sum(report.calls * items / report.window for report in reports)
    joules = reports[0].joules
    peak = reports[0].peak_bytes
    figures = Figures(
        latency=summarise([second for report in reports for second in report.seconds]).median,
        throughput=throughput,
        memory=None if peak is None else peak * len(reports),
        energy=None if joules is None else joules / (throughput * reports[0].window),
    )
    return Result(status="measured", error=error, figures=figures)
