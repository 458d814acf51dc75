"""Loops that run less often: smaller integers in their conditions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Instruction, Literal, Module

__all__ = ["fewer_trips"]


def fewer_trips(module: Module) -> Sequence[Edit]:
    """To one trip where counting starts at zero, to two, and to half as many."""
    conditions = dict.fromkeys(
        i.attributes["condition"] for c in module.computations.values() for i in c.calls if i.opcode == "while"
    )
    edits = []
    for computation in conditions:
        for constant in computation:
            value = constant.literal.number if constant.opcode == "constant" else None
            if not isinstance(value, int) or isinstance(value, bool) or value < 2:
                continue
            for fewer in sorted({1, 2, value // 2} - {value}, reverse=True):  # the last one of a chunk counts
                key = (computation.name, constant.name, str(fewer))
                edits.append(Edit(key, _set, (constant, fewer)))
    return edits


def _set(draft: Draft, constant: Instruction, value: int) -> None:
    copy = draft.of(constant)
    shape = copy.literal.shape
    copy.attributes["literal"] = Literal(shape, np.array(value, copy.literal.value().dtype))
    for computation in draft.module.computations.values():
        for loop in computation.calls:
            if loop.opcode == "while":
                loop.attributes.pop("backend_config", None)  # which may say how often it runs
