"""Choosing among the passes of a pipeline: leaving some out, and giving some other options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hlotool.passes.framework.steps import Fixpoint, Pass, Pipeline, PipelineElement

__all__ = ["map_passes", "only", "without"]


def map_passes(pipeline: Pipeline, change: Callable[[Pass], Pass | None]) -> Pipeline:
    """The pipeline with `change` applied to each pass; None leaves the pass out.  What changes loses its name."""

    def of(step: PipelineElement) -> PipelineElement | None:
        if isinstance(step, Pipeline):
            inner = map_passes(step, change)
            return inner if inner.steps else None
        if isinstance(step, Fixpoint):
            kept = tuple(found for found in map(of, step.steps) if found is not None)
            return replace(step, steps=kept) if kept else None
        return change(step)

    steps = tuple(found for found in map(of, pipeline.steps) if found is not None)
    return pipeline if steps == pipeline.steps else Pipeline(steps)


def without(pipeline: Pipeline, names: frozenset[str]) -> Pipeline:
    """The pipeline without the passes called `names`."""
    return map_passes(pipeline, lambda pass_: None if pass_.name in names else pass_)


def only(pipeline: Pipeline, names: frozenset[str]) -> Pipeline:
    """The pipeline with no passes but those called `names`."""
    return map_passes(pipeline, lambda pass_: pass_ if pass_.name in names else None)
