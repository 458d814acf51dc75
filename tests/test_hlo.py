"""The tests in HLO (`hlo_cases`): each case gives what its file says, and the values of its module."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import environment
from hlo_cases import (
    FOLDER,
    cases_of,
    commands_in,
    name_of,
    pipeline_of,
    run_as_process,
    run_here,
    values_differ,
)

from hlotool.checks.cases import Case, difference
from hlotool.ir import HloError, clone_module
from hlotool.passes import run_pipeline
from hlotool.passes.framework.manager import changes_program
from hlotool.passes.framework.registry import find_pass, pass_names
from hlotool.text.load import SEPARATOR
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

FILES = sorted(FOLDER.rglob("*.hlo"))
CASES = [case for path in FILES for case in cases_of(path)]
PLUMBING = frozenset({"parameter", "tuple", "get-tuple-element"})


@pytest.mark.parametrize("case", CASES, ids=[name_of(case) for case in CASES])
def test_case(case: Case, tmp_path: Path) -> None:
    results = run_here(case, tmp_path)
    found = case.rendered(results)
    assert found == case.expected, f"python tests/update_hlo.py {case.path}\n{difference(case.expected, found)}"
    assert values_differ(case, results) == ""


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 3], ids=name_of)
def test_processes_give_the_same(case: Case, tmp_path: Path) -> None:
    assert run_as_process(case, tmp_path, environment()) == run_here(case, tmp_path)


def test_passes_say_what_they_did() -> None:
    """Whether they changed the module, and from what new instructions were made; and then they have nothing to do."""
    for case in CASES:
        for arguments in (command for command in commands_in(case) if command[0] == "opt"):
            pipeline = pipeline_of(arguments)
            try:
                module = parse(case.text)
                before = clone_module(module)
                changed = run_pipeline(module, pipeline)
            except HloError:
                continue  # as the case says
            assert changed == (print_module(module) != print_module(before)), name_of(case)
            names = {instruction.name for instruction in before.instructions()}
            new = [i for i in module.entry if i.name not in names and i.opcode not in PLUMBING]
            assert [i.name for i in new if not i.origins] == [], name_of(case)
            if len(list(pipeline.passes())) == 1 and not any(map(changes_program, pipeline.passes())):
                assert not run_pipeline(module, pipeline), name_of(case)


def test_every_pass_has_a_case_that_it_changes_and_one_that_it_leaves_alone() -> None:
    """In a file of its name: ``fuse/fusion.hlo``, ``fuse/fusion-rows.hlo``."""
    changed, left_alone = set(), set()
    for case in CASES:
        for number, arguments in enumerate(commands_in(case), 1):
            own = {p.name for p in pipeline_of(arguments).passes() if case.path.stem.startswith(p.name)}
            which = f" {number}" if len(commands_in(case)) > 1 else ""
            changed |= own if f"// OUTPUT{which}:\n" in case.expected else set()
            left_alone |= own if f"// UNCHANGED{which}\n" in case.expected else set()
    assert [name for name in pass_names() if name not in changed] == []
    always = {name for name in pass_names() if changes_program(find_pass(name)())}
    assert [name for name in pass_names() if name not in left_alone | always] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_files_say_what_they_show(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// ")
    assert not text.startswith("// RUN")
    assert text.endswith("\n")
    cases = cases_of(path)
    assert text.count(f"\n{SEPARATOR}\n") == len(cases) - 1
    for case in cases:
        assert case.title, f"case {case.number} does not say what it shows"
        assert commands_in(case), f"case {case.number} has no command"
        assert case.expected, f"case {case.number} expects nothing: python tests/update_hlo.py {path}"
