"""The values that a fused loop computes, as a graph without loops or order.

Equal values are one `Node` (see `trace`); `nest` writes them once the loops have been chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from math import prod
from operator import attrgetter
from typing import Any

from hlotool.analysis.indexing import Atom, Condition, Index, atom_index, constant, linearize
from hlotool.ir import ELEMENT_TYPES, Computation, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Guards", "Node", "Number", "Partial", "Row", "Scratch", "body_of", "closure", "fits_in_32_bits", "joint_index",
    "scope_of", "variables_of",
]  # fmt: skip

Guards = tuple[Condition, ...]

NO_INDEX = constant(0)
"""The index of nodes that have none."""


@dataclass(slots=True, eq=False)
class Node:
    """A value: one scalar for every setting of the loop variables whose bits are in `variables`.

    ============  ==========================================================================
    kind          meaning
    ============  ==========================================================================
    load          element `index` of buffer `slot` (a slot of the argument table, or a literal).  If it is
                  `packed`, two elements of four bits share a byte, the first one in its low half; as u8 it is
                  these bits, and above them anything
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

    serial: int
    kind: str
    type: str
    operands: tuple[Node, ...] = ()
    opcode: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    index: Index = NO_INDEX
    guards: Guards = ()
    slot: Any = None
    computation: Computation | None = None
    bound: tuple[Atom, ...] = ()
    packed: bool = False
    indices: tuple[Index, ...] = field(init=False)  # that this node itself evaluates
    inputs: tuple[Node, ...] = field(init=False)  # what is computed before: operands, sources of run-time integers
    atoms: tuple[Atom, ...] = field(init=False)
    variables: int = field(init=False)
    hidden: int = field(init=False)  # of the variables that a reduction binds
    trips: int = field(init=False)  # settings of the variables

    def __post_init__(self) -> None:
        self.indices = (*(() if self.index is NO_INDEX else (self.index,)), *[g.index for g in self.guards])
        inside = [atom for x in self.indices for atom in x.atoms()]
        self.inputs = (*self.operands, *[a.source for a in inside if isinstance(a.source, Node)])
        self.hidden = variables_of(self.bound)
        self.atoms = _atoms([node.atoms for node in self.inputs if node.atoms], inside, self.bound)
        self.variables = variables_of(self.atoms)
        self.trips = prod([atom.high - atom.low + 1 for atom in self.atoms])


    @property
    def moved(self) -> int:
        """Bytes of memory that a load or store reads or writes for all settings of its variables."""
        return -(-self.trips // 2) if self.packed else byte_size(self.type) * self.trips


def _atoms(of_inputs: Sequence[tuple[Atom, ...]], inside: Sequence[Atom], bound: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The variables of inputs, and those `inside` of indices, each once, without those that are `bound`."""
    if of_inputs and not (inside or bound) and all(atoms == of_inputs[0] for atoms in of_inputs):
        return of_inputs[0]
    free: dict[Atom, None] = {}
    for atoms in of_inputs:
        free.update(dict.fromkeys(atoms))
    free.update(dict.fromkeys([atom for atom in inside if atom.kind == "variable"]))
    return tuple([atom for atom in free if atom not in bound] if bound else free)


def variables_of(things: Iterable[Atom | Index]) -> int:
    """The bits of all variables that these depend on."""
    bits = 0
    for thing in things:
        bits |= thing.variables
    return bits


def joint_index(atoms: Sequence[Atom]) -> Index:
    """The position of a setting of `atoms`, which count from 0, among all of them; the last varies fastest."""
    return linearize([atom_index(atom) for atom in atoms], [atom.high + 1 for atom in atoms])


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
        new = [entry for n in node.inputs if (entry := (n, inner)) not in seen]
        seen.update(new)
        stack += new
    return sorted(found, key=attrgetter("serial"))


def closure(roots: Iterable[Node]) -> set[Node]:
    """`roots` and everything below them, bodies of reductions included."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        new = [node for node in stack.pop().inputs if node not in seen]
        seen.update(new)
        stack += new
    return seen


def body_of(reduce: Node, cut: Collection[Node] = ()) -> list[Node]:
    """The nodes that are computed inside the loops of a reduction (see `scope_of` for `cut`)."""
    sources = [a.source for g in reduce.guards for a in g.index.atoms() if isinstance(a.source, Node)]
    inputs = reduce.operands[: len(reduce.operands) // 2]
    return [n for n in scope_of([*inputs, *sources], cut) if n.variables & reduce.hidden]


@dataclass(frozen=True, slots=True)
class Number:
    """A constant's value, equal to another only with the same bits."""

    value: Any = field(compare=False)
    bits: tuple[str, object] = field(init=False)

    def __post_init__(self) -> None:
        written = self.value.tobytes() if hasattr(self.value, "tobytes") else repr(self.value)
        object.__setattr__(self, "bits", (type(self.value).__name__, written))


@dataclass(frozen=True, slots=True)
class Row:
    """A buffer of the running task (on its stack), as the slot of a node."""

    number: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A place in the scratch buffer, as the slot of a node."""

    offset: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Partial results: element ``index`` of scratch at `slot` is `value`, for all settings of `atoms`."""

    value: Node
    index: Index
    slot: Scratch
    atoms: tuple[Atom, ...]


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
