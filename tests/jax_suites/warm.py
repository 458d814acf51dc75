"""A process that has imported what the suites need, and is forked for every test file: importing it takes seconds.

Its arguments are the folders of the packages under test, which are imported from there.  It reads a line of JSON for
each file: the ``folder`` to run pytest in, its ``arguments``, what to change in the ``environment``, the file for all
that is printed (``log``) and how many ``seconds`` it may take.  It answers with the exit status, or null where the time
was not enough.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
from typing import Any

import pytest

MODULES = (
    "jax", "jax.scipy.linalg", "scipy.stats", "absl.testing.parameterized", "hypothesis", "tensorflow",
    "tensorflow_probability.substrates.jax", "hlotool.jax.pjrt.register", "hlotool.jax.pjrt.compiling", "verdicts",
    "chex", "optax", "distrax", "haiku", "flax.linen", "flax.nnx", "numpyro", "numpyro.distributions", "numpyro.infer",
)  # fmt: skip
"""Not those that compute as they are imported: the backend of JAX, with its threads, is for the children to make."""


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what modules print as they are imported is no answer
    sys.path[:0] = sys.argv[1:]
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    del sys.path[: len(sys.argv) - 1]
    if sys.modules["jax"]._src.xla_bridge.backends_are_initialized():
        raise RuntimeError("JAX has a backend already: one of the modules that were imported computes something")
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _answer(request: dict[str, Any]) -> int | None:
    child = os.fork()
    if not child:
        status = 70
        try:
            status = _run(request)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    end = time.monotonic() + request["seconds"]
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


def _run(request: dict[str, Any]) -> int:
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    for mine, given in ((0, null), (1, log), (2, log)):
        os.dup2(given, mine)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    sys.path[0] = request["folder"]
    sys.argv[:] = ["pytest", *request["arguments"]]
    # Suites that make errors of warnings would trip over what is there before pytest.
    return int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *request["arguments"]]))


if __name__ == "__main__":
    serve()
