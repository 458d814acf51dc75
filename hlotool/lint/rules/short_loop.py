"""Loops that run once or never."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.analysis.trip_count import known_trip_count
from hlotool.ir import Instruction
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]


def _find(loop: Instruction) -> Iterable[Finding]:
    count = known_trip_count(loop)
    if count is not None and count <= 1:
        does = "runs once" if count else "never runs"
        instead = "use its body in place of it" if count else "read its initial state"
        yield Finding(loop, f"a loop that {does}", instead)


def _loop(trips: int) -> str:
    return (
        "condition {\n  s = (s32[], f32[8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        f"  n = s32[] constant({trips})\n  ROOT c = pred[] compare(i, n), direction=LT\n}}\n\n"
        "body {\n  s = (s32[], f32[8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  v = f32[8] get-tuple-element(s), index=1\n"
        "  w = f32[8] tanh(v)\n  ROOT t = (s32[], f32[8]) tuple(j, w)\n}\n\n"
    )


_BODY = (
    "x = f32[8] parameter(0)\nz = s32[] constant(0)\ns = (s32[], f32[8]) tuple(z, x)\n"
    "ROOT y = (s32[], f32[8]) while(s), condition=condition, body=body"
)
RULE = Rule(
    code="HLO6106",
    name="short-loop",
    title="a loop that runs once or never",
    meaning="Its trip count is known, and a loop around nothing to repeat hides what is in it from fusion, and takes "
    "copies of its state.",
    opcodes=frozenset({"while"}),
    find=_find,
    wrong=module_text(_BODY, _loop(1)),
    right=module_text(_BODY, _loop(3)),
)
