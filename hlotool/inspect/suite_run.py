"""A run of benchmark suites as a record: what was timed, on which machine, and how long each contestant took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from hlotool.analysis.cost_rules import Cost
from hlotool.analysis.roofline import Roof
from hlotool.lazy_dataclass import dataclass

__all__ = ["CaseResult", "Result", "SuiteRun", "geometric_mean", "run_from_json", "run_to_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A contestant on a case.

    `status` is ``ok``, ``not available``, ``MISMATCH`` or ``failed``, and `why` says more; seconds are None unless it
    is ``ok``: the median of calls with its interval of 95 %, to compile, and of the first call.
    """

    name: str
    status: str
    why: str = ""
    median: float | None = None
    low: float | None = None
    high: float | None = None
    compile: float | None = None
    first: float | None = None
    warm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """A case: its operations, the bytes that it moves and touches, and its contestants, hlotool first; `left_out` says
    why it was not timed, `machine` on which machine it was, if not that of the run."""

    suite: str
    name: str
    source: str = ""
    flops: int = 0
    bytes: int = 0
    touched: int = 0
    results: tuple[Result, ...] = ()
    left_out: str = ""
    machine: str = ""

    @property
    def own(self) -> Result | None:
        """hlotool's own result."""
        return self.results[0] if self.results else None

    @property
    def seconds(self) -> float | None:
        """hlotool's own time."""
        return self.own.median if self.own is not None else None

    @property
    def cost(self) -> Cost:
        return Cost(flops=self.flops, bytes_read=self.bytes)

    def result(self, name: str) -> Result | None:
        return next((one for one in self.results if one.name == name), None)

    def ratio(self, name: str) -> float | None:
        """hlotool's time over that of another: below 1 hlotool is faster."""
        other = self.result(name)
        if other is None or not other.median or not self.seconds:
            return None
        return self.seconds / other.median


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """All of one run.  `time` is when it began (UTC, ISO 8601); `machine` and `versions` are facts by name."""

    time: str
    tool_version: str
    build: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    load: Sequence[float] | None
    roof: Roof | None
    cases: tuple[CaseResult, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def peers(self) -> list[str]:
        """The contestants besides hlotool, in the order in which they appear."""
        return list(dict.fromkeys(r.name for case in self.cases for r in case.results[1:]))

    def suites(self) -> list[str]:
        return list(dict.fromkeys(case.suite for case in self.cases))

    def mean(self, peer: str, suite: str | None = None) -> tuple[float | None, int]:
        """The geometric mean of the ratios to a peer, and of how many cases it is."""
        ratios = [case.ratio(peer) for case in self.cases if suite is None or case.suite == suite]
        known = [ratio for ratio in ratios if ratio is not None]
        return geometric_mean(known), len(known)

    def of_roof(self, case: CaseResult) -> float | None:
        """How much of hlotool's time is what the nearer roof would take."""
        if self.roof is None or not case.seconds:
            return None
        return self.roof.seconds(case.cost, case.touched) / case.seconds


def geometric_mean(values: Iterable[float]) -> float | None:
    """Of positive numbers; None of none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None


def run_to_json(run: SuiteRun) -> dict[str, Any]:
    """The record as JSON, with ratios and means for readers."""
    names = run.peers()
    rows = []
    for case in run.cases:
        row = asdict(case)
        row["ratios"] = {name: case.ratio(name) for name in names if case.ratio(name) is not None}
        row["of_roof"] = run.of_roof(case)
        rows.append(row)
    means = {
        suite: {peer: {"ratio": ratio, "cases": count} for peer in names for ratio, count in (run.mean(peer, suite),)}
        for suite in run.suites()
    }
    roof = run.roof
    return {
        "schema_version": 1,
        "kind": "bench-suite",
        "time": run.time,
        "tool_version": run.tool_version,
        "build": run.build,
        "machine": dict(run.machine),
        "versions": dict(run.versions),
        "load": None if run.load is None else list(run.load),
        "options": dict(run.options),
        "roof": None if roof is None else {"flops_per_s": roof.flops, "bytes_per_s": [list(r) for r in roof.rates]},
        "geometric_means": means,
        "cases": rows,
    }


def run_from_json(data: Any) -> SuiteRun:
    """The record that `run_to_json` wrote; ValueError says what is wrong with it."""
    if not isinstance(data, dict) or data.get("kind") != "bench-suite":
        raise ValueError("it is no record of bench --suite")
    if data.get("schema_version") != 1:
        raise ValueError(f"it is of another version: {data.get('schema_version')}")
    try:
        roof = data["roof"]
        rates = None if roof is None else tuple((int(size), float(rate)) for size, rate in roof["bytes_per_s"])
        return SuiteRun(
            time=str(data["time"]),
            tool_version=str(data["tool_version"]),
            build=str(data["build"]),
            machine={str(k): str(v) for k, v in data["machine"].items()},
            versions={str(k): str(v) for k, v in data["versions"].items()},
            load=None if data["load"] is None else [float(one) for one in data["load"]],
            roof=None if rates is None else Roof(float(roof["flops_per_s"]), rates),
            cases=tuple(map(_case, data["cases"])),
            options=dict(data["options"]),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"a field is missing or of another type: {error}") from None


def _case(row: Mapping[str, Any]) -> CaseResult:
    results = tuple(_result(one) for one in row["results"])
    return CaseResult(
        suite=str(row["suite"]), name=str(row["name"]), source=str(row["source"]), flops=int(row["flops"]),
        bytes=int(row["bytes"]), touched=int(row["touched"]), results=results, left_out=str(row["left_out"]),
        machine=str(row.get("machine", "")),
    )  # fmt: skip


def _result(row: Mapping[str, Any]) -> Result:
    seconds = {
        key: None if row[key] is None else float(row[key]) for key in ("median", "low", "high", "compile", "first")
    }
    if any(value is not None and not value > 0 for key, value in seconds.items() if key in ("median", "low", "high")):
        raise ValueError(f"{row['name']}: a time that is not above zero")
    return Result(
        name=str(row["name"]), status=str(row["status"]), why=str(row["why"]), warm=bool(row["warm"]), **seconds
    )  # fmt: skip
