"""``JAX_PLATFORMS=hlotool``: programs of JAX with no line changed, each in a process that was started so."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT, environment

pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")

CASES = ROOT / "tests" / "jax_plugin_cases.py"
_NAMES = [node.name for node in ast.parse(CASES.read_text()).body if isinstance(node, ast.FunctionDef)]


def python(text: str | Path, *arguments: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    given = [str(text)] if isinstance(text, Path) else ["-c", text]
    return subprocess.run(
        [sys.executable, *given, *arguments], text=True, capture_output=True, check=False,
        env=environment(**{"JAX_PLATFORMS": "hlotool", **changes}),
    )  # fmt: skip


@cache
def verdicts(prefix: str) -> dict[str, str]:
    changes = {"JAX_NUM_CPU_DEVICES": "4", "HLOTOOL_FALLBACK": "silent"} if prefix == "four" else {}
    done = python(CASES, prefix, **changes)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", [name for name in _NAMES if name.startswith(("one_", "four_"))])
def test_cases(name: str) -> None:
    problem = verdicts(name.partition("_")[0])[name]
    assert not problem, problem


def test_nothing_happens_unless_asked_for() -> None:
    text = (
        "import sys, jax; jax.numpy.ones(3) + 1; print(jax.devices()[0].client.platform_version); "
        "print([name for name in sys.modules if name.startswith(('hlotool.', 'llvmlite'))])"
    )
    done = python(text, JAX_PLATFORMS=None)
    version, loaded = done.stdout.splitlines()
    assert "hlotool" not in version, done.stderr
    assert set(ast.literal_eval(loaded)) <= {"hlotool.jax", "hlotool.jax.plugin", "hlotool.version"}


def test_chosen_in_the_program() -> None:
    text = "import jax; jax.config.update('jax_platforms', 'hlotool'); print(jax.devices()[0].client.platform_version)"
    assert "hlotool" in python(text, JAX_PLATFORMS=None).stdout


def test_a_process_ends_without_a_word() -> None:
    text = "import jax, jax.numpy as jnp; x = jnp.ones(3); f = jax.jit(lambda x: x + 1); y = f(x); print(y)"
    done = python(text)
    assert (done.returncode, done.stderr) == (0, "")


_LOOKS = """
import atexit, sys
def look():
    import jax.numpy as jnp
    from jax import lax
    sys.modules["jax"].seen = jnp.float32.__name__
    print(lax.__name__, sys.modules["jax.numpy"].float32 is jnp.float32, jax.seen)
atexit.register(look)
import jax
print(jax.jit(lambda x: x + 1)(1.0))
"""


def test_modules_are_there_until_the_end() -> None:
    done = python(_LOOKS)
    assert (done.stdout.splitlines()[1:], done.stderr) == (["jax.lax True float32"], "")


def test_operations_of_mhlo_are_loaded_for_those_who_use_them() -> None:
    text = (
        "import sys, jax; jax.jit(lambda x: x + 1)(1.0); print('jaxlib.mlir.dialects._mhlo_ops_gen' in sys.modules); "
        "from jax._src.lib.mlir import dialects; print(dialects.mhlo.AbsOp.OPERATION_NAME)"
    )
    done = python(text)
    assert (done.stdout.splitlines(), done.stderr) == (["False", "mhlo.abs"], "")


_REFUSED = """
import jax, numpy as np
def call(x):
    return jax.ffi.ffi_call("somebody_elses", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
jax.jit(call)(np.ones(3, np.float32))
"""


def test_refusals_name_what_and_where(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_REFUSED)
    done = python(program, HLOTOOL_FALLBACK="warn")
    line = next(line for line in done.stderr.splitlines() if line.startswith("hlotool:"))
    assert "somebody_elses" in line
    assert "program.py:4" in line
    assert "jaxlib runs it" in line
    done = python(program, HLOTOOL_FALLBACK="silent")
    assert "hlotool:" not in done.stderr
    done = python(program, HLOTOOL_FALLBACK="error")
    assert "is not compiled" in done.stderr
    assert "custom-call" in done.stderr


_INTERRUPTED = """
import os, signal, threading
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jax.lax.while_loop(lambda c: c < 2, lambda c: jnp.sin(c) * 0 + x, x))
f(jnp.float32(3))
zero = jnp.float32(0)
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    f(zero)
except KeyboardInterrupt:
    print("interrupted", float(f(jnp.float32(5))))
"""

def test_interrupts_reach_the_user() -> None:
    """As KeyboardInterrupt and nothing else."""
    done = python(_INTERRUPTED)
    assert (done.stdout, done.stderr) == ("interrupted 5.0\n", "")


_INTERRUPTED_DELETER = """
import ctypes
import jax
jax.devices()
from hlotool.jax.pjrt import executables
class Interrupted(dict):
    times = 0
    def pop(self, *arguments):
        Interrupted.times += 1
        if Interrupted.times == 1:
            raise KeyboardInterrupt
        return super().pop(*arguments)
executables._stored = Interrupted({7: None})
try:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(executables._deleter())(7)
    for _ in range(1000):
        pass
except KeyboardInterrupt:
    print("interrupted", dict(executables._stored))
"""


def test_interrupts_are_not_lost_where_bytes_are_given_back() -> None:
    """What is raised in a function of Python that ctypes calls is printed, and forgotten."""
    done = python(_INTERRUPTED_DELETER)
    assert (done.stdout, done.stderr) == ("interrupted {}\n", "")


_FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp
x = jnp.ones(3) + 1
child = os.fork()
if child == 0:
    for call in (lambda: x + 1, lambda: jnp.sin(x)):  # compiled before, and not
        try:
            call()
        except Exception as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


_DISTRIBUTED = """
import sys, time, jax, jax.numpy as jnp
from jax.experimental import multihost_utils
jax.distributed.initialize(f"localhost:{sys.argv[1]}", int(sys.argv[2]), int(sys.argv[3]))
try:
    print(jax.process_count(), int(jax.jit(lambda x: x + 1)(1)))
    time.sleep(1)  # jaxlib tells its clients of the processes meanwhile
    print(multihost_utils.process_allgather(jnp.arange(2)).ravel())
except RuntimeError as error:
    print(error)
jax.distributed.shutdown()
"""


def _port() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])


def test_distributed_programs_of_one_process() -> None:
    done = python(_DISTRIBUTED, _port(), "1", "0")
    assert (done.returncode, done.stdout) == (0, "1 2\n[0 1]\n"), done.stderr


def test_several_processes_are_not_taken_for_one_each() -> None:
    port = _port()
    with ThreadPoolExecutor(2) as pool:
        ended = [*pool.map(lambda number: python(_DISTRIBUTED, port, "2", str(number)), range(2))]
    for done in ended:
        assert "hlotool has the devices of one process, and no program for 2 of them" in done.stdout, done.stderr


def test_forked_children_are_told() -> None:
    assert python(_FORKED).stdout.count("this process was forked") == 2


_ENDING = """
import atexit, gc, os, sys
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "collected", flush=True))
import jax
assert jax.jit(lambda x: x + 1)(1.0) == 2
"""
_FINALISER = "class A:\n    def __del__(self, write=os.write): write(1, b'ended')\na = A(); a.cycle = a"
_GENERATOR = """def f(write):
    try:
        yield
    finally:
        write(1, b'left')
f.one = f(os.write); next(f.one)"""


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ("", "frozen\n"),
        (_FINALISER, "collected\nended"),
        ("class A: file = open('out.txt', 'w')\nA.file.write('text')", "collected\n"),
        ("class A: file = open(sys.executable, 'rb')", "frozen\n"),
        (_GENERATOR, "collected\nleft"),
    ],
    ids=["nobody", "finaliser", "file", "file-read", "generator"],
)
def test_the_last_collection_is_left_out_where_nobody_waits_for_it(
    waits: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = python(_ENDING + waits)
    assert (done.stdout, done.stderr) == (said, "")
    if "out.txt" in waits:
        assert (tmp_path / "out.txt").read_text() == "text"
