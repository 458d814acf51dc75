"""Every opcode on every type in odd forms (windows, dimension numbers, empty and dynamic shapes), to be mutated.

What `tests/semantics` draws for one opcode, with operands dressed up; mutations then change and join the forms.
"""

from __future__ import annotations

from random import Random

import semantics.families  # noqa: F401
from semantics.dressed import Dressed
from semantics.sample import FAMILIES

from hlotool.text.printer import print_module

__all__ = ["forms"]

_OPEN = ("rng", "infeed")
"""Opcodes whose results a module alone does not say."""


def forms(count: int) -> list[str]:
    """Texts of one device, some fewer than `count`; always the same."""
    made = (_form(Random(f"form {number}")) for number in range(count))
    return [text for text in made if text is not None]


def _form(rng: Random) -> str | None:
    opcode = rng.choice([name for name in FAMILIES if name not in _OPEN])
    family = rng.choice(FAMILIES[opcode])
    sample = Dressed(rng)
    try:
        sample.entry.root = family.draw(sample, opcode, rng.choice(family.types))
    except (IndexError, ValueError):  # a form that cannot be dressed so
        return None
    sample.module.add(sample.entry, entry=True)
    return None if "num_partitions" in sample.module.attributes else print_module(sample.module)
