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
from hlotool.driver import compile_module
from hlotool.ir import dtype_of
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
