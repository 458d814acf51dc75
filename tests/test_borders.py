"""Borders: updates of most of an array in one pass, and pads in pieces that need not choose between two sources."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.in_place import leaves_border
from hlotool.codegen.cpu.target import CPU
from hlotool.codegen.llvm.memory import has_masks
from hlotool.codegen.machine import Machine, default_machine, host, named, runs_here
from hlotool.codegen.program import build
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Instruction, dtype_of
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
    assert executable.program.assignment.arena_bytes < 64 * 64 * 4 + 1024
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


def rolled(kind: str, shape: list[int], shifts: list[list[int]]) -> str:
    """The sum of an array and of its rolls: a stencil whose ends meet."""
    lines, count = [f"x = {kind}[{listed(shape)}] parameter(0)"], 0
    total = "x"
    for number, shift in enumerate(shifts):
        last = "x"
        for d, by in enumerate(shift):
            if not 0 < by < shape[d]:
                continue
            bounds, sizes, parts = [f"[0:{size}]" for size in shape], list(shape), []
            for low, high in ((by, shape[d]), (0, by)):
                bounds[d], sizes[d] = f"[{low}:{high}]", high - low
                parts.append(f"s{count}")
                lines.append(f"s{count} = {kind}[{listed(sizes)}] slice({last}), slice={{{', '.join(bounds)}}}")
                count += 1
            last = f"r{number}_{d}"
            whole = f"{kind}[{listed(shape)}]"
            lines.append(f"{last} = {whole} concatenate({', '.join(parts)}), dimensions={{{d}}}")
        lines.append(f"t{number} = {kind}[{listed(shape)}] add({total}, {last})")
        total = f"t{number}"
    body = "\n  ".join([*lines, f"ROOT y = {kind}[{listed(shape)}] maximum({total}, x)"])
    return f"HloModule m\nENTRY e {{\n  {body}\n}}"


MACHINES = [m for m in (host(), named("x86-64-v3"), named("x86-64-v2")) if runs_here(m)]


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(MACHINES))
def test_random_sums_of_rolls(choice: random.Random, machine: Machine) -> None:
    """Also of numbers so short that processors cannot read some of a vector of them."""
    kind = choice.choice(["u8", "s16", "u4", "f16", "f32", "f64"])
    shape = [choice.choice([1, 2, 5, 31, 33, 40, 100]) for _ in range(choice.randint(1, 3))]
    shifts = [[choice.randint(0, size - 1) for size in shape] for _ in range(choice.randint(1, 3))]
    module = parse(rolled(kind, shape, shifts))
    x = np.random.default_rng(choice.randint(0, 9)).integers(0, 4, shape)
    argument = x.astype(dtype_of(kind))
    (got,) = compile_module(module, machine=machine)(argument)
    np.testing.assert_array_equal(got.astype(int), evaluate(module, [argument])[0].astype(int))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("kind", ["u8", "f16", "f32"])
def test_vectors_are_read_in_parts_where_processors_do_that(level: str, kind: str) -> None:
    machine = named(level)
    program = build(optimise(parse(rolled(kind, [64, 128], [[0, 1], [63, 127]]))), machine)
    calls = [line for text in program.units for line in text.split("\n") if "@llvm.masked.load" in line]
    masked = [line for line in calls if "call" in line and "<i1" not in line]
    assert bool(masked) <= has_masks(machine, kind)


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
    kernel = CPU.emitter(fusion)("k", fusion, default_machine(), frozenset(), frozenset())
    assert len(kernel.steps) == 3
    assert "select" not in kernel.text
    (got,) = compile_module(parse(text))(np.linspace(-2, 2, 8000, dtype=np.float32))
    np.testing.assert_allclose(got, evaluate(parse(text), [np.linspace(-2, 2, 8000, dtype=np.float32)])[0], rtol=1e-5)
