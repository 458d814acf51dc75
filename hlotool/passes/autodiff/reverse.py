"""Reverse mode: a walk from the result to the parameters that collects cotangents.

The walk goes over a computation of the program, `forward`, and writes where `build` writes: behind it, for the entry;
elsewhere into a computation of its own, whose parameters are the cotangents of the results and whatever values of
`forward` the rules ask for.  `linearise` does the latter for computations that are called; what to do with the values
that are asked for, to carry them along or to stack them by iteration, is for the rule of the caller (`control.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from hlotool.ir import Computation, Instruction, Module, Shape, clone_computation, clone_instruction
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.autodiff.activity import Activity, Inputs, Leaf, Paths
from hlotool.passes.autodiff.rule import Rule
from hlotool.passes.autodiff.writer import Path, Writer, leaf_shape, refusal

__all__ = ["Linear", "Program", "Recomputed", "Reverse", "from_constants", "leaf_of", "linearise", "place_of"]

Update = Callable[[Instruction], Instruction]
"""Adds a cotangent that is zero almost everywhere to another one."""


@dataclass(slots=True)
class Program:
    """What is being differentiated: the module, which derivatives are put into, the rules, and what is done already."""

    module: Module
    rules: Mapping[str, Rule]
    refused: Mapping[str, str]
    activity: Activity
    linear: dict[tuple[Computation, Inputs, Paths, object], Linear] = field(default_factory=dict)
    tangents: dict[tuple[Computation, Inputs], tuple[Computation, tuple[Path, ...]]] = field(default_factory=dict)

    def rule(self, instruction: Instruction) -> Rule:
        found = self.rules.get(instruction.opcode)
        if found is None:
            raise refusal(instruction, self.refused.get(instruction.opcode, "there is no rule for it"))
        return found


class Reverse(Writer):
    """One walk over `forward`; `active` are the leaves that have cotangents at all."""

    def __init__(
        self,
        program: Program,
        forward: Computation,
        build: Builder,
        active: Mapping[Instruction, Paths],
        fetch: Callable[[Instruction], Instruction] | None = None,
    ) -> None:
        super().__init__(program.module, build, fetch)
        self.program, self.forward, self.active = program, forward, active
        self.replaced: dict[Instruction, Instruction] = {}
        self._given: dict[Instruction, dict[Path, list[Instruction]]] = {}
        self._updates: dict[Instruction, dict[Path, list[Update]]] = {}

    # ---- what rules use

    def wants(self, value: Instruction, path: Path = ()) -> bool:
        """Whether a cotangent of `value` is of any use."""
        return path in self.active.get(value, ())

    def give(self, value: Instruction, cotangent: Instruction, path: Path = ()) -> None:
        """A part of the cotangent of `value`: the parts are added up."""
        if self.wants(value, path):
            self._given.setdefault(value, {}).setdefault(path, []).append(cotangent)

    def give_into(self, value: Instruction, update: Update, path: Path = ()) -> None:
        """A part that touches few elements: it is added to the sum of the others."""
        if self.wants(value, path):
            self._updates.setdefault(value, {}).setdefault(path, []).append(update)

    def ahead_of(self, instruction: Instruction) -> Builder:
        """To write values of the program with, ahead of one of its instructions, for as long as that is there."""
        return Builder(self.forward, instruction, like=instruction)

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Let the program compute `new` instead of `old`, which all that read it have been walked over."""
        self.replaced[old] = new
        old.replace_all_uses(new)
        self.forward.erase(old)

    def standing(self, value: Instruction) -> Instruction:
        """What computes `value` now."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    # ---- the walk

    def walk(self, instructions: Iterable[Instruction]) -> dict[Leaf, Instruction]:
        """Go over instructions, last to first; the cotangents of parameters."""
        found: dict[Leaf, Instruction] = {}
        for instruction in instructions:
            cotangents = self._take(instruction)
            if not cotangents:
                continue
            if instruction.opcode == "parameter":
                number = instruction.parameter_number
                found.update({(number, path): cotangent for path, cotangent in cotangents.items()})
            else:
                self.build.like = instruction
                self.program.rule(instruction).reverse(self, instruction, cotangents)
        return found

    def _take(self, value: Instruction) -> dict[Path, Instruction]:
        given, updates = self._given.pop(value, {}), self._updates.pop(value, {})
        if not given and not updates:
            return {}
        self.build.like = value
        total: dict[Path, Instruction] = {}
        for path in sorted(given.keys() | updates.keys()):
            parts = given.get(path) or [self.zeros(leaf_shape(value.shape, path))]
            cotangent = parts[0]
            for part in parts[1:]:
                cotangent = self.add(cotangent, part)
            for update in updates.get(path, ()):
                cotangent = update(cotangent)
            total[path] = cotangent
        return total


def place_of(value: Instruction) -> Leaf | None:
    """Which part of which parameter `value` is."""
    path: list[int] = []
    while value.opcode == "get-tuple-element":
        path.append(value.attributes["index"])
        value = value.operands[0]
    return (value.parameter_number, tuple(reversed(path))) if value.opcode == "parameter" else None


def leaf_of(build: Builder, value: Instruction, path: Path) -> Instruction:
    """A part of a value."""
    for index in path:
        value = value.operands[index] if value.opcode == "tuple" else build.gte(value, index)
    return value


@dataclass(frozen=True, slots=True)
class Linear:
    """A computation taken apart: what it computes, and the linear part of it, backwards.

    `forward` is a copy, whose result is the same.  `backward` takes arrays: the cotangents of `results`, then `needs`,
    each a part of a parameter of `forward` or an instruction in it.  It returns a tuple: the cotangents of `inputs`.
    """

    forward: Computation
    backward: Computation
    results: tuple[Path, ...]
    needs: tuple[Leaf | Instruction, ...]
    inputs: tuple[Leaf, ...]


Recomputed = Callable[[Computation], Callable[[Instruction], bool]]
"""Which values of a computation are computed again, from parts of its parameters, rather than saved."""


def from_constants(computation: Computation) -> Callable[[Instruction], bool]:
    """What is computed of constants alone by instructions that cost nothing."""
    found: set[Instruction] = set()
    for instruction in computation:
        if instruction.opcode in ("constant", "iota") or (
            instruction.opcode in ("broadcast", "reshape") and instruction.operands[0] in found
        ):
            found.add(instruction)
    return found.__contains__


def linearise(
    program: Program,
    computation: Computation,
    inputs: Inputs,
    results: Paths,
    again: Recomputed = from_constants,
) -> Linear:
    """Take `computation` apart, given which parts of its parameters have tangents and whose results cotangents.

    The computations of the result are not in the module yet; that of `forward` may get another root first.
    """
    forward = clone_computation(computation)
    recomputed = again(forward)
    backward = Computation(f"{computation.name}_gradient")
    build = Builder(backward)
    needs: list[Leaf | Instruction] = []
    known: dict[Instruction | Leaf, Instruction] = {}

    def parameter(shape: Shape) -> Instruction:
        return build.parameter(len(backward.parameters), shape)

    def fetch(value: Instruction) -> Instruction:
        stack = [value]
        while stack:
            current = stack.pop()
            if current in known:
                continue
            place = place_of(current)
            if place is None and recomputed(current):
                if missing := [operand for operand in current.operands if operand not in known]:
                    stack += [current, *missing]
                else:
                    copy = clone_instruction(current, [known[operand] for operand in current.operands])
                    known[current] = build.put(copy)
            elif place is not None and place in known:
                known[current] = known[place]
            else:
                needs.append(current if place is None else place)
                known[current] = parameter(current.shape)
                if place is not None:
                    known[place] = known[current]
        return known[value]

    active = program.activity.of(forward, inputs)
    reverse = Reverse(program, forward, build, active, fetch)
    paths = tuple(sorted(results & active.get(forward.root, frozenset())))
    for path in paths:
        reverse.give(forward.root, parameter(leaf_shape(forward.root.shape, path)), path)
    gradients = reverse.walk(list(reversed(forward)))
    reached = tuple(sorted(gradients))
    build.like = None
    backward.root = build.tuple([gradients[leaf] for leaf in reached])
    saved = tuple(reverse.standing(need) if isinstance(need, Instruction) else need for need in needs)
    return Linear(forward, backward, paths, saved, reached)
