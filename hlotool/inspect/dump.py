"""Dumps: the module before all passes and after every one that changed it, then what code generation made of it.

``0000.input.hlo``, ``0001.call-inliner.hlo`` with ``.diff``, ``.html``, ``.dot`` and ``.svg`` beside it, up to
``0020.buffers.txt``, ``0021.llvm.ll`` and ``0022.assembly.s``; ``index.html`` to flip through and ``manifest.json`` for
programs.  The files are a function of the module, the passes and the processor alone: no times, no places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from hlotool.analysis.decisions import DecisionLog
from hlotool.inspect.changes import Changes, compare, snapshot
from hlotool.inspect.diff import unified_diff
from hlotool.inspect.files import write_file
from hlotool.inspect.graph import draw
from hlotool.inspect.index_page import index_page
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.render import HOW_TO_GET_DOT, find_dot, render_all
from hlotool.inspect.scene import build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.ir import Instruction, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import Progress
from hlotool.passes.framework.pipeline import carry_pipeline
from hlotool.passes.framework.steps import Pass
from hlotool.text.printer import print_module

__all__ = ["DUMP_FORMATS", "Dump", "DumpStep", "Filters"]

DUMP_FORMATS = ("text", "diff", "html", "dot", "svg", "buffers", "llvm", "asm")
_OWN_FILE = re.compile(r"\d{4,}\.[\w.-]+\.(hlo|diff|html|dot|svg|txt|ll|s)")
_RENDER_SECONDS = 60.0
_LONGEST_TEXT = 400_000  # characters of a difference, or of code, that the index has


@dataclass(frozen=True, slots=True)
class Filters:
    """Which steps to write: those of passes, and with changes in computations and instructions, whose names match."""

    passes: re.Pattern[str] | None = None
    computations: re.Pattern[str] | None = None
    instructions: re.Pattern[str] | None = None

    def want(self, pass_name: str, found: Changes) -> bool:
        """Whether to write the step of a pass that made these changes."""
        if self.passes is not None and not self.passes.search(pass_name):
            return False
        if self.computations is None and self.instructions is None:
            return True
        return any(
            (self.computations is None or self.computations.search(computation))
            and (self.instructions is None or self.instructions.search(instruction))
            for computation, instruction in found.touched
        )


@dataclass(slots=True)
class DumpStep:
    """One line of the index.  The counts are of instructions, compared with the step before."""

    number: int
    name: str
    before: int
    after: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    files: list[str] = field(default_factory=list)
    note: str = ""


class Dump:
    """Writes steps into `directory`, in `formats` (svg brings dot).

    With `progress` each text carries the passes that are still to run, so that ``--start-from`` can go on there.  Call
    `finish` at the end, also after an error: it writes the index and renders the pictures.  `links` go to its head;
    drawings have the reasons that `log`, the decisions of the passes, gives.
    """

    def __init__(
        self,
        module: Module,
        directory: Path,
        formats: Collection[str] = ("text", "diff", "html"),
        filters: Filters | None = None,
        progress: Progress | None = None,
        links: Sequence[tuple[str, str]] = (),
        log: DecisionLog | None = None,
    ) -> None:
        self.links, self.log = links, log
        self.directory, self.filters, self.progress = directory, filters or Filters(), progress
        wanted = {*formats, "dot"} if "svg" in formats else set(formats)
        self.formats = tuple(name for name in DUMP_FORMATS if name in wanted)
        self.name = module.name
        self.steps: list[DumpStep] = []
        self.records = Records()
        self.text = self.text_name = ""  # of the step that was written last: what diffs compare with
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
        if self.filters.want(pass_.name, found):
            self.write(module, step, found.marked)
        else:
            step.note = "left out by the filter"
            self.record(step)

    # ---- files

    def write(self, module: Module, step: DumpStep, marked: Collection[Instruction]) -> None:
        """Write the files of a step, and the manifest up to it."""
        stem = self.stem(step)
        text = print_module(module)
        difference = unified_diff(self.text, text, self.text_name, f"{stem}.hlo") if self.steps else ""
        self.text, self.text_name = text, f"{stem}.hlo"
        if "text" in self.formats:
            carried = self.progress is not None and step.number
            self.put(step, "hlo", carry_pipeline(text, self.progress.remaining) if carried and self.progress else text)
        if "diff" in self.formats and step.number:
            self.put(step, "diff", difference)
        if "html" in self.formats:
            self.draw(module, step, marked, difference)
        if "dot" in self.formats:
            self.put(step, "dot", draw(module, marked))
        self.record(step)

    def draw(self, module: Module, step: DumpStep, marked: Collection[Instruction], difference: str) -> None:
        scene = build_scene(module)
        add_scopes(scene)
        title = f"{step.number}: {step.name}"
        alone = Records()
        decisions = tuple(self.log) if self.log is not None else ()
        alone.add(scene, title, marked, decisions)
        self.put(step, "html", drawing_page(alone, PageOptions(self.name, title, links=[("all steps", "index.html")])))
        self.records.add(
            scene, step.name, marked, decisions, number=step.number, added=step.added, removed=step.removed,
            changed=step.changed, files=step.files, diff=_cut(difference),
        )  # fmt: skip

    def add_text(self, form: str, name: str, suffix: str, text: str) -> None:
        """Add a step with one text that is no HLO, if its format was asked for."""
        if form not in self.formats:
            return
        count = len(self.known)
        step = DumpStep(len(self.steps), name, count, count)
        self.put(step, suffix, text)
        self.records.add_listing(name, _cut(text), number=step.number, files=step.files)
        self.record(step)

    def put(self, step: DumpStep, suffix: str, content: str) -> None:
        name = f"{self.stem(step)}.{suffix}"
        write_file(self.directory / name, content)
        step.files.append(name)

    def stem(self, step: DumpStep) -> str:
        return f"{step.number:04}.{re.sub(r'[^A-Za-z0-9_.-]', '_', step.name)}"

    def record(self, step: DumpStep) -> None:
        self.steps.append(step)
        self.write_manifest()

    def write_manifest(self) -> None:
        write_file(self.directory / "manifest.json", json.dumps(self.manifest(), indent=1) + "\n")

    def manifest(self) -> dict[str, Any]:
        """What `manifest.json` holds."""
        steps = [
            {
                "step": s.number, "pass": s.name, "instructions_before": s.before, "instructions_after": s.after,
                "added": s.added, "removed": s.removed, "changed": s.changed, "files": s.files, "note": s.note,
            }
            for s in self.steps
        ]  # fmt: skip
        return {"schema_version": 1, "kind": "dump", "module": self.name, "formats": list(self.formats), "steps": steps}

    def finish(self) -> None:
        """Write the index, and render the pictures; UnsupportedError says how to get ``dot`` when it is missing."""
        missing = "svg" in self.formats and not self.render()
        self.write_manifest()
        if "html" in self.formats:
            page = drawing_page(self.records, PageOptions(self.name, "step by step", links=self.links))
        else:
            page = index_page(self.name, self.manifest()["steps"])
        write_file(self.directory / "index.html", page)
        if missing:
            raise UnsupportedError(
                f"pictures need the program 'dot', which is not on PATH; the other files are in {self.directory}. "
                f"To get it, {HOW_TO_GET_DOT}"
            )

    def render(self) -> bool:
        """Make the pictures; whether ``dot`` is there."""
        dot = find_dot()
        drawings = {
            step.number: self.directory / name for step in self.steps for name in step.files if name.endswith(".dot")
        }
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
        return dot is not None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}\n... the file has all of it"


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
