"""Golden snapshots: modules in the canonical form, which names and source places do not change."""

from __future__ import annotations

from pathlib import Path

from hlotool.checks.cases import difference, read_text
from hlotool.ir import Module
from hlotool.text.presets import print_preset

__all__ = ["differs_from", "snapshot_text"]


def snapshot_text(module: Module) -> str:
    """What a snapshot of the module holds."""
    return print_preset(module, "canonical").rstrip("\n") + "\n"


def differs_from(file: Path, text: str) -> tuple[str, tuple[str, ...]] | None:
    """How `text` differs from the snapshot in `file`, as a message and lines below it; None where it does not."""
    try:
        wanted = read_text(file)
    except FileNotFoundError:
        return f"there is no snapshot {file}; --update writes it", ()
    if wanted == text:
        return None
    return f"not the snapshot {file}", tuple(difference(wanted, text).splitlines())
