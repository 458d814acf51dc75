"""Recurrent layers over whole sequences, one loop over the steps for each layer and direction.

What does not depend on the step before, the product with the input, is computed for all steps at once.  Programs that
are to be differentiated do not come here: PyTorch takes these operations apart for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.ir.shape import array, scalar
from hlotool.torch.lowering import Context, Number, Refused, lowering
from hlotool.torch.ops.pieces import element, sizes

__all__: list[str] = []

Step: TypeAlias = Callable[[Builder, Instruction, Sequence[Instruction], Sequence[Instruction]], list[Instruction]]
"""The next states from the builder, a step's product with the input, the states, and the weights for the states; the
first is what the layer gives."""


def _product(b: Builder, a: Instruction, weight: Instruction) -> Instruction:
    """``a @ weight.T``."""
    last = len(a.shape.dimensions) - 1
    return b.dot(a, weight, ((last,), (1,)), ((), ()), element(a))


def _gates(b: Builder, a: Instruction, count: int) -> list[Instruction]:
    rows, width = a.shape.dimensions[0], a.shape.dimensions[1] // count
    return [b.slice(a, (0, n * width), (rows, (n + 1) * width), (1, 1)) for n in range(count)]


def _lstm(
    b: Builder, given: Instruction, states: Sequence[Instruction], weights: Sequence[Instruction]
) -> list[Instruction]:
    hidden, cell = states
    parts = _gates(b, b.binary("add", given, _product(b, hidden, weights[0])), 4)
    enter, forget, out = (b.unary("logistic", parts[n]) for n in (0, 1, 3))
    kept, new = b.binary("multiply", forget, cell), b.binary("multiply", enter, b.unary("tanh", parts[2]))
    cell = b.binary("add", kept, new)
    hidden = b.binary("multiply", out, b.unary("tanh", cell))
    return [_product(b, hidden, weights[1]) if len(weights) > 1 else hidden, cell]  # one that projects the result


def _gru(
    b: Builder, given: Instruction, states: Sequence[Instruction], weights: Sequence[Instruction]
) -> list[Instruction]:
    (hidden,) = states
    product = _product(b, hidden, weights[0])
    if len(weights) > 1:
        product = b.binary("add", product, b.broadcast(weights[1], (1,), product.shape.dimensions))
    ours, theirs = _gates(b, given, 3), _gates(b, product, 3)
    reset, update = (b.unary("logistic", b.binary("add", ours[n], theirs[n])) for n in (0, 1))
    new = b.unary("tanh", b.binary("add", ours[2], b.binary("multiply", reset, theirs[2])))
    return [b.binary("add", new, b.binary("multiply", update, b.binary("subtract", hidden, new)))]


def _plain(opcode: str) -> Step:
    def step(
        b: Builder, given: Instruction, states: Sequence[Instruction], weights: Sequence[Instruction]
    ) -> list[Instruction]:
        total = b.binary("add", given, _product(b, states[0], weights[0]))
        if opcode == "tanh":
            return [b.unary("tanh", total)]
        return [b.binary("maximum", total, b.splat(0.0, total.shape))]

    return step


def _loop(
    c: Context, step: Step, given: Instruction, states: Sequence[Instruction], weights: Sequence[Instruction],
    backwards: bool,
) -> tuple[Instruction, list[Instruction]]:  # fmt: skip
    """All steps of a layer in one direction: what it gives at each, and the last states."""
    length, width = given.shape.dimensions[0], states[0].shape.dimensions[1]
    kind, rows = element(given), given.shape.dimensions[1]
    made = c.full(0.0, kind, (length, rows, width))
    initial = c.builder.tuple([c.full(0, "s32"), made, *states, given, *weights])
    body = Computation("recurrent_step")
    b = Builder(body)
    parameter = b.parameter(0, initial.shape, "state")
    number, made, *rest = [b.gte(parameter, n) for n in range(len(initial.operands))]
    states, given, weights = rest[: len(states)], rest[len(states)], rest[len(states) + 1 :]
    place = b.binary("subtract", b.splat(length - 1, scalar("s32")), number) if backwards else number
    zero = b.splat(0, scalar("s32"))
    part = b.reshape(b.dynamic_slice(given, (place, zero, zero), (1, *given.shape.dimensions[1:])),
                     given.shape.dimensions[1:])  # fmt: skip
    after = step(b, part, states, weights)
    made = b.dynamic_update_slice(made, b.reshape(after[0], array(kind, (1, rows, width))), (place, zero, zero))
    number = b.binary("add", number, b.splat(1, scalar("s32")))
    body.root = b.tuple([number, made, *after, given, *weights])
    condition = Computation("recurrent_condition")
    b = Builder(condition)
    number = b.gte(b.parameter(0, initial.shape, "state"), 0)
    condition.root = b.compare(number, b.splat(length, scalar("s32")), "LT")
    found = c.builder.while_(initial, c.own(condition), c.own(body))
    return c.builder.gte(found, 1), [c.builder.gte(found, 2 + n) for n in range(len(states))]


def _layers(
    c: Context, step: Step, x: Instruction, hx: Sequence[Instruction], params: Sequence[Instruction], has_biases: bool,
    num_layers: int, dropout: Number, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Instruction, ...]:  # fmt: skip
    """The result of a recurrent operation: what the last layer gives, and the last states of all layers."""
    b, kind = c.builder, element(x)
    if kind not in ("f32", "f64"):
        raise Refused(f"a recurrent layer of {kind}")
    if train and dropout and num_layers > 1:
        raise Refused("dropout between recurrent layers")
    if len(x.shape.dimensions) != 3 or 0 in x.shape.dimensions:
        raise Refused(f"a recurrent layer of sizes {list(x.shape.dimensions)}")
    x = b.transpose(x, (1, 0, 2)) if batch_first else x
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    last: list[list[Instruction]] = [[] for _ in hx]
    for layer in range(num_layers):
        made = []
        for direction in range(directions):
            place = layer * directions + direction
            weights = list(params[place * each : (place + 1) * each])
            given = _product(b, x, weights[0])
            kept = [weights[1], *weights[2 + 2 * has_biases :]]
            if has_biases:
                bias = weights[2]
                if step is _gru:  # the reset gate comes between the other bias and the sum
                    kept.append(weights[3])
                else:
                    bias = b.binary("add", bias, weights[3])
                given = b.binary("add", given, b.broadcast(bias, (2,), given.shape.dimensions))
            states = [_row(b, state, place) for state in hx]
            result, after = _loop(c, step, given, states, kept, direction == 1)
            made.append(result)
            for number, state in enumerate(after):
                last[number].append(b.reshape(state, (1, *sizes(state))))
        x = made[0] if directions == 1 else b.concatenate(made, 2)
    ends = [rows[0] if len(rows) == 1 else b.concatenate(rows, 0) for rows in last]
    return (b.transpose(x, (1, 0, 2)) if batch_first else x, *ends)


def _row(b: Builder, states: Instruction, place: int) -> Instruction:
    """The states of a layer and direction."""
    rows, width = states.shape.dimensions[1:]
    return b.reshape(b.slice(states, (place, 0, 0), (place + 1, rows, width), (1, 1, 1)), (rows, width))


@lowering("aten.lstm.input")
def lstm(
    c: Context, input: Instruction, hx: Sequence[Instruction], params: Sequence[Instruction], has_biases: bool,
    num_layers: int, dropout: Number, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Instruction, ...]:  # fmt: skip
    return _layers(
        c, _lstm, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


def _one_state(
    step: Step, c: Context, input: Instruction, hx: Instruction, params: Sequence[Instruction], has_biases: bool,
    num_layers: int, dropout: Number, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Instruction, ...]:  # fmt: skip
    return _layers(
        c, step, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


lowering("aten.gru.input")(partial(_one_state, _gru))
lowering("aten.rnn_tanh.input")(partial(_one_state, _plain("tanh")))
lowering("aten.rnn_relu.input")(partial(_one_state, _plain("maximum")))
