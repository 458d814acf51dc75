"""The commands of ``RUN`` lines: a small part of a shell's language, the same on every system.

    // RUN: hlotool opt %s -p cse | hlotool check %s --check-prefix=CSE
    // RUN: not hlotool verify %s 2>&1 | hlotool check %s

``hlotool`` is the only program, so that a file can do no more than that; ``not`` wants an exit code that says no (not
one of a bug), and ``hlotool check`` (or ``FileCheck``) at the end of a pipe matches what comes with the directives of a
file.
``< > >> 2> 2>&1`` read and write files.  ``%s`` is the module of the case in a file of its own, ``%S`` the folder of
the file with the checks, ``%t`` the name of a file to write, ``%%`` a percent sign.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hlotool.checks.cases import Result
from hlotool.lazy_dataclass import dataclass

__all__ = ["BUGS", "Command", "CommandError", "Execute", "commands_of", "run_pipe"]

Execute = Callable[[Sequence[str], str], Result]
"""Runs ``hlotool ARGUMENTS`` with a text as standard input."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>2>&1|2>|>>|\|\||&&|[|<>;&])"""
    r"""|(?P<word>(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"|<>;&\\])+)|(?P<wrong>\S))"""
)
_PERCENT = re.compile(r"%(?:%|[sSt](?![A-Za-z_]))")
BUGS = frozenset({70, 130})
"""Exit codes of commands that did not end by themselves."""


class CommandError(Exception):
    """A RUN line that is no command; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a pipe: `words` follow the word ``hlotool``."""

    words: tuple[str, ...]
    negated: bool = False
    reads: str | None = None
    writes: str | None = None
    appends: bool = False
    messages: str | None = None
    joined: bool = False

    @property
    def is_match(self) -> bool:
        """Whether it holds what it reads against directives."""
        return self.words[:1] == ("check",)


def commands_of(line: str, names: Mapping[str, str]) -> list[Command]:
    """The commands of the pipe that a RUN line says; `names` are what stands for ``%s``, ``%S`` and ``%t``."""
    pipes: list[list[tuple[str, str]]] = [[]]
    rest = line.rstrip()
    position = 0
    while position < len(rest):
        match = _TOKEN.match(rest, position)
        assert match is not None
        position = match.end()
        kind, text = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "wrong":
            raise CommandError(f"this text never ends: {rest[match.start(kind):]}")
        if text in (";", "&", "&&", "||") and kind == "mark":
            raise CommandError(f"'{text}' is not understood; a RUN line is one pipe, and there may be several lines")
        if text == "|" and kind == "mark":
            pipes.append([])
        else:
            pipes[-1].append((kind, text))
    found = [_command(tokens, names) for tokens in pipes]
    for number, command in enumerate(found):
        if command.is_match and (number == 0 or number < len(found) - 1):
            raise CommandError("'hlotool check' stands at the end of a pipe here, and matches what comes")
    return found


def _command(tokens: Sequence[tuple[str, str]], names: Mapping[str, str]) -> Command:
    words: list[str] = []
    files: dict[str, str] = {}
    queue = list(tokens)
    while queue:
        kind, text = queue.pop(0)
        if kind == "word":
            words.append(_word(text, names))
        elif text == "2>&1":
            files[text] = ""
        elif not queue or queue[0][0] != "word":
            raise CommandError(f"expected a file after '{text}'")
        else:
            files[text] = _word(queue.pop(0)[1], names)
    negated = False
    while words[:1] == ["not"]:
        negated = not negated
        words.pop(0)
    if words[:1] == ["FileCheck"]:
        words[:1] = ["hlotool", "check"]
    if words[:1] != ["hlotool"]:
        named = repr(words[0]) if words else "nothing"
        raise CommandError(f"expected a command of hlotool, found {named}: RUN lines run no other programs")
    return Command(
        words=tuple(words[1:]),
        negated=negated,
        reads=files.get("<"),
        writes=files.get(">") or files.get(">>"),
        appends=">>" in files,
        messages=files.get("2>"),
        joined="2>&1" in files,
    )


def _word(text: str, names: Mapping[str, str]) -> str:
    try:
        plain = "".join(shlex.split(text))
    except ValueError as error:
        raise CommandError(f"{error}: {text}") from None
    return _PERCENT.sub(lambda match: "%" if match[0] == "%%" else names[match[0]], plain)


def run_pipe(commands: Sequence[Command], execute: Execute, folder: Path) -> tuple[Result, str]:
    """The result of a pipe, and why it failed: an empty text, or which command ended how.

    The exit code is that of the first command that failed.  Files are those of `folder`.
    """
    text, messages, failed, code = "", "", "", 0
    for command in commands:
        if command.reads is not None:
            text = _decoded(folder / command.reads)
        result = execute(command.words, text)
        said, text = result.messages, result.output
        if command.joined:
            text, said = text + said, ""
        for path, content, appends in ((command.messages, said, False), (command.writes, text, command.appends)):
            if path is not None:
                with open(folder / path, "a" if appends else "w", encoding="utf-8", errors="surrogateescape",
                          newline="") as stream:  # fmt: skip
                    stream.write(content)
        messages += "" if command.messages is not None else said
        text = "" if command.writes is not None else text
        right = (result.code != 0 and result.code not in BUGS) if command.negated else result.code == 0
        if not right and not failed:
            name = shlex.join(["hlotool", *command.words])
            failed = f"{name}: exit code {result.code}{', where another was wanted' if command.negated else ''}"
        code = code or result.code
    return Result(code, text, messages), failed


def _decoded(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
