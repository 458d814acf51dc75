"""Random programs keep their meaning under the simplification passes."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import evaluate
from hlotool.ir import clone_module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.text.parser import parse

REDUCERS = """
add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
max_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
add_s32 {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}
max_s32 {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b)
}
"""

Sizes = tuple[int, ...]
SHAPES: list[Sizes] = [(), (4,), (1, 4), (4, 1), (2, 3), (3, 2), (2, 1, 3), (6,)]
UNARY = {"f32": ["negate", "abs", "floor", "ceil", "sine", "sqrt"], "s32": ["negate", "abs", "not", "sign"]}
BINARY = {
    "f32": ["add", "subtract", "multiply", "divide", "maximum", "minimum"],
    "s32": ["add", "subtract", "multiply", "and", "or", "xor", "maximum", "minimum", "remainder", "divide"],
}
CONSTANTS = {"f32": ["0", "1", "-1", "2", "0.5", "-inf", "3"], "s32": ["0", "1", "-1", "2", "7", "-2147483648"]}


class Program:
    """Lines of an entry computation and what they define."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.lines: list[str] = []
        self.values: list[tuple[str, str, Sizes]] = []
        for number, (kind, sizes) in enumerate([("f32", (2, 3)), ("s32", (2, 3)), ("f32", (4,)), ("s32", ())]):
            self.define(kind, sizes, f"parameter({number})")

    def define(self, kind: str, sizes: Sizes, operation: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {kind}[{','.join(map(str, sizes))}] {operation}")
        self.values.append((name, kind, sizes))
        return name

    def pick(self, kind: str | None = None, sizes: Sizes | None = None) -> tuple[str, str, Sizes]:
        """A value, newer ones more often; a constant when there is none."""
        fitting = [v for v in self.values if (kind is None or v[1] == kind) and (sizes is None or v[2] == sizes)]
        if fitting and self.choice.random() < 0.8:
            return fitting[max(self.choice.randrange(len(fitting)), self.choice.randrange(len(fitting)))]
        kind, sizes = kind or "f32", () if sizes is None else sizes
        if kind == "pred":
            left, right = self.pick("f32", sizes), self.pick("f32", sizes)
            direction = self.choice.choice(["EQ", "NE", "LT", "GE"])
            return self.define(kind, sizes, f"compare({left[0]}, {right[0]}), direction={direction}"), kind, sizes
        scalar = self.define(kind, (), f"constant({self.choice.choice(CONSTANTS[kind])})")
        return (scalar if not sizes else self.define(kind, sizes, f"broadcast({scalar}), dimensions={{}}")), kind, sizes

    def step(self) -> None:
        choice = self.choice
        kind = choice.choice(["f32", "s32"])
        value, kind, sizes = self.pick(kind)
        rank = len(sizes)
        match choice.randrange(18):
            case 0:
                self.define(kind, sizes, f"{choice.choice(UNARY[kind])}({value})")
            case 1 | 2 | 3:
                other, _, _ = self.pick(kind, sizes)
                self.define(kind, sizes, f"{choice.choice(BINARY[kind])}({value}, {other})")
            case 4:
                order = choice.sample(range(rank), rank)
                self.define(kind, tuple(sizes[d] for d in order), f"transpose({value}), dimensions={braces(order)}")
            case 5:
                targets = [s for s in SHAPES if int(np.prod(s)) == int(np.prod(sizes))] or [sizes]
                self.define(kind, choice.choice(targets), f"reshape({value})")
            case 6 if rank < 3:
                position = choice.randrange(rank + 1)
                wide = (*sizes[:position], choice.choice([1, 2]), *sizes[position:])
                kept = [d for d in range(rank + 1) if d != position]
                self.define(kind, wide, f"broadcast({value}), dimensions={braces(kept)}")
            case 7 if rank:
                reduced = sorted(choice.sample(range(rank), choice.randrange(1, rank + 1)))
                operation = choice.choice(["add", "max"])
                initial = {"add": "0", "max": "-inf" if kind == "f32" else "-2147483648"}[operation]
                start = self.define(kind, (), f"constant({choice.choice([initial, initial, '1'])})")
                left = tuple(size for d, size in enumerate(sizes) if d not in reduced)
                text = f"reduce({value}, {start}), dimensions={braces(reduced)}, to_apply={operation}_{kind}"
                self.define(kind, left, text)
            case 8 if rank:
                rows = [(choice.randrange(size), size) for size in sizes]
                text = ", ".join(f"[{a}:{b}]" for a, b in rows)
                self.define(kind, tuple(b - a for a, b in rows), f"slice({value}), slice={{{text}}}")
            case 9 if rank:
                dimension = choice.randrange(rank)
                other, _, _ = self.pick(kind, sizes)
                joined = tuple(2 * size if d == dimension else size for d, size in enumerate(sizes))
                self.define(kind, joined, f"concatenate({value}, {other}), dimensions={{{dimension}}}")
            case 10 if rank:
                filler, _, _ = self.pick(kind, ())
                amounts = [(choice.randrange(-1, 2), choice.randrange(2), choice.randrange(2)) for _ in sizes]
                padded = tuple(
                    low + high + size + max(0, size - 1) * inner
                    for size, (low, high, inner) in zip(sizes, amounts, strict=True)
                )
                if min(padded) > 0:
                    text = "x".join(f"{low}_{high}_{inner}" for low, high, inner in amounts)
                    self.define(kind, padded, f"pad({value}, {filler}), padding={text}")
            case 11:
                predicate, _, _ = self.pick("pred", sizes)
                other, _, _ = self.pick(kind, sizes)
                self.define(kind, sizes, f"select({predicate}, {value}, {other})")
            case 12 if rank:
                flipped = sorted(choice.sample(range(rank), choice.randrange(1, rank + 1)))
                self.define(kind, sizes, f"reverse({value}), dimensions={braces(flipped)}")

            case 13 if rank:
                self.define(kind, sizes, f"iota(), iota_dimension={choice.randrange(rank)}")
            case 14:
                other = "f32" if kind == "s32" else "s32"
                self.define(other, sizes, f"convert({value})")
            case 15 if rank:
                starts = ", ".join(self.pick("s32", ())[0] for _ in sizes)
                part = [choice.randrange(1, size + 1) for size in sizes]
                text = f"dynamic-slice({value}, {starts}), dynamic_slice_sizes={braces(part)}"
                self.define(kind, tuple(part), text)
            case 16 if rank:
                starts = ", ".join(self.pick("s32", ())[0] for _ in sizes)
                update, _, _ = self.pick(kind, tuple(choice.randrange(1, size + 1) for size in sizes))
                self.define(kind, sizes, f"dynamic-update-slice({value}, {update}, {starts})")
            case 17:
                low, high = self.pick(kind, ())[0], self.pick(kind, ())[0]
                self.define(kind, sizes, f"clamp({low}, {value}, {high})")

    def text(self) -> str:
        results = self.values[-4:]
        shapes = ", ".join(f"{kind}[{','.join(map(str, sizes))}]" for _, kind, sizes in results)
        root = f"ROOT root = ({shapes}) tuple({', '.join(name for name, _, _ in results)})"
        return f"HloModule random\n{REDUCERS}\nENTRY main {{\n" + "\n".join([*self.lines, root]) + "\n}\n"


def braces(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 30))
def test_random_programs(seed: int, length: int) -> None:
    program = Program(random.Random(seed))
    for _ in range(length):
        program.step()
    module = parse(program.text())
    check(module)
    copy = clone_module(module)
    log = DecisionLog()
    run_pipeline(copy, parse_pipeline("simplify"), log, [VerifyEach(check)])
    assert not [str(d) for d in log if d.rule in ("rules-loop", "fixpoint-limit")]
    generator = np.random.default_rng(seed)
    arguments = [
        generator.standard_normal((2, 3)).astype(np.float32),
        generator.integers(-9, 9, (2, 3), np.int32),
        generator.standard_normal(4).astype(np.float32),
        generator.integers(-9, 9, (), np.int32),
    ]
    # one rounding of difference may grow: huge and cancelled values are compared loosely
    for expected, found in zip(evaluate(module, arguments), evaluate(copy, arguments), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=program.text())
