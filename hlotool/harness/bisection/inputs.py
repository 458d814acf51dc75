"""Which inputs make it fail: the parameters it takes, and the element that turns right into wrong.

Two sets of inputs are compared: some that it fails with, and others that it does not fail with.
"""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.archive import write_named
from hlotool.harness.bisection.answers import Answers, Asked
from hlotool.harness.bisection.question import Finding, Question
from hlotool.harness.bisection.search import boundary, fewest
from hlotool.harness.children import Children
from hlotool.harness.failure import Outcome, Trial
from hlotool.harness.inputs import Input, inputs_of, random_arrays
from hlotool.harness.trials import CommandTrial
from hlotool.ir import UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.text.parser import parse

__all__ = ["GuiltyInputs", "find_inputs"]

_OTHERS = 8
"""Seeds that are tried for inputs that it does not fail with."""

Arrays = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuiltyInputs:
    """`bad` fails and `good` does not; they differ in one element: `index` of `parameter`.

    `parameters` are those that have to be as in the inputs that failed first; all others are as in `right`, as is what
    comes behind that element.  `alone` says that this element suffices.
    """

    seed: int | None
    right: str
    parameters: tuple[str, ...]
    parameter: str
    index: tuple[int, ...]
    good: Arrays
    bad: Arrays
    number: int
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandWith:
    """Asks `trial` with ``{inputs}`` standing for an archive of `arguments`."""

    trial: CommandTrial
    arguments: Arrays

    def asked(self, text: str, children: Children) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="hlotool-") as folder:
            path = Path(folder) / "inputs.npz"
            with path.open("wb") as stream:
                write_named(stream, [(f"arg{n}", array) for n, array in enumerate(self.arguments)])
            command = self.trial.command.replace("{inputs}", shlex.quote(str(path)))
            return replace(self.trial, command=command)(text)


def find_inputs(answers: Answers, question: Question, seeds: int = 1) -> tuple[Finding, GuiltyInputs | None]:
    """What of the inputs makes it fail; those of `seeds` seeds are tried, in order, until it does."""
    module = parse(question.text)
    inputs = inputs_of(module)
    if topology_of(module).devices > 1:
        raise UnsupportedError("bisect inputs is for programs on one device")
    search = _Search(answers, question, inputs)
    seed, bad, outcome = search.failing(seeds)
    judge = "command" if question.command is not None else question.backend
    finding = Finding(verdict="found", failure=outcome.failure, judge=judge)
    if outcome.verdict != "bad":
        word = "no-failure" if outcome.verdict == "good" else "undecided"
        return replace(finding, verdict="no-failure" if word == "no-failure" else "undecided", why=outcome.why), None
    answers.sought = outcome.failure
    right, good = search.right(seed)
    if good is None:
        return replace(finding, verdict="always", why=f"it fails with {right} too"), None
    return finding, search.guilty(seed, bad, right, good)


class _Search:
    """One search among the arrays of `inputs`."""

    def __init__(self, answers: Answers, question: Question, inputs: Sequence[Input]) -> None:
        self.answers, self.question, self.inputs = answers, question, inputs

    def ask(self, what: str, arrays: Arrays) -> Outcome:
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(repr((str(array.dtype), array.shape)).encode() + array.tobytes())
        return self.answers.ask(f"inputs:{digest.hexdigest()}", what, self.trial(arrays))

    def trial(self, arrays: Arrays) -> Trial | Asked:
        if self.question.command is not None:
            return _CommandWith(trial=self.question.command, arguments=arrays)
        return replace(self.question, arguments=arrays).whole()

    def failing(self, seeds: int) -> tuple[int | None, Arrays, Outcome]:
        """The seed, or None where arguments are given, with its arrays, of the first that fails, else of the last."""
        if self.question.arguments is not None:
            given = self.question.arguments
            return None, given, self.ask("the given inputs", given)
        found: tuple[int | None, Arrays, Outcome] | None = None
        for seed in range(self.question.seed, self.question.seed + seeds):
            arrays = self.random(seed)
            found = seed, arrays, self.ask(f"random inputs of seed {seed}", arrays)
            if found[2].verdict == "bad":
                break
        assert found is not None
        return found

    def random(self, seed: int) -> Arrays:
        return tuple(random_arrays(self.inputs, seed))

    def right(self, failed: int | None) -> tuple[str, Arrays | None]:
        """Inputs that it does not fail with, and what they are called; None of all that were tried."""
        tried = []
        for name, arrays in self.others(failed):
            if self.ask(name, arrays).verdict == "good":
                return name, arrays
            tried.append(name)
        return ", ".join(tried), None

    def others(self, failed: int | None) -> Iterator[tuple[str, Arrays]]:
        shapes = self.random(self.question.seed) if self.question.arguments is None else self.question.arguments
        yield "zeros", tuple(np.zeros_like(array) for array in shapes)
        yield "ones", tuple(np.ones_like(array) for array in shapes)
        if self.question.arguments is None:
            start = self.question.seed if failed is None else failed + 1
            for seed in range(start, start + _OTHERS):
                yield f"random inputs of seed {seed}", self.random(seed)

    def guilty(self, seed: int | None, bad: Arrays, right: str, good: Arrays) -> GuiltyInputs:
        names = [leaf.name for leaf in self.inputs]
        differing = [n for n, pair in enumerate(zip(good, bad, strict=True)) if _bytes(pair[0]) != _bytes(pair[1])]

        def mixed(chosen: Sequence[int]) -> Arrays:
            return tuple(bad[n] if n in chosen else good[n] for n in range(len(bad)))

        def fails(chosen: Sequence[int]) -> bool:
            said = ", ".join(names[n] for n in chosen) or "nothing"
            return self.ask(f"{said} as it fails, the others {right}", mixed(chosen)).verdict == "bad"

        needed = fewest(differing, fails)
        places = [(n, flat) for n in needed for flat in _differing(good[n], bad[n])]

        def upto(count: int) -> Arrays:
            return _changed(good, bad, places[:count])

        def ask(count: int) -> Outcome:
            number, flat = places[count - 1]
            index = _index(bad[number], flat)
            return self.ask(f"as it fails up to {names[number]}{list(index)}", upto(count))

        found = boundary(0, len(places), ask)
        number, flat = places[found.bad - 1]
        alone = _changed(good, bad, [places[found.bad - 1]])
        suffices = self.ask(f"{names[number]}{list(_index(bad[number], flat))} alone", alone).verdict == "bad"
        return GuiltyInputs(
            seed=seed, right=right, parameters=tuple(names[n] for n in needed), parameter=names[number], number=number,
            index=_index(bad[number], flat), good=good if suffices else upto(found.bad - 1),
            bad=alone if suffices else upto(found.bad), alone=suffices,
        )  # fmt: skip


def _bytes(array: npt.NDArray[Any]) -> bytes:
    return array.tobytes()


def _differing(good: npt.NDArray[Any], bad: npt.NDArray[Any]) -> list[int]:
    """Where the bytes of two arrays differ, as places in their flat forms."""
    width = good.dtype.itemsize
    left, right = (np.frombuffer(array.tobytes(), np.uint8).reshape(-1, width) for array in (good, bad))
    return [int(n) for n in np.flatnonzero((left != right).any(axis=1))]


def _changed(good: Arrays, bad: Arrays, places: Sequence[tuple[int, int]]) -> Arrays:
    found = [array.copy() for array in good]
    by_array: dict[int, list[int]] = {}
    for number, flat in places:
        by_array.setdefault(number, []).append(flat)
    for number, flats in by_array.items():
        found[number].reshape(-1)[flats] = bad[number].reshape(-1)[flats]
    return tuple(found)


def _index(array: npt.NDArray[Any], flat: int) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(flat, array.shape)) if array.shape else ()
