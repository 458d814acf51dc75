"""The rules of the algebraic simplifier, by subject.

Each rule is one function whose docstring is its identity, or one line of text that states it (`identity`).  A rule of
floating-point numbers is here only when it is exact, or when its error is within that of the instruction it replaces
and its docstring says so.

Files are read when there is an instruction for them: most programs have few opcodes.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hlotool.passes.framework.patterns import ELEMENTWISE, KINDS
from hlotool.passes.framework.rewriter import Rule

if TYPE_CHECKING:
    from hlotool.passes.simplify.algebra.identity import Identity

__all__ = ["SUBJECTS", "all_identities", "all_rules", "rules_for"]

SUBJECTS: dict[str, tuple[str, str]] = {
    "arithmetic": (
        "",
        "abs add and ceil complex divide floor imag maximum minimum multiply negate not or power real remainder "
        "round-nearest-afz round-nearest-even subtract xor",
    ),
    "comparison": (
        "",
        "and clamp compare maximum minimum not or select shift-left shift-right-arithmetic shift-right-logical xor",
    ),
    "conversion": (
        "",
        "bitcast-convert ceil convert copy floor imag is-finite not real reduce-precision round-nearest-afz "
        "round-nearest-even",
    ),
    "movement": ("", f"broadcast constant iota reshape reverse transpose {ELEMENTWISE.replace('|', ' ')}"),
    "slicing": ("", "concatenate dynamic-slice dynamic-update-slice gather pad slice"),
    "indexing": ("", "dynamic-slice dynamic-update-slice gather scatter"),
    "gathering": ("", "gather scatter"),
    "contraction": ("", "divide dot reduce sort"),
    "windows": ("", "convolution reduce-window"),
    "narrowing": ("", "dot dynamic-slice reduce slice"),
    "identities_integer": (
        "integers and predicates",
        "add and divide multiply negate not or remainder shift-left shift-right-arithmetic shift-right-logical "
        "subtract xor",
    ),
    "identities_logic": ("integers and predicates", "and not or xor"),
    "identities_order": ("", "and clamp compare maximum minimum or select"),
    "identities_float": (
        "",
        "abs ceil cosh cosine divide floor is-finite multiply negate power remainder round-nearest-afz "
        "round-nearest-even sign subtract",
    ),
}
"""The files, in the order in which their rules are tried; the types of results that each is about, one of
`patterns.KINDS` (empty: any), and the opcodes."""


@cache
def rules_for(opcode: str, element_type: str) -> tuple[Rule, ...]:
    """All rules for instructions with this opcode whose results may have this type."""
    found = [
        name
        for name, (kind, opcodes) in SUBJECTS.items()
        if opcode in opcodes.split() and (not kind or element_type in KINDS[kind])
    ]
    return tuple([rule for name in found for rule in _file(name).RULES if opcode in rule.opcodes])


@cache
def all_rules() -> tuple[Rule, ...]:
    """The rules of all files."""
    return tuple([rule for name in SUBJECTS for rule in _file(name).RULES])


def all_identities() -> tuple[Identity, ...]:
    """The exact rules that are written as text."""
    return tuple([identity for name in SUBJECTS for identity, _ in getattr(_file(name), "IDENTITIES", ())])


def _file(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
