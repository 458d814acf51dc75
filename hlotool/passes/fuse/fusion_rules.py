"""What users say about fusion: regular expressions over names, and attributes of single instructions.

``frontend_attributes={fuse="never"}`` keeps an instruction out of all fusions; ``fuse="always"`` fuses it into its
readers even where that repeats work, as far as the code generator can.
"""

from __future__ import annotations

import re

from hlotool.ir import HloError, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["FusionRules", "fusion_rules", "has_own_fusions", "mark_own_fusions"]

_MARK = ("fused_by", "hlotool")


@dataclass(frozen=True, slots=True)
class FusionRules:
    """Only instructions whose name `only` finds may be fused, and none whose name `never` finds."""

    only: re.Pattern[str] | None
    never: re.Pattern[str] | None

    def forbids(self, instruction: Instruction) -> str:
        """The rule that keeps the instruction, which may be a fusion already, out of (other) fusions; else empty."""
        if _wish(instruction) == "never":
            return 'fuse="never" is set on it'
        if self.never is None and self.only is None:
            return ""
        names = (instruction.name, *instruction.origins)
        if self.never is not None and any(map(self.never.search, names)):
            return f"never={self.never.pattern} names it"
        if self.only is not None and not any(map(self.only.search, names)):
            return f"only={self.only.pattern} does not name it"
        return ""

    def forces(self, instruction: Instruction) -> bool:
        """Whether the instruction is to be fused whatever it costs."""
        return _wish(instruction) == "always"


def fusion_rules(only: str, never: str) -> FusionRules:
    """Rules from the options of a pass (empty: none); HloError where an expression is none."""
    return FusionRules(_compiled("only", only), _compiled("never", never))


def _compiled(option: str, text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise HloError(f"fusion option {option}={text!r} is no regular expression: {error}") from None


def _wish(instruction: Instruction) -> str:
    attributes = instruction.attributes.get("frontend_attributes")
    return attributes.get("fuse", "") if isinstance(attributes, dict) else ""


def has_own_fusions(module: Module) -> bool:
    """Whether the module has been through hlotool's fusion: its fusions are as they should be."""
    attributes = module.attributes.get("frontend_attributes")
    return isinstance(attributes, dict) and attributes.get(_MARK[0]) == _MARK[1]


def mark_own_fusions(module: Module) -> None:
    """Note, in the header, that the fusions of the module are hlotool's."""
    attributes = module.attributes.get("frontend_attributes")
    module.attributes["frontend_attributes"] = {**(attributes or {}), _MARK[0]: _MARK[1]}
