"""Smells of modules: what is valid and does what it says, and yet is seldom what its author wants.

In: a module.  Out: findings, and for some of them a rewrite.  One rule per file; `rules` has the table of them.
May import ir and analysis.
"""

from hlotool.lint.rule import Finding, Rule
from hlotool.lint.rules import RULES
from hlotool.lint.run import apply_fixes, lint

__all__ = ["RULES", "Finding", "Rule", "apply_fixes", "lint"]
