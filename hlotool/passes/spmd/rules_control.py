"""Partitioning of tuples, tokens, calls, branches and loops.

Values keep their tilings in and out of computations.  What a branch or a loop depends on is on every device, so all of
them go the same way and meet in the same collectives.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Computation, Instruction, Shape, tuple_shape
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.tiling import Tiling, replicated
from hlotool.passes.spmd.values import Value, parts_of

__all__ = ["RULES", "local_tuple"]


def local_tuple(shape: Shape, tilings: Sequence[Tiling]) -> Shape:
    """What a device has of a value of `shape`, with a tiling for each leaf."""
    rows = iter(tilings)

    def local(one: Shape) -> Shape:
        if one.is_tuple:
            return tuple_shape([local(element) for element in one.elements])
        tiling = next(rows)
        return tiling.local(one) if one.is_array else one

    return local(shape)


def _tilings(values: Sequence[Value]) -> tuple[Tiling, ...]:
    return tuple([part.tiling for value in values for part in parts_of(value)])


def _written(
    p: Partitioner, computation: Computation, given: tuple[Tiling, ...], wanted: tuple[Tiling, ...] | None
) -> tuple[Computation, tuple[Tiling, ...]]:
    """A computation for one device whose parameters have the tilings `given`, and the tilings of its results."""
    worlds = next((tiling.worlds for tiling in given if tiling.is_manual), p.own_worlds)
    key = computation, given, wanted, worlds
    found: tuple[Computation, tuple[Tiling, ...]] | None = p.work.written.get(key)
    if found is None:
        made = Computation(p.work.module.unique_name(computation.name))
        inner = Partitioner(p.work, made, p.rules, worlds)
        rows = iter(given)
        arguments: list[Value] = []
        for parameter in computation.parameters:
            own = [next(rows) for _ in parameter.shape.leaves()]
            inner.build.like = parameter
            local = inner.build.parameter(parameter.parameter_number, local_tuple(parameter.shape, own))
            arguments.append(inner.unpacked(local, parameter.shape, iter(own)))
        result = inner.inlined(computation, arguments)
        inner.build.like = computation.root
        if wanted is not None:
            result = inner.settled(result, computation.root.shape, wanted)
        made.root = inner.packed(result)
        inner.drop_unread()
        found = p.work.written[key] = p.work.module.add(made), _tilings([result])
    return found


def _tuple(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    return tuple(values)


def _element(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    assert isinstance(values[0], tuple)
    part: Value = values[0][i.attributes["index"]]
    return part


def _same(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    return values[0]


def _barrier(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    local = p.packed(values[0])
    made = p.emit(i, local.shape, [local, *map(p.packed, values[1:])])
    return p.unpacked(made, i.shape, iter(_tilings(values[:1])))


def _after_all(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    made = p.emit(i, i.shape, [p.packed(value) for value in values])
    return p.unpacked(made, i.shape, iter([replicated(0, p.devices)]))


def _call(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    """A fusion becomes a call: what is one kernel of one device need not be one of many."""
    (called,) = i.called
    wanted = p.wanted(i)
    new, tilings = _written(p, called, _tilings(values), tuple(wanted) if wanted is not None else None)
    made = p.build.add("call", new.root.shape, [p.packed(value) for value in values], {"to_apply": new})
    return p.unpacked(made, i.shape, iter(tilings))


def _conditional(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    a = i.attributes
    branches = list(a.get("branch_computations") or (a["true_computation"], a["false_computation"]))
    asked = p.wanted(i)
    wanted = tuple(asked) if asked is not None else None
    written = []
    for branch, value in zip(branches, values[1:], strict=True):
        new, tilings = _written(p, branch, _tilings([value]), wanted)
        wanted = tilings  # of the first branch, where nothing is asked for
        written.append(new)
    pair = ("true_computation", "false_computation")
    called = dict(zip(pair, written, strict=True)) if pair[0] in a else {"branch_computations": tuple(written)}
    assert wanted is not None
    operands = [p.packed(p.whole(values[0])), *map(p.packed, values[1:])]
    made = p.emit(i, written[0].root.shape, operands, **called)
    return p.unpacked(made, i.shape, iter(wanted))


def _while(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    """The state has the tilings that are asked for, or else those that it begins with."""
    (state,) = values
    asked = p.wanted(i)
    if asked is not None:
        state = p.settled(state, i.shape, asked)
    tilings = _tilings([state])
    rank = i.attributes["condition"].root.shape.rank
    condition, _ = _written(p, i.attributes["condition"], tilings, (replicated(rank, p.devices),))
    body, _ = _written(p, i.attributes["body"], tilings, tilings)
    made = p.emit(i, local_tuple(i.shape, tilings), [p.packed(state)], condition=condition, body=body)
    return p.unpacked(made, i.shape, iter(tilings))


RULES: dict[str, Rule] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "domain": _same,
    "opt-barrier": _barrier,
    "add-dependency": _barrier,
    "after-all": _after_all,
    "call": _call,
    "fusion": _call,
    "conditional": _conditional,
    "while": _while,
}
