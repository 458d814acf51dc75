"""The simplification passes: HLO before, expression after, and the same numbers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import known_trip_count, trip_count
from hlotool.evaluate import evaluate
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.algebra import IDENTITIES, RECIPROCAL_RULES, RULES
from hlotool.passes.algebra.identities_float import ROUNDING_IDENTITIES
from hlotool.passes.convert_mover import RULES as CONVERT_RULES
from hlotool.passes.convert_mover import dot_of_bf16
from hlotool.passes.instruments import VerifyEach
from hlotool.passes.reshape_mover import RULES as MOVER_RULES
from hlotool.passes.rewriter import Rewriter, apply_rules, number, rule, rule_table
from hlotool.text.load import load
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

sys.path.insert(0, str(Path(__file__).parent))
from simplify_rules import ROWS

REDUCERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
"""


def module_of(body: str) -> Module:
    """A module from lines of an entry computation; parameters are declared at their first use, ``p0:f32[8]``."""
    declared: dict[int, str] = {}
    for found in re.finditer(r"\bp(\d):(\w+\[[\d,]*\](?:\{[\d,]*\})?)", body):
        declared[int(found[1])] = found[2]
    if 0 not in declared and re.search(r"\bp0\b", body):
        root = re.search(r"ROOT \w+ = (\w+\[[\d,]*\])", body)
        assert root is not None
        declared[0] = root[1]
    body = re.sub(r"\b(p\d):\w+\[[\d,]*\](?:\{[\d,]*\})?", r"\1", body)
    lines = [f"p{n} = {shape} parameter({n})" for n, shape in sorted(declared.items())]
    used = "\n".join(line for line in REDUCERS.splitlines() if f"to_apply={line.split(' ')[0]}" in body)
    spread = re.sub(r" (?=\w+ = |ROOT|\})", "\n", used)
    return parse(f"HloModule m\n{spread}\nENTRY main {{\n" + "\n".join(lines) + f"\n{body}\n}}\n")


def expression(instruction: Instruction) -> str:
    """The instruction with all that it reads, in one line."""
    shape, attributes = instruction.shape, instruction.attributes
    if instruction.opcode == "parameter":
        return f"p{instruction.parameter_number}"
    value = number(instruction)
    if instruction.opcode == "constant" and value is not None:
        return str(value).lower() if isinstance(value, bool) else f"{value:g}"
    detail = ""
    if instruction.opcode == "reshape":
        detail = f"[{','.join(map(str, shape.dimensions))}]"
    elif instruction.opcode == "convert" or (instruction.opcode == "iota" and not shape.element_type.startswith("s")):
        detail = f"[{shape.element_type}]"
    if instruction.opcode in ("broadcast", "transpose", "reverse", "reduce") and attributes["dimensions"]:
        detail += "{" + ",".join(map(str, attributes["dimensions"])) + "}"
    for key, form in (("direction", "{}"), ("iota_dimension", "{}")):
        if key in attributes:
            detail += "{" + form.format(attributes[key]) + "}"
    if "slice" in attributes:
        detail += "{" + ",".join(f"{d.start}:{d.limit}:{d.stride}" for d in attributes["slice"]) + "}"
    if "padding" in attributes:
        detail += "{" + ",".join(f"{d.low}_{d.high}_{d.interior}" for d in attributes["padding"]) + "}"
    return f"{instruction.opcode}{detail}({', '.join(map(expression, instruction.operands))})"


def inputs_of(module: Module, special: bool = True) -> list[np.ndarray[Any, Any]]:
    """Random arguments, with zeros, infinities and NaN among the floats and extremes among the integers."""
    generator = np.random.default_rng(5)
    found: list[np.ndarray[Any, Any]] = []
    for parameter in module.entry.parameters:
        for shape in parameter.shape.leaves():
            row, dtype = ELEMENT_TYPES[shape.element_type], dtype_of(shape.element_type)
            if row.is_integer:
                information = np.iinfo(dtype)
                array = generator.integers(information.min, information.max, shape.dimensions, dtype, endpoint=True)
            elif row.kind == "pred":
                array = generator.random(shape.dimensions) < 0.5
            else:
                array = np.asarray(generator.standard_normal(shape.dimensions) * 3).astype(dtype)
                if special and shape.size >= 8 and row.is_float:
                    array.reshape(-1)[:5] = np.array([0, np.inf, -np.inf, np.nan, 1e-40]).astype(dtype)
            found.append(np.asarray(array, dtype))
    return found


def assert_same_numbers(before: Module, after: Module, tolerance: float = 0.0, special: bool = True) -> None:
    arguments = inputs_of(before, special)
    expected, found = evaluate(before, arguments), evaluate(after, arguments)
    assert len(expected) == len(found)
    for left, right in zip(expected, found, strict=True):
        left, right = (x.astype(np.float32) if x.dtype.kind == "V" else x for x in (left, right))
        if tolerance:
            np.testing.assert_allclose(right.astype(np.float64), left.astype(np.float64), rtol=tolerance)
        else:
            np.testing.assert_array_equal(right, left)


def optimised(module: Module, pipeline: str, log: DecisionLog | None = None) -> Module:
    copy = clone_module(module)
    run_pipeline(copy, parse_pipeline(pipeline), log, [VerifyEach(check)])
    check(copy)
    for instruction in copy.instructions():  # what is new says where it comes from
        assert instruction.origins or any(instruction.name == i.name for i in module.instructions())
    return copy


ALL_RULES = (*RULES, *RECIPROCAL_RULES, *MOVER_RULES, *CONVERT_RULES, dot_of_bf16)
ROUNDING_RULES = {"divide-by-root", "divide-by-exponential", "power-small", "power-inverse", "power-half",
                  "divide-by-softmax-sum", "divide-constant",
                  "reduce-broadcast", "reduce-twice", "reduce-of-transpose", "slice-dot", "dot-of-repeated-rows",
                  "dot-of-repeated-matrix", "reduce-of-batches", "reduce-of-joined",
                  "dot-of-narrow", "dot-of-bf16"}  # fmt: skip


ZERO_SIGN_RULES = {"add-zero", "reduce-ones", "reduce-of-negated", "reduce-of-reverse", "dot-outer", "window-of-one",
                   "scatter-known"}
"""A sum of zeros from 0 is 0, and of two zeros either may be the larger: these rules may give the other one."""
FINITE_RULES = {"convolution-of-pad"}


@pytest.mark.parametrize(("name", "before", "after"), ROWS, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(ROWS)])
def test_rule(name: str, before: str, after: str) -> None:
    module = module_of(before)
    check(module)
    copy, log = clone_module(module), DecisionLog()
    table = rule_table(r for r in ALL_RULES if r.name in (name, *ALSO.get(name, ())))
    changed = apply_rules(copy.entry, table, log)
    check(copy)
    if not after:  # an example that the rule must leave alone
        assert not changed
        assert print_module(copy) == print_module(module)
        return
    assert changed
    assert log.decisions[0].rule == name
    assert expression(copy.entry.root) == after
    tolerance = 3e-6 if name in ROUNDING_RULES else 0.0
    assert_same_numbers(module, copy, tolerance, name not in FINITE_RULES)
    if name not in ROUNDING_RULES:
        assert_same_bits(module, copy, name in ZERO_SIGN_RULES, name in FINITE_RULES)


def assert_same_bits(before: Module, after: Module, zeros: bool, finite: bool) -> None:
    """The same bits, but for those of a NaN, for arguments that are mostly edge values.

    With `zeros`, -0 is 0; with `finite`, no argument is infinite or NaN.
    """
    generator = np.random.default_rng(11)
    for _ in range(12):
        arguments = []
        for parameter in before.entry.parameters:
            element_type, sizes = parameter.shape.element_type, parameter.shape.dimensions
            row, dtype = ELEMENT_TYPES[element_type], dtype_of(element_type)
            edges: list[Any] = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.0, np.inf, -np.inf, np.nan, 1e-40, 3e38]
            edges = [edge for edge in edges if not finite or np.isfinite(edge)]
            if row.kind == "pred":
                edges = [False, True]
            elif row.is_integer:
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
                edges = [0, 1, 2, 3, 5, low, low + 1, high, high - 1, high // 2]
            with np.errstate(over="ignore"):
                arguments.append(np.array([edges[i] for i in generator.integers(0, len(edges), sizes).flat])
                                 .reshape(sizes).astype(dtype))  # fmt: skip
        with np.errstate(all="ignore"):
            pairs = list(zip(evaluate(before, arguments), evaluate(after, arguments), strict=True))
        for left, right in pairs:
            left, right = (x.astype(np.float32) if x.dtype.kind == "V" else x for x in (left, right))
            np.testing.assert_array_equal(right, left)
            if left.dtype.kind == "f" and not zeros:
                numbers = ~np.isnan(left)
                np.testing.assert_array_equal(np.signbit(right[numbers]), np.signbit(left[numbers]))


ALSO = {"reshape-then-transpose-ones": ("transpose-twice",)}


def test_every_rule_has_an_example() -> None:
    tested = {name for name, _, after in ROWS if after}
    texts = {i.name for i in (*IDENTITIES, *(i for i, _ in ROUNDING_IDENTITIES))}  # for tests/test_identities.py
    assert tested | texts == {r.name for r in ALL_RULES}
    assert all(r.help.endswith(".") or "." in r.help for r in RULES)


def test_rules_that_are_not_tried_do_not_fit() -> None:
    rules = (*RULES, *RECIPROCAL_RULES, *MOVER_RULES)
    table = rule_table(rules)
    tried = left_out = 0
    for _, before, _ in ROWS:
        for instruction in module_of(before).instructions():
            worth_trying = set(map(id, table.rules_for(instruction)))
            tried += len(worth_trying)
            for row in rules:
                if instruction.opcode in row.opcodes and id(row) not in worth_trying:
                    assert row.apply(instruction, Rewriter(instruction)) is None, (row.name, instruction)
                    left_out += 1
    assert left_out > tried


def test_rules_that_undo_each_other_are_stopped() -> None:
    @rule("add")
    def swap(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
        """x + y = y + x, for ever."""
        left, right = instruction.operands
        return rewriter.same(instruction, right, left)

    module, log = module_of("ROOT r = f32[8] add(p0, p1:f32[8])"), DecisionLog()
    apply_rules(module.entry, rule_table([swap]), log)
    assert log.decisions[-1].rule == "rules-loop"


def test_reciprocals_only_on_request() -> None:
    module = module_of("c = f32[] constant(3)\nROOT r = f32[] divide(p0, c)")
    assert not run_pipeline(clone_module(module), parse_pipeline("algebraic-simplifier"))
    assert expression(optimised(module, "algebraic-simplifier{reciprocal}").entry.root) == "multiply(p0, 0.333333)"


# ---- passes, one by one


def after_pass(text: str, pipeline: str, log: DecisionLog | None = None, tolerance: float = 0.0) -> Module:
    module = parse(text)
    check(module)
    copy = optimised(module, pipeline, log)
    assert_same_numbers(module, copy, tolerance)
    return copy


def opcodes(module: Module) -> list[str]:
    return [i.opcode for i in module.entry if i.opcode not in ("parameter", "constant")]


CALLS = """
HloModule m
inner { x = f32[8] parameter(0) ROOT n = f32[8] negate(x), metadata={op_name="deep"} }
outer { x = f32[8] parameter(0) y = f32[8] parameter(1) c = f32[8] call(x), to_apply=inner
  ROOT a = f32[8] add(c, y) }
same { x = f32[8] parameter(0) ROOT y = f32[8] opt-barrier(x) }
ENTRY main { p = f32[8] parameter(0) q = f32[8] call(p, p), to_apply=outer r = f32[8] call(q), to_apply=inner
  ROOT s = f32[8] call(r), to_apply=same }
""".replace(" { ", " {\n").replace(" }", "\n}")


def spread(text: str) -> str:
    """One instruction per line from text with several in one."""
    return re.sub(r"(?<=[)}\]\w\"]) (?=(?:ROOT )?[\w.-]+ = \(?[a-z]\w*[\[(\]])", "\n  ", text)


def test_call_inliner() -> None:
    module = after_pass(spread(CALLS), "call-inliner")
    assert opcodes(module) == ["negate", "add", "negate", "opt-barrier"]
    assert list(module.computations) == ["main"]
    negations = [i for i in module.entry if i.opcode == "negate"]
    assert all(i.metadata is not None and i.metadata.op_name == "deep" for i in negations)
    assert all(i.origins == ("n",) for i in negations)


def test_call_inliner_keeps_large_calls() -> None:
    log = DecisionLog()
    module = after_pass(spread(CALLS), "call-inliner{max-instructions=5}", log)
    assert "call" in opcodes(module)
    assert any(d.rule == "too-large" for d in log)


def test_dce_removes_what_is_unused() -> None:
    module = after_pass(
        """HloModule m
unused_computation {
  a = f32[] parameter(0)
  ROOT b = f32[] negate(a)
}
fused {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  n = f32[8] negate(a)
  e = f32[8] exponential(b)
  s = f32[8] sine(a)
  ROOT t = (f32[8], f32[8], f32[8]) tuple(n, e, s)
}
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  z = f32[8] exponential(y)
  z2 = f32[8] negate(z)
  f = (f32[8], f32[8], f32[8]) fusion(x, z), kind=kLoop, calls=fused
  f0 = f32[8] get-tuple-element(f), index=0
  f2 = f32[8] get-tuple-element(f), index=2
  ROOT r = f32[8] add(f0, f2)
}""",
        "dce",
    )
    assert opcodes(module) == ["fusion", "get-tuple-element", "get-tuple-element", "add"]
    assert list(module.computations) == ["fused", "main"]
    assert [i.opcode for i in module.computations["fused"]] == ["parameter", "negate", "sine", "tuple"]
    assert len(module.entry.parameters) == 2  # of the entry, all stay


def test_dce_keeps_effects() -> None:
    text = """HloModule m
ENTRY main {
  x = f32[8] parameter(0)
  k = token[] after-all()
  o = token[] outfeed(x, k)
  c = f32[8] custom-call(x), custom_call_target="log", custom_call_has_side_effect=true
  d = f32[8] custom-call(x), custom_call_target="pure"
  ROOT r = f32[8] negate(x)
}"""
    module = optimised(parse(text), "dce")
    assert opcodes(module) == ["after-all", "outfeed", "custom-call", "negate"]


def test_cse_merges_equal_instructions_only() -> None:
    module = after_pass(
        """HloModule m
add1 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
add2 {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  c1 = f32[] constant(0)
  c2 = f32[] constant(0)
  c3 = f32[] constant(-0)
  r1 = f32[] reduce(p, c1), dimensions={0}, to_apply=add1
  r2 = f32[] reduce(p, c2), dimensions={0}, to_apply=add2
  r3 = f32[] reduce(p, c3), dimensions={0}, to_apply=add2
  a = f32[8] add(p, q)
  b = f32[8] add(q, p)
  s = f32[8] subtract(p, q)
  t = f32[8] subtract(q, p)
  o1 = f32[8] opt-barrier(p)
  o2 = f32[8] opt-barrier(p)
  ROOT r = (f32[], f32[], f32[], f32[8], f32[8], f32[8], f32[8], f32[8], f32[8]) tuple(r1, r2, r3, a, b, s, t, o1, o2)
}""",
        "cse,computation-deduplicator",
    )
    assert opcodes(module) == [
        "reduce", "reduce", "add", "subtract", "subtract", "opt-barrier", "opt-barrier", "tuple",
    ]  # fmt: skip
    assert [i.name for i in module.entry.root.operands] == ["r1", "r1", "r3", "a", "a", "s", "t", "o1", "o2"]
    assert list(module.computations) == ["add1", "main"]


def test_cse_keeps_random_numbers_apart() -> None:
    text = """HloModule m
ENTRY main {
  a = f32[] constant(0)
  b = f32[] constant(1)
  x = f32[8] rng(a, b), distribution=rng_uniform
  y = f32[8] rng(a, b), distribution=rng_uniform
  ROOT r = f32[8] add(x, y)
}"""
    assert opcodes(optimised(parse(text), "cse")) == ["rng", "rng", "add"]


def test_constant_folding_and_its_budget() -> None:
    text = """HloModule m
ENTRY main {
  a = f32[4] constant({1,2,3,4})
  b = f32[4] constant({5,6,7,8})
  s = f32[4] add(a, b)
  d = f32[4,4] dot(s, a), lhs_contracting_dims={}, rhs_contracting_dims={}
  i = s32[9] iota(), iota_dimension=0
  w = f32[4,100] broadcast(s), dimensions={0}
  ROOT r = (f32[4,4], f32[4,100], s32[9]) tuple(d, w, i)
}"""
    folded = after_pass(text, "constant-folding,dce")
    assert opcodes(folded) == ["iota", "broadcast", "tuple"]
    assert folded.entry.root.operands[0].literal.value()[1].tolist() == [8, 16, 24, 32]
    log = DecisionLog()
    limited = after_pass(text, "constant-folding{max-elements=15},dce", log)
    assert "dot" in opcodes(limited)
    assert [d.rule for d in log if d.action == "refuse"] == ["too-large"]
    log = DecisionLog()
    after_pass(text, "constant-folding{max-work=3}", log)
    assert {d.rule for d in log if d.action == "refuse"} == {"too-much-work"}


def test_tuple_simplifier() -> None:
    text = """HloModule m
ENTRY main {
  p = (f32[8], f32[8]) parameter(0)
  a = f32[8] get-tuple-element(p), index=0
  b = f32[8] get-tuple-element(p), index=1
  whole = (f32[8], f32[8]) tuple(a, b)
  pair = ((f32[8], f32[8]), f32[8]) tuple(whole, a)
  first = (f32[8], f32[8]) get-tuple-element(pair), index=0
  x = f32[8] get-tuple-element(first), index=1
  n = f32[8] negate(x)
  ROOT r = (f32[8], f32[8]) tuple(a, b)
}"""
    module = after_pass(text, "tuple-simplifier,dce")
    assert opcodes(module) == ["get-tuple-element", "get-tuple-element", "tuple"]
    assert opcodes(after_pass(text, "tuple-simplifier{entry-root=true},dce")) == []


def loop(limit: int, body: str = "", initial: str = "constant(0)", step: int = 1, compare: str = "LT") -> str:
    return f"""HloModule m
body {{
  t = (s32[], f32[8], f32[8,8], f32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[8] get-tuple-element(t), index=1
  w = f32[8,8] get-tuple-element(t), index=2
  k = f32[] get-tuple-element(t), index=3
  dead = f32[8] get-tuple-element(t), index=4
  one = s32[] constant({step})
  j = s32[] add(i, one)
  wt = f32[8,8] transpose(w), dimensions={{1,0}}
  kb = f32[8] broadcast(k), dimensions={{}}
  y = f32[8] dot(x, wt), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  {body}
  z = f32[8] multiply(y, kb)
  dead2 = f32[8] add(dead, z)
  ROOT r = (s32[], f32[8], f32[8,8], f32[], f32[8]) tuple(j, z, w, k, dead2)
}}
cond {{
  t = (s32[], f32[8], f32[8,8], f32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant({limit})
  ROOT c = pred[] compare(i, n), direction={compare}
}}
ENTRY main {{
  x = f32[8] parameter(0)
  w = f32[8,8] parameter(1)
  zero = s32[] {initial}
  k = f32[] constant(0.5)
  t = (s32[], f32[8], f32[8,8], f32[], f32[8]) tuple(zero, x, w, k, x)
  l = (s32[], f32[8], f32[8,8], f32[], f32[8]) while(t), condition=cond, body=body
  y = f32[8] get-tuple-element(l), index=1
  v = f32[8,8] get-tuple-element(l), index=2
  ROOT r = (f32[8], f32[8,8]) tuple(y, v)
}}"""


def the_loop(module: Module) -> Instruction:
    return next(i for i in module.entry if i.opcode == "while")


def test_loop_state_that_is_constant_or_unused_goes() -> None:
    module = after_pass(loop(5), "while-loop-simplifier,dce")
    found = the_loop(module)
    assert str(found.shape) == "(s32[], f32[8], f32[8,8])"  # k sank into the body, dead went
    assert module.entry.root.operands[1].name == "w"  # handed on: read from outside
    body = found.attributes["body"]
    assert [i.opcode for i in body if i.opcode == "constant"] == ["constant", "constant"]


@pytest.mark.parametrize("limit", [-3, 0, 1])
def test_loops_of_at_most_one_iteration_go(limit: int) -> None:
    module = after_pass(loop(limit), "while-loop-simplifier,tuple-simplifier,dce")
    assert "while" not in opcodes(module)
    assert ("dot" in opcodes(module)) == (limit == 1)
    assert list(module.computations) == ["main"]


def test_loop_with_false_condition_goes() -> None:
    text = re.sub(r"ROOT c = .*", "ROOT c = pred[] constant(false)", loop(5))
    assert "while" not in opcodes(after_pass(text, "while-loop-simplifier,tuple-simplifier,dce"))


def test_shared_loop_state() -> None:
    text = (
        loop(4)
        .replace("tuple(zero, x, w, k, x)", "tuple(zero, x, w, k, k2)")
        .replace(
            "k = f32[] constant(0.5)\n  t", "k = f32[] parameter(2)\n  k2 = f32[8] broadcast(k), dimensions={}\n  t"
        )
    )
    module = after_pass(text, "while-loop-simplifier,dce")
    assert str(the_loop(module).shape) == "(s32[], f32[8], f32[8,8], f32[])"
    twice = """HloModule m
body {
  t = (s32[], f32[8], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  a = f32[8] get-tuple-element(t), index=1
  b = f32[8] get-tuple-element(t), index=2
  x = f32[8] get-tuple-element(t), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] add(x, a)
  z = f32[8] multiply(y, b)
  ROOT r = (s32[], f32[8], f32[8], f32[8]) tuple(j, a, b, z)
}
cond {
  t = (s32[], f32[8], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=NE
}
ENTRY main {
  p = f32[8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8], f32[8], f32[8]) tuple(zero, p, p, p)
  l = (s32[], f32[8], f32[8], f32[8]) while(t), condition=cond, body=body
  ROOT y = f32[8] get-tuple-element(l), index=3
}"""
    assert str(the_loop(after_pass(twice, "while-loop-simplifier,dce")).shape) == "(s32[], f32[8], f32[8])"


def test_invariant_code_leaves_the_loop() -> None:
    module = after_pass(loop(5), "while-loop-simplifier,while-loop-invariant-code-motion,while-loop-simplifier,dce")
    found = the_loop(module)
    assert opcodes(module)[0] == "transpose"
    assert "transpose" not in [i.opcode for i in found.attributes["body"]]
    assert str(found.shape) == "(s32[], f32[8], f32[8,8])"  # the transpose took the place of w


SCAN = """HloModule m
body {
  t = (s32[], f32[4,8], f32[6,4,5], f32[5,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  h = f32[4,8] get-tuple-element(t), index=1
  xs = f32[6,4,5] get-tuple-element(t), index=2
  w = f32[5,8] get-tuple-element(t), index=3
  one = s32[] constant(1)
  five = s32[] constant(5)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  back = s32[] subtract(five, i)
  x = f32[1,4,5] dynamic-slice(xs, back, zero, zero), dynamic_slice_sizes={1,4,5}
  LEFT
  s = f32[4,8] sine(d)
  g = f32[4,8] add(h, s)
  ROOT r = (s32[], f32[4,8], f32[6,4,5], f32[5,8]) tuple(j, g, xs, w)
}
cond {
  t = (s32[], f32[4,8], f32[6,4,5], f32[5,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  h = f32[4,8] parameter(0)
  xs = f32[6,4,5] parameter(1)
  w = f32[5,8] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[4,8], f32[6,4,5], f32[5,8]) tuple(zero, h, xs, w)
  l = (s32[], f32[4,8], f32[6,4,5], f32[5,8]) while(t), condition=cond, body=body
  ROOT y = f32[4,8] get-tuple-element(l), index=1
}"""
RESHAPED = """y = f32[4,5] reshape(x)
  d = f32[4,8] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
WHOLE = """e = f32[1,4,8] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  d = f32[4,8] reshape(e)"""


@pytest.mark.parametrize("left", [RESHAPED, WHOLE])
def test_dots_of_all_iterations_at_once(left: str) -> None:
    module = after_pass(SCAN.replace("LEFT", left), "while-loop-dot-batching,while-loop-simplifier,dce", None, 1e-5)
    assert opcodes(module)[0] == "dot"
    assert module.entry.root.operands[0] is the_loop(module)
    assert str(the_loop(module).shape) == "(s32[], f32[4,8], f32[6,4,8])"
    assert "dot" not in [i.opcode for i in the_loop(module).attributes["body"]]


@pytest.mark.parametrize(
    ("options", "code", "change"),
    [
        ("{max-rows=3}", "large-already", ""),
        ("{max-bytes=700}", "too-large", ""),
        ("", "few-iterations", "n = s32[] constant(2)"),
    ],
)
def test_dots_that_stay_in_the_loop(options: str, code: str, change: str) -> None:
    log = DecisionLog()
    text = SCAN.replace("LEFT", RESHAPED)
    text = text.replace("n = s32[] constant(6)", change) if change else text
    after_pass(text, f"while-loop-dot-batching{options}", log)
    assert [d.rule for d in log] == [code]


def test_large_results_stay_in_the_loop() -> None:
    wide = "v = f32[8,64] broadcast(k), dimensions={}\n  e = f32[8,64] sine(v)\n  "
    text = loop(3, wide + "s = f32[8,1] slice(e), slice={[0:8], [0:1]}\n  u = f32[8] reshape(s)").replace(
        "multiply(y, kb)", "multiply(u, kb)"
    )
    log = DecisionLog()
    after_pass(text, "while-loop-invariant-code-motion{max-growth=100}", log)
    assert [d.rule for d in log if d.action == "refuse"] == ["larger-than-operands"]


def test_large_results_that_cost_much_leave_the_loop() -> None:
    """An outer product stays, one that adds up 32 products for each element is computed once."""
    for terms, leaves in ((2, False), (32, True)):
        product = (
            f"l = f32[64,{terms}] broadcast(k), dimensions={{}}\n  m = f32[64,{terms}] sine(l)\n  "
            f"e = f32[64,64] dot(m, m), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n  "
            "s = f32[8,1] slice(e), slice={[0:8], [0:1]}\n  u = f32[8] reshape(s)"
        )
        log = DecisionLog()
        text = loop(3, product).replace("multiply(y, kb)", "multiply(u, kb)")
        after_pass(text, "while-loop-invariant-code-motion{max-growth=10000}", log, 1e-5)
        assert any(d.rule == "hoist" and "z" in d.before for d in log) == leaves
        assert any(d.rule == "larger-than-operands" and "e" in d.before for d in log) != leaves


def test_loop_passes_leave_shared_bodies_alone() -> None:
    text = loop(3).replace(
        "ROOT r = (f32[8], f32[8,8]) tuple(y, v)",
        "l2 = (s32[], f32[8], f32[8,8], f32[], f32[8]) while(t), condition=cond, body=body\n"
        "  y2 = f32[8] get-tuple-element(l2), index=4\n  ROOT r = (f32[8], f32[8,8], f32[8]) tuple(y, v, y2)",
    )
    log = DecisionLog()
    assert not log.counts()
    after_pass(text, "while-loop-simplifier", log)
    assert {d.rule for d in log} == {"form"}
    module = after_pass(text, "flatten-call-graph,while-loop-simplifier,dce")
    assert len(module.computations) == 5


@pytest.mark.parametrize(
    ("initial", "step", "limit", "direction", "count"),
    [
        (0, 1, 10, "LT", 10), (0, 1, 10, "LE", 11), (3, 4, 10, "LT", 2), (10, -3, 0, "GT", 4), (10, -5, 0, "GE", 3),
        (0, 2, 10, "NE", 5), (0, 3, 10, "NE", None), (7, 1, 7, "EQ", 1), (0, 0, 10, "LT", None),
        (0, -1, 10, "LT", None),
        (5, 1, 5, "LT", 0), (2147483600, 100, 2147483647, "LT", None), (-5, 1, 5, "LT", 10), (0, -2, -7, "GE", 4),
    ],
)  # fmt: skip
def test_trip_count(initial: int, step: int, limit: int, direction: str, count: int | None) -> None:
    module = parse(loop(limit, initial=f"constant({initial})", step=step, compare=direction))
    found = trip_count(the_loop(module))
    assert (None if found is None else found.count) == count
    if count is not None:  # the evaluator agrees
        iterations = 0

        def observe(instruction: Instruction, value: Any) -> None:
            nonlocal iterations
            iterations += instruction.name == "dead2"

        evaluate(module, inputs_of(module), observe)
        assert iterations == count


def test_trip_counts_are_annotated() -> None:
    module = after_pass(loop(7), "while-loop-trip-count-annotator")
    config = the_loop(module).attributes["backend_config"]
    assert config == (
        '{"known_trip_count":{"n":"7"},"known_induction_variable":{"tuple_index":"0"},'
        '"known_init_step":{"init":"0","step":"1"}}'
    )
    assert known_trip_count(the_loop(parse(print_module(module)))) == 7
    assert not run_pipeline(module, parse_pipeline("while-loop-trip-count-annotator"))


CONDITIONAL = """HloModule m
one {
  a = f32[8] parameter(0)
  n = f32[8] negate(a)
  s = f32[8] sine(a)
  ROOT r = (f32[8], f32[8]) tuple(n, s)
}
two {
  a = f32[8] parameter(0)
  n = f32[8] cosine(a)
  s = f32[8] exponential(a)
  ROOT r = (f32[8], f32[8]) tuple(n, s)
}
ENTRY main {
  x = f32[8] parameter(0)
  i = s32[] SELECTOR
  c = (f32[8], f32[8]) conditional(i, x, x), branch_computations={one, two}
  ROOT y = f32[8] get-tuple-element(c), index=1
}"""


@pytest.mark.parametrize(
    ("selector", "opcode"), [(0, "sine"), (1, "exponential"), (7, "exponential"), (-1, "exponential")]
)
def test_known_branch_is_inlined(selector: int, opcode: str) -> None:
    text = CONDITIONAL.replace("SELECTOR", f"constant({selector})")
    assert opcodes(after_pass(text, "conditional-simplifier,tuple-simplifier,dce")) == [opcode]


def test_unused_results_of_branches_go() -> None:
    module = after_pass(CONDITIONAL.replace("SELECTOR", "parameter(1)"), "conditional-simplifier,dce")
    assert opcodes(module) == ["conditional", "get-tuple-element"]
    assert [i.opcode for i in module.computations["two"]] == ["parameter", "exponential", "tuple"]


def test_equal_branches_are_one() -> None:
    text = CONDITIONAL.replace("SELECTOR", "parameter(1)").replace("cosine", "negate").replace("exponential", "sine")
    assert opcodes(after_pass(text, "conditional-simplifier,tuple-simplifier,dce")) == ["sine"]


def test_sort_of_fewer_arrays() -> None:
    text = """HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  e = s32[] parameter(4)
  f = s32[] parameter(5)
  ROOT l = pred[] compare(a, b), direction=GT
}
ENTRY main {
  x = f32[8] parameter(0)
  y = s32[8] parameter(1)
  z = s32[8] iota(), iota_dimension=0
  s = (f32[8], s32[8], s32[8]) sort(x, y, z), dimensions={0}, is_stable=true, to_apply=less
  ROOT r = s32[8] get-tuple-element(s), index=2
}"""
    module = after_pass(text, "sort-simplifier,dce")
    sort = next(i for i in module.entry if i.opcode == "sort")
    assert [o.name for o in sort.operands] == ["x", "z"]
    one = after_pass(text.replace("index=2", "index=0").replace("s32[8] get", "f32[8] get"), "sort-simplifier,dce")
    assert opcodes(one) == ["sort"]


def test_small_passes() -> None:
    text = """HloModule m
square {
  a = f32[] parameter(0)
  c = f32[] constant(3)
  m = f32[] multiply(a, a)
  ROOT s = f32[] add(m, c)
}
ENTRY main {
  x = f32[8] parameter(0)
  e = f32[0] slice(x), slice={[0:0]}
  n = f32[0] negate(e)
  s = f32[8] custom-call(x), custom_call_target="Sharding", sharding={replicated}
  b = f32[8] opt-barrier(s)
  m = f32[8] map(b), dimensions={0}, to_apply=square
  ROOT r = f32[8] concatenate(m, n), dimensions={0}
}"""
    log = DecisionLog()
    module = optimised(parse(text), "sharding-remover,optimization-barrier-expander,map-inliner", log)
    assert opcodes(module) == ["slice", "negate", "broadcast", "multiply", "add", "concatenate"]
    assert opcodes(optimised(module, "zero-sized-hlo-elimination")) == ["broadcast", "multiply", "add", "concatenate"]
    assert opcodes(optimised(module, "simplify")) == ["broadcast", "multiply", "add"]
    refusing = text.replace("m = f32[] multiply(a, a)", "m = f32[] rng(a, c), distribution=rng_uniform")
    log = DecisionLog()
    assert "map" in opcodes(optimised(parse(refusing), "map-inliner", log))
    assert [d.rule for d in log] == ["not-elementwise"]


# ---- real programs

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
SAMPLE = ["argsort_pairs", "associative_scan_ssm", "collatz_fori", "complex_ops", "conjugate_gradient", "dtype_convert",
          "gather_scatter_modes", "int_ops", "lotka_volterra_f64", "random_normal", "black_scholes_greeks"]  # fmt: skip


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real programs is not here")
@pytest.mark.parametrize("name", SAMPLE)
def test_simplified_programs_give_the_expected_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CORPUS))
    import corpus

    module = load(str(CORPUS / "models" / f"{name}.hlo"))
    case = corpus.load(name)
    pipeline = "simplify,optimization-barrier-expander,dce,while-loop-trip-count-annotator"
    copy = optimised(module, pipeline)
    assert copy.instruction_count() <= module.instruction_count()
    assert case.check(list(evaluate(copy, case.inputs())))["ok"]
    again = parse(print_module(copy))
    assert print_module(
        optimised(module, "simplify,optimization-barrier-expander,dce,while-loop-trip-count-annotator")
    ) == (print_module(copy))
    assert again.instruction_count() == copy.instruction_count()
