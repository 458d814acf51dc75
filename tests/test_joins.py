"""Concatenates whose operands are computed where they belong: numbers, what is copied, what memory holds."""

from __future__ import annotations

import random

import numpy as np
import pytest
from buffer_checker import Checker
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.machine import default_machine
from hlotool.codegen.program import Program, build
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Module
from hlotool.text.parser import parse


def planned(text: str) -> tuple[Program, DecisionLog]:
    log = DecisionLog()
    module = optimise(parse(text), LOWERING)
    return build(module, default_machine(), log=log), log


def agrees(module: Module, seed: int = 0) -> None:
    """Memory holds what it should, and native code, which runs the module as it is, gives the evaluator's numbers."""
    for trips in (0, 1, 2):
        Checker(optimise(module, LOWERING), trips=trips).check()
    draw = np.random.default_rng(seed)
    arrays = [draw.integers(-8, 8, p.shape.dimensions).astype(np.float32) for p in module.entry.parameters]
    expected = evaluate(module, arrays)
    for pipeline in ("none", "default"):
        for one, other in zip(compile_module(module, pipeline=pipeline)(*arrays), expected, strict=True):
            np.testing.assert_array_equal(one, other)


LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}"""


def entry(*lines: str, parameters: str = "f32[3,40] f32[3,40]") -> str:
    given = [f"  p{n} = {kind} parameter({n})" for n, kind in enumerate(parameters.split())]
    return "\n".join(["HloModule m", LESS, "ENTRY e {", *given, *(f"  {line}" for line in lines), "}"])


CASES = {
    "all computed": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)",
         "ROOT c = f32[6,40] concatenate(a, b), dimensions={0}"),
        {"operand-in-place": 2}, [0],
    ),
    "one is an argument": (
        ("a = f32[3,40] negate(p0)", "ROOT c = f32[9,40] concatenate(p1, a, p0), dimensions={0}"),
        {"operand-in-place": 1, "operand-given": 2}, [1],
    ),
    "one twice": (
        ("a = f32[3,40] negate(p0)", "ROOT c = f32[6,40] concatenate(a, a), dimensions={0}"),
        {"operand-in-place": 1, "operand-part": 1}, [1],
    ),
    "read by others too": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "c = f32[6,40] concatenate(a, b), dimensions={0}",
         "d = f32[3,40] multiply(a, b)", "ROOT t = (f32[6,40], f32[3,40]) tuple(c, d)"),
        {"operand-in-place": 2}, [0],
    ),
    "a result too": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "c = f32[6,40] concatenate(a, b), dimensions={0}",
         "ROOT t = (f32[6,40], f32[3,40]) tuple(c, a)"),
        {"operand-in-place": 1, "operand-needed": 1}, [1],
    ),
    "stacked": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "x = f32[1,3,40] reshape(a)",
         "y = f32[1,3,40] reshape(b)", "c = f32[2,3,40] concatenate(x, y), dimensions={0}",
         "ROOT d = f32[240] reshape(c)"),
        {"operand-in-place": 2}, [0],
    ),
    "of concatenations": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "c = f32[6,40] concatenate(a, b), dimensions={0}",
         "d = f32[3,40] sign(p0)", "e = f32[9,40] concatenate(c, d), dimensions={0}", "ROOT f = f32[9,40] abs(e)"),
        {"operand-in-place": 4}, [0, 0],
    ),
    "behind a dimension of one": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "x = f32[1,3,40] reshape(a)",
         "y = f32[1,3,40] reshape(b)", "ROOT c = f32[1,6,40] concatenate(x, y), dimensions={1}"),
        {"operand-in-place": 2}, [0],
    ),
    "side by side": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "ROOT c = f32[3,80] concatenate(a, b), dimensions={1}"),
        {"operand-scattered": 2}, [1],
    ),
    "the result is updated while an operand is needed": (
        ("a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "c = f32[6,40] concatenate(a, b), dimensions={0}",
         "d = f32[6,40] abs(c)", "ROOT t = (f32[6,40], f32[3,40]) tuple(d, e)", "e = f32[3,40] add(a, b)"),
        {"operand-in-place": 2}, [0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_copied(name: str) -> None:
    lines, rules, kernels = CASES[name]
    text = entry(*sorted(lines, key=lambda line: line.startswith("ROOT t")))
    program, log = planned(text)
    found: dict[str, int] = {}
    for decision in log:
        found[decision.rule] = found.get(decision.rule, 0) + 1
    assert found == rules
    joins = [i.name for i in program.assignment.positions if i.opcode == "concatenate"]
    assert [sum(use.instruction == join for use in program.kernels) for join in joins] == kernels
    agrees(parse(text))


def test_results_are_arrays_of_their_own() -> None:
    text = entry(
        "a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p1)", "c = f32[6,40] concatenate(a, b), dimensions={0}",
        "ROOT t = (f32[6,40], f32[3,40], f32[3,40]) tuple(c, a, b)",
    )  # fmt: skip
    x = np.ones((3, 40), np.float32)
    c, a, b = compile_module(parse(text), pipeline="none")(x, x)
    a[:], b[:] = 7, 9
    np.testing.assert_array_equal(c, np.concatenate([-x, x]))


def test_donated_memory_becomes_the_whole() -> None:
    text = entry(
        "a = f32[3,40] negate(p0)", "b = f32[3,40] abs(p0)", "ROOT c = f32[6,40] concatenate(a, b), dimensions={0}",
        parameters="f32[3,40] f32[6,40]",
    )  # fmt: skip
    executable = compile_module(parse(text), pipeline="none", donate=[1])
    x, y = np.full((3, 40), 2, np.float32), np.ones((6, 40), np.float32)
    (c,) = executable(x, y)
    assert c is y
    np.testing.assert_array_equal(c[:, 0], [-2, -2, -2, 2, 2, 2])


def test_donated_memory_is_read_before_parts_are_written() -> None:
    text = entry(
        "a = f32[3,40] negate(p0)", "d = f32[6,40] abs(p1)", "b = f32[3,40] slice(d), slice={[1:4], [0:40]}",
        "e = f32[3,40] add(a, b)", "ROOT c = f32[6,40] concatenate(a, e), dimensions={0}",
        parameters="f32[3,40] f32[6,40]",
    )  # fmt: skip
    executable = compile_module(parse(text), pipeline="none", donate=[1])
    x, y = np.full((3, 40), 2, np.float32), np.full((6, 40), -3, np.float32)
    (c,) = executable(x, y)
    np.testing.assert_array_equal(c[:, 0], [-2, -2, -2, 1, 1, 1])


def test_less_is_moved_and_held() -> None:
    """Twenty steps stacked: no kernel copies them, and the arena holds none of them beside the result."""
    steps = ["h0 = f32[64,64] negate(p0)"]
    for n in range(1, 20):
        steps.append(f"h{n} = f32[64,64] sine(h{n - 1})")
    steps += [f"s{n} = f32[1,64,64] reshape(h{n})" for n in range(20)]
    names = ", ".join(f"s{n}" for n in range(20))
    text = entry(*steps, f"ROOT c = f32[20,64,64] concatenate({names}), dimensions={{0}}", parameters="f32[64,64]")
    program, _ = planned(text)
    assert program.assignment.arena_bytes == 0
    assert not any(use.instruction == "c" for use in program.kernels)
    agrees(parse(text.replace("sine", "abs")))


class Drawing:
    """A random program over small matrices, in lines of HLO."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, int]]] = [("p0", (3, 5)), ("p1", (4, 5)), ("p2", (3, 20))]
        for _ in range(choice.randint(4, 14)):
            self.step()

    def new(self, sizes: tuple[int, int], text: str) -> None:
        name = f"v{len(self.values)}"
        self.lines.append(f"{name} = f32[{sizes[0]},{sizes[1]}] {text}")
        self.values.append((name, sizes))

    def step(self) -> None:
        name, (rows, columns) = self.choice.choice(self.values[-6:])
        same = [other for other, size in self.values if size == (rows, columns)]
        match self.choice.randint(0, 8):
            case 0:
                self.new((rows, columns), f"negate({name})")
            case 1:
                self.new((rows, columns), f"maximum({name}, {self.choice.choice(same)})")
            case 2:
                start = self.choice.randrange(rows)
                self.new((rows - start, columns), f"slice({name}), slice={{[{start}:{rows}], [0:{columns}]}}")
            case 3:
                small = [value for value in self.values if value[1][0] <= rows and value[1][1] <= columns]
                self.new((rows, columns), f"dynamic-update-slice({name}, {self.choice.choice(small)[0]}, one, zero)")
            case 4:
                self.new((rows, columns), f"copy({name})")
            case 5:
                self.new((rows, columns), f"sort({name}), dimensions={{1}}, to_apply=less")
            case _:
                d = self.choice.randint(0, 1)
                fits = [value for value in self.values if value[1][1 - d] == (rows, columns)[1 - d]]
                parts = [(name, (rows, columns)), *self.choice.choices(fits, k=self.choice.randint(1, 3))]
                self.choice.shuffle(parts)
                total = sum(sizes[d] for _, sizes in parts)
                if total < 60:
                    joined = ", ".join(part for part, _ in parts)
                    self.new((rows, total) if d else (total, columns), f"concatenate({joined}), dimensions={{{d}}}")

    def text(self) -> str:
        results = self.choice.sample(self.values, self.choice.randint(1, 2)) + self.values[-1:]
        kinds = ", ".join(f"f32[{rows},{columns}]" for _, (rows, columns) in results)
        return entry(
            "zero = s32[] constant(0)", "one = s32[] constant(1)", *self.lines,
            f"ROOT t = ({kinds}) tuple({', '.join(name for name, _ in results)})",
            parameters="f32[3,5] f32[4,5] f32[3,20]",
        )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_programs(choice: random.Random) -> None:
    agrees(parse(Drawing(choice).text()))


LOOP = """HloModule m
more {
  s = (s32[], f32[3,5], f32[6,5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[3,5], f32[6,5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  kept = f32[3,5] get-tuple-element(s), index=1
  old = f32[6,5] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  top = f32[3,5] slice(old), slice={[0:3], [0:5]}
  %s
  ROOT t = (s32[], f32[3,5], f32[6,5]) tuple(next, %s, new)
}
ENTRY e {
  p0 = f32[3,5] parameter(0)
  p1 = f32[3,5] parameter(1)
  a = f32[3,5] negate(p0)
  b = f32[3,5] abs(p1)
  c = f32[6,5] concatenate(a, b), dimensions={0}
  zero = s32[] constant(0)
  first = (s32[], f32[3,5], f32[6,5]) tuple(zero, %s, c)
  w = (s32[], f32[3,5], f32[6,5]) while(first), condition=more, body=body
  u = f32[3,5] get-tuple-element(w), index=1
  v = f32[6,5] get-tuple-element(w), index=2
  x = f32[9,5] concatenate(u, v), dimensions={0}
  ROOT r = (f32[9,5], f32[6,5]) tuple(x, v)
}"""


@pytest.mark.parametrize("first", ["a", "b", "p0"])
@pytest.mark.parametrize("kept", ["kept", "half"])
@pytest.mark.parametrize(
    "new",
    ["new = f32[6,5] concatenate(half, kept), dimensions={0}", "new = f32[6,5] concatenate(top, half), dimensions={0}",
     "both = f32[6,5] concatenate(kept, half), dimensions={0}\n  new = f32[6,5] subtract(both, old)"],
)  # fmt: skip
def test_loops(new: str, kept: str, first: str) -> None:
    agrees(parse(LOOP % (f"half = f32[3,5] subtract(kept, top)\n  {new}", kept, first)))
