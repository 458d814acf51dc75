"""One partition of a graph: clusters that are compiled, and parts that fall back to a framework or another backend.

A front end, or the driver for a backend, lists operations as `Node`, with a reason for each that cannot be compiled;
`partition` gives as few clusters as there can be, in an order in which everything can run.  Clusters and other parts
take turns: a fallback part has every operation that can run by then, then comes a cluster with every operation that
can.  No order has fewer turns, for what is put off never makes more possible.

A cluster that costs less than `minimum` is not worth a call: its operations go to later clusters where they can, and
fall back where not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from hlotool.ir import InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["ClusterRow", "FallbackRow", "Node", "Part", "Partition", "Report", "WhatIf", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operation of a graph.

    `name` is its own, `op` what it does.  `inputs` are names; those that are of no node are inputs of the graph.
    `reason` says why it cannot be compiled; of those that can, it is empty.  `after` names operations that must run
    before, though nothing of them is read.  `cost` is an estimate, in any unit, as long as `minimum` has the same.
    `where` is the user's place in the source (``model.py:12``).  What is `element_of_input` only takes a part out of
    its one input, as from a tuple: it goes where that goes, and no count has it.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    reason: str = ""
    after: tuple[str, ...] = ()
    cost: float = 1.0
    where: str = ""
    element_of_input: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Operations that run together: a cluster that is compiled, or some that fall back.

    `nodes` are in an order in which they can run.  `inputs` are read from elsewhere, in the order of the first use;
    `outputs` are read elsewhere, or are results of the graph.
    """

    compiled: bool
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def cost(self) -> float:
        return sum(node.cost for node in self.nodes)

    @property
    def operations(self) -> int:
        """How many there are; elements of tuples do not count."""
        return sum(not node.element_of_input for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRow:
    """Operations of one kind that fall back for one reason, and their places in the source.

    `by_choice` are those that could be compiled, in clusters that are not worth a call.
    """

    op: str
    reason: str
    count: int
    where: tuple[str, ...]
    nodes: tuple[str, ...]
    by_choice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """A cluster in numbers; `first` and `last` are names of operations."""

    operations: int
    cost: float
    inputs: int
    outputs: int
    first: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is compiled and what is not, for people (`text`) and programs (`dataclasses.asdict`)."""

    operations: int
    compiled: int
    clusters: tuple[ClusterRow, ...]
    fallbacks: tuple[FallbackRow, ...]

    @property
    def headline(self) -> str:
        """``412 of 415 ops in 2 clusters; 3 fall back``."""
        count, left = len(self.clusters), self.operations - self.compiled
        words = f"{self.compiled} of {_many(self.operations, 'op')} in {_many(count, 'cluster')}"
        return f"{words}; {left} {'falls' if left == 1 else 'fall'} back" if left else words

    def text(self, places: int = 3) -> str:
        """The headline, and a line for each reason, with at most so many places in the source."""
        lines = [self.headline + (":" if self.fallbacks else "")]
        for row in self.fallbacks:
            shown = ", ".join(row.where[:places])
            more = f" and {len(row.where) - places} more" if len(row.where) > places else ""
            at = f" ({shown}{more})" if shown else ""
            lines.append(f"  {row.count} x {row.op}: {row.reason}{at}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What would be if an operation could be compiled."""

    op: str
    operations: int
    compiled: int
    clusters: int

    def text(self) -> str:
        words = f"{self.compiled} of {_many(self.operations, 'op')} in {_many(self.clusters, 'cluster')}"
        return f"with {self.op}: {words}"


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A graph in parts that run in order.  `nodes` say why they fall back, in the order that they were given."""

    nodes: tuple[Node, ...]
    parts: tuple[Part, ...]
    minimum: float
    outputs: tuple[str, ...] | None
    given: tuple[Node, ...]

    @property
    def clusters(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.compiled)

    @property
    def fallbacks(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if not part.compiled)

    @cached_property
    def part_of(self) -> Mapping[str, int]:
        """The number of the part of every node."""
        return {node.name: number for number, part in enumerate(self.parts) for node in part.nodes}

    def report(self) -> Report:
        """What is compiled, and of all others the reason."""
        rows: dict[tuple[str, str], list[Node]] = {}
        for node in self.nodes:
            if node.reason and not node.element_of_input:
                rows.setdefault((node.op, node.reason), []).append(node)
        clusters, refused = self.clusters, {node.name for node in self.given if node.reason}
        return Report(
            operations=sum(not node.element_of_input for node in self.nodes),
            compiled=sum(part.operations for part in clusters),
            clusters=tuple(
                ClusterRow(
                    operations=part.operations, cost=part.cost, inputs=len(part.inputs), outputs=len(part.outputs),
                    first=part.nodes[0].name, last=part.nodes[-1].name,
                )
                for part in clusters
            ),
            fallbacks=tuple(
                FallbackRow(
                    op=op, reason=reason, count=len(found), nodes=tuple(node.name for node in found),
                    where=tuple(dict.fromkeys(node.where for node in found if node.where)),
                    by_choice=found[0].name not in refused,
                )
                for (op, reason), found in sorted(rows.items(), key=lambda row: -len(row[1]))
            ),
        )  # fmt: skip

    def what_if(self, ops: Collection[str]) -> Partition:
        """The partition that there would be if `ops` could be compiled."""
        nodes = [replace(node, reason="") if node.op in ops else node for node in self.given]
        return partition(nodes, minimum=self.minimum, outputs=self.outputs)

    def what_if_each(self) -> tuple[WhatIf, ...]:
        """What each operation that cannot be compiled would bring alone, the best first."""
        rows = []
        for op in dict.fromkeys(node.op for node in self.given if node.reason and not node.element_of_input):
            report = self.what_if((op,)).report()
            rows.append(
                WhatIf(
                    op=op, operations=report.operations, compiled=report.compiled, clusters=len(report.clusters)
                )
            )  # fmt: skip
        return tuple(sorted(rows, key=lambda row: (row.clusters, -row.compiled)))


def partition(nodes: Iterable[Node], *, minimum: float = 0.0, outputs: Sequence[str] | None = None) -> Partition:
    """The clusters of a graph, whose nodes may come in any order.

    `outputs` are the results of the graph (None: what nothing reads).  InputError where two nodes have one name, where
    a node needs its own result, where an element has not one input that is a node, or an output is nothing.
    """
    given = tuple(nodes)
    by_name = _named(given, outputs)
    order = _in_order(given, by_name)
    for node in order:
        if node.element_of_input:
            by_name[node.name] = replace(node, reason=by_name[node.inputs[0]].reason)
    order = [by_name[node.name] for node in order]
    turns = _turns(order, by_name)
    _settle(order, by_name, turns, minimum)
    return Partition(
        nodes=tuple(by_name[node.name] for node in given),
        parts=_parts([by_name[node.name] for node in order], turns, outputs),
        minimum=minimum, outputs=None if outputs is None else tuple(outputs), given=given,
    )  # fmt: skip


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _named(nodes: Sequence[Node], outputs: Sequence[str] | None) -> dict[str, Node]:
    by_name: dict[str, Node] = {}
    for node in nodes:
        if node.name in by_name:
            raise InputError(f"two nodes are named {node.name}")
        by_name[node.name] = node
    for node in nodes:
        if node.element_of_input and (node.after or len(node.inputs) != 1 or node.inputs[0] not in by_name):
            raise InputError(f"{node.name} is an element of its input, but does not have one input that is a node")
    read = {name for node in nodes for name in node.inputs}
    for name in outputs or ():
        if name not in by_name and name not in read:
            raise InputError(f"the graph has nothing named {name}, which is one of its outputs")
    return by_name


def _before(node: Node, by_name: Mapping[str, Node]) -> list[Node]:
    """The nodes that must run before."""
    return [by_name[name] for name in (*node.inputs, *node.after) if name in by_name]


def _in_order(nodes: Sequence[Node], by_name: Mapping[str, Node]) -> list[Node]:
    """The nodes in an order in which they can run: that in which they were given where it is one."""
    order: list[Node] = []
    done: set[str] = set()
    begun: set[str] = set()
    for start in nodes:
        stack = [] if start.name in done else [(start, iter(_before(start, by_name)))]
        begun.add(start.name)
        while stack:
            node, rest = stack[-1]
            needed = next((one for one in rest if one.name not in done), None)
            if needed is None:
                done.add(node.name)
                order.append(node)
                stack.pop()
            elif needed.name in begun:
                raise InputError(f"{needed.name} needs its own result")
            else:
                begun.add(needed.name)
                stack.append((needed, iter(_before(needed, by_name))))
    return order


def _turns(order: Sequence[Node], by_name: Mapping[str, Node]) -> dict[str, int]:
    """The turn of each node: in each, those that fall back run before those that are compiled."""
    turns: dict[str, int] = {}
    for node in order:
        behind = bool(node.reason)
        turns[node.name] = max(
            (turns[one.name] + (behind and not one.reason) for one in _before(node, by_name)), default=0
        )
    return turns


def _settle(order: Sequence[Node], by_name: dict[str, Node], turns: dict[str, int], minimum: float) -> None:
    """Put off constants until they are read, and dissolve clusters that cost less than `minimum`, the last one first.

    The operations of such a cluster go to the next one that stays, as far as nothing in between reads them; those that
    cannot fall back.
    """
    readers: dict[str, list[str]] = {node.name: [] for node in order}
    members: dict[int, list[Node]] = {}
    costs: dict[int, float] = {}
    for node in order:
        for one in _before(node, by_name):
            readers[one.name].append(node.name)
        if not node.reason:
            members.setdefault(turns[node.name], []).append(node)
            costs[turns[node.name]] = costs.get(turns[node.name], 0.0) + node.cost
    tuples = {node.inputs[0] for node in order if node.element_of_input}
    last = following = max(turns.values(), default=0) + 1
    staying: set[int] = set()
    for turn in sorted(members, reverse=True):
        total = costs[turn]
        small = total < minimum
        for node in reversed(members[turn]):
            latest = min((turns[one] - bool(by_name[one].reason) for one in readers[node.name]), default=last - 1)
            spared = costs[turn] - node.cost >= minimum and not node.inputs and not node.after
            target = latest if spared and latest in staying else following
            if (small or spared) and target <= latest and not node.element_of_input and node.name not in tuples:
                turns[node.name] = target
                costs[target] += node.cost
                costs[turn] -= node.cost
            elif small:
                words = f"a cluster of {total:.4g} is not worth a call, which takes {minimum:.4g}"
                by_name[node.name] = replace(node, reason=words)
        if not small and any(turns[node.name] == turn for node in members[turn]):
            staying.add(turn)
            following = turn


def _parts(order: Sequence[Node], turns: Mapping[str, int], outputs: Sequence[str] | None) -> tuple[Part, ...]:
    """What runs in one turn, and after each other without a change from one kind to the other, is one part."""
    groups: dict[tuple[int, bool], list[Node]] = {}
    for node in order:
        groups.setdefault((turns[node.name], not node.reason), []).append(node)
    joined: list[tuple[bool, list[Node]]] = []
    for (_, compiled), group in sorted(groups.items(), key=lambda item: item[0]):
        if joined and joined[-1][0] == compiled:
            joined[-1][1].extend(group)
        else:
            joined.append((compiled, group))
    own = {node.name: number for number, (_, group) in enumerate(joined) for node in group}
    read = {name for node in order for name in node.inputs}
    leaving = {name for name in own if name not in read} if outputs is None else set(outputs)
    entering: list[dict[str, None]] = [{} for _ in joined]
    for node in order:
        for name in node.inputs:
            if own.get(name) != own[node.name]:
                entering[own[node.name]][name] = None
                leaving.add(name)
    return tuple(
        Part(
            compiled=compiled, nodes=tuple(group), inputs=tuple(inputs),
            outputs=tuple(node.name for node in group if node.name in leaving),
        )
        for (compiled, group), inputs in zip(joined, entering, strict=True)
    )  # fmt: skip
