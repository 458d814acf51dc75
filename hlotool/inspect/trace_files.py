"""The files of a trace: ``trace.json`` for programs, a line for each step, and ``index.html`` to step through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hlotool.inspect.files import write_file
from hlotool.inspect.reasons import meaning_of
from hlotool.inspect.rewrite_page import RewritePage, rewrites_page
from hlotool.inspect.trace import Edit, RewriteTrace, Step
from hlotool.lazy_dataclass import dataclass

__all__ = ["TraceFiles", "trace_lines"]


@dataclass(frozen=True, slots=True)
class TraceFiles:
    """Where the trace of a module is written: its folder, and what the files say of it.

    `begin` makes the folder and a file without steps, so that what cannot be written is known before the passes run.
    """

    folder: Path
    module: str
    pipeline: str

    def begin(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write((), complete=False)

    def write(self, trace: RewriteTrace, complete: bool = True) -> None:
        """Write both files; not `complete` is a trace whose passes were cut short."""
        self._write(trace.steps, complete)

    def _write(self, steps: Sequence[Step], complete: bool) -> None:
        lines = trace_lines(self.module, self.pipeline, steps, complete)
        write_file(self.folder / "trace.json", "".join(f"{line}\n" for line in lines))
        count = sum(step.index is not None for step in steps)
        passes = len({step.run for step in steps})
        note = f"{count:,} rewrites in {passes} runs of passes" + ("" if complete else "; cut short")
        write_file(self.folder / "index.html", rewrites_page(steps, RewritePage(self.module, note)))


def trace_lines(module: str, pipeline: str, steps: Sequence[Step], complete: bool) -> Iterator[str]:
    """The lines of ``trace.json`` (``hlotool schema trace``): one for each step, a head and an end."""
    head = {
        "schema_version": 1, "kind": "trace", "module": module, "pipeline": pipeline, "complete": complete,
        "rewrites": sum(step.index is not None for step in steps),
    }  # fmt: skip
    yield json.dumps(head)[:-1] + ', "steps": ['
    for number, step in enumerate(steps, 1):
        yield json.dumps(_step(step), ensure_ascii=False) + ("," if number < len(steps) else "")
    yield "]}"


def _step(step: Step) -> dict[str, Any]:
    made = step.decision
    return {
        "index": step.index,
        "run": step.run,
        "pass": step.pass_name,
        "number": step.number,
        "rule": None if made is None else made.rule,
        "code": None if made is None else made.code,
        "meaning": None if made is None else meaning_of(made),
        "reason": None if made is None else made.reason,
        "numbers": {} if made is None else dict(made.numbers),
        "before": [] if made is None else list(made.before),
        "after": [] if made is None else list(made.after),
        "source": step.source or None,
        "op_name": step.op_name or None,
        "with_next": step.with_next,
        "edits": [_edit(edit) for edit in step.edits],
        "unread": [{"computation": state.computation, "instruction": state.name} for state in step.unread],
    }


def _edit(edit: Edit) -> dict[str, str | None]:
    computation, name = edit.place
    before, after = edit.before, edit.after
    return {
        "computation": computation, "instruction": name, "before": None if before is None else before.line,
        "after": None if after is None else after.line,
    }  # fmt: skip
