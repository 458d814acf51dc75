"""What the tests share: a cache of compiled code of their own, and the command as users call it."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from processes import Processes, may_be_warm

from hlotool.evaluate import custom_calls

ROOT = Path(__file__).parents[1]
os.environ.setdefault("HLOTOOL_CACHE", str(Path(tempfile.gettempdir()) / f"hlotool-tests-{getpass.getuser()}"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell: processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["HLOTOOL_STRICT"] = "1"  # here a failure of a part of the compiler is one of the test

# A change is judged by the same examples every time; `pytest --hypothesis-profile=search` draws new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile("same")

Run = Callable[..., subprocess.CompletedProcess[str]]
Install = Callable[..., dict[str, str | None]]


def environment(**changes: str | None) -> dict[str, str]:
    """The environment for a child process that finds this source tree; None removes a variable."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    values: dict[str, str | None] = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **changes}
    return {key: value for key, value in values.items() if value is not None}


def has_worked(process: subprocess.Popen[str], seconds: float) -> None:
    """Wait until `process` and its children have used so much of the processor: then they are long past their imports,
    on any busy machine.

    Children count, since a parent that only waits for one never uses more than its start took."""
    while process.poll() is None:
        if _used(process.pid) >= seconds:
            return
        time.sleep(0.05)


def _used(root: int) -> float:
    """Seconds of processor time of a process, of what descends from it, and of what they have waited for."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone since
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            used[int(path.parent.name)] = sum(map(int, fields[11:15]))
    tree, new = {root}, {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        tree |= new
    return sum(used.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """No test sees the custom calls that another one has registered."""
    before = dict(custom_calls._handlers)
    yield
    custom_calls._handlers.clear()
    custom_calls._handlers.update(before)


_AT_FIRST = environment()


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Starts commands in `environment()`."""
    with Processes(_AT_FIRST) as found:
        yield found


@pytest.fixture
def hlotool(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Runs ``hlotool ARGUMENTS`` as a process in an empty directory."""

    def run(
        *arguments: object, stdin: str | None = None, env: dict[str, str | None] | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        text, words, wanted = stdin or "", list(map(str, arguments)), environment(**(env or {}))
        if may_be_warm(wanted, _AT_FIRST):
            processes: Processes = request.getfixturevalue("processes")
            done = processes.run(words, tmp_path, stdin=text.encode(), environment=wanted, timeout=timeout)
            if done.code == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(["hlotool", *words], timeout, done.stdout, done.stderr)
            return subprocess.CompletedProcess(["hlotool", *words], done.code, done.stdout, done.stderr)
        return subprocess.run(
            [sys.executable, "-m", "hlotool", *words],
            input=text,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=wanted,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Installs a package of one file and gives the environment that it is in."""

    def made(name: str, text: str, group: str, **entries: str) -> dict[str, str | None]:
        home = tmp_path / "packages"
        information = home / f"{name}-1.0.dist-info"
        information.mkdir(parents=True)
        (home / f"{name}.py").write_text(text)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        rows = "".join(f"{entry} = {name}:{value}\n" for entry, value in entries.items())
        (information / "entry_points.txt").write_text(f"[{group}]\n{rows}")
        return {"PYTHONPATH": f"{ROOT}:{home}"}

    return made
