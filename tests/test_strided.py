"""Elements a few places apart, read from whole vectors and written into them, up to the ends of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.codegen.machine import named
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.ir import dtype_of, element_type
from hlotool.text.parser import parse

SIZES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65, 130)


def text_of(kind: str, step: int) -> str:
    """For every size: column `step - 1` plus column 0 of an array, put beside the other columns of another one."""
    lines, results, shapes = [], [], []
    for number, size in enumerate(SIZES):
        whole = f"{kind}[{size},{step}]"
        lines.append(f"""
  x{number} = {whole} parameter({2 * number})
  y{number} = {whole} parameter({2 * number + 1})
  a{number} = {kind}[{size},1] slice(x{number}), slice={{[0:{size}], [{step - 1}:{step}]}}
  b{number} = {kind}[{size},1] slice(x{number}), slice={{[0:{size}], [0:1]}}
  c{number} = {kind}[{size},1] add(a{number}, b{number})
  z{number} = {kind}[{size},{step - 1}] slice(y{number}), slice={{[0:{size}], [1:{step}]}}
  r{number} = {whole} concatenate(z{number}, c{number}), dimensions={{1}}""")
        results.append(f"r{number}")
        shapes.append(whole)
    root = f"\n  ROOT r = ({', '.join(shapes)}) tuple({', '.join(results)})"
    return f"HloModule strided\nENTRY e {{{''.join(lines)}{root}\n}}\n"


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s16", "u8", "s4", "pred", "c64"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_columns(kind: str, step: int, cpu: str) -> None:
    text = text_of(kind, step)
    module = parse(text.replace(" add(", " or(") if kind == "pred" else text)
    generator = np.random.default_rng(step)
    low = 0 if element_type(kind).kind in ("unsigned", "pred") else -2
    arguments = [
        generator.integers(low, 3 if kind != "pred" else 2, p.shape.dimensions).astype(dtype_of(kind))
        for p in module.entry.parameters
    ]
    got = compile_module(module, machine=None if cpu == "host" else named(cpu), threads=1)(*arguments)
    for mine, theirs in zip(got, evaluate(module, arguments), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_llvm_comes_to_an_end_with_every_second_small_integer() -> None:
    """Its combiner went round for ever on repeated lanes between masks."""
    text = "HloModule m\nENTRY e { p = pred[17,5]{1,0} parameter(0)\n ROOT r = s4[170,1,1]{0,1,2} bitcast(p) }"
    module, bits = parse(text), np.arange(85).reshape(17, 5) % 3 == 0
    got, want = (compile_module(module, backend)(bits)[0] for backend in ("cpu", "evaluate"))
    np.testing.assert_array_equal(got, want)


def stacked(kind: str, count: int, sizes: tuple[int, ...]) -> str:
    """For every size: the columns of an array in all pairs, sums in the first half and products in the second."""
    lines, results, shapes = [], [], []
    for number, size in enumerate(sizes):
        whole, column = f"{kind}[{size},{count}]", f"{kind}[{size},1]"
        lines.append(f"  x{number} = {whole} parameter({number})")
        for k in range(count):
            lines.append(f"  c{number}_{k} = {column} slice(x{number}), slice={{[0:{size}], [{k}:{k + 1}]}}")
        for k in range(count):
            opcode, other = ("add", "multiply")[2 * k >= count], (k + 1) % count
            lines.append(f"  d{number}_{k} = {column} {opcode}(c{number}_{k}, c{number}_{other})")
        parts = ", ".join(f"d{number}_{k}" for k in range(count))
        lines.append(f"  r{number} = {whole} concatenate({parts}), dimensions={{1}}")
        results.append(f"r{number}")
        shapes.append(whole)
    text = "\n".join([*lines, f"  ROOT r = ({', '.join(shapes)}) tuple({', '.join(results)})"])
    return f"HloModule stacked\nENTRY e {{\n{text}\n}}\n"


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "u8", "c64"])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_columns_that_share_what_they_are_made_of(kind: str, count: int, cpu: str) -> None:
    """They are written together, those of two to four with whole vectors; nothing beyond the ends is touched."""
    module = parse(stacked(kind, count, SIZES))
    generator = np.random.default_rng(count)
    arguments = [generator.integers(0, 4, p.shape.dimensions).astype(dtype_of(kind)) for p in module.entry.parameters]
    got = compile_module(module, machine=None if cpu == "host" else named(cpu), threads=1)(*arguments)
    for mine, theirs in zip(got, evaluate(module, arguments), strict=True):
        assert mine.tobytes() == theirs.tobytes()
