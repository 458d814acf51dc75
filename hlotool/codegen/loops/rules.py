"""What the opcodes mean for one element: which elements of the operands it needs, and the node made of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from math import prod
from typing import Annotated

import numpy as np

from hlotool.analysis.fusibility import takes_halves
from hlotool.analysis.indexing import Atom, Condition, Index, constant, delinearize, linearize
from hlotool.analysis.inlining import can_inline
from hlotool.analysis.signs import is_nonpositive
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elements import is_low_precision
from hlotool.codegen.llvm.reduce import reducer
from hlotool.codegen.loops.nodes import Guards, Node, Partial, Scratch, joint_index, variables_of
from hlotool.codegen.loops.trace import Reduction, Request, Rule, Tracer
from hlotool.ir import ELEMENT_TYPES, Instruction, Literal, Shape, UnsupportedError, byte_size, dtype_of

__all__ = [
    "FUSIBLE", "SMALL_CONSTANT", "can_trace", "partial_result", "region_starts", "rule_of", "split_dimension",
]  # fmt: skip

SMALL_CONSTANT: Annotated[int, Threshold("bytes")] = 256
"""Bytes of a constant with different elements that may stand inside a fusion; larger ones must be operands."""

WINDOW_LIMIT: Annotated[int, Threshold("elements")] = 128
"""Elements of a window that is reduced by a loop over it; larger ones deserve an algorithm."""
_LONG: Annotated[int, Threshold("elements")] = 64
"""Of a dimension that is worth dividing among threads, from which on the first is taken."""

Writer = Callable[[Tracer, Instruction, tuple[Index, ...], Guards, int], Rule]

_Element = tuple[Instruction, tuple[Index, ...]]


def _parameter(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    yield from ()
    shape = list(i.shape.leaves())[leaf]
    return t.load(t.slots[i.parameter_number] + leaf, shape, index, guards)


def _constant(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    yield from ()
    literal = i.literal
    if literal.is_splat:
        return t.number(i.shape.element_type, literal.value().reshape(-1)[0])
    if i.shape.byte_size > SMALL_CONSTANT:
        raise UnsupportedError(f"{i.name}: a constant of {i.shape.byte_size} bytes must be an operand of the fusion")
    return t.load(literal, i.shape, index, guards)


def _iota(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    yield from ()
    return t.node("position", i.shape.element_type, index=index[i.attributes["iota_dimension"]])


def _elements(
    operands: Sequence[Instruction], index: tuple[Index, ...], guards: Guards
) -> Generator[Request, Node, list[Node]]:
    """The same element of some operands, and the only one of scalars among them."""
    found = []
    for operand in operands:
        found.append((yield operand, index[: operand.shape.rank], guards, 0))
    return found


def _elementwise(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    operands = yield from _elements(i.operands, index, guards)
    attributes = {k: v for k, v in i.attributes.items() if k in _MEANING}
    if i.opcode == "exponential" and is_nonpositive(i.operands[0]):
        attributes["nonpositive"] = True
    return t.elementwise(i.opcode, i.shape.element_type, *operands, **attributes)


_MEANING = frozenset({"direction", "type", "exponent_bits", "mantissa_bits"})


def _bitcast_convert(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    """Between widths the narrow side has one more, minor dimension, least significant part first; complex numbers are
    their two parts, the real one first."""
    source, target = i.operands[0].shape, i.shape
    have, want = ELEMENT_TYPES[source.element_type].bits, ELEMENT_TYPES[target.element_type].bits
    if takes_halves(i) and i.operands[0].opcode == "parameter":
        return t.load(t.slots[i.operands[0].parameter_number], target, index, guards, packed=True)
    if have > want:
        wheres, number = [index[:-1]], index[-1]
    else:
        wheres, number = [(*index, constant(k)) for k in range(want // have)] if have < want else [index], constant(0)
    words: list[Node] = []
    for where in wheres:
        words += _words(t, (yield i.operands[0], where, guards, 0))
    kind = _PART_TYPES.get(target.element_type, target.element_type)
    parts = [
        t.elementwise("bitcast-convert", kind, _cut(t, words, number * want + half * _width(kind), _width(kind)))
        for half in range(want // _width(kind))
    ]
    return parts[0] if len(parts) == 1 else t.elementwise("complex", target.element_type, *parts)


_PART_TYPES = {"c64": "f32", "c128": "f64"}


def _width(element_type: str) -> int:
    return ELEMENT_TYPES[element_type].bits


def _words(t: Tracer, value: Node) -> list[Node]:
    """The bits of a value as unsigned integers, those of the real part first."""
    if value.kind == "load" and value.type not in _PART_TYPES and value.type != "pred":
        # The bits as they lie in memory: to load an f16 as a float makes signalling NaNs quiet.
        return [t.node("load", f"u{_width(value.type)}", index=value.index, guards=value.guards, slot=value.slot)]
    kind = _PART_TYPES.get(value.type)
    parts = [value] if kind is None else [t.elementwise(opcode, kind, value) for opcode in ("real", "imag")]
    return [t.elementwise("bitcast-convert", f"u{_width(part.type)}", part) for part in parts]


def _cut(t: Tracer, words: list[Node], offset: Index, width: int) -> Node:
    """`width` bits from bit `offset` on of some words of equal size, as an unsigned integer of that width."""
    size, whole = _width(words[0].type), f"u{width}"
    if size < width:  # at a constant place
        found: Node | None = None
        for k in range(width // size):
            word = t.elementwise("convert", whole, words[offset.low // size + k])
            word = t.elementwise("shift-left", whole, word, t.number(whole, k * size)) if k else word
            found = word if found is None else t.elementwise("or", whole, found, word)
        assert found is not None
        return found
    number, place = offset // size, offset % size
    chosen = words[number.low]
    if number.low != number.high:  # of two
        chosen = t.choice((Condition(number, 1, 2),), words[1], words[0])
    if place.high:
        amount = t.node("position", chosen.type, index=place)
        chosen = t.elementwise("shift-right-logical", chosen.type, chosen, amount)
    return chosen if size == width else t.elementwise("convert", whole, chosen)


def _moved(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    """An element of the only operand, that has moved."""
    return (yield i.operands[0], tuple(_MOVES[i.opcode](i, index)), guards, leaf)


def _reverse(i: Instruction, index: Sequence[Index]) -> Iterable[Index]:
    turned, sizes = i.attributes["dimensions"], i.shape.dimensions
    return [x * -1 + (sizes[d] - 1) if d in turned else x for d, x in enumerate(index)]


_MOVES: dict[str, Callable[[Instruction, Sequence[Index]], Iterable[Index]]] = {
    "broadcast": lambda i, index: [index[d] for d in i.attributes["dimensions"]],
    "copy": lambda i, index: index,
    "opt-barrier": lambda i, index: index,
    "reshape": lambda i, index: delinearize(linearize(index, i.shape.dimensions), i.operands[0].shape.dimensions),
    "reverse": _reverse,
    "slice": lambda i, index: [x * s.stride + s.start for x, s in zip(index, i.attributes["slice"], strict=True)],
    "transpose": lambda i, index: [index[i.attributes["dimensions"].index(d)] for d in range(i.shape.rank)],
}
"""Which element of its operand an instruction that only moves elements takes."""


def _bitcast(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    """The same bytes in the same physical order: positions count along the layouts of both sides."""
    source = i.operands[0].shape
    if source.size != i.shape.size or byte_size(source.element_type) != byte_size(i.shape.element_type):
        raise UnsupportedError(f"{i.name}: bitcast from {source} to {i.shape}")
    order, inner = _physical(i.shape), _physical(source)
    position = linearize([index[d] for d in order], [i.shape.dimensions[d] for d in order])
    parts = delinearize(position, [source.dimensions[d] for d in inner])
    logical = sorted(zip(inner, parts, strict=True), key=lambda pair: pair[0])
    value = yield i.operands[0], tuple(part for _, part in logical), guards, 0
    if source.element_type == i.shape.element_type:
        return value
    return t.elementwise("bitcast-convert", i.shape.element_type, value)


def _physical(shape: Shape) -> tuple[int, ...]:
    return tuple(range(shape.rank)) if shape.layout is None else shape.layout.minor_to_major[::-1]


def _pad(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    source, conditions = [], []
    for x, p, size in zip(index, i.attributes["padding"], i.operands[0].shape.dimensions, strict=True):
        x = x - p.low
        if p.interior:
            conditions.append(Condition(x % (p.interior + 1), 0, 1))
            x = x // (p.interior + 1)
        conditions.append(Condition(x, 0, size))
        source.append(x)
    return (yield from _inside(t, guards, conditions, (i.operands[0], tuple(source)), (i.operands[1], ())))


def _inside(t: Tracer, guards: Guards, conditions: Iterable[Condition], inside: _Element, outside: _Element) -> Rule:
    """The element `inside` where all conditions hold, else that `outside`."""
    own = tuple(c for c in conditions if not c.always)
    if any(c.never for c in own):
        return (yield *outside, guards, 0)
    value = yield *inside, _and(guards, own), 0
    return t.choice(own, value, (yield *outside, guards, 0), "source") if own else value


def _and(guards: Guards, more: Guards) -> Guards:
    return guards + tuple(c for c in more if c not in guards)


def _concatenate(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    (d,) = i.attributes["dimensions"]
    start = 0
    result: Node | None = None
    for operand in i.operands:
        size = operand.shape.dimensions[d]
        inside = Condition(index[d], start, start + size)
        if not inside.never:
            own = () if inside.always else (inside,)
            source = (*index[:d], index[d] - start, *index[d + 1 :])
            value = yield operand, source, _and(guards, own), 0
            result = value if result is None or not own else t.choice(own, value, result, "source")
        start += size
    assert result is not None
    return result


def _starts(i: Instruction, first: int, part: Shape) -> Iterator[tuple[Request, int]]:
    """The start indices from operand `first` on (scalars, or one vector), each with its largest value at which `part`
    fits the first operand."""
    for d, (size, whole) in enumerate(zip(part.dimensions, i.operands[0].shape.dimensions, strict=True)):
        vector = i.operands[first].shape.rank == 1
        yield (i.operands[first if vector else first + d], (constant(d),) if vector else (), (), 0), whole - size


def _dynamic_slice(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    source = []
    for x, (start, most) in zip(index, _starts(i, 1, i.shape), strict=True):
        source.append(x + t.clamped((yield start), 0, most))
    return (yield i.operands[0], tuple(source), guards, 0)


def _dynamic_update_slice(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    whole, update = i.operands[:2]
    if not whole.shape.rank:
        return (yield update, index, guards, 0)
    starts = []
    for start, most in _starts(i, 2, update.shape):
        starts.append(t.clamped((yield start), 0, most))
    if not update.shape.size:
        return (yield whole, index, guards, 0)
    source = tuple(x - s for x, s in zip(index, starts, strict=True))
    conditions = (Condition(x, 0, n) for x, n in zip(source, update.shape.dimensions, strict=True))
    return (yield from _inside(t, guards, conditions, (update, source), (whole, index)))


def _gather(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    a = i.attributes
    operand, starts = i.operands
    if not operand.shape.size:  # windows of collapsed dimensions without elements
        return t.number(i.shape.element_type, np.zeros((), dtype_of(i.shape.element_type))[()])
    sizes, vector_dim = a["slice_sizes"], a["index_vector_dim"]
    batching = tuple(a.get("operand_batching_dims", ()))
    start_batching = tuple(a.get("start_indices_batching_dims", ()))
    offset_dims = a["offset_dims"]
    batch = [x for d, x in enumerate(index) if d not in offset_dims]
    source: list[Index] = [constant(0)] * operand.shape.rank
    kept = [d for d in range(operand.shape.rank) if d not in a["collapsed_slice_dims"] and d not in batching]
    for d, o in zip(kept, sorted(offset_dims), strict=True):
        source[d] = index[o]
    for d, s in zip(batching, start_batching, strict=True):
        source[d] = batch[s if s < vector_dim else s - 1]
    for k, d in enumerate(a["start_index_map"]):
        where = list(batch)
        if vector_dim < starts.shape.rank:
            where.insert(vector_dim, constant(k))
        start = yield starts, tuple(where), guards, 0
        source[d] = source[d] + t.clamped(start, 0, operand.shape.dimensions[d] - sizes[d])
    return (yield operand, tuple(source), guards, 0)


def _reduce(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    """All results of a reduction have the same loops and operands."""
    known = t.reductions.get((i, index, guards))
    if known is None:
        known = t.reductions[i, index, guards] = yield from _reduction_loops(t, i, index, guards)
    operands, bound, outer, valid = known
    if not i.operands[0].shape.size:
        return operands[leaf]
    if outer:
        return _in_parts(t, i, operands, bound, outer, valid, leaf)
    return _reduction(t, i, operands, bound, (), leaf)


def _reduction_loops(
    t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards
) -> Generator[Request, Node, Reduction]:
    """The operands of a reduction, the variables that it binds, those that part it, and where there is an element."""
    count = len(i.operands) // 2
    shape = i.operands[0].shape
    taken = variables_of((*index, *(g.index for g in guards)))
    bound: list[Atom] = []
    source: list[Index] = []
    outer: tuple[Atom, ...] = ()
    valid: Guards = ()
    kept = iter(index)
    divided = split_dimension(i) if i in t.parts else None
    for d, size in enumerate(shape.dimensions):
        if d not in i.attributes["dimensions"]:
            source.append(next(kept))
            continue
        part, size_of_part = constant(0), size
        if d == divided:
            size_of_part = -(-size // t.parts[i])
            part, outer = t.dimension(t.parts[i], taken)
            taken |= variables_of(outer)
        own, atoms = t.dimension(size_of_part, taken)
        own = own + part * size_of_part
        if own.high >= size:
            valid = (Condition(own, 0, size),)
        source.append(own)
        bound += [a for a in atoms if a.high]
        taken |= variables_of(atoms)
    inputs = i.operands[: count if shape.size else 0]
    operands = yield from _elements(inputs, tuple(source), _and(guards, valid))
    operands += yield from _elements(i.operands[count:], (), guards)
    return tuple(operands), tuple(bound), outer, valid


def can_split(reduce: Instruction) -> bool:
    """Whether parts of a reduction may be done at the same time.

    Where what comes first matters (see `reduce`) no reduced dimension may be outside the one that is divided; parts
    are joined in order.
    """
    operands = reduce.operands[: len(reduce.operands) // 2]
    kinds = [o.shape.element_type for o in operands]
    how = reducer(reduce.attributes["to_apply"], kinds, range(len(kinds)))
    if how.place is None:
        return not how.in_order
    sizes, divided = operands[0].shape.dimensions, split_dimension(reduce)
    return all(sizes[d] == 1 for d in reduce.attributes["dimensions"] if d < divided)


def split_dimension(reduce: Instruction) -> int:
    """The dimension that a reduction in parts divides: the first long reduced one."""
    sizes = reduce.operands[0].shape.dimensions
    gone = sorted(reduce.attributes["dimensions"])
    longest: int = max(gone, key=lambda d: sizes[d])
    return next((d for d in gone if sizes[d] >= _LONG), longest)


def _in_parts(
    t: Tracer, i: Instruction, operands: tuple[Node, ...], bound: tuple[Atom, ...], outer: tuple[Atom, ...],
    valid: Guards, leaf: int,
) -> Node:  # fmt: skip
    """Reduce each part to scratch first; what stays here is the reduction of the partial results."""
    count = len(operands) // 2
    how = reducer(i.attributes["to_apply"], [o.type for o in operands[:count]])
    inputs, initial = list(operands[:count]), list(operands[count:])
    first = list(initial)
    if how.opcodes:
        inputs, initial = (
            [n if n.type == k else t.elementwise("convert", k, n) for n, k in zip(nodes, how.types, strict=True)]
            for nodes in (inputs, initial)
        )
        neutral = zip(how.types, how.neutral_numbers(), strict=True)
        first = [t.number("f32" if is_low_precision(k) else k, number) for k, number in neutral]
    leaves = [_reduction(t, i, (*inputs, *first), bound, valid, k) for k in range(count)]
    loads = [partial_result(t, value, outer) for value in leaves]
    total = _reduction(t, i, (*loads, *initial), outer, (), leaf)
    wanted = list(i.shape.leaves())[leaf].element_type
    return total if total.type == wanted else t.elementwise("convert", wanted, total)


def partial_result(t: Tracer, value: Node, outer: tuple[Atom, ...]) -> Node:
    """The load of a value that is to be stored in scratch first, for all settings of `outer` and its other atoms."""
    atoms = (*outer, *sorted((a for a in value.atoms if a not in outer), key=lambda a: a.variables))
    position = joint_index(atoms)
    known = next((p for p in t.partials if p.value is value), None)
    if known is None:
        known = Partial(value, position, Scratch(t.scratch), atoms)
        t.scratch += -(-(position.high + 1) * byte_size(value.type) // 64) * 64
        t.partials.append(known)
    return t.node("load", value.type, index=position, slot=known.slot)


def _reduction(
    t: Tracer, i: Instruction, operands: tuple[Node, ...], bound: tuple[Atom, ...], valid: Guards, leaf: int
) -> Node:
    kind = operands[0].type if len(operands) == 2 else "tuple"
    whole = t.node("reduce", kind, operands, computation=i.attributes["to_apply"], bound=bound, guards=valid, slot=i)
    return whole if kind != "tuple" else t.node("leaf", operands[leaf].type, (whole,), slot=leaf)


def _reduce_window(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    count = len(i.operands) // 2
    shape = i.operands[0].shape
    taken = variables_of((*index, *(g.index for g in guards)))
    bound: list[Atom] = []
    source: list[Index] = []
    conditions: list[Condition] = []
    for x, w, size in zip(index, i.attributes["window"].dimensions, shape.dimensions, strict=True):
        own, atoms = t.dimension(w.size, taken)
        bound += [a for a in atoms if a.high]
        taken |= variables_of(atoms)
        x = x * w.stride + own * w.window_dilation - w.padding_low
        if w.base_dilation > 1:
            conditions.append(Condition(x % w.base_dilation, 0, 1))
            x = x // w.base_dilation
        conditions.append(Condition(x, 0, size))
        source.append(x)
    valid = tuple(c for c in conditions if not c.always)
    if any(c.never for c in valid):
        return (yield i.operands[count + leaf], (), guards, 0)
    operands = yield from _elements(i.operands[:count], tuple(source), _and(guards, valid))
    operands += yield from _elements(i.operands[count:], (), guards)
    return _reduction(t, i, tuple(operands), tuple(bound), valid, leaf)


def _get_tuple_element(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    before = i.operands[0].shape.elements[: i.attributes["index"]]
    first = sum(1 for e in before for _ in e.leaves())
    return (yield i.operands[0], index, guards, first + leaf)


def _tuple(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    for operand in i.operands:
        count = sum(1 for _ in operand.shape.leaves())
        if leaf < count:
            return (yield operand, index, guards, leaf)
        leaf -= count
    raise IndexError(f"{i.name} has no such leaf")


def _map(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    operands = yield from _elements(i.operands, index, guards)
    return t.node("inline", i.shape.element_type, tuple(operands), computation=i.attributes["to_apply"])


_RULES: dict[str, Writer] = {
    **dict.fromkeys(_MOVES, _moved),
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast_convert,
    "concatenate": _concatenate,
    "constant": _constant,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": _get_tuple_element,
    "iota": _iota,
    "map": _map,
    "pad": _pad,
    "parameter": _parameter,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "tuple": _tuple,
}

FUSIBLE: frozenset[str] = frozenset(_RULES)
"""Opcodes with a rule of their own; every elementwise opcode may stand in a fusion as well."""


def region_starts(t: Tracer, update: Instruction) -> list[Index]:
    """Where the region of a dynamic-update-slice begins."""
    return [t.clamped(t.element(*start), 0, most) for start, most in _starts(update, 2, update.operands[1].shape)]


def rule_of(instruction: Instruction) -> Writer:
    """The rule of an instruction; UnsupportedError when it cannot be computed inside a loop."""
    rule = _RULES.get(instruction.opcode)
    if rule is None and instruction.has("elementwise"):
        return _elementwise
    if rule is None:
        raise UnsupportedError(f"{instruction.name}: {instruction.opcode} cannot stand inside a fused loop")
    return rule


def can_trace(instruction: Instruction) -> bool:
    """Whether one element of `instruction` can be computed inside a loop."""
    leaves = list(instruction.shape.leaves())
    if not all(leaf.is_array and not any(leaf.dynamic) and min(leaf.dimensions, default=0) >= 0 for leaf in leaves):
        return False
    match instruction.opcode:
        case "constant":
            small = instruction.shape.is_array and instruction.shape.byte_size <= SMALL_CONSTANT
            return isinstance(instruction.literal, Literal) and (small or instruction.literal.is_splat)
        case "reduce" | "map" | "reduce-window":
            window = instruction.attributes.get("window")
            few = window is None or prod(w.size for w in window.dimensions) <= WINDOW_LIMIT
            return few and can_inline(instruction.attributes["to_apply"])
        case "bitcast":
            source, target = instruction.operands[0].shape, instruction.shape
            return source.size == target.size and byte_size(source.element_type) == byte_size(target.element_type)
    return instruction.opcode in _RULES or instruction.has("elementwise")
