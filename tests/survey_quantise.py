"""What quantising costs and gains: a classifier, a residual block, a transformer block and a step of a decoder, to each
type.

    python tests/survey_quantise.py [TO...]      a table of error, size and time, as Markdown

The classifier is samples/digits.hlo, on handwritten digits of scikit-learn, with how many are told right; the blocks
have random weights, and the error is the root mean square one of their results.  Times take turns with those of the
module as it was, on all threads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hlotool.driver import compile_module
from hlotool.driver.specialise import bind
from hlotool.harness.bench import Native, measure
from hlotool.harness.quantise.engine import Quantised, quantise
from hlotool.harness.quantise.metric import AccuracyLost, Metric, RelativeError
from hlotool.harness.quantise.options import TARGETS, Options, Sample
from hlotool.ir import Module, literal
from hlotool.text.parser import parse

ROOT = Path(__file__).parents[1]
_DIGITS = 200

RESIDUAL = """HloModule residual
ENTRY main {
  x = f32[8,28,28,128] parameter(0)
  k1 = f32[3,3,128,128] parameter(1)
  k2 = f32[3,3,128,128] parameter(2)
  one = f32[128] parameter(3)
  some = f32[128] parameter(4)
  zero = f32[] constant(0)
  zeros = f32[8,28,28,128] broadcast(zero), dimensions={}
  c1 = f32[8,28,28,128] convolution(x, k1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  n1 = f32[8,28,28,128] batch-norm-inference(c1, one, some, some, one), epsilon=0.001, feature_index=3
  r1 = f32[8,28,28,128] maximum(n1, zeros)
  c2 = f32[8,28,28,128] convolution(r1, k2), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  n2 = f32[8,28,28,128] batch-norm-inference(c2, one, some, some, one), epsilon=0.001, feature_index=3
  sum = f32[8,28,28,128] add(n2, x)
  ROOT r2 = f32[8,28,28,128] maximum(sum, zeros)
}
"""
BLOCK = """HloModule transformer
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}
ENTRY main {
  x = f32[256,768] parameter(0)
  wq = f32[768,768] parameter(1)
  wk = f32[768,768] parameter(2)
  wv = f32[768,768] parameter(3)
  wo = f32[768,768] parameter(4)
  w1 = f32[768,3072] parameter(5)
  w2 = f32[3072,768] parameter(6)
  zero = f32[] constant(0)
  lowest = f32[] constant(-inf)
  q0 = f32[256,768] dot(x, wq), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k0 = f32[256,768] dot(x, wk), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v0 = f32[256,768] dot(x, wv), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[256,12,64] reshape(q0)
  k = f32[256,12,64] reshape(k0)
  v = f32[256,12,64] reshape(v0)
  scores = f32[12,256,256] dot(q, k), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  eighth = f32[] constant(0.125)
  eighths = f32[12,256,256] broadcast(eighth), dimensions={}
  scaled = f32[12,256,256] multiply(scores, eighths)
  largest = f32[12,256] reduce(scaled, lowest), dimensions={2}, to_apply=max
  most = f32[12,256,256] broadcast(largest), dimensions={0,1}
  lower = f32[12,256,256] subtract(scaled, most)
  powers = f32[12,256,256] exponential(lower)
  total = f32[12,256] reduce(powers, zero), dimensions={2}, to_apply=add
  totals = f32[12,256,256] broadcast(total), dimensions={0,1}
  weights = f32[12,256,256] divide(powers, totals)
  mixed = f32[12,256,64] dot(weights, v), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}
  order = f32[256,12,64] transpose(mixed), dimensions={1,0,2}
  flat = f32[256,768] reshape(order)
  out = f32[256,768] dot(flat, wo), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  inner = f32[256,768] add(out, x)
  wide = f32[256,3072] dot(inner, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zeros = f32[256,3072] broadcast(zero), dimensions={}
  active = f32[256,3072] maximum(wide, zeros)
  narrow = f32[256,768] dot(active, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[256,768] add(narrow, inner)
}
"""  # noqa: E501

DECODER = """HloModule decoder
ENTRY main {
  x = f32[1,2048] parameter(0)
  up = f32[2048,8192] parameter(1)
  down = f32[8192,2048] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[1,8192] broadcast(zero), dimensions={}
  wide = f32[1,8192] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  active = f32[1,8192] maximum(wide, zeros)
  narrow = f32[1,2048] dot(active, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[1,2048] add(narrow, x)
}
"""


def _digits() -> tuple[Module, list[Sample], Metric]:
    from sklearn.datasets import load_digits

    sys.path.insert(0, str(ROOT / "samples" / "digits"))
    from train import enlarged

    data = load_digits()
    apart = range(0, len(data.images), 6)  # those that the classifier was not trained with
    samples = [Sample([enlarged(data.images[n])], np.array(data.target[n])) for n in list(apart)[:_DIGITS]]
    return parse((ROOT / "samples" / "digits.hlo").read_text()), samples, AccuracyLost()


def _random(text: str) -> tuple[Module, list[Sample], Metric]:
    """The first parameter is the input; all others are weights, in whose sums numbers stay as large as they are."""
    random = np.random.default_rng(0)
    module = parse(text)
    first, *others = module.entry.parameters
    weights: dict[str, Any] = {}
    for one in others:
        sizes = one.shape.dimensions
        terms = int(np.prod(sizes[:-1]))
        drawn = random.standard_normal(sizes) / np.sqrt(terms) if len(sizes) > 1 else random.uniform(0.5, 1.5, sizes)
        weights[one.name] = literal(drawn.astype(np.float32))
    samples = [Sample([random.standard_normal(first.shape.dimensions).astype(np.float32)]) for _ in range(3)]
    return bind(module, weights), samples, RelativeError()


def _models() -> Iterator[tuple[str, tuple[Module, list[Sample], Metric]]]:
    yield "digits", _digits()
    yield "residual block", _random(RESIDUAL)
    yield "transformer block", _random(BLOCK)
    yield "decoder step", _random(DECODER)


def _row(name: str, to: str, found: Quantised, samples: list[Sample]) -> str:
    arrays = samples[0].arrays
    runs = [
        Native(label, lambda one=one: one, lambda one: compile_module(one).run, arrays)  # type: ignore[misc]
        for label, one in (("before", found.source), ("after", found.module))
    ]
    before, after = (one.steady.median for one in measure(runs, 5, 0.5, 0.3))
    told = "" if found.right is None else f"{found.right[0]:.1%} → {found.right[1]:.1%}"
    least = min((layer.total for layer in found.layers), default=0.0)
    kib = [size / 1024 for size in found.bytes]
    return (
        f"| {name} | {to} | {len(found.chosen)} of {len(found.layers)} | {found.error:.2g} | {told} | {least:.1f} | "
        f"{kib[0]:,.0f} → {kib[1]:,.0f} | {before * 1e3:.3f} → {after * 1e3:.3f} | {before / after:.2f} |"
    )


def main() -> None:
    wanted = sys.argv[1:] or list(TARGETS)
    print("| model | to | products | error | told right | worst product, dB | constants, KiB | time, ms | speed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (module, samples, metric) in _models():
        for to in wanted:
            group = 32 if to == "int4-weights" and name != "residual block" else 0
            found = quantise(module, samples, Options(to=to, group=group), metric)
            print(_row(name, to, found, samples), flush=True)


if __name__ == "__main__":
    main()
