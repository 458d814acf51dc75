"""Which values depend on the parameters in question, and which of these a cotangent reaches.

Both are asked of every leaf of every value before anything is written: derivatives of the rest are zero, and nobody
writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hlotool.ir import Computation, Instruction
from hlotool.passes.autodiff.writer import Path, differentiable, leaves

__all__ = ["Activity", "Inputs", "Leaf", "Paths", "branches_of", "inputs_of"]

Paths = frozenset[Path]
Leaf = tuple[int, Path]
"""A leaf of a parameter: the number of the parameter, and the path in it."""
Inputs = frozenset[Leaf]

_NONE: Paths = frozenset()
_AS_THEY_ARE = ("opt-barrier", "domain", "copy")


class Activity:
    """Asked once per computation and set of inputs.  `is_constant` says whose derivative is zero."""

    def __init__(self, is_constant: Callable[[Instruction], bool]) -> None:
        self._is_constant = is_constant
        self._known: dict[tuple[Computation, Inputs], dict[Instruction, Paths]] = {}

    def of(self, computation: Computation, inputs: Inputs) -> dict[Instruction, Paths]:
        """The leaves that depend on `inputs`, by instruction; what has none is missing."""
        key = computation, inputs
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = {}
            for instruction in computation:
                if instruction.opcode == "parameter":
                    number = instruction.parameter_number
                    paths = frozenset([path for given, path in inputs if given == number])
                else:
                    paths = self._result(instruction, found)
                if paths:
                    found[instruction] = paths
        return found

    def results(self, computation: Computation, inputs: Inputs) -> Paths:
        """The leaves of the result that depend on `inputs`."""
        return self.of(computation, inputs).get(computation.root, _NONE)

    def _result(self, instruction: Instruction, known: Mapping[Instruction, Paths]) -> Paths:
        opcode = instruction.opcode
        if not any(operand in known for operand in instruction.operands) or self._is_constant(instruction):
            return _NONE
        active = [known.get(operand, _NONE) for operand in instruction.operands]
        if opcode == "tuple":
            return frozenset([(n, *path) for n, paths in enumerate(active) for path in paths])
        if opcode == "get-tuple-element":
            index = instruction.attributes["index"]
            return frozenset([path[1:] for path in active[0] if path[0] == index])
        if opcode in _AS_THEY_ARE or opcode == "add-dependency":
            return active[0]
        if opcode == "while":
            return self.of_state(instruction, active[0])
        if opcode == "call":
            (callee,) = instruction.called
            return self.results(callee, inputs_of(active))
        if opcode == "conditional":
            branches = zip(branches_of(instruction), active[1:], strict=True)
            return _NONE.union(*(self.results(branch, inputs_of([paths])) for branch, paths in branches))
        if opcode == "sort" and instruction.shape.is_tuple:
            return frozenset([(n,) for n, paths in enumerate(active) if paths])
        return frozenset([path for path, shape in leaves(instruction.shape) if differentiable(shape)])

    def of_state(self, loop: Instruction, initial: Paths) -> Paths:
        """The leaves of the state of a loop that depend on something, in any iteration."""
        body: Computation = loop.attributes["body"]
        state = initial
        while not (more := self.results(body, inputs_of([state]))) <= state:
            state |= more
        return state

    def needed(self, computation: Computation, inputs: Inputs, results: Iterable[Path]) -> Inputs:
        """The inputs that cotangents of `results` can reach."""
        wanted = self.wanted(computation, inputs, results)
        return frozenset([(p.parameter_number, path) for p in computation.parameters for path in wanted.get(p, ())])

    def wanted(
        self, computation: Computation, inputs: Inputs, results: Iterable[Path]
    ) -> dict[Instruction, Paths]:
        """The leaves that depend on `inputs`, and that `results` depend on."""
        active = self.of(computation, inputs)
        asked: dict[Instruction, set[Path]] = {computation.root: set(results)}
        found: dict[Instruction, Paths] = {}
        for instruction in reversed(computation):
            paths = asked.pop(instruction, set()) & active.get(instruction, _NONE)
            if paths:
                found[instruction] = frozenset(paths)
                if instruction.opcode != "parameter":
                    for operand, more in self._asked(instruction, paths, active):
                        asked.setdefault(operand, set()).update(more)
        return found

    def _asked(
        self, instruction: Instruction, paths: set[Path], active: Mapping[Instruction, Paths]
    ) -> list[tuple[Instruction, Iterable[Path]]]:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == "tuple":
            return [(operands[path[0]], (path[1:],)) for path in paths]
        if opcode == "get-tuple-element":
            index = instruction.attributes["index"]
            return [(operands[0], [(index, *path) for path in paths])]
        if opcode in _AS_THEY_ARE or opcode == "add-dependency":
            return [(operands[0], paths)]
        if opcode == "while":
            return [(operands[0], self.needed_state(instruction, active.get(operands[0], _NONE), frozenset(paths)))]
        if opcode == "call":
            (callee,) = instruction.called
            given = inputs_of([active.get(operand, _NONE) for operand in operands])
            return [(operands[number], (path,)) for number, path in self.needed(callee, given, paths)]
        return [(operand, active.get(operand, _NONE)) for operand in operands]

    def needed_state(self, loop: Instruction, initial: Paths, results: Paths) -> Paths:
        """The leaves of the state whose cotangents are not zero in some iteration."""
        body: Computation = loop.attributes["body"]
        state = inputs_of([self.of_state(loop, initial)])
        needed = results
        while True:
            more = needed | {path for _, path in self.needed(body, state, needed)}
            if more == needed:
                return needed
            needed = more


def inputs_of(paths: Iterable[Paths]) -> Inputs:
    """The leaves of arguments as leaves of parameters."""
    return frozenset([(number, path) for number, own in enumerate(paths) for path in own])




def branches_of(conditional: Instruction) -> tuple[Computation, ...]:
    """The branches in the order of their operands."""
    attributes = conditional.attributes
    named = attributes.get("branch_computations")
    return tuple(named) if named else (attributes["true_computation"], attributes["false_computation"])
