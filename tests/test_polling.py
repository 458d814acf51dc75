"""How often long kernels ask whether to go on, and that they stop when told to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.arguments import step_function
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.polling import SHORT, finish_kernel
from hlotool.codegen.llvm.values import Int, operand
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import default_machine
from hlotool.runtime.compile import compile_units
from hlotool.runtime.load import load

TRIPS = 60_000


def asked(answer: Callable[[int], int], most: int | None) -> tuple[int, int]:
    """How often a kernel asked, and the trips that it made: each has a loop inside of one trip, of which the text says
    that there are `most`."""
    unit = Unit(default_machine())
    f, (count, last_trip) = step_function(unit, "kernel", 2)
    trips = begin_loop(f, 0, TRIPS)
    inner = begin_loop(f, 0, Int(f, f.let(f"load volatile i64, ptr {count.name}")), most=most)
    for _ in range(300):
        f.do(f"store volatile {operand(trips.index)}, ptr {last_trip.name}")
    inner.end()
    trips.end()
    f.finish()
    kernel = finish_kernel(unit, [Step("kernel", cost=SHORT)])
    assert kernel.steps[0].polls
    times = 0

    def poll(status: int, name: int) -> int:
        nonlocal times
        times += 1
        return answer(times)

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(poll)
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    library = load(compile_units([unit.text()], default_machine()), {"hlo_poll": address})
    one, last = ctypes.c_int64(1), ctypes.c_int64(-1)
    arguments = (ctypes.c_void_p * 3)(0, ctypes.addressof(one), ctypes.addressof(last))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.address("kernel"))
    run(ctypes.addressof(arguments) + 8, 0, 1)
    return times, last.value + 1


def test_budgets_grow_while_it_is_too_early_to_ask() -> None:
    """A trip might take long for all that its text says; the clock tells that it does not."""
    often, trips = asked(lambda _: 0, None)
    assert trips == TRIPS
    assert often == pytest.approx(TRIPS / 30, rel=0.1)
    seldom, trips = asked(lambda _: -1, None)
    assert trips == TRIPS
    assert seldom < often / 20
    assert seldom >= TRIPS // (30 << 6)  # trips may take long later on


def test_a_bound_for_trips_is_believed() -> None:
    times, trips = asked(lambda _: 0, 4)
    assert trips == TRIPS
    assert 1 < times < TRIPS / 100


def test_what_is_told_to_stop_stops() -> None:
    times, trips = asked(lambda number: int(number == 3), None)
    assert times == 3
    assert trips < 100
