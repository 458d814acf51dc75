"""A module run as eager frameworks run it: every instruction is a program of its own, called one after the other.

What fusing pays is the time of this over that of the compiled module.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy.typing as npt

from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module
from hlotool.ir import Instruction, Module, Shape, UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.isolation import alone
from hlotool.text.printer import print_module

__all__ = ["op_by_op"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]


def op_by_op(
    module: Module, threads: int | None = None, machine: Machine | None = None,
    observe: Callable[[Instruction, float], None] | None = None,
) -> Callable[..., Arrays]:
    """A function of the arrays of `module` that calls the code of each instruction of its entry computation.

    A loop or conditional is one instruction; its insides are compiled without passes.  Constants are made once, ahead.
    `observe` is told of each call, and how many seconds it took.  UnsupportedError names an instruction that has no
    native code.
    """
    if topology_of(module).devices > 1:
        raise UnsupportedError("op by op runs on one device")
    programs: dict[str, Callable[..., Arrays]] = {}
    steps: list[_Operation] = []
    places: dict[Instruction, list[int]] = {}  # where the leaves of a value are in the list of all arrays
    known = 0

    def places_for(instruction: Instruction) -> list[int]:
        nonlocal known
        first, known = known, known + _leaf_count(instruction.shape)
        return list(range(first, known))

    def program_for(instruction: Instruction) -> Callable[..., Arrays]:
        one = alone(instruction)
        text = print_module(one)
        if text not in programs:
            programs[text] = compile_module(one, pipeline="none", threads=threads, machine=machine).run
        return programs[text]

    for parameter in module.entry.parameters:
        places[parameter] = places_for(parameter)
    constants: list[npt.NDArray[Any]] = []
    for instruction in module.entry:
        if instruction.opcode == "constant":
            places[instruction] = places_for(instruction)
            constants += program_for(instruction)()
    for instruction in module.entry:
        given = [place for operand in instruction.operands for place in places[operand]]
        if instruction.opcode == "tuple":
            places[instruction] = given
        elif instruction.opcode == "get-tuple-element":
            index = instruction.attributes["index"]
            before = sum(map(_leaf_count, instruction.operands[0].shape.elements[:index]))
            places[instruction] = given[before : before + _leaf_count(instruction.shape)]
        elif instruction.opcode not in ("parameter", "constant"):
            steps.append(_Operation(instruction, program_for(instruction), tuple(given)))
            places[instruction] = places_for(instruction)
    results = places[module.entry.root]

    def run(*arrays: npt.NDArray[Any]) -> Arrays:
        values = [*arrays, *constants]
        for step in steps:
            values += step.run(*[values[place] for place in step.operands])
        return tuple([values[place] for place in results])

    def observed(*arrays: npt.NDArray[Any]) -> Arrays:
        assert observe is not None
        values = [*arrays, *constants]
        for step in steps:
            given = [values[place] for place in step.operands]
            begin = time.perf_counter()
            values += step.run(*given)
            observe(step.instruction, time.perf_counter() - begin)
        return tuple([values[place] for place in results])

    return run if observe is None else observed


@dataclass(frozen=True, slots=True)
class _Operation:
    """One instruction: its program, and where its operands are among all arrays so far."""

    instruction: Instruction
    run: Callable[..., Arrays]
    operands: tuple[int, ...]


def _leaf_count(shape: Shape) -> int:
    return sum(leaf.is_array for leaf in shape.leaves())
