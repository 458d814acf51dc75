"""Instructions of the usual form are read in one match; whatever is said of a text must not depend on that."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from large_module import large_module
from mixture_module import mixture_module

from hlotool.ir import Diagnostic, Instruction, ParseError
from hlotool.text import computations
from hlotool.text.instructions import read_instruction
from hlotool.text.parser import parse
from hlotool.text.printer import print_module
from hlotool.text.state import Scope, State

MODELS = sorted((Path(__file__).parent / "data" / "wild").glob("*.hlo"), key=lambda path: path.stat().st_size)[:12]
TYPED = """
HloModule typed
ENTRY main {
  %a = f32[2]{0} parameter(0)
  %b = f32[2]{0} parameter(1)
  %c = f32[2]{0} add(f32[2]{0} %a, f32[2]{0} %b)
  %d = f32[2]{0} add(f32[2]{0} %c, f32[2] %b)
  %e = f32[2]{0} add(f32[2]{0} %d, f32[3]{0} %b)
  %t = (f32[2]{0}, (f32[2]{0}, s32[])) custom-call(%a, /*index=1*/%b), custom_call_target="t, metadata={op_name=\\"\\"}"
  %u = (f32[2]{0}, (f32[2]{0}, s32[])) custom-call(%a, /*index=1*/%b), custom_call_target="t, metadata={source_line=3}"
  %v = (f32[2]{0}, (f32[2]{0}, s32[])) custom-call(%a, /*index=1*/%b), custom_call_target="t, metadata={source_line=4}"
  %w = f32[2]{0} custom-call(%a, %%b), custom_call_target="t"
  %x = f32[2]{0} custom-call(%a, % b), custom_call_target="t"
  %y = f32[2]{0} custom-call(%a, %b,), custom_call_target="t"
  ROOT %z = f32[2]{0} negate(%e), metadata={op_name="a\\"b" source_line=1}
}
"""


def _read(text: str) -> tuple[str, list[Diagnostic], list[Diagnostic]]:
    """The printed module with its places, the errors, and the notes of one that is only looked at."""
    notes: list[Diagnostic] = []
    try:
        parse(text, notes=notes)
    except ParseError:
        notes = []
    try:
        module = parse(text)
    except ParseError as error:
        return "", list(error.diagnostics), notes
    places = "\n".join(f"{one.name} {one.location} {one.metadata}" for one in module.instructions())
    return f"{print_module(module)}\n{places}", [], notes


def _read_carefully(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Diagnostic], list[Diagnostic]]:
    with monkeypatch.context() as patch:
        patch.setattr(computations, "read_usual", lambda state, scope, match: False)
        return _read(text)


def _mutated(text: str, chance: random.Random) -> str:
    """The text with a few characters dropped, doubled or exchanged, or words exchanged."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        other = chance.randrange(len(text))
        text = chance.choice((
            text[:at] + text[at + 1 :],
            text[:at] + chance.choice("(){}[],=%\"\\/*:. \n\r7x") + text[at:],
            text[:at] + text[other : other + 12] + text[at:],
            text[:at] + text[at + chance.randint(2, 40) :],
        ))  # fmt: skip
    return text


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_read_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    assert _read(text) == _read_carefully(text, monkeypatch)


@pytest.mark.parametrize(
    "text", [TYPED, large_module(200), mixture_module(1, 1)], ids=["typed", "transformer", "mixture"]
)
def test_mistakes_read_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _read(text) == _read_carefully(text, monkeypatch)
    chance = random.Random(0)
    for _ in range(40):
        wrong = _mutated(text, chance)
        assert _read(wrong) == _read_carefully(wrong, monkeypatch), wrong


def test_nearly_all_instructions_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    careful = 0

    def read(state: State, scope: Scope) -> Instruction:
        nonlocal careful
        careful += 1
        return read_instruction(state, scope)

    monkeypatch.setattr(computations, "read_instruction", read)
    parse(mixture_module(1))
    first = careful
    count = parse(mixture_module(4)).instruction_count()
    assert careful - first < first + 0.02 * count
