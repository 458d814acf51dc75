"""Functions of kernels: each a piece of its own, equal ones once, and what is private beside its users."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

import hlotool
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.sharing import Functions
from hlotool.codegen.units import gather

_LEAF = "define internal void @{0}_leaf(ptr %a, <4 x i1> %b) nounwind {{\nentry:\n  ret void\n}}"
_STEP = (
    "define void @{0}(ptr noalias %args, i64 %begin, i64 %end) nounwind {{\nentry:\n"
    "  call void @{0}_leaf(ptr %args, <4 x i1> zeroinitializer)\n  %x = add i64 %begin, {1}\n  ret void\n}}"
)


def kernel(name: str, *texts: str, declarations: tuple[str, ...] = ()) -> Kernel:
    return Kernel(declarations, "\n".join(text.format(name, 1) for text in texts), (Step(name, 3, 5.0),))


def test_equal_functions_are_one_and_so_are_equal_callers() -> None:
    functions = Functions()
    first = functions.add("k0_a", kernel("k0_a", _STEP, _LEAF))
    second = functions.add("k1_b", kernel("k1_b", _LEAF, _STEP))
    other = "\n".join((_LEAF.format("k2_c"), _STEP.format("k2_c", 2)))
    third = functions.add("k2_c", Kernel((), other, (Step("k2_c"),)))
    assert first.steps == second.steps == (Step("k0_a", 3, 5.0),)
    assert third.steps == (Step("k2_c"),)
    (unit,) = gather(functions.pieces)
    assert re.findall(r"^define (?:internal )?void @(\w+)", unit, re.MULTILINE) == ["k0_a", "k0_a_leaf", "k2_c"]
    assert unit.count("call void @k0_a_leaf(") == 2
    assert "declare" not in unit


def test_callers_in_other_units_declare_functions() -> None:
    functions = Functions()
    functions.add("k0_a", kernel("k0_a", _LEAF, _STEP))
    functions.add("k1_b", kernel("k1_b", _LEAF, _STEP.replace("add", "sub")))
    leaf, first, second = functions.pieces
    line = "declare void @k0_a_leaf(ptr, <4 x i1>)"
    assert leaf.offers == (line,)
    assert first.declarations == second.declarations == (line,)
    assert first.offers == ("declare void @k0_a(ptr, i64, i64)",)
    heavy = [replace(piece, definitions=piece.definitions + f"\n; {'x' * 80_000}") for piece in functions.pieces]
    units = gather(heavy)
    (home,) = [unit for unit in units if "define void @k0_a_leaf(" in unit]
    assert [line in unit for unit in units] == [unit is not home for unit in units]
    assert "define internal void @k0_a_leaf(" in gather(functions.pieces)[0], "where nobody else is, it stays internal"


def test_private_data_stays_beside_its_users() -> None:
    data = '@{0}_table = private unnamed_addr constant [2 x i8] c"\\01\\02", align 64'
    user = "define internal ptr @{0}_user() nounwind {{\nentry:\n  ret ptr @{0}_table\n}}"
    for number, constant in enumerate((True, False)):
        functions = Functions()
        text = data if constant else data.replace("private unnamed_addr constant", "internal global")
        for name in ("k0_a", "k1_b"):
            functions.add(name, kernel(name, text, user, _LEAF))
        shared = [piece.definitions for piece in functions.pieces if "_table" in piece.definitions]
        assert len(shared) == (2 if number else 1), "data that changes is nobody else's"
        assert all("_user()" in text and "_leaf" not in text for text in shared)


def test_bodies_among_declarations_go_where_they_are_called() -> None:
    table = "@hlo_table = internal constant [1 x i64] [i64 7], align 64"
    inner = "define internal i64 @hlo_inner() {\nentry:\n  %x = load i64, ptr @hlo_table\n  ret i64 %x\n}"
    outer = "define internal double @hlo_inner_most(double %x) nounwind {\nentry:\n  ret double %x\n}"
    plain = "declare double @llvm.sqrt.f64(double)"
    user = "define internal i64 @{0}_user() nounwind {{\nentry:\n  %x = call i64 @hlo_inner()\n  ret i64 %x\n}}"
    functions = Functions()
    functions.add("k0_a", kernel("k0_a", user, _LEAF, declarations=(table, inner, outer, plain)))
    found = {next(iter(piece.offers)).split("@")[1].split("(")[0]: piece.declarations for piece in functions.pieces}
    assert found == {"k0_a_user": (table, inner, plain), "k0_a_leaf": (plain,)}


def test_layers_that_differ_outside_share_what_is_inside() -> None:
    """Two products with other numbers of rows, and two transforms of other batches, in one program."""
    module = hlotool.parse("""HloModule layers
ENTRY main {
  x = f32[96,128]{1,0} parameter(0)
  y = f32[80,128]{1,0} parameter(1)
  w = f32[128,128]{1,0} parameter(2)
  s = f32[3,1024]{1,0} parameter(3)
  t = f32[5,1024]{1,0} parameter(4)
  a = f32[96,128]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[80,128]{1,0} dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = c64[3,513]{1,0} fft(s), fft_type=RFFT, fft_length={1024}
  d = c64[5,513]{1,0} fft(t), fft_type=RFFT, fft_length={1024}
  ROOT r = (f32[96,128]{1,0}, f32[80,128]{1,0}, c64[3,513]{1,0}, c64[5,513]{1,0}) tuple(a, b, c, d)
}""")
    executable = hlotool.compile(module)
    names = re.findall(r"^define .*@k\d+_(?:dot_|fft_)?\w*?_(tile\w+)\(", executable.text("llvm"), re.MULTILINE)
    assert names
    assert len(names) == len(set(names)), "tile functions are there once"
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal(shape.dimensions).astype(np.float32) for shape in executable.parameters]
    x, y, w, s, t = inputs
    wanted = (x @ w, y @ w, np.fft.rfft(s), np.fft.rfft(t))
    for found, right in zip(executable(*inputs), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-3)
