"""Building instructions with inferred shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hlotool.ir.attributes import Metadata, PaddingDimension, SliceDimension
from hlotool.ir.literal import Literal, literal
from hlotool.ir.module import Computation, Instruction
from hlotool.ir.shape import Shape, array, scalar
from hlotool.ir.shape_inference import infer
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["Builder", "binary_computation"]


class Builder:
    """Adds instructions to `computation`, before `before` (at the end when None).

    Origins and metadata of new instructions are those of `like`, the instruction that they replace or serve.
    Methods raise ShapeError where operands and attributes do not fit together.
    """

    __slots__ = ("before", "computation", "like")

    def __init__(
        self, computation: Computation, before: Instruction | None = None, like: Instruction | None = None
    ) -> None:
        self.computation = computation
        self.before = before
        self.like = like

    def add(
        self,
        opcode: str,
        shape: Shape | None,
        operands: Iterable[Instruction] = (),
        attributes: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> Instruction:
        """Any instruction; the shape is inferred when None."""
        sources = list(operands)
        values = dict(attributes or {})
        if shape is None:
            shape = infer(opcode, [o.shape for o in sources], values)
        metadata: Metadata | None = None
        origins: tuple[str, ...] = ()
        location = None
        if self.like is not None:
            metadata, location = self.like.metadata, self.like.location
            origins = self.like.origins or ((self.like.name,) if self.like.name else ())
        return self.put(Instruction(opcode, shape, sources, values, name, metadata, location, origins))

    def put(self, instruction: Instruction) -> Instruction:
        """A new instruction in its place."""
        return self.computation.add(instruction, self.before)

    # ---- leaves

    def parameter(self, number: int, shape: Shape, name: str = "") -> Instruction:
        return self.add("parameter", shape, (), {"parameter_number": number}, name)

    def constant(self, value: Any, element_type: str | None = None) -> Instruction:
        """A constant from a Literal, a NumPy array, or a Python number with `element_type`."""
        own = value if isinstance(value, Literal) else literal(value, element_type)
        return self.add("constant", own.shape, (), {"literal": own})

    def scalar_constant(self, value: Any, element_type: str) -> Instruction:
        """A Python number as a constant; integers wrap."""
        row = ELEMENT_TYPES[element_type]
        if row.bits < 8 and isinstance(value, int) and row.is_integer:  # whose storage holds more than they do
            below = 1 << (row.bits - 1) if row.kind == "signed" else 0
            value = (value + below) % (1 << row.bits) - below
        return self.constant(value, element_type)

    def splat(self, value: Any, shape: Shape) -> Instruction:
        """`value` (a Python number) in every element of `shape`: a broadcast scalar constant."""
        single = self.scalar_constant(value, shape.element_type)
        return single if not shape.dimensions else self.broadcast(single, (), shape)

    def iota(self, shape: Shape, dimension: int = 0) -> Instruction:
        return self.add("iota", shape, (), {"iota_dimension": dimension})

    # ---- elementwise

    def unary(self, opcode: str, a: Instruction) -> Instruction:
        return self.add(opcode, None, (a,))

    def binary(self, opcode: str, a: Instruction, b: Instruction) -> Instruction:
        return self.add(opcode, None, (a, b))

    def compare(self, a: Instruction, b: Instruction, direction: str, kind: str | None = None) -> Instruction:
        """`direction` is EQ NE GE GT LE LT; `kind` FLOAT TOTALORDER SIGNED UNSIGNED (None: by element type)."""
        return self.add("compare", None, (a, b), {"direction": direction} | ({"type": kind} if kind else {}))

    def select(self, predicate: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
        return self.add("select", None, (predicate, on_true, on_false))

    def clamp(self, low: Instruction, value: Instruction, high: Instruction) -> Instruction:
        return self.add("clamp", None, (low, value, high))

    def convert(self, a: Instruction, element_type: str) -> Instruction:
        return self.add("convert", array(element_type, a.shape.dimensions), (a,))

    def bitcast_convert(self, a: Instruction, shape: Shape) -> Instruction:
        return self.add("bitcast-convert", shape, (a,))

    # ---- data movement

    def broadcast(self, a: Instruction, dimensions: Sequence[int], shape: Shape | Sequence[int]) -> Instruction:
        """Operand dimension i becomes result dimension ``dimensions[i]``."""
        return self.add("broadcast", self._shape(a, shape), (a,), {"dimensions": tuple(dimensions)})

    def reshape(self, a: Instruction, shape: Shape | Sequence[int]) -> Instruction:
        return self.add("reshape", self._shape(a, shape), (a,))

    def bitcast(self, a: Instruction, shape: Shape) -> Instruction:
        return self.add("bitcast", shape, (a,))

    def transpose(self, a: Instruction, order: Sequence[int]) -> Instruction:
        return self.add("transpose", None, (a,), {"dimensions": tuple(order)})

    def reverse(self, a: Instruction, dimensions: Sequence[int]) -> Instruction:
        return self.add("reverse", None, (a,), {"dimensions": tuple(dimensions)})

    def concatenate(self, operands: Iterable[Instruction], dimension: int) -> Instruction:
        return self.add("concatenate", None, operands, {"dimensions": (dimension,)})

    def slice(
        self, a: Instruction, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
    ) -> Instruction:
        steps = strides or (1,) * len(starts)
        ranges = tuple(SliceDimension(*one) for one in zip(starts, limits, steps, strict=True))
        return self.add("slice", None, (a,), {"slice": ranges})

    def pad(self, a: Instruction, value: Instruction, padding: Iterable[Sequence[int]]) -> Instruction:
        """`padding` has (low, high) or (low, high, interior) per dimension."""
        return self.add("pad", None, (a, value), {"padding": tuple(PaddingDimension(*one) for one in padding)})

    def dynamic_slice(self, a: Instruction, starts: Iterable[Instruction], sizes: Sequence[int]) -> Instruction:
        return self.add("dynamic-slice", None, (a, *starts), {"dynamic_slice_sizes": tuple(sizes)})

    def dynamic_update_slice(self, a: Instruction, update: Instruction, starts: Iterable[Instruction]) -> Instruction:
        return self.add("dynamic-update-slice", None, (a, update, *starts))

    def gather(self, a: Instruction, indices: Instruction, attributes: Mapping[str, Any]) -> Instruction:
        return self.add("gather", None, (a, indices), attributes)

    def copy(self, a: Instruction) -> Instruction:
        return self.add("copy", a.shape, (a,))

    def tuple(self, elements: Iterable[Instruction]) -> Instruction:
        return self.add("tuple", None, elements)

    def gte(self, a: Instruction, index: int) -> Instruction:
        return self.add("get-tuple-element", None, (a,), {"index": index})

    # ---- reductions, contractions, control

    def reduce(
        self,
        inputs: Instruction | Sequence[Instruction],
        initial: Instruction | Sequence[Instruction],
        dimensions: Sequence[int],
        computation: Computation,
    ) -> Instruction:
        """A reduction of one array, or of several at once (the result is a tuple then)."""
        arrays = [inputs] if isinstance(inputs, Instruction) else list(inputs)
        values = [initial] if isinstance(initial, Instruction) else list(initial)
        attributes = {"dimensions": tuple(dimensions), "to_apply": computation}
        return self.add("reduce", None, (*arrays, *values), attributes)

    def dot(
        self,
        a: Instruction,
        b: Instruction,
        contracting: Sequence[Sequence[int]],
        batch: Sequence[Sequence[int]] = ((), ()),
        element_type: str | None = None,
    ) -> Instruction:
        """A general dot; `contracting` and `batch` are dimensions of (a, b).  `element_type` is the result's."""
        attributes: dict[str, Any] = {}
        if batch[0]:
            attributes["lhs_batch_dims"], attributes["rhs_batch_dims"] = tuple(batch[0]), tuple(batch[1])
        attributes["lhs_contracting_dims"] = tuple(contracting[0])
        attributes["rhs_contracting_dims"] = tuple(contracting[1])
        shape = infer("dot", (a.shape, b.shape), attributes)
        return self.add("dot", shape.with_type(element_type or shape.element_type), (a, b), attributes)

    def call(self, computation: Computation, operands: Iterable[Instruction]) -> Instruction:
        return self.add("call", None, operands, {"to_apply": computation})

    def while_(self, initial: Instruction, condition: Computation, body: Computation) -> Instruction:
        return self.add("while", None, (initial,), {"condition": condition, "body": body})

    def fusion(self, computation: Computation, operands: Iterable[Instruction], kind: str = "kLoop") -> Instruction:
        return self.add("fusion", computation.root.shape, operands, {"kind": kind, "calls": computation})

    def _shape(self, a: Instruction, shape: Shape | Sequence[int]) -> Shape:
        return shape if isinstance(shape, Shape) else array(a.shape.element_type, shape)


def binary_computation(opcode: str, element_type: str, name: str = "") -> Computation:
    """A detached computation of two scalars: what reduce, scatter and all-reduce apply."""
    computation = Computation(name or f"{opcode}_{element_type}")
    builder = Builder(computation)
    lhs = builder.parameter(0, scalar(element_type), "lhs")
    rhs = builder.parameter(1, scalar(element_type), "rhs")
    computation.root = builder.add(opcode, None, (lhs, rhs), name="result")
    return computation
