"""Loads and stores of elements: scalars, consecutive vectors, vectors of scattered elements; whole or masked.

Values are compute values (see `math.elements`); buffers hold the memory types.  Complex elements are
(real, imaginary) pairs in memory and two values in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elements import Value, from_memory, is_complex, memory_type, to_memory
from hlotool.codegen.llvm.types import type_text
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.machine import Machine
from hlotool.ir import byte_size

__all__ = [
    "address_type",
    "alignment",
    "constant_mask",
    "has_masks",
    "load_gathered",
    "load_raw",
    "load_scalar",
    "load_vector",
    "prefetch",
    "store_raw",
    "store_scalar",
    "store_scattered",
    "store_vector",
    "stream_vector",
]

_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


def address_type(element_type: str) -> str:
    """The LLVM type that ``getelementptr`` steps over."""
    memory = memory_type(element_type)
    return f"{{ {memory}, {memory} }}" if is_complex(element_type) else memory


def constant_mask(active: int, lanes: int) -> str:
    """The first `active` of `lanes` lanes."""
    return "<" + ", ".join("i1 true" if k < active else "i1 false" for k in range(lanes)) + ">"


def alignment(element_type: str) -> int:
    """Bytes to a multiple of which elements are aligned."""
    size = byte_size(element_type)
    return size // 2 if is_complex(element_type) else size


def _name(kind: str, element: str, lanes: int) -> str:
    return f"llvm.masked.{kind}.v{lanes}{_SUFFIX.get(element, element)}"


def load_scalar(f: Function, element_type: str, pointer: str) -> Value:
    memory, align = memory_type(element_type), alignment(element_type)
    raw: Value = f.let(f"load {memory}, ptr {pointer}, align {align}")
    if is_complex(element_type):
        second = f.let(f"getelementptr {memory}, ptr {pointer}, i64 1")
        assert isinstance(raw, str)
        raw = raw, f.let(f"load {memory}, ptr {second}, align {align}")
    return from_memory(f, element_type, 1, raw)


def store_scalar(f: Function, element_type: str, pointer: str, value: Value) -> None:
    memory, align = memory_type(element_type), alignment(element_type)
    raw = to_memory(f, element_type, 1, value)
    for number, part in enumerate((raw,) if isinstance(raw, str) else raw):
        at = f.let(f"getelementptr {memory}, ptr {pointer}, i64 1") if number else pointer
        f.do(f"store {memory} {part}, ptr {at}, align {align}")


def load_vector(f: Function, element_type: str, lanes: int, pointer: str, mask: str | None = None) -> Value:
    """`lanes` consecutive elements from `pointer`; lanes outside `mask` are not read and give zero."""
    if not is_complex(element_type):
        return from_memory(f, element_type, lanes, load_raw(f, element_type, lanes, pointer, mask))
    if mask is not None:
        mask = _doubled(f, mask, lanes)
    both = load_raw(f, element_type, 2 * lanes, pointer, mask)
    wide = type_text(memory_type(element_type), 2 * lanes)
    parts = []
    for first in (0, 1):
        order = ", ".join(f"i32 {2 * k + first}" for k in range(lanes))
        parts.append(f.let(f"shufflevector {wide} {both}, {wide} poison, <{lanes} x i32> <{order}>"))
    return from_memory(f, element_type, lanes, (parts[0], parts[1]))


def _doubled(f: Function, mask: str, lanes: int) -> str:
    kind = f"<{lanes} x i1>"
    order = ", ".join(f"i32 {k // 2}" for k in range(2 * lanes))
    return f.let(f"shufflevector {kind} {mask}, {kind} poison, <{2 * lanes} x i32> <{order}>")


def load_raw(f: Function, element_type: str, lanes: int, pointer: str, mask: str | None = None) -> str:
    """As `load_vector`, as memory has it; two lanes are needed for a complex element."""
    memory, align = memory_type(element_type), alignment(element_type)
    kind = type_text(memory, lanes)
    whole = f"load {kind}, ptr {pointer}, align {align}"
    if mask is None:
        return f.let(whole)
    callee = f.unit.declare(kind, _name("load", memory, lanes) + ".p0", ["ptr", f"<{lanes} x i1>", kind])
    part = f"call {kind} {callee}(ptr align {align} {pointer}, <{lanes} x i1> {mask}, {kind} zeroinitializer)"
    if not mask.startswith("%") or has_masks(f.unit.machine, element_type):
        return f.let(part)
    # LLVM looks at one lane after the other: not where all of them are wanted, or none.
    some, every, done, before = f.fresh("some"), f.fresh("every"), f.fresh("done"), f.block
    wanted = f.let(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
    f.do(f"switch i{lanes} {wanted}, label %{some} [ i{lanes} 0, label %{done} i{lanes} -1, label %{every} ]")
    f.label(some)
    few = f.let(part)
    f.jump(done)
    f.label(every)
    all_ = f.let(whole)
    f.jump(done)
    f.label(done)
    return f.let(f"phi {kind} [ zeroinitializer, %{before} ], [ {few}, %{some} ], [ {all_}, %{every} ]")


def has_masks(machine: Machine | None, element_type: str) -> bool:
    """Whether the processor reads and writes single lanes of a vector of the type."""
    least = 0 if machine is None else machine.instructions.masked_bits
    return 0 < least <= 8 * byte_size(element_type)


def store_vector(
    f: Function, element_type: str, lanes: int, pointer: str, value: Value, mask: str | None = None
) -> None:
    """Write `lanes` consecutive elements, those inside `mask` only."""
    raw = to_memory(f, element_type, lanes, value)
    memory, align = memory_type(element_type), alignment(element_type)
    if not isinstance(raw, str):
        narrow, (real, imaginary) = type_text(memory, lanes), raw
        order = ", ".join(f"i32 {k // 2 + (k % 2) * lanes}" for k in range(2 * lanes))
        raw = f.let(f"shufflevector {narrow} {real}, {narrow} {imaginary}, <{2 * lanes} x i32> <{order}>")
        mask = None if mask is None else _doubled(f, mask, lanes)
        lanes *= 2
    store_raw(f, memory, lanes, pointer, raw, align, mask)


def store_raw(f: Function, memory: str, lanes: int, pointer: str, raw: str, align: int, mask: str | None) -> None:
    """Write the lanes of `raw` inside `mask`, whose LLVM type is `memory`."""
    kind = type_text(memory, lanes)
    if mask is None:
        f.do(f"store {kind} {raw}, ptr {pointer}, align {align}")
        return
    if mask.startswith("<i1 true") and mask.count("true") == 1:
        # LLVM 22 makes a scalar store of this, but of the type before a truncation: it would write past the element.
        # And it takes the wrong lane where it converts that lane alone from an integer: `freeze` keeps it from that.
        first = f.let(f"extractelement {kind} {f.let(f'freeze {kind} {raw}')}, i64 0")
        f.do(f"store {memory} {first}, ptr {pointer}, align {align}")
        return
    callee = f.unit.declare("void", _name("store", memory, lanes) + ".p0", [kind, "ptr", f"<{lanes} x i1>"])
    f.do(f"call void {callee}({kind} {raw}, ptr align {align} {pointer}, <{lanes} x i1> {mask})")


def stream_vector(f: Function, element_type: str, lanes: int, pointer: str, value: Value) -> None:
    """Write `lanes` consecutive elements past the caches; `pointer` is aligned to their size."""
    raw = to_memory(f, element_type, lanes, value)
    memory = memory_type(element_type)
    if not isinstance(raw, str):
        store_vector(f, element_type, lanes, pointer, value)
        return
    f.unit.declarations["!6400"] = "!6400 = !{i32 1}"
    size = lanes * byte_size(element_type)
    f.do(f"store {type_text(memory, lanes)} {raw}, ptr {pointer}, align {size}, !nontemporal !6400")


_AHEAD: Annotated[int, Threshold("bytes")] = 1024
"""Bytes from a load to what it asks for: a few hundred cycles at the pace of long computations."""


def prefetch(f: Function, pointer: str) -> None:
    """Ask for what will be loaded soon; processors do so by themselves, but stop at the ends of pages."""
    f.fetch(f.let(f"getelementptr i8, ptr {pointer}, i64 {_AHEAD}"))


def load_gathered(f: Function, element_type: str, lanes: int, pointers: str, mask: str) -> Value:
    """The elements at a vector of pointers; lanes outside `mask` are not read and give zero."""
    memory, align = memory_type(element_type), alignment(element_type)
    kind, wide = type_text(memory, lanes), f"<{lanes} x ptr>"
    callee = f.unit.declare(
        kind, _name("gather", memory, lanes) + f".v{lanes}p0", [wide, f"<{lanes} x i1>", kind]
    )  # fmt: skip

    def part(at: str) -> str:
        return f.let(f"call {kind} {callee}({wide} align {align} {at}, <{lanes} x i1> {mask}, {kind} zeroinitializer)")

    if not is_complex(element_type):
        return from_memory(f, element_type, lanes, part(pointers))
    second = f.let(f"getelementptr {memory}, {wide} {pointers}, i64 1")
    return from_memory(f, element_type, lanes, (part(pointers), part(second)))


def store_scattered(f: Function, element_type: str, lanes: int, pointers: Sequence[str], value: Value) -> None:
    """Write lane k to ``pointers[k]``, for as many lanes as there are pointers."""
    raw = to_memory(f, element_type, lanes, value)
    memory, align = memory_type(element_type), alignment(element_type)
    for k, pointer in enumerate(pointers):
        for n, part in enumerate((raw,) if isinstance(raw, str) else raw):
            own = f.let(f"extractelement {type_text(memory, lanes)} {part}, i64 {k}")
            at = f.let(f"getelementptr {memory}, ptr {pointer}, i64 1") if n else pointer
            f.do(f"store {memory} {own}, ptr {at}, align {align}")
