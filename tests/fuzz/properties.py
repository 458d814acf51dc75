"""What must hold of every text, and of every valid module."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hlotool.ir import Diagnostic, HloError, Location, Module
from hlotool.ir.verifier import verify
from hlotool.text.compare import difference
from hlotool.text.diagnostics import render, to_json
from hlotool.text.parser import parse
from hlotool.text.presets import PRESETS
from hlotool.text.printer import PrintOptions, print_module

__all__ = ["SECONDS", "Hang", "check", "check_module", "check_presets", "hang_after"]

SECONDS = 60.0
"""Processor time after which a text of less than 100 kB counts as one that never ends; every further 100 kB may take as
long.  It is no bound on how long one should take: a busy or slow machine must not see a hang where there is none."""

_LIMITED = 100_000
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORDY = PrintOptions(percent=True, operand_shapes=True, signatures=True)


class Hang(BaseException):
    """A text that seems never to end."""


@contextmanager
def hang_after(seconds: float) -> Iterator[None]:
    """Raise `Hang` after so many seconds of this process's own time."""

    def stop(number: int, frame: object) -> None:
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def check(text: str) -> str:
    """``error``, ``invalid`` or ``valid``: how far a text gets.  Raises whatever must not happen."""
    with hang_after(SECONDS * max(1, len(text) / _LIMITED)):
        try:
            module = parse(text, "mutant.hlo")
        except HloError as error:
            _check_diagnostics(error.diagnostics, text)
            return "error"
        found = verify(module)
        if found:
            _check_diagnostics(found, text)
            return "invalid"
        again = check_module(module)
        if len(text) % 4 == 0:  # they take longer than all the rest
            check_presets(module, again)
        return "valid"


def check_module(module: Module) -> Module:
    """A valid module prints; the text reads back as the same valid module, and prints as the same bytes."""
    text = print_module(module)
    again = parse(text)
    assert (found := difference(module, again)) is None, found
    assert print_module(again) == text, "the text printed again is another"
    assert not (errors := verify(again)), errors[0].message
    assert (found := difference(module, parse(print_module(module, _WORDY)))) is None, found
    return again


def check_presets(module: Module, again: Module) -> None:
    """Every preset of two equal modules is the same text, and what promises to read back does."""
    for name, preset in PRESETS.items():
        text = preset(module)
        assert preset(again) == text, f"{name} is another for an equal module"
        read = parse(text)
        assert not (errors := verify(read)), f"{name}: {errors[0].message}"
        assert name in ("short", "xla") or preset(read) == text, f"{name} printed again is another"


def _check_diagnostics(found: Sequence[Diagnostic], text: str) -> None:
    """Every diagnostic says something, and points into the text."""
    assert found, "an error without a diagnostic"
    lines = _LINE_END.split(text)
    for diagnostic in found:
        assert diagnostic.message.strip(), "an empty message"
        assert re.fullmatch(r"HLO\d{4}", diagnostic.code), diagnostic.code
        assert "\n" not in diagnostic.message, f"a message of two lines: {diagnostic.message!r}"
        if diagnostic.location is not None:
            _check_place(diagnostic.location, lines)
        for _, place in diagnostic.related:
            _check_place(place, lines)
    render(found[-1], text)
    to_json(found[-1])


def _check_place(place: Location, lines: list[str]) -> None:
    assert place.file == "mutant.hlo", place
    assert 1 <= place.line <= place.end_line <= len(lines), (place, len(lines))
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1, (place, len(lines[place.line - 1]))
    assert 1 <= place.end_column <= len(lines[place.end_line - 1]) + 1, (place, len(lines[place.end_line - 1]))
    assert place.line < place.end_line or place.column <= place.end_column, place
