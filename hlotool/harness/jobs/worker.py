"""What a worker does with jobs, on whatever machine it is: each in a child process, which it may take down.

A request is JSON: the `build` of hlotool that asks, which has to be this worker's; the function that is called and
what with; how many `seconds` it may take; whether it is `alone` on its machine, for what is timed.  Contents come
beside it by their digest, or not, where this worker has had them before.  The answer is JSON, too, with one of these
keys:

===========  =====================================================================================
``value``    what the function gave
``error``    what it raised
``died``     the signal that its process died of, or the negative exit code, and what it said last
``late``     the seconds that were too short
``missing``  digests of contents that have to be sent along
``build``    the build of this worker, which is another one
===========  =====================================================================================

and `machine`: the host, its processor and cores.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock
from typing import Any

from hlotool.codegen.machine import host
from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.jobs.codec import Contents, packed, packed_error, unpacked
from hlotool.system import locked
from hlotool.version import __version__

__all__ = ["Worker", "build", "call", "do"]

_MOST_BYTES = 512 << 20
"""Of contents that a worker keeps; those that were used longest ago go first."""
_MOST_AT_ONCE = 256
"""Jobs that one worker does at a time, at most: how many there are, the executor decides."""
_EVERY = 0.05
"""Seconds between looks at whether the machine is free."""


@lru_cache(maxsize=1)
def build() -> str:
    """This hlotool: its version, and a digest of its files, wherever they are."""
    root = Path(__file__).parents[2]
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".ll") and path.is_file():
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()}"


def do(request: str, contents: Mapping[str, bytes]) -> str:
    """Do a job, as one of the processes of an executor: what `Jobs` submits."""
    return _worker().do(request, contents)


@lru_cache(maxsize=1)
def _worker() -> Worker:
    return Worker(_MOST_AT_ONCE)


class Worker:
    """Does jobs, `count` at a time, in children that live on from job to job."""

    def __init__(self, count: int) -> None:
        self._children = Children(count)
        self._contents: Contents = {}
        self._lock, self._closed = Lock(), Event()

    def do(self, request: str, contents: Mapping[str, bytes]) -> str:
        """The answer to a request."""
        asked = json.loads(request)
        if asked["build"] != build():
            return json.dumps({"build": build(), "machine": _machine()})
        needed, missing = self._gathered(asked["contents"], contents)
        if missing:
            return json.dumps({"missing": missing, "machine": _machine()})
        with _alone(self._closed) if asked["alone"] else _among_others():
            answer = self._answered(asked, needed)
        return json.dumps(answer | {"machine": _machine()})

    def close(self) -> None:
        """End the children, whatever they do."""
        self._closed.set()
        self._children.shutdown()

    def _answered(self, asked: Mapping[str, Any], needed: Contents) -> dict[str, Any]:
        try:
            return self._children.begin(asked["seconds"], call, asked["call"], needed).result()
        except ChildDied as death:
            return {"died": death.code, "said": death.said}
        except TimeLimit:
            return {"late": asked["seconds"]}
        except Exception as error:
            return {"error": packed_error(error)}

    def _gathered(self, digests: list[str], sent: Mapping[str, bytes]) -> tuple[Contents, list[str]]:
        """The contents that a job needs, and the digests of those that are not here."""
        with self._lock:
            known = {one: sent.get(one, self._contents.pop(one, None)) for one in digests}
            found = {one: data for one, data in known.items() if data is not None}
            self._contents |= found
            while sum(map(len, self._contents.values())) > _MOST_BYTES:
                del self._contents[next(iter(self._contents))]
        return found, [one for one, data in known.items() if data is None]


def call(asked: Mapping[str, Any], contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Call the function of a job; what it gave or raised, as JSON.  In a child."""
    try:
        function = unpacked(asked["function"], contents)
        return {"value": packed(function(*unpacked(asked["arguments"], contents)))}
    except Exception as error:
        return {"error": packed_error(error)}


@lru_cache(maxsize=1)
def _machine() -> dict[str, Any]:
    processor = host()
    return {"host": platform.node(), "cpu": processor.cpu, "cores": processor.cores}


@contextmanager
def _among_others() -> Iterator[None]:
    yield


@contextmanager
def _alone(closed: Event) -> Iterator[None]:
    """While this lasts no other job that is timed runs on this machine, of whatever worker."""
    path = Path(tempfile.gettempdir()) / "hlotool-timing.lock"
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        file = os.open(path, os.O_RDONLY)  # another user's: it can be locked all the same
    try:
        while not closed.is_set() and not locked(file):
            time.sleep(_EVERY)
        yield
    finally:
        os.close(file)
