"""The program of a child process under a Python that has a peer: it computes what a case says, told what to do line by
line.

A request is a line of JSON, ``{"do": ..., ...}``, and so is the answer: what was measured, or ``{"error": message}``.
Programs and arrays come and go by files.  It is started by its path: where that Python has no hlotool, the package is
taken from there, of which only what needs nothing else is used.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["serve"]

_PACKAGE = Path(__file__).resolve().parents[2]


def _take_package() -> None:
    """Have ``import hlotool`` find the package that this file is in, and nothing else that lies beside it."""
    spec = importlib.util.spec_from_file_location(
        "hlotool", _PACKAGE / "__init__.py", submodule_search_locations=[str(_PACKAGE)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["hlotool"] = package
    spec.loader.exec_module(package)


class _Client:
    """One peer with one program and its arguments; times in seconds."""

    def __init__(self, peer: str) -> None:
        self.peer = import_module(f"hlotool.suites.peers.{peer.replace('-', '_')}_peer")
        self.program = ""
        self.arrays: list[Any] = []
        self.run_once: Callable[[], Any] = list

    def hello(self) -> dict[str, Any]:
        return {"version": self.peer.version()}

    def compile(self, source: str) -> dict[str, Any]:
        """Make the program a function; peers that compile do so for these arguments."""
        self.program = source
        begin = time.perf_counter()
        self.run_once = self.peer.prepare(source, self.arrays)
        return {"seconds": time.perf_counter() - begin}

    def give(self, source: str) -> dict[str, Any]:
        from hlotool.harness.xla_child import load

        self.arrays = load(Path(source))
        return {}

    def run(self, target: str) -> dict[str, Any]:
        from hlotool.harness.xla_child import save

        begin = time.perf_counter()
        found = self.run_once()
        seconds = time.perf_counter() - begin
        save(Path(target), self.peer.arrays(found))
        return {"seconds": seconds}

    def sample(self, seconds: float, batch: int) -> dict[str, Any]:
        samples: list[float] = []
        clock, run = time.perf_counter, self.run_once
        end = clock() + seconds
        while not samples or clock() < end:
            begin = clock()
            for _ in range(batch):
                run()
            samples.append((clock() - begin) / batch)
        return {"samples": samples}


def serve(arguments: Sequence[str]) -> None:
    """Answer until nobody asks."""
    (peer,) = arguments
    _take_package()
    client = _Client(peer)
    tasks = {name: getattr(client, name) for name in ("hello", "compile", "give", "run", "sample")}
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = tasks[request.pop("do")](**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1:])
