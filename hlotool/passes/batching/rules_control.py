"""Batching of tuples, calls, branches and loops.

A branch that examples choose each for themselves becomes all branches and a selection.  A loop that they leave one by
one runs until the last has left it; the state of those that have left stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Computation, Instruction, Shape, scalar, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.passes.batching.batcher import Batcher, Rule
from hlotool.passes.batching.values import Leaf, Value, batched_tuple, is_batched

__all__ = ["RULES"]


def _tuple(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    return tuple(values)


def _element(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    raise AssertionError("an element of a tuple is found without a rule")


def _same(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    return values[0]


def _barrier(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    leaves = b.leaves(values[0], i.shape)
    whole = b.packed(b.rebuilt(i.shape, iter(leaves)))
    made = b.emit(i, whole.shape, [whole])
    parts = iter(b.leaves(Leaf(made), i.shape))
    return b.rebuilt(i.shape, iter([Leaf(next(parts).instruction, leaf.axis) for leaf in leaves]))


def _dependency(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Everything in the value waits for the token."""
    leaves = b.leaves(values[0], i.shape)
    token = b.packed(values[1])
    made = [Leaf(b.emit(i, one.instruction.shape, [one.instruction, token]), one.axis) for one in leaves]
    return b.rebuilt(i.shape, iter(made))


def _size(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Sizes are the same for all examples, and known."""
    (dimension,) = i.attributes["dimensions"]
    return Leaf(b.build.scalar_constant(i.operands[0].shape.dimensions[dimension], "s32"))


def _call(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """A fusion is a call too: what was fused for one example need not be for many."""
    (called,) = i.called
    given = [flag for v, o in zip(values, i.operands, strict=True) for flag in b.flags(v, o.shape)]
    wanted = _arrays(i.shape, b.work.flow.results(called, given))
    flags = iter(given)
    operands = [b.packed(b.settled(v, o.shape, flags)) for v, o in zip(values, i.operands, strict=True)]
    new = b.work.computation(called, given, wanted)
    made = b.emit(i, batched_tuple(i.shape, iter(wanted), b.size), operands, "call", to_apply=new)
    return b.unpacked(made, i.shape, iter(wanted))


def _arrays(shape: Shape, flags: Sequence[bool]) -> list[bool]:
    """The flags without those of tokens, which are of all examples."""
    return [flag and leaf.is_array for flag, leaf in zip(flags, shape.leaves(), strict=True)]


# ---- branches


def _branches(i: Instruction) -> list[Computation]:
    a = i.attributes
    return list(a.get("branch_computations") or (a["true_computation"], a["false_computation"]))


def _conditional(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    if is_batched(values[0]):
        return _all_branches(b, i, values)
    branches = _branches(i)
    given = [b.flags(v, o.shape) for v, o in zip(values[1:], i.operands[1:], strict=True)]
    rows = [b.work.flow.results(branch, flags) for branch, flags in zip(branches, given, strict=True)]
    wanted = _arrays(i.shape, [any(row) for row in zip(*rows, strict=True)])
    new = [b.work.computation(branch, flags, wanted) for branch, flags in zip(branches, given, strict=True)]
    operands = [
        b.packed(b.settled(v, o.shape, iter(flags)))
        for v, o, flags in zip(values[1:], i.operands[1:], given, strict=True)
    ]
    pair = ("true_computation", "false_computation")
    named = ("branch_computations",) if "branch_computations" in i.attributes else pair
    called = {named[0]: tuple(new)} if len(named) == 1 else dict(zip(named, new, strict=True))
    shape = batched_tuple(i.shape, iter(wanted), b.size)
    made = b.emit(i, shape, [b.packed(values[0]), *operands], **called)
    return b.unpacked(made, i.shape, iter(wanted))


def _all_branches(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Every branch, and of its results those of the examples that take it.

    A branch with a loop runs where an example takes it at all, and on examples that do: its loop might not end for
    others.
    """
    build, branches = b.build, _branches(i)
    selector = b.front(values[0])
    taken = [selector]
    if selector.shape.element_type != "pred":
        numbers = [build.splat(n, selector.shape) for n in range(len(branches) - 1)]
        taken = [build.compare(selector, number, "EQ") for number in numbers]
    rest = build.unary("not", _either(b, taken)) if taken else None
    results = []
    for branch, active, v, o in zip(branches, [*taken, rest], values[1:], i.operands[1:], strict=True):
        if branch in b.work.flow.looping and active is not None:
            results.append(_guarded(b, i, branch, active, v, o.shape))
        else:
            results.append(b.leaves(b.inlined(branch, [v]), i.shape))
    made = []
    for row, shape in zip(zip(*results, strict=True), i.shape.leaves(), strict=True):
        if not shape.is_array:
            made.append(Leaf(build.add("after-all", shape, [leaf.instruction for leaf in row])))
            continue
        value = b.front(row[-1])
        for active, leaf in zip(reversed(taken), reversed(row[:-1]), strict=True):
            value = build.select(b.spread(active, 0, value.shape.dimensions), b.front(leaf), value)
        made.append(Leaf(value, 0))
    return b.rebuilt(i.shape, iter(made))


def _either(b: Batcher, flags: Sequence[Instruction]) -> Instruction:
    found = flags[0]
    for one in flags[1:]:
        found = b.build.binary("or", found, one)
    return found


def _guarded(
    b: Batcher, i: Instruction, branch: Computation, active: Instruction, value: Value, shape: Shape
) -> list[Leaf]:
    """The results of a branch where an example is active; zeros where none is."""
    given = b.leaves(value, shape)
    flags = [True, *(leaf.axis is not None for leaf in given)]
    wanted = [leaf.is_array for leaf in i.shape.leaves()]
    taken = tuple_shape([scalar("pred"), shape])
    operand = b.packed(b.settled((Leaf(active, 0), b.rebuilt(shape, iter(given))), taken, iter(flags)))
    computations = []
    for runs in (True, False):
        made = Computation(b.work.module.unique_name(branch.name))
        inner = Batcher(b.work, Builder(made, like=i))
        whole = inner.build.parameter(0, batched_tuple(taken, iter(flags), b.size))
        chosen, inside = inner.leaves(Leaf(whole), taken)[0], inner.unpacked(whole, taken, iter(flags))
        assert isinstance(inside, tuple)
        if runs:
            leaves = inner.with_stand_ins(chosen.instruction, inner.leaves(inside[1], shape))
            result = inner.inlined(branch, [inner.rebuilt(shape, iter(leaves))])
        else:
            result = inner.rebuilt(i.shape, iter([_nothing(inner, leaf) for leaf in i.shape.leaves()]))
        made.root = inner.packed(inner.settled(result, i.shape, iter(wanted)))
        computations.append(b.work.finish(made))
    result_shape = batched_tuple(i.shape, iter(wanted), b.size)
    called = {"true_computation": computations[0], "false_computation": computations[1]}
    whole = b.build.add("conditional", result_shape, [b.any_of(active), operand, operand], called)
    return b.leaves(b.unpacked(whole, i.shape, iter(wanted)), i.shape)


def _nothing(b: Batcher, shape: Shape) -> Leaf:
    if not shape.is_array:
        return Leaf(b.build.add("after-all", shape, ()))
    zero = b.build.scalar_constant(False, "pred")
    number = zero if shape.element_type == "pred" else b.build.convert(zero, shape.element_type)
    return Leaf(b.build.broadcast(number, (), shape.dimensions) if shape.dimensions else number)


# ---- loops


def _while(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    body, condition = i.attributes["body"], i.attributes["condition"]
    found, by_example = b.work.flow.loop(i, b.flags(values[0], i.shape))
    flags = _arrays(i.shape, found)
    start = b.settled(values[0], i.shape, iter(flags))
    if by_example:
        return _until_all_are_done(b, i, start, flags)
    made = b.emit(
        i, batched_tuple(i.shape, iter(flags), b.size), [b.packed(start)],
        condition=b.work.computation(condition, flags, [False]), body=b.work.computation(body, flags, flags),
        backend_config=i.attributes.get("backend_config"),
    )  # fmt: skip
    return b.unpacked(made, i.shape, iter(flags))


def _until_all_are_done(b: Batcher, i: Instruction, start: Value, flags: list[bool]) -> Value:
    """The state has a flag for each example, whether it goes on; the condition is asked once for each turn."""
    body, condition, work = i.attributes["body"], i.attributes["condition"], b.work
    state = tuple_shape([scalar("pred"), i.shape])
    both = [True, *flags]
    shape = batched_tuple(state, iter(both), b.size)
    first = b.front(b.inlined(condition, [start]))

    turn = Computation(work.module.unique_name(body.name))
    inner = Batcher(work, Builder(turn, like=i))
    inside = inner.unpacked(inner.build.parameter(0, shape), state, iter(both))
    assert isinstance(inside, tuple)
    active, old = inner.front(inside[0]), inner.leaves(inside[1], i.shape)
    given = inner.with_stand_ins(active, old) if body in work.flow.looping else old
    after = inner.leaves(inner.inlined(body, [inner.rebuilt(i.shape, iter(given))]), i.shape)
    chosen = [_kept(inner, active, *pair) for pair in zip(old, after, strict=True)]
    made = inner.rebuilt(i.shape, iter(chosen))
    asked = chosen
    if condition in work.flow.looping:
        asked = inner.with_stand_ins(active, chosen)
    going = inner.front(inner.inlined(condition, [inner.rebuilt(i.shape, iter(asked))]))
    following = inner.build.binary("and", active, going)
    turn.root = inner.packed((Leaf(following, 0), made))

    test = Computation(work.module.unique_name(condition.name))
    outer = Batcher(work, Builder(test, like=i))
    test.root = outer.any_of(outer.build.gte(outer.build.parameter(0, shape), 0))

    operand = b.packed((Leaf(first, 0), start))
    whole = b.emit(i, shape, [operand], condition=work.finish(test), body=work.finish(turn))
    result = b.unpacked(whole, state, iter(both))
    assert isinstance(result, tuple)
    return result[1]


def _kept(b: Batcher, active: Instruction, old: Leaf, new: Leaf) -> Leaf:
    """A leaf of the state after a turn: that of examples which have left the loop is the old one."""
    if old.axis is None:
        return new if not old.instruction.shape.is_array else old
    x = b.front(new)
    if x is old.instruction:
        return old
    return Leaf(b.build.select(b.spread(active, 0, x.shape.dimensions), x, old.instruction), 0)


RULES: dict[str, Rule] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "domain": _same,
    "opt-barrier": _barrier,
    "add-dependency": _dependency,
    "get-dimension-size": _size,
    "call": _call,
    "fusion": _call,
    "conditional": _conditional,
    "while": _while,
}
