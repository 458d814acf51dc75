"""Code written with typed values: functions of the program, values of two ways, early returns, loops of any form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.arguments import step_function
from hlotool.codegen.llvm.control import Callee, Header, conditional, define, return_when, stop_early
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Int, Ptr, Struct, Vector, either
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import default_machine
from hlotool.runtime.compile import compile_units
from hlotool.runtime.load import load

Body = Callable[[Int], Int]


def results(body: Body, numbers: list[int]) -> list[int]:
    """What a function of the program with this body gives for each of `numbers`."""
    unit = Unit(default_machine())
    inner = Function(unit, "")
    n = Int(inner, "%n")
    callee = define(inner, "inner", [n], body(n))
    f, (values,) = step_function(unit, "kernel", 1)
    for place in range(len(numbers)):
        at = values.at("i64", place)
        at.store(callee(f, at.load_int()))
    f.finish()
    finish_kernel(unit, [Step("kernel")])
    library = load(compile_units([unit.text()], default_machine()), {})
    array = (ctypes.c_int64 * len(numbers))(*numbers)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(array))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.address("kernel"))(arguments, 0, 1)
    return list(array)


def half_of_even(n: Int) -> Int:
    (result,) = conditional((n & 1).eq(0), lambda: (n >> 1,), n)
    return result


def half_unless_odd(n: Int) -> Int:
    (result,) = conditional((n & 1).eq(1), lambda: (n >> 1,), n, unless=True)
    return result


def at_most_seven(n: Int) -> Int:
    return_when(n > 7, lambda: Int(n.f, "7"))
    return n


def greatest_odd_factor(n: Int) -> Int:
    """A loop that ends where it will."""
    f, header = n.f, Header(n)
    on, done = f.fresh("on"), f.fresh("done")
    f.branch((header.value & 1).eq(0).name, on, done)
    f.label(on)
    header.again(header.value >> 1)
    f.label(done)
    return header.value


def quotient_and_rest(n: Int) -> Int:
    """A function that gives two values: ten times the quotient by 5, and the remainder."""
    inner = Function(n.f.unit, "")
    x = Vector(inner, "i64", 1, "%x")
    both = define(inner, "divide", [x], Struct.of([x.urem(5), (x - x.urem(5)) * 2]))
    rest, tens = both(n.f, n).parts()
    return (tens + rest).index()


@pytest.mark.parametrize(
    ("body", "meaning"),
    [
        (half_of_even, lambda n: n if n % 2 else n // 2),
        (half_unless_odd, lambda n: n if n % 2 else n // 2),
        (at_most_seven, lambda n: min(n, 7)),
        (greatest_odd_factor, lambda n: n // (n & -n)),
        (quotient_and_rest, lambda n: n // 5 * 10 + n % 5),
    ],
)
def test_functions_of_the_program(body: Body, meaning: Callable[[int], int]) -> None:
    numbers = [1, 2, 7, 8, 24, 96, 99]
    assert results(body, numbers) == [meaning(n) for n in numbers]


def test_what_is_known_while_code_is_written_leaves_none() -> None:
    f = Function(Unit(), "")
    n = Int(f, "%n")
    assert conditional(True, lambda: (n,), Int(f, "%m")) == (n,)
    assert conditional(True, lambda: (Int(f, "%m"),), n, unless=True) == (n,)
    assert either(False, Ptr(f, "%a"), Ptr(f, "%b")).name == "%b"
    assert f.lines == []


def test_what_a_stopped_function_does_is_written_at_its_end() -> None:
    f = Function(Unit(), "")
    watch, target = Ptr(f, "%watch"), Ptr(f, "%target")
    stop_early(f, watch, target, first=lambda: Callee("@clear", None)(f, target))
    assert f.lines == []
    assert f.watch == "%watch"
    assert f.stop == ("call void @clear(ptr %target)", "ret ptr %target")
