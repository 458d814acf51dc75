"""Operations as MLIR writes them: names, operands, attributes, regions, types.

Types are shapes of HLO; those that have no shape are here.  Attribute values are Python's: bool, str, list, dict, and
`Number` (with the type that was written), tuples of ints for ``array<...>``, `Literal` for ``dense<...>``, shapes for
types, and the records below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hlotool.ir import Literal, Metadata, Shape
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Attributes", "Block", "FunctionType", "Mark", "Number", "Operation", "Quantisation", "QuantisedShape", "Region",
    "Symbol", "Type", "Value", "attribute_text", "type_text",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What the integers of a quantised type mean: ``(stored - zero_point) * scale``, in floats of type `expressed`.

    Scales and zero points are one each, or one for each index of the dimension `axis`.  Stored values are between `low`
    and `high`.
    """

    expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    low: int
    high: int
    axis: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class QuantisedShape(Shape):
    """The shape of the stored integers of a quantised tensor, and what they mean."""

    quantisation: Quantisation | None = None


@dataclass(frozen=True, slots=True)
class FunctionType:
    """``(operands) -> results``."""

    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]


Type: TypeAlias = Shape


@dataclass(frozen=True, slots=True)
class Number:
    """A number as an attribute, and the type that was written after it (``i64`` and ``f64`` where none was)."""

    value: int | float
    type: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """``@name``; of nested references the whole path, with ``::``."""

    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An attribute of a dialect: ``#stablehlo<precision HIGH>`` (`kind` ``precision``, `value` ``HIGH``), or
    ``#stablehlo.dot<a = [0]>`` (`kind` ``dot``, `value` a dictionary), with its text."""

    dialect: str
    kind: str
    value: Any
    text: str


Attributes: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int]


class Value:
    """A result of an operation or an argument of a block.  `type` is None where its definition could not be read."""

    __slots__ = ("index", "name", "owner", "type")

    def __init__(self, type_: Type | None, name: str, owner: Operation | Block | None, index: int) -> None:
        self.type = type_
        self.name = name
        self.owner = owner
        self.index = index


class Operation:
    """One operation; `start` and `end` are its place in the text, `metadata` reads its location when asked."""

    __slots__ = ("attributes", "end", "metadata", "name", "operands", "regions", "results", "start")

    def __init__(
        self,
        name: str,
        operands: list[Value],
        attributes: Attributes,
        regions: list[Region],
        start: int,
        end: int,
    ) -> None:
        self.name = name
        self.operands = operands
        self.attributes = attributes
        self.regions = regions
        self.start = start
        self.end = end
        self.results: list[Value] = []
        self.metadata: Callable[[], Metadata | None] | None = None


class Block:
    """Arguments and operations; `broken` where operations of it could not be read."""

    __slots__ = ("arguments", "broken", "operations")

    def __init__(self) -> None:
        self.arguments: list[Value] = []
        self.operations: list[Operation] = []
        self.broken = False


class Region:
    """Blocks; HLO has a counterpart of regions with one."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    @property
    def block(self) -> Block:
        """The only block."""
        return self.blocks[0]


# ---- as MLIR writes them

_TYPES = {"pred": "i1", "c64": "complex<f32>", "c128": "complex<f64>", "bf16": "bf16", "token": "!stablehlo.token"}
_FLOATS = {
    "f4e2m1fn": "f4E2M1FN", "f8e3m4": "f8E3M4", "f8e4m3": "f8E4M3", "f8e4m3fn": "f8E4M3FN",
    "f8e4m3b11fnuz": "f8E4M3B11FNUZ", "f8e4m3fnuz": "f8E4M3FNUZ", "f8e5m2": "f8E5M2", "f8e5m2fnuz": "f8E5M2FNUZ",
    "f8e8m0fnu": "f8E8M0FNU",
}  # fmt: skip


def element_text(element_type: str) -> str:
    """An element type of HLO in MLIR: ``i32``, ``ui8``, ``complex<f32>``."""
    if element_type in _TYPES:
        return _TYPES[element_type]
    if element_type[0] == "s" and element_type[1:].isdigit():
        return f"i{element_type[1:]}"
    if element_type[0] == "u":
        return f"ui{element_type[1:]}"
    return _FLOATS.get(element_type, element_type)


def type_text(shape: Shape) -> str:
    """A shape as a type: ``tensor<2x?xf32, #stablehlo.bounds<?, 4>>``, ``tuple<...>``, ``!stablehlo.token``."""
    if shape.is_tuple:
        return f"tuple<{', '.join(map(type_text, shape.elements))}>"
    if shape.is_token:
        return "!stablehlo.token"
    dynamic = shape.dynamic or (False,) * shape.rank
    sizes = "".join(
        "?x" if flag or size < 0 else f"{size}x" for size, flag in zip(shape.dimensions, dynamic, strict=True)
    )
    bounds = ""
    if any(flag and size >= 0 for size, flag in zip(shape.dimensions, dynamic, strict=True)):
        rows = ", ".join(str(size) if flag else "?" for size, flag in zip(shape.dimensions, dynamic, strict=True))
        bounds = f", #stablehlo.bounds<{rows}>"
    return f"tensor<{sizes}{element_text(shape.element_type)}{bounds}>"


def attribute_text(value: Any) -> str:
    """An attribute as MLIR writes it; dictionaries have their keys sorted."""
    from hlotool.text.lexer import escape

    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{escape(value)}"'
        case Number(number, type_):
            shown = f"{number:.6e}" if isinstance(number, float) else str(number)
            if isinstance(number, float) and float(shown) != number:
                shown = repr(number)
            return f"{shown} : {type_}"
        case list():
            return f"[{', '.join(map(attribute_text, value))}]"
        case tuple():
            return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
        case dict():
            rows = (k if v is None else f"{k} = {attribute_text(v)}" for k, v in sorted(value.items()))
            return f"{{{', '.join(rows)}}}"
        case Symbol(name):
            return f"@{name}"
        case Mark():
            return value.text
        case Shape():
            return type_text(value)
        case Literal():
            from hlotool.text.stablehlo.dense import dense_text

            return f"{dense_text(value)} : {type_text(value.shape)}"
        case _:
            return str(value)
