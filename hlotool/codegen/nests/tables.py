"""Values that follow from four bits: looked up, rather than computed for each lane.

Whatever is computed from one number of at most four bits, and from what all lanes share, has at most 16 values.  They
are computed once, in the lanes of one vector, where what they share is known: a scale, for a whole group of weights.
A lane then picks its own by the bits in memory, whose upper half need not be cleared.  The values are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hlotool.codegen.llvm.math.elements import compute_element, kind
from hlotool.codegen.loops.nodes import Node, body_of, closure, variables_of
from hlotool.ir import ELEMENT_TYPES
from hlotool.lazy_dataclass import dataclass

__all__ = ["ENTRIES", "Table", "tables_of"]

ENTRIES = 16  # what four bits tell apart


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Sixteen values, which `steps` compute, the last step in f32; a lane picks one by its byte of `codes`, which is
    what `load` reads."""

    load: Node
    codes: Node
    steps: tuple[Node, ...]

    @property
    def shared(self) -> list[Node]:
        """What all entries are computed with."""
        return [o for step in self.steps for o in step.operands if o is not self.load and o not in self.steps]

    @property
    def variables(self) -> int:
        return variables_of(atom for node in self.shared for atom in node.atoms)


def tables_of(
    nodes: Sequence[Node], wanted: Collection[Node], cut: Collection[Node], lane: int, copied: int
) -> tuple[dict[Node, Table], list[Node]]:
    """Tables, each by the node whose value it gives; and the nodes that are still computed, with the loads of codes.

    The values of `wanted` are needed besides those that other nodes read; nodes in `cut` are not computed here.  `lane`
    and `copied` are the variables in which the lanes of a vector, and several vectors of a loop's body, differ.
    """
    loads: dict[Node, Node] = {}  # what a node follows from
    for node in nodes:
        if node in cut:
            continue
        if node.kind == "load" and node.variables & lane and _is_narrow(node.type):
            loads[node] = node
        elif node.kind == "elementwise":
            own = {loads.get(o) for o in node.operands if o.variables & (lane | copied)}
            if len(own) == 1 and (load := own.pop()) is not None:
                loads[node] = load
    if all(node is load for node, load in loads.items()):
        return {}, list(nodes)
    needed = {*wanted, *_read_inside(nodes)}
    tables: dict[Node, Table] = {}
    codes: dict[Node, Node] = {}
    left: list[Node] = []
    for node in reversed(nodes):
        load = loads.get(node)
        if load is not None and node not in needed:
            continue
        left.append(node)
        if load is None or load is node or compute_element(node.type) != "float":
            needed.update(node.inputs)
            continue
        steps = [n for n in sorted(closure([node]), key=lambda n: n.serial) if n is not load and loads.get(n) is load]
        if load not in codes:
            codes[load] = replace(load, type="u8")
        tables[node] = Table(load, codes[load], tuple(steps))
    return tables, sorted([*left, *codes.values()], key=lambda n: n.serial)


def _is_narrow(element_type: str) -> bool:
    row = ELEMENT_TYPES[element_type]
    return row.bits <= 4 and kind(element_type) in ("signed", "unsigned", "float")


def _read_inside(nodes: Sequence[Node]) -> list[Node]:
    """What is read in the loops of reductions among nodes."""
    reduces = [node for node in nodes if node.kind == "reduce"]
    return [n for reduce in reduces for one in (reduce, *body_of(reduce)) for n in one.inputs]
