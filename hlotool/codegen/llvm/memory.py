"""Loads and stores of elements: scalars, consecutive vectors, vectors of scattered elements; whole or masked.

Registers have the compute types (see `math.elements`), buffers the memory types.  Complex elements are
(real, imaginary) pairs in memory and two values in registers.  A mask has a bit for every lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elements import Register, from_memory, is_complex, memory_type, parts, to_memory
from hlotool.codegen.llvm.values import Ptr, Vector, operand, zeros
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.machine import Machine
from hlotool.ir import byte_size

__all__ = [
    "address_type", "alignment", "first_lanes", "has_masks", "load", "load_gathered", "load_raw", "prefetch", "store",
    "store_raw", "store_scattered", "stream",
]  # fmt: skip


@cache
def address_type(element_type: str) -> str:
    """The LLVM type that ``getelementptr`` steps over."""
    memory = memory_type(element_type)
    return f"{{ {memory}, {memory} }}" if is_complex(element_type) else memory


@cache
def alignment(element_type: str) -> int:
    """Bytes to a multiple of which elements are aligned."""
    size = byte_size(element_type)
    return size // 2 if is_complex(element_type) else size


def first_lanes(f: Function, active: int, lanes: int) -> Vector | None:
    """The mask of the first `active` of `lanes` lanes; None for all of them."""
    texts = ["i1 true"] * active + ["i1 false"] * (lanes - active)
    return None if active >= lanes else Vector(f, "i1", lanes, f"<{', '.join(texts)}>")


def has_masks(machine: Machine | None, element_type: str) -> bool:
    """Whether the processor reads and writes single lanes of a vector of the type."""
    return machine is not None and machine.instructions.has_masks(8 * byte_size(element_type))


def load(element_type: str, lanes: int, place: Ptr, mask: Vector | None = None, aligned: bool = False) -> Register:
    """`lanes` consecutive elements from `place`; lanes outside `mask` are not read and give zero.

    With `aligned` the place is a multiple of the size of all of them.
    """
    if not is_complex(element_type):
        return from_memory(element_type, load_raw(element_type, lanes, place, mask, aligned))
    if lanes == 1:
        kind, align = memory_type(element_type), alignment(element_type)
        real = place.load(kind, align=align)
        return real, place.at(kind, 1).load(kind, align=align)
    both = load_raw(element_type, 2 * lanes, place, _doubled(mask), aligned)
    real, imaginary = (both.shuffle(range(first, 2 * lanes, 2)) for first in (0, 1))
    return real, imaginary


def _doubled(mask: Vector | None) -> Vector | None:
    if mask is None:
        return None
    if mask.name.startswith("<"):  # to be seen as what it is
        lanes = mask.name.strip("<>").split(", ")
        return Vector(mask.f, "i1", 2 * mask.lanes, f"<{', '.join(lane for lane in lanes for _ in range(2))}>")
    return mask.shuffle([lane // 2 for lane in range(2 * mask.lanes)])


def load_raw(element_type: str, lanes: int, place: Ptr, mask: Vector | None = None, aligned: bool = False) -> Vector:
    """As `load`, as memory has it; two lanes are needed for a complex element."""
    memory, align = memory_type(element_type), alignment(element_type)
    if mask is None:
        return place.load(memory, lanes, align * lanes if aligned else align)
    f = place.f
    if mask.is_constant or has_masks(f.unit.machine, element_type):
        return place.load_masked(memory, mask, align)
    # LLVM looks at one lane after the other: not where all of them are wanted, or none.
    some, every, done, before = f.fresh("some"), f.fresh("every"), f.fresh("done"), f.block
    wanted = mask.packed().name
    f.do(f"switch i{lanes} {wanted}, label %{some} [ i{lanes} 0, label %{done} i{lanes} -1, label %{every} ]")
    f.label(some)
    few = place.load_masked(memory, mask, align)
    f.jump(done)
    f.label(every)
    whole = place.load(memory, lanes, align)
    f.jump(done)
    f.label(done)
    return few.let(
        f"phi {few.type} [ zeroinitializer, %{before} ], [ {few.name}, %{some} ], [ {whole.name}, %{every} ]"
    )


def store(
    element_type: str, place: Ptr, value: Register, mask: Vector | None = None, aligned: bool = False
) -> None:
    """Write consecutive elements, those inside `mask` only; `aligned` as for `load`."""
    raw = parts(to_memory(element_type, value))
    lanes = raw[0].lanes
    align = alignment(element_type) * (lanes * len(raw) if aligned and lanes > 1 else 1)
    if len(raw) == 1:
        store_raw(place, raw[0], align, mask)
    elif lanes == 1:
        for number, part in enumerate(raw):
            place.at(part.element, number).store(part, align)
    else:
        both = raw[0].shuffle([k // 2 + k % 2 * lanes for k in range(2 * lanes)], raw[1])
        store_raw(place, both, align, _doubled(mask))


def store_raw(place: Ptr, raw: Vector, align: int, mask: Vector | None) -> None:
    """Write the lanes of `raw` inside `mask`, which has the type of memory."""
    if mask is None:
        place.store(raw, align)
    elif mask.name.startswith("<i1 true") and mask.name.count("true") == 1:
        # LLVM 22 makes a scalar store of this, but of the type before a truncation: it would write past the element.
        # And it takes the wrong lane where it converts that lane alone from an integer: `freeze` keeps it from that.
        place.store(raw.let(f"freeze {raw.type} {raw.name}")[0], align)
    else:
        place.store_masked(raw, mask, align)


def stream(element_type: str, place: Ptr, value: Register) -> None:
    """Write consecutive elements past the caches; `place` is aligned to their size."""
    raw = to_memory(element_type, value)
    if isinstance(raw, Vector):
        place.stream(raw, raw.lanes * byte_size(element_type))
    else:
        store(element_type, place, value)


_AHEAD: Annotated[int, Threshold("bytes")] = 4096
"""Bytes from a load to what it asks for: with a quarter of this, sums of rows took up to a sixth longer."""


def prefetch(place: Ptr) -> None:
    """Ask for what will be loaded soon; processors do so by themselves, but stop at the ends of pages."""
    machine = place.f.unit.machine
    (place + ((machine.choices.fetch_bytes if machine is not None else None) or _AHEAD)).fetch()


def load_gathered(element_type: str, places: Vector, mask: Vector) -> Register:
    """The elements at a vector of pointers; lanes outside `mask` are not read and give zero."""
    f, lanes = places.f, places.lanes
    memory, align = memory_type(element_type), alignment(element_type)
    nothing = zeros(f, memory, lanes)
    name = f"llvm.masked.gather.{nothing.suffix}.{places.suffix}"
    callee = f.unit.declare(nothing.type, name, [places.type, mask.type, nothing.type])

    def part(at: Vector) -> Vector:
        arguments = f"{at.type} align {align} {at.name}, {operand(mask)}, {operand(nothing)}"
        return nothing.let(f"call {nothing.type} {callee}({arguments})")

    if not is_complex(element_type):
        return from_memory(element_type, part(places))
    second = places.let(f"getelementptr {memory}, {places.type} {places.name}, i64 1")
    return part(places), part(second)


def store_scattered(element_type: str, places: Sequence[Ptr], value: Register) -> None:
    """Write lane k to ``places[k]``, for as many lanes as there are places."""
    raw, align = parts(to_memory(element_type, value)), alignment(element_type)
    for lane, place in enumerate(places):
        for number, part in enumerate(raw):
            own = part[lane]
            place.at(part.element, number).store(own, align)
