"""Convolution kernels against a direct sum over the window in NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from machines import SERVER
from test_gemm import DTYPES, MACHINES, Array, bf16_machines, every_machine, guarded, run_kernel

from hlotool.codegen.cpu.products.conv import emit_conv
from hlotool.codegen.cpu.products.conv_spec import ConvSpec, Spatial
from hlotool.codegen.llvm.elements import element
from hlotool.codegen.machine import Machine, default_machine, host, named


def spec_of(
    batch: int, size: Sequence[int], features: int, made: int, kernel: Sequence[int], *,
    strides: Sequence[int] = (), low: Sequence[int] = (), high: Sequence[int] | None = None, base: Sequence[int] = (),
    window: Sequence[int] = (), reversal: Sequence[bool] = (), feature_groups: int = 1, batch_groups: int = 1,
    orders: Sequence[Sequence[int]] = (), types: tuple[str, str, str, str] = ("f32",) * 4,
) -> ConvSpec:
    """The spec of a convolution of dense arrays; `orders` gives the dimensions of lhs, rhs and out in memory.

    Logical order is (batch, spatial, feature), (spatial, input, output), (batch, spatial, feature).
    """
    rank = len(size)
    ones, zeros = (1,) * rank, (0,) * rank
    strides, low, base, window = strides or ones, low or zeros, base or ones, window or ones
    high = low if high is None else high
    output = tuple(
        ((size[i] - 1) * base[i] + 1 + low[i] + high[i] - (kernel[i] - 1) * window[i] - 1) // strides[i] + 1
        for i in range(rank)
    )
    orders = orders or (range(rank + 2),) * 3
    shapes = (
        (batch, *size, features), (*kernel, features // feature_groups, made), (batch // batch_groups, *output, made)
    )
    left, right, to = (
        [element(kind).bytes * math.prod(shape[d] for d in order[order.index(at) + 1 :]) for at in range(rank + 2)]
        for kind, shape, order in zip(types[:3], shapes, (list(order) for order in orders), strict=True)
    )
    reversal = reversal or (False,) * rank
    spatial = tuple(
        Spatial(
            input=size[i], kernel=kernel[i], output=output[i], stride=strides[i], padding=low[i], base_dilation=base[i],
            window_dilation=window[i], lhs=left[i + 1], rhs=-right[i] if reversal[i] else right[i], out=to[i + 1],
        )
        for i in range(rank)
    )
    return ConvSpec(
        batch=batch, input_features=features, output_features=made, spatial=spatial, feature_groups=feature_groups,
        batch_groups=batch_groups, lhs_batch=left[0], lhs_feature=left[-1], rhs_input=right[-2], rhs_output=right[-1],
        out_batch=to[0], out_feature=to[-1], types=types,
    )


def of_types(spec: ConvSpec, types: tuple[str, str, str, str]) -> ConvSpec:
    """The same convolution of f32 arrays with these types."""
    left, right, to = (element(kind).bytes for kind in types[:3])
    strides = ((d, d.lhs * left // 4, d.rhs * right // 4, d.out * to // 4) for d in spec.spatial)
    return replace(
        spec, types=types, spatial=tuple(replace(d, lhs=lhs, rhs=rhs, out=out) for d, lhs, rhs, out in strides),
        lhs_batch=spec.lhs_batch * left // 4, lhs_feature=spec.lhs_feature * left // 4,
        rhs_input=spec.rhs_input * right // 4, rhs_output=spec.rhs_output * right // 4,
        out_batch=spec.out_batch * to // 4, out_feature=spec.out_feature * to // 4,
    )


def reference(spec: ConvSpec, lhs: Array, rhs: Array) -> Array:
    """The definition, one window element at a time, on arrays in logical order; padding and holes add nothing."""
    reach = [d.reach for d in spec.spatial]
    padded = np.zeros((spec.batch, *reach, spec.input_features), lhs.dtype)
    inside = np.zeros((1, *reach, 1), np.bool_)
    to, source = [], []
    for d in spec.spatial:
        places = [(d.padding + at * d.base_dilation, at) for at in range(d.input)]
        places = [place for place in places if 0 <= place[0] < d.reach]
        to.append([place for place, _ in places])
        source.append([at for _, at in places])
    every = range(spec.batch), range(spec.input_features)
    inside[np.ix_([0], *to, [0])] = True
    padded[np.ix_(every[0], *to, every[1])] = lhs[np.ix_(every[0], *source, every[1])]
    images, share = spec.batch // spec.batch_groups, spec.output_features // spec.groups
    part = spec.input_features // spec.feature_groups
    out = np.zeros(spec.result, lhs.dtype)
    for group in range(spec.groups):
        made = slice(group * share, group * share + share)
        if spec.feature_groups > 1:
            mine = padded[..., group * part : (group + 1) * part]
        else:
            mine = padded[group * images : (group + 1) * images] if spec.batch_groups > 1 else padded
        for at in itertools.product(*(range(d.kernel) for d in spec.spatial)):
            window = list(zip(spec.spatial, at, strict=True))
            weight = tuple(d.kernel - 1 - w if d.rhs < 0 else w for d, w in window)
            starts = [(w * d.window_dilation, d) for d, w in window]
            pixels = tuple(slice(start, start + (d.output - 1) * d.stride + 1, d.stride) for start, d in starts)
            with np.errstate(invalid="ignore"):
                terms = mine[(slice(None), *pixels)] @ rhs[weight][:, made]
                out[..., made] += np.where(inside[(slice(None), *pixels)], terms, 0)
    return out


def stored(array: Array, strides: Sequence[int]) -> Array:
    """The array laid out densely with its dimensions in the order of `strides`."""
    order = sorted(range(array.ndim), key=lambda at: (-strides[at], -array.shape[at]))
    return np.ascontiguousarray(array.transpose(order))


def run(spec: ConvSpec, machine: Machine, lhs: Array, rhs: Array, pieces: int = 3) -> Array:
    shape, strides = spec.result, spec.strides
    order = sorted(range(len(shape)), key=lambda at: (-strides[at], -shape[at]))
    out, around = guarded([shape[at] for at in order], DTYPES[spec.types[2]])
    left = stored(lhs, (spec.lhs_batch, *(d.lhs for d in spec.spatial), spec.lhs_feature))
    right = stored(rhs, (*(abs(d.rhs) for d in spec.spatial), spec.rhs_input, spec.rhs_output))
    run_kernel(emit_conv("conv", spec, machine), machine, [surrounded(left), surrounded(right), out], pieces)
    assert (around[:128] == 0x5A).all()
    assert (around[-128:] == 0x5A).all()
    return np.asarray(out.transpose(np.argsort(order)))


def surrounded(array: Array) -> Array:
    """The array within a larger one of numbers that spoil every sum."""
    around = np.full(array.size + 4096, np.nan if array.dtype.kind not in "iu" else 77).astype(array.dtype)
    around[2048 : 2048 + array.size] = array.reshape(-1)
    return around[2048 : 2048 + array.size].reshape(array.shape)


def check(spec: ConvSpec, machine: Machine, strange: Sequence[float] = ()) -> None:
    """Small whole numbers: every order of summation gives the same, exactly.  Some of the kernel are `strange`."""
    generator = np.random.default_rng(1)

    def draw(kind: str, shape: Sequence[int]) -> tuple[Array, Array]:
        values = generator.integers(0 if kind[0] == "u" else -4, 5, shape)
        wide = values + 1j * generator.integers(-4, 5, shape) if kind[0] == "c" else values
        return wide.astype(DTYPES[kind]), wide.astype(np.complex128 if kind[0] == "c" else np.float64)

    lhs, exact_lhs = draw(spec.types[0], spec.input)
    kernel = *(d.kernel for d in spec.spatial), spec.features, spec.output_features
    rhs, exact_rhs = draw(spec.types[1], kernel)
    if strange:
        exact_lhs = (np.abs(exact_lhs.real) + 1).astype(exact_lhs.dtype)  # the kernel alone decides what is infinite
        lhs = exact_lhs.astype(lhs.dtype)
        where = generator.random(rhs.shape) < 0.2
        exact_rhs[where] = generator.choice(strange, rhs.shape)[where]
        rhs = exact_rhs.astype(rhs.dtype)
    expected = reference(spec, exact_lhs, exact_rhs)
    if spec.types[2] == "bf16":
        expected = expected.astype(DTYPES["bf16"])
    kind = exact_lhs.dtype
    np.testing.assert_array_equal(run(spec, machine, lhs, rhs).astype(kind), expected.astype(kind))


NCHW = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
BACKWARD = ((0, 3, 1, 2), (2, 3, 0, 1), (0, 3, 1, 2))  # bf01_io01->bf01
INNER_WINDOWS = ((0, 1, 2, 3), (2, 3, 0, 1), (0, 1, 2, 3))  # b01f_io01->b01f
GRADIENT = ((3, 1, 2, 0), (2, 0, 1, 3), (1, 2, 0, 3))  # f01b_i01o->01bf
CASES = {
    "same": spec_of(2, (9, 11), 5, 7, (3, 3), low=(1, 1)),
    "stem": spec_of(1, (20, 20), 3, 33, (7, 7), strides=(2, 2), low=(3, 3), high=(2, 2)),
    "pointwise": spec_of(2, (6, 7), 5, 9, (1, 1)),
    "pointwise-strided": spec_of(2, (6, 7), 5, 9, (1, 1), strides=(2, 2)),
    "pointwise-nchw": spec_of(2, (6, 7), 5, 40, (1, 1), orders=NCHW),
    "nchw": spec_of(2, (9, 17), 5, 37, (3, 3), low=(1, 1), orders=NCHW),
    "nchw-lines": spec_of(2, (9, 27), 5, 37, (3, 3), low=(1, 1), window=(1, 2), orders=NCHW, reversal=(False, True)),
    "nchw-lines-groups": spec_of(2, (5, 61), 6, 15, (3, 3), low=(1, 2), feature_groups=3, orders=NCHW),
    "nchw-lines-depthwise": spec_of(2, (5, 30), 6, 12, (3, 4), low=(1, 2), feature_groups=6, orders=NCHW),
    "nchw-lines-inside": spec_of(2, (5, 30), 6, 20, (3, 3), orders=NCHW),
    "wide": spec_of(1, (5, 30), 24, 230, (3, 3), low=(1, 1)),
    "dilated": spec_of(2, (9, 11), 5, 7, (3, 2), low=(1, 0), window=(2, 3), base=(2, 1), reversal=(True, False)),
    "cropped": spec_of(2, (9, 11), 5, 7, (3, 2), low=(-1, -2), high=(-1, 3)),
    "cropped-dilated": spec_of(2, (9, 11), 5, 7, (3, 2), low=(-1, -2), high=(-1, 3), base=(2, 3)),
    "beyond": spec_of(1, (2, 2), 3, 5, (2, 2), low=(5, -9), high=(1, 20)),
    "line": spec_of(3, (17,), 4, 5, (4,), low=(2,)),
    "line-causal": spec_of(2, (45,), 3, 20, (2,), low=(1,), high=(0,)),
    "same-long": spec_of(1, (5, 58), 3, 33, (3, 3), low=(1, 1)),
    "same-rest": spec_of(1, (4, 29), 5, 64, (3, 5), low=(1, 2)),
    "same-strided": spec_of(2, (9, 30), 4, 40, (5, 3), strides=(2, 2), low=(2, 1), high=(2, 0)),
    "same-ragged": spec_of(1, (6, 15), 4, 33, (3, 5), low=(1, 3), high=(0, 1), reversal=(True, True)),
    "same-dilated": spec_of(2, (9, 14), 3, 33, (3, 3), low=(4, 2), window=(4, 2)),
    "same-sparse": spec_of(2, (7, 9), 3, 17, (3, 3), low=(4, 1), high=(4, 1), window=(4, 1), strides=(3, 1)),
    "same-volume": spec_of(2, (4, 5, 14), 3, 40, (3, 3, 3), low=(1, 1, 1)),
    "same-groups": spec_of(1, (5, 29), 10, 34, (3, 3), low=(1, 1), feature_groups=2),
    "same-depthwise": spec_of(1, (9, 29), 20, 20, (5, 3), low=(2, 1), strides=(2, 2), feature_groups=20),
    "same-line-dilated": spec_of(2, (60,), 5, 33, (3,), low=(4,), window=(4,)),
    "same-single": spec_of(2, (6, 13), 1, 40, (3, 3), low=(1, 1)),
    "narrow": spec_of(2, (12, 1), 5, 9, (3, 5), low=(1, 2)),
    "all-outside": spec_of(1, (6, 14), 3, 20, (3, 3), low=(4, 1)),
    "volume": spec_of(2, (5, 6, 7), 3, 17, (2, 3, 2), low=(1, 0, 1), strides=(1, 2, 1)),
    "no-space": spec_of(7, (), 4, 5, ()),
    "groups": spec_of(2, (8, 8), 8, 12, (3, 3), low=(1, 1), feature_groups=4),
    "depthwise": spec_of(2, (8, 9), 37, 37, (3, 3), low=(1, 1), feature_groups=37),
    "depthwise-inside": spec_of(2, (8, 9), 13, 13, (3, 3), feature_groups=13),
    "depthwise-multiplied": spec_of(2, (8, 9), 13, 26, (3, 3), low=(1, 1), feature_groups=13),
    "depthwise-nchw": spec_of(2, (8, 19), 13, 13, (3, 3), low=(1, 1), feature_groups=13, orders=NCHW),
    "batch-groups": spec_of(6, (8, 9), 3, 9, (3, 3), low=(1, 1), batch_groups=3),
    "batch-lanes": spec_of(6, (8, 9), 3, 6, (3, 3), low=(1, 1), batch_groups=6),
    "batch-shares": spec_of(6, (8, 9), 3, 12, (3, 3), low=(1, 1), batch_groups=6),
    "gradient": spec_of(5, (10, 10), 8, 16, (8, 8), low=(1, 1), high=(0, 0), orders=GRADIENT),
    "gradient-strided": spec_of(5, (10, 10), 8, 16, (4, 4), window=(2, 2), low=(1, 1), high=(0, 0), orders=GRADIENT),
    "gradient-deep": spec_of(40, (30, 30), 9, 33, (29, 29), low=(1, 1), high=(0, 0), orders=GRADIENT),
    "backward": spec_of(2, (5, 6), 9, 37, (3, 3), low=(1, 1), reversal=(True, True), orders=BACKWARD),
    "backward-wide": spec_of(1, (4, 5), 6, 150, (5, 3), low=(2, 1), reversal=(True, True), orders=BACKWARD),
    "backward-half": spec_of(1, (4, 5), 6, 70, (4, 2), low=(1, 1), reversal=(False, True), orders=BACKWARD),
    "windows-inside": spec_of(2, (5, 6), 9, 70, (3, 3), low=(1, 1), orders=INNER_WINDOWS),
    "windows-inside-turned": spec_of(1, (5, 6), 9, 37, (5, 4), low=(2, 2), reversal=(True, True), orders=INNER_WINDOWS),
    "windows-inside-groups": spec_of(1, (5, 6), 8, 36, (3, 3), low=(1, 1), feature_groups=2, orders=INNER_WINDOWS),
    "transposed-sparse": spec_of(2, (5, 6), 6, 7, (2, 3), base=(7, 5), low=(3, 2), reversal=(True, False)),
    "transposed-empty": spec_of(2, (3,), 6, 7, (1,), base=(4,), strides=(2,), low=(1,), high=(2,)),
    "transposed-even": spec_of(2, (5, 6), 6, 37, (4, 4), base=(2, 2), low=(2, 2)),
    "transposed-holes": spec_of(2, (5, 6), 6, 7, (2, 1), base=(3, 4), low=(1, 2), high=(4, 3)),
    "transposed-strided": spec_of(2, (9, 8), 6, 7, (3, 4), base=(4, 3), strides=(6, 2), low=(1, 2), window=(2, 3)),
    "transposed-nchw": spec_of(2, (5, 17), 6, 37, (4, 3), base=(2, 1), low=(2, 1), orders=NCHW),
    "transposed-depthwise": spec_of(2, (5, 6), 13, 13, (3, 4), base=(2, 3), low=(1, 1), feature_groups=13),
    "transposed-groups": spec_of(4, (5, 6), 6, 8, (3, 4), base=(2, 3), low=(1, 1), batch_groups=2),
    "transposed": spec_of(2, (5, 5), 6, 7, (3, 3), base=(2, 2), low=(1, 1), high=(2, 2), reversal=(True, True)),
}


@every_machine
@pytest.mark.parametrize("case", CASES)
def test_cases(machine: Machine, case: str) -> None:
    check(CASES[case], machine)


@every_machine
@pytest.mark.parametrize("types", [
    ("f64",) * 4, ("bf16", "bf16", "bf16", "f32"), ("f16", "f16", "f32", "f32"), ("s8", "s8", "s32", "s32"),
    ("u8", "s8", "s32", "s32"), ("s32",) * 4, ("c64",) * 4, ("c128",) * 4,
], ids="-".join)
def test_types(machine: Machine, types: tuple[str, str, str, str]) -> None:
    for case in (
        "same", "pointwise", "nchw", "nchw-lines", "depthwise", "groups", "cropped-dilated", "backward",
        "windows-inside",
    ):
        check(of_types(CASES[case], types), machine)


@every_machine
@pytest.mark.parametrize("strange", [(math.inf,), (math.nan,), (math.inf, -math.inf, math.nan)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_padding_meets_infinities(machine: Machine, case: str, strange: Sequence[float]) -> None:
    check(CASES[case], machine, strange)


@every_machine
@pytest.mark.parametrize("types", [
    ("f64",) * 4, ("bf16", "bf16", "bf16", "f32"), ("f16", "f16", "f32", "f32"), ("c64",) * 4, ("c128",) * 4,
], ids="-".join)
def test_padding_meets_infinities_of_any_type(machine: Machine, types: tuple[str, str, str, str]) -> None:
    for case in ("same", "nchw", "nchw-lines", "depthwise", "groups", "cropped-dilated", "transposed"):
        check(of_types(CASES[case], types), machine, (math.inf,))


BF16 = ("bf16", "bf16", "f32", "f32")
OHWI, OIHW = (3, 0, 1, 2), (3, 2, 0, 1)
PAIRS_OF_FEATURES = {
    "in-place": (spec_of(2, (9, 11), 32, 40, (3, 3)), BF16),
    "same": (spec_of(1, (7, 37), 64, 33, (3, 3), low=(1, 1)), BF16),
    "narrow": (spec_of(2, (5, 20), 34, 17, (3, 3), low=(1, 1)), ("bf16",) * 3 + ("f32",)),
    "odd": (spec_of(2, (6, 9), 17, 70, (3, 2), low=(1, 0), strides=(2, 1)), BF16),
    "few": (spec_of(1, (12, 12), 3, 33, (7, 7), strides=(2, 2), low=(3, 3)), BF16),
    "nchw": (spec_of(2, (9, 17), 24, 37, (3, 3), low=(1, 1), orders=NCHW), ("bf16",) * 3 + ("f32",)),
    "nchw-reversed": (spec_of(1, (9, 9), 32, 20, (3, 2), low=(1, 0), orders=NCHW, reversal=(True, True)), BF16),
    "terms-last": (spec_of(1, (8, 8), 32, 21, (2, 3), orders=((0, 1, 2, 3), OHWI, (0, 1, 2, 3))), BF16),
    "terms-first": (spec_of(1, (8, 8), 48, 21, (2, 3), orders=((0, 1, 2, 3), OIHW, (0, 1, 2, 3))), BF16),
    "groups": (spec_of(1, (8, 9), 64, 40, (3, 3), low=(1, 1), feature_groups=2), BF16),
    "odd-groups": (spec_of(1, (8, 9), 51, 40, (3, 3), low=(1, 1), feature_groups=1, window=(1, 2)), BF16),
    "batch-groups": (spec_of(4, (8, 9), 33, 24, (3, 3), low=(1, 1), batch_groups=2), BF16),
    "gradient": (spec_of(32, (10, 10), 8, 16, (8, 8), low=(1, 1), high=(0, 0), orders=GRADIENT), BF16),
    "transposed": (spec_of(2, (5, 6), 32, 20, (4, 3), base=(2, 3), low=(2, 1), reversal=(True, False)), BF16),
    "line": (spec_of(2, (45,), 40, 20, (3,), low=(2,), high=(0,)), BF16),
    "volume": (spec_of(1, (4, 5, 6), 32, 17, (2, 3, 2), low=(1, 0, 1)), BF16),
}


@bf16_machines
@pytest.mark.parametrize("case", PAIRS_OF_FEATURES)
def test_pairs_of_features(machine: Machine, case: str) -> None:
    spec, types = PAIRS_OF_FEATURES[case]
    check(of_types(spec, types), machine)
    check(of_types(spec, types), machine, (math.inf, -math.inf, math.nan))


@bf16_machines
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_pairs(machine: Machine, data: st.DataObject) -> None:
    """Features on both sides of what is worth pairing, and of what fills tile registers."""
    features, groups = data.draw(st.sampled_from((1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 64))), 1
    if data.draw(st.booleans()):
        groups = data.draw(st.integers(2, 3))
    spec = spec_of(
        data.draw(st.integers(1, 2)), [data.draw(st.integers(1, 20)) for _ in range(2)], features * groups,
        data.draw(st.integers(1, 40)) * groups, [data.draw(st.integers(1, 3)) for _ in range(2)],
        strides=[data.draw(st.integers(1, 2)) for _ in range(2)], low=[data.draw(st.integers(-1, 2)) for _ in range(2)],
        base=[data.draw(st.integers(1, 2)) for _ in range(2)], feature_groups=groups,
        orders=[data.draw(st.permutations(range(4))) for _ in range(3)],
        reversal=[data.draw(st.booleans()) for _ in range(2)],
    )
    assume(all(d.output > 0 for d in spec.spatial))
    types = data.draw(st.sampled_from((BF16, ("bf16",) * 3 + ("f32",))))
    check(of_types(spec, types), machine, data.draw(st.sampled_from([(), (math.inf, math.nan)])))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    groups = data.draw(st.sampled_from([(1, 1), (1, 1), (3, 1), (1, 2)]))
    spec = spec_of(
        data.draw(st.integers(1, 3)) * groups[1], each(1, 9), data.draw(st.integers(1, 9)) * groups[0],
        data.draw(st.integers(1, 20)) * groups[0] * groups[1], each(1, 4), strides=each(1, 3), low=each(-2, 4),
        high=each(-2, 4), base=each(1, 3), window=each(1, 3), reversal=[bool(flag) for flag in each(0, 1)],
        feature_groups=groups[0], batch_groups=groups[1],
        orders=[data.draw(st.permutations(range(rank + 2))) for _ in range(3)],
    )
    assume(all(d.output > 0 for d in spec.spatial))
    check(spec, data.draw(st.sampled_from(MACHINES)), data.draw(st.sampled_from([(), (math.inf, math.nan)])))


def test_results_do_not_depend_on_the_split() -> None:
    generator = np.random.default_rng(2)
    spec = spec_of(2, (20, 21), 30, 70, (3, 3), low=(1, 1))
    lhs, rhs = (generator.standard_normal(shape).astype(np.float32) for shape in ((2, 20, 21, 30), (3, 3, 30, 70)))
    whole = run(spec, default_machine(), lhs, rhs, 1)
    for pieces in (2, 1000):
        np.testing.assert_array_equal(whole, run(spec, default_machine(), lhs, rhs, pieces))


@pytest.mark.parametrize("spec", [
    spec_of(2, (28, 28), 16, 64, (3, 3), low=(1, 1)),
    spec_of(2, (28, 28), 64, 64, (3, 3), low=(1, 1), feature_groups=64),
    spec_of(2, (28, 28), 32, 64, (3, 3), low=(1, 1), feature_groups=2),
    spec_of(2, (300,), 16, 64, (2,), low=(2,), high=(0,), window=(2,)),
], ids=["plain", "depthwise", "groups", "causal"])
def test_what_lies_outside_is_neither_stored_nor_multiplied(spec: ConvSpec) -> None:
    kernel = emit_conv("conv", spec, default_machine())
    assert not kernel.helpers  # no zeros, so nothing to say about them
    assert not any("_pad" in step.function for step in kernel.steps)


def test_sums_in_pieces_leave_out_what_lies_outside() -> None:
    spec = spec_of(3, (7, 28), 24, 33, (5, 3), low=(2, 1))
    for size in (32 << 10, 128 << 10):
        check(spec, replace(default_machine(), l2=size), (math.inf, math.nan))


FEW_PIXELS = [
    spec_of(1, (7, 7), 48, 264, (3, 3), low=(1, 1)),
    spec_of(3, (5, 4), 44, 250, (3, 3), low=(1, 1)),
    spec_of(1, (7, 9), 40, 296, (3, 3), strides=(2, 2), low=(1, 1)),
    spec_of(1, (6, 6), 46, 280, (3, 3)),
    spec_of(1, (7, 5), 23, 260, (5, 4), low=(2, 2)),
    spec_of(1, (4, 5, 6), 17, 240, (3, 2, 3), low=(1, 0, 1)),
]


@pytest.mark.parametrize("spec", FEW_PIXELS, ids=lambda spec: "x".join(str(d.input) for d in spec.spatial))
def test_few_pixels_have_weights_packed_in_pieces(spec: ConvSpec) -> None:
    """Panels do not stay in the cache: each task packs its own, a piece at a time, and goes on with all pixels."""
    for cpu in ("x86-64-v3", "x86-64-v2"):
        machine = named(f"{cpu},l2=32K,cores=2")
        kernel = emit_conv("conv", spec, machine)
        assert "pack_rhs_conv" not in [step.function for step in kernel.steps]
        if machine.vector_bits == 256 and "pad_conv" not in [step.function for step in kernel.steps]:
            assert kernel.scratch < 4 * spec.input_features * spec.window * spec.output_features
        if machine.vector_bits <= host().vector_bits:
            check(spec, machine)
            check(spec, machine, (math.inf, math.nan))


def test_no_window_gives_zeros() -> None:
    spec = spec_of(2, (4, 4), 0, 3, (2, 2))
    empty: Any = np.zeros((2, 4, 4, 0), np.float32)
    assert (run(spec, default_machine(), empty, np.zeros((2, 2, 0, 3), np.float32)) == 0).all()


def test_holes_are_never_stored_nor_many_kernels_made() -> None:
    """A window of three meets a thousand holes: three pixels of a thousand are not zero."""
    spec = spec_of(1, (50,), 8, 16, (3,), base=(1000,), low=(1,), high=(1,))
    kernel = emit_conv("conv", spec, default_machine())
    assert kernel.scratch < 1 << 16
    assert len(kernel.steps) <= 8
    check(spec, default_machine())
    even = emit_conv("conv", spec_of(4, (8, 8), 64, 32, (4, 4), base=(2, 2), low=(2, 2)), SERVER)
    assert [step.function for step in even.steps] == ["flag_conv", "pad_conv", "pack_rhs_conv", "conv"]


def test_large_convolutions_have_tasks_to_share() -> None:
    kernel = emit_conv("conv", spec_of(1, (56, 56), 64, 64, (3, 3), low=(1, 1)), default_machine())
    assert all(step.tasks >= 16 for step in kernel.steps if step.cost > 20_000)
    assert kernel.steps[-1].cost > 20_000
