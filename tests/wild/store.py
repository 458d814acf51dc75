"""The folder of recorded modules: texts, and arrays as `recorder.py` left them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.archive import from_bits
from hlotool.harness.inputs import inputs_of
from hlotool.ir import Module

__all__ = ["arrays", "devices", "keys", "programs", "text"]

Rows = list[list[npt.NDArray[Any]]]


def keys(store: Path) -> list[str]:
    """Modules that have a text, those of the fewest lines first."""
    return [p.stem for p in sorted(store.glob("*.hlo"), key=lambda p: (p.stat().st_size, p.name))]


def text(store: Path, key: str) -> str:
    return (store / f"{key}.hlo").read_text()


def _said(store: Path, key: str) -> dict[str, Any]:
    path = store / f"{key}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def devices(store: Path, key: str) -> int:
    return int(_said(store, key).get("devices", 1))


def programs(store: Path, key: str) -> list[str]:
    """The programs that the module is of."""
    return list(_said(store, key).get("programs", []))


def arrays(store: Path, key: str, module: Module) -> tuple[Rows | None, Rows | None]:
    """Inputs and XLA's outputs, a list for each device; None for what was too large to be kept."""
    path = store / f"{key}.npz"
    if not path.exists():
        return None, None
    count = devices(store, key)
    outputs = [leaf for leaf in module.entry.root.shape.leaves() if leaf.is_array]
    with np.load(path, allow_pickle=False) as archive:
        held = dict(archive)

    def rows(prefix: str, shapes: list[Any]) -> Rows | None:
        made: Rows = []
        for device in range(count):
            row = []
            for number, shape in enumerate(shapes):
                array = held.get(f"{prefix}{number}@{device}", held.get(f"{prefix}{number}"))
                if array is None:
                    return None
                row.append(from_bits(array, shape))
            made.append(row)
        return made

    return rows("arg", [leaf.shape for leaf in inputs_of(module)]), rows("out", outputs)
