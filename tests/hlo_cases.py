"""Tests in HLO: files under ``tests/hlo`` in the form that ``hlotool check`` runs (`hlotool.checks.cases`).

``python tests/update_hlo.py`` writes what they expect anew.  They cannot say what is wrong: what ``opt`` makes of a
module is also evaluated beside the module, on random numbers and on edge values, and what whole pipelines make, or
devices share, is run natively (`values_differ`).  Where that is impossible, or of edge values means nothing, the case
says why:

    // NO-RUN: reason
    // NO-EDGES: reason
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.checks.cases import Case, Result, cases_in, read_text
from hlotool.checks.shell import commands_of
from hlotool.cli import in_process
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import Comparison, compare_all, compare_with_truth
from hlotool.harness.inputs import inputs_of, random_inputs
from hlotool.harness.roles import NORMAL
from hlotool.ir import HloError, Module, UnsupportedError, element_type
from hlotool.passes import parse_pipeline
from hlotool.passes.framework.manager import drops_roundings
from hlotool.passes.framework.steps import Pipeline
from hlotool.text.parser import parse

__all__ = [
    "FOLDER",
    "cases_of",
    "commands_in",
    "name_of",
    "pipeline_of",
    "run_as_process",
    "run_here",
    "values_differ",
]

FOLDER = Path(__file__).parent / "hlo"

Array = npt.NDArray[Any]


def cases_of(path: Path) -> list[Case]:
    """The cases of a file, in order."""
    return cases_in(path, read_text(path))


def name_of(case: Case) -> str:
    """For reports: ``simplify/cse-2-random-numbers-are-apart``."""
    return f"{case.path.relative_to(FOLDER).with_suffix('')}-{case.slug}"


def commands_in(case: Case) -> list[list[str]]:
    """The arguments of each command, without the word hlotool."""
    names = {"%s": case.path.name, "%S": str(case.path.parent), "%t": f"{case.path.name}.tmp"}
    return [list(commands_of(line, names)[0].words) for _, line in case.notes("RUN")]


def run_here(case: Case, folder: Path) -> list[Result]:
    """Run the case's commands in this process, through the entry point of the installed command."""
    return [in_process.run_here(arguments, "", folder) for arguments in _prepared(case, folder)]


def run_as_process(case: Case, folder: Path, environment: dict[str, str]) -> list[Result]:
    """Run the case's commands as users do."""
    found = []
    for arguments in _prepared(case, folder):
        command = [sys.executable, "-m", "hlotool", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
        found.append(Result(done.returncode, done.stdout, done.stderr))
    return found


def _prepared(case: Case, folder: Path) -> Iterator[list[str]]:
    (folder / case.path.name).write_text(case.text, encoding="utf-8")
    yield from commands_in(case)


# ---- values


def values_differ(case: Case, results: list[Result]) -> str:
    """How a module that ``opt`` printed computes other values than the module of the case; empty where none does."""
    if case.notes("NO-RUN"):
        return ""
    for arguments, result in zip(commands_in(case), results, strict=True):
        if arguments[0] != "opt" or result.code or result.output == case.as_given():
            continue
        before, after = parse(case.text), parse(result.output)
        try:
            if compile_module(before, "evaluate").devices > 1:
                found = _wrong(_on_devices(before, after))
            else:
                found = _compared(before, after, pipeline_of(arguments), not case.notes("NO-EDGES"))
        except HloError as error:
            found = str(error)
        if found:
            return f"hlotool {' '.join(arguments)}: {found}"
    return ""


def pipeline_of(arguments: list[str]) -> Pipeline:
    """The pipeline of an ``opt`` command."""
    return parse_pipeline(arguments[arguments.index("-p") + 1] if "-p" in arguments else "default")


def _compared(before: Module, after: Module, pipeline: Pipeline, edges: bool) -> str:
    arguments = random_inputs(before, 1)
    excess = any(drops_roundings(pass_) for pass_ in pipeline.passes())
    try:
        bounds = bounded_results(before, arguments, excess_precision=excess)
    except UnsupportedError:  # sizes known only at run time
        wrong = _wrong(compare_all(evaluate(after, arguments), evaluate(before, arguments)))
    else:
        wrong = _wrong(compare_with_truth(evaluate(after, arguments), bounds))
        if pipeline.name == "default" and not wrong:
            wrong = _wrong(compare_with_truth(compile_module(after)(*arguments), bounds))
    if wrong or excess or not edges:
        return wrong
    with np.errstate(all="ignore"):
        arguments = _with_edges(before, arguments)
        wrong = _wrong(compare_all(evaluate(after, arguments), evaluate(before, arguments)))
    return wrong and f"of edge values, {wrong}"


def _wrong(comparisons: list[Comparison]) -> str:
    return "; ".join(f"out{n}: {c.verdict}: {c}" for n, c in enumerate(comparisons) if not c.ok)


def _on_devices(before: Module, after: Module) -> list[Comparison]:
    reference = compile_module(before, "evaluate")
    arguments = [random_inputs(before, 1, device) for device in range(reference.devices)]
    expected = reference.run_devices(arguments)
    return [
        row
        for backend in ("evaluate", "cpu")
        for given, wanted in zip(compile_module(after, backend).run_devices(arguments), expected, strict=True)
        for row in compare_all(given, wanted)
    ]


def _with_edges(module: Module, arguments: list[Array]) -> list[Array]:
    """The arguments with zeros, ones, infinities, NaN and equals among the floats, in places of their own."""
    generator = np.random.default_rng(7)
    edges = np.array([0.0, -0.0, 1.0, 1.0, -1.0, 2.5, -np.inf, np.inf, np.nan, 1e-40])
    made = []
    for leaf, given in zip(inputs_of(module), arguments, strict=True):
        array = np.array(given)
        if element_type(leaf.shape.element_type).is_float and leaf.role == NORMAL and array.size > 1:
            places = generator.random(array.shape) < 0.3
            array[places] = generator.choice(edges, int(places.sum())).astype(array.dtype)
        made.append(array)
    return made
