"""Loops, branches, calls and composites: regions that see the values around them, as computations that do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Computation, Instruction, Literal, Shape, tuple_shape
from hlotool.text.stablehlo.scope import Refusal, Scope, fits, may_say_sizes, number, stored, text_of
from hlotool.text.stablehlo.tree import Block, Operation, Value, attribute_text

__all__: list[str] = []


def captured(scope: Scope, blocks: Sequence[Block]) -> list[Value]:
    """Values of `scope`, constants aside, that the blocks use, in the order of their uses."""
    found: dict[Value, None] = {}
    own: set[Value] = set()
    stack = list(reversed(blocks))
    while stack:
        block = stack.pop()
        own.update(block.arguments)
        for operation in block.operations:
            for value in operation.operands:
                if value not in own:
                    found[value] = None
            own.update(operation.results)
            for region in operation.regions:
                stack += region.blocks
    return [value for value in found if value not in own and not _is_constant(scope, value)]


def _is_constant(scope: Scope, value: Value) -> bool:
    """Whether the value is made again where it is used."""
    instruction = scope.get(value)
    while instruction.opcode in ("broadcast", "reshape", "convert"):
        instruction = instruction.operands[0]
    return instruction.opcode in ("constant", "iota")


def _computation(
    scope: Scope,
    name: str,
    block: Block,
    arguments: Sequence[Value],
    shapes: Sequence[Shape],
    extra: Sequence[Value] = (),
) -> Computation:
    """A computation of one parameter, a tuple unless there is one value; it gives a tuple unless it gives one value.

    `extra` are values that it hands on: they are the last ones of its result.
    """
    inner = Scope(scope.program, name, scope)
    inner.values = dict.fromkeys(arguments)
    if len(shapes) == 1:
        inner.values[arguments[0]] = inner.builder.parameter(0, shapes[0], "arg")
    else:
        whole = inner.builder.parameter(0, tuple_shape(shapes), "arg_tuple")
        for index, argument in enumerate(arguments):
            inner.values[argument] = inner.builder.gte(whole, index)
    results = scope.program.body(inner, block)
    results = [*results, *(inner.get(value) for value in extra)]
    inner.computation.root = results[0] if len(results) == 1 else inner.builder.tuple(results)
    scope.program.keep(inner.computation)
    return inner.computation


def while_(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    condition, body = scope.region(operation, 0), scope.region(operation, 1)
    initial = scope.operands(operation)
    count = len(initial)
    for block in (condition, body):
        if len(block.arguments) != count:
            raise Refusal(f"a region of the loop has {len(block.arguments)} arguments, not {count}")
        for argument, one in zip(block.arguments, initial, strict=True):
            if not fits(stored(argument.type), one.shape):
                raise Refusal(f"a region of the loop takes {stored(argument.type)}, the loop {one.shape}")
    extra = captured(scope, (condition, body))
    initial += [scope.get(value) for value in extra]
    shapes = [one.shape for one in initial]
    made_body = _computation(scope, "while_body", body, [*body.arguments, *extra], shapes, extra)
    made_condition = _computation(scope, "while_condition", condition, [*condition.arguments, *extra], shapes)
    start = initial[0] if len(initial) == 1 else scope.builder.tuple(initial)
    attributes = {"condition": made_condition, "body": made_body}
    made = scope.builder.add("while", start.shape, (start,), attributes)
    return [made] if len(initial) == 1 else scope.several(made, len(initial))[:count]


def _branches(scope: Scope, operation: Operation, index: Instruction) -> Sequence[Instruction]:
    blocks = [scope.region(operation, n) for n in range(len(operation.regions))]
    if not blocks:
        raise Refusal(f"{operation.name} has no branches")
    operands: list[Instruction] = []
    made: list[Computation] = []
    for number_, block in enumerate(blocks):
        if block.arguments:
            raise Refusal("the branches of a conditional have no arguments")
        values = captured(scope, (block,))
        given = [scope.get(value) for value in values]
        operands.append(given[0] if len(given) == 1 else scope.builder.tuple(given))
        made.append(_computation(scope, f"branch_{number_}", block, values, [one.shape for one in given]))
    attributes: dict[str, Any] = {"branch_computations": tuple(made)}
    if index.shape.element_type == "pred":
        attributes = {"true_computation": made[0], "false_computation": made[1]}
    shape = made[0].root.shape
    together = scope.builder.add("conditional", shape, (index, *operands), attributes)
    count = len(operation.results)
    return [together] if count == 1 else scope.several(together, count)


def if_(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    if len(operation.regions) != 2:
        raise Refusal("stablehlo.if has two regions")
    return _branches(scope, operation, _chooser(scope, operation, "pred"))


def case(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return _branches(scope, operation, _chooser(scope, operation, "s32"))


def _chooser(scope: Scope, operation: Operation, kind: str) -> Instruction:
    """What says which branch runs: HLO would take either kind, and count branches from the other end."""
    (index,) = scope.operands(operation)
    if index.shape.element_type != kind or index.shape.rank:
        raise Refusal(f"{operation.name} chooses by {kind}[], not {index.shape}")
    return index


def call(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return called(scope, text_of(operation, "callee"), scope.operands(operation), len(operation.results), {})


def called(
    scope: Scope, name: str, operands: Sequence[Instruction], count: int, attributes: dict[str, Any]
) -> Sequence[Instruction]:
    """A call of a function of the module; `count` is the number of results."""
    computation = scope.program.function(name, [one.shape for one in operands], known=_sizes(scope, operands))
    told = _told(scope, computation, count)
    if told is not None:
        return told
    values = {"to_apply": computation} | attributes
    made = scope.builder.add("call", computation.root.shape, operands, values)
    if count == 1 and not (made.shape.is_tuple and scope.program.result_count(name) != 1):
        return [made]
    return scope.several(made, count)


def _sizes(scope: Scope, operands: Sequence[Instruction]) -> list[Literal | None]:
    """The operands that may say sizes, where these are left open: single integers that are known."""
    if not scope.program.has_open_sizes:
        return []
    return [
        one.literal if one.opcode == "constant" and not one.shape.rank and may_say_sizes(one.shape) else None
        for one in operands
    ]


def _told(scope: Scope, computation: Computation, count: int) -> list[Instruction] | None:
    """The results of a function as constants, where all of them are known sizes and no call is needed; else None."""
    if not scope.program.has_open_sizes or not count:
        return None
    root = computation.root
    results = [root] if root.opcode != "tuple" else list(root.operands)
    if len(results) != count or any(
        one.opcode != "constant" or not may_say_sizes(one.shape) for one in results
    ):
        return None
    return [scope.builder.constant(one.literal) for one in results]


def composite(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """A call that says what it stands for, as XLA writes it."""
    attributes = operation.attributes.get("composite_attributes") or {}
    frontend = {
        "composite.attributes": attribute_text(attributes),
        "composite.name": text_of(operation, "name"),
        "composite.version": str(number(operation, "version", 0)),
    }
    decomposition = text_of(operation, "decomposition")
    values = {"is_composite": True, "frontend_attributes": frontend}
    return called(scope, decomposition, scope.operands(operation), len(operation.results), values)


