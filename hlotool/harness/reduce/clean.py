"""Passes that only ever leave something out, as edits."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.harness.reduce.draft import Draft, Edit, EditFailed
from hlotool.ir import Module
from hlotool.passes.framework.manager import PassCrash, run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline

__all__ = ["cleaned"]

_PASSES = ("dce", "tuple-simplifier", "while-loop-simplifier", "sort-simplifier", "cse", "computation-deduplicator")


def cleaned(module: Module) -> Sequence[Edit]:
    together = ",".join(_PASSES)
    return [Edit((text,), _run, (text,)) for text in (together, *_PASSES)]


def _run(draft: Draft, text: str) -> None:
    before = draft.module.instruction_count()
    try:
        run_pipeline(draft.module, parse_pipeline(text), DecisionLog())
    except PassCrash:
        raise EditFailed from None
    if draft.module.instruction_count() >= before:
        raise EditFailed
