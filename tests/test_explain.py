"""The catalogue of codes: every page is true, and every code in the source has a page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import ROOT, Run

from hlotool.analysis.decision_codes import KINDS
from hlotool.ir import HloError
from hlotool.ir.verifier import check
from hlotool.lint import RULES
from hlotool.text.codes import CATALOGUE, find_page, near_codes
from hlotool.text.page import Page
from hlotool.text.parser import parse

PAGES = sorted(CATALOGUE.values(), key=lambda page: page.code)
USED = {
    code
    for path in (ROOT / "hlotool").rglob("*.py")
    if not path.name.startswith("codes")
    for code in re.findall(r'"(HLO\d{4})"', path.read_text(encoding="utf-8"))
}


def codes(page: Page, example: str) -> list[str]:
    """The codes that an example gives."""
    try:
        if page.language == "python":
            scope: dict[str, Any] = {}
            exec(compile(example, page.code, "exec"), scope)
        else:
            check(parse(example))
    except HloError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.code)
def test_the_wrong_example_gives_the_code_first(page: Page) -> None:
    assert codes(page, page.wrong)[:1] == [page.code]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.code)
def test_the_right_example_is_clean(page: Page) -> None:
    assert codes(page, page.right) == []


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert set(CATALOGUE) == USED - set(KINDS) - set(RULES)
    assert not set(RULES) & {*CATALOGUE, *KINDS}


def test_pages_are_complete() -> None:
    assert len({page.title for page in PAGES}) == len(PAGES)
    assert all(page.meaning.endswith((".", "...")) for page in PAGES)


@pytest.mark.parametrize("text", ["HLO0102", "hlo0102", "102", "0102"])
def test_codes_are_found_however_they_are_written(text: str) -> None:
    page = find_page(text)
    assert page is not None
    assert page.code == "HLO0102"


def test_near_codes() -> None:
    assert near_codes("HLO0109") == ["HLO0108", "HLO0110", "HLO0107"]
    assert near_codes("comment") == ["HLO0102"]
    assert near_codes("nonsense") == []


def test_explain_prints_a_page(hlotool: Run) -> None:
    done = hlotool("explain", "HLO0102")
    assert done.returncode == 0
    assert done.stdout.startswith("HLO0102: a comment is never closed")
    assert "Wrong:" in done.stdout
    assert "/* the input */" in done.stdout


def test_explain_lists_all_codes(hlotool: Run) -> None:
    done = hlotool("explain")
    assert [line.split()[0] for line in done.stdout.splitlines()] == sorted([*CATALOGUE, *KINDS, *RULES])


def test_explain_suggests(hlotool: Run) -> None:
    done = hlotool("explain", "HLO0109")
    assert done.returncode == 2
    assert "Did you mean HLO010" in done.stderr
