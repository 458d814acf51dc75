"""Custom calls, checks of results, and the operations that say how arrays are spread over devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Aliasing, Instruction, Layout, Literal, Shape, Verbatim, tuple_shape
from hlotool.text.stablehlo.dynamic_calls import DYNAMIC_CALLS, sized_results
from hlotool.text.stablehlo.dynamism import folded
from hlotool.text.stablehlo.elementwise import result
from hlotool.text.stablehlo.scope import (
    Refusal,
    Scope,
    attribute,
    flag,
    integers,
    known_shape,
    number,
    numbers_of,
    stored,
    text_of,
    unsupported,
)
from hlotool.text.stablehlo.sharding import tiles_of
from hlotool.text.stablehlo.tree import Mark, Number, Operation, Symbol, attribute_text

__all__ = ["custom_call"]

_VERSIONS = {
    0: None, 1: None, 2: "API_VERSION_STATUS_RETURNING", 3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}  # fmt: skip


def custom_call(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    target = text_of(operation, "call_target_name")
    if target.startswith("mhlo."):
        name = f"chlo.{target[5:]}".replace("chlo.topk", "chlo.top_k")
        if scope.program.knows(name):
            given = operation.attributes.get("mhlo.attributes")
            inner = Operation(
                operation.name, operation.operands, dict(given) if isinstance(given, dict) else {}, [],
                operation.start, operation.end,
            )  # fmt: skip
            inner.results = operation.results
            results: Sequence[Instruction] = scope.program.converted(scope, name, inner)
            return results
    if target == "shape_assertion":
        return _assertion(scope, operation)
    if target in DYNAMIC_CALLS:
        return DYNAMIC_CALLS[target](scope, operation)
    shapes = [result(operation, n) for n in range(len(operation.results))]
    shapes, operands = sized_results(scope, operation, shapes, scope.operands(operation))
    if not all(map(known_shape, shapes)):
        raise unsupported(f"custom call '{target}' has a result of unknown size")
    values: dict[str, Any] = {"custom_call_target": target}
    _layouts(operation, operands, shapes, values)
    if flag(operation, "has_side_effect"):
        values["custom_call_has_side_effect"] = True
    called = operation.attributes.get("called_computations")
    if isinstance(called, list) and called:
        names = [one.name for one in called if isinstance(one, Symbol)]
        values["called_computations"] = tuple(scope.program.function(name, None) for name in names)
    aliases = operation.attributes.get("output_operand_aliases")
    if isinstance(aliases, list) and aliases:
        values["output_to_operand_aliasing"] = tuple(map(_alias, aliases))
    version = _VERSIONS.get(number(operation, "api_version", 1))
    if version is not None:
        values["api_version"] = version
    config = operation.attributes.get("backend_config", operation.attributes.get("mhlo.backend_config"))
    if config:
        values["backend_config"] = config if isinstance(config, str) else attribute_text(config)
    shape = shapes[0] if len(shapes) == 1 else tuple_shape(shapes)
    made = scope.builder.add("custom-call", shape, operands, values)
    return [made] if len(shapes) == 1 else scope.several(made, len(shapes))


def _layouts(operation: Operation, operands: list[Instruction], shapes: list[Shape], values: dict[str, Any]) -> None:
    """Layouts of operands and results, which are given together."""
    given = operation.attributes.get("operand_layouts")
    if isinstance(given, list):
        sizes = integers(operation, "indices_of_shape_operands", ())
        given = [one for n, one in enumerate(given) if n not in sizes]
        if len(given) != len(operands):
            raise Refusal(f"{len(given)} operand_layouts for {len(operands)} operands", code="HLO0113")
        values["operand_layout_constraints"] = tuple(
            _laid_out(one.shape, layout) for one, layout in zip(operands, given, strict=True)
        )
    made = operation.attributes.get("result_layouts")
    if isinstance(made, list):
        alone = shapes[0] if len(shapes) == 1 and shapes[0].is_tuple else None  # the layouts are those of its elements
        parts = list(alone.elements) if alone is not None else shapes
        if len(made) != len(parts):
            raise Refusal(f"{len(made)} result_layouts for {len(parts)} results", code="HLO0113")
        parts = [_laid_out(shape, layout) for shape, layout in zip(parts, made, strict=True)]
        shapes[:] = parts if alone is None else [tuple_shape(parts)]


def _laid_out(shape: Shape, layout: Any) -> Shape:
    if not shape.is_array:
        return shape
    order = numbers_of(layout, "layouts")
    if sorted(order) != list(range(shape.rank)):
        raise Refusal(f"the layout {list(order)} does not fit {shape}", code="HLO0113")
    return shape.with_layout(Layout(order))


def _alias(mark: Any) -> Aliasing:
    fields = mark.value if isinstance(mark, Mark) else None
    if not isinstance(fields, dict):
        raise Refusal("an alias is #stablehlo.output_operand_alias<...>")
    operand = fields.get("operand_index")
    return Aliasing(
        numbers_of(fields.get("output_tuple_indices", ()), "output_tuple_indices"),
        operand.value if isinstance(operand, Number) and isinstance(operand.value, int) else 0,
        numbers_of(fields.get("operand_tuple_indices", ()), "operand_tuple_indices"),
    )


def _assertion(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """What JAX writes for what it takes for granted about sizes."""
    values = folded(scope.operands(operation)[0])
    if values is None:
        raise unsupported(
            "shape_assertion of sizes that are only known when the program runs",
            "give the shapes of the arguments: hlotool import --argument",
        )
    if not values.all():
        raise Refusal(f"the shapes are not as the program wants them: {text_of(operation, 'error_message', '')}")
    return []


# ---- checks, which the tests of StableHLO make of results


def check(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """A custom call that fails where the values are not as they should be."""
    kind = operation.name.partition(".")[2].removesuffix("_const")
    kind = {"eq": "expect_eq", "almost_eq": "expect_almost_eq"}.get(kind, kind)
    operands = scope.operands(operation)
    value = operation.attributes.get("value", operation.attributes.get("expected"))
    if isinstance(value, Literal):
        operands.append(scope.builder.constant(value))
    if len(operands) != 2:
        raise Refusal(f"{operation.name} compares two values")
    values: dict[str, Any] = {"custom_call_target": f"check.{kind}", "custom_call_has_side_effect": True}
    limits = {
        name: operation.attributes[name]
        for name in ("max_ulp_difference", "min_ulp_difference", "tolerance")
        if name in operation.attributes
    }
    if limits:
        values["backend_config"] = attribute_text(limits)
    scope.builder.add("custom-call", tuple_shape(()), operands, values)
    return []


def check_file(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    raise unsupported(f"{operation.name} compares with a file of the StableHLO interpreter")


def same(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """What prints or keeps a value changes nothing."""
    return scope.operands(operation)


# ---- sdy


def sharding_constraint(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """The custom call ``Sharding``."""
    operands = scope.operands(operation)
    sharding = tiles_of(attribute(operation, "sharding"), scope.program.meshes)
    values = {"custom_call_target": "Sharding", "sharding": Verbatim(sharding)}
    return [scope.builder.add("custom-call", operands[0].shape, operands, values)]


def sharding_group(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return []


def manual_computation(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """A region that is written for each device: a call between the custom calls that cut and join."""
    block = scope.region(operation)
    operands = scope.operands(operation)
    rows = [_rows(operation, "in_shardings", len(operands)), _rows(operation, "out_shardings", len(operation.results))]
    inside: list[Instruction] = []
    for source, argument, row in zip(operands, block.arguments, rows[0], strict=True):
        inside.append(_cut(scope, source, stored(argument.type), tiles_of(row, scope.program.meshes), True))
    computation = scope.program.computation(scope, "manual_computation_body", block)
    made = scope.builder.add("call", computation.root.shape, inside, {"to_apply": computation})
    count = len(operation.results)
    parts = [made] if count == 1 else scope.several(made, count)
    return [
        _cut(scope, part, result(operation, n), tiles_of(rows[1][n], scope.program.meshes), False)
        for n, part in enumerate(parts)
    ]


def _rows(operation: Operation, name: str, count: int) -> list[str]:
    """``[<@mesh, [{"x"}]>, ...]``, one a value."""
    import re

    mark = attribute(operation, name)
    text = str(mark.value) if isinstance(mark, Mark) else ""
    rows = re.findall(r"<([^<>]*(?:<[^<>]*>[^<>]*)*)>", text)
    if len(rows) != count:
        raise Refusal(f"{len(rows)} {name} for {count} values", code="HLO0137")
    return rows


def _cut(scope: Scope, source: Instruction, shape: Shape, sharding: str, inwards: bool) -> Instruction:
    """From the whole array to the part of a device, or back."""
    manual = "{manual}"
    first, second = (sharding, manual) if inwards else (manual, sharding)
    values = {"custom_call_target": "Sharding", "sharding": Verbatim(first)}
    marked = scope.builder.add("custom-call", source.shape, (source,), values)
    target = "SPMDFullToShardShape" if inwards else "SPMDShardToFullShape"
    values = {"custom_call_target": target, "sharding": Verbatim(second)}
    return scope.builder.add("custom-call", shape, (marked,), values)
