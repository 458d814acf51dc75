"""Files with checks, several at once: each by one process, with results in the order of the files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path

from hlotool.checks.directives import Problem
from hlotool.checks.run import Options, Verdict, check_file
from hlotool.cli.config import find_config
from hlotool.cli.in_process import run_here
from hlotool.codegen.machine import host
from hlotool.harness.orphans import end_with_parent

__all__ = ["check_here", "checked"]

_FILES_EACH = 8  # as many take about as long as a process that starts


def check_here(file: Path, options: Options) -> tuple[list[Verdict], bool]:
    """The checks of one file, in this process; pipelines of the ``hlotool.toml`` above the file have their names."""
    config = os.environ.get("HLOTOOL_CONFIG") or find_config(file.absolute().parent)
    before = os.environ.get("HLOTOOL_CONFIG")
    if config:
        os.environ["HLOTOOL_CONFIG"] = str(Path(config).absolute())
    try:
        return check_file(file, run_here, options)
    finally:
        if before is None:
            os.environ.pop("HLOTOOL_CONFIG", None)
        else:
            os.environ["HLOTOOL_CONFIG"] = before


def checked(files: Sequence[Path], options: Options, jobs: int | None) -> Iterator[tuple[list[Verdict], bool]]:
    """What `check_here` gives for each file, in order, by several processes where there are many files."""
    count = jobs or min(host().cores, len(files) // _FILES_EACH)
    if min(count, len(files)) <= 1:
        yield from map(partial(check_here, options=options), files)
        return
    pool = _pool(count)
    try:
        futures = [pool.submit(check_here, file, options) for file in files]
        for file, future in zip(files, futures, strict=True):
            yield _result(file, future, options)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in active_children():
            child.terminate()
        raise
    pool.shutdown()


def _result(file: Path, future: Future[tuple[list[Verdict], bool]], options: Options) -> tuple[list[Verdict], bool]:
    """Of a file whose process died, or that waited for one which did: what another process says."""
    try:
        return future.result()
    except BrokenProcessPool:
        pass
    with _pool(1) as alone:
        try:
            return alone.submit(check_here, file, options).result()
        except BrokenProcessPool:
            problem = Problem(1, "the process that ran the checks of this file died")
            return [Verdict(file=str(file), name=str(file), line=1, verdict="failed", problems=(problem,))], False


def _pool(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_serve)


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent that ends
    end_with_parent()
