"""Batching: a batched module gives what the module gives for each example, stacked."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import semantics.families  # noqa: F401
from semantics.check import draw
from semantics.sample import CLASSES, FAMILIES, Family
from semantics.units import distance
from semantics.values import Array

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.driver.optimise import optimise
from hlotool.harness.compare import compare
from hlotool.ir import InputError, Instruction, Module, Shape, UnsupportedError, clone_module
from hlotool.ir.builder import Builder
from hlotool.ir.opcodes import OPCODES
from hlotool.ir.verifier import check as verify
from hlotool.passes.batching.batch import AHEAD, REFUSED, RULES, UNBATCHED, batch_module, batched_results
from hlotool.passes.batching.rules_calls import BY_TURNS, LEADING, register_batching, unregister_batching
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

CELLS = [
    (opcode, name)
    for opcode in FAMILIES
    for name, kinds in CLASSES.items()
    if any(set(family.types) & set(kinds) for family in FAMILIES[opcode])
]
NEVER = {"send", "send-done", "recv", "recv-done", "infeed", "outfeed", "dynamic-reshape", "set-dimension-size"}
NOT_ALWAYS = {  # in this form of what the families draw
    "collective-permute": "it writes into a part of its operand",
    "ragged-all-to-all": "offsets and sizes of its own",
    "all-gather": "it has a number among its arrays",
    "custom-call": "register_batching says how to",
    "get-dimension-size": "a size that is known when it runs|cannot differ from example to example",
}
Axes = list[int | None]


def test_every_opcode_is_accounted_for() -> None:
    kinds = [set(RULES), set(REFUSED), set(UNBATCHED), set(AHEAD) - set(RULES) - set(REFUSED)]
    assert set.union(*kinds) == set(OPCODES)
    assert sum(map(len, kinds)) == len(OPCODES), "an opcode is accounted for twice"
    assert all(REFUSED.values())


# ---- every opcode, against one example after the other


def _run(executable: Executable, rows: list[list[Array]]) -> list[list[Array]]:
    return executable.run_devices(rows) if len(rows) > 1 else [list(executable(*rows[0]))]


def _leaves(shapes: Sequence[Shape]) -> list[Shape]:
    return [leaf for shape in shapes for leaf in shape.leaves()]


def _arrays(axes: Sequence[int | None], leaves: Sequence[Shape]) -> Axes:
    return [axis for axis, leaf in zip(axes, leaves, strict=True) if leaf.is_array]


def _in_axes(rng: Random, leaves: Sequence[Shape], pattern: str) -> Axes:
    own = [n for n, leaf in enumerate(leaves) if leaf.is_array]
    match pattern:
        case "front":
            chosen = set(own)
        case "one":
            chosen = {rng.choice(own)} if own else set()
        case _:
            chosen = {n for n in own if rng.random() < 0.6}
    return [
        None if n not in chosen else 0 if pattern == "front" else rng.randint(0, leaf.rank)
        for n, leaf in enumerate(leaves)
    ]


def stacked(family: Family, kind: str, seed: int, pattern: str, backend: str = "evaluate", twice: bool = False) -> None:
    """Batch a module of one instruction, and run it and the module for each example."""
    sample = draw([(0, (family, kind))], seed)
    module, rng = sample.module, Random(f"{family.opcode} {kind} {seed} {pattern}")
    size, leaves = rng.choice((1, 2, 3)), _leaves([p.shape for p in module.entry.parameters])
    results = _leaves([module.entry.root.shape])
    axes = _in_axes(rng, leaves, pattern)
    places: Axes = [rng.randint(0, leaf.rank) if leaf.is_array and pattern != "front" else 0 for leaf in results]
    new = clone_module(module)
    batch_module(new, size, axes, places)
    verify(new)
    assert print_module(parse(print_module(new))) == print_module(new)
    reference, got = compile_module(module, "evaluate"), compile_module(new, backend, threads=1)
    generator, at = np.random.default_rng(seed), _arrays(axes, leaves)
    examples = [[sample.arguments(generator) for _ in range(reference.devices)] for _ in range(size)]
    for example in examples[1:]:
        for row, first in zip(example, examples[0], strict=True):
            row[:] = [a if axis is not None else b for a, b, axis in zip(row, first, at, strict=True)]
    rows = [
        [_stack([e[device][n] for e in examples], axis) for n, axis in enumerate(at)]
        for device in range(reference.devices)
    ]
    wanted = [_run(reference, example) for example in examples]
    for device, found in enumerate(_run(got, rows)):
        for n, (array, place) in enumerate(zip(found, _arrays(places, results), strict=True)):
            whole = np.stack([one[device][n] for one in wanted], place or 0)
            assert array.shape == whole.shape
            if family.ulps == 0:
                assert not distance(array, whole, signed_zeros=True).any(), (n, print_module(new))
            else:
                assert compare(array, whole).ok, (n, print_module(new))


def _stack(arrays: list[Array], axis: int | None) -> Array:
    return arrays[0] if axis is None else np.stack(arrays, axis)


def _try(family: Family, kind: str, seed: int, pattern: str, backend: str = "evaluate") -> None:
    refused = ""
    try:
        stacked(family, kind, seed, pattern, backend)
    except UnsupportedError as error:
        refused = str(error)
    opcode = refused.partition(": ")[2].partition(" ")[0]
    allowed = opcode in NEVER or any(word in refused for word in NOT_ALWAYS.get(opcode, "").split("|") if word)
    assert allowed if refused else family.opcode not in NEVER, refused


@pytest.mark.parametrize(("opcode", "name"), CELLS)
def test_batched_is_one_example_after_the_other(opcode: str, name: str) -> None:
    rng = Random(f"{opcode} {name}")
    for family in FAMILIES[opcode]:
        kinds = [kind for kind in family.types if kind in CLASSES[name]]
        for pattern in ("front", "mixed", "one") if kinds else ():
            _try(family, rng.choice(kinds), rng.randrange(1000), pattern)


@pytest.mark.parametrize("opcode", [o for o in FAMILIES if o not in NEVER])
def test_batched_and_compiled(opcode: str) -> None:
    rng = Random(f"{opcode} compiled")
    for family in FAMILIES[opcode]:
        _try(family, rng.choice(family.types), rng.randrange(1000), "mixed", "cpu")


def _two_ways(text: str, arrays: Sequence[Array], axes: Axes, backend: str = "evaluate") -> Module:
    """Batch a module over all arrays with an axis, and compare; the batched module."""
    module = parse(text)
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    new = clone_module(module)
    batch_module(new, size, axes, [0] * len(_leaves([module.entry.root.shape])))
    verify(new)
    reference = compile_module(module, "evaluate")
    rows = [
        reference(*[a if x is None else np.take(a, n, x) for a, x in zip(arrays, axes, strict=True)])
        for n in range(size)
    ]
    for found, *wanted in zip(compile_module(new, backend)(*arrays), *rows, strict=True):
        np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-6)
    return new


@pytest.mark.parametrize("opcode", ["dot", "convolution", "reduce", "gather", "scatter", "sort", "while", "conditional",
                                    "dynamic-update-slice", "concatenate", "triangular-solve", "pad", "broadcast"])
def test_a_batch_of_batches(opcode: str) -> None:
    """Twice over new first axes is the same as once over an axis of as many examples as there are pairs."""
    for seed in range(4):
        family = FAMILIES[opcode][0]
        kind = "f32" if "f32" in family.types else family.types[0]
        sample = draw([(0, (family, kind))], seed)
        leaves = _leaves([p.shape for p in sample.module.entry.parameters])
        axes: Axes = [0 if leaf.is_array else None for leaf in leaves]
        twice = clone_module(sample.module)
        for size in (2, 3):
            batch_module(twice, size, axes, [0] * len(_leaves([twice.entry.root.shape])))
        verify(twice)
        generator, reference = np.random.default_rng(seed), compile_module(sample.module, "evaluate")
        examples = [sample.arguments(generator) for _ in range(6)]
        rows = [np.stack(arrays).reshape(3, 2, *arrays[0].shape) for arrays in zip(*examples, strict=True)]
        wanted = [reference(*example) for example in examples]
        for found, *arrays in zip(compile_module(twice, "evaluate")(*rows), *wanted, strict=True):
            assert compare(found.reshape(6, *found.shape[2:]), np.stack(arrays)).ok


# ---- where the batch is


def _opcodes(module: Module) -> list[str]:
    return [i.opcode for i in module.entry]


def _named(module: Module, name: str) -> Instruction:
    return next(i for i in module.instructions() if i.name == name)


_DOT = """
ENTRY main {
  x = f32[3,4] parameter(0)
  w = f32[4,5] parameter(1)
  ROOT d = f32[3,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.mark.parametrize(
    ("axes", "place"), [([0, None], 0), ([1, None], 1), ([None, 0], 1), ([None, 2], 2), ([1, 2], 0)]
)
def test_dots_leave_the_batch_where_it_is(axes: Axes, place: int) -> None:
    module = parse(_DOT)
    batch_module(module, 7, axes, [place])
    assert _opcodes(module) == ["parameter", "parameter", "dot"]


def test_one_matrix_for_all_is_not_repeated() -> None:
    module = parse(
        "ENTRY main {\n  a = f32[4,4] parameter(0)\n  b = f32[4,2] parameter(1)\n"
        "  ROOT x = f32[4,2] triangular-solve(a, b), left_side=true, lower=true\n}\n"
    )
    batch_module(module, 3, [None, 0])
    assert _named(module, "x").operands[0].opcode == "parameter"
    assert _named(module, "x").shape.dimensions == (4, 6)


def test_what_all_examples_share_is_computed_once() -> None:
    module = parse(
        "ENTRY main {\n  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n  e = f32[4] exponential(b)\n"
        "  s = f32[4] add(a, e)\n  ROOT t = (f32[4], f32[4]) tuple(s, e)\n}\n"
    )
    assert batched_results(module, [0, None]) == [True, False]
    kept = clone_module(module)
    assert batch_module(kept, 3, [0, None]) == [True, False]
    assert str(kept.entry.root.shape) == "(f32[3,4], f32[4])"
    assert batch_module(clone_module(module), 3, [0, None], [1, None]) == [True, False]
    with pytest.raises(InputError, match="result 0 differs from example to example"):
        batch_module(clone_module(module), 3, [0, None], [None, None])
    assert batch_module(module, 3, [0, None], [-1, 0]) == [True, True]
    assert str(module.entry.root.shape) == "(f32[4,3], f32[3,4])"


@pytest.mark.parametrize(
    ("size", "axes", "places", "words"),
    [
        (0, [0, None], None, "at least one"),
        (2, [0], None, "1 in_axes for 2 arrays"),
        (2, [3, None], None, "no axis 3"),
        (2, [-4, None], None, "no axis -4"),
        (2, [0, None], [0, 0], "2 out_axes for 1 arrays"),
    ],
)
def test_axes_that_do_not_fit_are_refused(size: int, axes: Axes, places: Axes | None, words: str) -> None:
    module = parse(_DOT)
    with pytest.raises(InputError, match=words):
        batch_module(module, size, axes, places)
    assert print_module(module) == print_module(parse(_DOT))


# ---- loops and branches

_COLLATZ = """
condition {
  s = (s32[], s32[], f32[3,3]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ROOT more = pred[] compare(n, one), direction=GT
}

body {
  s = (s32[], s32[], f32[3,3]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  count = s32[] get-tuple-element(s), index=1
  w = f32[3,3] get-tuple-element(s), index=2
  one = s32[] constant(1)
  two = s32[] constant(2)
  three = s32[] constant(3)
  half = s32[] divide(n, two)
  rest = s32[] remainder(n, two)
  odd = pred[] compare(rest, one), direction=EQ
  triple = s32[] multiply(n, three)
  up = s32[] add(triple, one)
  next = s32[] select(odd, up, half)
  more = s32[] add(count, one)
  ROOT t = (s32[], s32[], f32[3,3]) tuple(next, more, w)
}

ENTRY main {
  n = s32[] parameter(0)
  w = f32[3,3] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[3,3]) tuple(n, zero, w)
  loop = (s32[], s32[], f32[3,3]) while(t), condition=condition, body=body
  ROOT steps = s32[] get-tuple-element(loop), index=1
}
"""


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
def test_examples_leave_a_loop_one_by_one(backend: str) -> None:
    numbers = np.array([27, 1, 6, -3, 97], np.int32)
    new = _two_ways(_COLLATZ, [numbers, np.zeros((3, 3), np.float32)], [0, None], backend)
    (loop,) = [i for i in new.entry if i.opcode == "while"]
    assert str(loop.shape) == "(pred[5], (s32[5], s32[5], f32[3,3]))", "the weights have no batch"


_UNTAKEN = """
condition {
  s = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(s), index=0
  b = s32[] get-tuple-element(s), index=1
  ROOT more = pred[] compare(a, b), direction=NE
}

body {
  s = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(s), index=0
  b = s32[] get-tuple-element(s), index=1
  two = s32[] constant(2)
  next = s32[] add(a, two)
  ROOT t = (s32[], s32[]) tuple(next, b)
}

even {
  b = s32[] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[]) tuple(zero, b)
  loop = (s32[], s32[]) while(t), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(loop), index=0
}

odd {
  b = s32[] parameter(0)
  ROOT r = s32[] negate(b)
}

ENTRY main {
  n = s32[] parameter(0)
  one = s32[] constant(1)
  rest = s32[] and(n, one)
  ROOT r = s32[] conditional(rest, n, n), branch_computations={even, odd}
}
"""


@pytest.mark.parametrize("numbers", [[4, 7, 10], [3, 5], [8], [0, 1]])
def test_a_loop_in_a_branch_that_examples_do_not_take_ends(numbers: list[int]) -> None:
    """Of odd numbers the loop of the branch for even ones would go round the whole range twice and never stop."""
    _two_ways(_UNTAKEN, [np.array(numbers, np.int32)], [0])


_NESTED = """
inner_condition {
  s = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(s), index=0
  b = s32[] get-tuple-element(s), index=1
  ROOT more = pred[] compare(a, b), direction=NE
}

inner_body {
  s = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(s), index=0
  b = s32[] get-tuple-element(s), index=1
  one = s32[] constant(2)
  next = s32[] add(a, one)
  ROOT t = (s32[], s32[]) tuple(next, b)
}

condition {
  s = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ROOT more = pred[] compare(n, one), direction=GT
}

body {
  s = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  total = s32[] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  t = (s32[], s32[]) tuple(zero, n)
  loop = (s32[], s32[]) while(t), condition=inner_condition, body=inner_body
  a = s32[] get-tuple-element(loop), index=0
  sum = s32[] add(total, a)
  three = s32[] constant(3)
  less = s32[] subtract(n, three)
  six = s32[] constant(6)
  big = pred[] compare(n, six), direction=GT
  two = s32[] constant(2)
  down = s32[] subtract(n, two)
  odd = s32[] constant(-1)
  next = s32[] select(big, down, odd)
  ROOT t2 = (s32[], s32[]) tuple(next, sum)
}

ENTRY main {
  n = s32[] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[]) tuple(n, zero)
  loop = (s32[], s32[]) while(t), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(loop), index=1
}
"""


def test_a_loop_in_a_loop_that_examples_have_left_ends() -> None:
    """An example that is done has -1, with which the inner loop would not end."""
    _two_ways(_NESTED, [np.array([4, 12, 8], np.int32)], [0])


def test_a_loop_with_a_count_for_all_stays_a_counted_loop() -> None:
    text = _COLLATZ.replace("index=0\n  one", "index=1\n  one").replace("direction=GT", "direction=LT")
    text = text.replace("one = s32[] constant(1)\n  ROOT", "one = s32[] constant(5)\n  ROOT")
    new = _two_ways(text, [np.arange(4, dtype=np.int32), np.zeros((3, 3), np.float32)], [0, None])
    (loop,) = [i for i in new.entry if i.opcode == "while"]
    assert str(loop.shape) == "(s32[4], s32[], f32[3,3])"


# ---- random numbers

_RNG = """
ENTRY main {
  low = f32[] parameter(0)
  one = f32[] constant(1)
  shift = f32[] add(low, one)
  r = f32[100] rng(zero, one), distribution=rng_uniform
  b = f32[100] broadcast(low), dimensions={}
  s = u64[2] rng-get-and-update-state(), delta=5
  ROOT t = (f32[100], f32[100], u64[2]) tuple(r, b, s)
}
""".replace("  one = f32", "  zero = f32[] constant(0)\n  one = f32")


def test_every_example_draws_numbers_of_its_own() -> None:
    module = parse(_RNG)
    assert batch_module(module, 4, [None]) == [True, False, True]
    drawn, _, states = compile_module(module, "evaluate")(np.zeros((), np.float32))
    assert drawn.shape == (4, 100)
    assert len({row.tobytes() for row in drawn}) == 4
    assert ((drawn >= 0) & (drawn < 1)).all()
    np.testing.assert_array_equal(states, [[0x7012395 + 5 * n, 0] for n in range(4)])


def test_distributions_of_their_own() -> None:
    module = parse(_RNG.replace("rng(zero, one)", "rng(low, shift)"))
    batch_module(module, 3, [0])
    drawn, _, _ = compile_module(module, "evaluate")(np.array([0, 10, 20], np.float32))
    np.testing.assert_array_equal(np.floor(drawn), np.repeat([[0], [10], [20]], 100, 1))


# ---- custom calls

_CUSTOM = """
ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="batching_test"
}
"""


def test_custom_calls_are_refused_by_name_or_have_a_rule() -> None:
    with pytest.raises(UnsupportedError, match=r"y: custom-call 'batching_test' cannot be batched.*register_batching"):
        batch_module(parse(_CUSTOM), 2, [0])
    try:
        for rule, opcodes in ((LEADING, ["custom-call"]), (BY_TURNS, ["while"]), (_instead, ["negate"])):
            register_batching("batching_test", rule, replace=True)
            module = parse(_CUSTOM)
            batch_module(module, 2, [0])
            verify(module)
            assert [o for o in _opcodes(module) if o in ("custom-call", "while", "negate")] == opcodes
            assert str(module.entry.root.shape) == "f32[2,4]"
        with pytest.raises(ValueError, match="already"):
            register_batching("batching_test", LEADING)
        with pytest.raises(ValueError, match="a batching rule is"):
            register_batching("batching_test", "sideways", replace=True)
    finally:
        unregister_batching("batching_test")


def _instead(build: Builder, call: Instruction, operands: Sequence[Instruction], size: int) -> Instruction:
    return build.unary("negate", operands[0])


def test_lapack_takes_more_dimensions() -> None:
    text = """
ENTRY main {
  a = f64[3,3] parameter(0)
  f = (f64[3,3]{0,1}, s32[]) custom-call(a), custom_call_target="lapack_dpotrf_ffi",
    operand_layout_constraints={f64[3,3]{0,1}}, api_version=API_VERSION_TYPED_FFI,
    backend_config="{uplo = 76 : ui8}", output_to_operand_aliasing={{0}: (0, {})}
  ROOT l = f64[3,3] get-tuple-element(f), index=0
}
"""
    pytest.importorskip("scipy", reason="LAPACK calls need SciPy")
    generator = np.random.default_rng(1)
    roots = generator.normal(size=(4, 3, 3))
    new = _two_ways(text, [roots @ roots.transpose(0, 2, 1) + np.eye(3)], [0])
    assert "f64[4,3,3]{1,2,0}" in print_module(new)


def test_side_effects_and_transfers_are_refused_even_where_nothing_has_a_batch() -> None:
    for line in (
        't = token[] after-all()\n  i = (f32[2], token[]) infeed(t)\n  ROOT r = f32[2] get-tuple-element(i), index=0',
        'ROOT r = f32[2] custom-call(x), custom_call_target="print", custom_call_has_side_effect=true',
    ):
        with pytest.raises(UnsupportedError, match="cannot be batched"):
            batch_module(parse(f"ENTRY main {{\n  x = f32[2] parameter(0)\n  {line}\n}}\n"), 2, [None])


def test_what_goes_one_by_one_says_so() -> None:
    text = """
mean {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] subtract(a, b)
  ROOT h = f32[] negate(s)
}

ENTRY main {
  x = f32[4,3] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=mean
}
"""
    log = DecisionLog()
    optimise(parse(text), "vmap{size=3}", log=log)
    assert [(d.action, d.rule, d.before) for d in log] == [("note", "turns", ("r",)), ("rewrite", "batch", ("r",))]


def test_gradients_of_each_example() -> None:
    text = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  w = f32[3] parameter(0)
  x = f32[3] parameter(1)
  t = f32[3] tanh(w)
  p = f32[3] multiply(t, x)
  zero = f32[] constant(0)
  s = f32[] reduce(p, zero), dimensions={0}, to_apply=add
  ROOT q = f32[] multiply(s, s)
}
"""
    generator = np.random.default_rng(1)
    w, x = generator.normal(size=3).astype(np.float32), generator.normal(size=(6, 3)).astype(np.float32)
    (found,) = compile_module(optimise(parse(text), "grad{wrt=0},vmap{size=6,axes=none+0}"))(w, x)
    tangent = np.tanh(w)
    np.testing.assert_allclose(found, 2 * (x @ tangent)[:, None] * x * (1 - tangent**2), rtol=1e-4)


# ---- cost


def test_cost_is_linear() -> None:
    """A chain of 20,000 instructions makes as many again, and a loop of 1,000 values that change places a few each."""
    lines = [
        f"  x{n} = f32[3] {('sine(', 'negate(', f'add(x{n - 2}, ')[n % 3]}x{n - 1})" for n in range(2, 20_000)
    ]
    text = "ENTRY main {\n  x0 = f32[3] parameter(0)\n  x1 = f32[3] negate(x0)\n" + "\n".join(lines)
    module = parse(text + "\n  ROOT r = f32[3] copy(x19999)\n}\n")
    count = module.instruction_count()
    batch_module(module, 4, [0])
    assert module.instruction_count() == count

    state = f"({', '.join(['f32[]'] * 1000)}, s32[])"
    parts = "\n".join(f"  g{n} = f32[] get-tuple-element(s), index={n}" for n in range(1000))
    moved = ", ".join(f"g{(n + 1) % 1000}" for n in range(1000))
    loop = f"""
condition {{
  s = {state} parameter(0)
  n = s32[] get-tuple-element(s), index=1000
  most = s32[] constant(9)
  ROOT more = pred[] compare(n, most), direction=LT
}}

body {{
  s = {state} parameter(0)
{parts}
  n = s32[] get-tuple-element(s), index=1000
  one = s32[] constant(1)
  next = s32[] add(n, one)
  ROOT t = {state} tuple({moved}, next)
}}

ENTRY main {{
  s = {state} parameter(0)
  ROOT w = {state} while(s), condition=condition, body=body
}}
"""
    module = parse(loop)
    count = module.instruction_count()
    flags = batch_module(module, 4, [0] + [None] * 1000)
    assert flags == [True] * 1000 + [False]
    assert module.instruction_count() < 8 * count
