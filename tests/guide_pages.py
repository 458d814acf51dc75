"""What README and manual show, executed.

    python tests/guide_pages.py --update [PAGE...]   write outputs anew; read the difference before you commit it
    python tests/guide_pages.py --times PAGE         how long the commands of each section take

Fenced blocks of a page, in order, in one shell, whose directory looks like the top of a
checkout with the samples and the tutorial:

- ``console``: lines ``$ COMMAND``, each with all that it prints below it.  A line ``...`` stands for any lines, ``...``
  in a line for any text; times (``0.12 s``, ``3 ms``) need not be the same.  The exit code is 0, or what a comment at
  the end of the command says: ``# exit code 1``.
- ``python``: all of a page are one program, run block by block.  ``pycon`` is that with outputs, as in doctest.
- any language with ``title="NAME"``: a file, which is written and not executed.
- ``sh`` and others are only shown: what needs a network, or other software.

A comment ahead of a block says what it needs or that it varies: ``<!-- needs jax -->`` is skipped without
``HLOTOOL_XLA_PYTHON`` (whose Python runs ``python`` blocks, each by itself), ``<!-- needs dot -->`` without Graphviz,
``<!-- needs mpi -->`` without mpi4py and an ``mpiexec``,
``<!-- needs cc -->`` without a C compiler, ``<!-- needs wasm-ld, needs node -->`` without a linker for WebAssembly or
without Node,
``<!-- needs torch here -->`` where this Python has no package torch;
``<!-- numbers vary -->`` takes any number for any number, ``<!-- output varies -->`` looks at the exit code alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from conftest import ROOT, environment

__all__ = ["GUIDE", "PAGES", "Block", "Step", "blocks", "matches", "run_page"]

GUIDE = ROOT / "man" / "guide" / "docs"
PAGES = [ROOT / "README.md", *sorted(GUIDE.rglob("*.md"))]

_FENCE = re.compile(r"(?:^<!-- (?P<says>[a-z ,-]+) -->\n+)?^```(?P<head>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)
_COMMAND = re.compile(r"^\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n(?P<output>(?:(?!\$ )[^\n]*\n)*)", re.M)
_CODE = re.compile(r"# exit code (\d+)\s*$")
_TIME = re.compile(r"\d[\d.,]*( ?)(s|ms|us|µs|μs|ns)\b")
_HERE = re.compile(r"needs ([a-z]+) here")
_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?")

_PYTHON = """\
import doctest, pickle, sys
sys.path.insert(0, "")
names = {"__name__": "__main__"}
for kind, text in pickle.load(open(sys.argv[1], "rb")):
    if kind == "python":
        exec(compile(text, "page", "exec"), names)
        continue
    test = doctest.DocTestParser().get_doctest(text, names, "page", None, 0)
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, clear_globs=False)
    names.update(test.globs)
    if failed:
        sys.exit(1)
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file that it is (or ""), what the comment ahead says, its text, and where."""

    language: str
    file: str
    says: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page and what came of it."""

    command: str
    says: str
    shown: str
    place: tuple[int, int]
    code: int
    found: str
    seconds: float = 0.0

    @property
    def wanted_code(self) -> int:
        found = _CODE.search(self.command)
        return int(found[1]) if found else 0

    @property
    def ok(self) -> bool:
        return self.code == self.wanted_code and ("output varies" in self.says or matches(self))


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found = []
    for match in _FENCE.finditer(text):
        language, _, rest = match["head"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        file = title[1] if title else ""
        found.append(Block(language, file, match["says"] or "", match["body"], match.start("body")))
    return found


def matches(step: Step) -> bool:
    """Is what was printed what the page shows?"""
    lines = [_plain(line, step.says) for line in step.shown.rstrip("\n").split("\n")]
    pattern = "".join("(?:.*\n)*?" if line == "..." else _pattern(line) + "\n" for line in lines)
    found = "".join(_plain(line, step.says) + "\n" for line in step.found.rstrip("\n").split("\n"))
    return re.fullmatch(pattern, found) is not None


def _plain(line: str, says: str) -> str:
    line = _TIME.sub("TIME", line.rstrip())
    if "numbers vary" in says:
        line = _NUMBER.sub("NUMBER", line)
    return re.sub(" {2,}", " ", line) if "TIME" in line or "NUMBER" in line else line


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("...")))


def missing(says: str) -> str:
    """What a block needs and this machine lacks, or an empty text."""
    here = _HERE.search(says)
    if here:
        return "" if find_spec(here[1]) else f"{here[1]} is not installed"
    if "needs mpi" in says and not (find_spec("mpi4py") and shutil.which("mpiexec")):
        return "mpi4py and mpiexec"
    if "needs jax" in says and not os.environ.get("HLOTOOL_XLA_PYTHON"):
        return "HLOTOOL_XLA_PYTHON names no Python with jax"
    tools = {
        "dot": "Graphviz's dot is not installed", "cc": "no C compiler is installed",
        "wasm-ld": "LLVM's linker for WebAssembly is not installed", "node": "Node is not installed",
    }  # fmt: skip
    return next((lack for name, lack in tools.items() if f"needs {name}" in says and shutil.which(name) is None), "")


def run_page(path: Path, folder: Path, packages: Path | None = None) -> tuple[list[Step], list[str]]:
    """Execute a page in an empty directory: what came of its commands, and what was skipped and why.

    Beside hlotool, what is in the folder `packages` is installed."""
    work, jobs = folder / "work", folder / "jobs"
    jobs.mkdir()
    shutil.copytree(ROOT / "samples", work / "samples")
    shutil.copytree(GUIDE / "tutorial", work / "man" / "guide" / "docs" / "tutorial")
    commands: list[tuple[str, str, str, tuple[int, int]]] = []
    skipped = []
    together: list[tuple[str, str]] = []
    text = path.read_text(encoding="utf-8")
    for number, block in enumerate(blocks(text)):
        lack = missing(block.says)
        if lack and block.language in ("console", "python", "pycon"):
            skipped.append(lack)
        elif block.file:
            (jobs / f"file{number}").write_text(block.text, encoding="utf-8")
            target = f'mkdir -p "$(dirname "{block.file}")" && cp "{jobs}/file{number}" "{block.file}"'
            commands.append((target, block.says, "", (0, 0)))
        elif block.language == "console":
            for found in _COMMAND.finditer(block.text):
                place = (block.start + found.start("output"), block.start + found.end("output"))
                commands.append((found["command"], block.says, found["output"], place))
        elif block.language in ("python", "pycon"):
            alone = "needs jax" in block.says and not _HERE.search(block.says)
            program = [(block.language, block.text)] if alone else [*together, (block.language, block.text)]
            together = together if alone else program
            if not alone and commands and commands[-1][0].startswith("python "):
                commands.pop()  # the next block of the same program, with nothing in between: run it once
            _write_program(jobs / f"program{number}", program)
            python = '"$HLOTOOL_XLA_PYTHON"' if alone else "python"
            run = f'{python} "{jobs}/run_blocks.py" "{jobs}/program{number}"'
            commands.append((run, "output varies", "", (0, 0)))
    (jobs / "run_blocks.py").write_text(_PYTHON)
    return _run_all(commands, work, jobs, packages), skipped


def _write_program(path: Path, program: list[tuple[str, str]]) -> None:
    import pickle

    path.write_bytes(pickle.dumps(program))


def _run_all(
    commands: list[tuple[str, str, str, tuple[int, int]]], work: Path, jobs: Path, packages: Path | None
) -> list[Step]:
    """All commands in one shell, one after the other."""
    programs = jobs / "bin"
    programs.mkdir()
    for name, words in (("hlotool", "-m hlotool "), ("python", "")):
        call = f'#!/bin/sh\nPYTHONPATH="{ROOT}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" {words}"$@"\n'
        (programs / name).write_text(call)
        (programs / name).chmod(0o755)
    script = ["set -o pipefail"]
    for number, (command, *_) in enumerate(commands):
        job = jobs / str(number)
        job.with_suffix(".sh").write_text(command, encoding="utf-8")
        script += [f'date +%s.%N >"{job}.start"', f'eval "$(cat "{job}.sh")" >"{job}.out" 2>&1 </dev/null']
        script += [f'echo $? >"{job}.code"; date +%s.%N >"{job}.end"']
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    installed = None if packages is None else str(packages)
    env = environment(PATH=path, PYTHONPATH=installed, HLOTOOL_STRICT=None)
    subprocess.run(["bash", "-c", "\n".join(script)], cwd=work, env=env, check=True)
    steps = []
    for number, (command, says, shown, place) in enumerate(commands):
        code, out, start, end = ((jobs / f"{number}.{end}").read_text() for end in ("code", "out", "start", "end"))
        steps.append(Step(command, says, shown, place, int(code), out, float(end) - float(start)))
    return steps


def _update(path: Path) -> bool:
    """Write what commands print where it is not what the page shows; did all end with the right exit code?"""
    with tempfile.TemporaryDirectory() as folder:
        steps, skipped = run_page(path, Path(folder))
    text, good = path.read_text(encoding="utf-8"), True
    for step in reversed(steps):
        if step.code != step.wanted_code:
            print(f"{path.name}: exit code {step.code}: {step.command}\n{step.found}")
            good = False
        if not step.ok and step.place != (0, 0):
            found = step.found.rstrip("\n") + "\n" * bool(step.found)
            text = text[: step.place[0]] + found + text[step.place[1] :]
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(steps)} commands, {sum(s.seconds for s in steps):.1f} s", *skipped, sep="; ")
    return good


def _times(path: Path) -> bool:
    """Print the seconds that the commands of each section take; did all end with the right exit code?"""
    with tempfile.TemporaryDirectory() as folder:
        steps, _ = run_page(path, Path(folder))
    text = path.read_text(encoding="utf-8")
    heads = [(match.start(), match[1]) for match in re.finditer(r"^## (.*?)(?: \{.*\})?$", text, re.M)]
    for (start, title), (end, _) in zip(heads, [*heads[1:], (len(text), "")], strict=True):
        seconds = [f"{step.seconds:.1f}" for step in steps if start < step.place[0] < end]
        print(f"{title:70}{' + '.join(seconds)} s")
    return all(step.code == step.wanted_code for step in steps)


def main(arguments: list[str]) -> int:
    if arguments[:1] not in (["--update"], ["--times"]):
        print(__doc__)
        return 2
    paths = [Path(word).resolve() for word in arguments[1:]] or PAGES
    results = [_update(path) if arguments[0] == "--update" else _times(path) for path in paths]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
