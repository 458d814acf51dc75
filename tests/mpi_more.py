"""What only MPI shows of collectives; `mpi_cases` runs this on several ranks."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mpi4py import MPI
from mpi_cases import Spread

import hlotool
from hlotool.devices.mpi.exchange import SMALL
from hlotool.devices.mpi.groups import Group, groups_of
from hlotool.devices.mpi.repeated import MOST, PIECE, TOGETHER, WHOLE, Repeated, repeated
from hlotool.devices.mpi.types import operation_of
from hlotool.driver import compile_module
from hlotool.evaluate.devices import rendezvous_key
from hlotool.ir import dtype_of
from hlotool.ir.devices import topology_of
from hlotool.text.parser import parse

FAST = "--fast" in sys.argv
BODIES = {
    "parts": "ROOT r = T[5001,7] all-reduce(p), to_apply=combine",
    "several": "q = T[5001,7] negate(p)\n ROOT r = (T[5001,7], T[5001,7]) all-reduce(p, q), to_apply=combine",
    "groups": "ROOT r = T[5001,7] all-reduce(p), replica_groups={{3,0},{1,2}}, to_apply=combine",
    "scatter": "s = T[12,8] slice(p), slice={[0:12],[0:8]}\n "
    "ROOT r = T[12,2] reduce-scatter(s), dimensions={1}, to_apply=combine",
    "scatter rows": "s = T[12,8] slice(p), slice={[0:12],[0:8]}\n "
    "ROOT r = T[3,8] reduce-scatter(s), dimensions={0}, to_apply=combine",
    "gather": "ROOT r = T[5001,28] all-gather(p), dimensions={1}",
    "gather rows": "ROOT r = T[20004,7] all-gather(p), dimensions={0}",
    "to all": "s = T[12,8] slice(p), slice={[0:12],[0:8]}\n ROOT r = T[12,8] all-to-all(s), dimensions={1}",
    "to all, rows": "s = T[12,8] slice(p), slice={[0:12],[0:8]}\n ROOT r = T[12,8] all-to-all(s), dimensions={0}",
    "broadcast": "ROOT r = T[5001,7] collective-broadcast(p), replica_groups={{2,0,1}}",
    "permute": "ROOT r = T[5001,7] collective-permute(p), source_target_pairs={{0,3},{3,1},{2,2}}",
}
COLUMNS = {"scatter": 8, "scatter rows": 8, "to all": 8, "to all, rows": 8}
REDUCERS = ("add", "maximum", "subtract")
TYPES = ("f32", "f64", "bf16", "f16", "s32", "u8", "c64", "f8e4m3fn")


def program(body: str, kind: str, reducer: str, columns: int) -> str:
    text = (
        "HloModule m, replica_count=4\ncombine {\n x = T[] parameter(0)\n y = T[] parameter(1)\n "
        f"ROOT r = T[] {reducer}(x, y)\n}}\nENTRY e {{\n p = T[5001,{columns}] parameter(0)\n {body}\n}}"
    )
    return text.replace("T[", f"{kind}[")


def values(kind: str, columns: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    drawn = rng.standard_normal((4, 5001, columns)) * 4
    with np.errstate(all="ignore"):
        return (drawn + 1j * drawn[::-1] if kind.startswith("c") else drawn).astype(dtype_of(kind))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_bits_are_those_of_threads(name: str, kind: str) -> None:
    columns = COLUMNS.get(name, 7)
    text, array = program(BODIES[name], kind, "add", columns), values(kind, columns)
    same(text, array, exact=not FAST)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("reducer", REDUCERS)
def test_types_and_reducers(kind: str, reducer: str) -> None:
    if kind == "c64" and reducer == "maximum":
        pytest.skip("complex numbers have no order")
    exact = not FAST or reducer != "add" or kind in ("s32", "u8")
    same(program(BODIES["parts"], kind, reducer, 7), values(kind, 7), exact=exact)


def same(text: str, array: np.ndarray[Any, Any], exact: bool) -> None:
    want = compile_module(parse(text), threads=1)(array)
    found = Spread(text)(array)
    for one, other in zip(found, want, strict=True):
        if exact:
            assert one.tobytes() == other.tobytes()
        else:
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            finfo = ml_dtypes.finfo(one.real.dtype) if one.dtype.kind != "V" else ml_dtypes.finfo(one.dtype)
            np.testing.assert_allclose(one.astype(wide), other.astype(wide), rtol=0, atol=64 * float(finfo.eps))


@pytest.mark.parametrize("past", [0, 1])
def test_sums_that_are_just_small_and_those_that_are_not(past: int) -> None:
    """Of four devices, several of them on a rank where there are fewer."""
    count = SMALL // 16 + past
    drawn = np.random.default_rng(6).standard_normal((4, count)).astype(np.float32)
    text = program("ROOT r = T[N] all-reduce(p), to_apply=combine", "f32", "add", 1).replace("[5001,1]", "[N]")
    same(text.replace("[N]", f"[{count}]"), drawn, exact=not FAST)


# ---- all-reduces that are done again and again, of ranks with one device each

RANKS = MPI.COMM_WORLD.size
AGAIN = """HloModule again, replica_count=RANKS
combine {
 x = T[] parameter(0)
 y = T[] parameter(1)
 ROOT r = T[] REDUCER(x, y)
}
condition {
 s = (s32[], T[N], T[M], T[N], T[M]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 k = s32[] constant(3)
 ROOT c = pred[] compare(n, k), direction=LT
}
body {
 s = (s32[], T[N], T[M], T[N], T[M]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 v = T[N] get-tuple-element(s), index=1
 w = T[M] get-tuple-element(s), index=2
 p = T[N] get-tuple-element(s), index=3
 q = T[M] get-tuple-element(s), index=4
 a = T[N] add(v, p)
 b = T[M] add(w, q)
 both = (T[N], T[M]) all-reduce(a, b), to_apply=combine
 c = T[N] get-tuple-element(both), index=0
 d = T[M] get-tuple-element(both), index=1
 one = s32[] constant(1)
 m = s32[] add(n, one)
 ROOT r = (s32[], T[N], T[M], T[N], T[M]) tuple(m, c, d, p, q)
}
ENTRY e {
 p = T[N] parameter(0)
 q = T[M] parameter(1)
 zero = s32[] constant(0)
 s = (s32[], T[N], T[M], T[N], T[M]) tuple(zero, p, q, p, q)
 w = (s32[], T[N], T[M], T[N], T[M]) while(s), condition=condition, body=body
 v = T[N] get-tuple-element(w), index=1
 u = T[M] get-tuple-element(w), index=2
 ROOT r = (T[N], T[M]) tuple(v, u)
}"""
SIZES = [
    (1, 3), (WHOLE // 4 // RANKS, 5), (WHOLE // 4 // RANKS + 1, 5), (WHOLE // 4 // RANKS + 1, WHOLE // 2 // RANKS),
    (PIECE // 4, 7), (PIECE // 4 + 1, 7), (3 * PIECE // 4 - 5, PIECE // 4 + 3),
]  # fmt: skip


def again(kind: str, reducer: str, sizes: tuple[int, int]) -> None:
    text = AGAIN.replace("RANKS", str(RANKS)).replace("REDUCER", reducer)
    for letter, size in zip("NM", sizes, strict=True):
        text = text.replace(f"T[{letter}]", f"T[{size}]")
    text = text.replace("T[", f"{kind}[")
    drawn = [np.random.default_rng(size).standard_normal((RANKS, size)) * 4 for size in sizes]
    with np.errstate(all="ignore"):
        arrays = [(one + 1j * one if kind.startswith("c") else one).astype(dtype_of(kind)) for one in drawn]
    want = compile_module(parse(text), threads=1)(*arrays)
    for one, other in zip(Spread(text)(*arrays), want, strict=True):
        if FAST and kind == "f32":
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
        else:
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("sizes", SIZES)
def test_again_in_sizes(sizes: tuple[int, int]) -> None:
    again("f32", "add", sizes)


@pytest.mark.parametrize("kind", ["f64", "bf16", "f16", "f8e4m3fn", "s32", "u8", "s16", "c64"])
@pytest.mark.parametrize("reducer", ["add", "multiply", "minimum"])
def test_again_in_types(kind: str, reducer: str) -> None:
    if kind == "c64" and reducer == "minimum":
        pytest.skip("complex numbers have no order")
    again(kind, reducer, (101, 33))


@pytest.mark.parametrize("count", [64, 65])
def test_again_of_many(count: int) -> None:
    """As many as go in one message, and one more."""
    assert WHOLE * 64 == TOGETHER
    if RANKS > 2:
        pytest.skip("it takes long, and what it is about does not depend on ranks")
    shape = f"f32[{WHOLE // 4 // RANKS}]"
    lines = [f"c{n} = f32[] constant({n + 1})\n b{n} = {shape} broadcast(c{n}), dimensions={{}}" for n in range(count)]
    lines += [f"m{n} = {shape} multiply(p, b{n})" for n in range(count)]
    names = ", ".join(f"m{n}" for n in range(count))
    body = "\n ".join([*lines, f"ROOT r = ({', '.join([shape] * count)}) all-reduce({names}), to_apply=combine"])
    text = program(body, "f32", "add", 1).replace("f32[5001,1]", shape).replace("count=4", f"count={RANKS}")
    same(text, np.random.default_rng(8).standard_normal((RANKS, WHOLE // 4 // RANKS)).astype(np.float32), exact=True)


@pytest.mark.parametrize("size", [5, PIECE // 2 + 1])
def test_results_may_lie_where_other_operands_did(size: int) -> None:
    text = program("q = T[N] negate(p)\n ROOT r = (T[N], T[N]) all-reduce(p, q), to_apply=combine", "f32", "add", 1)
    module = parse(text.replace("[5001,1]", "[N]").replace("[N]", f"[{size}]").replace("count=4", f"count={RANKS}"))
    instruction, topology = module.entry.root, topology_of(module)
    groups = groups_of([module], topology, range(RANKS), MPI.COMM_WORLD)
    group = groups.rendezvous[rendezvous_key(instruction, range(RANKS))]
    found = repeated(instruction, topology, group, False, lambda *_: None, np.zeros(1, np.int64), 10)
    assert isinstance(found, Repeated)
    assert found.stands_alone == (size == 5)
    check_on_crossed_arrays(found, size, exact=True)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_mpi_may_choose_the_order(kind: str) -> None:
    """As among several hosts, if that is asked for."""
    size = WHOLE // 2 + 1
    text = program("q = T[N] negate(p)\n ROOT r = (T[N], T[N]) all-reduce(p, q), to_apply=combine", kind, "add", 1)
    module = parse(text.replace("[5001,1]", "[N]").replace("[N]", f"[{size}]").replace("count=4", f"count={RANKS}"))
    instruction, topology = module.entry.root, topology_of(module)
    groups = groups_of([module], topology, range(RANKS), MPI.COMM_WORLD)
    group = groups.rendezvous[rendezvous_key(instruction, range(RANKS))]
    found = repeated(instruction, topology, group, True, operation_of, np.zeros(1, np.int64), 10)
    assert isinstance(found, Repeated)
    check_on_crossed_arrays(found, size, exact=False, kind=kind)


def check_on_crossed_arrays(found: Repeated, size: int, exact: bool, kind: str = "f32") -> None:
    """The result of each of two operands is to be where the other one is."""
    rank, dtype = MPI.COMM_WORLD.rank, dtype_of(kind)
    found.running.prepare(counter := np.zeros(1, np.int64), lambda _: wait(found))
    arrays = [np.random.default_rng(n).standard_normal((RANKS, size)).astype(dtype) for n in (1, 2)]
    one, other = (array[rank].copy() for array in arrays)
    table = np.array([one.ctypes.data, other.ctypes.data, other.ctypes.data, one.ctypes.data], np.uint64)
    found(table.ctypes.data)
    assert counter[0] == 1
    for result, operands in zip((other, one), arrays, strict=True):
        total = operands[0]
        for operand in operands[1:]:
            total = total + operand
        if exact:
            assert result.tobytes() == total.tobytes()
        else:
            np.testing.assert_allclose(result.astype(np.float64), total.astype(np.float64), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("members", [MOST, MOST + 1])
def test_groups_of_too_many_go_another_way(members: int) -> None:
    text = program("ROOT r = T[N] all-reduce(p), to_apply=combine", "f32", "add", 1).replace("[5001,1]", "[N]")
    module = parse(text.replace("[N]", "[5]").replace("count=4", f"count={members}"))
    places = tuple((n,) for n in range(members))
    group = Group(members=tuple(range(members)), places=places, own=0, comm=MPI.COMM_WORLD, name="many")
    alarm, own = np.zeros(1, np.int64), lambda *_: None
    found = repeated(module.entry.root, topology_of(module), group, False, own, alarm, 10)
    assert (found is None) == (members > MOST)


def wait(found: Repeated) -> None:
    while found.running.going and not found.running.look():
        pass


def test_the_program_goes_on_between_the_halves() -> None:
    """Rank 1 comes to the collective only when rank 0 is past its first half."""
    if MPI.COMM_WORLD.size != 2:
        pytest.skip("it is about two ranks")
    rank = MPI.COMM_WORLD.rank

    def before(inputs: tuple[Any, ...], call: Any) -> tuple[Any, ...]:
        if rank == 1:
            MPI.COMM_WORLD.recv(source=0, tag=77)
        return inputs

    def between(inputs: tuple[Any, ...], call: Any) -> tuple[Any, ...]:
        if rank == 0:
            MPI.COMM_WORLD.send(None, dest=1, tag=77)
        return inputs

    hlotool.register_custom_call("test_before", before, replace=True)
    hlotool.register_custom_call("test_between", between, replace=True)
    text = """HloModule m, replica_count=2
add {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] add(x, y)
}
ENTRY e {
 p = f32[4] parameter(0)
 b = f32[4] custom-call(p), custom_call_target="test_before", custom_call_has_side_effect=true
 s = f32[4] all-reduce-start(b), to_apply=add
 c = f32[4] custom-call(p), custom_call_target="test_between", custom_call_has_side_effect=true
 d = f32[4] all-reduce-done(s)
 ROOT r = f32[4] add(c, d)
}"""
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    for backend in ("cpu", "evaluate"):
        assert Spread(text, backend)(array)[0].tolist() == (array + array.sum(0)).tolist()
