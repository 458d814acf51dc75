"""Reducing the reproducer of a pass that failed, in little time."""

from __future__ import annotations

import os

from hlotool.harness.children import Children
from hlotool.harness.reduce.reduction import NoFailure, Reduction, find_failure, reduce_text
from hlotool.harness.trials import PipelineTrial
from hlotool.passes.framework.pipeline import carried_pipeline

__all__ = ["reduced_reproducer", "seconds_to_reduce"]

_SECONDS = 10.0


def seconds_to_reduce() -> float:
    """How long a reproducer may be reduced: as the variable ``HLOTOOL_REDUCE`` of the environment says, in seconds
    (``off``: not at all)."""
    text = os.environ.get("HLOTOOL_REDUCE", "").strip().lower()
    if text in ("off", "no", "false"):
        return 0.0
    try:
        return max(0.0, float(text)) if text else _SECONDS
    except ValueError:
        return _SECONDS


def reduced_reproducer(text: str, backend: str | None, seed: int, seconds: float) -> Reduction | None:
    """What is left of a reproducer after so many seconds; None where its failure is not found again in that time.

    `backend` and `seed` are those of a PipelineTrial: None where a pass crashes.
    """
    pipeline = carried_pipeline(text)
    if not pipeline or not seconds:
        return None
    trial = PipelineTrial(pipeline=pipeline, backend=backend, seed=seed)
    with Children(1, seconds) as child:
        try:
            found = find_failure(text, [trial], child)
        except NoFailure:
            return None
        if found.failure.kind == "timeout":
            return None
        return reduce_text(text, found, child, seconds=max(0.0, seconds - found.seconds))
