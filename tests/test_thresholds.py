"""Shapes around every threshold of the compiler, on several processors: native code against the evaluator.

Each threshold of a size has a generator, which writes a module from a size at, just below or just above it.  Those that
weigh one cost against another are replaced by other numbers, and small programs compiled.  No number may decide what is
done without being declared: the sources are searched for them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import hlotool
from hlotool.cli import cli
from hlotool.codegen.machine import Machine, host, named
from hlotool.codegen.program import build
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.inspect.thresholds import Listed, thresholds
from hlotool.ir import Module
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.select import map_passes
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.compile import compile_units
from hlotool.text.parser import parse

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n"
Generator = Callable[[int], str]


def main_of(body: str, before: str = "") -> str:
    return f"HloModule m\n{before}ENTRY e {{\n{body}\n}}\n"


def elements_of(size: int, kind: str = "f32") -> int:
    """Elements whose bytes are about `size`: just below, at and above as `size` is."""
    return max(1, size * 8 // {"f32": 32, "f64": 64, "s8": 8}[kind])


def elementwise(n: int) -> str:
    return main_of(
        f"x = f32[{n}] parameter(0)\ny = f32[{n}] reverse(x), dimensions={{0}}\nt = f32[{n}] tanh(x)\n"
        f"ROOT z = f32[{n}] add(t, y)"
    )


def stages(n: int) -> str:
    """Work that is heavy, and read in several places."""
    lines = [f"x = f32[{n}] parameter(0)", f"t0 = f32[{n}] tanh(x)"]
    for i in range(1, 10):
        lines.append(f"t{i} = f32[{n}] {('sine', 'tanh', 'exponential')[i % 3]}(t{i - 1})")
        lines.append(f"u{i} = f32[{n}] tanh(t{i})" if i == 9 else f"n{i} = f32[{n}] negate(t{i})")
    lines.append(f"a = f32[{n - 1}] slice(t9), slice={{[0:{n - 1}]}}\nb = f32[{n - 1}] slice(t9), slice={{[1:{n}]}}")
    return main_of("\n".join([*lines, f"ROOT c = f32[{n - 1}] subtract(a, b)"]))


def rounds(n: int, length: int = 700) -> str:
    """`n` rounds of a generator of random numbers on 32 bits, for each operation on 64; then more on 16 and 8."""
    shape, wide = f"u32[{length}]", f"u64[{length}]"
    lines = [f"i = {wide} iota(), iota_dimension=0\nx0 = {shape} convert(i)\ny0 = {shape} parameter(0)"]
    for k in range(n):
        turns = f"c{k} = {shape} broadcast(d{k}), dimensions={{}}\nd{k} = u32[] constant({7 * k % 32})"
        lines += reversed(turns.splitlines())
        lines.append(f"x{k + 1} = {shape} add(x{k}, y{k})\nl{k} = {shape} shift-left(y{k}, c{k})")
        lines.append(f"y{k + 1} = {shape} xor(x{k + 1}, l{k})")
    lines.append(f"h = u8[{length}] convert(y{n})\nq = u8[{length}] multiply(h, h)\nz = u8[{length}] add(q, h)")
    return main_of("\n".join([*lines, f"ROOT r = ({shape}, u8[{length}]) tuple(x{n}, z)"]))


def concatenate(n: int, along: int = 0, width: int = 3) -> str:
    """`n` operands, of two sizes."""
    shapes = [f"f32[{2 + i % 2},{width}]" if along == 0 else f"f32[{width},{2 + i % 2}]" for i in range(n)]
    total = sum(2 + i % 2 for i in range(n))
    whole = f"f32[{total},{width}]" if along == 0 else f"f32[{width},{total}]"
    lines = [f"p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    names = ", ".join(f"p{i}" for i in range(n))
    return main_of("\n".join([*lines, f"ROOT c = {whole} concatenate({names}), dimensions={{{along}}}"]))


def many_joined(n: int, count: int = 70) -> str:
    """`count` arrays of which one has `n` rows, some are computed, and which are worked on together."""
    lines = [f"p{i} = u8[3,{n if i == 1 else 1 + i % 3},5] parameter({i})" for i in range(count)]
    lines += [f"q{i} = u8[3,{1 + i % 3},5] add(p{i}, p{i})" for i in range(2, count, 3)]
    total = n + sum(1 + i % 3 for i in range(count) if i != 1)
    names = ", ".join(f"{'q' if i % 3 == 2 else 'p'}{i}" for i in range(count))
    lines.append(f"c = u8[3,{total},5] concatenate({names}), dimensions={{1}}")
    return main_of("\n".join([*lines, f"ROOT r = u8[3,{total},5] not(c)"]))


def joined_twice(n: int) -> str:
    """`n` arrays, half of which are joined, worked on, and joined with the others."""
    lines = [f"p{i} = f32[3] parameter({i})" for i in range(n)]
    first, others = (", ".join(f"p{i}" for i in part) for part in (range(n // 2), range(n // 2, n)))
    lines.append(f"c = f32[{n // 2 * 3}] concatenate({first}), dimensions={{0}}\nt = f32[{n // 2 * 3}] negate(c)")
    lines.append(f"d = f32[{n * 3}] concatenate(t, {others}), dimensions={{0}}")
    return main_of("\n".join([*lines, f"ROOT r = f32[{n * 3}] negate(d)"]))


def turning_state(n: int) -> str:
    """A loop whose `n` arrays change places in each trip."""
    state = f"(s32[], {', '.join(['f32[4]'] * n)})"
    head = f"p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0"
    steps = "".join(f"g{k} = f32[4] get-tuple-element(p), index={k + 1}\n" for k in range(n))
    after = ", ".join(f"g{(k + 1) % n}" for k in range(n))
    parts = (
        f"test {{ {head} n = s32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }}\n"
        f"body {{ {head} one = s32[] constant(1) j = s32[] add(i, one)\n{steps}ROOT t = {state} tuple(j, {after}) }}\n"
    )
    lines = [f"p{k} = f32[4] parameter({k})" for k in range(n)]
    names = ", ".join(f"p{k}" for k in range(n))
    lines.append(f"z = s32[] constant(0)\ns = {state} tuple(z, {names})")
    return main_of("\n".join([*lines, f"ROOT w = {state} while(s), condition=test, body=body"]), parts)


def concatenate_bytes(size: int) -> str:
    n = elements_of(size)
    return main_of(
        f"x = f32[{n - 5}] parameter(0)\ny = f32[5] parameter(1)\nt = f32[{n - 5}] negate(x)\n"
        f"ROOT c = f32[{n}] concatenate(t, y), dimensions={{0}}"
    )


def reduce(n: int) -> str:
    return main_of(
        f"x = f32[{n}] parameter(0)\nzero = f32[] constant(0)\n"
        f"low = f32[] constant(-inf)\na = f32[] reduce(x, zero), dimensions={{0}}, to_apply=add\n"
        f"b = f32[] reduce(x, low), dimensions={{0}}, to_apply=max\nROOT r = (f32[], f32[]) tuple(a, b)",
        ADD + MAX,
    )


def reduce_of_many(n: int) -> str:
    """A reduce of `n` arrays, of which every third result needs the one before it."""
    steps = [f"a{k} = f32[] parameter({k}) b{k} = f32[] parameter({k + n})" for k in range(n)]
    for k in range(n):
        steps.append(f"s{k} = f32[] {'maximum' if k % 2 else 'add'}(a{k}, b{k})")
        steps.append(f"t{k} = f32[] {f'minimum(s{k}, a{k - 1})' if k % 3 == 2 else f'negate(s{k})'}")
    results = f"({', '.join(['f32[]'] * n)})"
    body = "\n".join([*steps, f"ROOT r = {results} tuple({', '.join(f't{k}' for k in range(n))})"])
    lines = [f"p{k} = f32[30,4] parameter({k})" for k in range(n)]
    operands = ", ".join([*(f"p{k}" for k in range(n)), *["zero"] * n])
    root = f"ROOT r = {results.replace('[]', '[4]')} reduce({operands}), dimensions={{0}}, to_apply=steps"
    return main_of("\n".join([*lines, "zero = f32[] constant(0)", root]), f"steps {{\n{body}\n}}\n")


def reduce_joined(n: int) -> str:
    return main_of(
        f"x = f32[{n}] parameter(0)\ny = f32[{n - 1}] parameter(1)\nzero = f32[] constant(0)\n"
        f"c = f32[{2 * n - 1}] concatenate(x, y), dimensions={{0}}\n"
        "ROOT a = f32[] reduce(c, zero), dimensions={0}, to_apply=add",
        ADD,
    )


def window(n: int) -> str:
    m = n + 9
    return main_of(
        f"x = f32[3,{m}] parameter(0)\nlow = f32[] constant(-inf)\nzero = f32[] constant(0)\n"
        f"a = f32[3,10] reduce-window(x, low), window={{size=1x{n}}}, to_apply=max\n"
        f"b = f32[3,{m}] reduce-window(x, zero), window={{size=1x{m} pad=0_0x{m - 1}_0}}, to_apply=add\n"
        f"c = f32[3,10] reduce-window(x, zero), window={{size=1x{n}}}, to_apply=add\n"
        f"ROOT r = (f32[3,10], f32[3,{m}], f32[3,10]) tuple(a, b, c)",
        ADD + MAX,
    )


def prefix(n: int) -> str:
    return main_of(
        f"x = f32[{n},7] parameter(0)\nzero = f32[] constant(0)\n"
        f"ROOT b = f32[{n},7] reduce-window(x, zero), window={{size={n}x1 pad={n - 1}_0x0_0}}, to_apply=add",
        ADD,
    )


def window_2d(n: int) -> str:
    """Windows of about `n` elements in two dimensions."""
    rows, columns = 4, max(1, -(-n // 4))
    return main_of(
        f"x = f32[{rows + 6},{columns + 6}] parameter(0)\nlow = f32[] constant(-inf)\n"
        f"ROOT a = f32[7,7] reduce-window(x, low), window={{size={rows}x{columns}}}, to_apply=max",
        MAX,
    )


def pad(size: int) -> str:
    n = elements_of(size)
    return main_of(
        f"x = f32[5,{n}] parameter(0)\nz = f32[] parameter(1)\n"
        f"ROOT p = f32[8,{n + 3}] pad(x, z), padding=1_2x2_1"
    )


def small_constant(size: int) -> str:
    n = elements_of(size)
    values = ", ".join(str(i % 13) for i in range(n))
    return main_of(
        f"x = f32[4,{n}] parameter(0)\nc = f32[{n}] constant({{{values}}})\n"
        f"b = f32[4,{n}] broadcast(c), dimensions={{1}}\nROOT a = f32[4,{n}] multiply(x, b)"
    )


def gather_constant(n: int) -> str:
    values = ", ".join(str((3 * i) % 50) for i in range(n))
    return main_of(
        f"x = f32[64] parameter(0)\ni = s32[{n}] constant({{{values}}})\n"
        f"ROOT g = f32[{n}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
        "index_vector_dim=1, slice_sizes={1}"
    )


def fft(n: int) -> str:
    return main_of(
        f"x = c64[9,{n}] parameter(0)\nROOT f = c64[9,{n}] fft(x), fft_type=FFT, fft_length={{{n}}}"
    )


def sort(n: int) -> str:
    less = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n"
    pair = (
        "pair { a = f32[] parameter(0) b = f32[] parameter(1) p = s32[] parameter(2) q = s32[] parameter(3) "
        "s = f32[] sine(a) t = f32[] sine(b) ROOT c = pred[] compare(s, t), direction=GT }\n"
    )
    return main_of(
        f"x = f32[3,{n}] parameter(0)\ni = s32[3,{n}] iota(), iota_dimension=1\n"
        f"a = f32[3,{n}] sort(x), dimensions={{1}}, to_apply=less\n"
        f"b = (f32[3,{n}], s32[3,{n}]) sort(x, i), dimensions={{1}}, is_stable=true, to_apply=pair\n"
        f"c = s32[3,{n}] get-tuple-element(b), index=1\nROOT r = (f32[3,{n}], s32[3,{n}]) tuple(a, c)",
        less + pair,
    )


def topk(k: int) -> str:
    n = 3 * k + 7
    return main_of(f"x = f32[4,{n}] parameter(0)\nROOT t = (f32[4,{k}], s32[4,{k}]) topk(x), k={k}, largest=true")


def scatter(size: int) -> str:
    n = elements_of(size)
    return main_of(
        f"x = f32[{n}] parameter(0)\ni = s32[3,1] constant({{{{0}},{{7}},{{{n - 1}}}}})\nu = f32[3] parameter(1)\n"
        f"ROOT s = f32[{n}] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        ADD,
    )


def scatter_rows(rows: int) -> str:
    """Rows of two elements, some of them at the same index."""
    return main_of(
        f"x = f32[{rows},2] parameter(0)\ni = s32[5,1] constant({{{{0}},{{1}},{{{rows - 1}}},{{1}},{{{rows}}}}})\n"
        f"u = f32[5,2] parameter(1)\nROOT s = f32[{rows},2] scatter(x, i, u), update_window_dims={{1}}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        ADD,
    )


def sort_by_sine(rows: int, length: int) -> str:
    """By a comparator that no key stands for."""
    less = (
        "less { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] sine(a) t = f32[] sine(b) "
        "ROOT c = pred[] compare(s, t), direction=LT }\n"
    )
    return main_of(
        f"x = f32[{rows},{length}] parameter(0)\nROOT s = f32[{rows},{length}] sort(x), dimensions={{1}}, "
        "is_stable=true, to_apply=less",
        less,
    )


def cumulative(size: int, columns: int) -> str:
    """The sums of all that is above."""
    return main_of(
        f"x = f32[{size},{columns}] parameter(0)\nz = f32[] constant(0)\n"
        f"ROOT w = f32[{size},{columns}] reduce-window(x, z), window={{size={size}x1 pad={size - 1}_0x0_0}}, "
        "to_apply=add",
        ADD,
    )


def cholesky(n: int, items: int = 2) -> str:
    """Of x x^T + n 1."""
    return main_of(
        f"x = f32[{items},{n},{n}] parameter(0)\n"
        f"p = f32[{items},{n},{n}] dot(x, x), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
        f"rhs_contracting_dims={{2}}\ni = s32[{n},{n}] iota(), iota_dimension=0\nj = s32[{n},{n}] iota(), "
        f"iota_dimension=1\ne = pred[{n},{n}] compare(i, j), direction=EQ\nf = f32[{n},{n}] convert(e)\n"
        f"k = f32[] constant({4 * n})\nkb = f32[{n},{n}] broadcast(k), dimensions={{}}\n"
        f"g = f32[{n},{n}] multiply(f, kb)\nh = f32[{items},{n},{n}] broadcast(g), dimensions={{1,2}}\n"
        f"q = f32[{items},{n},{n}] add(p, h)\nROOT c = f32[{items},{n},{n}] cholesky(q), lower=true"
    )


def random_bits(n: int) -> str:
    return main_of(
        f"s = u64[2] parameter(0)\nROOT r = (u64[2], u32[{n}]) rng-bit-generator(s), algorithm=rng_philox"
    )


def swapped_state(size: int, trips: int = 5) -> str:
    """A loop whose state is turned around in each trip; a loop of so few trips as 5 is written out."""
    n = elements_of(size)
    state = f"(s32[], f32[{n}])"
    parts = (
        f"test {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant({trips}) "
        "ROOT c = pred[] compare(i, n), direction=LT }\n"
        f"body {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) "
        f"j = s32[] add(i, one) x = f32[{n}] get-tuple-element(p), index=1 r = f32[{n}] reverse(x), dimensions={{0}} "
        f"t = f32[{n}] tanh(r) y = f32[{n}] add(t, x) ROOT t2 = {state} tuple(j, y) }}\n"
    )
    return main_of(
        f"x = f32[{n}] parameter(0)\nz = s32[] constant(0)\ns = {state} tuple(z, x)\n"
        f"w = {state} while(s), condition=test, body=body\nROOT y = f32[{n}] get-tuple-element(w), index=1",
        parts,
    )


def product(m: int, k: int, n: int) -> str:
    """A product whose operand is computed and whose result is worked on."""
    return main_of(
        f"a = f32[{m},{k}] parameter(0)\nb = f32[{k},{n}] parameter(1)\nv = f32[{n}] parameter(2)\n"
        f"s = f32[{m},{k}] tanh(a)\n"
        f"d = f32[{m},{n}] dot(s, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"low = f32[] constant(-inf)\nw = f32[{m},{n}] broadcast(v), dimensions={{1}}\ne = f32[{m},{n}] add(d, w)\n"
        f"r = f32[{m}] reduce(e, low), dimensions={{1}}, to_apply=max\n"
        f"q = f32[{m},{n}] broadcast(r), dimensions={{0}}\n"
        f"ROOT z = f32[{m},{n}] subtract(e, q)",
        MAX,
    )


def worked_product(steps: int) -> str:
    """A product of an operand that lies turned, and takes so many steps to compute."""
    lines = ["a = f32[40,50] parameter(0)", "b = f32[60,50] parameter(1)", "t0 = f32[60,50] negate(b)"]
    lines += [f"t{i + 1} = f32[60,50] {('add', 'maximum')[i % 2]}(t{i}, b)" for i in range(steps)]
    dot = f"dot(a, t{steps}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
    return main_of("\n".join([*lines, f"ROOT d = f32[40,60] {dot}"]))


def product_of(work: float) -> str:
    """A product of about as many operations."""
    return product(max(1, round(work / 8192)), 64, 64)


def plain_products(n: int) -> str:
    """Products alone: of operands as they lie, and turned over; `n` is each of the sizes in turn."""
    dots = ""
    for i, (m, k, w) in enumerate(((n, 40, 48), (24, n, 40), (20, 36, n))):
        dots += (
            f"a{i} = f32[{m},{k}] parameter({3 * i})\nb{i} = f32[{k},{w}] parameter({3 * i + 1})\n"
            f"c{i} = f32[{w},{k}] parameter({3 * i + 2})\n"
            f"d{i} = f32[{m},{w}] dot(a{i}, b{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
            f"e{i} = f32[{m},{w}] dot(a{i}, c{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n"
        )
    shapes = f"f32[{n},48], f32[{n},48], f32[24,40], f32[24,40], f32[20,{n}], f32[20,{n}]"
    return main_of(f"{dots}ROOT r = ({shapes}) tuple(d0, e0, d1, e1, d2, e2)")


def plain_products_of_bytes(size: int) -> str:
    return plain_products(elements_of(size) // 40)


def narrow_weights(m: int, k: int, n: int, turned: bool = False) -> str:
    """Weights of one byte, computed in the product."""
    sizes = f"{n},{k}" if turned else f"{k},{n}"
    return main_of(
        f"x = f32[{m},{k}] parameter(0)\nw = s8[{sizes}] parameter(1)\nb = f32[{sizes}] convert(w)\n"
        f"ROOT y = f32[{m},{n}] dot(x, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{int(turned)}}}"
    )


def joined_product(n: int) -> str:
    """A product whose operand is joined of `n` arrays."""
    lines = [f"p{i} = f32[8,40] parameter({i})" for i in range(n)]
    names = ", ".join(f"p{i}" for i in range(n))
    return main_of(
        "\n".join(lines) + f"\nb = f32[40,64] parameter({n})\n"
        f"c = f32[{8 * n},40] concatenate({names}), dimensions={{0}}\n"
        f"ROOT d = f32[{8 * n},64] dot(c, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )


def streams(n: int, size: int = 70_000) -> str:
    """A product that is worked on together with `n` arrays as large as it is."""
    rows = -(-size // 512)
    shape = f"f32[{rows},512]"
    lines = [f"a = f32[{rows},40] parameter(0)", "b = f32[40,512] parameter(1)"]
    lines.append(f"t0 = {shape} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
    for i in range(n):
        lines.append(f"p{i} = {shape} parameter({i + 2})\nt{i + 1} = {shape} add(t{i}, p{i})")
    return main_of("\n".join([*lines, f"ROOT r = {shape} negate(t{n})"]))


def convolution(lines: int, pad: int = 1, window: int = 3, features: int = 8) -> str:
    out = lines + 2 * pad - window + 1
    return main_of(
        f"x = f32[2,{lines},9,4] parameter(0)\nk = f32[{window},3,4,{features}] parameter(1)\n"
        f"ROOT c = f32[2,{out},9,{features}] convolution(x, k), window={{size={window}x3 pad={pad}_{pad}x1_1}}, "
        "dim_labels=b01f_01io->b01f"
    )


def narrow_convolution(features: int, kind: str, groups: int = 1) -> str:
    """A convolution of bf16 numbers, or of bytes, with so many features in a group."""
    sums, inputs = "f32" if kind == "bf16" else "s32", features * groups
    image, kernel = f"[1,6,19,{inputs}]", f"[3,3,{features},{20 * groups}]"
    return main_of(
        f"x = {kind}{image} parameter(0)\nk = {kind}{kernel} parameter(1)\n"
        f"a = {sums}{image} convert(x)\nb = {sums}{kernel} convert(k)\n"
        f"ROOT c = {sums}[1,6,19,{20 * groups}] convolution({'x, k' if kind == 'bf16' else 'a, b'}), "
        "window={size=3x3 pad=1_1x1_1}, "
        f"dim_labels=b01f_01io->b01f, feature_group_count={groups}"
    )


def few_pixels(pixels: int, features: int = 128) -> str:
    """A convolution with many weights for its pixels."""
    return main_of(
        f"x = f32[1,{pixels},32] parameter(0)\nk = f32[9,32,{features}] parameter(1)\n"
        f"ROOT c = f32[1,{pixels},{features}] convolution(x, k), window={{size=9 pad=4_4}}, dim_labels=b0f_0io->b0f"
    )


def solve(n: int, columns: int = 9) -> str:
    """A triangular system that is well conditioned."""
    return main_of(
        f"a = f32[{n},{n}] parameter(0)\nb = f32[{n},{columns}] parameter(1)\n"
        f"i = s32[{n},{n}] iota(), iota_dimension=0\nj = s32[{n},{n}] iota(), iota_dimension=1\n"
        f"e = pred[{n},{n}] compare(i, j), direction=EQ\ntwo = f32[] constant(2)\nsmall = f32[] constant(0.01)\n"
        f"t = f32[{n},{n}] broadcast(two), dimensions={{}}\nw = f32[{n},{n}] broadcast(small), dimensions={{}}\n"
        f"s = f32[{n},{n}] multiply(a, w)\nm = f32[{n},{n}] select(e, t, s)\n"
        f"ROOT x = f32[{n},{columns}] triangular-solve(m, b), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE"
    )


def branches(n: int, size: int = 3000) -> str:
    """`n` steps that do not need each other."""
    lines = [f"x = f32[{size}] parameter(0)"]
    for i in range(n):
        lines.append(f"r{i} = f32[{size}] reverse(x), dimensions={{0}}\nt{i} = f32[{size}] tanh(r{i})")
        lines.append(f"z{i} = f32[] constant({i})\ns{i} = f32[] reduce(t{i}, z{i}), dimensions={{0}}, to_apply=add")
    shape = ", ".join(["f32[]"] * n)
    names = ", ".join(f"s{i}" for i in range(n))
    return main_of("\n".join([*lines, f"ROOT r = ({shape}) tuple({names})"]), ADD)


def chain(n: int) -> str:
    """`n` steps, the first of which are read again at the end."""
    lines = ["x = f32[600] parameter(0)", "t0 = f32[600] sine(x)"]
    lines += [f"t{i} = f32[600] {('add', 'maximum', 'subtract')[i % 3]}(t{i - 1}, x)" for i in range(1, n)]
    return main_of("\n".join([*lines, f"ROOT r = (f32[600], f32[600]) tuple(t{n - 1}, t0)"]))


def sums(n: int) -> str:
    """The sum of `n` arrays."""
    lines = [f"p{i} = f32[800] parameter({i})" for i in range(n)]
    lines += [f"s{i} = f32[800] add({f's{i - 1}' if i > 1 else 'p0'}, p{i})" for i in range(1, n)]
    return main_of("\n".join([*lines, f"ROOT r = f32[800] negate(s{n - 1})"]))


def places(n: int, opcode: str = "add") -> str:
    """A value that is read at `n` distances."""
    size = 500 + n
    lines = [f"x = f32[{size}] parameter(0)", f"y = f32[{size}] reverse(x), dimensions={{0}}"]
    lines.append(f"t = f32[{size}] {opcode}({'x, y' if opcode == 'add' else 'y'})")
    for i in range(n):
        lines.append(f"s{i} = f32[500] slice(t), slice={{[{i}:{i + 500}]}}")
        lines.append(f"a{i} = f32[500] {'add' if i % 2 else 'maximum'}({f'a{i - 1}' if i else 's0'}, s{i})")
    return main_of("\n".join([*lines, f"ROOT r = f32[500] negate(a{n - 1})"]))


def choice(n: int) -> str:
    """A concatenation of `n` elements, whose elements are then worked on."""
    return main_of(
        f"x = f32[{n - 9}] parameter(0)\ny = f32[9] parameter(1)\nt = f32[{n - 9}] tanh(x)\n"
        f"c = f32[{n}] concatenate(t, y), dimensions={{0}}\nr = f32[{n}] reverse(c), dimensions={{0}}\n"
        f"ROOT a = f32[{n}] add(c, r)"
    )


def counted_constant(n: int) -> str:
    values = ", ".join(map(str, range(n)))
    return main_of(
        f"x = s32[{n}] parameter(0)\nc = s32[{n}] constant({{{values}}})\nROOT r = s32[{n}] multiply(x, c)"
    )


def reduce_of_joined(n: int) -> str:
    """`n` arrays that are long enough for a reduction each."""
    lines = [f"p{i} = f32[5000] parameter({i})" for i in range(n)] + ["zero = f32[] constant(0)"]
    names = ", ".join(f"p{i}" for i in range(n))
    lines.append(f"c = f32[{5000 * n}] concatenate({names}), dimensions={{0}}")
    return main_of("\n".join([*lines, "ROOT r = f32[] reduce(c, zero), dimensions={0}, to_apply=add"]), ADD)


def part_of_product(n: int) -> str:
    """Some columns of a product."""
    return main_of(
        f"a = f32[20,30] parameter(0)\nb = f32[30,{n}] parameter(1)\n"
        f"d = f32[20,{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"ROOT s = f32[20,{n - 1}] slice(d), slice={{[0:20], [1:{n}]}}"
    )


def product_of_constants(m: int, k: int, n: int) -> str:
    """Whose right operand, and another's left one, the compiler may lay out once."""
    row = ", ".join(str(i % 7) for i in range(n))
    turned = ", ".join("{" + ", ".join(str((i + j) % 5) for j in range(m)) + "}" for i in range(k))
    return main_of(
        f"a = f32[{m},{k}] parameter(0)\nc = f32[{n}] constant({{{row}}})\n"
        f"b = f32[{k},{n}] broadcast(c), dimensions={{1}}\nq = f32[{k},{n}] copy(b)\n"
        f"l = f32[{k},{m}] constant({{{turned}}})\nx = f32[{k},{n}] parameter(1)\n"
        f"d = f32[{m},{n}] dot(a, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"e = f32[{m},{n}] dot(l, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
        f"ROOT r = f32[{m},{n}] add(d, e)"
    )


def halves(m: int, k: int, n: int) -> str:
    """A product of bf16 numbers."""
    return main_of(
        f"a = bf16[{m},{k}] parameter(0)\nb = bf16[{k},{n}] parameter(1)\n"
        f"ROOT d = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )


def normalised_rows(rows: int, columns: int) -> str:
    """Two passes over each row."""
    shape = f"f32[{rows},{columns}]"
    return main_of(
        f"x = {shape} parameter(0)\nlow = f32[] constant(-inf)\nzero = f32[] constant(0)\n"
        f"m = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=max\n"
        f"mb = {shape} broadcast(m), dimensions={{0}}\n"
        f"d = {shape} subtract(x, mb)\ne = {shape} exponential(d)\n"
        f"s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add\n"
        f"sb = {shape} broadcast(s), dimensions={{0}}\n"
        f"ROOT r = {shape} divide(e, sb)",
        ADD + MAX,
    )


def transposed(rows: int, columns: int, count: int = 1) -> str:
    """The sum of `count` matrices turned, and of one that is not."""
    kind, turned = f"f32[{rows},{columns}]", f"f32[{columns},{rows}]"
    lines = [f"s0 = {turned} parameter(0)"]
    for k in range(1, count + 1):
        lines += [
            f"x{k} = {kind} parameter({k})", f"t{k} = {turned} transpose(x{k}), dimensions={{1,0}}",
            f"s{k} = {turned} add(s{k - 1}, t{k})",
        ]  # fmt: skip
    return main_of("\n".join([*lines, f"ROOT r = {turned} negate(s{count})"]))


def reduce_matrix(rows: int, columns: int) -> str:
    """Along both dimensions, each for itself."""
    return main_of(
        f"x = f32[{rows},{columns}] parameter(0)\nzero = f32[] constant(0)\n"
        f"a = f32[{rows}] reduce(x, zero), dimensions={{1}}, to_apply=add\n"
        f"b = f32[{columns}] reduce(x, zero), dimensions={{0}}, to_apply=add\n"
        f"ROOT r = (f32[{rows}], f32[{columns}]) tuple(a, b)",
        ADD,
    )


def reduce_both(rows: int, columns: int) -> str:
    return main_of(
        f"x = f32[{rows},{columns}] parameter(0)\nzero = f32[] constant(0)\n"
        f"n = f32[{rows},{columns}] negate(x)\nROOT a = f32[] reduce(n, zero), dimensions={{0,1}}, to_apply=add",
        ADD,
    )


def convolution_of_lines(size: int) -> str:
    """Features outside of pixels, as PyTorch has them; weights of `size` bytes."""
    features = max(1, elements_of(size) // (9 * 64))
    return main_of(
        f"x = f32[1,64,6,17] parameter(0)\nk = f32[{features},64,3,3] parameter(1)\n"
        f"ROOT c = f32[1,{features},6,17] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, "
        "dim_labels=bf01_oi01->bf01"
    )


def framed(features: int, lines: int = 7, holes: int = 2) -> str:
    """A convolution whose input is copied into a frame."""
    out = 2 * lines - 1
    return main_of(
        f"x = f32[2,{lines},5,{features}] parameter(0)\nk = f32[3,3,{features},4] parameter(1)\n"
        f"ROOT c = f32[2,{out},9,4] convolution(x, k), window={{size=3x3 pad=1_1x1_1 lhs_dilate={holes}x2}}, "
        "dim_labels=b01f_01io->b01f"
    )


def transforms(lines: int, n: int) -> str:
    shape = f"c64[{lines},{n}]"
    return main_of(f"x = {shape} parameter(0)\nROOT f = {shape} fft(x), fft_type=FFT, fft_length={{{n}}}")


def called_reducer(n: int) -> str:
    """A reducer that calls a computation of `n` instructions twice."""
    steps = "".join(f"m{i + 1} = f32[] multiply(m{i}, one)\n" for i in range(n - 3))
    inner = f"inner {{ m0 = f32[] parameter(0) one = f32[] constant(1)\n{steps}ROOT r = f32[] add(m{n - 3}, one) }}\n"
    outer = (
        "outer { a = f32[] parameter(0) b = f32[] parameter(1) x = f32[] call(a), to_apply=inner "
        "y = f32[] call(b), to_apply=inner ROOT s = f32[] maximum(x, y) }\n"
    )
    body = "x = f32[9,40] parameter(0)\nlow = f32[] constant(-inf)\n"
    return main_of(f"{body}ROOT r = f32[9] reduce(x, low), dimensions={{1}}, to_apply=outer", inner + outer)


def steps_apart(n: int) -> str:
    """Elements that lie `n` apart, read and written."""
    return main_of(
        f"x = f32[{40 * n}] parameter(0)\ny = f32[40] parameter(1)\nz = f32[] constant(3)\n"
        f"s = f32[40] slice(x), slice={{[0:{40 * n}:{n}]}}\na = f32[40] add(s, y)\n"
        f"p = f32[{39 * n + 1}] pad(a, z), padding=0_0_{n - 1}\nROOT r = (f32[40], f32[{39 * n + 1}]) tuple(a, p)"
    )


def turned(n: int, work: int = 3) -> str:
    """A transpose with work on every element."""
    lines = [f"x = f32[{n},37] parameter(0)", f"y = f32[37,{n}] parameter(1)"]
    lines.append(f"t0 = f32[37,{n}] transpose(x), dimensions={{1,0}}")
    lines += [f"t{i + 1} = f32[37,{n}] {('add', 'multiply')[i % 2]}(t{i}, y)" for i in range(work)]
    return main_of("\n".join([*lines, f"ROOT r = f32[37,{n}] negate(t{work})"]))


def complex_numbers(n: int) -> str:
    return main_of(
        f"x = c64[{n},3] parameter(0)\nt = c64[3,{n}] transpose(x), dimensions={{1,0}}\n"
        f"r = c64[3,{n}] reverse(t), dimensions={{1}}\nROOT m = c64[3,{n}] multiply(t, r)"
    )


def strided_windows(n: int) -> str:
    return main_of(
        f"x = f32[3,{40 * n}] parameter(0)\nlow = f32[] constant(-inf)\n"
        f"ROOT a = f32[3,{-(-(40 * n - 2) // n)}] reduce-window(x, low), window={{size=1x3 stride=1x{n}}}, "
        "to_apply=max",
        MAX,
    )


def drawn_from_one_number(n: int) -> str:
    """Random numbers, of which there is one."""
    return main_of(f"a = f32[] constant(2)\nROOT r = f32[{n}] rng(a, a), distribution=rng_uniform")


def sort_lines(n: int) -> str:
    less = "less { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n"
    return main_of(
        f"x = s32[{n},50] parameter(0)\nROOT a = s32[{n},50] sort(x), dimensions={{1}}, to_apply=less", less
    )


def topk_rows(rows: int, k: int = 40) -> str:
    result = f"(f32[{rows},{k}], s32[{rows},{k}])"
    return main_of(f"x = f32[{rows},300] parameter(0)\nROOT t = {result} topk(x), k={k}, largest=true")


def long_work(n: int) -> str:
    """Large arrays, with work of about `n` cycles for a vector; all of its first steps are read at the end."""
    lines = ["x = f32[40000] parameter(0)", "t0 = f32[40000] negate(x)"]
    count = max(2, n // 12)
    lines += [f"t{i} = f32[40000] {('sine', 'tanh')[i % 2]}(t{i - 1})" for i in range(1, count)]
    lines.append("a0 = f32[40000] add(t0, x)")
    lines += [f"a{i} = f32[40000] subtract(a{i - 1}, t{i})" for i in range(1, count)]
    return main_of("\n".join([*lines, f"ROOT r = f32[40000] negate(a{count - 1})"]))


def loop_of_values(size: int, trips: int = 5) -> str:
    """A loop whose state has an array of `size` bytes, and another that its body works on."""
    n = elements_of(size)
    state = f"(s32[], f32[{n}], f32[900])"
    head = f"p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0"
    parts = (
        f"test {{ {head} n = s32[] constant({trips}) ROOT c = pred[] compare(i, n), direction=LT }}\n"
        f"body {{ {head} one = s32[] constant(1) j = s32[] add(i, one) k = f32[{n}] get-tuple-element(p), index=1 "
        f"x = f32[900] get-tuple-element(p), index=2 t = f32[900] tanh(x) m = f32[{n}] sine(k) "
        f"y = f32[900] add(t, x) ROOT t2 = {state} tuple(j, m, y) }}\n"
    )
    return main_of(
        f"k = f32[{n}] parameter(0)\nx = f32[900] parameter(1)\nz = s32[] constant(0)\ns = {state} tuple(z, k, x)\n"
        f"w = {state} while(s), condition=test, body=body\na = f32[{n}] get-tuple-element(w), index=1\n"
        f"b = f32[900] get-tuple-element(w), index=2\nROOT r = (f32[{n}], f32[900]) tuple(a, b)",
        parts,
    )


def loop_of_steps(n: int) -> str:
    """A loop with `n` instructions inside, most of them in a row."""
    state = "(s32[], f32[3])"
    head = f"p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0"
    rows = ["x0 = f32[3] get-tuple-element(p), index=1"]
    rows += [f"x{k} = f32[3] {('negate', 'sine')[k % 2]}(x{k - 1})" for k in range(1, max(2, n - 10))]
    parts = (
        f"test {{ {head} n = s32[] constant(12) ROOT c = pred[] compare(i, n), direction=LT }}\n"
        f"body {{ {head} one = s32[] constant(1) j = s32[] add(i, one)\n" + "\n".join(rows)
        + f"\nROOT t = {state} tuple(j, x{len(rows) - 1}) }}\n"
    )  # fmt: skip
    return main_of(
        f"x = f32[3] parameter(0)\nz = s32[] constant(0)\ns = {state} tuple(z, x)\n"
        f"w = {state} while(s), condition=test, body=body\nROOT y = f32[3] get-tuple-element(w), index=1",
        parts,
    )


def of_work(generator: Generator, *per: int) -> tuple[Generator, ...]:
    """The generator for a time or an amount of work: as many elements, for several that each may take."""
    return tuple(lambda work, each=each: generator(max(4, int(work) // each)) for each in per)


PRODUCTS: tuple[Generator, ...] = (product_of,)
GENERATORS: dict[str, tuple[Generator, ...]] = {
    "analysis.costs.rows_in_place": (plain_products, lambda n: product_of_constants(n, 70, 230)),
    "analysis.costs.rows_along": (plain_products, lambda n: product_of_constants(n, 70, 230)),
    "analysis.costs.paged_rows": (lambda n: product(n, 20, 1024), lambda n: product_of_constants(n, 20, 1024)),
    "analysis.costs.columns_in_place": (plain_products, lambda n: product_of_constants(140, 70, n)),
    "analysis.costs.terms_in_place": (plain_products, lambda n: product_of_constants(30, n, 230)),
    "analysis.in_place._MOST_OTHERS": (sums,),
    "analysis.costs.shared_rows": (lambda n: product(n, 600, 700),),
    "analysis.costs.row_work": (lambda work: product(8, 64, work // 512),),
    "analysis.fusibility._MOST_SOURCES": (
        concatenate, lambda n: concatenate(n, 1), lambda n: many_joined(40, n), joined_twice,
    ),
    "analysis.fusibility._LARGEST_WINDOW": (window, window_2d),
    "analysis.fusibility._MOST_COPIED": (branches,),
    "analysis.fusibility._MOST_POSITIONAL": (branches,),
    "analysis.costs.streams": (streams,),
    "analysis.costs.streamed_bytes": (lambda size: streams(4, elements_of(size)),),
    "analysis.costs.streamed_terms": (plain_products, lambda n: product(60, n, 600)),
    "analysis.product_prologue._SOURCES": (joined_product,),
    "analysis.views._KEPT_SHARE": (branches,),
    "codegen.gpu.items.THREADS": (reduce, sums),
    "codegen.gpu.fusions._BLOCKS": (lambda n: reduce_matrix(n, 9000),),
    "codegen.gpu.fusions._COLUMNS": (lambda n: reduce_matrix(70, n),),
    "codegen.gpu.fusions._PART": (reduce, lambda n: reduce(2 * n)),
    "codegen.gpu.fusions._REFINEMENTS": (concatenate,),
    "codegen.gpu.fusions._ROW": (reduce, lambda n: reduce_matrix(n, 9), lambda n: reduce_matrix(9, n)),
    "codegen.gpu.fusions._SHORT": (reduce, lambda n: reduce_matrix(n, 9), lambda n: reduce_matrix(9, n)),
    "codegen.gpu.fusions._TOGETHER": (lambda n: concatenate(n), lambda n: many_joined(40, n)),
    "codegen.gpu.program.GRAPH": (lambda n: swapped_state(64, n // 2), lambda n: loop_of_values(64, n // 3)),
    "codegen.gpu.scatter._BLOCKS": (lambda n: scatter_rows(n), lambda n: scatter_rows(256 * n)),
    "codegen.gpu.sort._TILE": (sort, lambda n: sort(2 * n)),
    "codegen.gpu.windows._LINES": (lambda n: cumulative(70, n),),
    "codegen.gpu.windows._LONG": (lambda n: cumulative(n, 3), lambda n: cumulative(n, 1)),
    "codegen.gpu.transposes._LEAST": (lambda n: transposed(n, 40), lambda n: transposed(40, n)),
    "codegen.gpu.transposes._MOST": (lambda n: transposed(40, 50, n),),
    "codegen.gpu.products._BUSY": (lambda n: product(32 * n, 40, 32),),
    "codegen.gpu.products._LEAST": (lambda n: product(n, 40, 50), lambda n: product(50, 40, n)),
    "codegen.gpu.library_products._LARGE": (lambda work: product(512, work >> 18, 512),),
    "codegen.gpu.library_products._LEAST": (lambda n: product(n, 2048, 1024),),
    "codegen.gpu.products._PART_TERMS": (lambda n: product(64, 2 * n, 64),),
    "codegen.gpu.products._SPLIT": (lambda work: product(128, work >> 15, 256),),
    "codegen.gpu.products._SPLIT_TERMS": (lambda n: product(512, n, 512),),
    "codegen.gpu.products._TERMS": (lambda n: product(40, n, 50),),
    "codegen.cpu.host.body._MOST_LEAVES": (concatenate, sums, branches),
    "codegen.algorithms.concatenate._TASK_BYTES": (lambda size: many_joined(elements_of(size)),),
    "codegen.cpu.products.conv._LINE_BYTES": (convolution_of_lines,),
    "codegen.cpu.products.conv._TILED": (lambda n: narrow_convolution(n, "bf16"),),
    "codegen.cpu.products.conv._PAIRED": (lambda n: narrow_convolution(n, "bf16"),),
    "codegen.cpu.products.conv_spec.MOST_ENDS": (lambda n: convolution(12, n, n), lambda n: convolution(n, 2, 5)),
    "codegen.cpu.products.conv_bf16x3.FRAMED": (lambda n: convolution(5, n),),
    "codegen.cpu.products.conv_bf16x3.COPIES": (convolution,),
    "codegen.cpu.products.conv_bf16x3.BLOCK_TILES": (lambda n: convolution(16 * n),),
    "codegen.cpu.products.conv_bf16x3.BLOCK_BYTES": (lambda size: convolution(40, features=elements_of(size) // 360),),
    "codegen.cpu.products.conv_bf16x3.TASKS": (lambda n: convolution(2 * n), convolution),
    "codegen.cpu.products.dot._THIN": (plain_products, lambda n: product(n, 40, 48)),
    "codegen.cpu.products.dot._LONG": (lambda n: product(5, 8 * n, 7), lambda n: plain_products(4 * n)),
    "codegen.cpu.products.dot._SIDE": (plain_products,),
    "codegen.cpu.products.dot._PAIRED": (lambda n: halves(n, 40, 48), lambda n: halves(30, n, 48)),
    "codegen.cpu.products.dot._HALVED": (lambda n: product(n, 40, 48),),
    "codegen.cpu.products.dot._UPDATED": (lambda n: product(n, 68, 1024),),
    "codegen.cpu.products.dot._UPDATED_MOST": (lambda n: product(n, 68, 1024),),
    "codegen.cpu.products.rank_update.MOST_ROWS": (few_pixels,),
    "codegen.cpu.products.rank_update.TERMS": (lambda n: product(9, 16 * n, 1024), lambda n: product(9, 64 + n, 1024)),
    "codegen.cpu.products.rank_update.PANELS": (lambda n: few_pixels(9, 16 * n), lambda n: few_pixels(9, 8 * n)),
    "codegen.cpu.products.rank_update._FEWEST": (lambda n: few_pixels(9, 64 * n), lambda n: few_pixels(9, 32 * n)),
    "codegen.cpu.products.rank_update._MOST": (lambda n: few_pixels(9, 64 * n), lambda n: few_pixels(9, 32 * n)),
    "codegen.cpu.products.dot._SPLIT_ROWS": (lambda n: product(n, 256, 260), lambda n: product(n, 1200, 288)),
    "codegen.cpu.products.dot._SPLIT_PANELS": (lambda n: product(520, 1100, 32 * 8 * n),),
    "codegen.cpu.products.dot._SPLIT_CHUNKS": (
        lambda n: product(520, 32 * n, 1400), lambda n: product(40, 192 * n, 288),
    ),
    "codegen.cpu.products.dot._SPLIT_BYTES": (lambda size: product(size // 128, 3000, 288),),
    "codegen.cpu.products.dot._ROWS_DEEP": (lambda n: product(n, 3000, 40), plain_products),
    "codegen.cpu.products.blocking.SHARED_ROWS": (plain_products, lambda n: product(n, 300, 300)),
    "codegen.cpu.products.blocking.SHARED_PANELS": (
        lambda n: product(20, 300, 16 * n), lambda n: product(20, 300, 8 * n),
    ),
    "codegen.cpu.products.blocking.COLUMNS": (plain_products, lambda n: product(20, 40, n)),
    "codegen.cpu.products.blocking.MANY_ROWS": (lambda n: product(n, 600, 30), plain_products),
    "codegen.cpu.products.vector_tiles._FEW_SUMS": (lambda n: product(40, 50, 8 * n), lambda n: product(n, 50, 16)),
    "codegen.cpu.products.blocking.TASK_FLOPS": PRODUCTS,
    "codegen.cpu.products.blocking.LEAST_FLOPS": PRODUCTS,
    "codegen.cpu.products.blocking.HALF_FLOPS": PRODUCTS,
    "codegen.cpu.products.blocking.BLOCK_FLOPS": PRODUCTS,
    "codegen.cpu.products.blocking.REPEATED_FLOPS": PRODUCTS,
    "codegen.cpu.products.blocking.BLOCK_ROWS": (plain_products, lambda n: product(n, 40, 48)),
    "codegen.cpu.products.blocking.BLOCK_BYTES": (lambda size: product(elements_of(size) // 64, 33, 64),),
    "codegen.cpu.products.blocking.STRIP_ROWS": (lambda n: narrow_weights(n, 520, 528),),
    "codegen.cpu.products.blocking.STRIP_COLUMNS": (lambda n: narrow_weights(1, 300, n),),
    "codegen.cpu.products.blocking.STRIP_BYTES": (lambda size: narrow_weights(16, 520, elements_of(size) // 16),),
    "codegen.cpu.products.blocking.STRIP_TERMS": (
        lambda n: narrow_weights(1, n, 600), lambda n: narrow_weights(16, n, 600),
    ),
    "codegen.cpu.products.blocking.KEPT_BYTES": (lambda size: product(elements_of(size) // 64, 600, 64),),
    "codegen.cpu.products.blocking.PIECE_DEPTH": (plain_products, lambda n: product(9, n, 40)),
    "codegen.cpu.products.blocking.REPEATED": (plain_products, lambda n: product(n, 64, 20)),
    "codegen.cpu.products.blocking.FLAT_BYTES": (lambda size: product(7, 31, elements_of(size)),),
    "codegen.llvm.inline._LARGE": (called_reducer,),
    "codegen.loops.loops._FAR": (steps_apart,),
    "codegen.loops.loops._TILED": (turned,),
    "codegen.loops.loops._TILE_WORK": (lambda n: turned(40, n),),
    "codegen.loops.loops.FEW_WIDE": (rounds, lambda n: rounds(2 * n), lambda n: rounds(1, n)),
    "codegen.loops.loops.LONG": (lambda n: rounds(20, n), stages, elementwise),
    "codegen.loops.loops.HEAVY": (elementwise, lambda n: elementwise(1000 * n)),
    "codegen.llvm.memory._AHEAD": (lambda size: elementwise(elements_of(size)),),
    "codegen.nests.access._WIDEST": (lambda size: complex_numbers(elements_of(size) // 2), complex_numbers),
    "codegen.cpu.products.vector_tiles.AHEAD": (plain_products,),
    "codegen.cpu.products.pack.TASK_BYTES": (
        lambda size: product(40, 64, elements_of(size) // 64), plain_products_of_bytes,
    ),
    "codegen.cpu.products.pack.ROWS_AHEAD": (plain_products,),
    "codegen.cpu.products.pack.RUN_BYTES": (plain_products_of_bytes,),
    "codegen.cpu.products.streamed._REFINEMENTS": (concatenate, branches),
    "codegen.cpu.products.streamed._SHARED": of_work(reduce, 1, 2),
    "codegen.cpu.products.streamed._APART": (prefix, lambda n: product(5, n, 40)),
    "codegen.cpu.products.bf16x3.PAYS": (lambda n: product(n, 256, 260),),
    "codegen.cpu.products.bf16x3.LEAST": (lambda work: product(work // (280 * 288), 280, 288),),
    "codegen.cpu.fusions.step.TASK_NS": of_work(elementwise, 1, 2),
    "codegen.cpu.fusions.step.MOST_TASKS": (lambda n: normalised_rows(n, 700),),
    "codegen.cpu.fusions.step.ROW_BYTES": (lambda size: normalised_rows(3, elements_of(size)),),
    "codegen.cpu.fusions.step.REPEATED_NS": of_work(lambda n: normalised_rows(50, n), 1, 4),
    "codegen.llvm.strided.WIDEST_STEP": (steps_apart, strided_windows),
    "codegen.cpu.products.bf16x3.GROUP": (lambda n: product(200, 256, 32 * n), lambda n: product(32 * n, 256, 260)),
    "codegen.cpu.host.entry._MOST_COPIES": (turning_state, lambda n: turning_state(n // 2)),
    "codegen.cpu.host.overlap._SPIN": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.cpu.host.overlap._SMALL": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.cpu.host.overlap._LARGE": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.cpu.host.overlap._FEW": (branches,),
    "codegen.cpu.host.overlap._LEAST_GAIN": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.cpu.host.overlap._MOST": (branches,),
    "codegen.cpu.host.overlap._AHEAD": (branches,),
    "codegen.llvm.polling.BUDGET": PRODUCTS,
    "codegen.llvm.polling.SHORT": PRODUCTS,
    "codegen.llvm.polling.LEAST": PRODUCTS,
    "codegen.llvm.polling._MOST": of_work(elementwise, 100),
    "codegen.llvm.polling._SHORTER": of_work(solve, 2),
    "codegen.llvm.polling._LONGER": of_work(solve, 1000),
    "codegen.llvm.polling._UNKNOWN": (lambda n: solve(n // 16),),
    "codegen.llvm.polling._WORTH": of_work(solve, 10),
    "codegen.llvm.polling._FEWEST": (solve,),
    "codegen.llvm.polling._CALL": of_work(solve, 10),
    "codegen.plan.region._TASKS": (branches,),
    "codegen.plan.region._TASK": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.plan.arena._MORE_BYTES": (swapped_state, lambda size: branches(4, elements_of(size))),
    "codegen.cpu.host.step_costs.ASLEEP": of_work(elementwise, 1, 2, 4),
    "codegen.cpu.host.step_costs.LOOPED": (lambda work: swapped_state(4 * work), lambda work: swapped_state(2 * work)),
    "codegen.cpu.host.step_costs._AWAKE": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.cpu.host.step_costs.FORK": of_work(lambda n: branches(3, n), 1, 2),
    "codegen.plan.small_loops._STEPS": (loop_of_steps, lambda n: loop_of_steps(n // 2)),
    "codegen.plan.small_loops._WORK": of_work(lambda n: swapped_state(4 * n, 40), 1, 3),
    "codegen.plan.values.KEPT_BYTES": (lambda size: swapped_state(size, 40), lambda size: loop_of_values(size, 40)),
    "codegen.plan.small_loops._VECTOR": (lambda size: swapped_state(size, 40), lambda size: loop_of_values(size, 40)),
    "codegen.plan.task_loops._SLOT": (loop_of_values,),
    "codegen.plan.units._UNIT": of_work(branches, 600, 1200),
    "codegen.plan.units._LEAST": of_work(branches, 600, 1200),
    "codegen.plan.units._FIRST": of_work(branches, 600, 1200),
    "codegen.cpu.host.step_costs._TRIPS": (lambda n: swapped_state(1000 * n),),
    "analysis.costs.row_bytes": (lambda size: product(37, 19, elements_of(size)),),
    "analysis.costs.repeated_bytes": (lambda size: product(33, -(-elements_of(size) // 1024), 1024),),
    "analysis.product_prologue.STRIPS": (lambda size: narrow_weights(1, elements_of(size) // 512, 512),),
    "analysis.product_prologue.LONG_ROWS": (lambda n: narrow_weights(2, 520, n),),
    "codegen.cpu.products.prologue.ELEMENTS_AHEAD": (
        lambda n: narrow_weights(1, 64, n), lambda n: narrow_weights(2, n, 64, turned=True),
    ),
    "analysis.product_prologue.STREAMED_ALONG": (lambda n: narrow_weights(n, 520, 520, turned=True),),
    "analysis.product_prologue.STREAMED": (lambda n: product(64, 48, n), lambda n: product(n, 48, 64)),
    "codegen.plan.buffers.SWAPPED_BYTES": (swapped_state,),
    "codegen.algorithms.items.TASKS": (
        lambda n: cholesky(7, n), lambda n: solve(20, n), sort_lines, topk_rows,
        lambda n: transforms(n, 700), lambda n: transforms(n, 97),
    ),
    "codegen.algorithms.linear._COLUMN_NS": (cholesky,),
    "codegen.algorithms.linear._PANEL": (cholesky, lambda n: cholesky(2 * n)),
    "codegen.algorithms.linear._ROWS": (cholesky, solve, lambda n: solve(4 * n)),
    "codegen.algorithms.fft._WIDE": (lambda n: transforms(1, 64 * n), lambda n: transforms(1, 24 * n)),
    "codegen.algorithms.fourier._TABLE": (fft, lambda n: transforms(2, 4 * n)),
    "codegen.algorithms.fft._SHORT": (fft,),
    "codegen.algorithms.fft._TABLE": (fft,),  # 23 * 89, and 3 * 683
    "codegen.cpu.fusions.fusion.SMALL": (concatenate_bytes,),
    "codegen.cpu.fusions.fusion.MOST_JOBS": (concatenate, lambda n: concatenate(2 * n), lambda n: concatenate(n, 1)),
    "codegen.cpu.products.pack.SHORT_BYTES": (pad,),
    "codegen.cpu.products.pack._ROW": (framed,),
    "codegen.cpu.products.pack._ROWS": (lambda n: framed(n // 40, 20),),
    "codegen.cpu.products.pack._STRAIGHT": (lambda n: framed(8 * n), lambda n: framed(4 * n)),
    "codegen.cpu.fusions.plan._RESULTS": (lambda n: reduce_matrix(n, 9000), lambda n: reduce_matrix(9000, n)),
    "codegen.cpu.fusions.plan._VECTOR_RESULTS": (lambda n: reduce_matrix(20, n),),
    "codegen.cpu.fusions.plan._PARTS": (lambda n: reduce_both(n, 40_000),),
    "codegen.cpu.fusions.plan._PART_ROWS": (lambda n: reduce_both(n, 10_000), lambda n: reduce_matrix(4 * n, 3000)),
    "codegen.cpu.fusions.plan.PART_WORK": (reduce, lambda n: reduce(2 * n)),
    "codegen.cpu.fusions.plan.MOST_PIECES": (concatenate, lambda n: concatenate(n, 1)),
    "codegen.cpu.products.prologue._TILE": (lambda n: product(n, 64, 128), lambda n: product(200, n, 64)),
    "codegen.cpu.products.prologue._RUN": (lambda n: product(40, n, 72), lambda n: product(40, 24, n)),
    "codegen.algorithms.radix._INSERTION": (sort,),
    "codegen.algorithms.radix._WIDE_DIGITS": (sort,),
    "codegen.algorithms.reduce_window._UNROLL": (window, window_2d),
    "codegen.algorithms.reduce_window._WIDEST_STRIDE": (strided_windows,),
    "codegen.loops.rules._LONG": (lambda n: reduce_both(n, 2000), lambda n: reduce_both(2000, n)),
    "codegen.loops.stages._STAGE": (long_work,),
    "codegen.loops.stages._CROSSING": (lambda n: long_work(12 * n),),
    "codegen.algorithms.topk._OFFER_NS": (topk,),
    "codegen.algorithms.topk._SLACK": (topk,),
    "codegen.algorithms.reduce_window._SCAN": (prefix, window),
    "codegen.algorithms.items._SCRATCH": (lambda size: sort_by_sine(size // 12_000, 700),),
    "codegen.algorithms.items._THREADS": (lambda n: sort_by_sine(n, 4),),
    "codegen.gpu.tasks._MANY": (random_bits, lambda n: random_bits(2 * n)),
    "codegen.algorithms.rng._CHUNK": (drawn_from_one_number, random_bits, lambda n: random_bits(4 * n)),
    "codegen.loops.rules.SMALL_CONSTANT": (small_constant,),
    "codegen.loops.rules.WINDOW_LIMIT": (window, window_2d),
    "codegen.algorithms.scatter._COPY": (scatter, lambda size: scatter(2 * size)),
    "codegen.algorithms.sort._RUN": (sort, lambda n: sort(2 * n)),
    "codegen.loops.stages.BLOCK": (stages,),
    "codegen.loops.stages._LEAST": (stages,),
    "codegen.algorithms.topk._LIST": (topk,),
    "passes.simplify.algebra.gathering._LARGEST": (gather_constant,),
    "passes.simplify.algebra.movement._COUNTED": (counted_constant,),
    "passes.simplify.algebra.narrowing._MOST_JOINED": (reduce_of_joined,),
    "analysis.costs.places": (places,),
    "analysis.costs.costly_places": (lambda n: places(n, "sine"),),
    "analysis.costs.view_places": (lambda n: places(n, "copy"), concatenate),
    "analysis.costs.largest_choice": (choice,),
    "passes.fuse.multi_output_fusion._PLACES": (places, lambda n: places(n, "sine")),
    "passes.fuse.multi_output_fusion._SEARCH": (chain,),
    "passes.fuse.product_fusion._SEARCH": (lambda n: streams(n, 512),),
    "analysis.costs.panel_columns": (lambda n: product(40, 24, n),),
    "analysis.costs.turned_instructions": (lambda n: worked_product(n),),
    "analysis.costs.shared_results": (lambda n: product(1, 500, n), lambda n: product(n, 500, 1)),
    "analysis.costs.alone_bytes": (lambda size: product(elements_of(size) // 40, 40, 1),),
    "passes.expand.convolution_to_dot.GROUPED": (lambda n: narrow_convolution(n, "s8", 3),),
    "passes.expand.reduce_window_splitter._WHOLE": (window, window_2d),
    "passes.simplify.algebra.narrowing._LEAST_JOIN": (reduce_joined,),
    "passes.expand.reduce_window_splitter._MOST": (window, window_2d),
}


def name_of(row: Listed) -> str:
    return f"{row.owner.removeprefix('hlotool.')}.{row.name}"


ALL = thresholds()
OPTIONS = [row for row in ALL if row.unit == "option"]
WEIGHTS = [row for row in ALL if row.unit in ("cost", "share", "times") and name_of(row) not in GENERATORS]
DECLARED = [row for row in ALL if row not in OPTIONS and row not in WEIGHTS]
SMALL: tuple[Callable[[], str], ...] = (
    lambda: stages(700), lambda: concatenate(9), lambda: window(20), lambda: prefix(40), lambda: product(20, 30, 40),
    lambda: swapped_state(4096), lambda: branches(5, 300), lambda: streams(4, 5000), lambda: joined_product(3),
    lambda: convolution(12), lambda: solve(12), lambda: small_constant(256), lambda: topk(16), lambda: reduce(2000),
    lambda: reduce_of_many(66),
)  # fmt: skip
"""Programs that the passes have something to do with."""


def machines() -> Iterator[tuple[str, Machine, bool]]:
    """The processors, and whether this machine runs their code."""
    own = host()
    yield "host", own, True
    yield "host with small caches", named("host,l1=4K,l2=32K,l3=256K"), True
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        machine = named(name)
        yield name, machine, machine.triple == own.triple and machine.vector_bits <= own.vector_bits


def agrees(
    module: Module, machine: Machine, runs: bool, pipeline: str | Pipeline = "default", backend: str = "cpu"
) -> None:
    if not runs:
        steps = parse_pipeline("default,lowering")
        compile_units(build(optimise(module, steps), machine).texts, machine)
        return
    executable = compile_module(module, backend, pipeline=pipeline, machine=machine, threads=2)
    inputs = random_inputs(module, 1)
    expected = evaluate(module, inputs)
    for got, wanted in zip(executable(*inputs), expected, strict=True):
        if np.issubdtype(wanted.dtype, np.inexact):
            scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30))
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5 * scale)
        else:
            np.testing.assert_array_equal(got, wanted)


def test_every_threshold_has_a_generator_and_says_what_it_means() -> None:
    found = thresholds()
    assert {name_of(row) for row in DECLARED} == set(GENERATORS)
    assert all(row.meaning and row.unit for row in found)
    assert all(row.value > 1 for row in found if row not in WEIGHTS)


@pytest.mark.parametrize("row", DECLARED, ids=name_of)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_around_a_threshold_native_code_gives_what_the_evaluator_gives(row: Listed, data: st.DataObject) -> None:
    unit = {"bytes": 4, "flops": 8192}.get(row.unit, max(1, row.value // 16) if row.value > 1e5 else 1)
    step = data.draw(st.sampled_from((-2, -1, 0, 1, 2)))
    generator = data.draw(st.sampled_from(GENERATORS[name_of(row)]))
    _, machine, runs = data.draw(st.sampled_from(list(machines())))
    module = parse(generator(max(2, int(row.value + unit * step))))
    if name_of(row).startswith(("codegen.gpu.", "codegen.algorithms.items._")):  # the latter are of threads
        agrees(module, host(), True, backend="nvptx:emulate")
    else:
        agrees(module, machine, runs)


@pytest.mark.parametrize("row", WEIGHTS, ids=name_of)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_whatever_is_preferred_gives_what_the_evaluator_gives(row: Listed, data: st.DataObject) -> None:
    value = type(row.value)(row.value * data.draw(st.sampled_from((0.25, 0.5, 2, 4))) or 1)
    module = parse(data.draw(st.sampled_from(SMALL))())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(row.owner), row.name, value)
        agrees(module, host(), True)


@pytest.mark.parametrize("row", OPTIONS, ids=name_of)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_any_value_of_an_option_gives_what_the_evaluator_gives(row: Listed, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from((1, 2, 3, 5, 8, int(row.value) - 1, int(row.value) + 1)))
    changed = next(parse_pipeline(f"{row.owner}{{{row.name}={value}}}").passes())
    steps = parse_pipeline("default")
    if row.owner in {pass_.name for pass_ in steps.passes()}:
        steps = map_passes(steps, lambda pass_: changed if pass_.name == row.owner else pass_)
    else:
        steps = parse_pipeline(f"{row.owner}{{{row.name}={value}}},default")
    module = parse(data.draw(st.sampled_from(SMALL))())
    agrees(module, host(), True, steps)


def test_passes_lists_thresholds() -> None:
    text = CliRunner().invoke(cli, ["passes", "--thresholds"])
    assert text.exit_code == 0
    assert "codegen.cpu.fusions.fusion.SMALL" in text.output
    rows = json.loads(CliRunner().invoke(cli, ["passes", "--thresholds", "--format", "json"]).output)
    assert rows["kind"] == "thresholds"
    names = {f"{row['owner']}.{row['name']}".removeprefix("hlotool.") for row in rows["thresholds"]}
    assert names == {*GENERATORS, *map(name_of, OPTIONS), *map(name_of, WEIGHTS)}
    assert CliRunner().invoke(cli, ["passes", "fusion", "--thresholds"]).exit_code == 2


# ---- numbers that decide, and are not declared

_WIDTHS = frozenset({
    "BITS", "bits", "byte_size", "index_bits", "key_bits", "l1", "l2", "l3", "registers", "sizeof", "store_bits",
    "vector_bits", "width",
})  # fmt: skip
"""What is compared with these follows from types, or from the processor, of which there are several in the tests."""

_NO_THRESHOLDS = {
    "abs(mantissa) != 0.5": "powers of two",
    "math.frexp(value)[0] == 0.5": "powers of two",
    "value not in (2, 3, 4)": "the powers that are written out",
    "max(sizes, default=0) < 1 << 31": "what 32 bits hold",
    "total < 1 << 31": "what 32 bits hold",
    "prod(extents) < 1 << 31": "what 32 bits hold",
    "len(node.operands) != 4": "the form of a product of two factors",
    "_VECTOR_BYTES = 16": "what a thread of a chip reads at most",
    "_SIDE = 32": "how shared memory is laid out",
    "_MOST_KEPT = 1 << 18": "where a choice asks for it",
    "_FAR_BYTES = 1024": "what the model of times tells apart",
    "_REACH = 2048 * 4096": "of the model of times",
    "_SEEN = 64": "of the model of times",
    "_AHEAD = 256": "of the model of times",
    "_HORIZONTAL = 8.0": "of the model of times",
    "_LATENCY = 4.0": "of the model of times",
    "_ROUNDING = 8.0": "of the model of times",
    "_FIRST_LINES = 32": "of the model of times",
    "_LEAST = 0.001": "of the model of times",
    "_ROWS = 8": "how the threads of a block are laid out",
    "SIDE = 16": "of tile registers; and how the threads of a block are laid out",
    "PIECE = 16": "how shared memory is laid out",
    "_APART = 4": "how shared memory is laid out",
    "_MOST = 1 << 31": "what libraries count up to",
    "_SIDE = 16": "how the threads of a block are laid out",
    "SIDE = 64": "how the threads of a block are laid out",
    "_EACH = 8": "how the threads of a block are laid out",
    "_TOGETHER = 16": "how the threads of a block are laid out",
    "_LEAST = 64": "how the threads of a block are laid out",
    "_ROOM = 16": "how shared memory is laid out",
    "_LEAST_TERMS = 16": "how shared memory is laid out",
    "_WORDS = 8": "of an instruction",
    "_KEY_BITS = 64": "what one number can hold",
    "_INFINITE = 255 << 23": "exponents of floats",
    "_ACROSS = 4": "how shared memory is laid out",
    "_MATRICES = 80": "an architecture",
    "length < 1 << 32": "what 32 bits hold",
    "step * b.size >= 1 << 63": "what 64 bits hold",
    "0 <= value < 128": "letters",
    "_MOST = 1024": "the windows beyond which a derivative is refused",
    "kind.size == 8": "a type",
    "0 < len(names) <= 8": "the wording of an error",
    "_MOST_OPERANDS = 8": "how rules are looked up",
    "step.limit == 25": "what a step has if nothing is written",
    "n >= 4": "the least that is a product of two",
    "a.row % (COSTS.page_bytes // 4) == 0": "how caches are built",
    "b.terms[0] % (COSTS.page_bytes // 4) == 0": "how caches are built",
    "_EVEN = 16": "the lanes of the widest vectors",
    "_PRODUCT = 2 * 127 - 100": "exponents of floats",
    "MARK = 32767 << 16": "a NaN",
    "_PARITY = 466688986": "of the random numbers",
    "_FIRST_STATE = 117515157": "of the random numbers",
    "_SEED = 11400714819323198485": "of the random numbers",
    "_MXCSR_FLAGS = 32832": "of a register",
    "_FPCR_FLAG = 1 << 24": "of a register",
    "ROW = 64": "of tile registers",
    "RANGE = 128": "how scratch is laid out",
    "_HEADER = 64": "how scratch is laid out",
    "ALIGNMENT = 64": "how memory is laid out",
    "GRAIN = 16": "how memory is laid out",
    "LINE = 64": "a line of the caches",
    "_L3_PER_CORE = 16 << 20": "of a processor that does not say",
    "_MUCH = 16": "when code that is profiled looks at the clock",
    "_MUCH_DATA = 4096": "when code that is profiled looks at the clock",
    "_TRIPS = 1000": "when code that is profiled looks at the clock",
    "low >= -128": "what s8 holds",
    "high < 128": "what s8 holds",
    "high < 256": "what u8 holds",
    "i.shape.dimensions[along] <= 1 << 24": "integers that f32 holds",
    "len(found) + len(stack) > 4 * limit": "how long instructions are looked at",
    "quicker >= seconds * (1 - 1e-09)": "rounding of sums of seconds",
    "ENTRIES = 16": "what four bits tell apart",
    "_MOST_CANDIDATES = 7": "how many ways to cut a program are looked at",
    "_MOST_TILINGS = 200": "how many ways to exchange are looked at",
    "_WORK_OF_A_BYTE = 64": "of the model of times",
    "reached < best.get(step.to, (1 << 62, 0))": "what no cost comes to",
}
"""Numbers by which nothing is planned, and what they are."""


def _number(expression: ast.AST) -> bool:
    """Whether this is a number, written out, that is larger than 3 or a fraction."""
    match expression:
        case ast.Constant(value=int() | float() as value):
            return type(value) is not bool and (abs(value) > 3 or value != int(value))
        case ast.BinOp(left=left, right=right):
            parts = [n for side in (left, right) for n in ast.walk(side)]
            plain = ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
            return all(isinstance(n, plain) for n in parts) and any(map(_number, parts))
    return False


def _names(expression: ast.AST) -> set[str]:
    found = {n.id for n in ast.walk(expression) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(expression) if isinstance(n, ast.Attribute)}


def _deciding(path: Path) -> Iterator[str]:
    """Comparisons with numbers, and numbers with a name, that `path` does not declare as thresholds."""
    tree = ast.parse(path.read_text("utf-8"))
    for statement in tree.body:
        match statement:
            case ast.Assign(value=value) if _number(value):
                yield ast.unparse(statement)
            case ast.AnnAssign(annotation=kind, value=ast.expr() as value) if _number(value):
                if "Threshold(" not in ast.unparse(kind):
                    yield ast.unparse(statement)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(map(_number, ast.walk(node))) and not _names(node) & _WIDTHS:
            yield ast.unparse(node)


def test_no_number_decides_that_is_not_declared() -> None:
    root = Path(hlotool.__path__[0])
    found = {}
    for room in ("passes", "codegen"):
        for path in sorted((root / room).rglob("*.py")):
            if "math" not in path.parts:  # how functions are approximated
                found.update(dict.fromkeys(_deciding(path), path.name))
    assert {text: name for text, name in found.items() if text not in _NO_THRESHOLDS} == {}
    assert set(_NO_THRESHOLDS) <= set(found)
