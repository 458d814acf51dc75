"""mpi4py, where it is installed."""

from __future__ import annotations

from functools import cache
from typing import Any

from hlotool.ir import UnsupportedError

__all__ = ["mpi"]


@cache
def mpi() -> Any:
    """``mpi4py.MPI``, initialised; UnsupportedError where it is not there, or does not let several threads call it."""
    try:
        from mpi4py import MPI as found  # noqa: N811
    except ImportError as error:  # mpi4py itself, or the library that it was made for
        raise UnsupportedError(
            f"devices over MPI need mpi4py and an MPI library: pip install 'hlotool[mpi]' ({error})"
        ) from error
    except RuntimeError as error:
        raise UnsupportedError(f"MPI cannot be used: {error}") from error
    if found.Query_thread() < found.THREAD_MULTIPLE:
        raise UnsupportedError("this MPI was initialised without MPI_THREAD_MULTIPLE, which devices need")
    return found
