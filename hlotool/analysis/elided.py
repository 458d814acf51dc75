"""Constants whose contents were left out of the text (``{...}``): a module that has one is no whole program."""

from __future__ import annotations

from hlotool.ir import Diagnostic, Instruction, Module, UnsupportedError

__all__ = ["elided_constants", "elided_message", "refuse_elided"]


def elided_constants(module: Module) -> list[Instruction]:
    """Constants, any leaf of which was left out, in order."""
    return [
        instruction
        for computation in module.computations.values()
        for instruction in computation
        if instruction.opcode == "constant" and any(leaf.elided for leaf in instruction.literal.leaves())
    ]


def elided_message(constants: list[Instruction]) -> str:
    """What they are, in words."""
    if len(constants) == 1:
        return f"{constants[0].name}: the contents of this constant were left out of the text"
    return f"the contents of {len(constants)} constants, {constants[0].name} the first, were left out of the text"


def refuse_elided(module: Module) -> None:
    """UnsupportedError where a constant was left out, each named with its place: the program would run on zeros."""
    found = elided_constants(module)
    if found:
        hint = "print the module with its large constants, or say what they are to be: --elided zeros or random"
        diagnostics = [Diagnostic(elided_message([c]), c.location, hint, UnsupportedError.code) for c in found[:8]]
        raise UnsupportedError(elided_message(found), diagnostics)
