"""A computation that is being made of operations, and how their attributes are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from hlotool.ir import ELEMENT_TYPES, UNBOUNDED, Computation, Instruction, Literal, Shape, UnsupportedError, Verbatim
from hlotool.ir.builder import Builder
from hlotool.ir.shape import token
from hlotool.ir.shape_inference import ShapeError, infer
from hlotool.text.stablehlo.tree import Block, Mark, Number, Operation, QuantisedShape, Region, Symbol, Value

Program: TypeAlias = Any
"""`hlotool.text.stablehlo.convert.Program`, which imports this file."""

__all__ = [
    "WHOLE", "Refusal", "Scope", "attribute", "dictionary", "fits", "flag", "integers", "known_shape", "may_say_sizes",
    "number", "numbers_of", "real", "stored", "text_of", "word",
]  # fmt: skip


WHOLE = ("pred", "signed", "unsigned")
"""The kinds of element types that hold whole numbers."""


class Refusal(Exception):  # noqa: N818 - a control-flow signal that never leaves this package
    """An operation that cannot be made HLO: wrong, or (`unsupported`) right but without a counterpart."""

    def __init__(
        self, message: str, hint: str | None = None, code: str = "HLO0200", *, unsupported: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = UnsupportedError.code if unsupported else code


def unsupported(message: str, hint: str | None = None) -> Refusal:
    """A refusal of what is right, but has no counterpart."""
    return Refusal(message, hint, unsupported=True)


class Unknown(Exception):  # noqa: N818 - a control-flow signal that never leaves this package
    """An operation reads a value that could not be read or made; that has been said."""


class Scope:
    """One computation: `values` are the instructions of values, None where there is none.

    `outer` is the scope around a region: constants of it are made again inside, anything else is to be handed in.
    """

    __slots__ = ("builder", "outer", "plain", "program", "sizes", "values")

    def __init__(self, program: Program, name: str, outer: Scope | None = None) -> None:
        self.program = program
        self.builder = Builder(Computation(name))
        self.plain = Instruction("parameter", token(), (), {"parameter_number": 0})
        self.builder.like = self.plain
        self.values: dict[Value, Instruction | None] = {}
        self.sizes: list[Instruction] = []  # operands that nothing reads, as they said sizes
        self.outer = outer

    @property
    def computation(self) -> Computation:
        return self.builder.computation

    def get(self, value: Value) -> Instruction:
        """The instruction of a value; Unknown where there is none."""
        found = self.values.get(value)
        if found is not None:
            return found
        if value in self.values or value.type is None:
            raise Unknown
        scope = self.outer
        while scope is not None:
            if value in scope.values:
                outside = scope.values[value]
                if outside is None:
                    raise Unknown
                inside = self._again(outside)
                if inside is None:
                    message = f"the region uses %{value.name} of the function around it"
                    hint = "only constants can be used there: the computations of HLO see nothing but their parameters"
                    raise unsupported(message, hint)
                self.values[value] = inside
                return inside
            scope = scope.outer
        raise Unknown

    def _again(self, outside: Instruction) -> Instruction | None:
        """A constant of another computation, in this one."""
        if outside.opcode in ("constant", "iota"):
            return self.builder.add(outside.opcode, outside.shape, (), outside.attributes)
        if outside.opcode in ("broadcast", "reshape", "convert", "transpose", "slice"):
            source = self._again(outside.operands[0])
            return None if source is None else self.builder.add(
                outside.opcode, outside.shape, (source,), outside.attributes
            )
        return None

    def operands(self, operation: Operation) -> list[Instruction]:
        """The instructions of all operands."""
        return [self.get(value) for value in operation.operands]

    def add(
        self,
        opcode: str,
        shape: Shape | None,
        operands: Iterable[Instruction] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> Instruction:
        """An instruction; a shape with dimensions of unknown size is found from the operands."""
        sources = list(operands)
        if shape is not None and not known_shape(shape):
            try:
                found = infer(opcode, [one.shape for one in sources], dict(attributes or {}))
            except ShapeError:
                if not any(not known_shape(one.shape) for one in sources):
                    raise
            else:
                chosen = opcode in ("dot", "ragged-dot", "convolution")  # programs say what these add up in
                shape = found.with_type(shape.element_type) if chosen else found
        return self.builder.add(opcode, shape, sources, attributes)

    def several(self, together: Instruction, count: int) -> list[Instruction]:
        """The elements of a tuple."""
        return [self.builder.gte(together, number) for number in range(count)]

    def spread(
        self, opcode: str, shapes: Sequence[Shape], operands: Iterable[Instruction], attributes: Mapping[str, Any]
    ) -> list[Instruction]:
        """An instruction with a result for each shape: a tuple where there are several."""
        if len(shapes) == 1:
            return [self.add(opcode, shapes[0], operands, attributes)]
        together = self.add(opcode, Shape("tuple", elements=tuple(shapes)), operands, attributes)
        return self.several(together, len(shapes))

    def region(self, operation: Operation, number: int = 0) -> Block:
        """The only block of a region."""
        if number >= len(operation.regions):
            raise Refusal(f"{operation.name} has {len(operation.regions)} regions, where one more is needed")
        region: Region = operation.regions[number]
        if len(region.blocks) != 1:
            raise unsupported(f"{operation.name} has a region of {len(region.blocks)} blocks, HLO one")
        return region.block

    def applied(self, operation: Operation, number: int = 0) -> Computation:
        """The computation of a region whose arguments are the parameters."""
        block = self.region(operation, number)
        name = operation.name.partition(".")[2]
        found: Computation = self.program.computation(self, f"{name}_region", block)
        return found


# ---- shapes


def known_shape(shape: Shape) -> bool:
    """Whether all dimensions have a size or a bound."""
    return all(map(known_shape, shape.elements)) if shape.elements else UNBOUNDED not in shape.dimensions


def stored(shape: Shape | None) -> Shape:
    """The shape of what is in memory."""
    if shape is None:
        raise Unknown
    if isinstance(shape, QuantisedShape):
        return Shape(shape.element_type, shape.dimensions, shape.layout, (), shape.dynamic)
    if shape.elements:
        return Shape("tuple", elements=tuple(map(stored, shape.elements)))
    return shape


def may_say_sizes(shape: Shape) -> bool:
    """Whether a value is of integers or booleans, which sizes are computed with."""
    return shape.is_array and ELEMENT_TYPES[shape.element_type].kind in WHOLE


def fits(written: Shape, made: Shape) -> bool:
    """Whether a value is of the written type, as far as that says sizes."""
    if made.compatible(written):
        return True
    if written.is_tuple and made.is_tuple:
        return len(written.elements) == len(made.elements) and all(map(fits, written.elements, made.elements))
    return (
        made.is_array
        and written.is_array
        and made.element_type == written.element_type
        and made.rank == written.rank
        and all(
            a == b or flag or b < 0 or a < 0
            for a, b, flag in zip(
                made.dimensions, written.dimensions, written.dynamic or (False,) * written.rank, strict=True
            )
        )
    )


# ---- attributes


def attribute(operation: Operation, name: str) -> Any:
    """An attribute that must be there."""
    value = operation.attributes.get(name)
    if value is None:
        raise Refusal(f"{operation.name} lacks the attribute '{name}'", code="HLO0135")
    return value


def integers(operation: Operation, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """A list of integers, in any of the forms that it can have."""
    value = operation.attributes.get(name)
    if value is None:
        if default is None:
            raise Refusal(f"{operation.name} lacks the attribute '{name}'", code="HLO0135")
        return default
    return numbers_of(value, name)


def numbers_of(value: Any, name: str) -> tuple[int, ...]:
    """Integers of an attribute's value."""
    if isinstance(value, Literal) and value.array is not None:
        return tuple(int(one) for one in value.array.reshape(-1))
    if isinstance(value, tuple):
        return tuple(int(one) for one in value)
    if isinstance(value, list) and all(isinstance(one, (Number, bool)) for one in value):
        return tuple(int(one.value if isinstance(one, Number) else one) for one in value)
    raise Refusal(f"'{name}' is a list of integers", code="HLO0130")


def number(operation: Operation, name: str, default: int | None = None) -> int:
    """An integer."""
    value = operation.attributes.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Number) and isinstance(value.value, int):
        return value.value
    if value is None:
        raise Refusal(f"{operation.name} lacks the attribute '{name}'", code="HLO0135")
    raise Refusal(f"'{name}' is an integer", code="HLO0130")


def real(operation: Operation, name: str) -> float:
    """A float."""
    value = attribute(operation, name)
    if isinstance(value, Number):
        return float(value.value)
    raise Refusal(f"'{name}' is a number", code="HLO0130")


def flag(operation: Operation, name: str, default: bool = False) -> bool:
    """A truth value; an attribute without a value is true."""
    if name not in operation.attributes:
        return default
    value = operation.attributes[name]
    if value is None or isinstance(value, bool):
        return value is not False
    raise Refusal(f"'{name}' is true or false", code="HLO0130")


def word(operation: Operation, name: str, choices: Sequence[str], default: str | None = None) -> str:
    """One of some words, written alone or as ``#stablehlo<kind WORD>``."""
    value = operation.attributes.get(name)
    if value is None:
        if default is None:
            raise Refusal(f"{operation.name} lacks the attribute '{name}'", code="HLO0135")
        return default
    found = value.value if isinstance(value, Mark) else value
    if found not in choices:
        raise Refusal(f"'{name}' is one of {', '.join(choices)}", code="HLO0131")
    return str(found)


def text_of(operation: Operation, name: str, default: str | None = None) -> str:
    """A string, or the name of a symbol."""
    value = operation.attributes.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, str):
        return value
    if value is None:
        raise Refusal(f"{operation.name} lacks the attribute '{name}'", code="HLO0135")
    raise Refusal(f"'{name}' is a string", code="HLO0130")


def dictionary(operation: Operation, name: str) -> dict[str, Any]:
    """The fields of an attribute such as ``#stablehlo.gather<...>``."""
    value = attribute(operation, name)
    fields = value.value if isinstance(value, Mark) else value
    if not isinstance(fields, dict):
        raise Refusal(f"'{name}' has fields", code="HLO0130")
    return fields


def kept(operation: Operation) -> dict[str, Any]:
    """What any instruction may have: sharding, frontend attributes."""
    found: dict[str, Any] = {}
    frontend = operation.attributes.get("mhlo.frontend_attributes")
    if isinstance(frontend, dict):
        from hlotool.text.stablehlo.tree import attribute_text

        found["frontend_attributes"] = {
            key: value if isinstance(value, str) else attribute_text(value) for key, value in sorted(frontend.items())
        }
    sharding = operation.attributes.get("mhlo.sharding")
    if isinstance(sharding, str):
        found["sharding"] = Verbatim(sharding)
    return found
