"""Who does jobs: what ``--executor`` names, as executors of `concurrent.futures`.

==================  ======================================================================================
``processes:N``     N processes of this machine
``dask:ADDRESS``    the workers of a scheduler of Dask, as in ``dask:tcp://10.0.0.1:8786``
``mpi``             the other ranks of a program that `mpi4py.futures` runs
``MODULE:FUNCTION`` whatever the executor does that this function gives
==================  ======================================================================================
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any

from hlotool.codegen.machine import host
from hlotool.harness.jobs.worker import Worker
from hlotool.ir import ExecutionError, InputError, UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Pool", "check_name", "pool_of"]

_MOST = 256
_PATIENCE = 15
"""Seconds for a scheduler to answer, and for its first worker."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Executors of one `name`: `start` makes one, anew where another one broke, and `end` is what there is to end
    besides it; `width` are the jobs that it does at a time, as far as one can ask it."""

    name: str
    start: Callable[[], Executor]
    width: Callable[[Executor], int]
    end: Callable[[], None] = lambda: None


def check_name(name: str) -> str:
    """The name of an executor as it is; ValueError says what is wrong with it."""
    kind, colon, rest = name.partition(":")
    if kind == "processes":
        if not (rest.isdecimal() and 1 <= int(rest) <= _MOST):
            raise ValueError(f"expected processes:N, N from 1 to {_MOST}")
    elif kind == "dask":
        if "://" not in rest:
            raise ValueError("expected dask: with the address of a scheduler, as in dask:tcp://127.0.0.1:8786")
    elif name == "mpi":
        pass
    elif not (colon and all(part.isidentifier() for part in [*kind.split("."), *rest.split(".")])):
        raise ValueError(f"{name!r} is no executor: expected processes:N, dask:ADDRESS, mpi, or MODULE:FUNCTION")
    return name


def pool_of(name: str) -> Pool:
    """The pool of a name.  ValueError as `check_name`; what is missing is said when it starts."""
    kind, _, rest = check_name(name).partition(":")
    if kind == "processes":
        return Pool(name, lambda: _Processes(int(rest)), lambda made: int(rest))
    if kind == "dask":
        return _dask(name, rest)
    if name == "mpi":
        return Pool(name, _mpi, lambda made: max(1, made.num_workers))  # type: ignore[attr-defined]
    return Pool(name, lambda: _made_by(name), _workers_of)


class _Processes(ThreadPoolExecutor):
    """A worker of this process, whose children do `count` jobs at a time; it ends with all that they do."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._own = Worker(count)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(self._own.do, *args, **kwargs)  # `fn` is what other processes are told to call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._own.close()
        super().shutdown(wait, cancel_futures=True)


def _dask(name: str, address: str) -> Pool:
    clients: list[Any] = []

    def start() -> Executor:
        try:
            from distributed import Client
        except ImportError:
            raise UnsupportedError("--executor dask needs Dask: pip install 'hlotool[dask]'") from None
        for one in list(logging.root.manager.loggerDict):
            if one.partition(".")[0] == "distributed":
                logging.getLogger(one).setLevel(logging.CRITICAL)  # what goes wrong is said once, by us
        try:
            client = Client(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ExecutionError(f"no scheduler of Dask answers at {address}: {_first_line(error)}") from None
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            client.close()
            raise ExecutionError(f"the scheduler at {address} has no workers; 'dask worker' starts one") from None
        clients.append(client)
        warnings.filterwarnings("ignore", "Sending large graph")  # contents are sent once
        made: Executor = client.get_executor(pure=False)
        return made

    def end() -> None:
        for client in clients:
            client.close()

    def width(made: Executor) -> int:
        threads: Mapping[str, int] = clients[-1].nthreads()
        return max(1, sum(threads.values()))

    return Pool(name, start, width, end)


def _mpi() -> Executor:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(
            f"--executor mpi needs mpi4py and an MPI ({_first_line(error)}): pip install 'hlotool[mpi]'"
        ) from None
    if not (_is_served() or (MPI.COMM_WORLD.Get_size() == 1 and os.environ.get("MPI4PY_FUTURES_MAX_WORKERS"))):
        raise UnsupportedError(
            "--executor mpi finds no ranks that work: 'mpiexec -n 4 python -m mpi4py.futures -m hlotool ...' has some"
        )
    made: Executor = MPIPoolExecutor()
    return made


def _is_served() -> bool:
    """Whether the other ranks wait for jobs, as ``python -m mpi4py.futures`` has them do."""
    from mpi4py.futures import _core

    return getattr(_core, "SharedPool", None) is not None


def _made_by(name: str) -> Executor:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        made = found()
    except Exception as error:
        raise InputError(f"--executor {name}: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(made, Executor):
        raise InputError(f"--executor {name}: this gives {type(made).__name__}, no executor of concurrent.futures")
    return made


def _workers_of(made: Executor) -> int:
    """What executors say of how many workers they have, where they do."""
    for name in ("num_workers", "_max_workers"):
        count = getattr(made, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return host().cores


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
