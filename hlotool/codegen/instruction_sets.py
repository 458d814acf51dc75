"""Vector instructions of processors, as data: one row for each set of them that code is written for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hlotool.lazy_dataclass import dataclass

__all__ = ["AVX512", "PORTABLE", "InstructionSet", "instruction_set", "vector_bits_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionSet:
    """What code may count on, on an `architecture` whose processors have the features `requires`.

    Vectors have `vector_bits` bits.  Micro-kernels may plan with `registers` vector registers; that an instruction
    `overwrites` means that it has no register of its own for its result.  Single lanes of at least `masked_bits` bits
    are read and written under a mask (0: none are).  `half`: conversions between f16 and f32; `fma`: multiply-adds that
    round once, one of all lanes every `fma_cycles`; `scalef`: ``llvm.ldexp`` on vectors as one instruction;
    `short_pairs`: dot products of pairs of s16; `picked`: from so many entries of 32 bits in one vector each lane picks
    one by number.  Where they are not `tuned`, nothing was measured of what only trying
    tells, such as what to fetch ahead.  Variables lie in LLVM's address space `stack`.
    """

    architecture: str = ""
    requires: frozenset[str] = frozenset()
    vector_bits: int = 128
    registers: int = 16
    overwrites: bool = False
    masked_bits: int = 0
    half: bool = False
    fma: bool = False
    fma_cycles: float = 0.5
    scalef: bool = False
    short_pairs: bool = False
    picked: int = 0
    tuned: bool = True
    stack: int = 0

    def has_masks(self, bits: int) -> bool:
        """Whether single lanes of so many bits are read and written."""
        return 0 < self.masked_bits <= bits


AVX512 = InstructionSet(
    architecture="x86_64", requires=frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq"}), vector_bits=512,
    registers=32, masked_bits=8, half=True, fma=True, fma_cycles=1.0, scalef=True, short_pairs=True, picked=16,
)  # fmt: skip
_AVX2 = InstructionSet(
    architecture="x86_64", requires=frozenset({"avx2", "fma"}), vector_bits=256, masked_bits=32, half=True, fma=True,
    short_pairs=True,
)  # fmt: skip
_SSE = InstructionSet(architecture="x86_64", overwrites=True, short_pairs=True)
_NEON = InstructionSet(architecture="aarch64", registers=32, half=True, fma=True)
# No processor's features say how wide its scalable vectors are: these are for processors that are named.
_SVE512, _SVE256 = (
    replace(_NEON, requires=frozenset({"sve", f"{bits} bits"}), vector_bits=bits, tuned=False) for bits in (512, 256)
)
PORTABLE = InstructionSet(overwrites=True)
"""What LLVM has for every processor."""
_THREADS = InstructionSet(architecture="nvptx64", vector_bits=8, half=True, fma=True, tuned=False)
"""One of many threads, which compute single elements."""
_WORK_ITEMS = replace(_THREADS, architecture="amdgcn", stack=5)
"""The same as AMD calls them, see LLVM's "User Guide for AMDGPU Backend", "Address Spaces"."""

_SETS = (AVX512, _AVX2, _SSE, _SVE512, _SVE256, _NEON, PORTABLE, _THREADS, _WORK_ITEMS)
"""Of each architecture the widest first."""


def vector_bits_of(features: frozenset[str]) -> int:
    """The bits of the vectors that a processor with these features has."""
    return next(row.vector_bits for row in _SETS if row.requires <= features)


@cache
def instruction_set(architecture: str, vector_bits: int, masks: bool = True) -> InstructionSet:
    """The instructions of an architecture for vectors of at most so many bits; without `masks`, none of lanes."""
    found = next(row for row in _SETS if row.architecture == architecture and row.vector_bits <= vector_bits)
    return found if masks else replace(found, masked_bits=0)
