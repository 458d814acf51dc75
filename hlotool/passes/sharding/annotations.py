"""What a module says of shardings: annotations, groups, and what propagation may not change."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlotool.ir import Instruction, Module, Verbatim
from hlotool.ir.opcodes import OPCODES
from hlotool.ir.sharding import Sharding, parse_sharding, replicated
from hlotool.ir.sharding_axes import ShardingValueError
from hlotool.passes.framework.graph import custom_call_target
from hlotool.passes.sharding.graph import Graph

__all__ = ["PARTITIONED", "Annotations", "unpartitioned", "written_shardings"]

PARTITIONED = "partitioned"
"""The entry of a module's ``frontend_attributes`` that says that it is for one of many devices."""

_TO_PARAMETERS = "allow_spmd_sharding_propagation_to_parameters"
_TO_OUTPUT = "allow_spmd_sharding_propagation_to_output"
_OPEN = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")


class Annotations:
    """What a module says: `given` shardings, which stay, `hints`, and dimensions that are left `opened`."""

    def __init__(self, module: Module) -> None:
        self.graph = Graph(module)
        self.given: dict[int, Sharding] = {}
        self.hints: dict[int, Sharding] = {}
        self.opened: dict[int, tuple[int, ...]] = {}
        self.any = False
        self._root, self._free = module.entry.root, _free_results(module)
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
            written = one.attributes.get("frontend_attributes", {}).get("xla.sdy.sharding_group_id", "")
            found = re.match(r'"?(\d+)', written)  # as JAX writes it: 0 : i64
            if found:
                members = groups.setdefault(("shardy", int(found.group(1))), [])
                members += [self.graph.node(operand) for operand in one.operands]
        free = self._free if one is self._root else frozenset()
        for number, (node, sharding) in enumerate(zip(self.graph.nodes(one), written_shardings(one), strict=False)):
            if sharding is None or not self.graph.shapes[node].is_array:
                continue
            self.any = True
            if sharding.group is not None:
                groups.setdefault(sharding.group, []).append(node)
            if sharding.kind == "unknown" or (number in free and sharding.kind == "replicated"):
                continue  # beside results that are annotated all have to have something
            self.given.setdefault(node, sharding.bare())
            opened = _opened(one, sharding)
            if opened:
                self.opened[node] = opened

    def _keep(self, module: Module) -> None:
        """Parameters and results that may not be changed."""
        entry = module.entry
        rows = [(_TO_PARAMETERS, entry.parameters), (_TO_OUTPUT, [entry.root])]
        for key, values in rows:
            nodes = [node for one in values for node in self.graph.nodes(one)]
            for node, allowed in zip(nodes, _flags(module, key, len(nodes)), strict=True):
                if not allowed and self.graph.shapes[node].is_array:
                    self.given.setdefault(node, replicated())


def _free_results(module: Module) -> frozenset[int]:
    """The leaves of a tuple of results that propagation may change."""
    if module.entry.root.opcode != "tuple":
        return frozenset()
    flags = _flags(module, _TO_OUTPUT, len([*module.entry.root.shape.leaves()]))
    return frozenset(number for number, free in enumerate(flags) if free)


def _flags(module: Module, key: str, count: int) -> list[bool]:
    """Whether propagation may change each of so many arrays."""
    written = module.attributes.get(key)
    words = re.findall(r"true|false", written.text) if isinstance(written, Verbatim) else []
    values = [word == "true" for word in words] or [False]
    return values if len(values) == count else [values[0] if len(values) == 1 else all(values)] * count


def written_shardings(one: Instruction) -> Iterator[Sharding | None]:
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


def unpartitioned(module: Module) -> tuple[str, int] | None:
    """The name of a value that is to be cut among devices, and how many there are, of a module that is probably not
    partitioned: no partitioner says so, and devices exchange nothing.  None of all others."""
    if PARTITIONED in module.attributes.get("frontend_attributes", {}):
        return None
    if any("collective" in OPCODES[one.opcode].traits for one in module.instructions()):
        return None
    for one in module.entry:
        for sharding in written_shardings(one):
            if sharding is not None and sharding.tile_count > 1:
                return one.name, max(len(sharding.devices), module.attributes.get("num_partitions", 1))
    return None


def _opened(one: Instruction, sharding: Sharding) -> tuple[int, ...]:
    config = one.attributes.get("backend_config")
    found = _OPEN.search(config) if isinstance(config, str) and custom_call_target(one) == "Sharding" else None
    more = [int(n) for n in found.group(1).split(",") if n.strip()] if found else []
    return tuple(sorted({*sharding.open_dimensions, *more}))
