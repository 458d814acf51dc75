"""Long chains in stages: the same bits as in one loop, at every vector width, whatever crosses from one to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_fusion_codegen import WIDTHS, as_fusion, compiled, execute, inputs_for

from hlotool.codegen.cpu.fusions import step
from hlotool.codegen.cpu.fusions.fusion import emit_fusion
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.loops import stages
from hlotool.codegen.machine import named
from hlotool.driver import compile_module
from hlotool.ir import Module, dtype_of
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

LENGTHS = (32768, 33000, 40001)


def chain(kind: str, sizes: str, rounds: int = 4, more: str = "", result: str = "s{0}") -> str:
    """A long computation of x and y in which the first values are wanted to the end."""
    shape = f"{kind}[{sizes}]"
    lines = [f"x = {shape} parameter(0)", f"y = {shape} parameter(1)", f"m = {shape} negate(x)"]
    lines.append(f"s0 = {shape} sine(x)")
    for k in range(rounds):
        lines += [
            f"a{k} = {shape} multiply(s{k}, m)",
            f"b{k} = {shape} tan(a{k})",
            f"c{k} = {shape} add(b{k}, s0)",
            f"d{k} = {shape} tanh(c{k})",
            f"p{k} = pred[{sizes}] compare(d{k}, y), direction=LT",
            f"e{k} = {shape} select(p{k}, d{k}, y)",
            f"s{k + 1} = {shape} cosine(e{k})",
        ]
    lines += [line for line in more.format(rounds).splitlines() if line]
    root = result.format(rounds)
    if "," in root:
        parts = ", ".join(f"{'pred' if n.strip().startswith('p') else kind}[{sizes}]" for n in root.split(","))
        lines.append(f"ROOT r = ({parts}) tuple({root})")
    else:
        lines.append(f"ROOT r = {shape} copy({root})")
    return "ENTRY e {\n " + "\n ".join(lines) + "\n}\n"


def outputs(module: Module, kernel: Kernel, cpu: str, inputs: list[Array], order: str) -> bytes:
    leaves = as_fusion(module).shape.leaves()
    found = [np.full(s.dimensions, 77).astype(dtype_of(s.element_type)) for s in leaves]
    execute(kernel, compiled(kernel, cpu), [*inputs, *found], order)
    return b"".join(o.tobytes() for o in found)


def check(monkeypatch: pytest.MonkeyPatch, text: str, least: int = 2, widths: tuple[str, ...] = WIDTHS) -> None:
    """In at least so many stages, tasks in any order, as without stages."""
    module = parse("HloModule m\n" + text)
    inputs = inputs_for(module)
    for cpu in widths:
        counts: list[int] = []

        def spy(*arguments: Any) -> Any:
            found = stages.stages_of(*arguments)
            counts.append(len(found[0]))  # noqa: B023
            return found

        with monkeypatch.context() as patch:
            patch.setattr(step, "stages_of", spy)
            kernel = emit_fusion("k", as_fusion(module), named(cpu))
            assert max(counts) >= least, counts
            patch.setattr(step, "stages_of", lambda *arguments: ([], {}))
            plain = emit_fusion("k", as_fusion(module), named(cpu))
        want = outputs(module, plain, cpu, inputs, "all")
        for order in ("all", "forwards", "backwards"):
            assert outputs(module, kernel, cpu, inputs, order) == want, (cpu, order)


@pytest.mark.parametrize("n", LENGTHS)
def test_stages_of_odd_sizes(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    check(monkeypatch, chain("f32", str(n)), 3, ("host",) if n < 40000 else WIDTHS)


def test_wide_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, chain("f64", "33000", rounds=2))


def test_what_crosses_may_be_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, chain("f32", "33001", result="s{0}, a0, s1, p0, m, b1"))


def test_rows_of_several_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operand that is the same for every row keeps the loops apart."""
    text = chain("f32", "17,2050", more="w = f32[2050] parameter(2)\nv = f32[17,2050] broadcast(w), dimensions={{1}}\n"
                 "z = f32[17,2050] tanh(v)\nu = f32[17,2050] add(z, s{0})", result="u")  # fmt: skip
    check(monkeypatch, text)


def test_edges_in_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads under conditions."""
    more = "zero = f32[] constant(0.5)\nq = f32[39000] slice(s{0}), slice={{[7:39007]}}\n" \
        "g = f32[40001] pad(q, zero), padding=1001_0\nh = f32[40001] add(g, s{0})"  # fmt: skip
    check(monkeypatch, chain("f32", "40001", more=more, result="h"), widths=("host", "x86-64-v3"))


@pytest.mark.parametrize("donate", [(0,), (1,), (0, 1)])
def test_outputs_may_take_the_place_of_operands(donate: tuple[int, ...]) -> None:
    """Operands are read in every stage, outputs written in the last."""
    module = parse("HloModule m\n" + chain("f32", "40001", result="s{0}, a0, s1"))
    inputs = inputs_for(module)
    want = compile_module(module)(*inputs)
    lent = [x.copy() for x in inputs]
    got = compile_module(module, donate=donate)(*lent)
    assert any(np.shares_memory(a, b) for a in got for b in lent)
    assert [a.tobytes() for a in got] == [b.tobytes() for b in want]


def test_narrow_numbers_do_not_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows hold what registers hold: values of narrow types stay in one stage."""
    module = parse("HloModule m\n" + chain("bf16", "33000"))
    found: list[Any] = []

    def spy(*arguments: Any) -> Any:
        found.append(stages.stages_of(*arguments))
        return found[-1]

    monkeypatch.setattr(step, "stages_of", spy)
    emit_fusion("k", as_fusion(module), named("host"))
    assert not any(n.type == "bf16" for _, rows in found for n in rows)


def test_divisions_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything waits for the unit that divides, stages would only cost."""
    body = "\n ".join(f"d{k + 1} = f32[33000] divide(d{k}, y)" for k in range(40))
    text = f"""ENTRY e {{
 d0 = f32[33000] parameter(0)
 y = f32[33000] parameter(1)
 {body}
 ROOT r = f32[33000] tanh(d40)
}}"""
    with pytest.raises(AssertionError, match="0"):
        check(monkeypatch, text)
