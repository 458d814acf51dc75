"""The kernels of a program, equal ones once, its constants, and which computations become functions."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from hlotool.analysis.fingerprint import Structures
from hlotool.codegen.byte_order import bytes_of
from hlotool.codegen.choices import FORMULAS, Choices
from hlotool.codegen.configured import choices_of
from hlotool.codegen.kernel import Helper, Kernel, KernelCrash, Step
from hlotool.codegen.machine import Machine
from hlotool.codegen.plan.arena import ALIGNMENT
from hlotool.codegen.plan.sharing import Functions
from hlotool.codegen.plan.small_loops import promotable
from hlotool.codegen.plan.steps import Routine, called, inside, is_there, needs_kernel
from hlotool.codegen.plan.units import Piece, Units
from hlotool.codegen.plan.values import Assignment, Value
from hlotool.codegen.target import Target
from hlotool.ir import Computation, Instruction, Module, UnsupportedError
from hlotool.ir.refusals import named

__all__ = ["Constants", "Kernels", "functions_of", "identifier"]

_LONG, _SHORT = 1e5, 1e3
"""Nanoseconds that are, and are not, worth waking threads for, in loops or outside of them."""

_NO_LOOPS: Mapping[Instruction, list[Piece]] = MappingProxyType({})


def functions_of(module: Module) -> list[Computation]:
    """The computations that become functions: what calls run, and the entry; callees first."""
    order = module.callees_first()
    running = {module.entry}
    found = {module.entry}
    for computation in reversed(order):
        if computation in running and computation.callees:
            for instruction in computation:
                running.update(called(instruction))
                if instruction.opcode == "call":
                    running.add(instruction.attributes["to_apply"])
                    found.add(instruction.attributes["to_apply"])
    return [computation for computation in order if computation in found]


class Kernels:
    """Kernels by structure: equal instructions share one, but each small loop has its own.  Helpers, and the functions
    of kernels that are in no small loop, go to `units`."""

    def __init__(self, target: Target, machine: Machine, units: Units) -> None:
        self.target = target
        self.machine = machine
        self.unmasked = replace(machine, masks=False)
        self.units = units
        self.of: dict[Instruction, Kernel] = {}
        self.names: dict[Instruction, str] = {}
        self.scratch: dict[Instruction, Value] = {}
        self.distinct: dict[Hashable, tuple[str, Kernel]] = {}
        self.functions: dict[Instruction | None, Functions] = {None: Functions(units.add)}  # by the loop they are in
        self.helpers: dict[Helper, None] = {}
        self._structures = Structures()

    def add_all(self, assignment: Assignment, small: Mapping[Instruction, list[Piece]] = _NO_LOOPS) -> None:
        """The kernels of all that needs one; those in loops that are `small` are added to the texts of these.

        KernelCrash with those that could not be written.
        """
        causes: dict[Instruction, Exception] = {}
        homes = {instruction: loop for loop in small for instruction in inside(loop)}
        unmasked = {instruction for loop in small for instruction in promotable(loop, assignment)}
        self.functions.update({loop: Functions(texts.append) for loop, texts in small.items()})
        for instruction in assignment.positions:
            if needs_kernel(instruction, self.target.in_line) and not is_there(instruction, assignment):
                try:
                    self.add(instruction, assignment, homes.get(instruction), instruction in unmasked)
                except UnsupportedError as error:
                    if instruction.opcode != "fusion":
                        raise
                    causes[instruction] = error  # its parts may have native code
                except Exception as error:
                    causes[instruction] = error
        if causes:
            raise KernelCrash(causes)

    def add(
        self, instruction: Instruction, assignment: Assignment, loop: Instruction | None, unmasked: bool
    ) -> None:  # fmt: skip
        in_place = assignment.in_place.get(instruction, frozenset())
        there = assignment.there.get(instruction, frozenset())
        key = (self._structures.instruction(instruction), tuple(sorted(in_place)), tuple(sorted(there)), loop, unmasked)
        found = self.distinct.get(key)
        if found is None:
            name = f"k{len(self.distinct)}_{identifier(instruction.name)}"
            with named(instruction):
                machine, choices = self.unmasked if unmasked else self.machine, choices_of(instruction)
                machine = machine if choices is FORMULAS else _told(machine, choices)
                kernel = self.target.emitter(instruction)(name, instruction, machine, in_place, there)
                if choices.threads is not None:
                    kernel = replace(kernel, steps=tuple(_shared(step, choices.threads) for step in kernel.steps))
            found = name, self.functions[loop].add(name, kernel)
            self.distinct[key] = found
            for helper in kernel.helpers:
                self._take(helper)
        self.names[instruction], kernel = found
        self.of[instruction] = kernel
        if kernel.scratch:
            self.scratch[instruction] = assignment.scratch(instruction, kernel.scratch, kernel.uses)

    def call(self, instruction: Instruction, routine: Routine, assignment: Assignment) -> None:
        """Let a call be a kernel whose only step is the function of what it calls."""
        self.names[instruction] = routine.function
        self.of[instruction] = Kernel({}, {}, (), (Step(routine.function, 1, routine.cost, True),), routine.arena_bytes)
        uses = (f"temporaries of {instruction.attributes['to_apply'].name}", routine.arena_bytes)
        self.scratch[instruction] = assignment.scratch(instruction, routine.arena_bytes, (uses,))

    def library(self) -> tuple[str, ...]:
        """The texts of the helpers that a process keeps."""
        return tuple(helper.text for helper in self.helpers if helper.kept)

    def _take(self, helper: Helper) -> None:
        if helper not in self.helpers:
            self.helpers[helper] = None
            if not helper.kept:
                self.units.add(Piece(helper.declarations, helper.definitions, (helper.declared,)))


def _told(machine: Machine, choices: Choices) -> Machine:
    """The machine for a kernel with these choices."""
    bits = min(choices.vector_bits or machine.vector_bits, machine.vector_bits)
    return replace(machine, vector_bits=bits, l2=choices.second_level or machine.l2, choices=choices)


def _shared(step: Step, threads: int) -> Step:
    """A step whose cost says that threads should share it, or should not."""
    return replace(step, cost=max(step.cost, _LONG) if threads else min(step.cost, _SHORT))


class Constants:
    """One block with all literals that kernels read, equal ones once, as `machine` reads them."""

    def __init__(self, machine: Machine) -> None:
        self._big_endian = machine.is_big_endian
        self._places: dict[bytes, int] = {}
        self._size = 0

    def offsets(self, assignment: Assignment) -> dict[Value, int]:
        """Take the literals of an assignment; the offset of each of its constant values."""
        offsets: dict[Value, int] = {}
        for instruction, values in assignment.leaves.items():
            if instruction.opcode != "constant":
                continue
            for value, leaf in zip(values, instruction.literal.leaves(), strict=True):
                data = bytes_of(leaf.value(), self._big_endian)
                if data not in self._places:
                    self._places[data] = self._size
                    self._size += _padded(data)
                offsets[value] = self._places[data]
        return offsets

    def block(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(b"".join(data.ljust(_padded(data), b"\0") for data in self._places), np.uint8)


def _padded(data: bytes) -> int:
    return -(-len(data) // ALIGNMENT) * ALIGNMENT


def identifier(name: str) -> str:
    """A name as part of a symbol."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
