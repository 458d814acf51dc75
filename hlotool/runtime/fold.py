"""Native code that reduces arrays of the members of a group, from the first member to the last."""

from __future__ import annotations

from functools import cache

from hlotool.codegen.llvm.arrays import load, store, vector_lanes
from hlotool.codegen.llvm.control import begin_loop, open_function
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.values import Index, Int, Ptr
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import host
from hlotool.ir import ELEMENT_TYPES
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import load as loading
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library
from hlotool.runtime.object_code import compiled

__all__ = ["fold", "folds"]


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Addresses of the members' arrays and of the result, which may be one of them, and how many elements each has."""

    members: Ptr
    result: Ptr
    count: Int


def folds(opcode: str, kind: str) -> bool:
    """Whether `fold` gives the bits that the evaluator does."""
    row = ELEMENT_TYPES[kind]
    if row.kind not in ("pred", "signed", "unsigned", "float", "complex") or (row.is_complex and opcode == "multiply"):
        return False
    return row.kind == "pred" or row.bits >= 8


@cache
def fold(opcode: str, kind: str, members: int) -> tuple[int, Library]:
    """The address of ``void fold(ptr arrays, ptr result, i64 count)``, and what to keep for as long as it may run."""
    machine = host()
    unit = Unit(machine)
    f, given = open_function(unit, "hlo_fold", _Parameters)
    arrays = [given.members.slot(number).load_ptr() for number in range(members)]

    def combine(index: Index, lanes: int) -> None:
        total, *others = (load(array, kind, index, lanes) for array in arrays)
        for other in others:
            total = emit_elementwise(opcode, {}, [kind, kind], kind, [total, other])
        store(given.result, kind, index, total)

    lanes = vector_lanes(machine, [kind])
    whole = given.count // lanes * lanes
    for begin, end, step in ((0, whole, lanes), (whole, given.count, 1)):
        loop = begin_loop(f, begin, end, step)
        combine(loop.index, step)
        loop.end()
    f.finish()
    library = loading.load(compiled([unit.text()], machine, cache=default_cache()))
    return library.address("hlo_fold"), library
