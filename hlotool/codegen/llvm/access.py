"""Index arithmetic and element access for the kernels that walk memory themselves.

Indices are LLVM i64 values or Python integers; arithmetic on integers is done here and leaves no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from hlotool.codegen.kernel import Kernel, Step, signature
from hlotool.codegen.llvm import memory
from hlotool.codegen.llvm.math.elements import Value, compute_element
from hlotool.codegen.llvm.memory import address_type
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS, type_text
from hlotool.codegen.llvm.values import Int, Ptr
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine

__all__ = [
    "Index",
    "add",
    "address",
    "below",
    "choose",
    "empty_kernel",
    "load",
    "maximum",
    "minimum",
    "multiply",
    "positions",
    "quotient",
    "splat",
    "step_arguments",
    "step_function",
    "store",
    "strides",
    "subtract",
    "vector_lanes",
    "watch",
]

Index = str | int


def watch(f: Function, place: str) -> None:
    """Put the address of the execution's status ahead of `place`, for what is called with that."""
    status = f.let(f"load ptr, ptr {address(f, '%args', 'ptr', -1)}, align 8")
    f.do(f"store ptr {status}, ptr {address(f, place, 'ptr', -1)}, align 8")


def step_function(unit: Unit, name: str, pointers: int) -> tuple[Function, list[str]]:
    """Open step function `name`; return it and the values of its first `pointers` arguments."""
    return step_arguments(unit, name, range(pointers))


def step_arguments(unit: Unit, name: str, numbers: Iterable[int]) -> tuple[Function, list[str]]:
    """Open step function `name`; return it and the values of the arguments with these `numbers`."""
    f = Function(unit, signature(name))
    return f, [f.let(f"load ptr, ptr {address(f, '%args', 'ptr', i)}, align 8") for i in numbers]


def empty_kernel(name: str, machine: Machine) -> Kernel:
    """A kernel with nothing to do (results without elements)."""
    unit = Unit(machine)
    f, _ = step_function(unit, name, 0)
    f.finish()
    return finish_kernel(unit, [Step(name)])


def address(f: Function, pointer: str, kind: str, index: Index) -> str:
    """The place `index` elements of LLVM type `kind` after `pointer`."""
    return pointer if index == 0 else f.let(f"getelementptr {kind}, ptr {pointer}, i64 {index}")


def add(f: Function, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    return a if b == 0 else f.let(f"add i64 {a}, {b}")


def subtract(f: Function, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else f.let(f"sub i64 {a}, {b}")


def multiply(f: Function, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    return a if b == 1 else f.let(f"mul i64 {a}, {b}")


def quotient(f: Function, a: Index, divisor: int) -> Index:
    """a / divisor for a that is not negative."""
    if isinstance(a, int):
        return a // divisor
    return a if divisor == 1 else f.let(f"udiv i64 {a}, {divisor}")


def choose(f: Function, predicate: str, a: Index, b: Index, yes: Index, no: Index) -> Index:
    """yes if ``icmp predicate a, b`` else no."""
    return f.let(f"select i1 {f.let(f'icmp {predicate} i64 {a}, {b}')}, i64 {yes}, i64 {no}")


def minimum(f: Function, a: Index, b: Index) -> Index:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else choose(f, "slt", a, b, a, b)


def maximum(f: Function, a: Index, b: Index) -> Index:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else choose(f, "sgt", a, b, a, b)


def below(f: Function, index: Index, limit: Index) -> str:
    """0 <= index < limit as an i1."""
    if isinstance(index, int) and isinstance(limit, int):
        return "true" if 0 <= index < limit else "false"
    return f.let(f"icmp ult i64 {index}, {limit}")


def strides(dimensions: Sequence[int]) -> list[int]:
    """Elements between neighbours along each dimension of a row-major array."""
    return [prod(dimensions[i + 1 :]) for i in range(len(dimensions))]


def positions(f: Function, linear: Index, dimensions: Sequence[int]) -> list[Index]:
    """The coordinates of element number `linear` of a row-major array (no dimension may be 0)."""
    result: list[Index] = []
    for size in reversed(dimensions[1:]):
        above = quotient(f, linear, size)
        result.append(0 if size == 1 else subtract(f, linear, multiply(f, above, size)))
        linear = above
    if dimensions:
        result.append(0 if dimensions[0] == 1 else linear)
    return result[::-1]


def vector_lanes(machine: Machine, element_types: Sequence[str]) -> int:
    """Lanes that fill a vector register with the widest compute type of `element_types`."""
    return machine.lanes(max((max(8, BITS[compute_element(t)]) for t in element_types), default=8))


def splat(f: Function, kind: str, lanes: int, value: str) -> str:
    """Scalar `value` of LLVM type `kind` in all lanes."""
    if lanes == 1:
        return value
    wide = type_text(kind, lanes)
    first = f.let(f"insertelement {wide} poison, {kind} {value}, i64 0")
    return f.let(f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer")


def load(f: Function, element_type: str, pointer: str, index: Index, lanes: int = 1) -> Value:
    """The compute value of `lanes` neighbouring elements from element `index` on."""
    return memory.load(element_type, lanes, Ptr(f, pointer).at(address_type(element_type), _index(f, index)))


def store(f: Function, element_type: str, pointer: str, index: Index, value: Value, lanes: int = 1) -> None:
    """Write compute value `value` to `lanes` neighbouring elements from element `index` on."""
    memory.store(element_type, lanes, Ptr(f, pointer).at(address_type(element_type), _index(f, index)), value)


def _index(f: Function, index: Index) -> int | Int:
    return index if isinstance(index, int) else Int(f, index)
