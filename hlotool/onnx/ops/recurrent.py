"""Recurrent layers: one loop over the steps for each direction.

The product with the input, which needs no step before, is computed for all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.control import scan
from hlotool.onnx.lowering import Context, Refused, lowering
from hlotool.onnx.ops.activations import activation
from hlotool.onnx.ops.pieces import constant, in_f32, number

__all__: list[str] = []

Functions = Sequence[Callable[[Array], Array]]
Step = Callable[[list[Array], Array], list[Array]]


class _Layer:
    """What RNN, GRU and LSTM share: directions, layouts, activations and lengths."""

    def __init__(
        self, x: Array, lengths: Array | None, direction: str, layout: int, hidden: int, clip: float | None,
        activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float],
    ) -> None:  # fmt: skip
        self.kind = x.dtype
        self.x = np.swapaxes(in_f32(x), 0, 1) if layout else in_f32(x)
        self.lengths, self.layout, self.hidden, self.clip = lengths, layout, hidden, clip
        self.reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
        if self.reverse is None:
            raise Refused(f"the direction {direction!r}")
        alphas, betas = list(alpha), list(beta)
        functions = []
        for name in activations:
            takes_alpha = name.lower() in ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
            takes_beta = name.lower() in ("affine", "scaledtanh", "hardsigmoid")
            functions.append(
                activation(
                    name, alphas.pop(0) if takes_alpha and alphas else None,
                    betas.pop(0) if takes_beta and betas else None,
                )
            )
        self.functions: list[Callable[[Array], Array]] = functions

    def clipped(self, value: Array) -> Array:
        if not self.clip:
            return value
        return np.minimum(np.maximum(value, number(-self.clip, value)), number(self.clip, value))

    def state(self, given: Array | None, direction: int) -> Array:
        """The first state of a direction: [batch, hidden]."""
        if given is None:
            return np.zeros((self.x.shape[1], self.hidden), self.x.dtype)
        found = in_f32(given)
        return found[:, direction] if self.layout else found[direction]

    def run(
        self, states: Sequence[Array | None], step_of: Callable[[int, Functions], tuple[Array, Step]]
    ) -> tuple[Array, list[Array]]:
        """All steps, [steps, directions, batch, hidden], and the last states, [directions, batch, hidden] each.

        `step_of` gives for a direction the product with the input, and what makes the next states of it.
        """
        rows, ends = [], []
        assert self.reverse is not None
        each = len(self.functions) // len(self.reverse)
        for direction, reverse in enumerate(self.reverse):
            given, step = step_of(direction, self.functions[direction * each : (direction + 1) * each])
            begin = [self.state(one, direction) for one in states]
            made, last = self._loop(given, step, begin, reverse)
            rows.append(made)
            ends.append(last)
        return np.stack(rows, axis=1), [np.stack([one[n] for one in ends], axis=0) for n in range(len(states))]

    def _loop(self, given: Array, step: Step, begin: list[Array], reverse: bool) -> tuple[Array, list[Array]]:
        steps = given.shape[0]
        numbers = constant(numpy.arange(steps, dtype=numpy.int32))

        def body(state: Any, row: Any) -> Any:
            number_, own = row
            after = step(list(state), own)
            made = after[0]
            if self.lengths is not None:  # rows that have ended, or, backwards, not begun, stay as they are
                inside = np.reshape(number_ < np.astype(self.lengths, numpy.int32), (-1, 1))
                after = [np.where(inside, new, old) for new, old in zip(after, state, strict=True)]
                made = np.where(inside, made, number(0, made))
            return tuple(after), made

        last, rows = scan(body, tuple(begin), (numbers, given), reverse=reverse)
        return rows, list(last)

    def results(self, rows: Array, ends: Sequence[Array], wanted: int) -> tuple[Array, ...]:
        """The outputs as the layout has them, in the type of the input."""
        if self.layout:
            rows = np.permute_dims(rows, (2, 0, 1, 3))
            ends = [np.swapaxes(one, 0, 1) for one in ends]
        return tuple(np.astype(one, self.kind) for one in (rows, *ends))[: max(1, wanted)]


def _bias(bias: Array | None, direction: int, parts: int, hidden: int, kind: Any) -> tuple[Array, Array]:
    """The biases of the input and of the state."""
    if bias is None:
        zero = np.zeros((parts * hidden,), kind)
        return zero, zero
    own = np.astype(bias[direction], kind)
    return own[: parts * hidden], own[parts * hidden :]


def _parts(value: Array, count: int) -> list[Array]:
    width = value.shape[-1] // count
    return [value[..., n * width : (n + 1) * width] for n in range(count)]


@lowering("RNN")
def rnn(
    c: Context, x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None,
    initial: Array | None = None, *, activation_alpha: Sequence[float] = (), activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> tuple[Array, ...]:  # fmt: skip
    hidden = r.shape[-1]
    names = activations or ("Tanh",) * w.shape[0]
    layer = _Layer(x, lengths, direction, layout, hidden, clip, names, activation_alpha, activation_beta)

    def step_of(d: int, functions: Functions) -> tuple[Array, Step]:
        enter, stay = _bias(bias, d, 1, hidden, layer.x.dtype)
        own = in_f32(r[d]).T
        given = np.matmul(layer.x, in_f32(w[d]).T) + (enter + stay)
        return given, lambda state, row: [functions[0](layer.clipped(row + np.matmul(state[0], own)))]

    rows, ends = layer.run([initial], step_of)
    return layer.results(rows, ends, len(c.wanted))


@lowering("GRU")
def gru(
    c: Context, x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None,
    initial: Array | None = None, *, activation_alpha: Sequence[float] = (), activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0, output_sequence: int = 0,
) -> tuple[Array, ...]:  # fmt: skip
    """Gates are update, reset and hidden, in this order."""
    hidden = r.shape[-1]
    names = activations or ("Sigmoid", "Tanh") * w.shape[0]
    layer = _Layer(x, lengths, direction, layout, hidden, clip, names, activation_alpha, activation_beta)

    def step_of(d: int, functions: Functions) -> tuple[Array, Step]:
        enter, stay = _bias(bias, d, 3, hidden, layer.x.dtype)
        own = in_f32(r[d])
        gates, last = own[: 2 * hidden].T, own[2 * hidden :].T
        given = np.matmul(layer.x, in_f32(w[d]).T) + enter
        bias_gates, bias_last = stay[: 2 * hidden], stay[2 * hidden :]

        def step(state: list[Array], row: Array) -> list[Array]:
            (before,) = state
            pair = row[..., : 2 * hidden] + np.matmul(before, gates) + bias_gates
            update, reset = (functions[0](layer.clipped(one)) for one in _parts(pair, 2))
            if linear_before_reset:
                inner = reset * (np.matmul(before, last) + bias_last)
            else:
                inner = np.matmul(reset * before, last) + bias_last
            new = functions[1](layer.clipped(row[..., 2 * hidden :] + inner))
            return [(number(1, new) - update) * new + update * before]

        return given, step

    rows, ends = layer.run([initial], step_of)
    return layer.results(rows, ends, len(c.wanted))


@lowering("LSTM")
def lstm(
    c: Context, x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None,
    initial_h: Array | None = None, initial_c: Array | None = None, peepholes: Array | None = None, *,
    activation_alpha: Sequence[float] = (), activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, input_forget: int = 0, layout: int = 0, output_sequence: int = 0,
) -> tuple[Array, ...]:  # fmt: skip
    """Gates are input, output, forget and cell, in this order."""
    hidden = r.shape[-1]
    names = activations or ("Sigmoid", "Tanh", "Tanh") * w.shape[0]
    layer = _Layer(x, lengths, direction, layout, hidden, clip, names, activation_alpha, activation_beta)

    def step_of(d: int, functions: Functions) -> tuple[Array, Step]:
        f, g, h = functions
        enter, stay = _bias(bias, d, 4, hidden, layer.x.dtype)
        own = in_f32(r[d]).T
        given = np.matmul(layer.x, in_f32(w[d]).T) + (enter + stay)
        looks = None if peepholes is None else _parts(in_f32(peepholes[d]), 3)

        def step(state: list[Array], row: Array) -> list[Array]:
            before, cell = state
            i, o, forget, new = _parts(row + np.matmul(before, own), 4)
            if looks is not None:
                i, forget = i + looks[0] * cell, forget + looks[2] * cell
            i = f(layer.clipped(i))
            kept = number(1, i) - i if input_forget else f(layer.clipped(forget))
            after = kept * cell + i * g(layer.clipped(new))
            if looks is not None:
                o = o + looks[1] * after
            return [f(layer.clipped(o)) * h(after), after]

        return given, step

    rows, ends = layer.run([initial_h, initial_c], step_of)
    return layer.results(rows, ends, len(c.wanted))
