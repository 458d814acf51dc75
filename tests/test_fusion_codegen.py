"""The loop emitter against the reference evaluator, at every vector width, in every order of tasks."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from arguments import table
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.codegen.cpu.fusions.fusion import can_emit, emit_fusion
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import named
from hlotool.evaluate import evaluate
from hlotool.ir import Instruction, Module, UnsupportedError, dtype_of
from hlotool.runtime import callback
from hlotool.runtime.compile import compile_units
from hlotool.runtime.load import Library, load
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]
WIDTHS = ("host", "x86-64-v3", "x86-64-v2")
ODD = (1, 2, 3, 7, 15, 16, 17, 33)


def region(name: str, opcode: str, kind: str = "f32") -> str:
    return f"{name} {{ a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n ROOT r = {kind}[] {opcode}(a, b)\n}}\n"


def as_fusion(module: Module) -> Instruction:
    entry = module.entry
    return Instruction("fusion", entry.root.shape, entry.parameters, {"calls": entry}, "fusion")


def inputs_for(module: Module, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    arrays = []
    for parameter in module.entry.parameters:
        kind = dtype_of(parameter.shape.element_type)
        sizes = parameter.shape.dimensions
        if np.issubdtype(kind, np.integer):
            arrays.append(rng.integers(0, 7, sizes).astype(kind))
        elif kind == np.bool_:
            arrays.append(rng.integers(0, 2, sizes).astype(kind))
        elif np.issubdtype(kind, np.complexfloating):
            arrays.append((rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)).astype(kind))
        else:
            arrays.append(rng.standard_normal(sizes).astype(kind))
    return [np.asarray(a) for a in arrays]


def compiled(kernel: Kernel, cpu: str) -> Library:
    return load(compile_units([kernel.text], named(cpu)), callback.symbols())


def execute(kernel: Kernel, library: Library, buffers: list[Array], order: str = "all") -> None:
    """Run the steps on `buffers` (operands, then outputs): all tasks at once, or one by one, forwards or backwards."""
    scratch = np.full(kernel.scratch + 64, 0xAA, np.uint8)
    scratch = scratch[-scratch.ctypes.data % 64 :]
    arguments = table(b.ctypes.data for b in [*buffers, scratch])
    for step in kernel.steps:
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            library.address(step.function)
        )
        if order == "all":
            function(arguments, 0, step.tasks)
        else:
            for task in range(step.tasks) if order == "forwards" else reversed(range(step.tasks)):
                function(arguments, task, task + 1)


def check(
    text: str, tolerance: float = 1e-5, inputs: list[Array] | None = None, widths: tuple[str, ...] = WIDTHS,
    tasks: bool = False,
) -> None:  # fmt: skip
    module = parse("HloModule m\n" + text)
    inputs = inputs_for(module) if inputs is None else inputs
    want = evaluate(module, inputs)
    fusion = as_fusion(module)
    assert can_emit(fusion)
    for cpu in widths:
        kernel = emit_fusion("k", fusion, named(cpu))
        if tasks:
            assert max(step.tasks for step in kernel.steps) > 1
        library = compiled(kernel, cpu)
        seen: list[bytes] = []
        for order in ("all", "forwards", "backwards"):
            outputs = [np.full(s.dimensions, 77).astype(dtype_of(s.element_type)) for s in fusion.shape.leaves()]
            execute(kernel, library, [*inputs, *outputs], order)
            bits = b"".join(o.tobytes() for o in outputs)
            seen.append(bits)
            if order == "all":
                for got, right in zip(outputs, want, strict=True):
                    wide = np.complex128 if np.iscomplexobj(right) else np.float64
                    np.testing.assert_allclose(
                        got.astype(wide), right.astype(wide), rtol=tolerance, atol=tolerance, err_msg=f"{cpu}\n{text}"
                    )
        assert seen[0] == seen[1] == seen[2], "the result depends on how tasks are split"


@pytest.mark.parametrize("n", ODD)
def test_elementwise_of_odd_sizes(n: int) -> None:
    check(f"""ENTRY e {{ x = f32[{n},3] parameter(0)
 y = f32[{n},3] parameter(1)
 p = f32[{n},3] multiply(x, y)
 s = f32[{n},3] add(p, x)
 c = pred[{n},3] compare(s, y), direction=LT
 k = f32[] constant(2)
 kb = f32[{n},3] broadcast(k), dimensions={{}}
 ROOT r = f32[{n},3] select(c, s, kb)
}}""")


@pytest.mark.parametrize("kind", ["f64", "bf16", "f16", "s8", "u8", "s16", "s64", "u32", "c64", "c128", "s4"])
def test_element_types(kind: str) -> None:
    check(
        f"""ENTRY e {{ x = {kind}[37] parameter(0)
 y = {kind}[5,37] parameter(1)
 b = {kind}[5,37] broadcast(x), dimensions={{1}}
 s = {kind}[5,37] add(b, y)
 m = {kind}[5,37] multiply(s, s)
 ROOT r = {kind}[37,5] transpose(m), dimensions={{1,0}}
}}""",
        1e-2 if kind in ("bf16", "f16") else 1e-5,
    )


def test_conversions_between_widths() -> None:
    check("""ENTRY e { x = s8[70] parameter(0)
 y = f32[70] convert(x)
 z = f64[70] convert(y)
 w = s64[70] convert(z)
 p = pred[70] compare(z, z), direction=EQ
 ROOT r = (f32[70], f64[70], s64[70], pred[70]) tuple(y, z, w, p)
}""")


PAIRS = [("u64", "f64"), ("s64", "f64"), ("u32", "f32"), ("s32", "f32"), ("f32", "u32")]


@pytest.mark.parametrize(("kind", "to"), PAIRS)
def test_conversions_of_transposed_edges(kind: str, to: str) -> None:
    """A block of nine rows leaves one for the end: LLVM converted another lane there than the one that was stored."""
    for rows, columns in ((9, 9), (17, 33), (33, 17)):
        check(f"""ENTRY e {{ x = {kind}[{rows},{columns}] parameter(0)
 t = {kind}[{columns},{rows}] transpose(x), dimensions={{1,0}}
 ROOT r = {to}[{columns},{rows}] convert(t)
}}""")


MOVEMENT = {
    "transpose 4d": """ENTRY e { x = f32[3,5,7,9] parameter(0)
 ROOT r = f32[9,5,3,7] transpose(x), dimensions={3,1,0,2}
}""",
    "reshape mixing": """ENTRY e { x = f32[6,4] parameter(0)
 y = f32[4] parameter(1)
 b = f32[6,4] broadcast(y), dimensions={1}
 s = f32[6,4] add(x, b)
 ROOT r = f32[8,3] reshape(s)
}""",
    "reshape and transpose": """ENTRY e { x = f32[4,6,10] parameter(0)
 y = f32[4,60] reshape(x)
 z = f32[60,4] transpose(y), dimensions={1,0}
 ROOT r = f32[6,40] reshape(z)
}""",
    "heads": """ENTRY e { x = f32[2,17,24] parameter(0)
 y = f32[2,17,3,8] reshape(x)
 z = f32[2,3,17,8] transpose(y), dimensions={0,2,1,3}
 ROOT r = f32[6,17,8] reshape(z)
}""",
    "reverse": """ENTRY e { x = f32[5,37] parameter(0)
 ROOT r = f32[5,37] reverse(x), dimensions={0,1}
}""",
    "slice with strides": """ENTRY e { x = f32[50,40] parameter(0)
 ROOT r = f32[12,17] slice(x), slice={[1:48:4],[3:37:2]}
}""",
    "pad": """ENTRY e { x = f32[5,17] parameter(0)
 z = f32[] parameter(1)
 y = f32[5,17] negate(x)
 ROOT r = f32[9,50] pad(y, z), padding=1_3x2_15_1
}""",
    "negative pad": """ENTRY e { x = f32[9,40] parameter(0)
 z = f32[] parameter(1)
 ROOT r = f32[7,36] pad(x, z), padding=-2_0x-5_1
}""",
    "pad bytes": """ENTRY e { x = s8[9,40] parameter(0)
 z = s8[] parameter(1)
 ROOT r = s8[12,80] pad(x, z), padding=2_1x20_20
}""",
    "pad to the right": """ENTRY e { x = f32[3,5] parameter(0)
 z = f32[] constant(0)
 ROOT r = f32[3,33] pad(x, z), padding=0_0x0_28
}""",
    "pad then reshape": """ENTRY e { x = f32[5,6] parameter(0)
 z = f32[] constant(3)
 p = f32[8,8] pad(x, z), padding=2_1x1_1
 q = f32[4,16] reshape(p)
 t = f32[16,4] transpose(q), dimensions={1,0}
 ROOT r = f32[16,4] negate(t)
}""",
    "concatenate minor": """ENTRY e { x = f32[5,17] parameter(0)
 y = f32[5,1] parameter(1)
 z = f32[5,30] parameter(2)
 n = f32[5,30] negate(z)
 ROOT r = f32[5,48] concatenate(x, y, n), dimensions={1}
}""",
    "concatenate major": """ENTRY e { x = s32[5,17] parameter(0)
 y = s32[2,17] parameter(1)
 c = s32[7,17] concatenate(x, y), dimensions={0}
 ROOT r = s32[7,17] add(c, c)
}""",
    "concatenate transposed": """ENTRY e { x = f32[5,17] parameter(0)
 y = f32[5,16] parameter(1)
 c = f32[5,33] concatenate(x, y), dimensions={1}
 ROOT r = f32[33,5] transpose(c), dimensions={1,0}
}""",
    "concatenate many": """ENTRY e { x = f32[5,17] parameter(0)
 y = f32[5,1] parameter(1)
 n = f32[5,17] negate(x)
 c = f32[5,54] concatenate(x, y, n, y, y, x), dimensions={1}
 ROOT r = f32[5,54] abs(c)
}""",
    "concatenate both ways": """ENTRY e { x = f32[5,17] parameter(0)
 y = f32[5,1] parameter(1)
 a = f32[5,18] concatenate(x, y), dimensions={1}
 b = f32[5,18] concatenate(y, x), dimensions={1}
 ROOT c = f32[15,18] concatenate(a, b, a), dimensions={0}
}""",
    "iota": """ENTRY e { x = f32[5,37] parameter(0)
 i = s32[5,37] iota(), iota_dimension=1
 j = s32[5,37] iota(), iota_dimension=0
 c = pred[5,37] compare(i, j), direction=LE
 f = f32[5,37] iota(), iota_dimension=1
 s = f32[5,37] add(x, f)
 z = f32[] constant(0)
 zb = f32[5,37] broadcast(z), dimensions={}
 ROOT r = f32[5,37] select(c, s, zb)
}""",
    "iota of small types": """ENTRY e { i = u8[70] iota(), iota_dimension=0
 j = s64[70] iota(), iota_dimension=0
 k = f64[70] iota(), iota_dimension=0
 ROOT r = (u8[70], s64[70], f64[70]) tuple(i, j, k)
}""",
    "small constant": """ENTRY e { x = f32[4,3] parameter(0)
 c = f32[3] constant({1,2,4})
 b = f32[4,3] broadcast(c), dimensions={1}
 ROOT r = f32[4,3] multiply(x, b)
}""",
    "scalar": """ENTRY e { x = f32[] parameter(0)
 y = f32[] exponential(x)
 ROOT r = f32[1,1] reshape(y)
}""",
    "empty": """ENTRY e { x = f32[0,3] parameter(0)
 ROOT r = f32[0,3] negate(x)
}""",
    "copy with a layout": """ENTRY e { x = f32[4,7]{1,0} parameter(0)
 y = f32[7,4]{0,1} bitcast(x)
 ROOT r = f32[7,4]{1,0} negate(y)
}""",
    "widening bits": """ENTRY e { x = u8[5,9,4] parameter(0)
 ROOT r = f32[5,9] bitcast-convert(x)
}""",
    "narrowing bits": """ENTRY e { x = f32[5,9] parameter(0)
 ROOT r = s16[5,9,2] bitcast-convert(x)
}""",
    "clamp with scalars": """ENTRY e { x = f32[5,9] parameter(0)
 lo = f32[] constant(-0.5)
 hi = f32[] parameter(1)
 ROOT r = f32[5,9] clamp(lo, x, hi)
}""",
    "select by a scalar": """ENTRY e { p = pred[] parameter(0)
 x = f32[5,9] parameter(1)
 y = f32[5,9] parameter(2)
 ROOT r = f32[5,9] select(p, x, y)
}""",
    "stencil": """ENTRY e { x = f32[34,70] parameter(0)
 a = f32[32,68] slice(x), slice={[0:32],[1:69]}
 b = f32[32,68] slice(x), slice={[2:34],[1:69]}
 c = f32[32,68] slice(x), slice={[1:33],[0:68]}
 d = f32[32,68] slice(x), slice={[1:33],[2:70]}
 s = f32[32,68] add(a, b)
 t = f32[32,68] add(c, d)
 u = f32[32,68] add(s, t)
 z = f32[] constant(0)
 ROOT r = f32[34,70] pad(u, z), padding=1_1x1_1
}""",
    "rotary": """ENTRY e { x = f32[3,16,32] parameter(0)
 s = f32[16,32] parameter(1)
 a = f32[3,16,16] slice(x), slice={[0:3],[0:16],[0:16]}
 b = f32[3,16,16] slice(x), slice={[0:3],[0:16],[16:32]}
 n = f32[3,16,16] negate(b)
 c = f32[3,16,32] concatenate(n, a), dimensions={2}
 sb = f32[3,16,32] broadcast(s), dimensions={1,2}
 p = f32[3,16,32] multiply(c, sb)
 ROOT r = f32[3,16,32] add(x, p)
}""",
    "map": region("mul", "multiply") + """ENTRY e { x = f32[3,16] parameter(0)
 y = f32[3,16] parameter(1)
 ROOT r = f32[3,16] map(x, y), dimensions={0,1}, to_apply=mul
}""",
}  # fmt: skip


@pytest.mark.parametrize("name", MOVEMENT)
def test_data_movement(name: str) -> None:
    check(MOVEMENT[name])


RUN_TIME = {
    "dynamic-slice": """ENTRY e { x = f32[9,40] parameter(0)
 i = s32[] parameter(1)
 j = s32[] parameter(2)
 d = f32[4,17] dynamic-slice(x, i, j), dynamic_slice_sizes={4,17}
 ROOT r = f32[4,17] negate(d)
}""",
    "dynamic-update-slice": """ENTRY e { x = f32[9,40] parameter(0)
 u = f32[4,17] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 n = f32[4,17] negate(u)
 ROOT r = f32[9,40] dynamic-update-slice(x, n, i, j)
}""",
    "dynamic-update-slice inside": """ENTRY e { x = f32[9,40] parameter(0)
 u = f32[4,17] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 d = f32[9,40] dynamic-update-slice(x, u, i, j)
 ROOT r = f32[9,40] negate(d)
}""",
}


@pytest.mark.parametrize("name", RUN_TIME)
@pytest.mark.parametrize("at", [(0, 0), (2, 7), (-3, 100), (100, -5)])
def test_run_time_offsets(name: str, at: tuple[int, int]) -> None:
    text = RUN_TIME[name]
    rng = np.random.default_rng(0)
    arrays: list[Array] = [rng.standard_normal((9, 40)).astype(np.float32)]
    if "update" in name:
        arrays.append(rng.standard_normal((4, 17)).astype(np.float32))
    check(text, inputs=[*arrays, *(np.array(a, np.int32) for a in at)])


GATHERS = {
    "rows": """ENTRY e { x = f32[40,30] parameter(0)
 i = s32[16,1] parameter(1)
 ROOT g = f32[16,30] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
 start_index_map={0}, index_vector_dim=1, slice_sizes={1,30}
}""",
    "columns": """ENTRY e { x = f32[40,30] parameter(0)
 i = s64[16,1] parameter(1)
 ROOT g = f32[40,16] gather(x, i), offset_dims={0}, collapsed_slice_dims={1},
 start_index_map={1}, index_vector_dim=1, slice_sizes={40,1}
}""",
    "points": """ENTRY e { x = f32[40,30] parameter(0)
 i = s32[50,2] parameter(1)
 ROOT g = f32[50] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1},
 start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
}""",
    "windows": """ENTRY e { x = f32[40,30] parameter(0)
 i = u8[2,50] parameter(1)
 ROOT g = f32[50,3,5] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={},
 start_index_map={1,0}, index_vector_dim=0, slice_sizes={3,5}
}""",
    "batched": """ENTRY e { x = f32[4,30] parameter(0)
 i = s32[4,7] parameter(1)
 ROOT g = f32[4,7] gather(x, i), offset_dims={}, collapsed_slice_dims={1},
 start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
}""",
}


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str) -> None:
    module = parse("HloModule m\n" + GATHERS[name])
    operand, indices = (p.shape for p in module.entry.parameters)
    rng = np.random.default_rng(1)
    low = 0 if indices.element_type.startswith("u") else -9
    check(
        GATHERS[name],
        inputs=[
            rng.standard_normal(operand.dimensions).astype(np.float32),
            rng.integers(low, 60, indices.dimensions).astype(dtype_of(indices.element_type)),
        ],
    )


@pytest.mark.parametrize("n", ODD)
@pytest.mark.parametrize("dimension", [0, 1])
def test_reductions_of_odd_sizes(n: int, dimension: int) -> None:
    sizes, kept = f"9,{n}", 9 if dimension else n
    check(
        region("add", "add")
        + f"""ENTRY e {{ x = f32[{sizes}] parameter(0)
 z = f32[] parameter(1)
 m = f32[{sizes}] multiply(x, x)
 s = f32[{kept}] reduce(m, z), dimensions={{{dimension}}}, to_apply=add
 ROOT r = f32[{kept}] sqrt(s)
}}""",
        inputs=[np.random.default_rng(2).standard_normal((9, n)).astype(np.float32), np.array(3.0, np.float32)],
    )


@pytest.mark.parametrize(
    ("opcode", "kind", "initial"),
    [
        ("add", "f64", "0"), ("multiply", "f32", "1"), ("maximum", "f32", "-inf"), ("minimum", "f16", "inf"),
        ("add", "bf16", "0"), ("maximum", "s8", "-128"), ("minimum", "u32", "4294967295"), ("and", "s32", "-1"),
        ("or", "pred", "false"), ("and", "pred", "true"), ("xor", "u16", "0"), ("add", "c64", "(0,0)"),
        ("multiply", "c64", "(1,0)"), ("add", "s64", "7"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dimensions", ["0", "1", "0,2", "1,2", "0,1,2"])
def test_reducers(opcode: str, kind: str, initial: str, dimensions: str) -> None:
    sizes = [3, 5, 37]
    gone = [int(d) for d in dimensions.split(",")]
    kept = ",".join(str(s) for d, s in enumerate(sizes) if d not in gone)
    check(
        region("f", opcode, kind)
        + f"""ENTRY e {{ x = {kind}[3,5,37] parameter(0)
 z = {kind}[] constant({initial})
 ROOT s = {kind}[{kept}] reduce(x, z), dimensions={{{dimensions}}}, to_apply=f
}}""",
        2e-2 if kind in ("bf16", "f16") else 1e-4,
        widths=("host", "x86-64-v2"),
    )


ARGMAX = """best { v = f32[] parameter(0)
 i = s32[] parameter(1)
 w = f32[] parameter(2)
 j = s32[] parameter(3)
 gt = pred[] compare(v, w), direction=GT
 nan = pred[] compare(v, v), direction=NE
 a = pred[] or(gt, nan)
 eq = pred[] compare(v, w), direction=EQ
 lt = pred[] compare(i, j), direction=LT
 b = pred[] and(eq, lt)
 c = pred[] or(a, b)
 x = f32[] select(a, v, w)
 k = s32[] select(c, i, j)
 ROOT t = (f32[], s32[]) tuple(x, k)
}
"""


@pytest.mark.parametrize("n", [5, 16, 100])
@pytest.mark.parametrize("dimension", [0, 1])
def test_argmax(n: int, dimension: int) -> None:
    kept = 9 if dimension else n
    check(
        ARGMAX
        + f"""ENTRY e {{ x = f32[9,{n}] parameter(0)
 i = s32[9,{n}] iota(), iota_dimension={dimension}
 lo = f32[] constant(-inf)
 z = s32[] constant(0)
 p = (f32[{kept}], s32[{kept}]) reduce(x, i, lo, z), dimensions={{{dimension}}}, to_apply=best
 v = f32[{kept}] get-tuple-element(p), index=0
 k = s32[{kept}] get-tuple-element(p), index=1
 n = f32[{kept}] negate(v)
 ROOT r = (s32[{kept}], f32[{kept}]) tuple(k, n)
}}"""
    )


def softmax(rows: int, columns: int) -> str:
    return region("add", "add") + region("max", "maximum") + f"""ENTRY e {{ x = f32[{rows},{columns}] parameter(0)
 z = f32[] constant(0)
 lo = f32[] constant(-inf)
 m = f32[{rows}] reduce(x, lo), dimensions={{1}}, to_apply=max
 mb = f32[{rows},{columns}] broadcast(m), dimensions={{0}}
 s = f32[{rows},{columns}] subtract(x, mb)
 e = f32[{rows},{columns}] exponential(s)
 t = f32[{rows}] reduce(e, z), dimensions={{1}}, to_apply=add
 tb = f32[{rows},{columns}] broadcast(t), dimensions={{0}}
 q = f32[{rows},{columns}] divide(e, tb)
 l = f32[{rows}] log(t)
 ROOT r = (f32[{rows},{columns}], f32[{rows}]) tuple(q, l)
}}"""  # fmt: skip


def layernorm(rows: int, columns: int) -> str:
    shape, row = f"f32[{rows},{columns}]", f"f32[{rows}]"
    return region("add", "add") + f"""ENTRY e {{ x = {shape} parameter(0)
 g = f32[{columns}] parameter(1)
 z = f32[] constant(0)
 n = f32[] constant({1 / columns})
 nb = {row} broadcast(n), dimensions={{}}
 s = {row} reduce(x, z), dimensions={{1}}, to_apply=add
 m = {row} multiply(s, nb)
 mb = {shape} broadcast(m), dimensions={{0}}
 d = {shape} subtract(x, mb)
 d2 = {shape} multiply(d, d)
 v = {row} reduce(d2, z), dimensions={{1}}, to_apply=add
 vm = {row} multiply(v, nb)
 i = {row} rsqrt(vm)
 ib = {shape} broadcast(i), dimensions={{0}}
 y = {shape} multiply(d, ib)
 gb = {shape} broadcast(g), dimensions={{1}}
 ROOT r = {shape} multiply(y, gb)
}}"""  # fmt: skip


@pytest.mark.parametrize("columns", [1, 5, 16, 33, 200])
def test_row_groups(columns: int) -> None:
    check(softmax(7, columns))
    if columns > 1:
        check(layernorm(7, columns), 1e-4)


def test_row_group_over_heads() -> None:
    """Softmax over the last dimension of a reshaped and transposed value."""
    check(region("add", "add") + """ENTRY e { x = f32[2,5,24] parameter(0)
 y = f32[2,5,3,8] reshape(x)
 t = f32[2,3,5,8] transpose(y), dimensions={0,2,1,3}
 e = f32[2,3,5,8] exponential(t)
 z = f32[] constant(0)
 s = f32[2,3,5] reduce(e, z), dimensions={3}, to_apply=add
 sb = f32[2,3,5,8] broadcast(s), dimensions={0,1,2}
 ROOT r = f32[2,3,5,8] divide(e, sb)
}""")  # fmt: skip


def test_outputs_of_different_shapes() -> None:
    check(region("add", "add") + """ENTRY e { x = f32[20,33] parameter(0)
 y = f32[20,33] parameter(1)
 p = f32[20,33] multiply(x, y)
 z = f32[] constant(0)
 c = f32[33] reduce(p, z), dimensions={0}, to_apply=add
 w = f32[20] reduce(p, z), dimensions={1}, to_apply=add
 s = f32[] reduce(p, z), dimensions={0,1}, to_apply=add
 ROOT r = (f32[20,33], f32[33], f32[20], f32[]) tuple(p, c, w, s)
}""")  # fmt: skip


def test_sibling_reductions() -> None:
    check(region("add", "add") + region("max", "maximum") + """ENTRY e { x = f32[20,100] parameter(0)
 p = f32[20,100] multiply(x, x)
 z = f32[] constant(0)
 a = f32[20] reduce(x, z), dimensions={1}, to_apply=add
 b = f32[20] reduce(p, z), dimensions={1}, to_apply=add
 c = f32[20] reduce(x, z), dimensions={1}, to_apply=max
 ROOT r = (f32[20], f32[20], f32[20]) tuple(a, b, c)
}""", 1e-4)  # fmt: skip


def test_reduction_of_a_reduction() -> None:
    check(region("add", "add") + region("max", "maximum") + """ENTRY e { x = f32[4,20,33] parameter(0)
 z = f32[] constant(0)
 a = f32[4,33] reduce(x, z), dimensions={1}, to_apply=add
 b = f32[4] reduce(a, z), dimensions={1}, to_apply=max
 bb = f32[4,33] broadcast(b), dimensions={0}
 ROOT r = f32[4,33] subtract(a, bb)
}""", 1e-4)  # fmt: skip


@pytest.mark.parametrize("dimensions", ["1,2", "0,1", "2,3", "0,1,2", "1,2,3", "0,1,2,3", "1,3"])
@pytest.mark.parametrize("window", ["1x2x2x1 stride=1x2x2x1", "2x2x1x2 stride=1x1x2x2", "1x3x2x1 stride=1x1x2x1"])
def test_reduction_of_windows(window: str, dimensions: str) -> None:
    """Loops over the results of windows are one where their elements lie so, not the results."""
    gone = [int(d) for d in dimensions.split(",")]
    sizes, strides = ([int(n) for n in part.split("x")] for part in window.split(" stride="))
    pooled = [(n - size) // stride + 1 for n, size, stride in zip((8, 7, 16, 3), sizes, strides, strict=True)]
    kept = ",".join(str(n) for d, n in enumerate(pooled) if d not in gone)
    check(
        f"""{region("largest", "maximum")}
        {region("sum", "add")}
        ENTRY e {{
            x = f32[8,7,16,3] parameter(0)
            least = f32[] constant(-inf)
            z = f32[] constant(0)
            p = f32[{",".join(map(str, pooled))}] reduce-window(x, least), window={{size={window}}}, to_apply=largest
            ROOT s = f32[{kept}] reduce(p, z), dimensions={{{dimensions}}}, to_apply=sum
        }}"""
    )


def test_many_tasks() -> None:
    exponential = "ENTRY e { x = f32[300001] parameter(0)\n ROOT r = f32[300001] exponential(x)\n}"
    check(exponential, tasks=True, widths=("host",))
    check(softmax(200, 257), tasks=True, widths=("host", "x86-64-v2"))
    check(
        "ENTRY e { x = f32[3,7,9,511] parameter(0)\n y = f32[7,3,511,9] transpose(x), dimensions={1,0,3,2}\n"
        " ROOT r = f32[7,3,511,9] tanh(y)\n}",
        tasks=True, widths=("host",),
    )  # fmt: skip
    check(
        region("add", "add") + """ENTRY e { x = f32[500,400] parameter(0)
 z = f32[] constant(0)
 e = f32[500,400] exponential(x)
 ROOT r = f32[400] reduce(e, z), dimensions={0}, to_apply=add
}""",
        1e-4, tasks=True, widths=("host", "x86-64-v2"),
    )  # fmt: skip


def test_large_reduction_to_a_scalar() -> None:
    for dimensions, kept in (("0,1", ""), ("0", "40")):
        check(
            region("add", "add") + f"""ENTRY e {{ x = f32[9000,40] parameter(0)
 z = f32[] constant(2)
 e = f32[9000,40] exponential(x)
 s = f32[{kept}] reduce(e, z), dimensions={{{dimensions}}}, to_apply=add
 ROOT r = f32[{kept}] log(s)
}}""",
            1e-4, widths=("host", "x86-64-v2"),
        )  # fmt: skip


@pytest.mark.parametrize("offset", [0, 4, 32])
@pytest.mark.parametrize("columns", [64, 100])
def test_streaming_stores(offset: int, columns: int) -> None:
    """Outputs larger than the last cache go past it, but only where they are aligned."""
    module = parse(
        f"HloModule m\nENTRY e {{ x = f32[300,{columns}] parameter(0)\n y = f32[{columns}] parameter(1)\n"
        f" b = f32[300,{columns}] broadcast(y), dimensions={{1}}\n ROOT r = f32[300,{columns}] add(x, b)\n}}"
    )
    x, y = inputs_for(module)
    for cpu in WIDTHS:
        kernel = emit_fusion("k", as_fusion(module), replace(named(cpu), l3=1 << 10))
        assert ("!nontemporal" in kernel.text) == (columns % 16 == 0)
        raw = np.zeros(x.nbytes + 128, np.uint8)
        start = -raw.ctypes.data % 64 + offset
        out = raw[start : start + x.nbytes].view(np.float32).reshape(x.shape)
        execute(kernel, compiled(kernel, cpu), [x, y, out], "backwards")
        np.testing.assert_array_equal(out, x + y)
        assert not raw[:start].any()
        assert not raw[start + x.nbytes :].any()


def test_outputs_in_the_place_of_operands_stay_in_the_caches() -> None:
    """What was read there is in them: written past them, it would have to leave them first."""
    module = parse("HloModule m\nENTRY e { x = f32[300,64] parameter(0)\n ROOT r = f32[300,64] add(x, x)\n}")
    small = replace(named("host"), l3=1 << 10)
    assert "!nontemporal" in emit_fusion("k", as_fusion(module), small).text
    assert "!nontemporal" not in emit_fusion("k", as_fusion(module), small, frozenset({0})).text


@pytest.mark.parametrize("columns", [64, 101])
def test_long_computations_ask_for_operands_ahead(columns: int) -> None:
    """Where no cache can hold the output and computing takes longer than memory: the same numbers."""
    module = parse(
        f"HloModule m\nENTRY e {{ x = f32[31,{columns}] parameter(0)\n s = f32[31,{columns}] sine(x)\n"
        f" t = f32[31,{columns}] tanh(s)\n l = f32[31,{columns}] logistic(t)\n"
        f" ROOT r = f32[31,{columns}] multiply(l, x)\n}}"
    )
    (x,) = inputs_for(module)
    for cpu in WIDTHS:
        outs = []
        for l3 in (1 << 10, 1 << 30):
            kernel = emit_fusion("k", as_fusion(module), replace(named(cpu), l3=l3))
            assert ("@llvm.prefetch" in kernel.text) == (l3 < x.nbytes)
            assert "!nontemporal" not in kernel.text
            outs.append(np.zeros_like(x))
            execute(kernel, compiled(kernel, cpu), [x, outs[-1]], "backwards")
        np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("body", [
    " ROOT r = f32[31,64] multiply(x, x)",
    " z = f32[] constant(0)\n ROOT r = f32[31] reduce(x, z), dimensions={1}, to_apply=add",
    " z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add",
])  # fmt: skip
def test_streams_ask_for_operands_ahead(body: str) -> None:
    """Where no cache can hold what is read, short computations and sums ask ahead, and nobody else."""
    module = parse(
        "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
        f"ENTRY e {{ x = f32[31,64] parameter(0)\n{body}\n}}"
    )
    (x,) = inputs_for(module)
    for cpu in WIDTHS:
        outs = []
        for l3 in (1 << 10, 1 << 30):
            kernel = emit_fusion("k", as_fusion(module), replace(named(cpu), l3=l3))
            assert ("@llvm.prefetch" in kernel.text) == (l3 < x.nbytes)
            outs.append(np.zeros(module.entry.root.shape.dimensions, np.float32))
            execute(kernel, compiled(kernel, cpu), [x, outs[-1]], "backwards")
        np.testing.assert_array_equal(*outs)


def test_columns_do_not_ask_ahead_along_rows() -> None:
    """A sum down columns steps from row to row: what follows in a row is of no use to it."""
    module = parse(
        "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[64,31] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[31] reduce(x, z), dimensions={0}, to_apply=add }"
    )
    kernel = emit_fusion("k", as_fusion(module), replace(named("x86-64-v4"), l3=1 << 10))
    assert "@llvm.prefetch" not in kernel.text


def test_the_same_text_every_time() -> None:
    """Emitting twice gives the same bytes (objects are never ordered by their addresses)."""
    for text in (*MOVEMENT.values(), softmax(64, 100), layernorm(64, 100)):
        kernels = [emit_fusion("k", as_fusion(parse("HloModule m\n" + text)), named("x86-64-v4")) for _ in range(2)]
        assert kernels[0] == kernels[1]


@pytest.mark.parametrize("at", [(0, 0), (2, 7), (100, -5)])
def test_update_in_place(at: tuple[int, int]) -> None:
    """In place, only the region is written: the rest of the output buffer keeps what it had."""
    module = parse("HloModule m\n" + RUN_TIME["dynamic-update-slice"])
    rng = np.random.default_rng(0)
    whole, update = rng.standard_normal((9, 40)).astype(np.float32), rng.standard_normal((4, 17)).astype(np.float32)
    inputs = [whole, update, *(np.array(a, np.int32) for a in at)]
    (want,) = evaluate(module, inputs)
    for cpu in WIDTHS:
        kernel = emit_fusion("k", as_fusion(module), named(cpu), frozenset({0}))
        output = whole.copy()
        execute(kernel, compiled(kernel, cpu), [output, *inputs[1:], output])
        np.testing.assert_array_equal(output, want)


def test_single_instructions_are_fusions_of_themselves() -> None:
    module = parse(
        "HloModule m\nENTRY e { x = f32[5,9] parameter(0)\n ROOT t = f32[9,5] transpose(x), dimensions={1,0}\n}"
    )
    kernel = emit_fusion("k", module.entry.root, named("host"))
    x = np.arange(45, dtype=np.float32).reshape(5, 9)
    out = np.zeros((9, 5), np.float32)
    execute(kernel, compiled(kernel, "host"), [x, out])
    np.testing.assert_array_equal(out, x.T)


def test_what_cannot_be_emitted_is_said() -> None:
    module = parse(
        "HloModule m\nENTRY e { x = f32[5,5] parameter(0)\n"
        " ROOT t = f32[5,5] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    assert not can_emit(module.entry.root)
    with pytest.raises(UnsupportedError, match="t: dot"):
        emit_fusion("k", module.entry.root, named("host"))


MOVES = ("transpose", "reshape", "reverse", "slice", "pad", "broadcast", "concatenate")


KINDS = (
    ("f32", "9", "negate"), ("u8", "9", "negate"), ("pred", "true", "not"), ("f64", "9", "negate"),
    ("c64", "(9,1)", "negate"), ("bf16", "9", "negate"),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_chains_of_data_movement(data: st.DataObject) -> None:
    """Random chains of moves, with arithmetic between them."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 17]), min_size=1, max_size=4))
    kind, nine, filler = data.draw(st.sampled_from(KINDS))
    lines = [f"v0 = {kind}[{','.join(map(str, sizes))}] parameter(0)", f"z = {kind}[] constant({nine})"]
    for step in range(1, data.draw(st.integers(1, 6)) + 1):
        move = data.draw(st.sampled_from(MOVES))
        before, extra, operands = list(sizes), "", f"v{step - 1}"
        d = data.draw(st.integers(0, len(sizes) - 1)) if sizes else 0
        if move == "transpose":
            order = data.draw(st.permutations(range(len(sizes))))
            sizes = [before[k] for k in order]
            extra = f", dimensions={{{','.join(map(str, order))}}}"
        elif move == "reshape":
            total = int(np.prod(sizes))
            parts = [k for k in (2, 3, 4, 6, 12) if total % k == 0]
            sizes = [total]
            if parts:
                k = data.draw(st.sampled_from(parts))
                sizes = data.draw(st.sampled_from([[k, total // k], [total // k, k], [1, total // k, k], [total]]))
        elif move == "reverse":
            extra = f", dimensions={{{d}}}"
        elif move == "slice":
            start = data.draw(st.integers(0, before[d] - 1))
            stride = data.draw(st.integers(1, 3))
            sizes = list(before)
            sizes[d] = -(-(before[d] - start) // stride)
            spans = [f"[{start}:{before[k]}:{stride}]" if k == d else f"[0:{before[k]}]" for k in range(len(before))]
            extra = f", slice={{{','.join(spans)}}}"
        elif move == "pad":
            low, high = data.draw(st.integers(-1, 3)), data.draw(st.integers(0, 3))
            inside = data.draw(st.integers(0, 2))
            size = before[d] + low + high + max(before[d] - 1, 0) * inside
            if size <= 0:
                low, size = 0, before[d] + high + max(before[d] - 1, 0) * inside
            sizes = list(before)
            sizes[d] = size
            extra = ", padding=" + "x".join(f"{low}_{high}_{inside}" if k == d else "0_0" for k in range(len(before)))
            operands += ", z"
        elif move == "broadcast":
            sizes = [*before[:d], 3, *before[d:]]
            extra = f", dimensions={{{','.join(str(k if k < d else k + 1) for k in range(len(before)))}}}"
        else:
            sizes = list(before)
            sizes[d] *= 2
            operands += f", v{step - 1}"
            extra = f", dimensions={{{d}}}"
        if np.prod(sizes) > 5000 or len(sizes) > 5:
            sizes, move, extra, operands = before, filler, "", f"v{step - 1}"
        lines.append(f"v{step} = {kind}[{','.join(map(str, sizes))}] {move}({operands}){extra}")
    lines[-1] = "ROOT " + lines[-1]
    check("ENTRY e { " + "\n ".join(lines) + "\n}", widths=(data.draw(st.sampled_from(WIDTHS)),))
