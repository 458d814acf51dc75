"""The files for editors are well formed, and say the same as the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT

from hlotool.ir import ELEMENT_TYPES
from hlotool.lsp.document import Document

EDITORS = ROOT / "samples" / "editors"
VSCODE = EDITORS / "vscode"
PACKAGE = json.loads((VSCODE / "package.json").read_text())
GRAMMAR = json.loads((VSCODE / "syntaxes" / "hlo.tmLanguage.json").read_text())


def patterns(part: Any) -> Iterator[str]:
    """All regular expressions of a grammar."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("match", "begin", "end", "firstLineMatch"):
                yield value
            yield from patterns(value)
    elif isinstance(part, list):
        for value in part:
            yield from patterns(value)


def test_the_extension_names_files_that_exist() -> None:
    contributed = PACKAGE["contributes"]
    files = [PACKAGE["main"], contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]]
    assert all((VSCODE / file).is_file() for file in files)
    assert contributed["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
    assert contributed["languages"][0]["extensions"] == [".hlo", ".hlo.txt"]
    assert contributed["configuration"]["properties"]["hlo.server.command"]["default"] == ["hlotool", "lsp"]
    json.loads((VSCODE / "language-configuration.json").read_text())


def test_the_grammar_compiles() -> None:
    found = list(patterns(GRAMMAR))
    assert len(found) > 12
    for pattern in found:
        re.compile(pattern)
    included = set(re.findall(r'"#(\w+)"', json.dumps(GRAMMAR)))
    assert included == set(GRAMMAR["repository"])


def test_the_grammar_knows_the_words() -> None:
    """Element types, heads and names, as the scan of the server finds them."""
    shape = re.compile(GRAMMAR["repository"]["shapes"]["patterns"][0]["match"])
    assert all(shape.fullmatch(f"{row.name}[2,3]{{1,0}}") for row in ELEMENT_TYPES.values() if row.is_array)
    head = re.compile(GRAMMAR["repository"]["computation"]["match"], re.MULTILINE)
    named = re.compile(GRAMMAR["repository"]["instruction"]["patterns"][0]["match"], re.MULTILINE)
    for path in sorted((ROOT / "samples").glob("*.hlo")):
        document = Document(path.read_text())
        assert [found[2] for found in head.finditer(document.text)] == [scope.name for scope in document.scan.scopes]
        assert [found[2] for found in named.finditer(document.text)] == [s.name for s in document.scan.statements]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_extension_is_javascript() -> None:
    subprocess.run(["node", "--check", VSCODE / "extension.js"], check=True)


def test_the_settings_start_the_server() -> None:
    helix = tomllib.loads((EDITORS / "helix" / "languages.toml").read_text())
    assert helix["language-server"]["hlotool"] == {"command": "hlotool", "args": ["lsp"]}
    assert helix["language"][0]["language-servers"] == ["hlotool"]
    assert 'cmd = { "hlotool", "lsp" }' in (EDITORS / "neovim" / "hlo.lua").read_text()
    assert '("hlotool" "lsp")' in (EDITORS / "emacs" / "hlo-mode.el").read_text()
