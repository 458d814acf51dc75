"""What a processor has to have for code that was made for a machine, and how a library finds out.

Features are bits of what the instruction CPUID gives (Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 2, CPUID; AMD64 Architecture Programmer's Manual, volume 3, appendix E), and need registers that the system saves
(XCR0, volume 1, chapter 13).  The levels of x86-64 are those of its psABI.
On aarch64 a register of the system says whether there are scalable vectors (Arm Architecture Reference Manual,
ID_AA64PFR0_EL1), which Linux reads for programs.  RISC-V has no instruction that tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlotool.codegen.machine import Machine
from hlotool.ir import InputError
from hlotool.runtime.native_text import native_text

__all__ = ["baseline", "check_levels", "processor_name", "processor_text"]

_WORDS = 8
"""Leaf 1 c, 1 d, 7 b, 7 c, 7 d, 7.1 a, 80000001 c, XCR0; see ``native/library_processor.ll``."""

_BITS = {
    "sse3": (0, 0), "pclmul": (0, 1), "ssse3": (0, 9), "fma": (0, 12), "cx16": (0, 13), "sse4.1": (0, 19),
    "sse4.2": (0, 20), "movbe": (0, 22), "popcnt": (0, 23), "aes": (0, 25), "xsave": (0, 26), "osxsave": (0, 27),
    "avx": (0, 28), "f16c": (0, 29), "rdrnd": (0, 30),
    "cx8": (1, 8), "cmov": (1, 15), "mmx": (1, 23), "fxsr": (1, 24), "sse": (1, 25), "sse2": (1, 26),
    "fsgsbase": (2, 0), "bmi": (2, 3), "avx2": (2, 5), "bmi2": (2, 8), "avx512f": (2, 16), "avx512dq": (2, 17),
    "rdseed": (2, 18), "adx": (2, 19), "avx512ifma": (2, 21), "avx512cd": (2, 28), "sha": (2, 29),
    "avx512bw": (2, 30), "avx512vl": (2, 31),
    "avx512vbmi": (3, 1), "avx512vbmi2": (3, 6), "gfni": (3, 8), "vaes": (3, 9), "vpclmulqdq": (3, 10),
    "avx512vnni": (3, 11), "avx512bitalg": (3, 12), "avx512vpopcntdq": (3, 14),
    "avx512vp2intersect": (4, 8), "amx-bf16": (4, 22), "avx512fp16": (4, 23), "amx-tile": (4, 24), "amx-int8": (4, 25),
    "avxvnni": (5, 4), "avx512bf16": (5, 5), "avxifma": (5, 23),
    "sahf": (6, 0), "lzcnt": (6, 5), "sse4a": (6, 6), "xop": (6, 11), "fma4": (6, 16), "tbm": (6, 21),
}  # fmt: skip
"""LLVM's name of a feature -> word and bit."""

_V2 = ("cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "osxsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_LEVELS = {"x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}

_AVX, _AVX512 = 0b110, 0b11100110
"""What XCR0 has where the system saves the registers of AVX, and of AVX-512."""


def baseline(machine: Machine) -> Machine:
    """A machine for code that runs before it is known what the processor has."""
    if machine.triple.startswith("x86_64"):
        return replace(machine, cpu="x86-64", features="", vector_bits=128)
    if machine.vscale:
        return replace(machine, cpu="generic", features="+neon", vector_bits=128)
    return machine


def processor_name(machine: Machine) -> str:
    """What a library says that its code is for."""
    if machine.is_wasm:
        return "wasm32-simd128" if machine.has("simd128") else "wasm32"
    return machine.cpu


def check_levels(machines: Sequence[Machine]) -> None:
    """InputError unless there is one machine, or several levels of x86-64, each with more than the ones before."""
    names = [machine.cpu for machine in machines]
    order = [name for name in _LEVELS if name in names]
    if len(machines) > 1 and names != order:
        given = ",".join(map(processor_name, machines))
        raise InputError(
            f"--cpu {given}: several processors in one library are levels of x86-64, from the lowest to the highest: "
            f"{', '.join(_LEVELS)}"
        )


def processor_text(machines: Sequence[Machine]) -> str:
    """LLVM IR of ``i32 @level()``: the number of the last of `machines` whose code can run, or -1."""
    if machines[0].vscale:
        return native_text("library_vectors", VSCALE=machines[0].vscale)
    rows = [_wanted(machine) for machine in machines]
    if len(rows) == 1 and not any(rows[0]):
        return "define internal i32 @level() nounwind {\n  ret i32 0\n}\n"
    kind = f"[{_WORDS} x i32]"
    features = ", ".join(f"{kind} [{', '.join(f'i32 {word}' for word in row)}]" for row in rows)
    return native_text("library_processor", LEVELS=len(rows), WORDS=_WORDS, FEATURES=features, LAST=len(rows) - 1)


def _wanted(machine: Machine) -> list[int]:
    """The bits that the processor has to have."""
    words = [0] * _WORDS
    if not machine.triple.startswith("x86_64"):
        return words
    features = set(_LEVELS.get(machine.cpu, ()))
    features.update(name[1:] for name in machine.features.split(",") if name.startswith("+"))
    for name in features & _BITS.keys():
        word, bit = _BITS[name]
        words[word] |= 1 << bit
    if any(name.startswith("avx512") for name in features):
        words[7] = _AVX512
    elif "avx" in features:
        words[7] = _AVX
    return words
