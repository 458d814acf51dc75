#!/usr/bin/env python3
"""Makes samples/digits.hlo: which digit a drawing of 32 x 32 points shows, with weights in it.

    pip install hlotool scikit-learn
    python samples/digits/train.py [OUTPUT]

The drawings to learn from are those of "Optical Recognition of Handwritten Digits" of E. Alpaydin and C. Kaynak (UCI
Machine Learning Repository, 1998; https://doi.org/10.24432/C50P49, CC BY 4.0), of which scikit-learn brings the 1797 of
the test set with it, as 8 x 8 counts of points; and as many again that are drawn here, along lines that say how each
digit is written.  A part of both is kept apart, and the script says how many of those are told right.

The module finds what is drawn, and how large; takes 8 x 8 means from there, which two matrix products do; and gives
them to a network with one hidden layer, trained by Adam (Kingma and Ba, 2015), with `hlotool.value_and_grad`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
from sklearn.datasets import load_digits

import hlotool
import hlotool.numpy as np

SIZE, CELLS, HIDDEN, STEPS, BATCH = 32, 8, 48, 6000, 128
STROKES = {
    0: [[(5, 1), (2, 3), (1, 7), (3, 11), (5, 12), (8, 10), (9, 6), (7, 2), (5, 1)]],
    1: [[(5, 1), (5, 12)]],
    2: [[(1, 4), (3, 1), (7, 1), (8, 4), (6, 7), (1, 12), (9, 12)]],
    3: [[(1, 2), (4, 1), (7, 2), (7, 5), (4, 6), (8, 8), (8, 11), (4, 12), (1, 11)]],
    4: [[(6, 1), (1, 8), (9, 8)], [(6, 4), (6, 12)]],
    5: [[(8, 1), (2, 1), (2, 6), (6, 5), (8, 8), (7, 11), (4, 12), (1, 11)]],
    6: [[(7, 1), (3, 4), (1, 9), (3, 12), (7, 11), (8, 8), (5, 6), (2, 8)]],
    7: [[(1, 1), (9, 1), (4, 12)]],
    8: [[(5, 6), (2, 4), (3, 1), (7, 1), (8, 4), (5, 6), (1, 9), (3, 12), (7, 12), (9, 9), (5, 6)]],
    9: [[(8, 3), (5, 1), (2, 3), (3, 6), (6, 6), (8, 3), (8, 7), (6, 12)]],
}
"""Of each digit the lines that the pen goes along, in a box of 10 x 13."""
VARIANTS = {
    1: [[(2, 4), (5, 1), (5, 12)]],
    4: [[(2, 1), (1, 7), (8, 7)], [(7, 1), (6, 12)]],
    7: [[(1, 1), (9, 1), (5, 12)], [(3, 6), (8, 6)]],
    9: [[(8, 4), (5, 1), (2, 4), (4, 7), (8, 4), (8, 12)]],
}
"""Another way to write some."""
IMAGE = """HloModule digits

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] minimum(a, b)
}

most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}

// From the least and the greatest index with ink to means of 8 cells: a row for each, which weighs the 32 points of a
// line by how far they are from its middle.
cells {
  first = f32[] parameter(0)
  last = f32[] parameter(1)
  side = f32[] parameter(2)
  half = f32[] constant(0.5)
  eighth = f32[] constant(0.125)
  one = f32[] constant(1)
  both = f32[] add(first, last)
  middle = f32[] multiply(both, half)
  half_side = f32[] multiply(side, half)
  start = f32[] subtract(middle, half_side)
  step = f32[] multiply(side, eighth)
  width = f32[] maximum(step, one)
  row = f32[8,32] iota(), iota_dimension=0
  halves = f32[8,32] broadcast(half), dimensions={}
  cell = f32[8,32] add(row, halves)
  steps = f32[8,32] broadcast(step), dimensions={}
  offset = f32[8,32] multiply(cell, steps)
  starts = f32[8,32] broadcast(start), dimensions={}
  centre = f32[8,32] add(offset, starts)
  point = f32[8,32] iota(), iota_dimension=1
  distance = f32[8,32] subtract(point, centre)
  far = f32[8,32] abs(distance)
  widths = f32[8,32] broadcast(width), dimensions={}
  relative = f32[8,32] divide(far, widths)
  ones = f32[8,32] broadcast(one), dimensions={}
  near = f32[8,32] subtract(ones, relative)
  zero = f32[] constant(0)
  zeros = f32[8,32] broadcast(zero), dimensions={}
  weight = f32[8,32] maximum(near, zeros)
  ROOT mean = f32[8,32] divide(weight, widths)
}

ENTRY main {
  image = f32[32,32] parameter(0)  // 0 is paper, 1 is ink

  // Where there is ink.
  zero = f32[] constant(0)
  faint = f32[] constant(0.3)
  faints = f32[32] broadcast(faint), dimensions={}
  anywhere = f32[] constant(inf)
  nowhere = f32[] constant(-inf)
  rows = f32[32] reduce(image, nowhere), dimensions={1}, to_apply=most
  columns = f32[32] reduce(image, nowhere), dimensions={0}, to_apply=most
  in_row = pred[32] compare(rows, faints), direction=GT
  in_column = pred[32] compare(columns, faints), direction=GT
  index = f32[32] iota(), iota_dimension=0
  above = f32[] constant(32)
  aboves = f32[32] broadcast(above), dimensions={}
  below = f32[] constant(-1)
  belows = f32[32] broadcast(below), dimensions={}
  rows_up = f32[32] select(in_row, index, aboves)
  rows_down = f32[32] select(in_row, index, belows)
  columns_up = f32[32] select(in_column, index, aboves)
  columns_down = f32[32] select(in_column, index, belows)
  top = f32[] reduce(rows_up, anywhere), dimensions={0}, to_apply=least
  bottom = f32[] reduce(rows_down, nowhere), dimensions={0}, to_apply=most
  left = f32[] reduce(columns_up, anywhere), dimensions={0}, to_apply=least
  right = f32[] reduce(columns_down, nowhere), dimensions={0}, to_apply=most

  // The square around it, as 8 x 8 means.
  one = f32[] constant(1)
  tall = f32[] subtract(bottom, top)
  wide = f32[] subtract(right, left)
  longer = f32[] maximum(tall, wide)
  extent = f32[] add(longer, one)
  side = f32[] maximum(extent, one)
  row_cells = f32[8,32] call(top, bottom, side), to_apply=cells
  column_cells = f32[8,32] call(left, right, side), to_apply=cells
  across = f32[8,32] dot(row_cells, image), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  means = f32[8,8] dot(across, column_cells), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  features = f32[1,64] reshape(means)
"""
NETWORK = """
  // A hidden layer, and how likely each digit is.
  w1 = f32[64,{hidden}] constant({w1})
  b1 = f32[{hidden}] constant({b1})
  w2 = f32[{hidden},10] constant({w2})
  b2 = f32[10] constant({b2})
  product = f32[1,{hidden}] dot(features, w1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  bias = f32[1,{hidden}] reshape(b1)
  raised = f32[1,{hidden}] add(product, bias)
  zeros = f32[1,{hidden}] broadcast(zero), dimensions={{}}
  hidden = f32[1,{hidden}] maximum(raised, zeros)
  scores = f32[1,10] dot(hidden, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  more = f32[1,10] reshape(b2)
  logits = f32[1,10] add(scores, more)
  best = f32[1] reduce(logits, nowhere), dimensions={{1}}, to_apply=most
  bests = f32[1,10] broadcast(best), dimensions={{0}}
  lower = f32[1,10] subtract(logits, bests)
  powers = f32[1,10] exponential(lower)
  total = f32[1] reduce(powers, zero), dimensions={{1}}, to_apply=sum
  totals = f32[1,10] broadcast(total), dimensions={{0}}
  likely = f32[1,10] divide(powers, totals)
  ROOT digit = f32[10] reshape(likely)
}}
"""
HEAD = """// Which digit a drawing of 32 x 32 points shows: how likely 0 to 9 are.
//
// samples/digits/train.py made it, and says what of.
//
// Look at: the drawing is cut out and made smaller by two matrix products whose weights are computed from where there
// is ink; `cells` is called twice.  The weights of the network are constants.
//
// Try:
//   hlotool run samples/digits.hlo --input image=0.5
//   hlotool stats samples/digits.hlo
//   hlotool build samples/digits.hlo -o digits/ --kind wasm --demo
"""


def drawn(lines: list[list[tuple[float, float]]], random: numpy.random.Generator, jitter: float = 0.6) -> Any:
    """The points of a drawing along these lines, each time a bit different."""
    turn, lean = random.normal(0, 0.12), random.normal(0, 0.12)
    across, down = random.uniform(0.6, 1.1) * 2, 2.0
    matrix = numpy.array([[across, lean * down], [0, down]]) @ numpy.array(
        [[numpy.cos(turn), -numpy.sin(turn)], [numpy.sin(turn), numpy.cos(turn)]]
    )
    width, faint = random.uniform(1.0, 2.2), 0.7
    y, x = numpy.mgrid[0:SIZE, 0:SIZE] + 0.5
    distance = numpy.full((SIZE, SIZE), 99.0)
    for line in lines:
        points = (numpy.array(line) - (5, 6.5) + random.normal(0, jitter, (len(line), 2))) @ matrix.T + SIZE / 2
        for (ax, ay), (bx, by) in pairwise(points):
            dx, dy = bx - ax, by - ay
            along = numpy.clip(((x - ax) * dx + (y - ay) * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
            distance = numpy.minimum(distance, numpy.hypot(x - ax - along * dx, y - ay - along * dy))
    return numpy.clip((width - distance) / faint + 0.5, 0, 1).astype(numpy.float32)


def enlarged(counts: Any, random: numpy.random.Generator | None = None) -> Any:
    """8 x 8 counts as a drawing; of another size, leaning and turned if there is a `random`."""
    turn, lean, across, down = random.normal(0, [0.1, 0.1, 0.08, 0.08]) if random is not None else (0, 0, 0, 0)
    y, x = (numpy.mgrid[0:SIZE, 0:SIZE] + 0.5) / 4 - 4
    u = (numpy.cos(turn) * x + (numpy.sin(turn) + lean) * y) * (1 + across) + 3.5
    v = (numpy.cos(turn) * y - numpy.sin(turn) * x) * (1 + down) + 3.5
    padded = numpy.pad(counts / 16.0, 2)
    u, v = numpy.clip(u + 2, 0, 10.99), numpy.clip(v + 2, 0, 10.99)
    i, j = v.astype(int), u.astype(int)
    p, q = v - i, u - j
    found = (padded[i, j] * (1 - p) * (1 - q) + padded[i, j + 1] * (1 - p) * q
             + padded[i + 1, j] * p * (1 - q) + padded[i + 1, j + 1] * p * q)  # fmt: skip
    return numpy.clip(found * 1.25 - 0.1, 0, 1).astype(numpy.float32)


def drawings(random: numpy.random.Generator) -> tuple[Any, Any, Any]:
    """Drawings, what they show, and whether they are kept apart."""
    data = load_digits()
    made, shown, apart = [], [], []
    for number, (counts, digit) in enumerate(zip(data.images, data.target, strict=True)):
        test = number % 6 == 0
        for copy in range(1 if test else 4):
            made.append(enlarged(counts, random if copy else None))
            shown.append(digit)
            apart.append(test)
    for digit, lines in [*STROKES.items(), *VARIANTS.items()]:
        for number in range(500):
            made.append(drawn(lines, random))
            shown.append(digit)
            apart.append(number % 6 == 0)
    return numpy.stack(made), numpy.array(shown), numpy.array(apart)


@hlotool.jit
def step(weights: Any, moments: Any, number: Any, x: Any, wanted: Any) -> Any:
    """A step of Adam."""

    def loss(weights: Any) -> Any:
        w1, b1, w2, b2 = weights
        logits = np.maximum(x @ w1 + b1, 0) @ w2 + b2
        lower = logits - np.max(logits, axis=1, keepdims=True)
        likely = lower - np.log(np.sum(np.exp(lower), axis=1, keepdims=True))
        return -np.mean(np.sum(likely * wanted, axis=1)) + 1e-4 * (np.sum(w1 * w1) + np.sum(w2 * w2))

    value, slopes = hlotool.value_and_grad(loss)(weights)
    new_weights, new_moments = [], []
    for weight, slope, (first, second) in zip(weights, slopes, moments, strict=True):
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope * slope
        rate = 3e-3 / (1 + number / 1500) * np.sqrt(1 - 0.999**number) / (1 - 0.9**number)
        new_weights.append(weight - rate * first / (np.sqrt(second) + 1e-8))
        new_moments.append((first, second))
    return value, new_weights, new_moments


def text_of(array: Any) -> str:
    """As HLO writes a constant, with few digits."""
    if array.ndim == 1:
        return "{" + ", ".join(f"{number:.3g}" for number in array) + "}"
    return "{\n    " + ",\n    ".join(map(text_of, array)) + "\n  }"


def module_of(weights: Any) -> str:
    w1, b1, w2, b2 = map(text_of, weights)
    return HEAD + IMAGE + NETWORK.format(hidden=HIDDEN, w1=w1, b1=b1, w2=w2, b2=b2)


def main() -> None:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "digits.hlo"
    random = numpy.random.default_rng(1)
    images, shown, apart = drawings(random)
    seen = hlotool.compile(hlotool.parse(IMAGE.replace("features = ", "ROOT features = ") + "}\n"))
    features = numpy.concatenate([seen(image)[0] for image in images])
    weights = [
        random.normal(0, (2 / rows) ** 0.5, (rows, columns)).astype(numpy.float32) if rows else
        numpy.zeros(columns, numpy.float32)
        for rows, columns in ((64, HIDDEN), (0, HIDDEN), (HIDDEN, 10), (0, 10))
    ]  # fmt: skip
    moments = [(numpy.zeros_like(weight), numpy.zeros_like(weight)) for weight in weights]
    own, wanted = numpy.flatnonzero(~apart), numpy.eye(10, dtype=numpy.float32)
    for number in range(1, STEPS + 1):
        batch = random.choice(own, BATCH)
        given = numpy.float32(number), features[batch], wanted[shown[batch]]
        value, weights, moments = step(weights, moments, *given)
        if number % 1000 == 0:
            print(f"step {number}: loss {float(value):.4f}")
    text = module_of([numpy.asarray(weight) for weight in weights])
    output.write_text(text, encoding="utf-8")
    whole = hlotool.compile(hlotool.parse(text))
    right = numpy.array([whole(images[n])[0].argmax() == shown[n] for n in numpy.flatnonzero(apart)])
    handwritten = numpy.arange(len(right)) < (numpy.arange(1797) % 6 == 0).sum()
    written, made = right[handwritten].mean(), right[~handwritten].mean()
    print(f"{written:.1%} of handwritten digits and {made:.1%} of those drawn here are right")


if __name__ == "__main__":
    main()
