"""A grammar of valid modules: every opcode with its attributes, in every form that the text has.

`random_module` draws a module that the verifier accepts.  The random source is any `random.Random`: hypothesis's
(``st.randoms``) in tests, so that failures shrink, or a seeded one for long runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzz.attributes import COMMON, NAMES, OPTIONAL, header, metadata, sharding, stack_frames
from fuzz.values import FLOATS, INTEGERS, NUMBERS, TYPES, any_shape, random_layout, random_literal
from hlotool.ir import (
    ELEMENT_TYPES,
    OPCODES,
    Computation,
    ConvDimensionNumbers,
    Instruction,
    Module,
    PaddingDimension,
    ReplicaGroups,
    Shape,
    SliceDimension,
    Verbatim,
    Window,
    WindowDimension,
    array,
    row_major,
    scalar,
    token,
    tuple_shape,
)
from hlotool.ir.attributes import Aliasing
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.pairs import channel_use
from hlotool.text.printer import print_shape

__all__ = ["MAKERS", "Generator", "random_module", "respell", "sugar"]


class Generator:
    """A module under construction.  `value` finds or makes operands, `add` makes instructions with odd details."""

    def __init__(self, rng: Random, name: str = "m") -> None:
        self.rng = rng
        self.module = Module(name)
        self.entry = Computation(self.module.unique_name("entry"))
        self.computation = self.entry
        self.builder = Builder(self.entry)
        self.names: set[str] = set()

    # ---- values

    def value(self, shape: Shape) -> Instruction:
        """An instruction of the shape (layouts aside): one that is there, or a new leaf."""
        found = [i for i in self.computation if i.shape.compatible(shape) and _is_value(i)]
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found)
        if self.computation is self.entry and self.rng.random() < 0.7:
            return self.parameter(shape)
        if shape.is_token:
            return self.builder.add("after-all", shape)
        if shape.is_tuple:
            return self.builder.add("tuple", shape, [self.value(e) for e in shape.elements])
        if not shape.is_array or not shape.is_static or shape.size > 64:
            return self.builder.add("custom-call", shape, (), {"custom_call_target": "source"})
        return self.builder.add("constant", shape, (), {"literal": random_literal(self.rng, shape)})

    def array(self, types: Sequence[str] = TYPES, rank: int | None = None, static: bool = True) -> Instruction:
        """An array of one of the types."""
        return self.value(any_shape(self.rng, types, rank, static))

    def parameter(self, shape: Shape) -> Instruction:
        number = len(self.computation.parameters)
        return self.finish(self.builder.parameter(number, shape))

    def scalar(self, kind: str) -> Instruction:
        return self.value(scalar(kind))

    # ---- instructions

    def add(
        self, opcode: str, operands: Sequence[Instruction], shape: Shape | None = None, **attributes: Any
    ) -> Instruction:
        """An instruction with the optional attributes of its opcode at random; the shape is inferred when None."""
        values = {name.rstrip("_"): value for name, value in attributes.items() if value is not None}
        for row in OPCODES[opcode].attributes:
            make = OPTIONAL.get(row.name) or OPTIONAL.get(f"{opcode} {row.name}")
            if row.name not in values and make is not None and self.rng.random() < 0.4:
                values[row.name] = make(self.rng, row, len(operands))
        if "channel_id" not in values or not values.get("replica_groups", ReplicaGroups(())).groups:
            values.pop("use_global_device_ids", None)  # which needs both
        made = self.builder.add(opcode, shape, operands, values)
        if opcode == "fusion" and not (operands and made.shape.compatible(operands[0].shape)):
            made.attributes.pop("output_to_operand_aliasing", None)
        return self.finish(made)

    def finish(self, instruction: Instruction) -> Instruction:
        """Give an instruction a name, a layout, and what any instruction can have."""
        rng = self.rng
        name = rng.choice(NAMES) + rng.choice(("", ".1", "_2", "-x", "..3"))
        if rng.random() < 0.3 and name not in self.names:
            instruction.name = name
            self.names.add(name)
        if rng.random() < 0.3 and instruction.opcode != "constant":
            instruction.shape = random_layout(rng, instruction.shape)
        if rng.random() < 0.08:
            instruction.attributes["sharding"] = sharding(rng, instruction.shape)
        for name, make in COMMON.items():
            if rng.random() < 0.08:
                instruction.attributes[name] = make(rng, instruction.shape)
        if rng.random() < 0.15:
            instruction.metadata = metadata(rng)
        before = instruction._previous
        if before is not None and rng.random() < 0.08:
            instruction.add_control_predecessor(before)
        return instruction

    # ---- computations

    def function(self, parameters: Sequence[Shape], body: Callable[[list[Instruction]], Instruction]) -> Computation:
        """A computation of the module; `body` makes its root from its parameters."""
        outer = self.computation, self.builder
        inner = Computation(self.module.unique_name(self.rng.choice(("fn", "region_0", "%".strip("%") + "body"))))
        self.computation, self.builder = inner, Builder(inner)
        inner.root = body([self.parameter(shape) for shape in parameters])
        self.computation, self.builder = outer
        if self.rng.random() < 0.1:
            inner.execution_thread = self.rng.choice(("main", "a b", ""))
        return self.module.add(inner)

    def reducer(self, kind: str) -> Computation:
        opcode = "or" if kind == "pred" else self.rng.choice(("add", "multiply"))
        return self.module.add(binary_computation(opcode, kind, self.module.unique_name("reducer")))

    def comparator(self, kinds: Sequence[str]) -> Computation:
        """A comparison of the first pair of 2 N scalars."""
        shapes = [scalar(kind) for kind in kinds for _ in range(2)]
        direction = "NE" if ELEMENT_TYPES[kinds[0]].is_complex else "LT"
        return self.function(shapes, lambda p: self.add("compare", p[:2], direction=direction))

    def through(self, shapes: Sequence[Shape], result: Shape) -> Computation:
        """A function from the shapes to a result."""
        return self.function(shapes, lambda p: self.value(result))


def random_module(rng: Random, opcodes: Sequence[str] | None = None, size: int = 6) -> Module:
    """A valid module with instructions of the opcodes (of `size` random ones when None)."""
    made = Generator(rng, rng.choice(("m", "jit_f.1", "HloModule", "a-b_c")))
    for opcode in opcodes or [rng.choice(list(MAKERS)) for _ in range(size)]:
        MAKERS[opcode](made, opcode)
    values = [i for i in made.entry if _is_value(i)]
    roots = [i for i in values if not i.shape.is_tuple or i.opcode == "tuple"] or values
    chosen = [rng.choice(roots) for _ in range(rng.randrange(4))]
    whole = rng.random() < 0.8 or not values
    made.entry.root = made.add("tuple", chosen) if whole else rng.choice(values)
    module = made.module
    module.add(made.entry, entry=True)
    if rng.random() < 0.3:
        module.stack_frames = stack_frames(rng)
    module.attributes.update(header(rng, module.entry))
    _separate_channels(module)
    return module


def _is_value(instruction: Instruction) -> bool:
    """Whether anybody may read it: what starts an asynchronous operation is for its end alone."""
    return instruction.opcode not in ("send", "recv", "async-update") and not instruction.opcode.endswith("-start")


def _separate_channels(module: Module) -> None:
    """Move channels on until each serves one use."""
    uses: dict[int, str] = {}
    for instruction in module.instructions():
        channel = instruction.attributes.get("channel_id")
        if channel is not None:
            while uses.setdefault(channel, channel_use(instruction)) != channel_use(instruction):
                channel += 1
            instruction.attributes["channel_id"] = channel


# ---- one maker per opcode

Maker = Callable[[Generator, str], Instruction]
MAKERS: dict[str, Maker] = {}


def _makes(names: str) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        for name in names.split():
            MAKERS[name] = maker
        return maker

    return register


_REAL = [t for t in NUMBERS if not ELEMENT_TYPES[t].is_complex]
_COMPLEX = ["c64", "c128"]
_WITH_SIGN = [t for t in NUMBERS if ELEMENT_TYPES[t].kind != "unsigned"]
_UNARY = {
    "is-finite": FLOATS, "not": [*INTEGERS, "pred"], "popcnt": INTEGERS, "count-leading-zeros": INTEGERS,
    "real": _COMPLEX, "imag": _COMPLEX, "abs": _WITH_SIGN, "negate": NUMBERS, "sign": _WITH_SIGN, "cbrt": FLOATS,
    **dict.fromkeys(("ceil", "floor", "round-nearest-afz", "round-nearest-even", "erf"), FLOATS),
}  # fmt: skip


_OWN = ("convert", "bitcast-convert", "reduce-precision", "stochastic-convert", "compare", "complex")


def _elementwise(arity: int) -> str:
    """Opcodes whose operands are alike, and whose result follows from them."""
    rows = [row for row in OPCODES.values() if row.arity == arity and "elementwise" in row.traits]
    return " ".join(row.name for row in rows if row.name not in _OWN)


@_makes(_elementwise(1))
def _unary(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.array(_UNARY.get(opcode, [*FLOATS, *_COMPLEX]), static=False)])


@_makes("convert")
def _convert(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    return g.add(opcode, [operand], array(g.rng.choice(TYPES), operand.shape.dimensions))


@_makes("bitcast-convert")
def _bitcast_convert(g: Generator, opcode: str) -> Instruction:
    kind = g.rng.choice(("s32", "f32", "u8", "s4", "f64"))
    other = {"s32": "f32", "f32": "s16", "u8": "f8e5m2", "s4": "u4", "f64": "s64"}[kind]
    operand = g.array([kind])
    sizes = operand.shape.dimensions
    return g.add(opcode, [operand], array(other, (*sizes, 2) if (kind, other) == ("f32", "s16") else sizes))


@_makes("reduce-precision")
def _reduce_precision(g: Generator, opcode: str) -> Instruction:
    operand = g.array(FLOATS)
    bits: dict[str, Any] = {"exponent_bits": g.rng.randint(1, 8), "mantissa_bits": g.rng.randint(0, 23)}
    return g.add(opcode, [operand], operand.shape, **bits)


@_makes("stochastic-convert")
def _stochastic_convert(g: Generator, opcode: str) -> Instruction:
    operand = g.array(["f32"])
    bits = g.value(array("u32", operand.shape.dimensions))
    return g.add(opcode, [operand, bits], array("bf16", operand.shape.dimensions))


_BITS, _ORDERED = [*INTEGERS, "pred"], [*_REAL, "pred"]
_BINARY = {
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    **dict.fromkeys(("shift-left", "shift-right-arithmetic", "shift-right-logical"), INTEGERS),
    **dict.fromkeys(("maximum", "minimum"), _ORDERED),
    "mulhi": INTEGERS, "atan2": [*FLOATS, *_COMPLEX], "remainder": _REAL,
}  # fmt: skip


@_makes(_elementwise(2))
def _binary(g: Generator, opcode: str) -> Instruction:
    operand = g.array(_BINARY.get(opcode, NUMBERS), static=False)
    return g.add(opcode, [operand, g.value(operand.shape)])


@_makes("compare")
def _compare(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    kind = ELEMENT_TYPES[operand.shape.element_type].kind
    direction = g.rng.choice(("EQ", "NE") if kind == "complex" else ("EQ", "NE", "GE", "GT", "LE", "LT"))
    types = {"float": ("FLOAT", "TOTALORDER"), "signed": ("SIGNED",), "complex": ("FLOAT",)}.get(kind, ("UNSIGNED",))
    order = g.rng.choice((None, *types))
    return g.add(opcode, [operand, g.value(operand.shape)], direction=direction, type=order)


@_makes("complex")
def _complex(g: Generator, opcode: str) -> Instruction:
    operand = g.array(["f32", "f64"])
    return g.add(opcode, [operand, g.value(operand.shape)])


@_makes("select")
def _select(g: Generator, opcode: str) -> Instruction:
    value = g.array()
    sizes = g.rng.choice(((), value.shape.dimensions))
    return g.add(opcode, [g.value(array("pred", sizes)), value, g.value(value.shape)])


@_makes("clamp")
def _clamp(g: Generator, opcode: str) -> Instruction:
    value = g.array(_REAL)
    bounds = [g.value(g.rng.choice((value.shape, scalar(value.shape.element_type)))) for _ in range(2)]
    return g.add(opcode, [bounds[0], value, bounds[1]])


@_makes("constant")
def _constant(g: Generator, opcode: str) -> Instruction:
    shape = any_shape(g.rng, TYPES)
    if g.rng.random() < 0.2:
        shape = tuple_shape([shape, tuple_shape([scalar("s32"), any_shape(g.rng, TYPES)])])
    return g.add(opcode, [], shape, literal=random_literal(g.rng, shape))


@_makes("parameter")
def _parameter(g: Generator, opcode: str) -> Instruction:
    shape = any_shape(g.rng, TYPES, static=False)
    odd = (token(), tuple_shape([]), tuple_shape([shape, token()]), Shape("buffer", elements=(shape,)), Shape("opaque"))
    return g.parameter(g.rng.choice((shape, *odd)))


@_makes("iota")
def _iota(g: Generator, opcode: str) -> Instruction:
    shape = any_shape(g.rng, NUMBERS, rank=g.rng.randint(1, 3))
    return g.add(opcode, [], shape, iota_dimension=g.rng.randrange(shape.rank))


@_makes("partition-id replica-id")
def _device(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [])


@_makes("broadcast")
def _broadcast(g: Generator, opcode: str) -> Instruction:
    operand = g.array(rank=g.rng.randint(0, 2))
    sizes = list(operand.shape.dimensions)
    places = list(range(len(sizes)))
    for _ in range(g.rng.randrange(3)):
        at = g.rng.randint(0, len(sizes))
        sizes.insert(at, g.rng.randint(0, 3))
        places = [p + (p >= at) for p in places]
    return g.add(opcode, [operand], array(operand.shape.element_type, sizes), dimensions=tuple(places))


@_makes("reshape")
def _reshape(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    sizes = [n for n in operand.shape.dimensions if n != 1] + [1] * g.rng.randrange(3)
    return g.add(opcode, [operand], array(operand.shape.element_type, sizes))


@_makes("bitcast")
def _bitcast(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    return g.add(opcode, [operand], array(operand.shape.element_type, (operand.shape.size,)))


@_makes("transpose")
def _transpose(g: Generator, opcode: str) -> Instruction:
    operand = g.array(static=False)
    order = list(range(operand.shape.rank))
    g.rng.shuffle(order)
    return g.add(opcode, [operand], dimensions=tuple(order))


@_makes("reverse")
def _reverse(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    return g.add(opcode, [operand], dimensions=tuple(d for d in range(operand.shape.rank) if g.rng.random() < 0.5))


@_makes("concatenate")
def _concatenate(g: Generator, opcode: str) -> Instruction:
    operand = g.array(rank=g.rng.randint(1, 3))
    more = [g.value(operand.shape) for _ in range(g.rng.choice((0, 1, 6)))]
    return g.add(opcode, [operand, *more], dimensions=(g.rng.randrange(operand.shape.rank),))


@_makes("pad")
def _pad(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    padding = tuple(
        PaddingDimension(g.rng.randint(-min(n, 1), 2), g.rng.randint(0, 2), g.rng.randint(0, 2))
        for n in operand.shape.dimensions
    )
    return g.add(opcode, [operand, g.scalar(operand.shape.element_type)], padding=padding)


@_makes("slice")
def _slice(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    ranges = tuple(
        SliceDimension(start := g.rng.randint(0, n), g.rng.randint(start, n), g.rng.choice((1, 1, 2)))
        for n in operand.shape.dimensions
    )
    return g.add(opcode, [operand], slice=ranges)


def _starts(g: Generator, operand: Instruction) -> list[Instruction]:
    """Start indices: one vector, or a scalar per dimension."""
    rank = operand.shape.rank
    if g.rng.random() < 0.3:
        return [g.value(array("s32", (rank,)))]
    return [g.scalar(g.rng.choice(("s32", "s64", "u8"))) for _ in range(rank)]


@_makes("dynamic-slice")
def _dynamic_slice(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    sizes = tuple(g.rng.randint(0, n) for n in operand.shape.dimensions)
    return g.add(opcode, [operand, *_starts(g, operand)], dynamic_slice_sizes=sizes)


@_makes("dynamic-update-slice")
def _dynamic_update_slice(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    sizes = [g.rng.randint(0, n) for n in operand.shape.dimensions]
    update = g.value(array(operand.shape.element_type, sizes))
    return g.add(opcode, [operand, update, *_starts(g, operand)])


@_makes("copy opt-barrier")
def _copy(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.value(g.rng.choice((any_shape(g.rng, TYPES, static=False), tuple_shape([scalar("f32")]))))])


@_makes("copy-start copy-done")
def _copy_start(g: Generator, opcode: str) -> Instruction:
    start = g.add("copy-start", [g.array()])
    return g.add("copy-done", [start])


@_makes("tuple get-tuple-element")
def _tuple(g: Generator, opcode: str) -> Instruction:
    elements = [g.array(static=False) for _ in range(g.rng.choice((1, 2, 7)))]
    made = g.add("tuple", elements)
    return g.add("get-tuple-element", [made], index=g.rng.randrange(len(elements)))


@_makes("reduce")
def _reduce(g: Generator, opcode: str) -> Instruction:
    operand = g.array(NUMBERS, static=False)
    kind = operand.shape.element_type
    dimensions = tuple(d for d in range(operand.shape.rank) if g.rng.random() < 0.5)
    if g.rng.random() < 0.3:
        both = g.function([scalar(kind)] * 4, lambda p: g.add("tuple", [p[0], p[3]]))
        return g.add(opcode, [operand, operand, g.scalar(kind), g.scalar(kind)], dimensions=dimensions, to_apply=both)
    return g.add(opcode, [operand, g.scalar(kind)], dimensions=dimensions, to_apply=g.reducer(kind))


def _window(g: Generator, sizes: Sequence[int]) -> Window:
    """A window over the sizes with everything that a window can have."""
    return Window(
        tuple(
            WindowDimension(
                g.rng.randint(1, max(1, n)), g.rng.randint(1, 2), g.rng.randint(-1, 2), g.rng.randint(0, 2),
                g.rng.randint(1, 2), g.rng.randint(1, 2), g.rng.random() < 0.2,
            )
            for n in sizes
        )
    )  # fmt: skip


@_makes("reduce-window")
def _reduce_window(g: Generator, opcode: str) -> Instruction:
    operand = g.array(NUMBERS)
    kind = operand.shape.element_type
    window = _window(g, operand.shape.dimensions)
    return g.add(opcode, [operand, g.scalar(kind)], window=window, to_apply=g.reducer(kind))


@_makes("select-and-scatter")
def _select_and_scatter(g: Generator, opcode: str) -> Instruction:
    operand = g.array(_REAL)
    kind = operand.shape.element_type
    window = _window(g, operand.shape.dimensions)
    sizes = [one.output_size(n) for one, n in zip(window.dimensions, operand.shape.dimensions, strict=True)]
    select = g.function([scalar(kind)] * 2, lambda p: g.add("compare", p, direction="GE"))
    source = g.value(array(kind, sizes))
    return g.add(opcode, [operand, source, g.scalar(kind)], window=window, select=select, scatter=g.reducer(kind))


@_makes("map")
def _map(g: Generator, opcode: str) -> Instruction:
    operand = g.array(NUMBERS)
    kind = operand.shape.element_type
    dimensions = g.rng.choice((None, tuple(range(operand.shape.rank))))
    return g.add(opcode, [operand, g.value(operand.shape)], dimensions=dimensions, to_apply=g.reducer(kind))


@_makes("dot")
def _dot(g: Generator, opcode: str) -> Instruction:
    kind = g.rng.choice(NUMBERS)
    m, k, n, b = (g.rng.randint(0, 3) for _ in range(4))
    if g.rng.random() < 0.5:
        operands = [g.value(array(kind, (m, k))), g.value(array(kind, (k, n)))]
        return g.add(opcode, operands, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    operands = [g.value(array(kind, (b, m, k))), g.value(array(kind, (b, k, n)))]
    return g.add(
        opcode, operands, array(g.rng.choice((kind, "f32")), (b, m, n)), lhs_batch_dims=(0,), rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,), rhs_contracting_dims=(1,),
    )  # fmt: skip


@_makes("ragged-dot")
def _ragged_dot(g: Generator, opcode: str) -> Instruction:
    operands = [g.value(array("f32", (4, 3))), g.value(array("f32", (2, 3, 5))), g.value(array("s64", (2,)))]
    return g.add(
        opcode, operands, lhs_contracting_dims=(1,), rhs_contracting_dims=(1,), lhs_ragged_dims=(0,),
        rhs_group_dims=(0,),
    )  # fmt: skip


@_makes("scaled-dot")
def _scaled_dot(g: Generator, opcode: str) -> Instruction:
    operands = [g.value(array("f8e4m3fn", sizes)) for sizes in ((4, 32), (32, 3))]
    operands += [g.value(array("f8e8m0fnu", sizes)) for sizes in ((4, 1), (1, 3))]
    return g.add(opcode, operands, array("bf16", (4, 3)), lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))


@_makes("convolution")
def _convolution(g: Generator, opcode: str) -> Instruction:
    """Dimensions in any order, groups of features or of the batch."""
    spatial = g.rng.randint(0, 3)
    groups, batches = g.rng.choice(((1, 1), (2, 1), (1, 2)))
    kind = g.rng.choice(("f32", "bf16", "s8", "c64"))
    orders = [g.rng.sample(range(spatial + 2), spatial + 2) for _ in range(3)]
    parts: list[Any] = [part for o in orders for part in (o[0], o[1], tuple(o[2:]))]
    labels = ConvDimensionNumbers(*parts)
    bases = [g.rng.randint(1, 5) for _ in range(spatial)]
    window = _window(g, bases)
    base, kernel = [0] * (spatial + 2), [0] * (spatial + 2)
    for order, sizes, leading, rest in (
        (orders[0], base, (2 * batches, 2 * groups), bases),
        (orders[1], kernel, (2, 2 * groups * batches), [d.size for d in window.dimensions]),
    ):
        for place, size in zip(order, (*leading, *rest), strict=True):
            sizes[place] = size
    operands = [g.value(array(kind, base)), g.value(array(kind, kernel))]
    given: dict[str, Any] = {"feature_group_count": groups, "batch_group_count": batches}
    return g.add(
        opcode, operands, window=window if spatial or g.rng.random() < 0.5 else None, dim_labels=labels,
        **{name: count for name, count in given.items() if count > 1},
    )  # fmt: skip


@_makes("sort")
def _sort(g: Generator, opcode: str) -> Instruction:
    operand = g.array(_REAL, rank=g.rng.randint(1, 3))
    more = [g.value(array(g.rng.choice(TYPES), operand.shape.dimensions)) for _ in range(g.rng.randrange(3))]
    operands = [operand, *more]
    comparator = g.comparator([o.shape.element_type for o in operands])
    return g.add(opcode, operands, dimensions=(g.rng.randrange(operand.shape.rank),), to_apply=comparator)


@_makes("topk")
def _topk(g: Generator, opcode: str) -> Instruction:
    operand = g.array(_REAL, rank=g.rng.randint(1, 2))
    return g.add(opcode, [operand], k=g.rng.randint(0, operand.shape.dimensions[-1]))


@_makes("gather")
def _gather(g: Generator, opcode: str) -> Instruction:
    if g.rng.random() < 0.4:
        operands = [g.value(array("f32", (2, 5, 3))), g.value(array("s32", (2, 4, 1)))]
        return g.add(
            opcode, operands, offset_dims=(2,), collapsed_slice_dims=(1,), start_index_map=(1,), index_vector_dim=2,
            operand_batching_dims=(0,), start_indices_batching_dims=(0,), slice_sizes=(1, 1, 3),
        )  # fmt: skip
    operands = [g.array(rank=2), g.value(array(g.rng.choice(("s32", "u64")), (3, 1)))]
    n, width = operands[0].shape.dimensions
    return g.add(
        opcode, operands, offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1,
        slice_sizes=(min(n, 1), width),
    )  # fmt: skip


@_makes("scatter")
def _scatter(g: Generator, opcode: str) -> Instruction:
    kind = g.rng.choice(_REAL)
    n = g.rng.randint(0, 3)
    operands = [g.value(array(kind, (4, 6))), g.value(array("s32", (n, 1))), g.value(array(kind, (n, 6)))]
    numbers: dict[str, Any] = {
        "update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }  # fmt: skip
    if g.rng.random() < 0.3:
        both = g.function([scalar(kind)] * 4, lambda p: g.add("tuple", [p[0], p[3]]))
        doubled = [operands[0], g.value(array(kind, (4, 6))), operands[1], operands[2], g.value(array(kind, (n, 6)))]
        return g.add(opcode, doubled, to_apply=both, **numbers)
    return g.add(opcode, operands, to_apply=g.reducer(kind), **numbers)


@_makes("while")
def _while(g: Generator, opcode: str) -> Instruction:
    state = g.value(tuple_shape([scalar("s32"), any_shape(g.rng, TYPES)]))
    condition = g.function([state.shape], lambda p: g.scalar("pred"))
    body = g.function([state.shape], lambda p: p[0] if g.rng.random() < 0.5 else g.add("copy", [p[0]]))
    return g.add(opcode, [state], condition=condition, body=body)


@_makes("scan")
def _scan(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    while not operand.shape.rank or not operand.shape.is_static:
        operand = g.array()
    axis = g.rng.randrange(operand.shape.rank)
    sizes = operand.shape.dimensions
    inner = array(operand.shape.element_type, (*sizes[:axis], *sizes[axis + 1 :]))
    carries = g.rng.randrange(3)
    results = tuple_shape([inner] * (carries + g.rng.choice((1, 2))))
    called = g.through([inner] * (1 + carries), results)
    return g.add(
        opcode, [operand, *(g.value(inner) for _ in range(carries))], dimensions=(axis,), num_carries=carries,
        is_reverse=g.rng.choice((None, True, False)), is_associative=g.rng.choice((None, False, True)), to_apply=called,
    )  # fmt: skip


@_makes("conditional")
def _conditional(g: Generator, opcode: str) -> Instruction:
    result = any_shape(g.rng, TYPES)
    operands = [g.array() for _ in range(g.rng.choice((1, 2, 3)))]
    branches = tuple(g.through([o.shape], result) for o in operands)
    if len(operands) == 2 and g.rng.random() < 0.5:
        two: dict[str, Any] = {"true_computation": branches[0], "false_computation": branches[1]}
        return g.add(opcode, [g.scalar("pred"), *operands], **two)
    return g.add(opcode, [g.scalar("s32"), *operands], branch_computations=branches)


@_makes("call")
def _call(g: Generator, opcode: str) -> Instruction:
    operands = [g.array() for _ in range(g.rng.randrange(3))]
    return g.add(opcode, operands, to_apply=g.through([o.shape for o in operands], any_shape(g.rng, TYPES)))


@_makes("fusion")
def _fusion(g: Generator, opcode: str) -> Instruction:
    operands = [g.array() for _ in range(g.rng.choice((0, 1, 2, 7)))]
    called = g.through([o.shape for o in operands], any_shape(g.rng, TYPES))
    kind = g.rng.choice(("kLoop", "kInput", "kOutput", "kCustom"))
    return g.add(opcode, operands, called.root.shape, kind=kind, calls=called)


@_makes("after-all")
def _after_all(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.value(token()) for _ in range(g.rng.randrange(3))])


@_makes("add-dependency")
def _add_dependency(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.array(), g.value(token())])


@_makes("domain")
def _domain(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.array()], domain=Verbatim('{kind="sharding", entry={maximal device=0}, exit={replicated}}'))


@_makes("rng")
def _rng(g: Generator, opcode: str) -> Instruction:
    shape = any_shape(g.rng, FLOATS)
    bounds = [g.scalar(shape.element_type) for _ in range(2)]
    return g.add(opcode, bounds, shape, distribution=g.rng.choice(("rng_uniform", "rng_normal")))


@_makes("rng-bit-generator")
def _rng_bit_generator(g: Generator, opcode: str) -> Instruction:
    state = g.value(array("u64", (g.rng.choice((2, 3)),)))
    shape = tuple_shape([state.shape, any_shape(g.rng, ["u32", "u64", "u8"])])
    return g.add(opcode, [state], shape, algorithm=g.rng.choice(("rng_default", "rng_three_fry", "rng_philox")))


@_makes("rng-get-and-update-state")
def _rng_state(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [], array("u64", (2,)), delta=g.rng.randint(0, 1 << 40))


@_makes("cholesky")
def _cholesky(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.value(array(g.rng.choice(("f32", "c128")), (2, 3, 3)))])


@_makes("triangular-solve")
def _triangular_solve(g: Generator, opcode: str) -> Instruction:
    left = g.rng.random() < 0.5
    operands = [g.value(array("f32", (3, 3))), g.value(array("f32", (3, 5) if left else (5, 3)))]
    return g.add(opcode, operands, left_side=left)


@_makes("fft")
def _fft(g: Generator, opcode: str) -> Instruction:
    kind = g.rng.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = tuple(g.rng.randint(1, 6) for _ in range(g.rng.randint(1, 3)))
    sizes = [*lengths[:-1], lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]]
    operand = g.value(array("f32" if kind == "RFFT" else "c64", (2, *sizes)))
    return g.add(opcode, [operand], fft_type=kind, fft_length=lengths)


@_makes("batch-norm-training batch-norm-inference batch-norm-grad")
def _batch_norm(g: Generator, opcode: str) -> Instruction:
    operand = g.array(["f32", "bf16"], rank=3)
    feature = g.rng.randrange(3)
    vector = array(operand.shape.element_type, (operand.shape.dimensions[feature],))
    count = {"batch-norm-training": 2, "batch-norm-inference": 4, "batch-norm-grad": 3}[opcode]
    operands = [operand, *(g.value(vector) for _ in range(count))]
    operands += [g.value(operand.shape)] if opcode == "batch-norm-grad" else []
    return g.add(opcode, operands, epsilon=g.rng.choice((0.001, 1e-5, 0.0, float("inf"))), feature_index=feature)


# ---- collectives and other programs


@_makes("all-reduce collective-broadcast all-reduce-start all-reduce-done")
def _all_reduce(g: Generator, opcode: str) -> Instruction:
    kind = g.rng.choice(("f32", "bf16", "s32"))
    operands = [g.array([kind]) for _ in range(g.rng.choice((1, 2)))]
    result = operands[0].shape if len(operands) == 1 else tuple_shape([o.shape for o in operands])
    opcode = opcode.replace("-done", "-start")
    called = g.reducer(kind) if opcode.startswith("all-reduce") else None
    groups = ReplicaGroups(((0, 1),)) if opcode == "collective-broadcast" else None
    made = g.add(opcode, operands, result, to_apply=called, replica_groups=groups)
    return g.add("all-reduce-done", [made], result) if opcode.endswith("-start") else made


@_makes("all-gather reduce-scatter all-gather-start all-gather-done")
def _all_gather(g: Generator, opcode: str) -> Instruction:
    small, large = array("f32", (2, 3)), array("f32", (4, 3))
    given, result = (large, small) if opcode == "reduce-scatter" else (small, large)
    operand = g.value(given)
    opcode = opcode.replace("-done", "-start")
    called = g.reducer("f32") if opcode == "reduce-scatter" else None
    shape = tuple_shape([given, result]) if opcode.endswith("-start") else result
    groups = ReplicaGroups(g.rng.choice(((), ((0, 1),), ((2, 1), (0, 3)))))  # by two
    made = g.add(opcode, [operand], shape, dimensions=(0,), to_apply=called, replica_groups=groups)
    return g.add("all-gather-done", [made], result) if opcode.endswith("-start") else made


@_makes("all-to-all")
def _all_to_all(g: Generator, opcode: str) -> Instruction:
    operand = g.value(array("f32", (4, 3)))
    groups = ReplicaGroups(((0, 1), (2, 3)), g.rng.choice((None, "[2,2]<=[4]")))
    if g.rng.random() < 0.5:
        return g.add(opcode, [operand], operand.shape, dimensions=(0,), replica_groups=groups)
    both = [operand, g.value(operand.shape)]
    return g.add(opcode, both, tuple_shape([o.shape for o in both]), replica_groups=groups)


@_makes("ragged-all-to-all")
def _ragged_all_to_all(g: Generator, opcode: str) -> Instruction:
    target = g.value(array("f32", (6, 3)))
    numbers = [g.value(array("s64", (2,))) for _ in range(4)]
    return g.add(opcode, [g.value(array("f32", (4, 3))), target, *numbers], target.shape)


@_makes("collective-permute collective-permute-start collective-permute-done")
def _permute(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    opcode = opcode.replace("-done", "-start")
    pairs = g.rng.choice(((), ((0, 1), (1, 0))))
    if opcode == "collective-permute":
        return g.add(opcode, [operand], operand.shape, source_target_pairs=pairs)
    context = [scalar("u32")] * g.rng.choice((0, 2))
    start = g.add(opcode, [operand], tuple_shape([operand.shape, operand.shape, *context]), source_target_pairs=pairs)
    return g.add("collective-permute-done", [start], operand.shape)


@_makes("async-start async-update async-done")
def _async(g: Generator, opcode: str) -> Instruction:
    operands = [g.array() for _ in range(g.rng.randrange(3))]
    called = g.through([o.shape for o in operands], any_shape(g.rng, TYPES))
    shape = tuple_shape([tuple_shape([o.shape for o in operands]), called.root.shape, scalar("u32")])
    thread = g.rng.choice((None, "host"))
    start = g.add("async-start", operands, shape, calls=called, async_execution_thread=thread)
    if g.rng.random() < 0.5:
        start = g.add("async-update", [start], shape, calls=g.rng.choice((None, called)))
    return g.add("async-done", [start], called.root.shape, calls=g.rng.choice((None, called)))


@_makes("infeed")
def _infeed(g: Generator, opcode: str) -> Instruction:
    return g.add(opcode, [g.value(token())], tuple_shape([any_shape(g.rng, TYPES), token()]))


@_makes("outfeed")
def _outfeed(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    return g.add(opcode, [operand, g.value(token())], token(), outfeed_shape=g.rng.choice((None, operand.shape)))


@_makes("send send-done")
def _send(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    shape = tuple_shape([operand.shape, scalar("u32"), token()])
    return _transfer_done(g, g.add("send", [operand, g.value(token())], shape), token())


def _transfer_done(g: Generator, start: Instruction, shape: Shape) -> Instruction:
    """The end of a transfer, which says the same of it as its beginning."""
    done = g.add(f"{start.opcode}-done", [start], shape)
    for name in ("channel_id", "is_host_transfer"):
        done.attributes.pop(name, None)
        if name in start.attributes:
            done.attributes[name] = start.attributes[name]
    return done


@_makes("recv recv-done")
def _recv(g: Generator, opcode: str) -> Instruction:
    data = any_shape(g.rng, TYPES)
    received = g.add("recv", [g.value(token())], tuple_shape([data, scalar("u32"), token()]))
    return _transfer_done(g, received, tuple_shape([data, token()]))


# ---- dynamic sizes and custom calls


@_makes("dynamic-reshape")
def _dynamic_reshape(g: Generator, opcode: str) -> Instruction:
    operand = g.array()
    sizes = list(reversed(operand.shape.dimensions))
    shape = Shape(operand.shape.element_type, tuple(sizes), row_major(len(sizes)), (), tuple(True for _ in sizes))
    return g.add(opcode, [operand, *(g.scalar("s32") for _ in sizes)], shape)


@_makes("get-dimension-size set-dimension-size")
def _dimension_size(g: Generator, opcode: str) -> Instruction:
    operand = g.array(rank=g.rng.randint(1, 3), static=False)
    more = [g.scalar("s32")] if opcode == "set-dimension-size" else []
    return g.add(opcode, [operand, *more], dimensions=(g.rng.randrange(operand.shape.rank),))


@_makes("custom-call")
def _custom_call(g: Generator, opcode: str) -> Instruction:
    operands = [g.array() for _ in range(g.rng.choice((0, 1, 2, 11)))]
    target = g.rng.choice(("f", "a b", 'quo"te', "ünï", "\\", "", "a\nb", "\x01"))
    called = g.rng.choice((None, (g.reducer("f32"), g.reducer("s32"))))
    shapes = tuple(o.shape for o in operands)
    in_place = bool(operands) and g.rng.random() < 0.3
    return g.add(
        opcode, operands, shapes[0] if in_place else any_shape(g.rng, TYPES, static=False),
        output_to_operand_aliasing=(Aliasing((), 0, ()),) if in_place else None,
        custom_call_target=target, called_computations=called,
        to_apply=g.reducer("f32") if called is None and g.rng.random() < 0.3 else None,
        operand_layout_constraints=g.rng.choice((None, shapes)),
    )  # fmt: skip


# ---- spellings


def respell(rng: Random, text: str) -> str:
    """The printed text of a module with other blanks, comments and line ends, and percent signs at definitions."""
    lines: list[str] = []
    for line in text.split("\n"):
        if rng.random() < 0.1:
            lines.append(rng.choice(("", "  // a comment } {", "\t/* a comment\n  of two lines */", "/**/ // x")))
        spelled = _DEFINED.sub(lambda m: m.group().replace("=", rng.choice(("=", " =  ", "\t= "))), line)
        if rng.random() < 0.3:
            spelled = _START.sub(r"\1\2%\3", spelled)
        lines.append(spelled + rng.choice(("", "", "  ", "\t", " /* end */", " // end")))
    return rng.choice(("\n", "\n", "\r\n")).join(lines)


_DEFINED = re.compile(r"^  (?:ROOT )?[\w.\-]+ = ")
_START = re.compile(r"^(  )(ROOT )?([A-Za-z_][\w.\-]*)(?= *=)")


def sugar(rng: Random) -> str:
    """A module with asynchronous operations in the short spelling, and nested operands and bodies."""
    shape = print_shape(random_layout(rng, any_shape(rng, ["f32"], 1)))
    accuracy, target = ", result_accuracy={mode=highest}", ', custom_call_target="f"'
    opcode, attributes = rng.choice((("negate", ""), ("exponential", accuracy), ("custom-call", target)))
    thread = rng.choice(("", ', async_execution_thread="t"'))
    update = rng.random() < 0.5
    lines = [
        f"  p = {shape} parameter(0)",
        f"  s = (({shape}), {shape}, u32[]) {opcode}-start(p){attributes}{thread}",
        *([f"  u = (({shape}), {shape}, u32[]) {opcode}-update(s)"] if update else []),
        f"  d = {shape} {opcode}-done({'u' if update else 's'})",
        f"  n = add({shape} negate({shape} d), multiply(d, %p))",
        f"  ROOT r = call(n), to_apply={{ x = {shape} parameter(0) ROOT y = negate(x) }}",
    ]
    return "\n".join(["HloModule sugar", "", "ENTRY e {", *lines, "}", ""])
