"""Processors for tests about plans: what is fused, packed or shared must not hang on where the tests run."""

from __future__ import annotations

from hlotool.codegen.machine import named

__all__ = ["SERVER"]

SERVER = named("x86-64-v4,l1=32K,l2=1M,l3=32M,cores=2")
"""Two cores with 512-bit vectors and large caches."""
