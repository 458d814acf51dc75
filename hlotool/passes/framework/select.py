"""Choosing among the passes of a pipeline: leaving some out, and giving some other options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hlotool.passes.framework.steps import Fixpoint, Pass, Pipeline, Step

__all__ = ["map_passes", "only", "without"]


def map_passes(pipeline: Pipeline, change: Callable[[Pass], Pass | None]) -> Pipeline:
    """The pipeline with `change` applied to each pass; None leaves the pass out.  What changes loses its name."""

    def of(step: Step) -> Step | None:
        if isinstance(step, Pipeline):
            made = map_passes(step, change)
            return made if made.steps else None
        if isinstance(step, Fixpoint):
            inner = tuple(found for found in map(of, step.steps) if found is not None)
            return replace(step, steps=inner) if inner else None
        return change(step)

    steps = tuple(found for found in map(of, pipeline.steps) if found is not None)
    return pipeline if steps == pipeline.steps else Pipeline(steps)


def without(pipeline: Pipeline, names: frozenset[str]) -> Pipeline:
    """The pipeline without the passes called `names`."""
    return map_passes(pipeline, lambda pass_: None if pass_.name in names else pass_)


def only(pipeline: Pipeline, names: frozenset[str]) -> Pipeline:
    """The pipeline with no passes but those called `names`."""
    return map_passes(pipeline, lambda pass_: pass_ if pass_.name in names else None)
