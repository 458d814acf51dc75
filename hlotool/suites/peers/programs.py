"""How peers that compute step by step run a case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hlotool.suites.case import Step, from_json

__all__ = ["read_program", "stepwise"]


def read_program(source: str) -> tuple[list[str], list[Step], list[str]]:
    """What `hlotool.suites.case.to_json` wrote to a file."""
    return from_json(json.loads(Path(source).read_text("utf-8")))


def stepwise(
    source: str, operations: Mapping[str, Callable[..., Any]], first: Sequence[Any] = ()
) -> Callable[..., tuple[Any, ...]]:
    """The program as a function of arrays: each step calls an operation, with `first` ahead of its operands;
    LookupError for one that there is not."""
    names, steps, results = read_program(source)
    missing = sorted({step.operation for step in steps} - operations.keys())
    if missing:
        raise LookupError(f"it has no program for {', '.join(missing)}")
    calls = [(operations[s.operation], s.operands, s.results, dict(s.attributes)) for s in steps]

    def run(*arrays: Any) -> tuple[Any, ...]:
        known = dict(zip(names, arrays, strict=True))
        for call, operands, made, attributes in calls:
            found = call(*first, *[known[name] for name in operands], **attributes)
            if len(made) == 1:
                known[made[0]] = found
            else:
                known.update(zip(made, found, strict=True))
        return tuple([known[name] for name in results])

    return run
