"""Each textual identity of the algebraic simplifier: it is used, gives its right side, and the same bits.

All values of the 8-bit types and the edge values of the others are tried, in every combination of the variables.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import evaluate
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array, clone_module, dtype_of
from hlotool.ir.builder import Builder
from hlotool.ir.module import Computation
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.patterns import KINDS, Apply, Expression, Leaf, number, number_of
from hlotool.passes.framework.rewriter import apply_rules, rule_table
from hlotool.passes.simplify.algebra import all_identities, all_rules
from hlotool.passes.simplify.algebra.identities_float import ROUNDING_IDENTITIES
from hlotool.passes.simplify.algebra.identity import Identity

FOLDED = parse_pipeline("fixpoint(algebraic-simplifier{only=elementwise-of-broadcasts},constant-folding)")
TYPES = ("pred", "s8", "u8", "s32", "u64", "f16", "bf16", "f32", "f64")
DIRECTIONS = ("eq", "ne", "lt", "le", "gt", "ge")
CONSTANTS = (0, 1, 2, 3, 4, 6, 7, 8, 15, 16, 31, 100, 127, 128, 255, -1, -2, -3, -100, -128)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 4.0, 1024.0, float("inf"), float("-inf"))


def values_of(element_type: str, variables: int) -> np.ndarray[Any, Any]:
    """All values of a small type when few variables run through them, else the edges and some between."""
    row, dtype = ELEMENT_TYPES[element_type], dtype_of(element_type)
    if row.kind == "pred":
        return np.array([False, True])
    if row.is_integer:
        information = np.iinfo(dtype)
        if row.bits == 8 and variables == 1:
            return np.arange(information.min, information.max + 1).astype(dtype)
        low, high = int(information.min), int(information.max)
        rows = [0, 1, 2, 3, 5, 7, 8, 31, 63, 100, 127, low, low + 1, low // 2, high, high - 1, high // 2, high // 3]
        rows += [] if row.kind == "unsigned" else [-1, -2, -3, -8, -100]
        return np.unique(np.array(rows, np.uint64 if row.kind == "unsigned" else np.int64)).astype(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, -3.0, 7.25, 1e4, -1e4]
    limits = {"f16": [6e-8, -6e-8, 6e-5, 65504], "bf16": [1e-40, -1e-40, 1e-38, 3e38],
              "f32": [1e-45, -1e-40, 1.2e-38, 3.4e38], "f64": [5e-324, -1e-310, 2.3e-308, 1.7e308]}  # fmt: skip
    return np.array(special + limits[element_type]).astype(dtype)


def leaves_of(expression: Expression) -> list[str]:
    if isinstance(expression, Leaf):
        return [expression.name]
    return [name for operand in expression.operands for name in leaves_of(operand)]


def constants_for(identity: Identity, names: list[str], element_type: str) -> list[dict[str, Any]]:
    """Some choices of the constants that the identity holds for."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        pool: list[Any] = [False, True]
    elif row.is_integer:
        low, high = int(np.iinfo(dtype_of(element_type)).min), int(np.iinfo(dtype_of(element_type)).max)
        pool = [*(c for c in CONSTANTS if low <= c <= high), low, high]
    else:
        pool = list(FLOATS)
    fitting = []
    for values in itertools.product(pool, repeat=len(names)):
        chosen = dict(zip(names, values, strict=True))
        if identity.holds is None or identity.holds(chosen, row.bits):
            fitting.append(chosen)
    return fitting[:: max(1, len(fitting) // 12)]


def build(expression: Expression, leaves: dict[str, Instruction], builder: Builder, model: str, kind: str) -> Any:
    """`expression` of element type `kind` about values of type `model`, in the plainest way."""
    if isinstance(expression, Leaf):
        if expression.name in leaves:
            return leaves[expression.name]
        sizes = next(iter(leaves.values())).shape.dimensions
        return builder.splat(number_of(expression.name, kind), array(kind, sizes))
    opcode, operands = expression.opcode, expression.operands
    if opcode in DIRECTIONS:
        left, right = (build(o, leaves, builder, model, model) for o in operands)
        return builder.compare(left, right, opcode.upper())
    types = {"is-finite": (model,), "select": ("pred", kind, kind)}.get(opcode, (kind,) * len(operands))
    sides = [build(o, leaves, builder, model, t) for o, t in zip(operands, types, strict=True)]
    return builder.add(opcode, None, sides)


def result_type(expression: Expression, model: str) -> str:
    boolean = isinstance(expression, Apply) and expression.opcode in (*DIRECTIONS, "is-finite")
    if isinstance(expression, Apply) and not boolean and expression.opcode in ("and", "or", "xor", "not"):
        return result_type(expression.operands[0], model)
    return "pred" if boolean else model


def module_for(
    identity: Identity, side: Expression, element_type: str, constants: dict[str, Any], sizes: int
) -> Module:
    computation = Computation("main")
    builder = Builder(computation)
    leaves: dict[str, Instruction] = {}
    for position, name in enumerate(variables_of(identity)):
        kind = "pred" if name in "pq" else element_type
        leaves[name] = builder.parameter(position, array(kind, (sizes,)), name)
    for name, value in constants.items():
        leaves[name] = builder.splat(value, array(element_type, (sizes,)))
    result = result_type(identity.left, element_type)
    computation.root = build(side, leaves, builder, element_type, result)
    module = Module("m")
    module.add(computation)
    module.entry = computation
    return module


def variables_of(identity: Identity) -> list[str]:
    return sorted({name for name in leaves_of(identity.left) if name in ("x", "y", "z", "u", "v", "p", "q")})


def shown(instruction: Instruction) -> str:
    """The instruction with all that it reads; constants as numbers, commutative operands in one order."""
    if instruction.opcode == "parameter":
        return instruction.name
    value = number(instruction)
    if value is not None:
        return repr(value)
    parts = [shown(o) for o in instruction.operands]
    direction = instruction.attributes.get("direction", "")
    if "commutative" in instruction.info.traits or direction in ("EQ", "NE"):
        parts.sort()
    return f"{instruction.opcode}{direction}({', '.join(parts)})"


def same_bits(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Whether two results agree in each bit, but for those of a NaN."""
    if left.dtype.kind in "biu":
        return bool(np.array_equal(left, right))
    wide = (left.astype(np.float64), right.astype(np.float64))
    nan = np.isnan(wide[0])
    if not np.array_equal(nan, np.isnan(wide[1])):
        return False
    return bool(np.array_equal(wide[0][~nan].view(np.uint64), wide[1][~nan].view(np.uint64)))


IDENTITIES, RULES = all_identities(), all_rules()
CASES = [*IDENTITIES, *(identity for identity, _ in ROUNDING_IDENTITIES)]
ROUNDS = {identity.name for identity, _ in ROUNDING_IDENTITIES}
RULE = {rule.name: rule for rule in RULES}


@pytest.mark.parametrize("identity", CASES, ids=[f"{i.name}-{n}" for n, i in enumerate(CASES)])
def test_identity(identity: Identity) -> None:
    names = variables_of(identity)
    constants = sorted({name for name in leaves_of(identity.left) if name in ("a", "b", "c", "d")})
    rule = next(r for r in RULES if r.name == identity.name and r.help.startswith(identity.text))
    table = rule_table([rule])
    tried = 0
    for element_type in TYPES:
        if element_type not in KINDS[identity.kind]:
            continue
        pools = [
            np.array([False, True]) if name in "pq" else values_of(element_type, sum(n not in "pq" for n in names))
            for name in names
        ]
        arguments = [np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(*pools, indexing="ij")]
        for chosen in constants_for(identity, constants, element_type):
            before = module_for(identity, identity.left, element_type, chosen, arguments[0].size)
            check(before)
            after = clone_module(before)
            log = DecisionLog()
            assert apply_rules(after.entry, table, log), (element_type, chosen)
            check(after)
            wanted = module_for(identity, identity.right, element_type, chosen, arguments[0].size)
            run_pipeline(wanted, FOLDED)
            assert shown(after.entry.root) == shown(wanted.entry.root)
            with np.errstate(all="ignore"):
                expected, found = (evaluate(m, arguments)[0] for m in (before, after))
            if identity.name in ROUNDS:
                np.testing.assert_allclose(found, expected, rtol=1e-6)
            else:
                same = same_bits(np.asarray(expected), np.asarray(found))
                assert same, (element_type, chosen, differences(arguments, expected, found))
            tried += 1
    assert tried


def differences(arguments: Any, expected: Any, found: Any) -> Any:
    wrong = np.flatnonzero((expected != found) & ~((expected != expected) & (found != found)))[:3]
    return [(*(a[i] for a in arguments), expected[i], found[i]) for i in wrong]


def test_every_rule_has_its_own_name_within_its_opcode() -> None:
    table = rule_table(RULES)
    for opcode in table.opcodes:
        texts = [rule.help for rule in table.rules(opcode, "f32")]
        assert len(set(texts)) == len(texts), opcode


def test_shared_operations_are_not_repeated() -> None:
    """An identity whose right side has as many operations as its left is not used where the left one stays."""
    identity = next(i for i in IDENTITIES if i.name == "add-common-factor")
    module = module_for(identity, identity.left, "s32", {}, 4)
    product = module.entry.root.operands[0]
    module.entry.root = Builder(module.entry).tuple([module.entry.root, product])
    table = rule_table([RULE[identity.name]])
    assert apply_rules(module.entry, table, DecisionLog())  # the other product and a sum go: still one fewer
    assert not apply_rules(module.entry, table, DecisionLog())


UNARY = {"s": ["negate", "abs", "not", "sign"], "u": ["negate", "not"], "f": ["negate", "abs", "sign", "floor", "ceil"],
         "p": ["not"]}  # fmt: skip
BINARY = {
    "s": ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor", "shift-left",
          "shift-right-logical", "shift-right-arithmetic"],
    "f": ["add", "subtract", "multiply", "divide", "maximum", "minimum"],
    "p": ["and", "or", "xor", "maximum", "minimum"],
}  # fmt: skip
BINARY["u"] = BINARY["s"]


def random_expression(choice: random.Random, element_type: str) -> Module:
    """Elementwise operations on values of one type, predicates and small constants."""
    computation = Computation("main")
    build = Builder(computation)
    sizes = (64,)
    typed = [build.parameter(n, array(element_type, sizes)) for n in range(2)]
    predicates = [build.parameter(2, array("pred", sizes))]
    typed += [build.splat(c, array(element_type, sizes)) for c in (0, 1, 2, choice.choice([3, 7, 100]))]
    predicates.append(build.splat(choice.random() < 0.5, array("pred", sizes)))
    for _ in range(choice.randrange(4, 25)):
        x, y = (typed[max(choice.randrange(len(typed)), choice.randrange(len(typed)))] for _ in range(2))
        p, q = choice.choice(predicates), choice.choice(predicates)
        kind = element_type[0].replace("b", "f")
        match choice.randrange(10):
            case 0 | 1:
                typed.append(build.unary(choice.choice(UNARY[kind]), x))
            case 2 | 3 | 4 | 5:
                typed.append(build.binary(choice.choice(BINARY[kind]), x, y))
            case 6:
                predicates.append(build.compare(x, y, choice.choice(DIRECTIONS).upper()))
            case 7:
                predicates.append(build.binary(choice.choice(BINARY["p"]), p, q))
                predicates.append(build.unary("not", q))
            case 8:
                typed.append(build.select(p, x, y))
            case 9:
                typed.append(build.clamp(choice.choice(typed), x, y))
    computation.root = build.tuple([*typed[-3:], *predicates[-2:]])
    module = Module("m")
    module.add(computation, entry=True)
    return module


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["s8", "u8", "s32", "u32", "f32"]))
def test_random_expressions(seed: int, element_type: str) -> None:
    """All rules together end, and change no bit (of floats that are not extreme)."""
    module = random_expression(random.Random(seed), element_type)
    check(module)
    copy, log = clone_module(module), DecisionLog()
    without = "{without=add-zero}" if element_type == "f32" else ""  # the rule that turns -0 + 0 into -0
    run_pipeline(copy, parse_pipeline(f"fixpoint(algebraic-simplifier{without},constant-folding,cse,dce)"), log)
    check(copy)
    assert not [str(d) for d in log if d.rule in ("rules-loop", "fixpoint-limit")]
    generator = np.random.default_rng(seed)
    pool = values_of(element_type, 2)
    if element_type == "f32":
        pool = np.array([-3, -2, -1, -0.5, 0.5, 1, 2, 3, 7], np.float32)
    arguments = [pool[generator.integers(0, len(pool), 64)] for _ in range(2)]
    arguments.append(generator.random(64) < 0.5)
    with np.errstate(all="ignore"):
        for expected, found in zip(evaluate(module, arguments), evaluate(copy, arguments), strict=True):
            np.testing.assert_array_equal(found, expected)
