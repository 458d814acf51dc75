"""Sharding propagation: what follows for all values from the shardings of a few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, UnsupportedError, Verbatim
from hlotool.ir.sharding import Sharding, parse_sharding, print_sharding, replicated
from hlotool.ir.sharding_text import ShardingValueError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import custom_call_target
from hlotool.passes.sharding.graph import Graph
from hlotool.passes.sharding.propagation import Propagation, Step, name_of
from hlotool.passes.sharding.shardy import import_shardy

__all__ = ["ShardingPropagation"]

_OPEN = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")
_WAYS = {"operand": "forward", "manual": "forward", "user": "backward", "beside": "beside", "group": "group"}


@dataclass(frozen=True, slots=True)
class ShardingPropagation:
    """Gives values the shardings that follow from those that are annotated, forward and backward, to a fixed point.

    First through what computes element by element, then through products, reductions and movement; a sharding that
    arrives where there is one refines it where both fit together.  Parameters and results of the program keep what is
    annotated, all of them on every device where nothing is, unless the module's header allows propagation to them
    (`allow_spmd_sharding_propagation_to_parameters`, `..._to_output`).  Annotations of Shardy become those of GSPMD.
    """

    name: ClassVar[str] = "sharding-propagation"

    def run(self, module: Module, log: DecisionLog) -> bool:
        try:
            changed = import_shardy(module, log)
            annotations = _Annotations(module)
        except ShardingValueError as error:
            raise UnsupportedError(f"a sharding cannot be read: {error}") from error
        if not annotations.any:
            return changed
        propagation = Propagation(annotations.graph, annotations.given, annotations.hints, annotations.opened)
        propagation.run()
        for computation in annotations.graph.computations:
            for one in computation:
                changed |= _write(one, propagation, log)
        for conflict in propagation.conflicts():
            target, source = (name_of(annotations.graph.places[node]) for node in (conflict.node, conflict.source))
            own = propagation.found[conflict.node]
            where = "" if conflict.edge.via.name == target else f" at {conflict.edge.via.name}"
            log.refuse("conflict", target, f"{own}, not {conflict.offered} as {source} has it{where}")
        return changed


class _Annotations:
    """What a module says: `given` shardings, which stay, `hints`, and dimensions that are left `opened`."""

    def __init__(self, module: Module) -> None:
        self.graph = Graph(module)
        self.given: dict[int, Sharding] = {}
        self.hints: dict[int, Sharding] = {}
        self.opened: dict[int, tuple[int, ...]] = {}
        self.any = False
        groups: dict[tuple[str, int], list[int]] = {}
        for computation in self.graph.computations:
            for one in computation:
                self._read(one, groups)
        for members in groups.values():
            self.graph.group(members, self.graph.places[members[0]][0])
        if self.any:
            self._keep(module)

    def _read(self, one: Instruction, groups: dict[tuple[str, int], list[int]]) -> None:
        if one.opcode in ("partition-id", "replica-id"):
            self.hints[self.graph.node(one)] = Sharding("manual")
        if custom_call_target(one) == "xla.sdy.ShardingGroup":
            number = one.attributes.get("frontend_attributes", {}).get("xla.sdy.sharding_group_id", "")
            if number.strip('"').isdigit():
                members = groups.setdefault(("shardy", int(number.strip('"'))), [])
                members += [self.graph.node(operand) for operand in one.operands]
        for node, sharding in zip(self.graph.nodes(one), _written(one), strict=False):
            if sharding is None or not self.graph.shapes[node].is_array:
                continue
            self.any = True
            if sharding.group is not None:
                groups.setdefault(sharding.group, []).append(node)
            if sharding.kind == "unknown":
                continue
            self.given.setdefault(node, sharding.bare())
            opened = _opened(one, sharding)
            if opened:
                self.opened[node] = opened

    def _keep(self, module: Module) -> None:
        """Parameters and results that may not be changed."""
        entry = module.entry
        rows = [("allow_spmd_sharding_propagation_to_parameters", entry.parameters)]
        rows.append(("allow_spmd_sharding_propagation_to_output", [entry.root]))
        for key, values in rows:
            nodes = [node for one in values for node in self.graph.nodes(one)]
            for node, allowed in zip(nodes, _flags(module, key, len(nodes)), strict=True):
                if not allowed and self.graph.shapes[node].is_array:
                    self.given.setdefault(node, replicated())


def _flags(module: Module, key: str, count: int) -> list[bool]:
    """Whether propagation may change each of so many arrays."""
    written = module.attributes.get(key)
    words = re.findall(r"true|false", written.text) if isinstance(written, Verbatim) else []
    values = [word == "true" for word in words] or [False]
    return values if len(values) == count else [values[0] if len(values) == 1 else all(values)] * count


def _written(one: Instruction) -> Iterator[Sharding | None]:
    """The sharding of every leaf, as it is written; what of an outfeed is that of its operand is left out."""
    written = one.attributes.get("sharding")
    if not isinstance(written, Verbatim) or one.opcode == "outfeed":
        return
    found = parse_sharding(written.text)
    leaves = [*one.shape.leaves()]
    rows = [*found] if isinstance(found, tuple) else [found] * len(leaves)
    if len(rows) != len(leaves):
        if len(rows) > 1 or not rows:
            raise ShardingValueError(f"{one.name} has {len(leaves)} arrays, and shardings of {len(rows)}")
        rows *= len(leaves)
    for leaf, sharding in zip(leaves, rows, strict=True):
        if leaf.is_array and sharding.is_tiled and len(sharding.tiles) != leaf.rank:
            raise ShardingValueError(f"{one.name}: {sharding} has tiles along {len(sharding.tiles)} dimensions")
        yield sharding


def _opened(one: Instruction, sharding: Sharding) -> tuple[int, ...]:
    config = one.attributes.get("backend_config")
    found = _OPEN.search(config) if isinstance(config, str) and custom_call_target(one) == "Sharding" else None
    more = [int(n) for n in found.group(1).split(",") if n.strip()] if found else []
    return tuple(sorted({*sharding.open_dimensions, *more}))


def _write(one: Instruction, propagation: Propagation, log: DecisionLog) -> bool:
    """Write what was found of an instruction; whether that is new."""
    graph = propagation.graph
    nodes = graph.nodes(one)
    found = [propagation.found.get(node) for node in nodes]
    if not any(sharding is not None for sharding in found):
        return False
    before = one.attributes.get("sharding")
    given = [*_written(one)]
    if len(given) == len(found) and all(a == b for a, b in zip(given, found, strict=True)):
        return False
    if not log.allow():
        return False
    rows = [sharding if sharding is not None else replicated() for sharding in found]
    for n, sharding in enumerate(given):
        if sharding is not None and n < len(rows):
            rows[n] = replace(rows[n], metadata=sharding.metadata)
    whole = rows if one.shape.is_tuple else rows[0]
    one.attributes["sharding"] = Verbatim(print_sharding(whole))
    for n, node in enumerate(nodes):
        steps = propagation.steps.get(node, ())
        subject = name_of((one, n))
        for step in steps:
            log.rewrite(_WAYS[step.edge.way], subject, (), _reason(step, propagation), level=step.edge.level)
        if not steps and node in propagation.given and (before is None):
            log.rewrite("kept", subject, (), f"{rows[n]}: {_why_kept(one, node, graph)}")
    return True


def _reason(step: Step, propagation: Propagation) -> str:
    source = name_of(propagation.graph.places[step.source])
    via = step.edge.via.name
    return f"{step.sharding} from {source}" + (f" by {via}" if via != source else "")


def _why_kept(one: Instruction, node: int, graph: Graph) -> str:
    other = next((place for place in graph.members[node] if place[0] is not one), None)
    return "the header does not allow propagation to it" if other is None else f"as {name_of(other)}"
