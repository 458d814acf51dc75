"""The rules of the algebraic simplifier and of the movers: HLO before, expression after, and the same numbers."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import model

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.passes.framework.patterns import KINDS, number, opcodes_of
from hlotool.passes.framework.rewriter import Rewriter, apply_rules, rule, rule_table
from hlotool.passes.simplify.algebra import SUBJECTS, all_identities, all_rules, rules_for
from hlotool.passes.simplify.algebra.arithmetic import RECIPROCAL_RULES
from hlotool.passes.simplify.algebra.identities_float import ROUNDING_IDENTITIES
from hlotool.passes.simplify.convert_mover import RULES as CONVERT_RULES
from hlotool.passes.simplify.convert_mover import dot_of_bf16
from hlotool.passes.simplify.reshape_mover import RULES as MOVER_RULES
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


RULES, IDENTITIES = all_rules(), all_identities()
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


def test_files_of_rules_are_listed_with_their_opcodes_and_types() -> None:
    for name, (kind, opcodes) in SUBJECTS.items():
        rules = import_module(f"hlotool.passes.simplify.algebra.{name}").RULES
        assert sorted(opcodes.split()) == sorted(frozenset().union(*(rule.opcodes for rule in rules))), name
        assert not kind or all(rule.types is not None and rule.types <= KINDS[kind] for rule in rules), name
    for row in RULES:
        for opcode in row.opcodes:
            assert all(row in rules_for(opcode, element_type) for element_type in row.types or ("f32", "token"))


def test_rules_that_are_not_tried_do_not_fit() -> None:
    table = rule_table((*RULES, *RECIPROCAL_RULES, *MOVER_RULES))
    tried = left_out = 0
    for _, before, _ in ROWS:
        for instruction in module_of(before).instructions():
            worth_trying = {id(attempt) for _, attempt in table.attempts_for(instruction)}
            tried += len(worth_trying)
            for row in table.rules(instruction.opcode, instruction.shape.element_type):
                for pattern, attempt in row.patterns:
                    of_type = row.types is None or instruction.shape.element_type in row.types
                    if instruction.opcode in opcodes_of(pattern) and of_type and id(attempt) not in worth_trying:
                        assert attempt(instruction, Rewriter(instruction)) is None, (row.name, instruction)
                        left_out += 1
    assert left_out > tried


def test_rules_that_undo_each_other_are_stopped() -> None:
    @rule("add(x, y)")
    def swap(instruction: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter) -> Instruction:
        """x + y = y + x, for ever."""
        return rewriter.same(instruction, y, x)

    module, log = module_of("ROOT r = f32[8] add(p0, p1:f32[8])"), DecisionLog()
    apply_rules(module.entry, rule_table([swap]), log)
    assert log.decisions[-1].rule == "rules-loop"


# ---- real programs

PROGRAMS = ["argsort_pairs", "associative_scan_ssm", "collatz_fori", "complex_ops", "conjugate_gradient",
            "dtype_convert", "gather_scatter_modes", "int_ops", "lotka_volterra_f64", "random_normal",
            "black_scholes_greeks"]  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_simplified_programs_compute_the_same(name: str) -> None:
    module = load(model(name))
    pipeline = "simplify,optimization-barrier-expander,dce,while-loop-trip-count-annotator"
    copy = optimised(module, pipeline)
    assert copy.instruction_count() <= module.instruction_count()
    arguments = random_inputs(module, 1)
    rows = compare_all(evaluate(copy, arguments), evaluate(module, arguments))
    assert all(row.ok for row in rows), [str(row) for row in rows]
    assert print_module(optimised(module, pipeline)) == print_module(copy)
    assert parse(print_module(copy)).instruction_count() == copy.instruction_count()
