"""Operands of dots computed in the kernel of the dot: which are, HLO before and after, and the evaluator's numbers.

Values are small whole numbers wherever sums should be exact: then results have the very bits of the evaluator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from test_gemm import DTYPES, MACHINES, bf16_machines
from test_product_fusion import ADD, fused, kinds, module

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import inputs_of
from hlotool.ir import Module, clone_module
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

Array = np.ndarray[Any, Any]
ROWS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
RIGHT = "b = f32[64,48] convert(w)\ns = f32[48] parameter(2)\nt = f32[64,48] broadcast(s), dimensions={1}\n"


def scaled(m: int, after: str = "ROOT y = f32[@,48] copy(d)") -> str:
    """A product with `m` rows and weights of one byte with a scale for each column."""
    text = (
        f"a = f32[@,64] parameter(0)\nw = s8[64,48] parameter(1)\n{RIGHT}c = f32[64,48] multiply(b, t)\n"
        f"d = f32[@,48] dot(a, c), {ROWS}\n{after}"
    )
    return text.replace("@", str(m))


def refusals(log: DecisionLog) -> list[str]:
    return [d.rule for d in log if d.action == "refuse" and d.pass_name == "product-prologue"]


def whole_numbers(made: Module, seed: int) -> list[Array]:
    """Arguments of small whole numbers."""
    generator = np.random.default_rng(seed)
    arguments = []
    for leaf in inputs_of(made):
        row, size = leaf.shape.element_type, leaf.shape.dimensions
        low = 0 if row[0] in "up" else -2 if row == "s4" else -4
        high = 2 if row == "pred" else leaf.bound or (2 if row == "s4" else 5)
        arguments.append(np.asarray(generator.integers(low, high, size), np.int64).astype(DTYPES[row]))
    return arguments


def same_numbers(
    made: Module, machine: Machine | None = None, arguments: Sequence[Array] | None = None, exact: bool = True
) -> None:
    """The evaluator's numbers on one and two threads, and the same bits on both."""
    arguments = whole_numbers(made, 1) if arguments is None else arguments
    wanted = evaluate(made, arguments)
    found = [compile_module(made, machine=machine, threads=threads)(*arguments) for threads in (1, 2)]
    assert [np.asarray(x).tobytes() for x in found[0]] == [np.asarray(x).tobytes() for x in found[1]]
    if exact:
        for got, want in zip(found[0], wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    else:
        assert all(one.ok for one in compare_all(found[0], wanted))


# ---- before and after


def test_before_and_after() -> None:
    made = module(scaled(1))
    result, log = fused(made)
    assert kinds(result) == ["kOutput"]
    body = result.entry.root.attributes["calls"]
    assert [i.opcode for i in body if i.opcode != "parameter"] == ["convert", "broadcast", "multiply", "dot"]
    assert [i.shape.element_type for i in result.entry.parameters] == ["f32", "s8", "f32"]
    assert [d.code for d in log if d.pass_name == "product-prologue"] == ["HLO4160"]
    same_numbers(made)


@pytest.mark.parametrize("m", [4, 70])
def test_with_an_epilogue(m: int) -> None:
    made = module(scaled(m, "ROOT y = f32[@,48] tanh(d)"))
    result, _ = fused(made)
    assert kinds(result) == ["kOutput"]
    body = result.entry.root.attributes["calls"]
    assert [i.opcode for i in body if i.opcode != "parameter"] == ["convert", "broadcast", "multiply", "dot", "tanh"]
    same_numbers(made, exact=False)


def test_the_product_stays_a_result_where_others_read_it() -> None:
    after = "e = f32[48,4] transpose(d), dimensions={1,0}\nu = f32[4,48] abs(d)\n"
    made = module(scaled(4, after + "ROOT y = (f32[4,48], f32[48,4]) tuple(u, e)"))
    assert sum(i.opcode == "dot" for i in fused(made)[0].instructions()) == 1
    same_numbers(made)


def test_results_of_several_types() -> None:
    after = "h = bf16[4,48] convert(d)\nz = f32[4,48] broadcast(q), dimensions={}\n"
    after += "p = pred[4,48] compare(d, z), direction=GT\nROOT y = (bf16[4,48], pred[4,48], f32[4,48]) tuple(h, p, d)"
    made = module("q = f32[] constant(0)\n" + scaled(4, after))
    assert kinds(fused(made)[0])[0] == "kOutput"
    same_numbers(made)


def test_beside_a_reader_of_whole_rows() -> None:
    """The sums of streamed operands are made one after the other, so that no task holds a row of them."""
    softmax = (
        "z = f32[] constant(0)\nx = f32[4,48] exponential(d)\nt2 = f32[4] reduce(x, z), dimensions={1}, to_apply=add\n"
        "u = f32[4,48] broadcast(t2), dimensions={0}\nROOT y = f32[4,48] divide(x, u)"
    )
    made = module(scaled(4, softmax), ADD)
    result, log = fused(made)
    assert "product-rows" in refusals(log)
    assert kinds(result) == ["kLoop", "kOutput"]
    same_numbers(made, exact=False)


def test_whole_rows_of_packed_operands() -> None:
    softmax = (
        "z = f32[] constant(0)\nx = f32[70,48] exponential(d)\nt2 = f32[70] reduce(x, z), dimensions={1}, "
        "to_apply=add\nu = f32[70,48] broadcast(t2), dimensions={0}\nROOT y = f32[70,48] divide(x, u)"
    )
    made = module(scaled(70, softmax), ADD)
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, exact=False)


def test_both_operands() -> None:
    text = (
        "a = s8[3,40] parameter(0)\nb = u8[2,40] parameter(1)\nx = f32[3,40] convert(a)\ny = f32[2,40] convert(b)\n"
        "z = f32[2,40] negate(y)\n"
        "ROOT d = f32[3,2] dot(x, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    )
    made = module(text)
    result, _ = fused(made)
    assert kinds(result) == ["kOutput"]
    same_numbers(made)


def test_weights_that_two_products_read_are_written_for_neither() -> None:
    after = f"x = f32[2,64] parameter(3)\ne = f32[2,48] dot(x, c), {ROWS}\nf = f32[2,48] add(d, e)\n"
    made = module(scaled(2, after + "ROOT y = f32[2,48] tanh(f)"))
    result, _ = fused(made)
    assert all(i.shape.size < 64 * 48 for i in result.entry if i.opcode != "parameter")
    same_numbers(made, exact=False)


def test_twice_is_once_and_text_is_enough() -> None:
    made = module(scaled(4, "ROOT y = f32[4,48] tanh(d)"))
    once, _ = fused(made)
    assert print_module(fused(once)[0]) == print_module(once)
    assert print_module(fused(parse(print_module(once)))[0]) == print_module(once)
    undone = clone_module(once)
    run_pipeline(undone, parse_pipeline("call-inliner{fusions=foreign}"))
    assert kinds(undone) == ["kOutput"]
    same_numbers(once, exact=False)


def test_an_array_that_the_operand_is_made_of_is_not_written_over() -> None:
    """The epilogue adds the very array that the weights are made of, which is as large as the result."""
    text = (
        "HloModule m\n\nbody {\n s = (s32[], f32[8,8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " o = s32[] constant(1)\n j = s32[] add(i, o)\n w = f32[8,8] get-tuple-element(s), index=1\n"
        " h = f32[] constant(0.125)\n hb = f32[8,8] broadcast(h), dimensions={}\n p = f32[8,8] multiply(w, hb)\n"
        f" q = f32[8,8] iota(), iota_dimension=0\n d = f32[8,8] dot(q, p), {ROWS}\n e = f32[8,8] add(w, d)\n"
        " ROOT t = (s32[], f32[8,8]) tuple(j, e)\n}\n\n"
        "more {\n s = (s32[], f32[8,8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " n = s32[] constant(4)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
        "ENTRY e {\n x = f32[8,8] parameter(0)\n z = s32[] constant(0)\n s = (s32[], f32[8,8]) tuple(z, x)\n"
        " w = (s32[], f32[8,8]) while(s), condition=more, body=body\n"
        " ROOT y = f32[8,8] get-tuple-element(w), index=1\n}"
    )
    made = parse(text)
    assert any(i.attributes.get("kind") == "kOutput" for i in optimise(made).instructions())
    for machine in MACHINES:  # of which some have too few registers for all sums of both results
        same_numbers(made, machine, whole_numbers(made, 3), exact=False)


def test_weights_of_a_layer_in_a_loop() -> None:
    """A scan over layers, whose weights are slices of one array."""
    text = (
        "HloModule m\n\nbody {\n s = (s32[], f32[3,16], s8[5,16,16]) parameter(0)\n"
        " i = s32[] get-tuple-element(s), index=0\n o = s32[] constant(1)\n z = s32[] constant(0)\n"
        " j = s32[] add(i, o)\n x = f32[3,16] get-tuple-element(s), index=1\n"
        " w = s8[5,16,16] get-tuple-element(s), index=2\n"
        " v = s8[1,16,16] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,16,16}\n u = s8[16,16] reshape(v)\n"
        f" f = f32[16,16] convert(u)\n d = f32[3,16] dot(x, f), {ROWS}\n y = f32[3,16] tanh(d)\n"
        " ROOT t = (s32[], f32[3,16], s8[5,16,16]) tuple(j, y, w)\n}\n\n"
        "more {\n s = (s32[], f32[3,16], s8[5,16,16]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " n = s32[] constant(5)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
        "ENTRY e {\n x = f32[3,16] parameter(0)\n w = s8[5,16,16] parameter(1)\n z = s32[] constant(0)\n"
        " s = (s32[], f32[3,16], s8[5,16,16]) tuple(z, x, w)\n"
        " l = (s32[], f32[3,16], s8[5,16,16]) while(s), condition=more, body=body\n"
        " ROOT y = f32[3,16] get-tuple-element(l), index=1\n}"
    )
    made = parse(text)
    assert any(i.attributes.get("kind") == "kOutput" for i in optimise(made).instructions())
    same_numbers(made, exact=False)


# ---- numbers


def operand(random: Random, name: str, number: int, sizes: tuple[int, int, int], kind: str) -> tuple[list[str], int]:
    """Lines that compute `name`, an array of `kind` and `sizes`, from parameters from `number` on."""
    shape = ",".join(map(str, sizes))
    lines: list[str] = []

    def parameter(row: str, dimensions: str) -> str:
        nonlocal number
        lines.append(f"{name}p{number} = {row}[{dimensions}] parameter({number})")
        number += 1
        return f"{name}p{number - 1}"

    def add(row: str, dimensions: str, text: str) -> str:
        lines.append(f"{name}v{len(lines)} = {row}[{dimensions}] {text}")
        return f"{name}v{len(lines) - 1}"

    whole = kind in ("f16", "bf16") or kind[0] in "su"
    narrow = random.choice(["s8", "u8"] if whole else ["s8", "u8", "s4", "f16", "bf16", "pred"])
    way = random.choice(["plain", "transpose", "slice", "pad", "reverse", "broadcast", "dynamic-slice"])
    b, r, c = sizes
    if way == "transpose":
        value = add(narrow, shape, f"transpose({parameter(narrow, f'{c},{b},{r}')}), dimensions={{1,2,0}}")
    elif way == "slice":
        source = parameter(narrow, f"{b},{r + 3},{2 * c}")
        value = add(narrow, shape, f"slice({source}), slice={{[0:{b}], [3:{r + 3}], [1:{2 * c}:2]}}")
    elif way == "pad":
        source, zero = parameter(narrow, f"{b},{max(r - 2, 1)},{c}"), add(narrow, "", "constant(1)")
        low = min(1, r - 1)
        value = add(narrow, shape, f"pad({source}, {zero}), padding=0_0x{low}_{r - low - max(r - 2, 1)}x0_0")
    elif way == "reverse":
        value = add(narrow, shape, f"reverse({parameter(narrow, shape)}), dimensions={{1,2}}")
    elif way == "broadcast":
        d = random.choice([(0, 1), (1, 2), (0, 2), (2,), (1,)])
        source = parameter(narrow, ",".join(str(sizes[k]) for k in d))
        value = add(narrow, shape, f"broadcast({source}), dimensions={{{','.join(map(str, d))}}}")
    elif way == "dynamic-slice":
        source, start = parameter(narrow, f"{b},{r + 4},{c}"), parameter("s32", "")
        zero = add("s32", "", "constant(0)")
        value = add(
            narrow, shape, f"dynamic-slice({source}, {zero}, {start}, {zero}), dynamic_slice_sizes={{{shape}}}"
        )
    else:
        value = parameter(narrow, shape)
    value = add(kind, shape, f"convert({value})")
    for step in random.sample(["scale", "zero", "relu", "select", "negate"], random.randint(0, 3)):
        if step in ("scale", "zero"):
            d = random.choice([(), (0,), (1,), (2,), (0, 2), (0, 1)])
            vector = parameter(kind, ",".join(str(sizes[k]) for k in d))
            spread = add(kind, shape, f"broadcast({vector}), dimensions={{{','.join(map(str, d))}}}")
            value = add(kind, shape, f"{'multiply' if step == 'scale' else 'subtract'}({value}, {spread})")
        elif step == "relu" and kind[0] != "c":
            nought = add(kind, shape, f"broadcast({add(kind, '', 'constant(0)')}), dimensions={{}}")
            value = add(kind, shape, f"maximum({value}, {nought})")
        elif step == "select":
            mask = parameter("pred", shape)
            nought = add(kind, shape, f"broadcast({add(kind, '', 'constant(0)')}), dimensions={{}}")
            value = add(kind, shape, f"select({mask}, {value}, {nought})")
        elif step == "negate":
            value = add(kind, shape, f"negate({value})")
    lines.append(f"{name} = {kind}[{shape}] copy({value})")
    return lines, number


def drawn(seed: int, thin: Sequence[int], kinds: Sequence[str], both: bool = False, wish: str = "") -> Module:
    """A batched dot, one operand or both with a prologue of some steps, with some transposition."""
    random = Random(seed)
    kind = random.choice(kinds)
    batch, small, large = random.choice([1, 1, 2, 3]), random.choice(thin), random.choice([1, 5, 16, 33, 70])
    k = random.choice([1, 3, 16, 37, 130])
    right = random.random() < 0.6
    m, n = (small, large) if right else (large, small)
    ls = (batch, m, k) if (left_last := random.random() < 0.5) else (batch, k, m)
    rs = (batch, k, n) if (right_first := random.random() < 0.5) else (batch, n, k)
    made = {"l", "r"} if both else {"r"} if right else {"l"}
    lines: list[str] = []
    number = 0
    for name, sizes in (("l", ls), ("r", rs)):
        if name in made:
            own, number = operand(random, name, number, sizes, kind)
            lines += own
        else:
            lines.append(f"{name} = {kind}[{','.join(map(str, sizes))}] parameter({number})")
            number += 1
    result = {"s8": "s32", "u8": "u32"}.get(kind, kind)
    lines.append(
        f"ROOT d = {result}[{batch},{m},{n}] dot(l, r), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        f"lhs_contracting_dims={{{2 if left_last else 1}}}, rhs_contracting_dims={{{1 if right_first else 2}}}{wish}"
    )
    return module("\n".join(lines))


REALS = ["f32", "f32", "f64", "bf16", "f16", "s8", "u8", "s32"]


@pytest.mark.parametrize("seed", range(60))
def test_thin_products(seed: int) -> None:
    machine = MACHINES[seed % len(MACHINES)]
    made = drawn(seed, [1, 1, 2, 4, 7, 8], REALS, both=seed % 5 == 0)
    same_numbers(made, machine)


@pytest.mark.parametrize("seed", range(60))
def test_thick_products(seed: int) -> None:
    machine = MACHINES[seed % len(MACHINES)]
    made = drawn(seed, [9, 16, 33, 70, 300], REALS, both=seed % 5 == 0, wish=', frontend_attributes={fuse="always"}')
    same_numbers(made, machine)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.vector_bits}")
@pytest.mark.parametrize("m", [20, 300])
def test_what_is_asked_for(machine: Machine, m: int) -> None:
    """Both operands, the right one across the panels and in groups, though neither is worth it."""
    text = (
        "v = s8[37,@] parameter(0)\nu = s8[@,37] transpose(v), dimensions={1,0}\na = f32[@,37] convert(u)\n"
        "e = f32[@,37] negate(a)\nw = u8[50,37] parameter(1)\nb = f32[50,37] convert(w)\nq = f32[1850] reshape(b)\n"
        "i = f32[1850] iota(), iota_dimension=0\nj = f32[1850] floor(i)\np = f32[1850] add(q, j)\n"
        "c = f32[50,37] reshape(p)\n"
        f'ROOT y = f32[@,50] dot(e, c), {ROWS[:-2]}1}}, frontend_attributes={{fuse="always"}}'
    )
    made = module(text.replace("@", str(m)))
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, machine)


@bf16_machines
@pytest.mark.parametrize("k", [32, 64, 37])
@pytest.mark.parametrize("k_first", [True, False])
def test_pairs_of_bf16(machine: Machine, k: int, k_first: bool) -> None:
    """Where processors multiply bf16 numbers in pairs, or tiles of them, pairs are what is packed."""
    sizes, dims = (f"{k},70", ROWS) if k_first else (f"70,{k}", ROWS[:-2] + "1}")
    text = (
        f"a = bf16[40,{k}] parameter(0)\nw = f32[{sizes}] parameter(1)\nh = f32[] constant(0.5)\n"
        f"hb = f32[{sizes}] broadcast(h), dimensions={{}}\ns = f32[{sizes}] multiply(w, hb)\n"
        f"b = bf16[{sizes}] convert(s)\nROOT d = f32[40,70] dot(a, b), {dims}"
    )
    made = module(text)
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, machine)


@pytest.mark.parametrize("seed", range(4))
def test_complex_numbers(seed: int) -> None:
    text = (
        "a = c64[@,40] parameter(0)\nr = f32[40,30] parameter(1)\ni = f32[40,30] parameter(2)\n"
        f"b = c64[40,30] complex(r, i)\nROOT d = c64[@,30] dot(a, b), {ROWS}"
    )
    made = module(text.replace("@", str(1 + seed)))
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, MACHINES[seed % len(MACHINES)])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.vector_bits}")
@pytest.mark.parametrize("k_first", [True, False])
def test_sums_in_parts(machine: Machine, k_first: bool) -> None:
    """Sums so long that they are divided, with a last part that is shorter."""
    sizes, dims = ("4111,64", ROWS) if k_first else ("64,4111", ROWS[:-2] + "1}")
    text = f"a = f32[2,4111] parameter(0)\nw = s8[{sizes}] parameter(1)\nb = f32[{sizes}] convert(w)\n"
    made = module(text + f"d = f32[2,64] dot(a, b), {dims}\nROOT y = f32[2,64] negate(d)")
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, machine)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("between", [True, False])
def test_four_bits(m: int, between: bool) -> None:
    """Two weights in a byte: neighbours, or in the first and the second half of the rows."""
    shapes = ("128,2,40", "128,1,40", "dimensions={1}") if between else ("2,128,40", "1,128,40", "dimensions={0}")
    text = (
        "a = f32[@,256] parameter(0)\nw = u8[128,40] parameter(1)\ns = f32[8,40] parameter(2)\nf = u8[] constant(15)\n"
        "fb = u8[128,40] broadcast(f), dimensions={}\nl = u8[128,40] and(w, fb)\ng = u8[] constant(4)\n"
        "gb = u8[128,40] broadcast(g), dimensions={}\nh = u8[128,40] shift-right-logical(w, gb)\n"
        "lr = u8[$] reshape(l)\nhr = u8[$] reshape(h)\nc = u8[%] concatenate(lr, hr), &\nb = f32[%] convert(c)\n"
        "r = f32[8,32,40] reshape(b)\nsb = f32[8,32,40] broadcast(s), dimensions={0,2}\n"
        "p = f32[8,32,40] multiply(r, sb)\nq = f32[256,40] reshape(p)\n"
        f"ROOT d = f32[@,40] dot(a, q), {ROWS}"
    )
    for sign, what in zip("%$&@", (*shapes, str(m)), strict=True):
        text = text.replace(sign, what)
    made = module(text)
    assert kinds(fused(made)[0]) == ["kOutput"]
    arguments = whole_numbers(made, 5)
    arguments[1] = np.random.default_rng(5).integers(0, 256, (128, 40)).astype(np.uint8)
    if between:
        assert "icmp sge" not in compile_module(made, threads=1).text("llvm")  # nothing is chosen
    same_numbers(made, MACHINES[m % len(MACHINES)], arguments)


def test_loops_behind_loops() -> None:
    """A concatenation too large for the loop that reads it is still computed where the product reads."""
    text = (
        "a = f32[2,1024] parameter(0)\nw = u8[512,1,80] parameter(1)\nf = u8[] constant(4)\n"
        "fb = u8[512,1,80] broadcast(f), dimensions={}\nh = u8[512,1,80] shift-right-logical(w, fb)\n"
        "v = u8[512,1,80] parameter(2)\nc = u8[512,2,80] concatenate(v, h), dimensions={1}\n"
        f"b = f32[512,2,80] convert(c)\nq = f32[1024,80] reshape(b)\nROOT d = f32[2,80] dot(a, q), {ROWS}"
    )
    made = module(text)
    result, log = fused(made)
    assert kinds(result) == ["kOutput"]
    assert sum(d.rule == "prologue" for d in log) == 2
    same_numbers(made)


@pytest.mark.parametrize("m", [1, 3])
def test_not_a_number_and_infinity(m: int) -> None:
    made = module(scaled(m).replace("s8", "f32").replace("convert", "abs"))
    arguments = whole_numbers(made, 2)
    arguments[0][0, 3], arguments[1][5, 7], arguments[2][11] = np.inf, np.nan, -np.inf
    same_numbers(made, arguments=arguments)


def test_low_precision_is_rounded_at_each_step() -> None:
    """Of bf16 weights the scaled value is a bf16 too, whatever the sum is made in."""
    text = (
        "a = bf16[2,50] parameter(0)\nw = s8[50,30] parameter(1)\ns = bf16[30] parameter(2)\n"
        "b = bf16[50,30] convert(w)\nt = bf16[50,30] broadcast(s), dimensions={1}\nc = bf16[50,30] multiply(b, t)\n"
        "u = bf16[50,30] add(c, t)\n"
        f"ROOT d = f32[2,30] dot(a, u), {ROWS}"
    )
    made = module(text)
    assert kinds(fused(made)[0]) == ["kOutput"]
    generator = np.random.default_rng(7)
    bf16 = DTYPES["bf16"]
    arguments = [
        np.zeros((2, 50), bf16), generator.integers(-127, 127, (50, 30)).astype(np.int8),
        generator.standard_normal(30).astype(bf16),
    ]
    arguments[0][0, 17] = arguments[0][1, 49] = 1  # picks single elements: no sum to round
    same_numbers(made, arguments=arguments)
