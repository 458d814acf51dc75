"""Variadic reduce splitter: a reduce of very many arrays as several reduces of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, clone_instruction, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import has_sizes, is_pure, replace_with

__all__ = ["VariadicReduceSplitter"]


@dataclass(frozen=True, slots=True)
class VariadicReduceSplitter:
    """Splits a reduce of more than `most` arrays where results of its computation do not depend on each other.

    The results of so many arrays are far more than there are registers for, and LLVM's time for a loop grows with the
    square of what the loop carries.  Arrays whose results need each other stay together, however many they are.
    """

    name: ClassVar[str] = "variadic-reduce-splitter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"reduce"})
    most: int = 64

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in list(module.computations.values()):
            for reduce in computation:
                if reduce.opcode != "reduce" or len(reduce.operands) // 2 <= self.most or not _is_plain(reduce):
                    continue
                linked = _linked(reduce.attributes["to_apply"])
                parts = _parts(reduce.attributes["to_apply"], linked, self.most)
                if len(parts) == 1:
                    log.refuse("results-linked", reduce, "all of its results need each other")
                elif log.allow():
                    result = _split(module, Builder(computation, reduce, like=reduce), reduce, linked, parts)
                    log.rewrite("split", reduce, result, "results that do not need each other", parts=len(parts))
                    replace_with(reduce, result)
                    changed = True
        return changed


def _is_plain(reduce: Instruction) -> bool:
    """Whether nothing but the values of its results matters."""
    reducer: Computation = reduce.attributes["to_apply"]
    ordered = reduce.control_predecessors or reduce.control_successors
    return not ordered and not has_sizes(reduce) and reducer.root.opcode == "tuple" and all(map(is_pure, reducer))


def _linked(reducer: Computation) -> dict[Instruction, Instruction]:
    """For every instruction one that stands for all that are needed together; constants are needed by themselves."""
    count = len(reducer.root.operands)
    parent: dict[Instruction, Instruction] = {i: i for i in reducer}

    def find(instruction: Instruction) -> Instruction:
        while parent[instruction] is not instruction:
            parent[instruction] = parent[parent[instruction]]
            instruction = parent[instruction]
        return instruction

    parameters = reducer.parameters
    links = [(i, o) for i in reducer if i is not reducer.root for o in i.operands]
    for number, result in enumerate(reducer.root.operands):
        links += [(parameters[number], parameters[number + count]), (parameters[number], result)]
    for one, other in links:
        if other.opcode != "constant":
            parent[find(one)] = find(other)
    return {i: find(i) for i in reducer}


def _parts(reducer: Computation, linked: Mapping[Instruction, Instruction], most: int) -> list[list[int]]:
    """The numbers of the results of each part: those that are linked, and as many more as make at most `most`."""
    groups: dict[Instruction, list[int]] = {}
    for number, parameter in enumerate(reducer.parameters[: len(reducer.root.operands)]):
        groups.setdefault(linked[parameter], []).append(number)
    parts: list[list[int]] = []
    for group in groups.values():
        if parts and len(parts[-1]) + len(group) <= most:
            parts[-1] += group
        else:
            parts.append(group)
    return parts


def _split(
    module: Module, build: Builder, reduce: Instruction, linked: Mapping[Instruction, Instruction],
    parts: Sequence[Sequence[int]],
) -> Instruction:  # fmt: skip
    """A tuple of the results of one reduce for each of the parts."""
    count = len(reduce.operands) // 2
    results: dict[int, Instruction] = {}
    for part, reducer in zip(parts, _reducers(reduce.attributes["to_apply"], linked, parts), strict=True):
        operands = [reduce.operands[first + number] for first in (0, count) for number in part]
        shapes = [reduce.shape.elements[number] for number in part]
        attributes = {**reduce.attributes, "to_apply": module.add(reducer)}
        if len(part) == 1:
            results[part[0]] = build.add("reduce", shapes[0], operands, attributes)
        else:
            whole = build.add("reduce", tuple_shape(shapes), operands, attributes)
            results.update((number, build.gte(whole, place)) for place, number in enumerate(part))
    return build.tuple([results[number] for number in range(count)])


def _reducers(
    reducer: Computation, linked: Mapping[Instruction, Instruction], parts: Sequence[Sequence[int]]
) -> list[Computation]:
    """The parts of a computation, each with what its results need."""
    parameters, count = reducer.parameters, len(reducer.root.operands)
    bodies = [Computation(f"{reducer.name}_part") for _ in parts]
    copies: list[dict[Instruction, Instruction]] = [{} for _ in parts]
    home: dict[Instruction, int] = {}

    def copy(instruction: Instruction, at: int) -> Instruction:
        if instruction not in copies[at]:
            operands = [copy(operand, at) for operand in instruction.operands]  # all known but for constants
            copies[at][instruction] = bodies[at].add(clone_instruction(instruction, operands))
        return copies[at][instruction]

    for at, part in enumerate(parts):
        home.update((linked[parameters[number]], at) for number in part)
        for place, parameter in enumerate([parameters[first + number] for first in (0, count) for number in part]):
            copies[at][parameter] = Builder(bodies[at]).parameter(place, parameter.shape)
    for instruction in reducer:
        if linked[instruction] in home:
            copy(instruction, home[linked[instruction]])
    for at, part in enumerate(parts):
        results = [copy(reducer.root.operands[number], at) for number in part]
        bodies[at].root = results[0] if len(results) == 1 else Builder(bodies[at]).tuple(results)
    return bodies
