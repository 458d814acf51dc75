"""Derivatives of tuples, calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.analysis.trip_count import TripCount, is_invariant_element, known_trip_count, trip_count
from hlotool.ir import Computation, Instruction, Shape, array, clone_computation, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.passes.autodiff.activity import Inputs, Leaf, branches_of, inputs_of
from hlotool.passes.autodiff.forward import Forward, with_tangents
from hlotool.passes.autodiff.reverse import Linear, Reverse, from_constants, leaf_of, linearise
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Path, refusal
from hlotool.passes.loops.counted_loop import applied, counted_loop

__all__ = ["CHECKPOINT", "RULES", "reverse_call"]

CHECKPOINT = "checkpoint"
"""The entry of ``frontend_attributes`` of a call whose values are computed again for the gradient, not saved."""

_NONE: frozenset[Path] = frozenset()


# ---- tuples and what hands values on


def _tuple_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    for path, cotangent in cotangents.items():
        at.give(instruction.operands[path[0]], cotangent, path[1:])


def _tuple_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    return {
        (number, *path): tangent
        for number, operand in enumerate(instruction.operands)
        for path, tangent in at.tangents(operand).items()
    }


def _element_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    index = instruction.attributes["index"]
    for path, cotangent in cotangents.items():
        at.give(instruction.operands[0], cotangent, (index, *path))


def _element_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    index = instruction.attributes["index"]
    found = at.tangents(instruction.operands[0])
    return {path[1:]: tangent for path, tangent in found.items() if path[0] == index}


def _same_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    for path, cotangent in cotangents.items():
        at.give(instruction.operands[0], cotangent, path)


def _same_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    return at.tangents(instruction.operands[0])


def _barrier_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    """Cotangents get a barrier of their own, so that they stay where the values were kept apart."""
    held = at.build.add("opt-barrier", None, (at.build.tuple(cotangents.values()),))
    for number, path in enumerate(cotangents):
        at.give(instruction.operands[0], at.build.gte(held, number), path)


# ---- calls


def _call_reverse(at: Reverse, call: Instruction, cotangents: ByLeaf) -> None:
    (callee,) = call.called
    operands = list(call.operands)
    inputs = inputs_of([at.active.get(operand, _NONE) for operand in operands])
    again = (call.attributes.get("frontend_attributes") or {}).get(CHECKPOINT) == "true"
    found = reverse_call(at, call, callee, operands, inputs, cotangents, lambda _, result: result, again)
    for (number, path), cotangent in found.items():
        at.give(operands[number], cotangent, path)


def reverse_call(
    at: Reverse,
    call: Instruction,
    callee: Computation,
    operands: Sequence[Instruction],
    inputs: Inputs,
    cotangents: ByLeaf,
    instead: Callable[[Builder, Instruction], Instruction],
    again: bool = False,
) -> dict[Leaf, Instruction]:
    """Cotangents of the `inputs` of `callee` on `operands`, of those of its results.

    Where values of it are needed, it is called in the place of `call`; `instead` makes the result of `call` of its.
    """
    key = callee, inputs, frozenset(cotangents), again
    linear = at.program.linear.get(key)
    if linear is None:
        recomputed = _everything if again else from_constants
        linear = linearise(at.program, callee, inputs, frozenset(cotangents), recomputed)
        saved = [need for need in linear.needs if isinstance(need, Instruction)]
        if saved:
            linear.forward.root = Builder(linear.forward).tuple([linear.forward.root, *saved])
            at.module.add(linear.forward)
        at.module.add(linear.backward)
        at.program.linear[key] = linear
    ahead = at.ahead_of(call)
    saves = sum(isinstance(need, Instruction) for need in linear.needs)
    new = ahead.call(linear.forward, operands) if saves else call
    kept = iter([ahead.gte(new, 1 + number) for number in range(saves)])
    values = [
        next(kept) if isinstance(need, Instruction) else leaf_of(ahead, operands[need[0]], need[1])
        for need in linear.needs
    ]
    if saves:
        at.replace(call, instead(ahead, ahead.gte(new, 0)))
    arguments = [*(cotangents[path] for path in linear.results), *map(at.primal, values)]
    if again:
        arguments = held_apart(at.build, arguments)
    result = at.build.call(linear.backward, arguments)
    return {leaf: at.build.gte(result, position) for position, leaf in enumerate(linear.inputs)}


def held_apart(build: Builder, values: Sequence[Instruction]) -> list[Instruction]:
    """The values behind a barrier: what is computed of them is computed again, and not before the last of them."""
    held = build.add("opt-barrier", None, (build.tuple(values),))
    return [build.gte(held, number) for number in range(len(values))]


def _everything(computation: Computation) -> Callable[[Instruction], bool]:
    return lambda instruction: True


def _call_forward(at: Forward, call: Instruction) -> ByLeaf:
    (callee,) = call.called
    inputs = inputs_of([frozenset(at.tangents(operand)) for operand in call.operands])
    computation, results = with_tangents(at.program, callee, inputs)
    tangents = [at.tangents(call.operands[number])[path] for number, path in sorted(inputs)]
    new = at.build.call(computation, [*map(at.primal, call.operands), *tangents])
    at.settle(call, at.build.gte(new, 0))
    return {path: at.build.gte(new, 1 + position) for position, path in enumerate(results)}


# ---- branches


def _conditional_reverse(at: Reverse, conditional: Instruction, cotangents: ByLeaf) -> None:
    """Each branch returns what its gradient needs, zeros in the places of what those of the others need."""
    index, *arguments = conditional.operands
    results = frozenset(cotangents)
    parts = [
        linearise(at.program, branch, inputs_of([at.active.get(argument, _NONE)]), results)
        for branch, argument in zip(branches_of(conditional), arguments, strict=True)
    ]
    slots: list[Shape] = []
    places: list[dict[Instruction, int]] = []
    for part in parts:
        taken: dict[Instruction, int] = {}
        for need in part.needs:
            if isinstance(need, Instruction) and need not in taken:
                free = [n for n, shape in enumerate(slots) if shape == need.shape and n not in taken.values()]
                if not free:
                    slots.append(need.shape)
                taken[need] = free[0] if free else len(slots) - 1
        places.append(taken)
    ahead = at.ahead_of(conditional)
    new = conditional
    if slots:
        for part, taken in zip(parts, places, strict=True):
            _return_slots(part, taken, slots)
            at.module.add(part.forward)
        new = ahead.add(
            "conditional", None, (index, *arguments), {"branch_computations": tuple(p.forward for p in parts)}
        )
    saved = [ahead.gte(new, 1 + number) for number in range(len(slots))]
    reached: dict[tuple[Instruction, Path], Shape] = {}
    for part, argument in zip(parts, arguments, strict=True):
        for position, (_, path) in enumerate(part.inputs):
            reached[argument, path] = part.backward.root.operands[position].shape
    needed = [
        [
            saved[taken[need]] if isinstance(need, Instruction) else leaf_of(ahead, argument, need[1])
            for need in part.needs
        ]
        for part, argument, taken in zip(parts, arguments, places, strict=True)
    ]
    if slots:
        at.replace(conditional, ahead.gte(new, 0))
    operands, branches = [], []
    for part, argument, needs in zip(parts, arguments, needed, strict=True):
        given = [cotangents.get(path) for path in part.results]
        operands.append(at.build.tuple([*(one for one in given if one is not None), *map(at.primal, needs)]))
        branches.append(at.module.add(_branch(part, argument, reached, operands[-1].shape)))
    result = at.build.add(
        "conditional", None, (at.primal(index), *operands), {"branch_computations": tuple(branches)}
    )
    for position, (argument, path) in enumerate(reached):
        at.give(argument, at.build.gte(result, position), path)


def _return_slots(part: Linear, taken: dict[Instruction, int], slots: Sequence[Shape]) -> None:
    build = Builder(part.forward)
    by_slot = {number: value for value, number in taken.items()}
    values = [by_slot.get(number) or build.splat(0, shape) for number, shape in enumerate(slots)]
    part.forward.root = build.tuple([part.forward.root, *values])


def _branch(
    part: Linear, argument: Instruction, reached: dict[tuple[Instruction, Path], Shape], shape: Shape
) -> Computation:
    """The gradient of a branch: one parameter, and cotangents of all arguments of all branches."""
    computation = Computation(part.backward.name)
    build = Builder(computation)
    given = build.parameter(0, shape)
    values = applied(build, part.backward, [build.gte(given, n) for n in range(len(shape.elements))])
    own = {(argument, path): value for (_, path), value in zip(part.inputs, values, strict=True)}
    results = [own.get(leaf) or build.splat(0.0, leaf_shape) for leaf, leaf_shape in reached.items()]
    computation.root = build.tuple(results)
    return computation


def _conditional_forward(at: Forward, conditional: Instruction) -> ByLeaf:
    index, *arguments = conditional.operands
    parts = [
        with_tangents(at.program, branch, inputs_of([frozenset(at.tangents(argument))]))
        for branch, argument in zip(branches_of(conditional), arguments, strict=True)
    ]
    paths = sorted({path for _, results in parts for path in results})
    branches, operands = [], []
    for (computation, results), argument in zip(parts, arguments, strict=True):
        tangents = [tangent for _, tangent in sorted(at.tangents(argument).items())]
        operands.append(at.build.tuple([at.primal(argument), *tangents]))
        branch = Computation(computation.name)
        build = Builder(branch)
        given = build.parameter(0, operands[-1].shape)
        value, *found = applied(build, computation, [build.gte(given, n) for n in range(1 + len(tangents))])
        own = dict(zip(results, found, strict=True))
        others = dict(zip(paths, _leaf_shapes(conditional, paths), strict=True))
        branch.root = build.tuple([value, *(own.get(path) or build.splat(0.0, others[path]) for path in paths)])
        branches.append(at.module.add(branch))
    new = at.build.add("conditional", None, (at.primal(index), *operands), {"branch_computations": tuple(branches)})
    at.settle(conditional, at.build.gte(new, 0))
    return {path: at.build.gte(new, 1 + position) for position, path in enumerate(paths)}


def _leaf_shapes(value: Instruction, paths: Sequence[Path]) -> list[Shape]:
    found = []
    for path in paths:
        shape = value.shape
        for index in path:
            shape = shape.elements[index]
        found.append(shape)
    return found


# ---- loops


def _while_reverse(at: Reverse, loop: Instruction, cotangents: ByLeaf) -> None:
    """The loop stacks by iteration what the gradient needs of each; another one goes over the stacks, last to first.

    What stays the same from one iteration to the next is not stacked, nor what follows from it and from the number of
    the iteration by cheap instructions: it is computed again.
    """
    initial = loop.operands[0]
    count = known_trip_count(loop)
    if count is None:
        raise refusal(
            loop,
            "how often the loop runs is not known before it runs, so that there is no bound to what has to be saved",
            "forward mode (jvp) works; a loop whose counter starts, steps and ends with constants can be run backwards",
        )
    if not count:
        for path, cotangent in cotangents.items():
            at.give(initial, cotangent, path)
        return
    activity, given = at.program.activity, at.active.get(initial, _NONE)
    needed = activity.needed_state(loop, given, frozenset(cotangents))
    counted = trip_count(loop)
    part = linearise(
        at.program, loop.attributes["body"], inputs_of([activity.of_state(loop, given)]), needed, _cheap(loop, counted)
    )
    fixed = [need for need in part.needs if not isinstance(need, Instruction) and _is_fixed(loop, need)]
    stacked = [
        need
        for need in part.needs
        if isinstance(need, Instruction) or not (_is_fixed(loop, need) or _is_counter(counted, need))
    ]
    ahead = at.ahead_of(loop)
    constants = [at.primal(leaf_of(ahead, initial, path)) for _, path in fixed]
    stacks = [at.primal(stack) for stack in _save(at, loop, part, stacked, count)]
    paths = list(part.results)
    start = [
        cotangents.get(path) or at.zeros(shape) for path, shape in zip(paths, _leaf_shapes(initial, paths), strict=True)
    ]
    first, second = len(start), len(start) + len(constants)

    def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        back = build.binary("subtract", build.scalar_constant(count - 1, "s32"), number)
        values: dict[Leaf | Instruction, Instruction] = dict(zip(fixed, state[first:second], strict=True))
        values |= {need: _unstack(build, stack, back) for need, stack in zip(stacked, state[second:], strict=True)}
        for need in part.needs:
            if need not in values:
                assert counted is not None
                assert not isinstance(need, Instruction)
                values[need] = _counter(build, counted, back, _leaf_shapes(initial, [need[1]])[0].element_type)
        found = applied(build, part.backward, [*state[:first], *(values[need] for need in part.needs)])
        own = {path: value for (_, path), value in zip(part.inputs, found, strict=True)}
        return [
            *(own.get(path) or build.splat(0.0, one.shape) for path, one in zip(paths, start, strict=True)),
            *state[first:],
        ]

    after = counted_loop(at.module, at.build, count, [*start, *constants, *stacks], step)
    for path, cotangent in zip(paths, after, strict=False):
        at.give(initial, cotangent, path)


def _is_fixed(loop: Instruction, need: Leaf) -> bool:
    """Whether a part of the state stays the same."""
    path = need[1]
    return len(path) == 1 and is_invariant_element(loop, path[0])


def _is_counter(counted: TripCount | None, need: Leaf) -> bool:
    return counted is not None and need[1] == (() if counted.index is None else (counted.index,))


def _counter(build: Builder, counted: TripCount, number: Instruction, element_type: str) -> Instruction:
    """What the counter of the loop is in an iteration."""
    if element_type != "s32":
        number = build.convert(number, element_type)
    if counted.step != 1:
        number = build.binary("multiply", number, build.scalar_constant(counted.step, element_type))
    if counted.initial:
        number = build.binary("add", number, build.scalar_constant(counted.initial, element_type))
    return number


_MOVES = ("broadcast", "reshape", "slice", "dynamic-slice", "transpose", "reverse", "iota", "constant", "pad")


def _cheap(loop: Instruction, counted: TripCount | None) -> Callable[[Computation], Callable[[Instruction], bool]]:
    """What follows from the counter and what stays the same, without products and reductions."""

    def again(body: Computation) -> Callable[[Instruction], bool]:
        found: set[Instruction] = set()
        for instruction in body:
            if instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "parameter":
                place = 0, (instruction.attributes["index"],)
                if _is_fixed(loop, place) or _is_counter(counted, place):
                    found.add(instruction)
            elif instruction.opcode == "parameter":
                if _is_counter(counted, (0, ())):
                    found.add(instruction)
            elif (
                (instruction.opcode in _MOVES or instruction.has("elementwise"))
                and all(operand in found for operand in instruction.operands)
            ):
                found.add(instruction)
        return found.__contains__

    return again


def _save(
    at: Reverse, loop: Instruction, part: Linear, stacked: Sequence[Leaf | Instruction], count: int
) -> list[Instruction]:
    """Put a loop in the place of `loop` that also stacks some of its values; the stacks."""
    if not stacked:
        return []
    ahead = at.ahead_of(loop)
    initial = loop.operands[0]
    elements = _elements(ahead, initial)
    body = part.forward
    inside = Builder(body)
    values = [
        need if isinstance(need, Instruction) else leaf_of(inside, body.parameters[0], need[1]) for need in stacked
    ]
    after = _elements(inside, body.root)
    empty = [ahead.splat(0, _stack_shape(value.shape, count)) for value in values]
    extra = [ahead.scalar_constant(0, "s32"), *empty]
    shape = tuple_shape([one.shape for one in (*elements, *extra)])
    number, *stacks = _widen(body, shape, len(elements))
    following = [inside.binary("add", number, inside.scalar_constant(1, "s32"))]
    for stack, value in zip(stacks, values, strict=True):
        one = inside.reshape(value, (1, *value.shape.dimensions))
        following.append(inside.dynamic_update_slice(stack, one, _starts(inside, number, stack.shape.rank)))
    body.root = inside.tuple([*after, *following])
    condition = clone_computation(loop.attributes["condition"])
    _widen(condition, shape, len(elements))
    attributes = {**loop.attributes, "condition": at.module.add(condition), "body": at.module.add(body)}
    new = ahead.add("while", shape, (ahead.tuple([*elements, *extra]),), attributes)
    results = [ahead.gte(new, number) for number in range(len(shape.elements))]
    whole = ahead.tuple(results[: len(elements)]) if initial.shape.is_tuple else results[0]
    at.replace(loop, whole)
    return results[len(elements) + 1 :]


def _elements(build: Builder, state: Instruction) -> list[Instruction]:
    if not state.shape.is_tuple:
        return [state]
    return [leaf_of(build, state, (number,)) for number in range(len(state.shape.elements))]


def _widen(computation: Computation, shape: Shape, count: int) -> list[Instruction]:
    """Give the parameter of a loop's computation elements more than the `count` that it has; those."""
    old = computation.parameters[0]
    build = Builder(computation, next(iter(computation)))
    new = build.put(Instruction("parameter", shape, (), {"parameter_number": 0}))
    elements = [build.gte(new, number) for number in range(count)]
    whole = build.tuple(elements) if old.shape.is_tuple else elements[0]
    old.replace_all_uses(whole)
    more = [build.gte(new, number) for number in range(count, len(shape.elements))]
    computation.erase(old)
    return more


def _stack_shape(shape: Shape, count: int) -> Shape:
    return array(shape.element_type, (count, *shape.dimensions))


def _starts(build: Builder, number: Instruction, rank: int) -> list[Instruction]:
    zero = build.scalar_constant(0, "s32")
    return [number, *[zero] * (rank - 1)]


def _unstack(build: Builder, stack: Instruction, number: Instruction) -> Instruction:
    sizes = stack.shape.dimensions
    one = build.dynamic_slice(stack, _starts(build, number, len(sizes)), (1, *sizes[1:]))
    return build.reshape(one, sizes[1:])


def _while_forward(at: Forward, loop: Instruction) -> ByLeaf:
    """One loop for values and tangents: how often it runs does not depend on the latter."""
    initial = loop.operands[0]
    paths = sorted(at.program.activity.of_state(loop, frozenset(at.tangents(initial))))
    computation, results = with_tangents(at.program, loop.attributes["body"], inputs_of([frozenset(paths)]))
    elements = _elements(at.build, at.primal(initial))
    start = [at.tangent_or_zeros(initial, path) for path in paths]
    shape = tuple_shape([one.shape for one in (*elements, *start)])
    condition = clone_computation(loop.attributes["condition"])
    _widen(condition, shape, len(elements))
    body = Computation(computation.name)
    build = Builder(body)
    given = build.parameter(0, shape)
    state = [build.gte(given, number) for number in range(len(shape.elements))]
    whole = build.tuple(state[: len(elements)]) if initial.shape.is_tuple else state[0]
    value, *found = applied(build, computation, [whole, *state[len(elements) :]])
    own = dict(zip(results, found, strict=True))
    tangents = [own.get(path) or build.splat(0.0, one.shape) for path, one in zip(paths, start, strict=True)]
    body.root = build.tuple([*_elements(build, value), *tangents])
    attributes = {**loop.attributes, "condition": at.module.add(condition), "body": at.module.add(body)}
    new = at.build.add("while", shape, (at.build.tuple([*elements, *start]),), attributes)
    values = [at.build.gte(new, number) for number in range(len(shape.elements))]
    at.settle(loop, at.build.tuple(values[: len(elements)]) if initial.shape.is_tuple else values[0])
    return dict(zip(paths, values[len(elements) :], strict=True))


RULES: dict[str, Rule] = {
    "tuple": Rule(_tuple_reverse, _tuple_forward),
    "get-tuple-element": Rule(_element_reverse, _element_forward),
    "domain": Rule(_same_reverse, _same_forward),
    "add-dependency": Rule(_same_reverse, _same_forward),
    "opt-barrier": Rule(_barrier_reverse, _same_forward),
    "call": Rule(_call_reverse, _call_forward),
    "conditional": Rule(_conditional_reverse, _conditional_forward),
    "while": Rule(_while_reverse, _while_forward),
}
