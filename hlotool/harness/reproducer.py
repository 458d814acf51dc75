"""Reproducers: a module just ahead of the pass that fails on it, with that pass in its header."""

from __future__ import annotations

import hlotool
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module, clone_module
from hlotool.passes.framework.instruments import StopBefore
from hlotool.passes.framework.manager import PassCrash, Progress, run_pipeline
from hlotool.passes.framework.pipeline import carry_pipeline
from hlotool.passes.framework.steps import Pass, Pipeline
from hlotool.text.printer import print_module

__all__ = ["crash_reproducer", "reproducer"]


def reproducer(
    module: Module, pipeline: Pipeline, run: int, pass_: Pass, why: str, limit: int | None = None
) -> str:
    """The text of a module on which ``hlotool repro`` shows what the `run`-th pass of `pipeline` does to `module`.

    Passes are deterministic, so those before it are run again.  `limit` is the number of rewrites that were allowed.
    """
    copy, progress, log = clone_module(module), Progress(), DecisionLog(limit)
    run_pipeline(copy, pipeline, log, [StopBefore(progress, run)], progress)
    head = f"// hlotool {hlotool.__version__}: pass {pass_.name}: {' '.join(why.split())}\n"
    return head + carry_pipeline(print_module(copy), Pipeline((pass_,)))


def crash_reproducer(crash: PassCrash) -> str:
    """The reproducer of a pass that failed."""
    assert crash.module is not None
    cause = crash.__cause__
    why = f"{type(cause).__name__}: {cause}"
    return reproducer(crash.module, crash.pipeline, crash.run, crash.pass_, why, crash.limit)
