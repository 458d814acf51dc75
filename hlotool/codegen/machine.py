"""What the emitters know about the processor: vector width, caches, cores."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from functools import cache

__all__ = ["Machine", "Numerics", "host", "named"]


@dataclass(frozen=True, slots=True)
class Numerics:
    """How exactly a program computes, where users may choose.

    With `excess_precision` the results of elementwise operations on f16 and bf16 keep the precision of f32 until they
    are stored; without, each is rounded to its type.  With `flush_denormals` arithmetic on f32, f64 and bf16 takes
    subnormal numbers for zeros and gives zeros for them.
    """

    excess_precision: bool = False
    flush_denormals: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A target processor, and how to compute on it.  Widths in bits, caches in bytes (per core for L1 and L2)."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    cores: int = 1
    numerics: Numerics = Numerics()

    def lanes(self, bits: int) -> int:
        """Elements of `bits` bits in one vector register."""
        return max(1, self.vector_bits // bits)

    @property
    def registers(self) -> int:
        """Vector registers that a micro-kernel may plan with."""
        return 32 if self.vector_bits == 512 or "aarch64" in self.triple else 16


def host() -> Machine:
    """The processor this process runs on."""
    from llvmlite import binding

    found = binding.get_host_cpu_features()
    if found.get("amx-bf16") and not _may_use_tiles():
        found["amx-bf16"] = False
    return Machine(
        triple=binding.get_process_triple(),
        cpu=binding.get_host_cpu_name(),
        features=found.flatten(),
        vector_bits=_vector_bits({name for name, on in found.items() if on}),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def named(cpu: str) -> Machine:
    """The machine for a ``--cpu`` name: ``host``, ``x86-64``, ``x86-64-v2``, ``-v3``, ``-v4``.

    Without tile registers, which the process that links the code would have to ask its system for.
    """
    mine = host()
    if cpu == "host":
        return replace(mine, features=mine.features.replace("+amx-bf16", "-amx-bf16"))
    widths = {"x86-64": 128, "x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512}
    if cpu not in widths:
        raise ValueError(f"unknown cpu {cpu!r}; known: host, {', '.join(widths)}")
    return Machine("x86_64-unknown-linux-gnu", cpu, "", widths[cpu], mine.l1, mine.l2, mine.l3, mine.cores)


@cache
def _may_use_tiles() -> bool:
    """Ask the system to let this process use tile registers (AMX); they are off until then.

    See "Using XSTATE features in user space applications" in the Linux kernel's documentation.
    """
    import ctypes

    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    if not (sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8):
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    arguments = (ctypes.c_long(number) for number in (arch_prctl, request_permission, tile_data))
    return bool(call(*arguments) == 0)


def _vector_bits(features: set[str]) -> int:
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features:
        return 512
    return 256 if {"avx2", "fma"} <= features else 128
