"""All families: importing this module registers them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

for _path in sorted(Path(__file__).parent.glob("families_*.py")):
    import_module(f"semantics.{_path.stem}")
