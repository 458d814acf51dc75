"""Pipelines as text: ``simplify,fusion{max-ops=64},fixpoint{limit=8}(cse,dce)``.

The grammar::

    pipeline  ::=  [ step { "," step } ]
    step      ::=  name [ options ] [ "(" pipeline ")" ]
    options   ::=  "{" [ option { "," option } ] "}"
    option    ::=  name [ "=" value ]

A name is a pass, a named pipeline or ``fixpoint``, the only one with parentheses.  An option without a value is a
flag.  A value with commas or braces stands in double quotes.  The text of a pipeline parses back to the pipeline.

A module may carry the pipeline that is still to run on it, in a comment ``// pipeline: ...`` ahead of its header:
dumps and reproducers do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from hlotool.ir import Diagnostic, HloError, Location, UnsupportedError
from hlotool.passes.framework.registry import (
    PIPELINES,
    WORKS_ON,
    PassOption,
    deferred_pass,
    find_pass,
    pass_names,
    pass_options,
)
from hlotool.passes.framework.steps import VALUE, Fixpoint, Pipeline, PipelineElement, pipeline_text

__all__ = ["PipelineError", "carried_pipeline", "carry_pipeline", "parse_pipeline"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_SPACE = re.compile(r"\s*")
_CARRIED = r"(?m)^// pipeline:(.*)$"
_FIXPOINT_OPTIONS = {"limit": PassOption("limit", int, 25)}


class PipelineError(HloError):
    """A pipeline text that does not parse; `column` counts from 1."""

    def __init__(self, message: str, text: str, column: int, hint: str | None = None) -> None:
        place = Location("<pipeline>", 1, column, 1, column + 1)
        suggestion = f" ({hint})" if hint else ""
        super().__init__(
            f"pipeline, column {column}: {message}{suggestion}\n  {text}\n  {' ' * (column - 1)}^",
            [Diagnostic(message, place, hint, "HLO0901")],
        )
        self.column = column


def parse_pipeline(text: str, named: Mapping[str, str] | None = None) -> Pipeline:
    """Parse pipeline text; PipelineError points at the column of what is wrong.

    `named` holds the texts of named pipelines beside the built-in ones; they may use each other.
    """
    if not named and text in PIPELINES:
        return _built_in(text)
    return _parse(text, {**PIPELINES, **(named or {})}, ())


@cache
def _built_in(name: str) -> Pipeline:
    return _parse(name, PIPELINES, ())


def carry_pipeline(text: str, pipeline: Pipeline) -> str:
    """The text of a module with `pipeline` in a comment ahead of it, with nothing in it that a name stands for."""
    return f"// pipeline: {pipeline_text(pipeline, names=False)}\n{text}"


def carried_pipeline(text: str) -> str | None:
    """The text of the pipeline that a module carries ahead of its header; None where it carries none."""
    found = re.search(_CARRIED, text.partition("HloModule")[0])
    return None if found is None else found.group(1).strip()


def _parse(text: str, named: Mapping[str, str], inside: tuple[str, ...]) -> Pipeline:
    parser = _Parser(text, named, inside)
    steps = parser.steps()
    parser.end()
    if len(steps) == 1 and isinstance(steps[0], Pipeline):
        return steps[0]
    return Pipeline(tuple(steps))


class _Parser:
    """A recursive-descent parser over one line of text."""

    def __init__(self, text: str, named: Mapping[str, str], inside: tuple[str, ...]) -> None:
        self.text = text.replace("\n", " ")
        self.named = named
        self.inside = inside  # the named pipelines that this text is part of
        self.position = 0

    def error(self, message: str, position: int | None = None, hint: str | None = None) -> PipelineError:
        return PipelineError(message, self.text, (self.position if position is None else position) + 1, hint)

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def take(self, character: str) -> bool:
        self.skip()
        if self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def expect(self, character: str, after: str) -> None:
        if not self.take(character):
            found = self.text[self.position : self.position + 1]
            raise self.error(f"expected '{character}' {after}, found {repr(found) if found else 'the end'}")

    def end(self) -> None:
        self.skip()
        if self.position < len(self.text):
            raise self.error(f"unexpected {self.text[self.position]!r}")

    def name(self, what: str) -> tuple[str, int]:
        self.skip()
        start = self.position
        match = _NAME.match(self.text, start)
        if match is None:
            found = self.text[start : start + 1]
            raise self.error(f"expected {what}, found {repr(found) if found else 'the end'}")
        self.position = match.end()
        return match.group(), start

    def steps(self) -> list[PipelineElement]:
        self.skip()
        if self.position == len(self.text) or self.text[self.position] == ")":
            return []
        steps = [self.step()]
        while self.take(","):
            steps.append(self.step())
        return steps

    def step(self) -> PipelineElement:
        name, start = self.name("a pass or pipeline")
        if name == "fixpoint":
            options = self.options(name, _FIXPOINT_OPTIONS)
            self.expect("(", "after fixpoint")
            steps = self.steps()
            self.expect(")", "at the end of fixpoint")
            return Fixpoint(tuple(steps), options.get("limit", 25))
        if name in self.inside:
            raise self.error(f"pipeline {name!r} contains itself", start)
        if name in self.named:
            return Pipeline(_parse(self.named[name], self.named, (*self.inside, name)).steps, name)
        self.skip()
        has_options = self.text.startswith("{", self.position)
        if name in WORKS_ON and not has_options:
            return deferred_pass(name)()
        try:
            pass_class = find_pass(name)
        except KeyError:
            known = [*pass_names(), *self.named, "fixpoint"]
            raise self.error(f"no pass or pipeline is called {name!r}", start, _near(name, known)) from None
        options = self.options(name, pass_options(pass_class)) if has_options else {}
        try:
            return pass_class(**{key.replace("-", "_"): value for key, value in options.items()})
        except UnsupportedError:  # the text is right: it names what cannot be had here
            raise
        except HloError as error:
            raise self.error(error.message, start) from None

    def options(self, owner: str, known: dict[str, PassOption]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not self.take("{"):
            return found
        if self.take("}"):
            return found
        while True:
            name, start = self.name("an option name")
            key = name.replace("_", "-")
            if key not in known:
                raise self.error(f"{owner} has no option {name!r}", start, _near(key, list(known)))
            if key in found:
                raise self.error(f"option {name!r} is given twice", start)
            found[key] = self.value(known[key]) if self.take("=") else self.flag(known[key], start)
            if not self.take(","):
                break
        self.expect("}", "at the end of the options")
        return found

    def flag(self, option: PassOption, start: int) -> bool:
        if option.type is not bool:
            raise self.error(f"option {option.name!r} needs a value ({option.name}=...)", start)
        return True

    def value(self, option: PassOption) -> Any:
        self.skip()
        start = self.position
        match = VALUE.match(self.text, start)
        if match is None:
            raise self.error("this quoted value never ends", start)
        self.position = match.end()
        quoted, plain = match.groups()
        raw = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        value = _convert(raw, option.type)
        if value is None:
            raise self.error(f"option {option.name!r} takes {_TYPE_WORDS[option.type]}, not {raw!r}", start)
        return value


_TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _convert(raw: str, kind: type) -> Any:
    """The value of `raw` as `kind`; None when it is not one."""
    if kind is str:
        return raw
    if kind is bool:
        return {"true": True, "false": False}.get(raw.lower())
    try:
        return kind(raw)
    except ValueError:
        return None


def _near(name: str, names: list[str]) -> str | None:
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return f"one of: {', '.join(names)}" if 0 < len(names) <= 8 else None
