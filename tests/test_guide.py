"""README and manual: what they show is what happens; the site builds, and needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import Browser, needs_chromium
from conftest import ROOT, Run, environment
from guide_pages import GUIDE, PAGES, Step, blocks, matches, run_page

from hlotool.cli import COMMANDS

SITE = ROOT / "man" / "guide" / "mkdocs.yml"
README = ROOT / "README.md"


def name_of(path: Path) -> str:
    return path.name


# ---- what is shown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    steps, skipped = run_page(page, tmp_path)
    assert not [f"{step.command}\n{step.found}" for step in steps if not step.ok]
    if skipped:
        pytest.skip(skipped[0])


def test_few_blocks_are_not_executed() -> None:
    """Installing, completion, the README's two commands: what needs a network, other machines, files of others,
    minutes, or another shell."""
    shown = Counter(block.language for page in PAGES for block in blocks(page.read_text(encoding="utf-8")))
    assert set(shown) == {"console", "python", "pycon", "hlo", "toml", "py", "ini", "sh", "c", "js"}
    assert shown["sh"] <= 15
    assert shown["console"] > 50
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    unmarked = [b for text in texts for b in blocks(text) if b.language in ("hlo", "toml") and not b.file]
    assert all("hlotool_example" in b.text or "pyproject" in b.text for b in unmarked)


FOUND = "out0: ok: 12 of 3\nmore\nend, 12 ms\n"
STEP = Step("hlotool run", "", "out0: ok: 12 of 3\n...\nend, 0.5 s\n", (0, 0), 0, FOUND)


def test_output_is_compared() -> None:
    assert matches(STEP)
    assert matches(replace(STEP, shown="out0: ok: 12 of 3\nmo...\nend, 1 s\n"))
    assert not matches(replace(STEP, shown="out0: ok: 12 of 4\n...\nend, 0.5 s\n"))
    assert not matches(replace(STEP, shown="out0: ok: 12 of 3\nend, 0.5 s\n"))
    assert matches(replace(STEP, shown="out0: ok: 12 of 4\n...\nend, 0.5 s\n", says="numbers vary"))
    assert not matches(replace(STEP, shown="out0: no: 12 of 4\n...\nend, 0.5 s\n", says="numbers vary"))
    assert not replace(STEP, code=1).ok
    assert replace(STEP, code=1, command="hlotool run   # exit code 1").ok
    assert not replace(STEP, command="hlotool run   # exit code 1", says="output varies").ok


# ---- what is there


def test_all_commands_are_named() -> None:
    text = README.read_text(encoding="utf-8")
    table = (GUIDE / "commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`{name}`" not in text] == []
    assert [name for name in COMMANDS if f"| `hlotool {name}" not in table] == []


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README.read_text(encoding="utf-8"))
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_twelve_questions_take_two_commands_at_most() -> None:
    text = (GUIDE / "cookbook.md").read_text(encoding="utf-8")
    sections = re.split(r"^## \((.)\) ", text, flags=re.M)[1:]
    assert "".join(sections[::2]) == "abcdefghijkl"
    for body in sections[1::2]:
        shown = "".join(block.text for block in blocks(body) if block.language == "console")
        assert 1 <= len(re.findall(r"^\$ ", shown, flags=re.M)) <= 2


def test_the_tutorial_shows_the_files_beside_it() -> None:
    shown: dict[str, str] = {}
    for block in blocks((GUIDE / "tutorial.md").read_text(encoding="utf-8")):
        shown.setdefault(block.file, block.text)
    for name in ("network.py", "passes/scale_out_of_relu.py"):
        file = (GUIDE / "tutorial" / name).read_text(encoding="utf-8")
        for part in shown[name].strip().split("\n\n\n"):
            assert part in file


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not installed")
def test_the_picture_is_what_hlotool_draws(hlotool: Run, tmp_path: Path) -> None:
    """Coordinates depend on Graphviz and its fonts, words do not."""
    done = hlotool("graph", ROOT / "samples" / "mean.hlo", "-O2", "-o", "mean.svg")
    assert done.returncode == 0, done.stderr
    drawn, kept = ((f / "mean.svg").read_text(encoding="utf-8") for f in (tmp_path, GUIDE / "images"))
    words = r"<text[^>]*>([^<]*)</text>"
    assert re.findall(words, kept) == re.findall(words, drawn) != []


# ---- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        if find_spec(name.partition(".")[0]) is None or find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install 'hlotool[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(SITE), "-d", str(folder)]
    env = environment(NO_MKDOCS_2_WARNING="1")
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_needs_no_network(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)="(?:https?:)?//')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        assert loads.findall(page.read_text(encoding="utf-8")) == [], page.name
    assert all("url(http" not in css.read_text(encoding="utf-8") for css in site.rglob("*.css"))


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_pages_opened_as_files_can_be_searched(site: Path, dark: bool) -> None:
    browser = Browser()
    try:
        browser.dark(dark)
        browser.open(site / "tutorial.html", "?q=miscompile")
        found = """new Promise(done => { const look = () => {
            const links = [...document.querySelectorAll(".md-search-result__link")];
            links.length ? done(links.map(link => link.textContent).join()) : setTimeout(look, 50); }; look(); })"""
        assert "miscompile" in browser.evaluate(found)
        assert browser.requests()
        assert [url for url in browser.requests() if not url.startswith(("file:", "data:", "about:"))] == []
        assert browser.evaluate("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
        assert browser.errors == []
    finally:
        browser.close()


def test_the_catalogues_are_whole(site: Path) -> None:
    from hlotool.analysis.decision_codes import KINDS
    from hlotool.lint import RULES
    from hlotool.passes.framework.registry import PASSES
    from hlotool.text.codes import CATALOGUE

    def anchors(name: str) -> set[str]:
        return set(re.findall(r'<h[1-6] id="([^"]+)"', (site / "reference" / name).read_text(encoding="utf-8")))

    assert set(CATALOGUE) <= anchors("errors.html")
    assert set(KINDS) <= anchors("decisions.html")
    assert {rule.code for rule in RULES.values()} <= anchors("lint.html")
    assert set(PASSES) <= anchors("passes.html")
    assert set(COMMANDS) <= anchors("commands.html")
