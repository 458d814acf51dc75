"""Where things lie: places in a kernel's buffers, pointer arithmetic, and the coordinates of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.codegen.llvm import elements
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import Arithmetic, Element
from hlotool.codegen.llvm.values import Ptr, Vector
from hlotool.codegen.llvm.writer import Function

__all__ = [
    "Place", "advance", "argument", "count_in_block", "is_last_block", "larger", "load", "offset", "smaller", "store",
    "unravel", "vector_type", "when", "widen",
]  # fmt: skip


def offset(f: Function, pointer: str, amount: str | int) -> str:
    """`pointer` plus `amount` bytes."""
    return pointer if amount == 0 else f.let(f"getelementptr i8, ptr {pointer}, i64 {amount}")


def advance(f: Function, pointer: str, coordinate: str, stride: int) -> str:
    """`pointer` plus `coordinate` times `stride` bytes."""
    if coordinate == "0" or stride == 0:
        return pointer
    return offset(f, pointer, f.let(f"mul i64 {coordinate}, {stride}"))


def argument(f: Function, place: Place) -> str:
    """The pointer to `place` in the kernel's arguments."""
    base = f.let(f"load ptr, ptr {offset(f, '%args', 8 * place.slot)}")
    return offset(f, base, place.start)


def unravel(f: Function, index: str, extents: Sequence[int]) -> list[str]:
    """The coordinates of flat row-major `index`; dimensions of extent 1 give the constant 0."""
    found: list[str] = []
    inner = 1
    last = next((i for i, extent in enumerate(extents) if extent > 1), -1)
    for at in range(len(extents) - 1, -1, -1):
        extent = extents[at]
        if extent == 1:
            found.append("0")
            continue
        value = index if inner == 1 else f.let(f"udiv i64 {index}, {inner}")
        found.append(value if at == last else f.let(f"urem i64 {value}, {extent}"))
        inner *= extent
    return found[::-1]


def count_in_block(f: Function, block: str, size: int, total: int, blocks: int) -> str | int:
    """How many of `total` things lie in block `block` of `blocks`, each for `size` of them."""
    if block == "0" or total == blocks * size:
        return min(size, total)
    left = f.let(f"sub i64 {total}, {f.let(f'mul i64 {block}, {size}')}")
    return smaller(f, left, str(size))


def smaller(f: Function, one: str, other: str) -> str:
    """The smaller of two numbers, by what LLVM's quick way to instructions knows (see `PLUMBING`)."""
    return f.let(f"select i1 {f.let(f'icmp slt i64 {one}, {other}')}, i64 {one}, i64 {other}")


def larger(f: Function, one: str, other: str) -> str:
    """The larger of two numbers, likewise."""
    return f.let(f"select i1 {f.let(f'icmp sgt i64 {one}, {other}')}, i64 {one}, i64 {other}")


def is_last_block(f: Function, block: str, blocks: int) -> str:
    return "true" if blocks == 1 else f.let(f"icmp eq i64 {block}, {blocks - 1}")


def when(f: Function, condition: str | None, body: Callable[[], None]) -> None:
    """Emit `body` under `condition`; None is never, "true" is always."""
    if condition is None:
        return
    if condition == "true":
        body()
        return
    then, after = f.fresh("then"), f.fresh("after")
    f.branch(condition, then, after)
    f.label(then)
    body()
    f.jump(after)
    f.label(after)


def vector_type(scalar: str, lanes: int) -> str:
    """LLVM's vector of `lanes` scalars; 0 lanes is the scalar itself."""
    return f"<{lanes} x {scalar}>" if lanes else scalar


def load(
    f: Function, pointer: str, source: Element, how: Arithmetic, lanes: int, active: int = 0, align: int = 0
) -> str:
    return elements.load(Ptr(f, pointer), source, how.type, max(1, lanes), active, align).name


def store(
    f: Function, value: str, pointer: str, target: Element, how: Arithmetic, lanes: int, active: int = 0
) -> None:
    elements.store(Vector(f, how.type, max(1, lanes), value), Ptr(f, pointer), target, active)


def widen(f: Function, value: str, source: Element, how: Arithmetic, lanes: int) -> str:
    return elements.widen(Vector(f, source.storage, max(1, lanes), value), source, how.type).name
