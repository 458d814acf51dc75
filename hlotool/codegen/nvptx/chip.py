"""The chips that grids are written for."""

from __future__ import annotations

from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["CHIPS", "EMULATED", "Chip", "chip_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip by its `name`, and what kernels for it go by.

    Threads of a `warp` run in step; where it `has_matrices` they multiply pieces of matrices of 16-bit floats.  A block
    has at most `shared` bytes that its threads share.  Grids that are `emulated` are loops of the processor that
    compiles them.
    """

    name: str
    machine: Machine
    warp: int = 32
    has_matrices: bool = True
    shared: int = 48 << 10
    emulated: bool = False


_VERSIONS = {
    "sm_70": "ptx60", "sm_75": "ptx63", "sm_80": "ptx70", "sm_86": "ptx71", "sm_89": "ptx78", "sm_90": "ptx78",
    "sm_100": "ptx86",
}  # fmt: skip
"""Architectures, and the first version of PTX that has them."""


def _chip(name: str, version: str) -> Chip:
    machine = Machine(
        triple="nvptx64-nvidia-cuda", cpu=name, features=f"+{version}", vector_bits=8, asks=False,
    )  # fmt: skip
    return Chip(name=name, machine=machine, has_matrices=int(name.removeprefix("sm_")) >= _MATRICES)


_MATRICES = 80
"""The first architecture that multiplies them in the form that is used here."""

CHIPS = {name: _chip(name, version) for name, version in _VERSIONS.items()}
"""By name."""

_USUAL = "sm_80"

EMULATED = Chip(name="emulate", machine=CHIPS[_USUAL].machine, emulated=True)
"""The same kernels as loops of this processor: to look at their numbers where there is no chip."""


def chip_named(name: str) -> Chip:
    """The chip of that name; ValueError where there is none."""
    found = EMULATED if name == EMULATED.name else CHIPS.get(name or _USUAL)
    if found is None:
        raise ValueError(f"unknown chip {name!r}; known: {', '.join([*CHIPS, EMULATED.name])}")
    return found
