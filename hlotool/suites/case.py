"""What a benchmark case is: arguments and steps as data, from which a module is made, and a program for each peer.

Nothing here needs more than the standard library, so that peers can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from hlotool.lazy_dataclass import dataclass

__all__ = ["FULL", "SMALL", "Argument", "Case", "Graph", "Scale", "Step", "from_json", "headlines", "to_json"]


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that a program takes: an HLO element type, sizes, and what its numbers are like.

    `values` is ``normal``; ``weights``, normal over the root of the number of terms; ``positive``, from 0.5 to 1.5;
    ``scales N``, what makes sums of N products with 8 bits about 1; or ``below N``, ``sorted below N``: whole numbers
    from 0 to N - 1.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    values: str = "normal"


@dataclass(frozen=True, slots=True)
class Step:
    """A call of an operation of `hlotool.suites.operations`; operands and results are names."""

    operation: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program: its steps compute `results` from the arguments, on `devices` devices.

    `source` says where the shapes are from.  A `headline` stands for its suite in short tables.
    """

    suite: str
    name: str
    arguments: tuple[Argument, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    source: str = ""
    headline: bool = False
    devices: int = 1

    @property
    def full_name(self) -> str:
        return f"{self.suite}/{self.name}"


class Graph:
    """A program in the making: `argument` and operations, by their names, give names of values."""

    def __init__(self, element: str = "f32") -> None:
        self.element = element
        self.arguments: list[Argument] = []
        self.steps: list[Step] = []

    def argument(self, shape: Iterable[int], values: str = "normal", element: str | None = None) -> str:
        name = f"a{len(self.arguments)}"
        self.arguments.append(Argument(name, element or self.element, tuple(shape), values))
        return name

    def weights(self, *shape: int, element: str | None = None) -> str:
        return self.argument(shape, "weights", element)

    def add(self, operation: str, *operands: str, **attributes: Any) -> str:
        """A step with one result."""
        (result,) = self.several(1, operation, *operands, **attributes)
        return result

    def several(self, count: int, operation: str, *operands: str, **attributes: Any) -> tuple[str, ...]:
        """A step with `count` results."""
        first = sum(len(step.results) for step in self.steps)
        results = tuple(f"v{first + number}" for number in range(count))
        self.steps.append(Step(operation, operands, results, attributes))
        return results

    def case(self, suite: str, name: str, *results: str, **more: Any) -> Case:
        """The finished program; its results are those of the last step, where none are named."""
        return Case(
            suite=suite, name=name, arguments=tuple(self.arguments), steps=tuple(self.steps),
            results=results or self.steps[-1].results, **more,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scale:
    """Which size of its cases a table makes: sizes as they are, or none above `most`."""

    most: int | None = None

    def __call__(self, size: int, least: int = 1) -> int:
        """`size`, or the largest number up to `most` that is odd or even as it is, but not below `least`."""
        if self.most is None or size <= max(self.most, least):
            return size
        small = self.most - (self.most - size) % 2
        return max(small, least)

    def all(self, *sizes: int) -> tuple[int, ...]:
        return tuple(map(self, sizes))


FULL = Scale()
SMALL = Scale(6)
"""Small enough for the evaluator, in a fraction of a second each."""


def to_json(case: Case) -> dict[str, Any]:
    """What a peer has to know of a case."""
    return {
        "arguments": [a.name for a in case.arguments],
        "steps": [[s.operation, s.operands, s.results, dict(s.attributes)] for s in case.steps],
        "results": case.results,
    }


def from_json(data: Mapping[str, Any]) -> tuple[list[str], list[Step], list[str]]:
    """The names of the arguments, the steps, and the names of the results, as `to_json` wrote them."""
    steps = [Step(name, tuple(operands), tuple(results), more) for name, operands, results, more in data["steps"]]
    return list(data["arguments"]), steps, list(data["results"])


def headlines(cases: Sequence[Case], names: Iterable[str]) -> list[Case]:
    """The cases, those of the given names marked as the headlines; KeyError for a name that there is not."""
    wanted = set(names)
    missing = wanted - {case.name for case in cases}
    if missing:
        raise KeyError(f"no case {', '.join(sorted(missing))}")
    return [replace(case, headline=case.name in wanted) for case in cases]
