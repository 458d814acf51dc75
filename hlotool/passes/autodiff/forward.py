"""Forward mode: a copy of a computation in which every value has its tangent beside it."""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.ir import Computation, Instruction, clone_instruction
from hlotool.ir.builder import Builder
from hlotool.passes.autodiff.activity import Inputs, Paths
from hlotool.passes.autodiff.reverse import Program
from hlotool.passes.autodiff.rule import ByLeaf
from hlotool.passes.autodiff.writer import Path, Writer, leaf_shape

__all__ = ["JOINT", "Forward", "with_tangents"]

JOINT = frozenset({"while", "conditional", "call", "sort"})
"""Opcodes whose rules compute the value together with the tangent: these call `Forward.settle`."""


class Forward(Writer):
    """Writes a computation again, with tangents; `active` are the leaves of values that have some."""

    def __init__(self, program: Program, build: Builder, active: Mapping[Instruction, Paths]) -> None:
        self._copies: dict[Instruction, Instruction] = {}
        super().__init__(program.module, build, self._copies.__getitem__)
        self.program, self.active = program, active
        self._tangents: dict[Instruction, ByLeaf] = {}

    def settle(self, value: Instruction, new: Instruction) -> None:
        """`new` is what stands for `value` in the copy."""
        self._copies[value] = new

    def set_tangents(self, value: Instruction, tangents: ByLeaf) -> None:
        self._tangents[value] = tangents

    def tangents(self, value: Instruction) -> ByLeaf:
        return self._tangents.get(value, {})

    def tangent(self, value: Instruction, path: Path = ()) -> Instruction | None:
        """The tangent of a leaf; None where it is zero."""
        return self.tangents(value).get(path)

    def tangent_or_zeros(self, value: Instruction, path: Path = ()) -> Instruction:
        return self.tangent(value, path) or self.zeros(leaf_shape(value.shape, path))

    def copy(self, value: Instruction) -> Instruction:
        """A copy of an instruction on the copies of its operands."""
        new = self.build.put(clone_instruction(value, map(self.primal, value.operands)))
        for before in value.control_predecessors:
            new.add_control_predecessor(self._copies[before])
        self._copies[value] = new
        return new

    def walk(self, computation: Computation) -> None:
        """Write all but the parameters, which are settled, and their tangents."""
        for instruction in computation:
            if instruction.opcode == "parameter":
                continue
            self.build.like = instruction
            moves = instruction in self.active and any(self._tangents.get(o) for o in instruction.operands)
            if not moves or instruction.opcode not in JOINT:
                self.copy(instruction)
            if moves:
                self._tangents[instruction] = self.program.rule(instruction).forward(self, instruction)


def with_tangents(program: Program, computation: Computation, inputs: Inputs) -> tuple[Computation, tuple[Path, ...]]:
    """A computation that takes the tangents of `inputs`, in order, behind the parameters, and returns a tuple.

    It holds the result and the tangents of those of its leaves that are returned.
    """
    known = program.tangents.get((computation, inputs))
    if known is not None:
        return known
    new = Computation(f"{computation.name}_tangents")
    build = Builder(new)
    active = program.activity.wanted(computation, inputs, program.activity.results(computation, inputs))
    forward = Forward(program, build, active)
    for parameter in computation.parameters:
        build.like = parameter
        forward.settle(parameter, build.parameter(parameter.parameter_number, parameter.shape))
    given: dict[Instruction, dict[Path, Instruction]] = {}
    for number, path in sorted(inputs):
        parameter = computation.parameters[number]
        tangent = build.parameter(len(new.parameters), leaf_shape(parameter.shape, path))
        given.setdefault(parameter, {})[path] = tangent
    for parameter, tangents in given.items():
        forward.set_tangents(parameter, tangents)
    forward.walk(computation)
    build.like = None
    results = dict(sorted(forward.tangents(computation.root).items()))
    new.root = build.tuple([forward.primal(computation.root), *results.values()])
    program.module.add(new)
    program.tangents[computation, inputs] = new, tuple(results)
    return new, tuple(results)
