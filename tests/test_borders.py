"""Borders: updates of most of an array in one pass, and pads in pieces that need not choose between two sources."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.in_place import leaves_border
from hlotool.codegen.emitters import emit_kernel
from hlotool.codegen.machine import default_machine
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Instruction
from hlotool.text.parser import parse

STENCIL = """HloModule m
more {{
  s = (s32[], f32[{whole}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[{whole}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[{whole}] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[{part}] slice(x), slice={{{first}}}
  b = f32[{part}] slice(x), slice={{{second}}}
  c = f32[{part}] subtract(a, b)
  {starts}
  y = f32[{whole}] dynamic-update-slice(x, c, {names})
  ROOT t = (s32[], f32[{whole}]) tuple(next, y)
}}
ENTRY e {{
  x = f32[{whole}] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[{whole}]) tuple(zero, x)
  w = (s32[], f32[{whole}]) while(t), condition=more, body=body
  ROOT r = f32[{whole}] get-tuple-element(w), index=1
}}"""


def listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def stencil(whole: list[int], part: list[int], places: list[list[int]], trips: int) -> str:
    def parts(place: list[int]) -> str:
        return ", ".join(f"[{low}:{low + size}]" for low, size in zip(place, part, strict=True))

    starts = [f"s{d} = s32[] constant({place})" for d, place in enumerate(places[2])]
    names = ", ".join(f"s{d}" for d in range(len(starts)))
    return STENCIL.format(
        whole=listed(whole), part=listed(part), first=parts(places[0]), second=parts(places[1]),
        starts="\n  ".join(starts), names=names, trips=trips,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_stencils(choice: random.Random) -> None:
    whole = [choice.choice([1, 2, 5, 17, 33, 40]) for _ in range(choice.randint(1, 3))]
    part = [choice.randint(max(1, size - 3), size) for size in whole]
    places = [[choice.randint(0, size - own) for size, own in zip(whole, part, strict=True)] for _ in range(2)]
    places.append([choice.randint(-2, size - own + 2) for size, own in zip(whole, part, strict=True)])
    module = parse(stencil(whole, part, places, choice.randint(0, 3)))
    x = np.random.default_rng(choice.randint(0, 9)).integers(-8, 8, whole).astype(np.float32)
    for pipeline in ("none", "default"):
        (got,) = compile_module(module, pipeline=pipeline)(x)
        np.testing.assert_array_equal(got, evaluate(module, [x])[0])


def update_in(text: str) -> Instruction:
    module = optimise(parse(text), "fusion")
    return next(i for i in module.instructions() if i.opcode == "dynamic-update-slice")


@pytest.mark.parametrize(("size", "found"), [(38, True), (20, False)])
def test_only_what_is_most_of_the_array(size: int, found: bool) -> None:
    update = update_in(stencil([40, 40], [size, size], [[0, 1], [1, 0], [1, 1]], 3))
    assert leaves_border(update) == found
    assert (update.operands[1].opcode == "subtract") == found


def test_a_place_that_is_not_known() -> None:
    text = stencil([40], [38], [[0], [1], [1]], 3).replace("s0 = s32[] constant(1)", "s0 = s32[] add(i, one)")
    update = update_in(text)
    assert not leaves_border(update)
    assert update.operands[1].opcode != "subtract"


def test_less_memory_moves() -> None:
    """The next state is the only array beside the state, and nothing is copied between them."""
    executable = compile_module(parse(stencil([64, 64], [62, 62], [[0, 1], [2, 1], [1, 1]], 500)))
    assert executable.program.arena_bytes < 64 * 64 * 4 + 1024
    assert len(executable.program.kernels) == 1


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_sums_of_pads(choice: random.Random) -> None:
    """As the gradients of slices are: every term is computed only where it is not padding."""
    whole = [choice.choice([1, 2, 3, 4, 9, 40]) for _ in range(choice.randint(1, 3))]
    lines, terms, arrays = [], [], []
    for number in range(choice.randint(1, 4)):
        own, places = [], []
        for size in whole:
            interior = choice.choice([0, 0, 0, 1, 2])
            part = choice.randint(1, max(1, size // (interior + 1)))
            low = choice.randint(-1, max(0, size - part))
            spread = part + (part - 1) * interior
            own.append(part)
            places.append(f"{low}_{size - low - spread}_{interior}")
        lines += [
            f"p{number} = f32[{listed(own)}] parameter({number})",
            f"n{number} = f32[{listed(own)}] negate(p{number})",
            f"t{number} = f32[{listed(whole)}] pad(n{number}, v), padding={'x'.join(places)}",
        ]
        if number:
            lines.append(f"s{number} = f32[{listed(whole)}] add({terms[-1]}, t{number})")
        terms.append(f"s{number}" if number else "t0")
        arrays.append(np.arange(np.prod(own), dtype=np.float32).reshape(own) + number)
    body = "\n  ".join(["v = f32[] constant(3)", *lines, f"ROOT r = f32[{listed(whole)}] abs({terms[-1]})"])
    module = parse(f"HloModule m\nENTRY e {{\n  {body}\n}}")
    (got,) = compile_module(module)(*arrays)
    np.testing.assert_array_equal(got, evaluate(module, arrays)[0])


def test_columns_are_computed_one_by_one() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[8000] parameter(0)
  zero = f32[] constant(0)
  a = f32[8000] negate(x)
  b = f32[8000] abs(x)
  c = f32[8000,1] reshape(a)
  d = f32[8000,1] reshape(b)
  e = f32[8000,3] pad(c, zero), padding=0_0x0_2
  f = f32[8000,3] pad(d, zero), padding=0_0x2_0
  ROOT r = f32[8000,3] add(e, f)
}"""
    fusion = optimise(parse(text), "fusion").entry.root
    kernel = emit_kernel("k", fusion, default_machine(), frozenset())
    assert len(kernel.steps) == 3
    assert "select" not in kernel.text
    (got,) = compile_module(parse(text))(np.linspace(-2, 2, 8000, dtype=np.float32))
    np.testing.assert_allclose(got, evaluate(parse(text), [np.linspace(-2, 2, 8000, dtype=np.float32)])[0], rtol=1e-5)
