"""What a pipeline consists of: passes, steps that are repeated, other pipelines; and its text.

A pass is a frozen dataclass with slots.  Its fields are its options, its docstring is its help, and `run` rewrites a
module in place and says whether anything changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["VALUE", "Fixpoint", "Pass", "Pipeline", "PipelineElement", "pipeline_text"]

VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s,{}()"]*)')
"""The value of an option, in quotes or without."""


@runtime_checkable
class Pass(Protocol):
    """A rewrite of modules: a function of the module alone.  HloError where it is made with options that say nothing.

    One that also has `opcodes`, a frozenset, changes nothing in a module where none of them occurs.  One that has
    `budget` may make so many instructions for each that there is (`BUDGET`: the usual number).  One that has
    `drops_roundings`, true, leaves out roundings that the program asks for; one that has `changes_program`, true, makes
    a program that computes something else, as a gradient, and may take and return other arrays.
    """

    name: ClassVar[str]

    def run(self, module: Module, log: DecisionLog) -> bool:
        """Rewrite `module` in place; whether it changed."""
        ...


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Repeats its steps until none of them changes anything, at most `limit` times."""

    steps: tuple[PipelineElement, ...]
    limit: int = 25


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps in order.  `name` is set for the named pipelines, which print as their name."""

    steps: tuple[PipelineElement, ...]
    name: str = ""

    def passes(self) -> Iterator[Pass]:
        """The passes in order of first mention, nested ones included."""
        for step in self.steps:
            if isinstance(step, Pipeline):
                yield from step.passes()
            elif isinstance(step, Fixpoint):
                yield from Pipeline(step.steps).passes()
            else:
                yield step

    def __str__(self) -> str:
        return pipeline_text(self)


PipelineElement = Pass | Pipeline | Fixpoint
"""What a pipeline has one after the other."""


def pipeline_text(step: PipelineElement, names: bool = True) -> str:
    """The text of a pipeline, a fixpoint or a pass (options that have their default are left out).

    Named pipelines are written as their names, or, without `names`, as what they stand for.
    """
    if isinstance(step, Pipeline):
        return (names and step.name) or ",".join(filter(None, (pipeline_text(inner, names) for inner in step.steps)))
    if isinstance(step, Fixpoint):
        limit = "" if step.limit == 25 else f"{{limit={step.limit}}}"
        return f"fixpoint{limit}({','.join(filter(None, (pipeline_text(inner, names) for inner in step.steps)))})"
    return step.name + _options_text(step)


def _options_text(pass_: Pass) -> str:
    given = [
        f"{row.name.replace('_', '-')}={_value_text(getattr(pass_, row.name))}"
        for row in fields(pass_)  # type: ignore[arg-type]
        if getattr(pass_, row.name) != row.default
    ]
    return "{" + ",".join(given) + "}" if given else ""


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    if VALUE.fullmatch(text) and text and '"' not in text:
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
