"""Which instruction of a module one of another module stands for: of an optimised module and its original, say.

Found, in this order, by structure (the same expression of the parameters), by name, by origins (passes note what an
instruction was made from), by the decision log, by metadata, and by being the same result.  Only structure is proof of
the same value: a rewrite of one instruction into several gives all of them its name as their origin, and the last of
them its value.  Where loops are unrolled or peeled, copies stand for one instruction in several iterations.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from hlotool.analysis.decisions import Decision
from hlotool.analysis.fingerprint import Structures
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Counterpart", "counterparts", "entered", "run_order"]

_FREE = frozenset({"copy", "bitcast", "opt-barrier"})
"""What gives its operand; a bitcast where that has the same dimensions."""

_OUTER = frozenset({"fusion", "call"})
"""What has the value of the root of what it calls."""

_ENTERING = frozenset({"fusion", "call", "while", "conditional"})


@dataclass(frozen=True, slots=True)
class Counterpart:
    """An instruction of the original, and `how` it was found: ``structure``, ``name``, ``origin``, ``decision``,
    ``metadata``, or ``output``: both are the same result of their modules.

    What is `held` is to have its value.  Others may be parts on the way there, or the same in another iteration.
    """

    instruction: Instruction
    how: str
    held: bool


def entered(instruction: Instruction) -> list[tuple[Computation, list[tuple[Instruction, Instruction]]]]:
    """The computations whose instructions run on whole values when `instruction` does, each with its parameters and
    the operands that these are at first; not those that are applied to elements."""
    attributes, operands = instruction.attributes, instruction.operands
    if instruction.opcode not in _ENTERING:
        return []
    if instruction.opcode == "while":
        found: list[tuple[Computation, Sequence[Instruction]]] = [
            (attributes["condition"], operands), (attributes["body"], operands),
        ]  # fmt: skip
    elif instruction.opcode == "conditional":
        found = [(branch, [operands[n]]) for n, branch in enumerate(instruction.called, 1)]
    else:
        found = [(callee, operands) for callee in instruction.called]
    return [(c, list(zip(sorted(c.parameters, key=_number), given, strict=False))) for c, given in found]


def _number(parameter: Instruction) -> int:
    return parameter.parameter_number


def run_order(module: Module) -> list[Instruction]:
    """The instructions of the entry, each after those that it reads and those of the computations that it enters."""
    order: list[Instruction] = []
    done: set[Computation] = set()
    stack = [(module.entry, iter(module.entry))]
    done.add(module.entry)
    waiting: list[Instruction] = []
    while stack:
        _, rest = stack[-1]
        for instruction in rest:
            inner = [c for c, _ in entered(instruction) if c not in done]
            if not inner:
                order.append(instruction)
                continue
            done.update(inner)
            waiting.append(instruction)
            stack += [(c, iter([*c, instruction] if c is inner[-1] else c)) for c in reversed(inner)]
            break
        else:
            stack.pop()
    return list(dict.fromkeys(order))


def counterparts(
    original: Module, made: Module, decisions: Sequence[Decision] = (), same_names: bool = True
) -> dict[Instruction, Counterpart]:
    """What the instructions of `made` stand for in `original`, for those that stand for something.

    Unless `same_names` says that `made` comes from `original`, names say something only of instructions of the same
    shape.  Linear in the sizes of both.
    """
    numbers = _Numbers()
    numbers.take(original)
    originals = run_order(original)
    numbers_of_made = _Numbers(numbers)
    numbers_of_made.take(made)
    structure: dict[Hashable, Instruction] = {}
    for one in originals:
        if one in numbers.of:
            structure.setdefault(numbers.of[one], one)
    search = _Search(originals, _loops(original), decisions, same_names)
    found: dict[Instruction, Counterpart] = {}
    order = run_order(made)
    for one in order:
        same = structure.get(numbers_of_made.of.get(one, ()))
        match = Counterpart(same, "structure", True) if same is not None else search.counterpart(one)
        if one.opcode in _OUTER and same is None:  # its origins are those of all that is in it
            match = found.get(one.called[0].root)
        if match is not None:
            found[one] = match
    held = _held(order, found, _loops(made), _loops(original), _shared(original, originals))
    for one, target in zip(_results(made.entry.root), _results(original.entry.root), strict=False):
        if not (one in held and held[one].held) and search.fits(one, target):
            held[one] = Counterpart(target, "output", True)
    return held


def _results(root: Instruction) -> list[Instruction]:
    """What the arrays of a result are computed by, where that is plain: elements of tuples, roots of fusions."""
    if root.opcode == "tuple":
        return [leaf for operand in root.operands for leaf in _results(operand)]
    if root.opcode in _OUTER:
        return _results(root.called[0].root)
    if root.opcode == "get-tuple-element":
        source, index = root.operands[0], root.attributes["index"]
        while source.opcode in _OUTER:
            source = source.called[0].root
        return _results(source.operands[index]) if source.opcode == "tuple" else [root]
    return [root] if root.shape.is_array else []


def _held(
    order: Sequence[Instruction],
    found: Mapping[Instruction, Counterpart],
    loops: Mapping[Computation, int],
    loops_before: Mapping[Computation, int],
    shared: Set[Computation],
) -> dict[Instruction, Counterpart]:
    """Of several with one counterpart the last has its value, and those that do the same; where they are its copies in
    several trips or calls, the first, as it is the first trip and call that counts."""
    made = [one for one in order if one in found and one.opcode not in _OUTER]
    last = {found[one].instruction: one for one in made}
    first = {found[one].instruction: one for one in reversed(made)}
    opcodes: dict[Instruction, set[str]] = {}
    for one in made:
        opcodes.setdefault(found[one].instruction, set()).add(one.opcode)

    def holds(one: Instruction, target: Instruction) -> bool:
        if one.opcode in _OUTER:
            return holds(one.called[0].root, target)
        if _depth(one, loops) != _depth(target, loops_before) or target.parent in shared:
            return one is first[target] and len(opcodes[target]) == 1
        return one is last[target] or (one.opcode == target.opcode and _dimensions(one) == _dimensions(target))

    return {
        one: row if row.how == "structure" else replace(row, held=holds(one, row.instruction))
        for one, row in found.items()
    }


def _dimensions(one: Instruction) -> list[tuple[int, ...]]:
    return [leaf.dimensions for leaf in one.shape.leaves()]


def _shared(module: Module, order: Iterable[Instruction]) -> set[Computation]:
    """The computations that several instructions enter, and those that these enter."""
    callers: dict[Computation, int] = {}
    for one in order:
        for computation, _ in entered(one):
            callers[computation] = callers.get(computation, 0) + 1
    shared = {computation for computation, count in callers.items() if count > 1}
    for computation in reversed(module.callees_first()):
        if computation in shared:
            shared.update(inner for one in computation for inner, _ in entered(one))
    return shared


def _depth(instruction: Instruction, loops: Mapping[Computation, int]) -> int:
    return loops.get(instruction.parent, 0) if instruction.parent is not None else 0


def _loops(module: Module) -> dict[Computation, int]:
    """In how many loops computations are."""
    depths = {module.entry: 0}
    for computation in reversed(module.callees_first()):
        for instruction in computation.calls:
            inside = depths.get(computation, 0) + (instruction.opcode == "while")
            for callee in instruction.called:
                depths[callee] = max(depths.get(callee, 0), inside)
    return depths


def _plain_kind(instruction: Instruction) -> tuple[Hashable, ...]:
    shape = instruction.shape
    return (instruction.opcode, tuple((leaf.element_type, leaf.dimensions) for leaf in shape.leaves()))


class _Search:
    """Instructions of the original by their names and metadata."""

    def __init__(
        self,
        originals: Iterable[Instruction],
        loops: Mapping[Computation, int],
        decisions: Sequence[Decision],
        same_names: bool,
    ) -> None:
        self.same_names = same_names
        self.place: dict[Instruction, int] = {}
        self.named: dict[str, list[Instruction]] = {}
        self.described: dict[Hashable, list[Instruction]] = {}
        for number, one in enumerate(originals):
            self.place[one] = number
            self.named.setdefault(one.name, []).append(one)
            metadata = one.metadata
            if metadata is not None and metadata.op_name:
                self.described.setdefault((metadata.op_name, _plain_kind(one)), []).append(one)
        self.made: dict[str, tuple[str, ...]] = {}
        for decision in decisions:
            if decision.action == "rewrite":
                names = tuple(name for origins in decision.origins for name in origins) or decision.before
                self.made.update(dict.fromkeys(decision.after, names))

    def counterpart(self, one: Instruction) -> Counterpart | None:
        """The source that reads the others, of the sources with the element type and size of what was made of them."""
        decided = self.made.get(one.name, ()) if self.same_names else ()
        for how, names in (("name", (one.name,)), ("origin", one.origins), ("decision", decided)):
            fitting = [found for name in names for found in self.named.get(name, ()) if self.fits(one, found)]
            if fitting and len({found.parent for found in fitting if found.name == fitting[0].name}) == 1:
                return Counterpart(max(fitting, key=self.place.__getitem__), how, True)
        metadata = one.metadata
        if metadata is not None and metadata.op_name:
            described = self.described.get((metadata.op_name, _plain_kind(one)), [])
            if len(described) == 1:
                return Counterpart(described[0], "metadata", True)
        return None

    def fits(self, one: Instruction, found: Instruction) -> bool:
        """Whether the one may have the value of the other, with other dimensions at most where it was made from it."""
        if not self.same_names:
            return _plain_kind(one)[1:] == _plain_kind(found)[1:]
        ours, theirs = list(one.shape.leaves()), list(found.shape.leaves())
        return len(ours) == len(theirs) and all(
            a.element_type == b.element_type and (not a.is_array or a.size == b.size)
            for a, b in zip(ours, theirs, strict=True)
        )


class _Numbers:
    """Value numbers: instructions with the same one are the same expression of the entry's parameters, in the first
    run of the computation that they are in."""

    def __init__(self, before: _Numbers | None = None) -> None:
        self.structures: Structures = Structures() if before is None else before.structures
        self.known: dict[Hashable, int] = {} if before is None else before.known
        self.of: dict[Instruction, Hashable] = {}

    def take(self, module: Module) -> None:
        """Number all instructions that `run_order` gives but those of computations that several others enter."""
        order = run_order(module)
        shared = _shared(module, order)
        bound = {parameter: given for one in order for _, pairs in entered(one) for parameter, given in pairs}
        for one in order:
            if one.parent not in shared:
                self._number(one, bound, shared)

    def _number(self, one: Instruction, bound: Mapping[Instruction, Instruction], shared: Set[Computation]) -> None:
        if one.opcode == "parameter":
            source = bound.get(one)
            self.of[one] = ("parameter", one.parameter_number) if source is None else self.of.get(source, one)
            return
        operands = [self.of.get(operand, operand) for operand in one.operands]
        number: Hashable
        if one.opcode == "tuple":
            number = tuple(operands)
        elif one.opcode == "get-tuple-element" and _is_tuple(operands[0]):
            number = operands[0][one.attributes["index"]]  # type: ignore[index]
        elif one.opcode in _FREE and one.operands and _same_array(one, one.operands[0]):
            number = operands[0]
        elif one.opcode in _OUTER and one.called[0] not in shared:
            number = self.of.get(one.called[0].root, one)
        else:
            if one.has("commutative"):
                operands = sorted(operands, key=repr)
            shape = tuple((leaf.element_type, leaf.dimensions) for leaf in one.shape.leaves())
            key = (one.opcode, shape, tuple(operands), self.structures.attributes(one.attributes))
            effect = one.info.group in ("rng", "custom", "collective", "feed")
            number = one if effect else self.known.setdefault(key, len(self.known))
        self.of[one] = number


def _is_tuple(number: Any) -> bool:
    return isinstance(number, tuple) and number[:1] != ("parameter",)


def _same_array(one: Instruction, other: Instruction) -> bool:
    return one.shape.without_layout() == other.shape.without_layout()
