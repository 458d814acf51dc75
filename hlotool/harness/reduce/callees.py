"""Make a computation that is called the entry: the failure may be in there alone."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Computation, Module

__all__ = ["callees"]


def callees(module: Module) -> Sequence[Edit]:
    found = [c for c in module.computations.values() if c is not module.entry]
    found.sort(key=len, reverse=True)
    return [Edit((c.name,), _enter, (c,)) for c in found]


def _enter(draft: Draft, computation: Computation) -> None:
    draft.module.entry = draft.computation(computation)
