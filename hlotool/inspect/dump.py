"""Dumps: the module as text and drawing, before all passes and after every one that changed it.

``0000.input.hlo``, ``0001.call-inliner.hlo``, ``.dot`` and ``.svg`` beside them, ``index.html`` for people and
``manifest.json`` for programs.  The files are a function of the module and the passes alone: no times, no places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hlotool.inspect.changes import compare, snapshot
from hlotool.inspect.files import write_file
from hlotool.inspect.graph import draw
from hlotool.inspect.index_page import index_page
from hlotool.inspect.render import HOW_TO_GET_DOT, find_dot, render_all
from hlotool.ir import Instruction, Module, UnsupportedError
from hlotool.passes.manager import Pass, Progress
from hlotool.passes.pipeline import carry_pipeline
from hlotool.text.printer import print_module

__all__ = ["DUMP_FORMATS", "Dump", "DumpStep"]

DUMP_FORMATS = ("text", "dot", "svg")
_SUFFIXES = {"text": ".hlo", "dot": ".dot", "svg": ".svg"}
_OWN_FILE = re.compile(r"\d{4,}\.[\w.-]+\.(hlo|dot|svg)")
_RENDER_SECONDS = 60.0


@dataclass(slots=True)
class DumpStep:
    """One line of the index.  The counts are of instructions, compared with the step before."""

    number: int
    pass_name: str
    before: int
    after: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    files: list[str] = field(default_factory=list)
    note: str = ""


class Dump:
    """Writes steps into `directory`, in `formats` (svg brings text and dot), for passes whose name matches `pattern`.

    With `progress` each text carries the passes that are still to run, so that ``--start-from`` can go on there.

    Call `finish` at the end, also after an error: it renders the pictures.
    """

    def __init__(
        self,
        module: Module,
        directory: Path,
        formats: Collection[str] = ("text", "dot"),
        pattern: re.Pattern[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.directory, self.pattern, self.progress = directory, pattern, progress
        self.formats = DUMP_FORMATS if "svg" in formats else tuple(f for f in DUMP_FORMATS if f in formats)
        self.name = module.name
        self.steps: list[DumpStep] = []
        directory.mkdir(parents=True, exist_ok=True)
        _remove_old(directory)
        self.known = snapshot(module)
        count = len(self.known)
        self.write(module, DumpStep(0, "input", count, count), ())

    # ---- the instrument

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        if not changed:
            return
        old, self.known = self.known, snapshot(module)
        found = compare(old, self.known, module)
        counts = (found.added, found.removed, found.changed)
        step = DumpStep(len(self.steps), pass_.name, len(old), len(self.known), *counts)
        if self.pattern is None or self.pattern.search(pass_.name):
            self.write(module, step, found.marked)
        else:
            step.note = "left out by the filter"
            self.record(step)

    # ---- files

    def write(self, module: Module, step: DumpStep, marked: Collection[Instruction]) -> None:
        """Write the files of a step, and the index up to it."""
        stem = f"{step.number:04}.{re.sub(r'[^A-Za-z0-9_.-]', '_', step.pass_name)}"
        if "text" in self.formats:
            text = print_module(module)
            if self.progress is not None and step.number:
                text = carry_pipeline(text, self.progress.remaining)
            write_file(self.directory / f"{stem}.hlo", text)
            step.files.append(f"{stem}.hlo")
        if "dot" in self.formats:
            write_file(self.directory / f"{stem}.dot", draw(module, marked))
            step.files.append(f"{stem}.dot")
        self.record(step)

    def record(self, step: DumpStep) -> None:
        self.steps.append(step)
        self.write_index()

    def write_index(self) -> None:
        write_file(self.directory / "manifest.json", json.dumps(self.manifest(), indent=1) + "\n")
        write_file(self.directory / "index.html", index_page(self.name, self.manifest()["steps"]))

    def manifest(self) -> dict[str, Any]:
        """What `manifest.json` holds."""
        steps = [
            {
                "step": s.number, "pass": s.pass_name, "instructions_before": s.before, "instructions_after": s.after,
                "added": s.added, "removed": s.removed, "changed": s.changed, "files": s.files, "note": s.note,
            }
            for s in self.steps
        ]  # fmt: skip
        return {"schema_version": 1, "kind": "dump", "module": self.name, "formats": list(self.formats), "steps": steps}

    def finish(self) -> None:
        """Render the pictures; UnsupportedError says how to get ``dot`` when it is missing."""
        if "svg" not in self.formats:
            return
        dot = find_dot()
        drawings = {step.number: self.directory / step.files[-1] for step in self.steps if step.files}
        problems = {} if dot is None else render_all(dot, list(drawings.values()), _RENDER_SECONDS)
        for step in self.steps:
            path = drawings.get(step.number)
            if path is None:
                continue
            problem = "no picture: dot is not installed" if dot is None else problems.get(path, "")
            if problem:
                step.note = problem
            else:
                step.files.append(path.with_suffix(".svg").name)
        self.write_index()
        if dot is None:
            raise UnsupportedError(
                f"pictures need the program 'dot', which is not on PATH; the text and dot files are in "
                f"{self.directory}. To get it, {HOW_TO_GET_DOT}"
            )


def _remove_old(directory: Path) -> None:
    """Remove the files of an earlier dump, as its manifest lists them: they would mix with the new ones."""
    try:
        steps = json.loads((directory / "manifest.json").read_bytes())["steps"]
        names = [name for step in steps for name in step["files"]]
    except (OSError, ValueError, LookupError, TypeError):
        return
    for name in names:
        if isinstance(name, str) and _OWN_FILE.fullmatch(name):
            (directory / name).unlink(missing_ok=True)
