"""Asking all rules about all instructions, and applying what they propose."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hlotool.ir import Instruction, Module
from hlotool.ir.effects import is_pure
from hlotool.lint.rule import Finding, Rule, replaced
from hlotool.lint.rules import RULES

__all__ = ["apply_fixes", "lint"]


def lint(module: Module, rules: Collection[Rule] | None = None) -> Iterator[tuple[Rule, Finding]]:
    """What the rules (all that are no notes, if none are given) find in a valid module, in order of its instructions.

    Instructions whose ``frontend_attributes`` have ``lint="off"``, or ``lint="off:HLO6005,HLO6101"``, are left out.
    """
    asked = [rule for rule in RULES.values() if not rule.note] if rules is None else rules
    by_opcode: dict[str, list[Rule]] = {}
    for rule in asked:
        for opcode in rule.opcodes:
            by_opcode.setdefault(opcode, []).append(rule)
    for instruction in module.instructions():
        for rule in by_opcode.get(instruction.opcode, ()):
            if not _is_off(instruction, rule):
                for finding in rule.find(instruction):
                    yield rule, finding


def _is_off(instruction: Instruction, rule: Rule) -> bool:
    attributes = instruction.attributes.get("frontend_attributes")
    said = attributes.get("lint", "") if isinstance(attributes, dict) else ""
    switch, _, codes = str(said).partition(":")
    return switch.strip() == "off" and (not codes or rule.code in [code.strip().upper() for code in codes.split(",")])


def apply_fixes(module: Module, findings: Collection[Finding]) -> int:
    """Apply the fixes of `findings`, which are of this module, and remove what nobody reads then; how many there
    were."""
    fixable = [finding for finding in findings if finding.fix is not None]
    for finding in fixable:
        replaced(finding)
    if fixable:
        _remove_dead(module)
    return len(fixable)


def _remove_dead(module: Module) -> None:
    for computation in module.computations.values():
        for instruction in reversed(computation):
            if instruction.users or instruction.is_root or instruction.opcode == "parameter":
                continue
            if is_pure(instruction) and not instruction.control_successors and not instruction.control_predecessors:
                computation.erase(instruction)
    module.remove_unreachable()
