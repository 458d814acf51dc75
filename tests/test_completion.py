"""What shells are offered for values: through click's own way from a command line to its completions."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from hlotool.cli import COMMANDS, cli

MODULE = """HloModule small

twice {
  a = f32[4]{0} parameter(0)
  ROOT more = f32[4]{0} add(a, a)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x.1 = f32[4]{0} parameter(0)
  ROOT %sum = f32[4]{0} fusion(%x.1), kind=kLoop, calls=twice
}
"""


def offered(*words: str) -> list[str]:
    """What is offered for the last of `words`."""
    *before, incomplete = words
    found = ShellComplete(cli, {}, "hlotool", "_HLOTOOL_COMPLETE").get_completions(before, incomplete)
    return [item.value for item in found]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.hlo"
    path.write_text(MODULE)
    return str(path)


def test_commands_and_options() -> None:
    assert set(offered("")) >= set(COMMANDS)
    assert offered("comp") == ["compare", "compile"]
    assert "--format" in offered("stats", "--f")


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["opt", "-p", ""], {"cse", "fusion", "default", "none"}),
        (["opt", "-p", "simplify,cs"], {"simplify,cse"}),
        (["run", "-p", "fixpoint(cse,dc"], {"fixpoint(cse,dce"}),
        (["compile", "--passes", "fusion{max-o"], {"fusion{max-ops="}),
        (["report", "--disable", "cse,dc"], {"cse,dce"}),
        (["opt", "--only", "cs"], {"cse"}),
        (["opt", "--stop-after", "cs"], {"cse"}),
        (["passes", "fusio"], {"fusion"}),
        (["passes", "def"], {"default"}),
        (["run", "--backend", ""], {"cpu", "evaluate"}),
        (["reduce", "--backend", "e"], {"evaluate"}),
        (["emit", "--cpu", "x86-64-v"], {"x86-64-v2", "x86-64-v3", "x86-64-v4"}),
        (["bench", "--cpu", "host,l"], {"host,l1=", "host,l2=", "host,l3="}),
        (["explain", "HLO010"], {"HLO0101", "HLO0102"}),
        (["explain", "hlo40"], {"HLO4012"}),
        (["explain", "f"], {"fusion"}),
        (["explain", "sh"], {"sharding"}),
        (["lint", "--select", "HLO60"], {"HLO6001"}),
        (["diff", "--ignore", "names,lay"], {"names,layouts"}),
        (["schema", "explain"], {"explain", "explain-fusion", "explain-instruction", "explain-sharding"}),
        (["tree", "--by", ""], {"computation", "scope"}),
        (["bisect", "pa"], {"passes"}),
        (["stats", "--format", "j"], {"json"}),
    ],
)
def test_values(words: list[str], some: set[str]) -> None:
    found = offered(*words)
    assert some <= set(found)
    assert words[-1] in ("", "hlo40") or all(value.startswith(words[-1]) for value in found)


def test_names_in_a_file(file: str) -> None:
    assert offered("extract", file, "") == ["a", "more", "x.1", "sum"]
    assert offered("extract", file, "--computation", "") == ["twice", "main"]
    assert offered("extract", file, "--between", "x.1", "s") == ["sum"]
    assert offered("graph", file, "--around", "m") == ["more"]
    assert offered("explain", "--file", file, "s") == ["sum"]
    assert offered("explain", "fusion", file, "x.1", "s") == ["sum"]


@pytest.mark.parametrize("wrong", ["absent.hlo", "-", "."])
def test_no_names_without_a_file(wrong: str) -> None:
    assert offered("extract", wrong, "") == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_offers_its_options(name: str) -> None:
    assert "--help" in offered(name, "--")
