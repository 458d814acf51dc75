"""From the body of a fusion to a graph of element values.

`Tracer.element` says how one element of an instruction, at a symbolic index, is computed: data movement turns
into substitution of indices and disappears; what is left are loads, constants, elementwise operations,
selections under bound conditions, and reductions.  What each opcode means stands in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from hlotool.analysis.indexing import Atom, Index, atom_index, linearize, runtime, variable
from hlotool.codegen.loops.nodes import Guards, Node, Number, Partial, joint_index
from hlotool.ir import Instruction, Shape

__all__ = ["Dimension", "Reduction", "Request", "Rule", "Tracer"]

Request = tuple[Instruction, tuple[Index, ...], Guards, int]
"""Element `index` of result `leaf` of an instruction, wanted only where the guards hold."""

Rule = Generator[Request, Node, Node]

Reduction = tuple[tuple[Node, ...], tuple[Atom, ...], tuple[Atom, ...], Guards]
"""What all results of a reduction share: operands, bound variables, those that part it, where elements are."""

Dimension = tuple[int, int]
"""A dimension of some loop space, named by its extent and a counter among those of equal extent."""


class Tracer:
    """Traces elements.  `factors` says how dimensions are split into loop variables, major first.

    `rule_of` finds the rule of an instruction: a generator that asks for elements of operands and returns a node.
    `slots` gives the argument-table slot of the first leaf of each parameter number.  `parts` says of reduce
    instructions into how many partial results they are to be split; `partials` gathers what must be stored for
    that before anything else is computed.
    """

    def __init__(
        self,
        rule_of: Callable[[Instruction], Callable[[Tracer, Instruction, tuple[Index, ...], Guards, int], Rule]],
        slots: Sequence[int],
        factors: Mapping[Dimension, tuple[int, ...]] | None = None,
        parts: Mapping[Instruction, int] | None = None,
    ) -> None:
        self.rule_of = rule_of
        self.slots = slots
        self.factors = dict(factors or {})
        self.parts = dict(parts or {})
        self.partials: list[Partial] = []
        self.reductions: dict[tuple[Instruction, tuple[Index, ...], Guards], Reduction] = {}
        self.scratch = 0
        self.nodes: list[Node] = []
        self._variables: dict[int, list[tuple[Atom, ...]]] = {}
        self._numbers = count()
        self._memo: dict[Request, Node] = {}
        self._unique: dict[tuple[object, ...], Node] = {}

    # ---- loop variables

    def dimension(self, extent: int, taken: int = 0) -> tuple[Index, tuple[Atom, ...]]:
        """The index that runs over `extent` values, and its variables: none of the bits `taken`.

        Reductions get variables that are in use elsewhere when they may, so that equal loops look equal.
        """
        known = self._variables.setdefault(extent, [])
        for atoms in known:
            if not any(a.variables & taken for a in atoms):
                return joint_index(atoms), atoms
        name = extent, len(known)
        known.append(tuple([variable(next(self._numbers), factor) for factor in self.factors.get(name, (extent,))]))
        return joint_index(known[-1]), known[-1]

    def dimensions(self) -> Iterator[tuple[Dimension, tuple[Atom, ...]]]:
        """All dimensions with their variables."""
        for extent, known in self._variables.items():
            for number, atoms in enumerate(known):
                yield (extent, number), atoms

    def found(self, opcode: str, sizes: tuple[int, ...]) -> list[tuple[Index, ...]]:
        """The indices at which results of `sizes` of instructions with `opcode` were asked for, unguarded."""
        unguarded = [(i, index, leaf) for i, index, guards, leaf in self._memo if i.opcode == opcode and not guards]
        return list(dict.fromkeys(x for i, x, leaf in unguarded if list(i.shape.leaves())[leaf].dimensions == sizes))

    # ---- elements

    def element(self, instruction: Instruction, index: tuple[Index, ...], guards: Guards = (), leaf: int = 0) -> Node:
        """The node of element `index` of result `leaf` of `instruction`.

        It is asked for only where all `guards` hold; where they do not its value is of no interest, but
        computing it is harmless.
        """
        asked: Request = (instruction, index, guards, leaf)
        answer = self._memo.get(asked)
        stack = [(asked, self._rule(asked))] if answer is None else []
        while stack:
            request, rule = stack[-1]
            try:
                asked = next(rule) if answer is None else rule.send(answer)
            except StopIteration as finished:
                answer = self._memo[request] = finished.value
                stack.pop()
                continue
            answer = self._memo.get(asked)
            if answer is None:
                stack.append((asked, self._rule(asked)))
        assert answer is not None
        return answer

    def node(self, kind: str, type: str, operands: tuple[Node, ...] = (), **fields: Any) -> Node:
        """The node with these fields (one for equal fields)."""
        named = [tuple([(k, str(v[k])) for k in v]) if isinstance(v, dict) else v for v in fields.values()]
        key = (kind, type, operands, *fields, *named)
        found = self._unique.get(key)
        if found is None:
            found = Node(len(self.nodes), kind, type, operands, **fields)
            self._unique[key] = found
            self.nodes.append(found)
        return found

    def elementwise(self, opcode: str, type: str, /, *operands: Node, **attributes: Any) -> Node:
        return self.node("elementwise", type, operands, opcode=opcode, attributes=attributes)

    def number(self, type: str, value: Any) -> Node:
        return self.node("constant", type, slot=Number(value))

    def clamped(self, source: Node, low: int, high: int) -> Index:
        """The value of integer node `source`, clamped to ``low..high``."""
        return atom_index(runtime(source.serial, source, low, high, source.variables))

    def _rule(self, request: Request) -> Rule:
        instruction, index, guards, leaf = request
        guards = tuple([g for g in guards if not g.always])
        return self.rule_of(instruction)(self, instruction, index, guards, leaf)

    def load(
        self, slot: Any, shape: Shape, index: tuple[Index, ...], guards: Guards, packed: bool = False
    ) -> Node:
        """A load of an array with this shape; guards that its range makes superfluous are dropped."""
        position = linearize(index, shape.dimensions)
        if position.low >= 0 and position.high < shape.size:
            guards = ()
        return self.node("load", shape.element_type, index=position, guards=guards, slot=slot, packed=packed)

    def choice(self, guards: Guards, yes: Node, no: Node, why: str = "") -> Node:
        """`yes` where all `guards` hold, else `no`; `why` is kept as the slot of the node."""
        if not guards:
            return yes
        return self.node("select", yes.type, (yes, no), guards=guards, slot=why)
