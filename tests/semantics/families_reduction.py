"""reduce, reduce-window, select-and-scatter, map, sort, topk and the batch-norm opcodes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Window, WindowDimension, array, dtype_of, scalar
from hlotool.ir.builder import Builder
from semantics.sample import Sample, class_of, family
from semantics.values import Array, Filler, anything, modest, small, within

__all__ = ["comparator", "fitting", "random_reducer", "window_of"]

_KINDS = ("pred", "s8", "u16", "s32", "u64", "bf16", "f16", "f32", "f64", "c64")
"""What other operands of variadic instructions are made of."""


# ---- values


def fitting(opcode: str) -> Filler:
    """Values whose combination by `opcode`, in any order, is the same to within a rounding."""

    def fill(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
        row = ELEMENT_TYPES[kind]
        inexact = row.is_float or row.is_complex
        if not inexact or opcode not in ("add", "multiply"):
            return anything(generator, kind, sizes)
        if kind == "f8e8m0fnu":  # powers of two only
            return generator.choice([1.0, 2.0] if opcode == "add" else [0.5, 1.0, 2.0], sizes).astype(dtype_of(kind))
        if opcode == "add":
            return small(generator, kind, sizes)
        units = generator.choice([1.0, -1.0, 0.5, 2.0], sizes, p=[0.46, 0.46, 0.04, 0.04])
        return np.asarray(units * (generator.choice([1, 1j], sizes) if row.is_complex else 1)).astype(dtype_of(kind))

    return fill


def opcodes_of(kind: str) -> tuple[str, ...]:
    """The operations that reduce values of a type, whatever their order."""
    match class_of(kind):
        case "pred":
            return ("and", "or", "xor", "maximum", "minimum")
        case "signed" | "unsigned":
            return ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
        case "complex":
            return ("add", "multiply")
    return ("add", "multiply", "maximum", "minimum")


# ---- computations


def random_expression(rng: Random, b: Builder, given: Sequence[Instruction], kind: str, depth: int = 2) -> Instruction:
    """A scalar of `kind` from `given` ones, exact in every type: no rounding is left open."""
    same = [g for g in given if g.shape.element_type == kind]
    if depth <= 0 or (same and rng.random() < 0.2):
        if same:
            return rng.choice(same)
        real = [g for g in given if not ELEMENT_TYPES[g.shape.element_type].is_complex]
        return b.convert(rng.choice(real), kind) if real else b.scalar_constant(1, kind)

    def one(wanted: str = kind) -> Instruction:
        return random_expression(rng, b, given, wanted, depth - 1)

    how = rng.random()
    if how < 0.02:  # more than arithmetic on scalars, which no loop holds in line
        both = b.concatenate([b.reshape(one(), (1,)), b.reshape(one(), (1,))], 0)
        chosen = rng.choice(given)
        place = b.convert(b.compare(chosen, rng.choice([g for g in given if g.shape == chosen.shape]), "NE"), "s32")
        return b.reshape(b.dynamic_slice(both, [place], (1,)), ())
    if how < 0.25:
        compared = rng.choice(given).shape.element_type
        directions = ("EQ", "NE") if ELEMENT_TYPES[compared].is_complex else ("LT", "LE", "GT", "GE", "EQ", "NE")
        chooser = b.compare(one(compared), one(compared), rng.choice(directions))
        return b.select(chooser, one(), one())
    match class_of(kind):
        case "pred":
            return b.unary("not", one()) if how < 0.4 else b.binary(rng.choice(("and", "or", "xor")), one(), one())
        case "signed" | "unsigned":
            return b.binary(rng.choice(("add", "subtract", "multiply", "maximum", "xor", "and")), one(), one())
        case "complex":
            return b.binary(rng.choice(("add", "subtract")), one(), one())
    return b.unary("negate", one()) if how < 0.4 else b.binary(
        rng.choice(("add", "subtract", "multiply", "maximum", "minimum")), one(), one()
    )  # fmt: skip


def random_reducer(s: Sample, kinds: Sequence[str]) -> Computation:
    """Any computation of two lots of scalars to one lot: no order but the first to last gives its result.

    It never is a sum or a product only, however simplified: those have no order, and round once.
    """

    def body(b: Builder, parameters: list[Instruction]) -> Instruction:
        roots = [random_expression(s.rng, b, parameters, kind) for kind in kinds]
        for n, kind in enumerate(kinds):
            if _inexact(kind):
                left, right = parameters[n], parameters[n + len(kinds)]
                roots[n] = b.select(b.compare(left, right, "EQ"), left, roots[n])
        return roots[0] if len(roots) == 1 else b.tuple(roots)

    return s.computation([scalar(kind) for kind in (*kinds, *kinds)], body, "fold")


def _several(s: Sample, kinds: Sequence[str], opcodes: Sequence[str]) -> Computation:
    """Each value reduced by an operation of its own."""

    def body(b: Builder, p: list[Instruction]) -> Instruction:
        count = len(kinds)
        swapped = [s.rng.random() < 0.5 for _ in kinds]
        roots = [
            b.binary(opcode, *((p[n + count], p[n]) if swapped[n] else (p[n], p[n + count])))
            for n, opcode in enumerate(opcodes)
        ]
        return roots[0] if count == 1 else b.tuple(roots)

    return s.computation([scalar(kind) for kind in (*kinds, *kinds)], body, "several")


def _extreme(s: Sample, kind: str, index: str, largest: bool) -> Computation:
    """argmax or argmin as JAX writes it: the first of equals, and a NaN before all numbers."""

    def body(b: Builder, p: list[Instruction]) -> Instruction:
        value, place, other, other_place = p
        better = b.compare(value, other, "GT" if largest else "LT")
        if ELEMENT_TYPES[kind].is_float:
            better = b.binary("or", better, b.compare(value, value, "NE"))
        first = b.binary("and", b.compare(value, other, "EQ"), b.compare(place, other_place, "LT"))
        return b.tuple(
            [b.select(better, value, other), b.select(b.binary("or", better, first), place, other_place)]
        )

    return s.computation([scalar(t) for t in (kind, index, kind, index)], body, "extreme")


def _reduction(s: Sample, kind: str) -> tuple[list[str], list[Filler], Computation]:
    """(element types, values, computation) of something that reduces values of `kind` and perhaps more."""
    rng = s.rng
    kinds = [kind, *rng.choices(_KINDS, k=rng.choice((0, 0, 0, 1, 2, 3)))]
    if rng.random() < 0.45:
        return kinds, [anything] * len(kinds), random_reducer(s, kinds)
    opcodes = [rng.choice(opcodes_of(k)) for k in kinds]
    return kinds, [fitting(opcode) for opcode in opcodes], _several(s, kinds, opcodes)


def _moved(s: Sample, kind: str, sizes: tuple[int, ...], values: Filler) -> Instruction:
    """An operand, now and then one whose elements lie elsewhere in memory: fusion must keep their order."""
    rng, rank = s.rng, len(sizes)
    if rank == 0 or rng.random() < 0.7:
        return s.operand(kind, sizes, values)
    match rng.choice(("transpose", "reverse", "slice", "reshape")):
        case "transpose":
            order = rng.sample(range(rank), rank)
            before = [0] * rank
            for d, source in enumerate(order):
                before[source] = sizes[d]
            return s.builder.transpose(s.operand(kind, before, values), order)
        case "reverse":
            gone = rng.sample(range(rank), rng.randint(1, rank))
            return s.builder.reverse(s.operand(kind, sizes, values), gone)
        case "slice":
            starts = [rng.choice((0, 1, 3)) for _ in sizes]
            limits = [start + size for start, size in zip(starts, sizes, strict=True)]
            return s.builder.slice(s.operand(kind, [n + 1 for n in limits], values), starts, limits)
    return s.builder.reshape(s.operand(kind, (int(np.prod(sizes)),), values), sizes)


def _look(s: Sample, result: Instruction) -> Instruction:
    """The result, or an element of its tuple."""
    if result.shape.is_tuple and s.rng.random() < 0.3:
        return s.builder.gte(result, s.rng.randrange(len(result.shape.elements)))
    return result


# ---- reduce, map


@family("reduce", "all")
def reduce(s: Sample, opcode: str, kind: str) -> Instruction:
    kinds, fillers, computation = _reduction(s, kind)
    sizes = s.sizes()
    gone = [d for d in range(len(sizes)) if s.rng.random() < 0.5]
    s.rng.shuffle(gone)
    inputs = [_moved(s, k, sizes, values) for k, values in zip(kinds, fillers, strict=True)]
    initial = [s.operand(k, (), values) for k, values in zip(kinds, fillers, strict=True)]
    if len(kinds) == 1 and s.rng.random() < 0.1:  # then so is the result a tuple of one
        computation.root = Builder(computation).tuple([computation.root])
    return _look(s, s.builder.reduce(inputs, initial, gone, computation))


@family("reduce", "signed unsigned narrow float")
def reduce_to_extreme(s: Sample, opcode: str, kind: str) -> Instruction:
    index = s.rng.choice(("s32", "s64", "u32"))
    sizes = s.sizes(s.rng.choice((1, 1, 2, 2, 3)), zero=False)
    dimension = s.rng.randrange(len(sizes))
    place = s.builder.iota(array(index, sizes), dimension)
    first = s.builder.scalar_constant(s.rng.choice((0, 0, 7)), index)
    operands = [_moved(s, kind, sizes, anything), place], [s.operand(kind), first]
    gone = (dimension,) if s.rng.random() < 0.9 else tuple(range(len(sizes)))
    computation = _extreme(s, kind, index, s.rng.random() < 0.5)
    return _look(s, s.builder.reduce(*operands, gone, computation))


@family("reduce", "pred signed unsigned float complex")
def reduce_long(s: Sample, opcode: str, kind: str) -> Instruction:
    """Long lines and columns, where work is divided."""
    rng = s.rng
    sizes = rng.choice(((5003,), (40, 129), (129, 40), (3, 1001), (1001, 3), (9, 16, 33), (4, 700)))
    gone = [d for d in range(len(sizes)) if rng.random() < 0.6]
    if rng.random() < 0.3:
        sizes = tuple(min(size, 200) for size in sizes)
        computation, values = random_reducer(s, [kind]), anything
    else:
        combined = rng.choice([o for o in opcodes_of(kind) if o != "multiply"])
        computation, values = s.binary(combined, kind), fitting(combined)
    return s.builder.reduce(_moved(s, kind, sizes, values), s.operand(kind, (), values), gone, computation)


@family("map", "all")
def map_(s: Sample, opcode: str, kind: str) -> Instruction:
    kinds = [kind, *s.rng.choices(_KINDS, k=s.rng.choice((0, 0, 1, 2, 3)))]
    sizes = s.sizes()
    wanted = s.rng.choice((kind, kind, *_KINDS))

    def body(b: Builder, parameters: list[Instruction]) -> Instruction:
        return random_expression(s.rng, b, parameters, wanted, 3)

    computation = s.computation([scalar(k) for k in kinds], body, "mapped")
    attributes = {"dimensions": tuple(range(len(sizes))), "to_apply": computation}
    return s.builder.add("map", None, [s.operand(k, sizes) for k in kinds], attributes)


# ---- windows


def window_of(rng: Random, sizes: Sequence[int], dilation: float = 0.2) -> Window:
    """Any window over a base of `sizes`: with holes, steps, padding of either sign, larger than the base."""
    rows = []
    for size in sizes:
        if rng.random() < 0.25:
            rows.append(WindowDimension(1))
            continue
        if rng.random() < 0.2 and size > 0:  # cumulative, from either end
            low = rng.choice((size - 1, 0))
            rows.append(WindowDimension(size, 1, low, size - 1 - low))
            continue
        rows.append(
            WindowDimension(
                size=rng.choice((1, 2, 2, 3, 3, 4, 5, min(size + 2, 12))),
                stride=rng.choice((1, 1, 2, 3, 5)),
                padding_low=rng.choice((0, 0, 1, 2, -1, -2, 5)),
                padding_high=rng.choice((0, 0, 1, 2, -1, -2, 5)),
                base_dilation=rng.choice((2, 3)) if rng.random() < dilation else 1,
                window_dilation=rng.choice((2, 3)) if rng.random() < dilation else 1,
                reversal=rng.random() < 0.1,
            )
        )
    return Window(tuple(rows))


@family("reduce-window", "all")
def reduce_window(s: Sample, opcode: str, kind: str) -> Instruction:
    kinds, fillers, computation = _reduction(s, kind)
    sizes = s.sizes(s.rng.choice((0, 1, 1, 2, 2, 3, 4, 5)))
    inputs = [_moved(s, k, sizes, values) for k, values in zip(kinds, fillers, strict=True)]
    initial = [s.operand(k, (), values) for k, values in zip(kinds, fillers, strict=True)]
    attributes = {"window": window_of(s.rng, sizes), "to_apply": computation}
    return _look(s, s.builder.add(opcode, None, [*inputs, *initial], attributes))


@family("select-and-scatter", "all")
def select_and_scatter(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    sizes = s.sizes(rng.choice((0, 1, 1, 2, 2, 3, 4)), most=100)
    window = window_of(rng, sizes, dilation=0.05)
    source = [row.output_size(size) for row, size in zip(window.dimensions, sizes, strict=True)]
    two = [scalar(kind), scalar(kind)]
    if rng.random() < 0.6 and not ELEMENT_TYPES[kind].is_complex:
        direction = rng.choice(("GE", "GE", "LE", "GT", "LT"))
        select = s.computation(two, lambda b, p: b.compare(*p, direction), "select")
    else:
        select = s.computation(two, lambda b, p: random_expression(rng, b, p, "pred"), "select")
    if rng.random() < 0.6:
        combined = rng.choice(opcodes_of(kind))
        scatter, values = s.binary(combined, kind), fitting(combined)
    else:
        scatter, values = random_reducer(s, [kind]), anything
    operands = s.operand(kind, sizes), s.operand(kind, source, values), s.operand(kind, (), values)
    attributes = {"window": window, "select": select, "scatter": scatter}
    return s.builder.add(opcode, None, operands, attributes)


# ---- sort, topk


def _scalars(b: Builder, pair: Sequence[Instruction]) -> list[tuple[Instruction, Instruction]]:
    """What two elements are ordered by: complex ones by the parts."""
    if ELEMENT_TYPES[pair[0].shape.element_type].is_complex:
        return [(b.unary(part, pair[0]), b.unary(part, pair[1])) for part in ("real", "imag")]
    return [(pair[0], pair[1])]


def comparator(s: Sample, kinds: Sequence[str], keys: Sequence[int], total: bool) -> Computation:
    """Lexicographic by the operands `keys`, each ascending or descending; `total` puts NaN in its place."""

    def body(b: Builder, p: list[Instruction]) -> Instruction:
        pairs = [pair for k in keys for pair in _scalars(b, p[2 * k : 2 * k + 2])]
        result: Instruction | None = None
        for left, right in reversed(pairs):
            how = "TOTALORDER" if total and ELEMENT_TYPES[left.shape.element_type].is_float else None
            less = b.compare(left, right, s.rng.choice(("LT", "GT")), how)
            if result is not None:
                equal = b.compare(left, right, "EQ", how)
                less = b.select(equal, result, less)
            result = less
        assert result is not None
        return result

    return s.computation([scalar(kind) for kind in kinds for _ in (0, 1)], body, "order")


def _few(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Numbers among which many are equal, none a NaN."""
    if kind == "f8e8m0fnu":
        return fitting("multiply")(generator, kind, sizes)
    return within(0, 3)(generator, kind, sizes) if not _inexact(kind) else small(generator, "s8", sizes).astype(
        dtype_of(kind)
    )  # fmt: skip


def _inexact(kind: str) -> bool:
    return ELEMENT_TYPES[kind].is_float or ELEMENT_TYPES[kind].is_complex


@family("sort", "all")
def sort(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    kinds = [kind, *rng.choices(_KINDS, k=rng.choice((0, 0, 1, 2, 4)))]
    sizes = s.sizes(rng.choice((1, 1, 2, 2, 3, 4)), most=rng.choice((200, 200, 200, 3000)))
    if rng.random() < 0.1:
        sizes = (rng.choice((700, 1500, 2600)),)
    total = rng.random() < 0.6
    keys = [0] if rng.random() < 0.5 else rng.sample(range(len(kinds)), rng.randint(1, len(kinds)))
    operands = []
    for k in kinds:
        nan_free = _few if rng.random() < 0.4 or k == "f8e8m0fnu" else modest
        free = total or not _inexact(k)
        operands.append(s.operand(k, sizes, anything if free and rng.random() < 0.7 else nan_free))
    attributes = {
        "dimensions": (rng.randrange(len(sizes)),), "is_stable": rng.random() < 0.7,
        "to_apply": comparator(s, kinds, keys, total),
    }  # fmt: skip
    return _look(s, s.builder.add(opcode, None, operands, attributes))


@family("topk", "pred signed unsigned narrow float")
def topk(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    sizes = s.sizes(rng.choice((1, 1, 2, 2, 3)), most=rng.choice((200, 200, 2000)))
    n = sizes[-1]
    k = min(n, rng.choice((0, 1, 2, 7, n // 2, n, rng.randint(0, n))))
    attributes = {"k": k} | ({"largest": rng.random() < 0.5} if rng.random() < 0.7 else {})
    values = rng.choice((anything, anything, _few, modest))
    return _look(s, s.builder.add(opcode, None, [s.operand(kind, sizes, values)], attributes))


# ---- batch norm


def _positive(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    return np.asarray(generator.uniform(0.5, 2.0, sizes)).astype(dtype_of(kind))


@family("batch-norm-training batch-norm-inference batch-norm-grad", "narrow float")
def batch_norm(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    sizes = s.sizes(rng.choice((1, 2, 2, 3, 4, 5)))
    feature = rng.randrange(len(sizes))
    column = (sizes[feature],)
    operand, scale = s.operand(kind, sizes, modest), s.operand(kind, column, modest)
    mean, variance = s.operand(kind, column, modest), s.operand(kind, column, _positive)
    operands: list[Instruction] = [operand, scale]
    if opcode == "batch-norm-grad":
        operands += [mean, variance, s.operand(kind, sizes, modest)]
    else:
        operands += [s.operand(kind, column, modest)]
        operands += [mean, variance] if opcode == "batch-norm-inference" else []
    attributes = {"epsilon": rng.choice((0.001, 0.1, 1.0)), "feature_index": feature}
    return _look(s, s.builder.add(opcode, None, operands, attributes))
