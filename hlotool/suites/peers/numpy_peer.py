"""NumPy, whose products are those of its BLAS (OpenBLAS, in its wheels)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlotool.suites.operations.numpy_only import NUMPY, TOOLS
from hlotool.suites.peers.programs import stepwise

__all__ = ["arrays", "prepare", "version"]


def version() -> str:
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"NumPy {np.__version__}, {blas.get('name', 'unknown BLAS')} {blas.get('version', '')}".strip()


def prepare(source: str, given: Sequence[Any]) -> Callable[[], Any]:
    if any(array.dtype.kind == "V" or array.dtype.name == "bfloat16" for array in given):
        raise TypeError("NumPy has no bf16 of its own")
    run = stepwise(source, NUMPY, (TOOLS,))
    return lambda: run(*given)


def arrays(found: Sequence[Any]) -> list[Any]:
    return [np.asarray(one) for one in found]
