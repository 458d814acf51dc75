"""How products are cut into tasks: what the plan says of shapes that decide between its orders."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.codegen.cpu.products.blocking import choose_tile, plan_blocks
from hlotool.codegen.cpu.products.dot_tiles import DOT_PRODUCTS
from hlotool.codegen.cpu.products.product import Blocking, Matrix, Packing, Product, TileShape
from hlotool.codegen.cpu.products.tiles import TILE_REGISTERS
from hlotool.codegen.cpu.products.vector_tiles import VECTORS
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import arithmetic, element
from hlotool.codegen.machine import named

MACHINE = named("x86-64-v3,l1=32K,l2=512K,cores=4")
F32 = element("f32")


def product(m: int, n: int, k: int, batch: tuple[int, ...] = (), shared: tuple[bool, ...] = ()) -> Product:
    """A dense product of f32 numbers; the items of `shared` dimensions of the batch have one right operand."""
    _, tile = choose_tile(m, n, MACHINE, arithmetic("f32", MACHINE))
    items = [math.prod(batch[at + 1 :]) for at in range(len(batch))]
    right = tuple(0 if one else item * k * n * 4 for item, one in zip(items, shared, strict=True))
    return Product(
        batch=batch, m=m, n=n, terms=(k,), arithmetic=arithmetic("f32", MACHINE), tile=tile,
        a=Matrix(place=Place(0, 0, F32), batch=tuple(item * m * k * 4 for item in items), row=k * 4, terms=(4,)),
        b=Matrix(place=Place(1, 0, F32), batch=right, column=4, terms=(n * 4,)),
        c=Matrix(place=Place(2, 0, F32), batch=tuple(item * m * n * 4 for item in items), row=n * 4, column=4),
    )


def plan(case: Product) -> Blocking:
    return plan_blocks(case, VECTORS, MACHINE)


def order(blocking: Blocking) -> list[object]:
    return [dimension.name for dimension in blocking.tasks]


def test_tasks_with_the_same_columns_follow_one_another() -> None:
    assert order(plan(product(64, 4096, 1024))) == ["columns", "rows"]
    assert order(plan(product(64, 4096, 256, (3, 5), (False, True)))) == [0, "columns", 1, "rows"]


def test_rows_come_first_where_all_columns_stay_in_the_cache() -> None:
    assert order(plan(product(4096, 64, 64))) == ["rows", "columns"]
    assert order(plan(product(4096, 64, 64, (3, 5), (False, True)))) == [0, 1, "rows", "columns"]


def test_groups_that_lie_side_by_side_in_rows_come_last() -> None:
    case = product(4096, 32, 32, (4,), (False,))
    case = replace(case, a=replace(case.a, batch=(32 * 4,), row=4 * 32 * 4))
    assert order(plan(case)) == ["rows", 0, "columns"]


@pytest.mark.parametrize(("piece", "visits"), [(0, [0, "rows"]), (256, ["pieces", 0, "rows"])])
def test_a_task_that_packs_goes_through_what_uses_it(piece: int, visits: list[object]) -> None:
    case = product(64, 4096, 1024, (2,), (True,))
    blocking = plan(replace(case, packing=Packing("pack", 1, 3, piece), piece=piece))
    assert (order(blocking), [d.name for d in blocking.visits]) == (["columns"], visits)
    assert blocking.panels == 3
    if piece:
        assert (blocking.row_tiles, blocking.visits[0].extent) == (case.row_tiles, 4)


def test_what_cannot_be_added_to_gets_the_whole_sum() -> None:
    case = product(512, 512, 1 << 14)
    assert plan(case).piece < case.depth
    assert plan(case).piece % 16 == 0
    assert plan_blocks(case, DOT_PRODUCTS, MACHINE).piece == case.depth
    rounded = replace(case, c=replace(case.c, place=Place(2, 0, element("bf16"))))
    assert plan(rounded).piece == case.depth


def test_few_rows_left_over_are_computed_with_rows_before_them() -> None:
    case = replace(product(61, 160, 40), tile=TileShape(6, 16))
    assert plan(case).repeats_rows
    assert set(plan(case).shapes.values()) == {TileShape(6, 16)}
    assert not plan_blocks(case, TILE_REGISTERS, MACHINE).keeps_rows


SIZES = st.integers(1, 700)


@settings(max_examples=100, deadline=None)
@given(SIZES, SIZES, SIZES, st.lists(st.tuples(st.integers(2, 9), st.booleans()), max_size=2))
def test_every_element_is_in_one_block(m: int, n: int, k: int, batch: list[tuple[int, bool]]) -> None:
    case = product(m, n, k, tuple(extent for extent, _ in batch), tuple(shared for _, shared in batch))
    blocking = plan(case)
    extents = dict(blocking.tasks)
    assert sorted(map(str, extents)) == sorted(map(str, [*range(len(batch)), "rows", "columns"]))
    assert (extents["rows"] - 1) * blocking.row_tiles < case.row_tiles <= extents["rows"] * blocking.row_tiles
    assert (extents["columns"] - 1) * blocking.panels < case.panels <= extents["columns"] * blocking.panels
    rows, columns = case.tile
    for (rest_row, rest_column), shape in blocking.shapes.items():
        assert shape == (m % rows if rest_row else rows, n % columns if rest_column else columns)
    assert blocking.buffer == 0
    assert blocking.c == case.c
