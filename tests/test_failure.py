"""Failures, trials for them, and the child processes in which they are tried for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest

from hlotool.harness.children import Children, outcome_of
from hlotool.harness.failure import Failure, Sought, failure_of
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.ir import ExecutionError, UnsupportedError

GOOD_MODULE = "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] tanh(x)\n}\n"
UNKNOWN_CALL = (
    'HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n'
    '  ROOT y = f32[8] custom-call(x), custom_call_target="nobody"\n}\n'
)


@pytest.fixture
def children() -> Iterator[Children]:
    with Children(1) as executor:
        yield executor


@pytest.mark.parametrize("backend", [None, "evaluate", "cpu"])
def test_a_good_module(backend: str | None, children: Children) -> None:
    trial = PipelineTrial(backend=backend)
    assert trial(GOOD_MODULE).verdict == "good"
    assert outcome_of(children.submit(trial, GOOD_MODULE)).verdict == "good"


def test_arguments_and_limits_of_passes() -> None:
    one = np.full(8, 0.5, np.float32)
    assert PipelineTrial(backend="evaluate", arguments=(one,), passes=2)(GOOD_MODULE).verdict == "good"
    assert PipelineTrial(backend="cpu", arguments=(one,), passes=0)(GOOD_MODULE).verdict == "good"
    assert PipelineTrial(backend="cpu", rewrites=0)(GOOD_MODULE).verdict == "good"


def test_what_is_no_module_is_undecided() -> None:
    assert PipelineTrial()("HloModule m\nENTRY e {").verdict == "undecided"
    assert PipelineTrial()(GOOD_MODULE.replace("[8] tanh", "[9] tanh")).verdict == "undecided"


def test_errors_are_failures_of_their_own() -> None:
    outcome = PipelineTrial(backend="cpu")(UNKNOWN_CALL)
    assert outcome.verdict == "bad"
    assert outcome.failure == PipelineTrial(backend="cpu")(UNKNOWN_CALL.replace("[8]", "[9]")).failure
    assert outcome.failure is not None
    assert outcome.failure != failure_of(UnsupportedError("x")) or outcome.failure.code == 4
    assert outcome.failure != failure_of(ValueError("x"))


def test_another_failure_is_undecided() -> None:
    first = failure_of(ExecutionError("one"))
    trial = Sought(PipelineTrial(backend="cpu"), Failure(kind="signal", code=11))
    assert trial(UNKNOWN_CALL).verdict == "undecided"
    assert failure_of(ExecutionError("another")) == first


def test_children_die_alone(children: Children) -> None:
    for number in (signal.SIGSEGV, signal.SIGABRT):
        outcome = outcome_of(children.submit(signal.raise_signal, number))  # type: ignore[arg-type]
        assert outcome.failure == Failure(kind="signal", code=number)
    assert outcome_of(children.submit(os._exit, 3)).failure == Failure(kind="exit", code=3)  # type: ignore[arg-type]
    assert children.submit(len, "abc").result() == 3


def test_children_that_never_end() -> None:
    with Children(1, 0.2) as executor:
        outcome = outcome_of(executor.submit(time.sleep, 60))  # type: ignore[arg-type]
        assert outcome.failure == Failure(kind="timeout", code=124)


def test_children_hand_on_exceptions_and_keep_standard_output(children: Children) -> None:
    with pytest.raises(ZeroDivisionError):
        children.submit(divmod, 1, 0).result()
    children.submit(print, "noise").result()
    assert children.submit(os.getpid).result() != os.getpid()


@pytest.mark.parametrize(
    ("code", "verdict"), [(0, "good"), (1, "bad"), (70, "bad"), (124, "bad"), (125, "undecided"), (127, "bad")]
)
def test_exit_codes_of_commands(code: int, verdict: str) -> None:
    outcome = CommandTrial(command=f"cat {{}}; exit {code}")(GOOD_MODULE)
    assert outcome.verdict == verdict
    if verdict == "bad":
        assert outcome.failure == Failure(kind="exit", code=code)


def test_commands_may_end_the_search() -> None:
    with pytest.raises(ExecutionError, match="exit code 128"):
        CommandTrial(command="exit 128")(GOOD_MODULE)
    with pytest.raises(ExecutionError, match="give the code 139"):
        CommandTrial(command="kill -SEGV $$")(GOOD_MODULE)
    sought = CommandTrial(command="kill -SEGV $$", code=139)
    assert sought(GOOD_MODULE).failure == Failure(kind="exit", code=139)


def test_commands_get_the_module() -> None:
    assert CommandTrial(command="! grep -q tanh {}")(GOOD_MODULE).verdict == "bad"
    assert CommandTrial(command="! grep -q tanh")(GOOD_MODULE).verdict == "bad"
    assert CommandTrial(command="! grep -q cosine {}")(GOOD_MODULE).verdict == "good"


def test_messages_and_codes_tell_failures_apart() -> None:
    said = "echo 'line 12: no such thing'; exit 3"
    assert CommandTrial(command=said, message="line [0-9]+: no such")(GOOD_MODULE).verdict == "bad"
    assert CommandTrial(command=said, message="segmentation")(GOOD_MODULE).verdict == "undecided"
    assert CommandTrial(command=said, code=4)(GOOD_MODULE).verdict == "undecided"
    assert CommandTrial(command="exit 125", code=125)(GOOD_MODULE).verdict == "bad"
    assert CommandTrial(command="true", code=4)(GOOD_MODULE).verdict == "good"
    assert CommandTrial(command="true", code=0)(GOOD_MODULE).verdict == "bad"


def test_commands_that_never_end_are_ended_with_all_that_they_started() -> None:
    outcome = CommandTrial(command="sleep 60 & sleep 60", timeout=0.2)(GOOD_MODULE)
    assert outcome.failure == Failure(kind="timeout", code=124)
