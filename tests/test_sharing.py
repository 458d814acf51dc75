"""Functions of kernels: each a piece of its own, equal ones once, and what is private beside its users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import hlotool
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.plan.sharing import Functions
from hlotool.codegen.plan.units import Piece, Units


def gather(pieces: Sequence[Piece]) -> tuple[str, ...]:
    units = Units(lambda text: None)
    for piece in pieces:
        units.add(piece)
    return units.finish()


def leaf(unit: Unit, name: str) -> None:
    unit.function(f"internal void @leaf_{name}(ptr %a, <4 x i1> %b) nounwind", ["  ret void"])


def step(unit: Unit, name: str, added: str = "1") -> None:
    lines = [f"  call void @leaf_{name}(ptr %args, <4 x i1> zeroinitializer)", f"  %x = add i64 %begin, {added}"]
    unit.function(f"void @{name}(ptr noalias %args, i64 %begin, i64 %end) nounwind", [*lines, "  ret void"])


def kernel(unit: Unit, name: str) -> Kernel:
    return finish_kernel(unit, [Step(name, 3, 5.0)])


def test_equal_functions_are_one_and_so_are_equal_callers() -> None:
    pieces: list[Piece] = []
    functions, found = Functions(pieces.append), []
    for name, leaf_first, added in (("k0_a", False, "1"), ("k1_b", True, "1"), ("k2_c", True, "2")):
        unit = Unit()
        if leaf_first:
            leaf(unit, name)
        step(unit, name, added)
        if not leaf_first:
            leaf(unit, name)
        found += functions.add(name, kernel(unit, name)).steps
    assert found == [Step("k0_a", 3, 5.0), Step("k0_a", 3, 5.0), Step("k2_c", 3, 5.0)]
    (text,) = gather(pieces)
    assert re.findall(r"^define (?:internal )?void @(\w+)", text, re.MULTILINE) == ["k0_a", "leaf_k0_a", "k2_c"]
    assert text.count("call void @leaf_k0_a(") == 2
    assert "declare" not in text


def test_what_is_called_tells_equal_texts_apart() -> None:
    """The same text in two kernels, but their leaves differ."""
    functions, steps = Functions([].append), []
    for name, line in (("k0_a", "  ret void"), ("k1_b", "  unreachable")):
        unit = Unit()
        unit.function(f"internal void @leaf_{name}(ptr %a, <4 x i1> %b) nounwind", [line])
        step(unit, name)
        steps += functions.add(name, kernel(unit, name)).steps
    assert [one.function for one in steps] == ["k0_a", "k1_b"]


def test_callers_in_other_units_declare_functions() -> None:
    pieces: list[Piece] = []
    functions = Functions(pieces.append)
    for name, added in (("k0_a", "1"), ("k1_b", "2")):
        unit = Unit()
        leaf(unit, name)
        step(unit, name, added)
        functions.add(name, kernel(unit, name))
    shared, first, second = pieces
    line = "declare void @leaf_k0_a(ptr, <4 x i1>)"
    assert shared.offers == (line,)
    assert first.declarations == second.declarations == (line,)
    assert first.offers == ("declare void @k0_a(ptr, i64, i64)",)
    heavy = [replace(piece, definitions=piece.definitions + f"\n; {'x' * 80_000}") for piece in pieces]
    units = gather(heavy)
    (home,) = [text for text in units if "define void @leaf_k0_a(" in text]
    assert [line in text for text in units] == [text is not home for text in units]
    assert "define internal void @leaf_k0_a(" in gather(pieces)[0], "where nobody else is, it stays internal"


def test_private_data_stays_beside_its_users() -> None:
    for constant in (True, False):
        pieces: list[Piece] = []
        functions = Functions(pieces.append)
        for name in ("k0_a", "k1_b"):
            unit = Unit()
            if constant:
                unit.data(f"table_{name}", b"\1\2")
            else:
                unit.variable(f"table_{name}", "[2 x i8] zeroinitializer")
            unit.function(f"internal ptr @user_{name}() nounwind", [f"  ret ptr @table_{name}"])
            leaf(unit, name)
            functions.add(name, finish_kernel(unit, []))
        shared = [piece.definitions for piece in pieces if "@table_" in piece.definitions]
        assert len(shared) == (1 if constant else 2), "data that changes is nobody else's"
        assert all("@user_" in text and "@leaf_" not in text for text in shared)


def test_what_is_needed_of_the_library_goes_where_it_is_called() -> None:
    unit = Unit()
    table = "@table.hlo = internal constant [1 x i64] [i64 7], align 64"
    inner = "define internal i64 @inner.hlo() {\n  %x = load i64, ptr @table.hlo\n  ret i64 %x\n}"
    other = "define internal double @inner_most.hlo(double %x) {\n  ret double %x\n}"
    unit.library.update({"table.hlo": table, "inner.hlo": inner, "inner_most.hlo": other})
    unit.declare("double", "llvm.sqrt.f64", ["double"])
    unit.function("internal i64 @user_k0_a() nounwind", ["  %x = call i64 @inner.hlo()", "  ret i64 %x"])
    leaf(unit, "k0_a")
    pieces: list[Piece] = []
    functions = Functions(pieces.append)
    functions.add("k0_a", finish_kernel(unit, []))
    plain = "declare double @llvm.sqrt.f64(double)"
    found = {next(iter(piece.offers)).split("@")[1].split("(")[0]: piece.declarations for piece in pieces}
    assert found == {"user_k0_a": (plain, table, inner), "leaf_k0_a": (plain,)}


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
    names = re.findall(r"^define .*@(tile\d+x\d+)_k\d+_\w+\(", executable.text("llvm"), re.MULTILINE)
    assert names
    assert len(names) == len(set(names)), "tile functions are there once"
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal(shape.dimensions).astype(np.float32) for shape in executable.parameters]
    x, y, w, s, t = inputs
    wanted = (x @ w, y @ w, np.fft.rfft(s), np.fft.rfft(t))
    for found, right in zip(executable(*inputs), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-3)
