"""Derivatives of custom calls: those that somebody has registered, LAPACK's (`lapack_calls.py`), and those of functions
that bring their own."""

from __future__ import annotations

from hlotool.ir import Instruction
from hlotool.passes.autodiff import own_derivatives
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.lapack_calls import rule_of
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import refusal

__all__ = ["RULES", "register_gradient"]

_TARGETS: dict[str, Rule] = {}


def register_gradient(target: str, rule: Rule) -> None:
    """Let `rule` be how custom calls of `target` are differentiated."""
    _TARGETS[target] = rule


def _rule(call: Instruction) -> Rule:
    target = call.attributes["custom_call_target"]
    found = _TARGETS.get(target) or own_derivatives.RULES.get(target) or rule_of(target)
    if found is None:
        hint = "register_gradient of hlotool.passes.autodiff gives it a rule"
        raise refusal(call, "what it calls is not known", hint)
    return found


def _reverse(at: Reverse, call: Instruction, cotangents: ByLeaf) -> None:
    _rule(call).reverse(at, call, cotangents)


def _forward(at: Forward, call: Instruction) -> ByLeaf:
    return _rule(call).forward(at, call)


RULES: dict[str, Rule] = {"custom-call": Rule(_reverse, _forward)}
