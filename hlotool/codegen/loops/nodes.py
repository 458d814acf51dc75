"""The values that a fused loop computes, as a graph without loops or order.

Equal values are one `Node` (see `trace`); `nest` writes them once the loops have been chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import Any

from hlotool.analysis.indexing import Atom, Condition, Index
from hlotool.ir import ELEMENT_TYPES, Computation

__all__ = ["Guards", "Node", "Number", "Partial", "Row", "Scratch", "body_of", "closure", "fits_in_32_bits", "scope_of"]

Guards = tuple[Condition, ...]


class Node:
    """A value: one scalar for every setting of the loop variables whose bits are in `variables`.

    ============  ==========================================================================
    kind          meaning
    ============  ==========================================================================
    load          element `index` of buffer `slot` (a slot of the argument table, or a literal)
    constant      the number `slot`
    position      the integer `index` converted to `type`
    elementwise   `opcode` with `attributes` of `operands`
    select        the first operand where all `guards` hold, else the second
    inline        `computation` applied to `operands`
    reduce        `computation` over `bound` variables: operands are inputs, then initial values; `slot` is
                  the instruction.  Without a computation the sum of the products of pairs of inputs
    leaf          result number `slot` of a variadic reduce
    store         writes its operand as element `index` of buffer `slot`
    ============  ==========================================================================
    """

    __slots__ = (
        "_indices",
        "_inputs",
        "atoms",
        "attributes",
        "bound",
        "computation",
        "guards",
        "hidden",
        "index",
        "kind",
        "opcode",
        "operands",
        "serial",
        "slot",
        "trips",
        "type",
        "variables",
    )

    def __init__(
        self,
        serial: int,
        kind: str,
        type: str,
        operands: tuple[Node, ...] = (),
        *,
        opcode: str = "",
        attributes: Mapping[str, Any] | None = None,
        index: Index | None = None,
        guards: Guards = (),
        slot: Any = None,
        computation: Computation | None = None,
        bound: tuple[Atom, ...] = (),
    ) -> None:
        self.serial = serial
        self.kind = kind
        self.type = type
        self.operands = operands
        self.opcode = opcode
        self.attributes = attributes or {}
        self.index = index
        self.guards = guards
        self.slot = slot
        self.computation = computation
        self.bound = bound
        self._indices = (*(() if index is None else (index,)), *[g.index for g in guards])
        inside = [atom for x in self._indices for atom in x.atoms()]
        self._inputs = (*operands, *[a.source for a in inside if isinstance(a.source, Node)])
        self.hidden = _variables(bound)  # of the variables that a reduction binds
        self.atoms: tuple[Atom, ...] = _atoms([node.atoms for node in self._inputs if node.atoms], inside, bound)
        self.variables = _variables(self.atoms)
        self.trips = prod([atom.high - atom.low + 1 for atom in self.atoms])  # settings of the variables

    def indices(self) -> tuple[Index, ...]:
        """Indices that this node itself evaluates."""
        return self._indices

    def inputs(self) -> tuple[Node, ...]:
        """Nodes that must have been computed before: operands, and sources of run-time integers."""
        return self._inputs


def _atoms(of_inputs: Sequence[tuple[Atom, ...]], inside: Sequence[Atom], bound: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The variables of inputs, and those `inside` of indices, each once, without those that are `bound`."""
    if of_inputs and not (inside or bound) and all(atoms == of_inputs[0] for atoms in of_inputs):
        return of_inputs[0]
    free: dict[Atom, None] = {}
    for atoms in of_inputs:
        free.update(dict.fromkeys(atoms))
    free.update(dict.fromkeys([atom for atom in inside if atom.kind == "variable"]))
    return tuple([atom for atom in free if atom not in bound] if bound else free)


def _variables(atoms: Iterable[Atom]) -> int:
    """The bits of all variables that `atoms` depend on."""
    bits = 0
    for atom in atoms:
        bits |= atom.variables
    return bits


def scope_of(roots: Sequence[Node], cut: Collection[Node] = ()) -> list[Node]:
    """All nodes needed for `roots` that do not depend on variables that a reduction binds.

    What is needed only to compute nodes in `cut` is left out, except for their use inside of reductions.
    """
    found: set[Node] = set()
    stack = [(node, 0) for node in roots]
    seen = set(stack)
    while stack:
        node, inner = stack.pop()
        if not node.variables & inner:
            found.add(node)
            if node in cut:
                continue
        inner |= node.hidden
        new = [entry for n in node.inputs() if (entry := (n, inner)) not in seen]
        seen.update(new)
        stack += new
    return sorted(found, key=attrgetter("serial"))


def closure(roots: Iterable[Node]) -> set[Node]:
    """`roots` and everything below them, bodies of reductions included."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        new = [node for node in stack.pop().inputs() if node not in seen]
        seen.update(new)
        stack += new
    return seen


def body_of(reduce: Node, cut: Collection[Node] = ()) -> list[Node]:
    """The nodes that are computed inside the loops of a reduction (see `scope_of` for `cut`)."""
    sources = [a.source for g in reduce.guards for a in g.index.atoms() if isinstance(a.source, Node)]
    inputs = reduce.operands[: len(reduce.operands) // 2]
    return [n for n in scope_of([*inputs, *sources], cut) if n.variables & reduce.hidden]


class Number:
    """A constant's value, equal to another only with the same bits."""

    __slots__ = ("bits", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.bits = (type(value).__name__, value.tobytes() if hasattr(value, "tobytes") else repr(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)


@dataclass(frozen=True, slots=True)
class Row:
    """A buffer of the running task (on its stack), as the slot of a node."""

    number: int
    bytes: int


class Partial:
    """Partial results: element ``index`` of scratch at `slot` is `value`, for all settings of `atoms`."""

    __slots__ = ("atoms", "index", "slot", "value")

    def __init__(self, value: Node, index: Index, slot: Scratch, atoms: tuple[Atom, ...]) -> None:
        self.value, self.index, self.slot, self.atoms = value, index, slot, atoms


@dataclass(frozen=True, slots=True)
class Scratch:
    """A place in the scratch buffer, as the slot of a node."""

    offset: int


def fits_in_32_bits(index: Index, slack: int) -> bool:
    """Whether the index and all that it is made of fit 32 bits, `slack` lanes beyond the range included."""
    total = abs(index.constant)
    for atom, coefficient in index.terms:
        total += abs(coefficient) * (max(abs(atom.low), abs(atom.high)) + slack)
        if atom.inner is not None and not fits_in_32_bits(atom.inner, slack):
            return False
        if isinstance(atom.source, Node) and ELEMENT_TYPES[atom.source.type].bits > 32 and atom.high >> 31:
            return False
    return total < 1 << 31
