"""The self-test of ``hlotool doctor``: does what is installed here compute right, and what of it can be tried?"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

import hlotool
from hlotool.codegen.machine import NAMES, host, named, runs_here
from hlotool.driver.backends import find_backend
from hlotool.harness.self_test_child import THREADS
from hlotool.harness.self_test_modules import KERNELS
from hlotool.harness.xla import Xla, xla_python
from hlotool.ir import HloError, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.registry import find_pass
from hlotool.passes.framework.rewriter import Rule
from hlotool.plugins import load_plugin, plugin_names
from hlotool.runtime.cache import default_cache

__all__ = ["Check", "check_cache", "check_plugins", "check_processor", "check_xla", "processors", "self_test"]

_ADD = (
    "HloModule add\n\nENTRY main {\n  x = f32[3]{0} parameter(0)\n  y = f32[3]{0} parameter(1)\n"
    "  ROOT s = f32[3]{0} add(x, y)\n}\n"
)


@dataclass(frozen=True, slots=True)
class Check:
    """Whether something of a group works: ``ok``, ``failed`` or ``skipped``, the last two with the reason."""

    group: str
    name: str
    verdict: str
    reason: str = ""


def self_test(names: Iterable[str]) -> Iterator[Check]:
    """All checks, each when it is done: kernels of every kind in code for the processors of these `names`, against the
    evaluator, in a child process each; threads; the cache; what other packages add; XLA."""
    for processor in names:
        yield from check_processor(processor)
    yield check_cache()
    yield from check_plugins()
    yield check_xla()


def processors() -> tuple[str, ...]:
    """The names of processors of this architecture, and ``generic``."""
    mine = host().triple.partition("-")[0]
    return tuple(name for name in NAMES if named(name).triple.partition("-")[0] == mine)


def check_processor(processor: str) -> Iterator[Check]:
    """Run the code of all modules of the self-test on a processor, in a child process."""
    group, machine = f"code for {processor}", named(processor)
    if not runs_here(machine):
        needs = f"this processor lacks its {machine.vector_bits}-bit vectors or other instructions"
        yield Check(group, "kernels", "skipped", needs)
        return
    missing = dict.fromkeys([*KERNELS, THREADS])
    with tempfile.TemporaryDirectory() as cache:
        child = subprocess.Popen(
            [sys.executable, "-m", "hlotool.harness.self_test_child", processor],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(HLOTOOL_CACHE=cache),
        )
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            for line in child.stdout:
                answer = json.loads(line)
                del missing[answer["name"]]
                yield Check(group, answer["name"], "failed" if answer["problem"] else "ok", answer["problem"])
            said = child.stderr.read().strip().splitlines()
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            child.stderr.close()
    if missing:
        first, *others = missing
        yield Check(group, first, "failed", f"the process {_end(child.returncode)}{': ' + said[-1] if said else ''}")
        for name in others:
            yield Check(group, name, "skipped", f"the process ended with {first}")


def check_cache() -> Check:
    """Write an entry to the cache, read it, and remove it."""
    cache = default_cache()
    if cache is None:
        return Check("cache", "write and read", "skipped", "it is off, or the user has no home")
    if not cache.is_ours():
        return Check("cache", "write and read", "failed", f"others may write to {cache.directory}")
    key, content = f"doctor-{os.getpid()}", os.urandom(100)
    try:
        if not cache.put(key, content):
            return Check("cache", "write and read", "failed", f"{cache.directory} does not take an entry")
        if cache.get(key) != content:
            return Check("cache", "write and read", "failed", "an entry is not read as it was written")
    finally:
        cache.remove(key)
    return Check("cache", "write and read", "ok")


def check_plugins() -> Iterator[Check]:
    """Load what other packages add."""
    for what, load in _PLUGINS.items():
        for name in plugin_names(what, ()):
            try:
                load(name)
            except HloError as error:
                yield Check("plug-ins", f"{what} {name}", "failed", error.message)
            else:
                yield Check("plug-ins", f"{what} {name}", "ok")


_PLUGINS: dict[str, Callable[[str], object]] = {
    "backend": find_backend,
    "command": lambda name: load_plugin("command", name, object),
    "pass": find_pass,
    "rule": lambda name: load_plugin("rule", name, Rule),
}


def check_xla() -> Check:
    """Have XLA add two arrays, where there is a Python with jax."""
    arrays = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    if shutil.which(xla_python()) is None:
        return Check("xla", "compile and run", "failed", f"{xla_python()}: there is no such program")
    try:
        with Xla() as xla:
            xla.compile(_ADD)
            xla.give(arrays)
            outputs, _ = xla.run()
    except UnsupportedError as error:
        return Check("xla", "compile and run", "skipped", f"{xla_python()}: {error.message}")
    same = len(outputs) == 1 and np.array_equal(outputs[0], arrays[0] + arrays[1])
    return Check("xla", "compile and run", "ok" if same else "failed", "" if same else "it adds wrong")


def _environment(**changes: str) -> dict[str, str]:
    """That of a child process that finds this very package."""
    home = str(Path(hlotool.__file__).parents[1])
    paths = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, **changes}


def _end(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit code {status}"
