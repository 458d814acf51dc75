"""Products fused with what reads them: which are, HLO before and after, and the same numbers to the bit."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from test_gemm import MACHINES

from hlotool.analysis.costs import Costs
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.in_place import in_place_pairs
from hlotool.analysis.product_epilogue import fused_product
from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module, optimise
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import compare_with_truth
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Instruction, Module, clone_module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.select import without
from hlotool.passes.fuse import product_fusion
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n\n"
UNFUSED = without(parse_pipeline("default"), frozenset(["product-fusion"]))
COSTS = Costs()


def product(m: int, k: int, n: int) -> str:
    return (
        f"a = f32[{m},{k}] parameter(0)\nb = f32[{k},{n}] parameter(1)\nc = f32[{n}] parameter(2)\n"
        f"r = f32[{m},{n}] parameter(3)\nd = f32[{m},{n}] dot(a, b), {DIMS}\n"
        f"cb = f32[{m},{n}] broadcast(c), dimensions={{1}}\ns = f32[{m},{n}] add(d, cb)\n"
    )


def module(body: str, before: str = "") -> Module:
    made = parse(f"HloModule m\n\n{before}ENTRY e {{\n{body}\n}}\n")
    check(made)
    return made


def fused(made: Module) -> tuple[Module, DecisionLog]:
    log = DecisionLog()
    result = optimise(made, log=log)
    check(result)
    return result, log


def kinds(made: Module) -> list[str]:
    """What runs in the entry: opcodes, of fusions the kind."""
    return [
        i.attributes.get("kind", i.opcode)
        for i in made.entry
        if i.opcode not in ("parameter", "tuple", "get-tuple-element", "reshape")
    ]


def same_numbers(made: Module, machine: Machine | None = None, exact: bool = True, seed: int = 1) -> None:
    """Fused on one and two threads: the bits of separate kernels; or, not `exact`, within the bounds of the truth."""
    arguments = random_inputs(made, seed)
    plain = compile_module(made, pipeline=UNFUSED, machine=machine, threads=1)(*arguments)
    bounds = () if exact else bounded_results(made, arguments)
    for threads in (1, 2):
        found = compile_module(made, machine=machine, threads=threads)(*arguments)
        if exact:
            assert [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in plain]
        else:
            assert all(one.ok for one in compare_with_truth(found, bounds))


# ---- before and after


def test_a_fusion_is_looked_at_once_however_many_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[str]()

    def counted(fusion: Instruction) -> object:
        asked[fusion.name] += 1
        return fused_product(fusion)

    monkeypatch.setattr(product_fusion, "fused_product", counted)
    readers = "\n".join(f"p{k} = f32[8,8] parameter({k + 2})\nr{k} = f32[8,8] add(y, p{k})" for k in range(5))
    body = "a = f32[8,8] parameter(0)\nb = f32[8,8] parameter(1)\n"
    optimise(parse(
        f"HloModule m\nf {{\n{body}d = f32[8,8] dot(a, b), {DIMS}\nROOT t = f32[8,8] tanh(d)\n}}\n"
        f"ENTRY e {{\n{body}y = f32[8,8] fusion(a, b), kind=kOutput, calls=f\n{readers}\n"
        f"ROOT s = ({', '.join(['f32[8,8]'] * 5)}) tuple({', '.join(f'r{k}' for k in range(5))})\n}}\n"
    ), "product-fusion")  # fmt: skip
    assert asked["y"] == 1


def test_the_product_stays_a_result_where_others_read_it() -> None:
    body = "y = f32[8,24] tanh(s)\ne = f32[24,8] transpose(d), dimensions={1,0}\n"
    made = module(product(8, 16, 24) + body + "ROOT z = (f32[8,24], f32[24,8]) tuple(y, e)")
    result, _ = fused(made)
    assert "kOutput" in kinds(result)
    assert sum(i.opcode == "dot" for i in result.instructions()) == 1
    same_numbers(made)


def test_results_of_several_types_and_the_product() -> None:
    body = (
        "t = f32[70,50] tanh(s)\nh = bf16[70,50] convert(t)\nz = f32[70,50] broadcast(q), dimensions={}\n"
        "p = pred[70,50] compare(s, z), direction=GT\nw = f64[70,50] convert(d)\n"
    )
    root = "ROOT o = (bf16[70,50], pred[70,50], f64[70,50], f32[70,50]) tuple(h, p, w, d)"
    made = module("q = f32[] constant(0)\n" + product(70, 40, 50) + body + root)
    assert kinds(fused(made)[0])[0] == "kOutput"
    same_numbers(made)


def test_an_lstm_cell_is_one_kernel() -> None:
    gates = "".join(f"g{k} = f32[8,6] slice(s), slice={{[0:8], [{6 * k}:{6 * k + 6}]}}\n" for k in range(4))
    cell = "u = f32[8,6] tanh(g0)\nv = f32[8,6] multiply(u, g1)\nw = f32[8,6] add(g2, g3)\n"
    made = module(product(8, 6, 24) + gates + cell + "ROOT y = f32[8,6] multiply(v, w)")
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made)


def softmax(m: int, n: int, k: int = 16) -> str:
    return product(m, k, n) + (
        f"z = f32[] constant(0)\nx = f32[{m},{n}] exponential(s)\nt = f32[{m}] reduce(x, z), dimensions={{1}}, "
        f"to_apply=add\ntb = f32[{m},{n}] broadcast(t), dimensions={{0}}\nROOT y = f32[{m},{n}] divide(x, tb)"
    )


def streams(m: int, k: int, n: int) -> str:
    """A reader that goes through four arrays beside the product."""
    sums = f"u = f32[{m},{n}] add(s, r)\nv = f32[{m},{n}] negate(u)\nw = f32[{m},{n}] multiply(v, s)\n"
    return product(m, k, n) + sums + f"ROOT y = (f32[{m},{n}], f32[{m},{n}], f32[{m},{n}]) tuple(u, v, w)"


@pytest.mark.parametrize(("m", "k", "n"), [(512, 16, 256), (203, 33, 701)])
def test_readers_of_many_arrays_get_whole_rows(m: int, k: int, n: int) -> None:
    made = module(streams(m, k, n))
    result, _ = fused(made)
    assert kinds(result) == ["kOutput"]
    assert [found[1].whole_rows for i in result.entry if (found := fused_product(i)) is not None] == [True]
    same_numbers(made)


@pytest.mark.parametrize(("m", "n"), [(3, 17), (64, 100), (65, 129), (1, 40)])
def test_whole_rows(m: int, n: int) -> None:
    made = module(softmax(m, n), ADD)
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, exact=False)


def test_twice_is_once_and_text_is_enough() -> None:
    made = module(softmax(20, 30), ADD)
    once, _ = fused(made)
    assert print_module(fused(once)[0]) == print_module(once)
    assert print_module(fused(parse(print_module(once)))[0]) == print_module(once)
    undone = clone_module(once)
    run_pipeline(undone, parse_pipeline("call-inliner{fusions=foreign}"))
    assert kinds(undone) == ["kOutput"]
    undone.attributes.clear()
    run_pipeline(undone, parse_pipeline("unfuse"))
    assert "kOutput" not in kinds(undone)


def test_an_operand_is_updated_in_place() -> None:
    """The state of a loop is the sum's other operand: the product may not lie where the state does."""
    text = (
        "HloModule m\n\nbody {\n s = (s32[], f32[40,40]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " o = s32[] constant(1)\n j = s32[] add(i, o)\n w = f32[40,40] get-tuple-element(s), index=1\n"
        " q = f32[40,40] iota(), iota_dimension=0\n h = f32[] constant(0.001)\n"
        " hb = f32[40,40] broadcast(h), dimensions={}\n p = f32[40,40] multiply(q, hb)\n"
        f" u = f32[40,40] sine(p)\n d = f32[40,40] dot(u, p), {DIMS}\n e = f32[40,40] add(w, d)\n"
        " ROOT t = (s32[], f32[40,40]) tuple(j, e)\n}\n\n"
        "condition {\n s = (s32[], f32[40,40]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " n = s32[] constant(50)\n ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
        "ENTRY e {\n w = f32[40,40] parameter(0)\n z = s32[] constant(0)\n s = (s32[], f32[40,40]) tuple(z, w)\n"
        " ROOT r = (s32[], f32[40,40]) while(s), condition=condition, body=body\n}\n"
    )
    same_numbers(parse(text))


# ---- what is written into a part of an array

TANH = "g = f32[@] tanh(d)"
NORM = (  # a row at a time: its sum, and the old state at the element that is written
    "x = f32[@] tanh(d)\nf = f32[] constant(0)\na = f32[#] reduce(x, f), dimensions={1}, to_apply=add\n"
    "b = f32[@] broadcast(a), dimensions={0}\nc = f32[@] subtract(x, b)\ne = f32[@] multiply(c, h)\ng = f32[@] tanh(e)"
)
MOVED = (  # the old row at other places than the one that is written
    "f = f32[] constant(0)\na = f32[#] reduce(h, f), dimensions={1}, to_apply=add\n"
    "b = f32[@] broadcast(a), dimensions={0}\nc = f32[@] subtract(d, b)\ng = f32[@] tanh(c)"
)


def scan(steps: int, m: int, n: int, cell: str, stored: str) -> Module:
    """A loop whose state `h`, of m x n numbers, becomes the `g` of a `cell`, which stores a result for each step."""
    state = f"(s32[], f32[{m},{n}], f32[{steps},{m},{n}], f32[{n},{n}])"
    cell = cell.replace("@", f"{m},{n}").replace("#", f"{m}")
    return parse(
        f"HloModule m\n\n{ADD}body {{\ns = {state} parameter(0)\ni = s32[] get-tuple-element(s), index=0\n"
        f"h = f32[{m},{n}] get-tuple-element(s), index=1\ny = f32[{steps},{m},{n}] get-tuple-element(s), index=2\n"
        f"w = f32[{n},{n}] get-tuple-element(s), index=3\no = s32[] constant(1)\nj = s32[] add(i, o)\n"
        f"d = f32[{m},{n}] dot(h, w), {DIMS}\n{cell}\nq = f32[1,{m},{n}] reshape({stored})\nz = s32[] constant(0)\n"
        f"u = f32[{steps},{m},{n}] dynamic-update-slice(y, q, i, z, z)\nROOT t = {state} tuple(j, g, u, w)\n}}\n\n"
        f"condition {{\ns = {state} parameter(0)\ni = s32[] get-tuple-element(s), index=0\n"
        f"k = s32[] constant({steps})\nROOT c = pred[] compare(i, k), direction=LT\n}}\n\n"
        f"ENTRY e {{\nh = f32[{m},{n}] parameter(0)\ny = f32[{steps},{m},{n}] parameter(1)\n"
        f"w = f32[{n},{n}] parameter(2)\nz = s32[] constant(0)\ns = {state} tuple(z, h, y, w)\n"
        f"ROOT r = {state} while(s), condition=condition, body=body\n}}\n"
    )


@pytest.mark.parametrize(
    ("cell", "stored", "in_place"),
    [
        (TANH, "g", {2}),  # another task reads the same rows of the old state
        (NORM, "g", {1, 2}),
        (NORM, "e", {1, 2}),
        (MOVED, "g", {2}),
    ],
)
@pytest.mark.parametrize(("steps", "m", "n"), [(12, 8, 24), (9, 70, 33), (11, 1, 40)])
def test_steps_of_a_scan_go_where_they_belong(
    cell: str, stored: str, in_place: set[int], steps: int, m: int, n: int
) -> None:
    made = scan(steps, m, n, cell, stored)
    (loop,) = (i for i in fused(made)[0].instructions() if i.opcode == "while")
    (kernel,) = (i for i in loop.attributes["body"] if i.opcode == "fusion")
    assert kernel.attributes["kind"] == "kOutput"
    assert {kernel.operands[number].attributes["index"] for _, number in in_place_pairs(kernel)} == in_place
    same_numbers(made)


ARRAY = "y = f32[9,8,24] parameter(4)\ni = s32[] parameter(5)\no = s32[] constant(0)\n"
UPDATE = "q = f32[1,8,24] reshape(t)\nu = f32[9,8,24] dynamic-update-slice(y, q, i, o, o)\n"
LESS = "less {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT\n}\n\n"


@pytest.mark.parametrize("of", ["s", "d"])
def test_an_array_that_others_need_is_copied_ahead(of: str) -> None:
    body = f"t = f32[8,24] tanh({of})\n{UPDATE}v = f32[9,8,24] sort(y), dimensions={{0}}, to_apply=less\n"
    root = "ROOT z = (f32[9,8,24], f32[9,8,24], f32[8,24]) tuple(u, v, t)"
    made = module(product(8, 16, 24) + ARRAY + body + root, LESS)
    assert sorted(kinds(fused(made)[0])) == ["kOutput", "sort"]
    for seed in range(4):
        same_numbers(made, seed=seed)


@pytest.mark.parametrize(
    "body",
    [
        f"t = f32[8,24] tanh(s)\n{UPDATE}ROOT z = f32[9,8,24] negate(u)",  # all of the array is read behind
        "t = f32[8,24] tanh(s)\np = s32[8,24] convert(t)\nl = s32[1,1] slice(p), slice={[0:1], [0:1]}\n"
        "j = s32[] reshape(l)\nq = f32[1,8,24] reshape(t)\n"
        "ROOT z = f32[9,8,24] dynamic-update-slice(y, q, j, o, o)",  # it says itself where it goes
        "t = f32[8,24] tanh(s)\ng = f32[8,24] sort(t), dimensions={0}, to_apply=less\nk = f32[1,8,24] reshape(g)\n"
        f"x = f32[9,8,24] dynamic-update-slice(y, k, o, o, o)\n{UPDATE.replace('(y', '(x')}"
        "ROOT z = f32[9,8,24] copy(u)",  # the array holds what was made of it
    ],
)
def test_updates_by_what_depends_on_them(body: str) -> None:
    made = module(product(8, 16, 24) + ARRAY + body, LESS)
    check(fused(made)[0])
    for seed in range(3):
        same_numbers(made, seed=seed)


# ---- numbers


def drawn(kind: str, seed: int) -> Module:
    """A product with a random form and random readers."""
    random = Random(f"{kind} {seed}")
    out = {"s8": "s32"}.get(kind, kind)

    def extent(high: int) -> int:
        return random.choice([1, 2, 3, random.randint(1, high), random.randint(1, high)])

    batch = random.choice([[], [], [extent(4)], [extent(3), extent(3)]])
    m, n = (random.choice([[extent(150)], [extent(9), extent(9)]]) for _ in range(2))
    k, b = extent(random.choice([20, 700])), len(batch)
    turned = random.random() < 0.4, random.random() < 0.4
    left = batch + ([k, *m] if turned[0] else [*m, k])
    right = batch + ([*n, k] if turned[1] else [k, *n])
    result = [*batch, *m, *n]

    def shape(sizes: list[int], element: str = out) -> str:
        return f"{element}[{','.join(map(str, sizes))}]"

    def numbers(items: Any) -> str:
        return "{" + ",".join(map(str, items)) + "}"

    lines = [
        f"a = {shape(left, kind)} parameter(0)", f"b = {shape(right, kind)} parameter(1)",
        f"c = {shape(n)} parameter(2)", f"r = {shape(result)} parameter(3)", f"w = {shape([*batch, *m])} parameter(4)",
        f"d = {shape(result)} dot(a, b), lhs_batch_dims={numbers(range(b))}, rhs_batch_dims={numbers(range(b))}, "
        f"lhs_contracting_dims={{{b if turned[0] else b + len(m)}}}, "
        f"rhs_contracting_dims={{{b + len(n) if turned[1] else b}}}",
    ]  # fmt: skip
    now, sizes, outputs = "d", result, []
    for step in range(random.randint(1, 4)):
        name = f"v{step}"
        match random.choice(["columns", "rows", "other", "negate", "tanh", "reshape", "convert"]):
            case "columns" if sizes == result:
                own = numbers(range(b + len(m), len(result)))
                lines.append(f"{name}b = {shape(result)} broadcast(c), dimensions={own}")
                lines.append(f"{name} = {shape(result)} add({now}, {name}b)")
            case "rows" if sizes == result:
                lines.append(f"{name}b = {shape(result)} broadcast(w), dimensions={numbers(range(b + len(m)))}")
                lines.append(f"{name} = {shape(result)} multiply({name}b, {now})")
            case "other" if sizes == result:
                lines.append(f"{name} = {shape(result)} subtract(r, {now})")
            case "tanh" if out != "s32":
                lines.append(f"{name} = {shape(sizes)} tanh({now})")
            case "reshape" if sizes == result:
                sizes = [int(np.prod(result))]
                lines.append(f"{name} = {shape(sizes)} reshape({now})")
            case "convert" if out != "c64":
                other = random.choice(["bf16", "f64", "s16"])
                lines.append(f"{name} = {shape(sizes, other)} convert({now})")
                outputs.append((name, shape(sizes, other)))
                continue
            case _:
                lines.append(f"{name} = {shape(sizes)} negate({now})")
        now = name
    outputs.append((now, shape(sizes)))
    if random.random() < 0.4:
        name, whole = random.choice(outputs)[0], [3, *sizes]
        kind_of = dict(outputs)[name].partition("[")[0]
        starts = ["at"] + ["origin"] * len(sizes)
        lines += [
            f"large = {shape(whole, kind_of)} parameter(5)", "at = s32[] parameter(6)", "origin = s32[] constant(0)",
            f"part = {shape([1, *sizes], kind_of)} reshape({name})",
            f"put = {shape(whole, kind_of)} dynamic-update-slice(large, part, {', '.join(starts)})",
        ]  # fmt: skip
        outputs.append(("put", shape(whole, kind_of)))
    root = f"({', '.join(kind for _, kind in outputs)}) tuple({', '.join(name for name, _ in outputs)})"
    return module("\n".join([*lines, f"ROOT z = {root}"]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16", "s8", "c64"])
def test_bits_are_those_of_separate_kernels(kind: str, seed: int) -> None:
    same_numbers(drawn(kind, seed), seed=seed)


# ---- around every threshold


def around(seed: int) -> Module:
    """A product near every bound that the choice of its readers has, as large as its operands or not, with several
    readers of several arrays, element by element and row by row."""
    random = Random(f"bounds {seed}")
    n = random.choice([1, 2, 255, 256, 257, 512, 2047, 2048, 2049])  # rows of 8 KiB, 64 rows
    size, rows, terms = COSTS.streamed_bytes, COSTS.shared_rows, COSTS.streamed_terms
    m = max(1, random.choice([1, size // 4, size // 4 + n, size]) // n)
    m = random.choice([m, m + 1, 7, rows - 1, rows])
    k = random.choice([1, terms - 1, terms, terms + 1, n, COSTS.repeated_bytes // 4 // n, m])
    k = min(k, 2048)
    convolves = random.random() < 0.25
    out = f"f32[{m},{n}]"
    lines = [f"a = f32[{m},{k}] parameter(0)", f"b = f32[{k},{n}] parameter(1)", f"r = {out} parameter(2)",
             f"s = {out} parameter(3)", "zero = f32[] constant(0)"]  # fmt: skip
    wish = ', frontend_attributes={fuse="always"}' if random.random() < 0.2 else ""
    if random.random() < 0.3:  # made in the kernel, too
        lines += [f"c = s8[{k},{n}] convert(b)", f"w = f32[{k},{n}] convert(c)"]
    else:
        lines.append(f"w = f32[{k},{n}] add(b, b)" if random.random() < 0.3 else f"w = f32[{k},{n}] copy(b)")
    if convolves:
        lines.append(f"d = {out} convolution(a, w), dim_labels=bf_io->bf{wish}")
    else:
        lines.append(f"d = {out} dot(a, w), {DIMS}{wish}")
    arrays, now = ["r", "s", "d"] + ["a"] * (k == n) + ["b"] * (k == m), "d"
    sums = 0
    for step in range(random.randint(1, 6)):
        name = f"v{step}"
        match random.choice(["array", "array", "array", "negate", "sum", "result"]):
            case "array":
                kind = random.choice(["add", "subtract", "maximum"])
                lines.append(f"{name} = {out} {kind}({now}, {random.choice(arrays)})")
            case "sum" if n > 1 and not sums:
                sums += 1
                lines += [f"t{step} = f32[{m}] reduce({now}, zero), dimensions={{1}}, to_apply=add",
                          f"u{step} = {out} broadcast(t{step}), dimensions={{0}}",
                          f"{name} = {out} subtract({now}, u{step})"]  # fmt: skip
            case "result":
                lines.append(f"{name} = {out} negate({now})")
                arrays.append(name)
            case _:
                lines.append(f"{name} = {out} negate({now})")
        now = name
    results = dict.fromkeys([now, *random.sample(arrays, random.randint(0, 3))])
    root = f"({', '.join([out] * len(results))}) tuple({', '.join(results)})"
    if random.random() < 0.3:
        lines += [f"whole = f32[4,{m},{n}] parameter(4)", "at = s32[] parameter(5)", "origin = s32[] constant(0)",
                  f"part = f32[1,{m},{n}] reshape({now})",
                  f"put = f32[4,{m},{n}] dynamic-update-slice(whole, part, at, origin, origin)"]  # fmt: skip
        root = f"({', '.join([out] * len(results))}, f32[4,{m},{n}]) tuple({', '.join(results)}, put)"
    return module("\n".join([*lines, f"ROOT z = {root}"]), ADD)


ORDERS = [
    "default",
    "fusion,product-prologue,product-fusion",
    "fusion,multi-output-fusion,product-fusion,product-fusion",
]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_fused_is_a_kernel(seed: int) -> None:
    """Whoever fuses a product, at whatever cost, makes something that is computed as one."""
    for pipeline in ORDERS:
        result = optimise(around(seed), pipeline)
        check(result)
        for fusion in result.instructions():
            if fusion.attributes.get("kind") == "kOutput":
                assert fused_product(fusion) is not None, print_module(result)


@pytest.mark.parametrize("seed", range(8))
def test_numbers_around_the_thresholds(seed: int) -> None:
    made = around(1000 + seed)
    same_numbers(made, exact=False, seed=seed)


@pytest.mark.parametrize(("m", "k", "n"), [(256, 256, 256), (257, 257, 257), (512, 64, 256), (65, 65, 1009)])
def test_operands_as_large_as_the_result(m: int, k: int, n: int) -> None:
    """The product's own operands are no arrays of the reader, whether it is asked ahead of the fusion or behind it."""
    made = module(product(m, k, n) + f"t = f32[{m},{n}] tanh(d)\nu = f32[{m},{n}] add(t, r)\n"
                  f"ROOT o = (f32[{m},{n}], f32[{m},{n}]) tuple(t, u)")  # fmt: skip
    result, _ = fused(made)
    assert kinds(result) == ["kOutput"]
    (found,) = (fused_product(i) for i in result.entry if i.opcode == "fusion")
    assert found is not None
    assert not found[1].whole_rows
    same_numbers(made)


@pytest.mark.parametrize("machine", MACHINES[1:], ids=lambda machine: f"{machine.vector_bits}")
@pytest.mark.parametrize("seed", range(3))
def test_other_machines(machine: Machine, seed: int) -> None:
    same_numbers(drawn("f32", 100 + seed), machine, seed=seed)
    same_numbers(module(softmax(20, 30), ADD), machine, exact=False)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 300, 500), (500, 300, 1), (1, 1000, 1), (300, 2000, 200), (129, 33, 1025)]
)
def test_shapes_at_the_edge(m: int, k: int, n: int) -> None:
    same_numbers(module(product(m, k, n) + f"t = f32[{m},{n}] tanh(s)\nROOT y = f32[{m},{n}] add(t, r)"))
