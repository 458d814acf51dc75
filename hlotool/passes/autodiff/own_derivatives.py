"""Functions whose derivative somebody has written (`hlotool.evaluate.own_derivatives`)."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.evaluate.own_derivatives import CUSTOM_JVP, CUSTOM_VJP, arguments_of, floats_of
from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.passes.autodiff.control import reverse_call
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Path, refusal

__all__ = ["RULES"]


def _arguments_of_floats(call: Instruction) -> list[Instruction]:
    arguments = arguments_of(call)
    return [arguments[number] for number in floats_of([one.shape for one in arguments])]


def _check_read(call: Instruction, moved: Sequence[bool]) -> None:
    """What a function reads besides its arguments has no derivative: nobody has written one."""
    if any(moved[len(arguments_of(call)) :]):
        raise refusal(
            call,
            "the function has a derivative of its own, and reads a value from around it that depends on what the "
            "derivative is by",
            "give it the value as an argument",
        )


def _first(build: Builder, whole: Instruction, count: int) -> Instruction:
    return build.tuple([build.gte(whole, number) for number in range(count)])


def _vjp_reverse(at: Reverse, call: Instruction, cotangents: ByLeaf) -> None:
    operands, arguments, shapes = list(call.operands), _arguments_of_floats(call), call.shape.elements
    _check_read(call, [at.wants(one) for one in operands])
    _, forward, backward = call.called
    ahead = at.ahead_of(call)
    new = ahead.call(forward, operands)
    kept = [ahead.gte(new, number) for number in range(len(shapes), len(forward.root.shape.elements))]
    at.replace(call, _first(ahead, new, len(shapes)))
    given = [cotangents.get((number,)) or at.zeros(shapes[number]) for number in floats_of(shapes)]
    found = at.build.call(backward, [*map(at.primal, kept), *given])
    for position, argument in enumerate(arguments):
        at.give(argument, at.build.gte(found, position))


def _vjp_forward(at: Forward, call: Instruction) -> ByLeaf:
    raise refusal(
        call,
        "the function has a derivative backwards (custom_vjp), and one forwards is asked for",
        "give it one for both with hlotool.custom_jvp",
    )


def _jvp_forward(at: Forward, call: Instruction) -> ByLeaf:
    _check_read(call, [bool(at.tangents(one)) for one in call.operands])
    both = call.called[1]
    shapes = call.shape.elements
    tangents = [at.tangent_or_zeros(one) for one in _arguments_of_floats(call)]
    new = at.build.call(both, [*map(at.primal, call.operands), *tangents])
    at.settle(call, _first(at.build, new, len(shapes)))
    return {(number,): at.build.gte(new, len(shapes) + place) for place, number in enumerate(floats_of(shapes))}


def _jvp_reverse(at: Reverse, call: Instruction, cotangents: ByLeaf) -> None:
    """The map from tangents to tangents, backwards: it is linear, and so the same at any tangents, such as zeros."""
    operands, arguments, shapes = list(call.operands), _arguments_of_floats(call), call.shape.elements
    _check_read(call, [at.wants(one) for one in operands])
    ahead = at.ahead_of(call)
    zeros = [ahead.splat(0.0, one.shape) for one in arguments]
    moving = floats_of(shapes)
    wanted: dict[Path, Instruction] = {}
    for path, cotangent in cotangents.items():
        wanted[len(shapes) + moving.index(path[0]),] = cotangent
    first = len(operands)
    inputs = frozenset((first + n, ()) for n, one in enumerate(arguments) if at.wants(one))
    found = reverse_call(
        at, call, call.called[1], [*operands, *zeros], inputs, wanted,
        lambda build, result: _first(build, result, len(shapes)),
    )  # fmt: skip
    for (number, _), cotangent in found.items():
        at.give(arguments[number - first], cotangent)


RULES: dict[str, Rule] = {
    CUSTOM_JVP: Rule(_jvp_reverse, _jvp_forward),
    CUSTOM_VJP: Rule(_vjp_reverse, _vjp_forward),
}
"""By target."""
