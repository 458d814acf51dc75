"""Structural directives: what is asked of the module that a command printed, and of its code."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hlotool.checks.directives import Directive, Problem
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import Comparison, compare_all, compare_with_truth, verdict_of
from hlotool.harness.input_files import module_inputs
from hlotool.harness.inputs import random_inputs
from hlotool.inspect.expression import Comparison as Condition
from hlotool.inspect.expression import Number, QueryError, parse_expression
from hlotool.inspect.query import Query
from hlotool.ir import OPCODES, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable

__all__ = ["Answer", "Made", "answer"]

Arrays = Sequence[npt.NDArray[Any]]

_COUNTED = re.compile(r"(?P<what>.*?)\s*(?P<operator>==|!=|<=|>=|<|>)?\s*(?P<number>\d+)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_SHOWN = 8
_SEED = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """To one directive: `verdict` is passed, failed, undecided or invalid; `found` the number that would be right."""

    verdict: str
    problem: Problem | None = None
    found: int | None = None


@dataclass(frozen=True)
class Made:
    """The module of a case and what a command made of it; `folder` is where the files lie that directives name."""

    given: Callable[[], Module]
    module: Module
    folder: Path

    @cached_property
    def executable(self) -> Executable:
        """The module's code, without further passes of a user's pipeline."""
        return compile_module(self.module, pipeline="none")


def answer(directive: Directive, made: Made) -> Answer:
    """Whether a structural directive holds; HloError where that cannot be found out."""
    try:
        return _KINDS[directive.kind](directive, made)
    except QueryError as error:
        return _invalid(directive, error.diagnostics[0].message)


def _invalid(directive: Directive, why: str) -> Answer:
    return Answer("invalid", Problem(directive.line, f"{directive.name}: {why}", (f"in: {directive.text}",)))


def _counted(directive: Directive) -> tuple[str, str, int] | None:
    """What is counted, how the count compares, and with what."""
    match = _COUNTED.fullmatch(directive.text)
    return match and (match["what"], match["operator"] or "==", int(match["number"]))


def _query(what: str) -> Query:
    """Of one word: the opcode."""
    if what in OPCODES:
        return Query(f"opcode == '{what}'")
    if re.fullmatch(r"[\w-]+", what):
        raise QueryError(f"there is no opcode {what!r}", what, 0, len(what), None)
    return Query(what)


def _count(directive: Directive, made: Made) -> Answer:
    asked = _counted(directive)
    if asked is None or not asked[0]:
        return _invalid(directive, "expected an opcode or a query, and a number, as in fusion 2 or dot <= 3")
    what, compares, number = asked
    found = [f"{i.parent.name}/{i.name}" for i in _query(what).matches(made.module) if i.parent is not None]
    return _compared(directive, len(found), compares, number, found)


def _kernel(directive: Directive, made: Made) -> Answer:
    asked = _counted(directive)
    if asked is None:
        return _invalid(directive, "expected a number of kernels, as in <= 4, or of whose, as in dot 0")
    what, compares, number = asked
    program = made.executable.program
    if program is None:
        raise UnsupportedError("the backend makes no kernels")
    uses = [use.instruction for use in program.kernels]
    if what:
        matching = {instruction.name for instruction in _query(what).matches(made.executable.module)}
        uses = [name for name in uses if name in matching]
    return _compared(directive, len(uses), compares, number, uses)


def _compared(directive: Directive, found: int, compares: str, number: int, names: Sequence[str]) -> Answer:
    if _OPERATORS[compares](found, number):
        return Answer("passed", found=found)
    details = [f"expected: {directive.text}", *names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])]
    return Answer("failed", Problem(directive.line, f"{directive.name}: found {found}", tuple(details)), found)


def _peak(directive: Directive, made: Made) -> Answer:
    condition = parse_expression(f"bytes {directive.text}") if directive.text else None
    if not isinstance(condition, Condition) or not isinstance(condition.right, Number):
        return _invalid(directive, "expected a limit, as in <= 4MiB")
    if condition.operator not in _OPERATORS:
        return _invalid(directive, f"'{condition.operator}' compares no numbers")
    found = made.executable.memory.peak_bytes
    if _OPERATORS[condition.operator](found, condition.right.value):
        return Answer("passed", found=found)
    message = f"{directive.name}: the code takes {found:,} bytes"
    return Answer("failed", Problem(directive.line, message, (f"expected: {directive.text}",)), found)


def _equal(directive: Directive, made: Made) -> Answer:
    words = directive.text.split()
    if words[:1] != ["evaluate"]:
        return _invalid(directive, "expected evaluate")
    values = dict(word.partition("=")[::2] for word in words[1:])
    if set(values) - {"seed", "inputs"} or not values.get("seed", "1").isdecimal():
        return _invalid(directive, "expected seed=N or inputs=FILE after evaluate")
    seed = int(values.get("seed", _SEED))
    rows = _comparisons(made, seed, values.get("inputs"))
    verdict = verdict_of(rows)
    if verdict == "ok":
        return Answer("passed")
    wrong = [f"out{number}: {row.verdict}: {row}" for number, row in enumerate(rows) if not row.ok]
    message = f"{directive.name}: the code does not compute what the module means"
    if verdict == "UNDECIDED":
        message = f"{directive.name}: undecided: these inputs say too little about the outputs"
    problem = Problem(directive.line, message, tuple(wrong))
    return Answer("undecided" if verdict == "UNDECIDED" else "failed", problem)


def _comparisons(made: Made, seed: int, inputs: str | None) -> list[Comparison]:
    """The outputs of the code against those of the module of the case."""
    before, executable = made.given(), made.executable
    if executable.devices > 1:
        reference = compile_module(before, "evaluate")
        rows = [random_inputs(before, seed, device) for device in range(reference.devices)]
        pairs = zip(executable.run_devices(rows), reference.run_devices(rows), strict=True)
        return [row for got, wanted in pairs for row in compare_all(got, wanted)]
    arguments = module_inputs(before, None if inputs is None else str(made.folder / inputs), seed)
    results = executable(*arguments)
    try:
        bounds = bounded_results(before, arguments)
    except UnsupportedError:  # sizes known only at run time
        return compare_all(results, evaluate(before, arguments))
    return compare_with_truth(results, bounds, again=lambda draws: bounded_results(before, arguments, draws=draws))


_KINDS: dict[str, Callable[[Directive, Made], Answer]] = {
    "COUNT": _count, "KERNEL": _kernel, "PEAK": _peak, "EQUAL": _equal,
}  # fmt: skip
