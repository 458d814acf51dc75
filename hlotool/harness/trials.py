"""Trials: ways to try for a failure of a module (`hlotool.harness.failure`).

`PipelineTrial` compiles it, and compares what it computes with what it means; `CommandTrial` asks a command.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module, optimise
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import MAX_UNDECIDED, Comparison, compare_all, compare_with_truth, verdict_of
from hlotool.harness.failure import GOOD, Failure, Outcome, bad, failure_of, undecided
from hlotool.harness.inputs import inputs_of, random_arrays
from hlotool.ir import ExecutionError, HloError, Module, UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.instruments import StopAfter, VerifyEach
from hlotool.passes.framework.manager import Instrument, drops_roundings
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.text.parser import parse

__all__ = ["CommandTrial", "PipelineTrial"]

Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTrial:
    """Applies `pipeline` (its text, without names of ``hlotool.toml``), verifying after each pass, and:

    - without a `backend`, nothing more: the failure of a pass is sought;
    - with ``evaluate``, evaluates what the passes made, in place of code;
    - with another backend, makes code and runs it.

    The numbers are compared with what the module means, as ``run --compare evaluate`` does: within the error bounds of
    truth mode, or, of programs that have none, of the evaluator's within the default tolerance.  Inputs are random of
    `seed`, unless `arguments` (one array per leaf of the parameters) are given.

    `passes` stops after so many runs of passes, and `rewrites` allows for so many rewrites.  What cannot be read or
    evaluated is undecided, and so are numbers of which more than the share `max_undecided` is.
    """

    pipeline: str = "default"
    backend: str | None = None
    seed: int = 0
    arguments: tuple[npt.NDArray[Any], ...] | None = None
    passes: int | None = None
    rewrites: int | None = None
    max_undecided: float = MAX_UNDECIDED

    def __call__(self, text: str) -> Outcome:
        try:
            module = _read(text)
        except HloError as error:
            return undecided(f"no valid module: {error}")
        try:
            results = self._results(module)
        except Exception as error:
            return bad(failure_of(error))
        return GOOD if results is None else self._judged(text, results)

    def _results(self, module: Module) -> list[Arrays] | None:
        """What the module computes on each device, as compiled; None where it is not to run."""
        if self.passes == 0:
            compiled = module
        elif self.backend in (None, "evaluate") or self.passes is not None or self.rewrites is not None:
            watchers: list[Instrument] = [VerifyEach(check)]
            if self.passes is not None:
                watchers.append(StopAfter("", self.passes))
            compiled = optimise(module, self.pipeline, DecisionLog(self.rewrites), watchers, strict=True)
        else:
            watched = [VerifyEach(check)]
            executable = compile_module(module, self.backend, self.pipeline, instruments=watched, strict=True)
            return _run(executable, self._arguments(module))
        if self.backend is None:
            return None
        return _run(compile_module(compiled, self.backend, "none", strict=True), self._arguments(module))

    def _arguments(self, module: Module) -> list[Arrays]:
        if self.arguments is not None:
            return [list(self.arguments)]
        inputs = inputs_of(module)
        return [random_arrays(inputs, self.seed, device) for device in range(topology_of(module).devices)]

    def _judged(self, text: str, results: list[Arrays]) -> Outcome:
        excess = any(drops_roundings(pass_) for pass_ in parse_pipeline(self.pipeline).passes())
        given = None if self.arguments is None else tuple(map(_Array, self.arguments))
        flat = [array for row in results for array in row]
        try:
            bounds = _truth(text, self.seed, given, excess)
            if bounds is not None:
                again = partial(_truth, text, self.seed, given, excess)
                found = compare_with_truth(
                    flat, bounds, max_undecided=self.max_undecided, again=lambda draws: again(draws) or ()
                )
                want: Sequence[npt.NDArray[Any]] = [bound.value for bound in bounds]
            else:
                want = _evaluated(text, self.seed, given)
                found = compare_all(flat, want)
        except ValueError as error:  # another number of results
            return bad(Failure(kind="mismatch", what="shape", message=str(error)))
        except HloError as error:
            return undecided(f"the module itself cannot be evaluated: {error}")
        word = verdict_of(found)
        if word == "ok":
            return GOOD
        number, row = next((n, c) for n, c in enumerate(found) if c.verdict == word)
        if word == "UNDECIDED":
            return undecided(f"out{number}: {row}")
        what = "shape" if row.why else _class(row, flat[number], want[number])
        return bad(Failure(kind="mismatch", what=what, message=f"out{number}: {row}"))


def _read(text: str) -> Module:
    module = parse(text)
    check(module)
    return module


def _run(executable: Any, arguments: list[Arrays]) -> list[Arrays]:
    return [[np.asarray(array) for array in row] for row in executable.run_devices(arguments, None)]


def _class(row: Comparison, got: npt.NDArray[Any], want: npt.NDArray[Any]) -> str:
    """Where the worst element is not a number where it should be one, or the other way round, ``nan``."""
    with np.errstate(all="ignore"):
        pair = [np.isnan(np.asarray(array[row.worst]).astype(np.complex128)) for array in (got, want)]
    return "nan" if bool(pair[0]) != bool(pair[1]) else "wrong"


class _Array:
    """An array as part of a key: by its contents."""

    __slots__ = ("_key", "value")

    def __init__(self, value: npt.NDArray[Any]) -> None:
        self.value = np.ascontiguousarray(value)
        self._key = (str(value.dtype), value.shape, self.value.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=2)  # the same module is tried again with other passes
def _truth(
    text: str, seed: int, given: tuple[_Array, ...] | None, excess: bool, draws: int = 1
) -> tuple[Bounded, ...] | None:
    """The true values, with bounds of so many draws; None where there are none."""
    module = _read(text)
    if topology_of(module).devices > 1:
        return None
    with suppress(UnsupportedError):
        return bounded_results(module, _given(module, seed, given)[0], None, excess, draws)
    return None


@lru_cache(maxsize=1)
def _evaluated(text: str, seed: int, given: tuple[_Array, ...] | None) -> Arrays:
    module = _read(text)
    rows = _run(compile_module(module, "evaluate", "none"), _given(module, seed, given))
    return [array for row in rows for array in row]


def _given(module: Module, seed: int, given: tuple[_Array, ...] | None) -> list[Arrays]:
    arguments = None if given is None else tuple(one.value for one in given)
    return PipelineTrial(seed=seed, arguments=arguments)._arguments(module)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTrial:
    """Asks `command`, a line for the shell, in which ``{}`` stands for a file that holds the module; without ``{}``
    it gets the module on standard input.

    The exit codes are those of ``git bisect run``: 0 is good, 1 to 124, 126 and 127 are bad, 125 is undecided, and
    what is larger ends the search with an ExecutionError.  With `code` that one alone is bad, whatever it is, and any
    other but 0 undecided.  With `message`, a regular expression, a bad outcome is undecided where what the command said
    does not have it.  After `timeout` seconds the command is ended, with all that it started: that is a failure of its
    own, ``timeout``.  Once `stop` is set, what runs in other threads is ended, and counts as undecided.
    """

    command: str
    code: int | None = None
    message: str | None = None
    timeout: float | None = None
    stop: Event | None = field(default=None, compare=False, repr=False)

    def __call__(self, text: str) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="hlotool-") as folder:
            path = Path(folder) / "candidate.hlo"
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            line = self.command.replace("{}", shlex.quote(str(path)))
            said = Path(folder) / "said"
            with path.open("rb") as given, said.open("wb") as taken:
                stdin = subprocess.DEVNULL if "{}" in self.command else given
                status = _ended(line, stdin, taken, self.timeout, self.stop)
            if self.stop is not None and self.stop.is_set():
                return undecided("interrupted")
            return self._judged(status, said.read_bytes().decode("utf-8", "replace"))

    def _judged(self, status: int | None, said: str) -> Outcome:
        if status is None:
            assert self.timeout is not None
            message = f"the command takes longer than {self.timeout:g} s"
            return bad(Failure(kind="timeout", code=124, message=message))
        if status == 0 and self.code != 0:
            return GOOD
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
        if self.code is None:
            if status == 125:
                return undecided("the command says so: exit code 125")
            if status >= 128:
                hint = f"; to seek that, give the code {status}"
                raise ExecutionError(f"the command ends the search: exit code {status}: {last}{hint}")
        elif status != self.code:
            return undecided(f"exit code {status}, not {self.code}")
        if self.message is None:
            return bad(Failure(kind="exit", code=status, message=last))
        found = re.search(self.message, said, re.MULTILINE)
        if found is None:
            return undecided(f"exit code {status}, without the message: {last}")
        words = " ".join(found.group().split()) or last
        return bad(Failure(kind="exit", code=status, what=self.message, message=words))


def _ended(line: str, given: Any, said: Any, timeout: float | None, stop: Event | None) -> int | None:
    """The exit code of a line of shell (128 and more: so many above a signal); None where it took too long, or was
    stopped."""
    process = subprocess.Popen(  # in a session of its own, to be ended as a whole
        line, shell=True, stdin=given, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
    )
    end = inf if timeout is None else time.monotonic() + timeout
    status = None
    try:
        while status is None and time.monotonic() < end and not (stop is not None and stop.is_set()):
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(min(_LOOK, max(0.0, end - time.monotonic())))
    finally:
        if status is None:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    return status if status is None or status >= 0 else 128 - status


_LOOK = 0.2
"""Seconds between looks at whether to stop."""
