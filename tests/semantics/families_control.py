"""Tuples, tokens, calls, branches, loops, asynchronous pairs, collectives, queues and custom calls, of every type.

What these opcodes do moves values or decides what runs, so that everything must agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from hlotool.evaluate.custom_call import CustomCall
from hlotool.evaluate.custom_calls import register_custom_call
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Shape, array, scalar, token, tuple_shape
from hlotool.ir.attributes import Aliasing, ReplicaGroups, Verbatim
from hlotool.ir.builder import Builder
from semantics.sample import Sample, family
from semantics.values import Array, anything, within

Sizes = tuple[int, ...]


def _mix(build: Builder, rng: Random, values: Sequence[Instruction], steps: int = 2) -> Instruction:
    """Something exact of arrays of one shape, in which every one may matter."""
    made = list(values)
    for _ in range(steps):
        a, b = rng.choice(made), rng.choice(made)
        kind = ELEMENT_TYPES[a.shape.element_type].kind
        match rng.randrange(4):
            case 0:
                made.append(build.select(build.compare(a, b, rng.choice(("EQ", "NE"))), a, rng.choice(made)))
            case 1 if a.shape.dimensions:
                made.append(build.reverse(a, [rng.randrange(a.shape.rank)]))
            case 2 if kind in ("pred", "signed", "unsigned"):
                made.append(build.unary("not", a))
            case 3 if kind != "pred" and a.shape.element_type != "f8e8m0fnu":  # which has no sign
                made.append(build.unary("negate", a))
            case _:
                made.append(build.copy(a))
    return made[-1]


def _mixture(s: Sample, shapes: Sequence[Shape]) -> Computation:
    """A computation of arrays of one shape."""
    return s.computation(shapes, lambda build, parameters: _mix(build, s.rng, parameters, s.rng.randint(0, 3)))


def _nested(s: Sample, kind: str, depth: int = 2) -> Shape:
    """A tuple of arrays, tokens and tuples, now and then empty."""
    elements: list[Shape] = []
    for _ in range(s.rng.choice((0, 1, 2, 3, 3))):
        if depth > 0 and s.rng.random() < 0.4:
            elements.append(_nested(s, kind, depth - 1))
        else:
            elements.append(token() if s.rng.random() < 0.1 else array(kind, s.sizes(most=20)))
    return tuple_shape(elements)


def _leaves(build: Builder, value: Instruction) -> list[Instruction]:
    """All array leaves of a value, taken out one by one."""
    if not value.shape.is_tuple:
        return [value] if value.shape.is_array else []
    parts = [build.gte(value, index) for index in range(len(value.shape.elements))]
    return [leaf for part in parts for leaf in _leaves(build, part)]


# ---- tuples and tokens


@family("tuple get-tuple-element parameter", "all", ulps=0)
def tuples(s: Sample, opcode: str, kind: str) -> Instruction:
    """Parts of a nested parameter, put together in another nesting."""
    build = s.builder
    whole = s.parameter(tuple_shape([_nested(s, kind), array(kind, s.sizes(most=30))]))
    leaves = _leaves(build, whole)
    s.rng.shuffle(leaves)
    half = len(leaves) // 2
    inner = build.tuple([*leaves[:half], build.tuple([])])
    return build.tuple([inner, *leaves[half:], *([whole] if s.rng.random() < 0.5 else [])])


@family("after-all add-dependency", "all", ulps=0)
def tokens(s: Sample, opcode: str, kind: str) -> Instruction:
    build = s.builder
    value = s.operand(kind, s.sizes())
    starts = [build.add("after-all", None, ()) for _ in range(s.rng.randint(0, 3))]
    joined = build.add("after-all", None, starts)
    late = build.add("add-dependency", None, (value, joined))
    both = build.tuple([late, joined, build.tuple([joined, value])])
    if s.rng.random() < 0.5:
        return both
    return build.tuple([build.gte(both, 0), build.gte(build.gte(both, 2), 0), build.gte(both, 1)])


@family("opt-barrier domain", "all", ulps=0)
def barriers(s: Sample, opcode: str, kind: str) -> Instruction:
    build = s.builder
    start = build.add("after-all", None, ())
    value = s.operand(kind, s.sizes())
    both = build.tuple([value, start, _mix(build, s.rng, [value])])
    operand = both if s.rng.random() < 0.6 else value
    attributes = {"domain": Verbatim('{kind="sharding", entry={replicated}, exit={maximal device=0}}')}
    return build.add(opcode, None, (operand,), attributes if opcode == "domain" else {})


# ---- calls


@family("call", "all", ulps=0)
def calls(s: Sample, opcode: str, kind: str) -> Instruction:
    """A call of a computation that calls; two callers of one computation."""
    shape = array(kind, s.sizes(zero=False))
    inner = _mixture(s, [shape, shape])

    def body(build: Builder, parameters: list[Instruction]) -> Instruction:
        first = build.call(inner, parameters)
        return build.tuple([build.call(inner, [first, parameters[0]]), first])

    outer = s.computation([shape, shape], body)
    a, b = s.operand(kind, shape.dimensions), s.operand(kind, shape.dimensions)
    return s.builder.tuple([s.builder.call(outer, [a, b]), s.builder.call(inner, [b, a])])


@family("fusion", "all", ulps=0)
def fusions(s: Sample, opcode: str, kind: str) -> Instruction:
    shape = array(kind, s.sizes())
    count = s.rng.randint(1, 3)

    def body(build: Builder, parameters: list[Instruction]) -> Instruction:
        results = [_mix(build, s.rng, parameters, s.rng.randint(0, 4)) for _ in range(s.rng.randint(1, 3))]
        return results[0] if len(results) == 1 else build.tuple(results)

    fused = s.computation([shape] * count, body)
    operands = [s.operand(kind, shape.dimensions) for _ in range(count)]
    return s.builder.fusion(fused, operands, s.rng.choice(("kLoop", "kInput", "kOutput")))


@family("async-start async-update async-done", "all", ulps=0)
def asynchronous(s: Sample, opcode: str, kind: str) -> Instruction:
    """Any computation, on another thread or not, with any number of updates."""
    build = s.builder
    shape = array(kind, s.sizes(most=60))

    def body(build: Builder, parameters: list[Instruction]) -> Instruction:
        result = _mix(build, s.rng, parameters)
        return build.tuple([result, build.tuple([parameters[0]])]) if s.rng.random() < 0.4 else result

    called = s.computation([shape, shape], body)
    operands = [s.operand(kind, shape.dimensions) for _ in range(2)]
    context = [scalar("u32")] * s.rng.randint(0, 2)
    started = tuple_shape([tuple_shape([shape, shape]), called.root.shape, *context])
    attributes: dict[str, Any] = {"calls": called}
    current = build.add("async-start", started, operands, attributes)
    for _ in range(s.rng.randint(0, 2)):
        current = build.add("async-update", started, (current,), attributes)
    return build.add("async-done", called.root.shape, (current,), attributes)


@family("copy-start copy-done", "all", ulps=0)
def copies(s: Sample, opcode: str, kind: str) -> Instruction:
    operand = _mix(s.builder, s.rng, [s.operand(kind, s.sizes())], 1)
    shape = tuple_shape([operand.shape, operand.shape, scalar("u32")])
    started = s.builder.add("copy-start", shape, (operand,))
    return s.builder.tuple([s.builder.add("copy-done", operand.shape, (started,)), operand])


# ---- branches and loops


@family("conditional", "all", ulps=0)
def conditionals(s: Sample, opcode: str, kind: str) -> Instruction:
    """Both forms; indices in and out of range; branches with operands of their own and several results."""
    rng, build = s.rng, s.builder
    shape = array(kind, s.sizes(most=60))
    by_predicate = rng.random() < 0.4
    count = 2 if by_predicate else rng.randint(1, 5)
    several = rng.random() < 0.6

    def branch(pair: bool) -> Computation:
        def body(build: Builder, parameters: list[Instruction]) -> Instruction:
            values = _leaves(build, parameters[0])
            made = _mix(build, rng, values, rng.randint(0, 2))
            return build.tuple([made, build.tuple([values[-1], values[0]])]) if several else made

        return s.computation([tuple_shape([shape, shape]) if pair else shape], body)

    given = [s.operand(kind, shape.dimensions) for _ in range(2)]
    forms = [rng.random() < 0.5 for _ in range(count)]
    branches = [branch(pair) for pair in forms]
    operands = [build.tuple([rng.choice(given), given[0]]) if pair else rng.choice(given) for pair in forms]
    if by_predicate:
        selector = s.operand("pred")
        attributes: dict[str, Any] = (
            {"branch_computations": tuple(branches)}
            if rng.random() < 0.3
            else {"true_computation": branches[0], "false_computation": branches[1]}
        )
    else:
        selector = s.operand("s32", (), within(-2, count + 1) if rng.random() < 0.8 else anything)
        attributes = {"branch_computations": tuple(branches)}
    return build.add("conditional", None, (selector, *operands), attributes)


@family("while", "all", ulps=0)
def loops(s: Sample, opcode: str, kind: str) -> Instruction:
    """From no trip to some; state that is exchanged, kept, computed; loops in loops."""
    rng, build = s.rng, s.builder
    shape = array(kind, s.sizes(most=60))
    count = rng.randint(1, 4)
    tail = [token()] * rng.choice((0, 0, 1))
    state = tuple_shape([scalar("s32"), scalar("s32"), tuple_shape([shape] * count), *tail])
    nested = rng.random() < 0.3

    def condition(build: Builder, parameters: list[Instruction]) -> Instruction:
        at, limit = (build.gte(parameters[0], index) for index in range(2))
        return build.compare(at, limit, "LT")

    def turn(inner: Computation | None) -> Computation:
        def body(build: Builder, parameters: list[Instruction]) -> Instruction:
            at, limit, values, *rest = (build.gte(parameters[0], index) for index in range(3 + len(tail)))
            leaves = _leaves(build, values)
            following = [
                rng.choice(leaves) if rng.random() < 0.6 else _mix(build, rng, leaves, 1) for _ in range(count)
            ]
            together = build.tuple(following)
            if inner is not None:
                zero = build.scalar_constant(0, "s32")
                whole = build.while_(build.tuple([zero, limit, together, *rest]), test, inner)
                together = build.gte(whole, 2)
            return build.tuple([build.binary("add", at, build.scalar_constant(1, "s32")), limit, together, *rest])

        return s.computation([state], body, "turn")

    test = s.computation([state], condition, "test")
    body = turn(turn(None) if nested else None)
    values = [s.operand(kind, shape.dimensions) for _ in range(count)]
    first = s.operand("s32", (), within(-1, 2))
    limit = s.operand("s32", (), within(0, 2 if nested else 5))
    started = [build.add("after-all", None, ()) for _ in tail]
    return build.while_(build.tuple([first, limit, build.tuple(values), *started]), test, body)


@family("scan", "all", ulps=0)
def scans(s: Sample, opcode: str, kind: str) -> Instruction:
    """Any number of inputs, outputs and carries, of which at least one has the dimension; from no place to some."""
    rng, build = s.rng, s.builder
    rank = rng.choice((1, 1, 2, 3))
    sizes = s.sizes(rank, most=40)
    axis = rng.randrange(rank)
    inner = array(kind, (*sizes[:axis], *sizes[axis + 1 :]))
    inputs, carries = rng.randint(0, 2), rng.randint(0, 2)
    outputs = rng.randint(1 if not inputs else 0, 2)
    if not inputs and not carries:
        inputs = 1
    if not outputs and not carries:
        outputs = 1

    def body(build: Builder, parameters: list[Instruction]) -> Instruction:
        results = [_mix(build, rng, parameters, rng.randint(0, 3)) for _ in range(outputs + carries)]
        return results[0] if len(results) == 1 and rng.random() < 0.5 else build.tuple(results)

    called = s.computation([inner] * (inputs + carries), body)
    operands = [s.operand(kind, sizes) for _ in range(inputs)] + [
        s.operand(kind, inner.dimensions) for _ in range(carries)
    ]
    made = [array(kind, sizes)] * outputs + [inner] * carries
    attributes: dict[str, Any] = {"dimensions": (axis,), "num_carries": carries, "to_apply": called}
    if rng.random() < 0.5:
        attributes["is_reverse"] = True
    shape = tuple_shape(made) if called.root.shape.is_tuple else made[0]
    return build.add("scan", shape, operands, attributes)


# ---- several devices


def _groups(s: Sample, count: int, uniform: bool = True) -> ReplicaGroups | None:
    """Groups of the numbers below `count`, in any order; None leaves the attribute out."""
    numbers = list(range(count))
    s.rng.shuffle(numbers)
    match s.rng.randrange(4):
        case 0:
            return None
        case 1:
            return ReplicaGroups(())
        case _:
            sizes = [size for size in range(1, count + 1) if count % size == 0]
            size = s.rng.choice(sizes)
            if uniform or s.rng.random() < 0.5:
                return ReplicaGroups(tuple(tuple(numbers[n : n + size]) for n in range(0, count, size)))
            return ReplicaGroups(tuple(group for group in (tuple(numbers[:size]), tuple(numbers[size:])) if group))


def group_attributes(s: Sample, by_device: bool = False, uniform: bool = True) -> tuple[dict[str, Any], int]:
    """Attributes that say who takes part, in one of the ways of XLA, and the size of a group.

    `by_device`: the opcode knows use_global_device_ids.  Channels are numbered by what is there already.
    """
    replicas, partitions = s.spread()
    attributes: dict[str, Any] = {}
    limit, times = replicas, 1
    if s.rng.random() < 0.6:
        attributes["channel_id"] = len(s.results) + 1
        limit, times = (replicas, partitions) if by_device else (partitions, 1)
        if by_device and s.rng.random() < 0.5:
            attributes["use_global_device_ids"] = True
            limit, times = replicas * partitions, 1
    groups = _groups(s, limit, uniform)
    if "use_global_device_ids" in attributes and (groups is None or not groups.groups):  # devices must be named
        groups = ReplicaGroups((tuple(range(limit)),))
    if groups is not None:
        attributes["replica_groups"] = groups
    return attributes, times * (len(groups.groups[0]) if groups is not None and groups.groups else limit)


def _reducer(s: Sample, kind: str) -> Computation:
    row = ELEMENT_TYPES[kind]
    opcodes = ["add", "multiply"] if kind != "pred" else []
    opcodes += [] if row.is_complex else ["maximum", "minimum"]
    opcodes += ["and", "or", "xor"] if row.is_integer or kind == "pred" else []
    if kind != "pred" and s.rng.random() < 0.3:  # not commutative: the order shows
        return s.binary("subtract", kind)
    return s.binary(s.rng.choice(opcodes), kind)


def _operands(s: Sample, kind: str, sizes: Sizes, most: int = 3) -> list[Instruction]:
    return [s.operand(kind, sizes) for _ in range(s.rng.randint(1, most))]


def _several(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)


@family("all-reduce all-reduce-start all-reduce-done", "all", ulps=0)
def all_reduces(s: Sample, opcode: str, kind: str) -> Instruction:
    build = s.builder
    attributes, _ = group_attributes(s, by_device=True, uniform=False)
    attributes["to_apply"] = _reducer(s, kind)
    operands = [s.operand(kind, s.sizes(most=40)) for _ in range(s.rng.randint(1, 3))]
    shape = _several([operand.shape for operand in operands])
    if opcode == "all-reduce":
        return build.add(opcode, shape, operands, attributes)
    started = build.add("all-reduce-start", shape, operands, attributes)
    return build.add("all-reduce-done", shape, (started,))


@family("all-gather all-gather-start all-gather-done reduce-scatter", "all", ulps=0)
def gathers(s: Sample, opcode: str, kind: str) -> Instruction:
    build, rng = s.builder, s.rng
    attributes, size = group_attributes(s, by_device=True)
    rank = rng.randint(1, 3)
    dimension = rng.randrange(rank)
    attributes["dimensions"] = (dimension,)
    operands, shapes = [], []
    for _ in range(rng.randint(1, 2)):
        small = s.sizes(rank, most=12)
        large = (*small[:dimension], small[dimension] * size, *small[dimension + 1 :])
        given, made = (large, small) if opcode == "reduce-scatter" else (small, large)
        operands.append(s.operand(kind, given))
        shapes.append(array(kind, made))
    shape = _several(shapes)
    if opcode == "reduce-scatter":
        attributes["to_apply"] = _reducer(s, kind)
    if opcode in ("reduce-scatter", "all-gather"):
        return build.add(opcode, shape, operands, attributes)
    pair = tuple_shape([_several([operand.shape for operand in operands]), shape])
    started = build.add("all-gather-start", pair, operands, attributes)
    return build.add("all-gather-done", shape, (started,))


@family("all-to-all", "all", ulps=0)
def all_to_alls(s: Sample, opcode: str, kind: str) -> Instruction:
    attributes, size = group_attributes(s)
    if s.rng.random() < 0.5:
        sizes = s.sizes(most=30)
        operands = [s.operand(kind, sizes) for _ in range(size)]
        return s.builder.add(opcode, tuple_shape([o.shape for o in operands]), operands, attributes)
    rank = s.rng.randint(1, 3)
    dimension = s.rng.randrange(rank)
    sizes = s.sizes(rank, most=12)
    operand = s.operand(kind, (*sizes[:dimension], sizes[dimension] * size, *sizes[dimension + 1 :]))
    return s.builder.add(opcode, operand.shape, (operand,), {**attributes, "dimensions": (dimension,)})


@family("ragged-all-to-all", "all", ulps=0)
def ragged(s: Sample, opcode: str, kind: str) -> Instruction:
    attributes, size = group_attributes(s)
    parts = size * s.rng.randint(1, 3)
    row = s.sizes(s.rng.randint(0, 2), most=6)
    source, target = s.rng.randint(1, 9), s.rng.randint(1, 9)
    index = s.rng.choice(("s32", "s64", "u32"))
    numbers = [s.operand(index, (parts,), within(-2, most)) for most in (source, 4, target, 4)]
    operands = [s.operand(kind, (source, *row)), s.operand(kind, (target, *row)), *numbers]
    return s.builder.add(opcode, operands[1].shape, operands, attributes)


@family("collective-broadcast", "all", ulps=0)
def broadcasts(s: Sample, opcode: str, kind: str) -> Instruction:
    """Also to some of the devices."""
    replicas, partitions = s.spread()
    channel = s.rng.random() < 0.5
    numbers = list(range(partitions if channel else replicas))
    s.rng.shuffle(numbers)
    kept = numbers[: s.rng.randint(1, len(numbers))]
    cut = s.rng.randint(1, len(kept))
    groups = tuple(group for group in (tuple(kept[:cut]), tuple(kept[cut:])) if group)
    attributes: dict[str, Any] = {"replica_groups": ReplicaGroups(groups)}
    if channel:
        attributes["channel_id"] = len(s.results) + 1
    operands = _operands(s, kind, s.sizes(most=40), 2)
    return s.builder.add(opcode, _several([o.shape for o in operands]), operands, attributes)


def permute_pairs(s: Sample) -> dict[str, Any]:
    """Where a permute takes its values from: any source for some of the targets."""
    replicas, partitions = s.spread()
    channel = s.rng.random() < 0.5
    count = partitions if channel else replicas
    targets = [target for target in range(count) if s.rng.random() < 0.8]
    sources = s.rng.sample(range(count), len(targets))
    attributes: dict[str, Any] = {"source_target_pairs": tuple(zip(sources, targets, strict=True))}
    if channel:
        attributes["channel_id"] = len(s.results) + 1
    return attributes


@family("collective-permute collective-permute-start collective-permute-done", "all", ulps=0)
def permutes(s: Sample, opcode: str, kind: str) -> Instruction:
    build = s.builder
    attributes = permute_pairs(s)
    if s.rng.random() < 0.3:
        return _permute_in_place(s, kind, attributes)
    operands = [s.operand(kind, s.sizes(most=40)) for _ in range(s.rng.randint(1, 3))]
    shape = _several([operand.shape for operand in operands])
    if opcode == "collective-permute":
        return build.add(opcode, shape, operands, attributes)
    context = [scalar("u32")] * s.rng.choice((0, 2))
    started = build.add("collective-permute-start", tuple_shape([shape, shape, *context]), operands, attributes)
    return build.add("collective-permute-done", shape, (started,))


def _permute_in_place(s: Sample, kind: str, attributes: dict[str, Any]) -> Instruction:
    """Slices of the input, at places that are in range or not, into the output."""
    build = s.builder
    rank = s.rng.randint(1, 3)
    source, target = s.sizes(rank, most=30, zero=False), s.sizes(rank, most=30, zero=False)
    slices = s.rng.randint(1, 2)
    sizes = [[s.rng.randint(1, min(a, b)) for a, b in zip(source, target, strict=True)] for _ in range(slices)]

    def places() -> Instruction:
        made = [build.tuple([s.operand("s32", (), within(-2, 6)) for _ in range(rank)]) for _ in range(slices)]
        return made[0] if slices == 1 else build.tuple(made)

    written = ",".join("{" + ",".join(map(str, size)) + "}" for size in sizes)
    operands = [s.operand(kind, source), s.operand(kind, target), places(), places()]
    attributes["slice_sizes"] = Verbatim("{" + written + "}")
    return build.add("collective-permute", operands[1].shape, operands, attributes)


@family("partition-id replica-id", "u32", ulps=0)
def numbers(s: Sample, opcode: str, kind: str) -> Instruction:
    s.spread()
    number = s.builder.add(opcode, None, ())
    return s.builder.binary("add", number, s.operand("u32"))


@family("send send-done recv recv-done", "all", ulps=0)
def messages(s: Sample, opcode: str, kind: str) -> Instruction:
    """Between devices, received before or after it is sent."""
    build = s.builder
    replicas, partitions = s.spread()
    pairs = permute_pairs(s)["source_target_pairs"]
    if replicas == 1 or partitions == 1:
        channel = len(s.results) + 1
    else:  # XLA's channel 0 is for replicas
        pairs = tuple((a % partitions, b) for a, b in pairs if b < partitions)
        channel = len(s.results) + 1
    text = "{" + ",".join(f"{{{a},{b}}}" for a, b in pairs) + "}"
    attributes = {"channel_id": channel, "frontend_attributes": {"_xla_send_recv_source_target_pairs": text}}
    data = s.operand(kind, s.sizes(most=40))
    start = build.add("after-all", None, ())
    shape = tuple_shape([data.shape, scalar("u32"), token()])

    def send() -> None:
        sent = build.add("send", shape, (data, start), attributes)
        build.add("send-done", token(), (sent,), {"channel_id": channel})

    early = s.rng.random() < 0.5
    if early:
        send()
    received = build.add("recv", shape, (start,), attributes)
    if not early:
        send()
    done = build.add("recv-done", tuple_shape([data.shape, token()]), (received,), {"channel_id": channel})
    return build.gte(done, 0)


# ---- queues and custom calls


@family("infeed outfeed", "all", ulps=0)
def feeds(s: Sample, opcode: str, kind: str) -> Instruction:
    """An array or a nested tuple from the infeed; some of it goes to the outfeed.  All devices read the same."""
    build = s.builder
    if s.rng.random() < 0.5:
        s.spread()
    shape = _nested(s, kind) if s.rng.random() < 0.5 else array(kind, s.sizes())
    s.queue.extend((anything, leaf) for leaf in shape.leaves() if leaf.is_array)
    start = build.add("after-all", None, ())
    taken = build.add("infeed", tuple_shape([shape, token()]), (start,), {"infeed_config": "x"})
    data = build.gte(taken, 0)
    given = build.tuple(_leaves(build, data)[::2]) if s.rng.random() < 0.5 else data
    build.add("outfeed", token(), (given, build.gte(taken, 1)), {"outfeed_shape": given.shape})
    return data


def _handler(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """The outputs from the inputs, by turns, through the computation if there is one; aliases are changed in place."""
    results = []
    for number in range(len(call.outputs)):
        value = inputs[call.aliases.get(number, number % len(inputs))]
        if number in call.aliases and value.size:
            value[(0,) * value.ndim] = np.zeros((), value.dtype)
        results.append(call.computations[0](value)[0] if call.computations else value)
    return results


register_custom_call("semantics", _handler, replace=True)


@family("custom-call", "all", ulps=0)
def custom_calls(s: Sample, opcode: str, kind: str) -> Instruction:
    """Tuples in and out, tokens, aliasing, called computations, all API versions."""
    build, rng = s.builder, s.rng
    shape = array(kind, s.sizes(most=40))
    values = [s.operand(kind, shape.dimensions) for _ in range(rng.randint(1, 3))]
    operands = [build.tuple(values), build.add("after-all", None, ())] if rng.random() < 0.5 else values
    parts = [shape] * rng.randint(1, 3)
    result = parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple_shape([*parts, token()])
    attributes: dict[str, Any] = {
        "custom_call_target": "semantics",
        "custom_call_has_side_effect": rng.random() < 0.5,
        "api_version": rng.choice((
            "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        )),
    }  # fmt: skip
    if rng.random() < 0.5:
        called = s.computation([shape], lambda build, parameters: _mix(build, rng, parameters))
        if rng.random() < 0.5:
            attributes["to_apply"] = called
        else:
            attributes["called_computations"] = (called,)
    if rng.random() < 0.5:
        source = (0, (0,)) if operands is not values else (0, ())
        attributes["output_to_operand_aliasing"] = (Aliasing((0,) if result.is_tuple else (), *source),)
    return build.add(opcode, result, operands, attributes)


_XLA_CALLS = ("Sharding", "MoveToHost", "MoveToDevice", "annotate_device_placement", "AllocateBuffer")


@family("custom-call", "all", ulps=0)
def xla_calls(s: Sample, opcode: str, kind: str) -> Instruction:
    target = s.rng.choice(_XLA_CALLS)
    shape = array(kind, s.sizes(most=40))
    operands = [] if target == "AllocateBuffer" else [s.operand(kind, shape.dimensions)]
    return s.builder.add(opcode, shape, operands, {"custom_call_target": target})


@family("custom-call", "signed unsigned narrow float", ulps=0)
def top_k_calls(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(s.rng.randint(1, 2), most=60, zero=False)
    operand = s.operand(kind, sizes)
    count = s.rng.randint(1, sizes[-1])
    shape = tuple_shape([array(t, (*sizes[:-1], count)) for t in (kind, "s32")])
    largest = s.rng.random() < 0.5
    attributes: dict[str, Any] = {"custom_call_target": "TopK"}
    if s.rng.random() < 0.5:
        attributes["backend_config"] = f"{{k = {count} : i64, largest = {str(largest).lower()}}}"
    else:
        scalars = [scalar(kind), scalar(kind), scalar("s32"), scalar("s32")]
        direction = "GT" if largest else "LT"
        attributes["called_computations"] = (
            s.computation(scalars, lambda build, parameters: build.compare(parameters[0], parameters[1], direction)),
        )
    return s.builder.add(opcode, shape, (operand,), attributes)


@family("custom-call", "s64 u64", ulps=0)
def halves(s: Sample, opcode: str, kind: str) -> Instruction:
    build = s.builder
    operand = s.operand(kind, s.sizes())
    half = array("u32", operand.shape.dimensions)
    parts = [
        build.add(opcode, half, (operand,), {"custom_call_target": target})
        for target in ("X64SplitLow", "X64SplitHigh")
    ]
    return build.add(opcode, operand.shape, parts, {"custom_call_target": "X64Combine"})
