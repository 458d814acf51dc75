"""Functions of CHLO as formulas of HLO's operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMULAS: dict[str, tuple[Callable[..., Any], int]] = {}
