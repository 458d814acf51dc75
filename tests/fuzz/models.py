"""Mutations of whole models that leave them valid: other shapes, types, layouts, trip counts, windows, splices.

A mutation changes one instruction, whose result is then fitted to the shape that its users expect (converted, cut,
padded, reshaped), or changes a number or a type everywhere.  Mutant number N of a seed and a pool is always the same
text.  ``python -m tests.fuzz.model_sweep`` judges many of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

from hlotool.ir import ELEMENT_TYPES, Computation, HloError, Instruction, Layout, Module, Shape, array, tuple_shape
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.builder import Builder
from hlotool.ir.module import clone_computation
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["MUTATIONS", "fit", "mutant"]

_UNARY = (
    "abs", "negate", "exponential", "tanh", "logistic", "cosine", "sine", "sqrt", "rsqrt", "log", "sign", "floor",
    "ceil", "cbrt", "erf", "exponential-minus-one", "log-plus-one", "round-nearest-even", "tan",
)  # fmt: skip
_BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "divide", "power", "atan2", "remainder"]
_LOGICAL = ["and", "or", "xor"]
_DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
_FLOATS = ["f32", "f32", "bf16", "f16", "f64"]
_TYPES = [*_FLOATS, "s32", "s8", "u8", "u32", "s64", "pred", "f8e4m3fn", "c64", "s16"]
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129)
_LARGEST = 400_000
"""Elements of a result."""


# ---- fitting


def fit(build: Builder, value: Instruction, shape: Shape) -> Instruction:
    """An array of `shape`, with elements of `value`; zeros fill what is left."""
    kind = shape.element_type
    own, wanted = ELEMENT_TYPES[value.shape.element_type], ELEMENT_TYPES[kind]
    if own.is_complex and not wanted.is_complex:
        value = build.unary("real", value)
    if value.shape.element_type != kind:
        value = build.convert(value, kind)
    sizes = shape.dimensions
    if value.shape.dimensions == sizes:
        return value
    if value.shape.size == prod(sizes):
        return build.reshape(value, sizes)
    if value.shape.rank != len(sizes):
        value = build.reshape(value, (value.shape.size,))
        flat = _cut(build, value, (prod(sizes),))
        return flat if len(sizes) == 1 else build.reshape(flat, sizes)
    return _cut(build, value, sizes)


def _cut(build: Builder, value: Instruction, sizes: Sequence[int]) -> Instruction:
    own = value.shape.dimensions
    kept = [min(m, n) for m, n in zip(own, sizes, strict=True)]
    if tuple(kept) != own:
        value = build.slice(value, [0] * len(kept), kept)
    if kept != list(sizes):
        zero = build.scalar_constant(0, value.shape.element_type)
        value = build.pad(value, zero, [(0, n - m, 0) for m, n in zip(kept, sizes, strict=True)])
    return value


def _put(rng: Random, old: Instruction, opcode: str, operands: Sequence[Instruction], attributes: Any) -> None:
    """Another operation in the place of `old`, its result fitted."""
    assert old.parent is not None
    build = Builder(old.parent, before=old)
    new = build.add(opcode, None, operands, attributes)
    if new.shape.size > _LARGEST:
        raise _NotHereError
    _stand_in(old, fit(build, new, old.shape))


def _stand_in(old: Instruction, new: Instruction) -> None:
    old.replace_all_uses(new)


class _NotHereError(Exception):
    """The mutation does not fit the module."""


# ---- choices


def _arrays(module: Module, *opcodes: str) -> list[Instruction]:
    """Instructions with one static array as a result, of computations that work on arrays."""
    found = []
    for computation in module.computations.values():
        if (
            all(p.shape.is_array and not p.shape.rank for p in computation.parameters)
            and computation is not module.entry
        ):
            continue
        own = [i for i in computation if i.opcode != "parameter" and i.shape.is_array and i.shape.is_static]
        found += [i for i in own if not opcodes or i.opcode in opcodes]
    return found


def _one(rng: Random, found: Sequence[Instruction]) -> Instruction:
    if not found:
        raise _NotHereError
    return rng.choice(found)


def _before(instruction: Instruction) -> list[Instruction]:
    assert instruction.parent is not None
    found = []
    for other in instruction.parent:
        if other is instruction:
            break
        if other.shape.is_array and other.shape.is_static:
            found.append(other)
    return found


# ---- mutations of one instruction


def _reduce_dimensions(rng: Random, module: Module, other: str) -> None:
    old = _one(rng, [i for i in _arrays(module, "reduce") if len(i.operands) == 2])
    rank = old.operands[0].shape.rank
    chosen = sorted(rng.sample(range(rank), rng.randint(0 if rng.random() < 0.1 else min(1, rank), rank)))
    _put(rng, old, "reduce", old.operands, {**old.attributes, "dimensions": tuple(chosen)})


def _permutation(rng: Random, module: Module, other: str) -> None:
    old = _one(rng, _arrays(module, "transpose", "reverse", "concatenate", "iota", "broadcast"))
    build = Builder(old.parent, before=old)  # type: ignore[arg-type]
    rank = old.shape.rank
    match old.opcode:
        case "transpose":
            order = list(range(rank))
            rng.shuffle(order)
            new = build.transpose(old.operands[0], order)
        case "reverse":
            new = build.reverse(old.operands[0], sorted(rng.sample(range(rank), rng.randint(0, rank))))
        case "concatenate":
            dimension = rng.randrange(rank)
            first = old.operands[0].shape.dimensions
            parts = []
            for o in old.operands:
                size = o.shape.dimensions[dimension]
                parts.append(
                    fit(build, o, array(o.shape.element_type, (*first[:dimension], size, *first[dimension + 1 :])))
                )
            new = build.concatenate(parts, dimension)
        case "iota":
            if not rank:
                raise _NotHereError
            new = build.iota(old.shape, rng.randrange(rank))
        case _:
            inner = old.operands[0].shape.rank
            chosen = sorted(rng.sample(range(rank), inner))
            sizes = tuple(old.shape.dimensions[d] for d in chosen)
            given = fit(build, old.operands[0], array(old.shape.element_type, sizes))
            new = build.broadcast(given, chosen, old.shape)
    _stand_in(old, fit(build, new, old.shape))


def _window(rng: Random, module: Module, other: str) -> None:
    old = _one(rng, [i for i in _arrays(module, "reduce-window", "convolution") if "window" in i.attributes])
    window: Window = old.attributes["window"]
    rows = list(window.dimensions)
    if not rows:
        raise _NotHereError
    at = rng.randrange(len(rows))
    row = rows[at]
    change: dict[str, Any] = rng.choice((
        {"stride": rng.choice((1, 2, 3, 4))}, {"padding_low": rng.randint(-1, 4)}, {"padding_high": rng.randint(-1, 4)},
        {"base_dilation": rng.choice((1, 2, 3))}, {"window_dilation": rng.choice((1, 2, 3))},
        {"reversal": not row.reversal} if old.opcode == "convolution" else {"size": rng.choice((1, 2, 3, 5, 9))},
        {"size": rng.choice((1, 2, 3, 4, 7))} if old.opcode != "convolution" else {"stride": rng.choice((1, 2))},
    ))  # fmt: skip
    rows[at] = replace(row, **change)
    assert isinstance(rows[at], WindowDimension)
    _put(rng, old, old.opcode, old.operands, {**old.attributes, "window": Window(tuple(rows))})


def _operation(rng: Random, module: Module, other: str) -> None:
    """Another elementwise operation, reducers included; the orders of sorts stay orders."""
    orders = {c for i in module.instructions() if i.opcode == "sort" for c in i.called}
    found = [
        i
        for i in module.instructions()
        if i.opcode in {*_UNARY, *_BINARY, *_LOGICAL, "compare"} and i.parent not in orders
    ]
    old = _one(rng, [i for i in found if i.shape.is_array and i.shape.is_static])
    kind = ELEMENT_TYPES[old.operands[0].shape.element_type]
    if old.opcode == "compare":
        old.attributes["direction"] = rng.choice(_DIRECTIONS)
        return
    if not kind.is_float:
        pool = _LOGICAL if kind.kind == "pred" else ["add", "subtract", "multiply", "maximum", "minimum", *_LOGICAL]
        if len(old.operands) != 2 or kind.is_complex:
            raise _NotHereError
    else:
        pool = _UNARY if len(old.operands) == 1 else _BINARY
    assert old.parent is not None
    new = Builder(old.parent, before=old).add(rng.choice(pool), old.shape, old.operands)
    _stand_in(old, new)


def _narrow(rng: Random, module: Module, other: str) -> None:
    """An operation in another type, converted before and after."""
    old = _one(rng, _arrays(module, *_UNARY, *_BINARY, "dot", "transpose", "reverse", "select"))
    kind = rng.choice(_FLOATS)
    assert old.parent is not None
    if not ELEMENT_TYPES[old.shape.element_type].is_float:
        raise _NotHereError
    build = Builder(old.parent, before=old)
    operands = [o if o.shape.element_type == "pred" else fit(build, o, o.shape.with_type(kind)) for o in old.operands]
    attributes = {k: v for k, v in old.attributes.items() if k not in ("algorithm",)}
    new = build.add(old.opcode, None, operands, attributes)
    _stand_in(old, fit(build, new, old.shape))


def _rewire(rng: Random, module: Module, other: str) -> None:
    """An operand from elsewhere in the computation."""
    old = _one(rng, [i for i in _arrays(module) if i.operands])
    assert old.parent is not None
    places = [n for n, o in enumerate(old.operands) if o.shape.is_array and o.shape.is_static]
    if not places:
        raise _NotHereError
    at = rng.choice(places)
    value = _one(rng, _before(old))
    old.replace_operand(at, fit(Builder(old.parent, before=old), value, old.operands[at].shape))


def _constant(rng: Random, module: Module, other: str) -> None:
    """An operand that is a number, or counts."""
    old = _one(rng, [i for i in _arrays(module) if i.operands])
    assert old.parent is not None
    at = rng.randrange(len(old.operands))
    shape = old.operands[at].shape
    if not shape.is_array or not shape.is_static:
        raise _NotHereError
    build = Builder(old.parent, before=old)
    row = ELEMENT_TYPES[shape.element_type]
    if shape.rank and row.kind != "pred" and not row.is_complex and rng.random() < 0.3:
        new = build.iota(shape, rng.randrange(shape.rank))
    else:
        values = (0, 1, -1, 2, 0.5, -0.0, 1e-3, 3) if row.is_float else (0, 1, 2, 3) if row.kind != "pred" else (0, 1)
        new = build.splat(rng.choice(values), shape)
    old.replace_operand(at, new)


def _trips(rng: Random, module: Module, other: str) -> None:
    """An integer constant, mostly one that a loop counts to."""
    conditions = {i.attributes["condition"] for i in module.instructions() if i.opcode == "while"}
    found = [i for i in module.instructions() if i.opcode == "constant" and i.shape.is_scalar]
    found = [i for i in found if ELEMENT_TYPES[i.shape.element_type].is_integer]
    old = _one(rng, [i for i in found if i.parent in conditions] or found)
    assert old.parent is not None
    number = int(old.literal.value())
    new = rng.choice((0, 1, 2, 3, 4, 5, 7, 8, max(0, number - 1), min(number + 1, 100)))
    _stand_in(old, Builder(old.parent, before=old).scalar_constant(new, old.shape.element_type))


def _slices(rng: Random, module: Module, other: str) -> None:
    """Cut a value and fit it again: with strides, reversed, padded, rolled."""
    old = _one(rng, [i for i in _arrays(module) if i.shape.rank and i.users])
    build = Builder(old.parent, before=old._next)  # type: ignore[arg-type]
    users = [(u, n) for u in old.users for n, o in enumerate(u.operands) if o is old]
    sizes = old.shape.dimensions
    new = old
    match rng.randrange(4):
        case 0:
            starts = [rng.randrange(max(1, n)) for n in sizes]
            new = build.slice(old, starts, sizes, [rng.choice((1, 1, 2, 3)) for _ in sizes])
        case 1:
            zero = build.scalar_constant(1, old.shape.element_type)
            new = build.pad(old, zero, [(rng.randint(-1, 3), rng.randint(0, 3), rng.choice((0, 0, 1))) for _ in sizes])
        case 2:
            at = rng.randrange(len(sizes))
            by = rng.randrange(max(1, sizes[at]))
            middle = [by if d == at else 0 for d in range(len(sizes))]
            ends = [by if d == at else n for d, n in enumerate(sizes)]
            new = build.concatenate([build.slice(old, middle, sizes), build.slice(old, [0] * len(sizes), ends)], at)
        case _:
            order = list(range(len(sizes)))
            rng.shuffle(order)
            new = build.transpose(old, order)
    if new.shape.size > _LARGEST:
        raise _NotHereError
    new = fit(build, new, old.shape)
    user, place = rng.choice(users)
    user.replace_operand(place, new)


# ---- mutations of the whole


def _outputs(rng: Random, module: Module, other: str) -> None:
    """Some values of the entry are results as well, or other ones than before."""
    entry = module.entry
    values = [i for i in entry if i.shape.is_array and i.shape.is_static]
    build = Builder(entry)
    old = [] if rng.random() < 0.3 else [entry.root]
    chosen = rng.sample(values, min(len(values), rng.randint(1, 3)))
    entry.root = build.tuple([*old, *chosen])


def _layouts(rng: Random, module: Module, other: str) -> None:
    for instruction in _arrays(module):
        if (
            instruction.shape.rank > 1
            and rng.random() < 0.5
            and instruction.opcode not in ("bitcast", "bitcast-convert")
        ):
            order = list(range(instruction.shape.rank))
            rng.shuffle(order)
            instruction.shape = instruction.shape.with_layout(Layout(tuple(order)))
    for parameter in module.entry.parameters:
        if parameter.shape.is_array and parameter.shape.rank > 1 and rng.random() < 0.3:
            order = list(range(parameter.shape.rank))
            rng.shuffle(order)
            parameter.shape = parameter.shape.with_layout(Layout(tuple(order)))


def _splice(rng: Random, module: Module, other: str) -> None:
    """Another module is called on values of this one, and its results are used."""
    old = _one(rng, [i for i in _arrays(module) if i.operands])
    assert old.parent is not None
    guest = parse(other)
    mapping: dict[Computation, Computation] = {}
    for computation in guest.callees_first():
        mapping[computation] = clone_computation(computation, name=module.unique_name("guest"), called=mapping)
        for instruction in mapping[computation]:
            instruction.name = ""
        module.add(mapping[computation])
    called = mapping[guest.entry]
    if not all(p.shape.is_array and p.shape.is_static for p in called.parameters):
        raise _NotHereError
    build = Builder(old.parent, before=old)
    values = _before(old)
    given = [fit(build, rng.choice(values), p.shape) if values else build.splat(1, p.shape) for p in called.parameters]
    made = build.call(called, given)
    leaves = (
        [made] if made.shape.is_array else [build.gte(made, n) for n, s in enumerate(made.shape.elements) if s.is_array]
    )
    at = rng.choice([n for n, o in enumerate(old.operands) if o.shape.is_array and o.shape.is_static] or [-1])
    if at < 0 or not leaves:
        raise _NotHereError
    old.replace_operand(at, fit(build, rng.choice(leaves), old.operands[at].shape))


def _loop(rng: Random, module: Module, other: str) -> None:
    """The entry becomes the body of a loop: its results are its next arguments."""
    inner = module.entry
    shapes = [p.shape for p in inner.parameters]
    if not shapes or not all(s.is_array and s.is_static for s in shapes):
        raise _NotHereError
    result = inner.root.shape
    outs = [result] if result.is_array else list(result.elements)
    if not outs or not all(s.is_array and s.is_static for s in outs):
        raise _NotHereError
    state = tuple_shape([array("s32"), *shapes, *outs])
    trips = rng.choice((0, 1, 2, 3, 5))
    body, condition, entry = (Computation(module.unique_name(n)) for n in ("turn", "more", "around"))
    build = Builder(condition)
    p = build.parameter(0, state)
    condition.root = build.compare(build.gte(p, 0), build.scalar_constant(trips, "s32"), "LT")
    build = Builder(body)
    p = build.parameter(0, state)
    given = [build.gte(p, 1 + n) for n in range(len(shapes))]
    made = build.call(inner, given)
    leaves = [made] if result.is_array else [build.gte(made, n) for n in range(len(outs))]
    following = build.binary("add", build.gte(p, 0), build.scalar_constant(1, "s32"))
    floats = [n for n, s in enumerate(shapes) if ELEMENT_TYPES[s.element_type].is_float]
    for n in rng.sample(floats, min(len(floats), rng.randint(0, 2))):
        given[n] = build.unary("tanh", fit(build, rng.choice(leaves), shapes[n]))
    body.root = build.tuple([following, *given, *leaves])
    build = Builder(entry)
    arguments = [build.parameter(n, s) for n, s in enumerate(shapes)]
    start = build.tuple([build.scalar_constant(0, "s32"), *arguments, *(build.splat(0, s) for s in outs)])
    made = build.while_(start, condition, body)
    entry.root = build.tuple([build.gte(made, 1 + len(shapes) + n) for n in range(len(outs))])
    for computation in (condition, body):
        module.add(computation)
    module.add(entry, entry=True)


def _branch(rng: Random, module: Module, other: str) -> None:
    """The entry becomes a branch of a conditional; the other gives zeros."""
    inner = module.entry
    shapes, result = [p.shape for p in inner.parameters], inner.root.shape
    outs = [result] if result.is_array else list(result.elements)
    if not shapes or not all(s.is_array and s.is_static for s in (*shapes, *outs)):
        raise _NotHereError
    one, zeros, entry = (Computation(module.unique_name(n)) for n in ("one", "zeros", "around"))
    build = Builder(one)
    p = build.parameter(0, tuple_shape(shapes))
    one.root = build.call(inner, [build.gte(p, n) for n in range(len(shapes))])
    build = Builder(zeros)
    p = build.parameter(0, tuple_shape(shapes))
    made = [fit(build, build.gte(p, rng.randrange(len(shapes))), s) for s in outs]
    zeros.root = made[0] if result.is_array else build.tuple(made)
    build = Builder(entry)
    arguments = [build.parameter(n, s) for n, s in enumerate(shapes)]
    flat = fit(build, rng.choice(arguments), array("s32"))
    if ELEMENT_TYPES[arguments[0].shape.element_type].is_complex:
        raise _NotHereError
    number = build.compare(flat, build.scalar_constant(0, "s32"), rng.choice(("GT", "LE")))
    given = build.tuple(arguments)
    attributes = {"true_computation": one, "false_computation": zeros}
    entry.root = build.add("conditional", result, (number, given, given), attributes)
    for computation in (one, zeros):
        module.add(computation)
    module.add(entry, entry=True)


InPlace = Callable[[Random, Module, str], None]
MUTATIONS: tuple[InPlace, ...] = (
    _reduce_dimensions, _permutation, _window, _operation, _operation, _narrow, _rewire, _constant, _trips, _slices,
    _slices, _outputs, _outputs, _layouts, _splice, _splice, _loop, _branch,
)  # fmt: skip


# ---- mutations of the text

_BRACKET = re.compile(r"(?<=[\w])\[([\d,]+)\]")
_SLICE = re.compile(r"slice=\{[^}]*\}|(?:dynamic_slice_sizes|slice_sizes)=\{[\d,]*\}")
_TYPE = re.compile(r"\b[a-z]\w*(?=\[)")


def _size(rng: Random, text: str) -> str:
    """A size, and its multiples, everywhere."""
    sizes = sorted({int(n) for dims in _BRACKET.findall(text) for n in dims.split(",") if n} - {0, 1})
    if not sizes:
        raise _NotHereError
    old, new = rng.choice(sizes), rng.choice(_SIZES)

    def number(match: re.Match[str]) -> str:
        n = int(match.group())
        return str(n // old * new) if n and n % old == 0 and (n == old or old > 4) else match.group()

    def piece(match: re.Match[str]) -> str:
        return re.sub(r"\d+", number, match.group())

    text = _BRACKET.sub(piece, text)
    text = _SLICE.sub(piece, text)
    if max((prod(int(n) for n in dims.split(",") if n) for dims in _BRACKET.findall(text)), default=0) > _LARGEST:
        raise _NotHereError
    return text


def _kind(rng: Random, text: str) -> str:
    """An element type, everywhere."""
    kinds = sorted({k for k in _TYPE.findall(text) if k in ELEMENT_TYPES})
    if not kinds:
        raise _NotHereError
    old = rng.choice(kinds)
    new = rng.choice(_FLOATS if ELEMENT_TYPES[old].is_float and rng.random() < 0.8 else _TYPES)
    return re.sub(rf"\b{old}(?=\[)", new, text)


# ---- mutants


def _bare(module: Module) -> None:
    """Without what would have to follow every change."""
    for name in ("entry_computation_layout", "input_output_alias", "buffer_donor"):
        module.attributes.pop(name, None)
    for instruction in module.instructions():
        instruction.metadata = None
        for name in ("sharding", "frontend_attributes", "statistics"):
            instruction.attributes.pop(name, None)


def mutant(pool: Sequence[str], seed: int, number: int) -> str | None:
    """Mutant `number` of a seed: a text that verifies, or None where the mutations do not fit the model."""
    rng = Random(f"{seed}/{number}")
    text = rng.choice(pool)
    try:
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            text = rng.choice((_size, _size, _kind))(rng, text)
        module = parse(text)
        _bare(module)
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            try:
                rng.choice(MUTATIONS)(rng, module, rng.choice(pool))
            except (_NotHereError, HloError):
                continue
        module.remove_unreachable()
        text = print_module(module)
        if verify(parse(text)):
            return None
    except (_NotHereError, HloError):
        return None
    return text
