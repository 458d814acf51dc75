"""Names in text."""

from __future__ import annotations

__all__ = ["NAME"]

NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
"""An identifier, without its optional percent sign."""
