"""What is done with a candidate, in a child process, which it may take down: its code is written, its numbers are
checked, and it is timed against another one.

Nothing is timed whose numbers were not checked.  Numbers are right when they are near those of the untuned program, by
the tolerance that ``compare`` has, or else when they lie within the error bounds of the evaluator's
(`hlotool.harness.references`); what is undecided is not timed.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hlotool.codegen.configured import checked, configured
from hlotool.codegen.machine import Machine
from hlotool.codegen.target import target_of
from hlotool.driver import CompileOptions, compile_module
from hlotool.driver.cpu import BACKEND
from hlotool.harness.compare import verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.harness.references import Rules, Truth, judge, judge_by_arrays
from hlotool.harness.statistics import median_interval, quantile
from hlotool.harness.tune.subjects import Subject
from hlotool.ir import HloError, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse

__all__ = ["Check", "Race", "Setting", "check", "digests", "distinct", "options_of", "race"]

Values = Mapping[str, int]
"""Choices, or costs of a module, by name."""

_SEED = 0
"""Of the inputs that numbers are checked on."""
_BATCH_SECONDS = 100e-6
"""What one clock reading covers at least."""
_FEWEST, _MOST = 6, 60
"""Rounds of a race."""
_SETTLED = 3
"""Runs before one that is timed, where arrays take a good part of the last cache: what another candidate wrote past the
caches is not in them for the first ones, which says nothing about programs that run one of both again and again."""
_KEPT = 12
"""Programs that are kept: the candidates of a turn, which are all checked before the first is timed, the best so far
and the untuned one."""
_INTERRUPTED = 8.0
"""Times of what a round should take that are more than any does."""
_MOST_BYTES, _MOST_FLOPS = 64e6, 4e9
"""Of what the evaluator is asked about, for whose wider floats that takes seconds."""
_LITTLE = 0.01
"""A gain so small that nobody looks for it: a search keeps none of less."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where candidates run: the machine, and the threads (None: as many as there are); and whether every bit has to be
    that of the untuned program."""

    machine: Machine
    threads: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Check:
    """What came of a candidate: ``ok``, ``wrong``, ``undecided``, or ``refused`` by the compiler; `why`; and whether
    all bits are those of the untuned program."""

    word: Literal["ok", "wrong", "undecided", "refused"]
    why: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Race:
    """How a candidate did against another one: the median of the ratios of times that were taken in turns, and its
    interval; the seconds of the other one; and in how many rounds that was clear, or not."""

    ratio: float
    low: float
    high: float
    seconds: float
    rounds: int


def digests(subject: Subject, candidates: Sequence[Values], setting: Setting) -> list[str | None]:
    """A digest of the code of each of several candidates; None where there is no code."""
    found: list[str | None] = []
    for one in candidates:
        try:
            found.append(_digest(subject, one, setting))
        except HloError:
            found.append(None)
    return found


def distinct(found: Sequence[str | None], changes: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those of single choices whose code differs from that without any, whose digest is the first one, and from that of
    those before; what has no code is left out."""
    seen, left = {None, found[0]}, []
    for change, digest in zip(changes, found[1:], strict=True):
        if digest not in seen:
            seen.add(digest)
            left.append(change)
    return left


def check(subject: Subject, values: Values, setting: Setting) -> Check:
    """Compile a candidate, run it, and hold its numbers against those of the untuned program, or the truth."""
    try:
        executable = _executable(subject, tuple(sorted(values.items())), setting)
    except HloError as error:
        return Check("refused", str(error))
    arguments, usual = _usual(subject, setting)
    outputs = executable(*arguments)
    if len(outputs) == len(usual) and all(map(_same_bits, outputs, usual)):
        return Check("ok", exact=True)
    if setting.exact:
        return Check("wrong", "the last bits differ")
    near = judge_by_arrays(outputs, usual, Rules())
    if verdict_of(near.comparisons) == "ok":
        return Check("ok")
    if subject.bytes > _MOST_BYTES or subject.flops > _MOST_FLOPS:
        return Check("undecided", "it is not near the untuned one, and too large for the evaluator to say who is right")
    module = parse(subject.text)
    found = judge(outputs, _truth(subject), lambda: list(compile_module(module, "evaluate")(*arguments)), Rules())
    word = verdict_of(found.comparisons)
    bad = next((str(row) for row in found.comparisons if row.verdict == word), "")
    return Check("ok") if word == "ok" else Check("wrong" if word == "MISMATCH" else "undecided", bad)


def race(subject: Subject, best: Values, candidate: Values, setting: Setting, seconds: float, seed: int) -> Race:
    """Time two candidates in turns, in random order, for at most so many seconds, and no longer than until it is clear
    which is quicker.  A round that takes much too long was interrupted, and counts as a usual one."""
    arguments, _ = _usual(subject, setting)
    runners = [_executable(subject, tuple(sorted(values.items())), setting) for values in (best, candidate)]
    clock, order = time.perf_counter, random.Random(seed)
    once = [_once(runner, arguments) for runner in runners]
    batch = max(1, math.ceil(_BATCH_SECONDS / max(min(once), 1e-9)))
    before = _SETTLED if subject.bytes > setting.machine.l3 // 2 else 1
    ratios: list[float] = []
    times: list[float] = []
    spent, usual = 0.0, _INTERRUPTED * (batch + before) * sum(once)
    low, high = -math.inf, math.inf
    while len(ratios) < _FEWEST or (len(ratios) < _MOST and spent < seconds):
        taken, start = [0.0, 0.0], clock()
        for turn in order.sample((0, 1), 2):
            run = runners[turn]
            for _ in range(before):
                run(*arguments)  # the caches are its own
            begin = clock()
            for _ in range(batch):
                run(*arguments)
            taken[turn] = (clock() - begin) / batch
        if min(taken) <= 0:
            raise HloError("the clock stood still, or went backwards, while a candidate ran")
        ratios.append(math.log(taken[1] / taken[0]))
        times.append(taken[0])
        spent += min(clock() - start, usual)
        if len(ratios) >= _FEWEST:
            low, high = median_interval(sorted(ratios), 0.95)
            if low > -_LITTLE or (high < -_LITTLE and len(ratios) >= 2 * _FEWEST):
                break
    middle = quantile(sorted(ratios), 0.5)
    return Race(math.exp(middle), math.exp(low), math.exp(high), quantile(sorted(times), 0.5), len(ratios))


def _once(run: Executable, arguments: Sequence[npt.NDArray[Any]]) -> float:
    run(*arguments)
    begin = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - begin


def _same_bits(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _made(subject: Subject, values: Values, setting: Setting) -> tuple[Module, CompileOptions]:
    """The module of a candidate, and how it is compiled: without any other choices."""
    module = parse(subject.text)
    if not subject.is_module and values:
        configured(module.entry.root, checked(dict(values), subject.about))
    return module, options_of(setting, subject.pipeline, values if subject.is_module else {})


def options_of(setting: Setting, pipeline: str, costs: Values, profiled: bool = False) -> CompileOptions:
    """How something is compiled without tuned choices, by passes that go by these costs."""
    target = target_of(setting.machine)
    given = {name: bool(value) if name == "prologues" else value for name, value in costs.items()}
    target = replace(target, costs=replace(target.costs, **given))  # type: ignore[arg-type]
    return CompileOptions(
        pipeline=parse_pipeline(pipeline), machine=setting.machine, target=target, threads=setting.threads,
        profiled=profiled,
    )


def _digest(subject: Subject, values: Values, setting: Setting) -> str:
    """A digest of the code of a candidate."""
    assert BACKEND.code is not None
    texts = BACKEND.code(*_made(subject, values, setting), "llvm")
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@lru_cache(maxsize=_KEPT)
def _executable(subject: Subject, values: tuple[tuple[str, int], ...], setting: Setting) -> Executable:
    return BACKEND.compile(*_made(subject, dict(values), setting))


@lru_cache(maxsize=2)
def _usual(
    subject: Subject, setting: Setting
) -> tuple[tuple[npt.NDArray[Any], ...], tuple[npt.NDArray[Any], ...]]:
    """Inputs, and what the untuned program makes of them."""
    arguments = tuple(random_inputs(parse(subject.text), _SEED))
    return arguments, tuple(np.array(one) for one in _executable(subject, (), setting)(*arguments))


@lru_cache(maxsize=1)
def _truth(subject: Subject) -> Truth:
    module = parse(subject.text)
    return Truth(module, random_inputs(module, _SEED))
