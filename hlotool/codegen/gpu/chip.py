"""The chips that grids are written for."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["CHIPS", "EMULATED", "FAMILIES", "Chip", "chip_named", "permutation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip by its `name`, and what kernels for it go by.

    Threads of a `warp` run in step; where it `has_matrices` they multiply pieces of matrices.  A block has at most
    `shared` bytes that its threads share.  Grids that are `emulated` are loops of the processor that compiles them,
    which go through blocks, and through the threads of a block between two barriers, in some `order` (`permutation`).
    """

    name: str
    machine: Machine
    warp: int = 32
    has_matrices: bool = True
    shared: int = 48 << 10
    emulated: bool = False
    order: str = ""

    @property
    def is_amd(self) -> bool:
        """Whether its instructions are AMD's."""
        return self.machine.architecture == "amdgcn"


def permutation(order: str, count: int) -> tuple[int, int]:
    """An order of `count` things: a stride and a first number, so that the n-th is number ``(n * stride + first) %
    count``.

    It is theirs, from the last one on if they are ``reversed``, and one in which neighbours are far apart if they are
    ``shuffled``.
    """
    if order == "reversed":
        return count - 1, count - 1
    if order == "shuffled":
        return next(n for n in range(count * 5 // 8 + 1, 2 * count + 2) if gcd(n, count) == 1), count // 3
    return 1, 0


_VERSIONS = {
    "sm_70": "ptx60", "sm_75": "ptx63", "sm_80": "ptx70", "sm_86": "ptx71", "sm_89": "ptx78", "sm_90": "ptx78",
    "sm_100": "ptx86",
}  # fmt: skip
"""Architectures of NVIDIA, and the first version of PTX that has them."""

_WAVES = {"gfx906": 64, "gfx908": 64, "gfx90a": 64, "gfx942": 64, "gfx1030": 32, "gfx1100": 32, "gfx1201": 32}
"""Architectures of AMD, and how many threads run in step there (LLVM's "User Guide for AMDGPU Backend",
"Processors")."""

_MATRICES = 80
"""The first architecture of NVIDIA that multiplies matrices in the form that is used here."""


def _nvidia(name: str, version: str) -> Chip:
    machine = Machine(
        triple="nvptx64-nvidia-cuda", cpu=name, features=f"+{version}", vector_bits=8, asks=False,
    )  # fmt: skip
    return Chip(name=name, machine=machine, has_matrices=int(name.removeprefix("sm_")) >= _MATRICES)


def _amd(name: str, wave: int) -> Chip:
    machine = Machine(
        triple="amdgcn-amd-amdhsa", cpu=name, features=f"+wavefrontsize{wave}", vector_bits=8, asks=False,
    )  # fmt: skip
    return Chip(name=name, machine=machine, warp=wave, has_matrices=False, shared=64 << 10)


CHIPS = {name: _nvidia(name, version) for name, version in _VERSIONS.items()}
"""Those of NVIDIA by name."""

_USUAL = "sm_80"


def _emulated(order: str) -> Chip:
    name = f"emulate-{order}" if order else "emulate"
    return replace(CHIPS[_USUAL], name=name, emulated=True, order=order)


EMULATED = {chip.name: chip for chip in map(_emulated, ("", "reversed", "shuffled"))}
"""The same kernels as loops of this processor, to look at their numbers where there is no chip.  What waits for nobody
may run in any order: other orders must not give other numbers."""

FAMILIES = {"nvptx": {**CHIPS, **EMULATED}, "amdgcn": {name: _amd(name, wave) for name, wave in _WAVES.items()}}
"""All chips, by the names that LLVM has for such targets."""


def chip_named(family: str, name: str) -> Chip:
    """The chip of that name; ValueError where there is none."""
    chips = FAMILIES[family]
    if name not in chips:
        raise ValueError(f"unknown chip {name!r}; known: {', '.join(chips)}")
    return chips[name]
