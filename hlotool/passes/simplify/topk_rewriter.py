"""Top-k rewriter: sorts of which only the first few are read."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, SliceDimension, array, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import drop_dead

__all__ = ["TopkRewriter"]


@dataclass(frozen=True, slots=True)
class TopkRewriter:
    """Rewrites a sort of which only the first k elements are read as a topk, which does not sort the others.

    Sorts along the last dimension, of an array alone or with an iota along it (the positions), whose comparator says
    less or greater of two numbers (floats in their total order), or of both after the same operations: those of JAX,
    which takes -0 for 0.  At most one in `share` of the elements may be read.
    """

    name: ClassVar[str] = "topk-rewriter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"sort"})
    share: int = 4

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for sort in calls_of(module, "sort"):
            changed |= log.allow() and self._rewrite(sort, log)
        return changed

    def _rewrite(self, sort: Instruction, log: DecisionLog) -> bool:
        axis = sort.operands[0].shape.rank - 1
        order = _order(sort) if sort.attributes["dimensions"] == (axis,) and sort.operands[0].shape.is_static else None
        readers = None if order is None else _readers(sort, axis)
        if order is None or not readers:
            return False
        size = sort.operands[0].shape.dimensions[axis]
        count = max(_rows(reader)[axis].limit for reader, _ in readers)
        if count * max(1, self.share) > size:
            log.refuse("many-elements", sort, "sorting all of it is no more work", read=count, elements=size)
            return False
        assert sort.parent is not None
        build = Builder(sort.parent, sort, like=sort)
        results = _topk(build, sort, order, count)
        log.rewrite("first-elements", sort, results[0], f"the first {count}", read=count, elements=size)
        for reader, number in readers:
            rows = _rows(reader)
            result = results[number]
            limits = [row.limit for row in rows]
            if limits != list(result.shape.dimensions) or reader.shape != result.shape:
                result = build.slice(result, [row.start for row in rows], limits, [row.stride for row in rows])
            reader.replace_all_uses(result)
            drop_dead(reader)
        return True


@dataclass(frozen=True, slots=True)
class _Order:
    """What a comparator says: `largest` first, of what `key` makes of parameter 0; None: of the values as they are."""

    largest: bool
    key: Instruction | None


def _order(sort: Instruction) -> _Order | None:
    """The order of a sort of values, alone or with their positions; None for any other."""
    values, *others = sort.operands
    root = sort.attributes["to_apply"].root
    row = ELEMENT_TYPES[values.shape.element_type]
    if len(others) > 1 or values.shape.size == 0 or row.is_complex or root.opcode != "compare":
        return None
    if others and not (_counts_along(others[0], values) and sort.attributes.get("is_stable")):
        return None
    if root.attributes["direction"] not in ("LT", "GT") or root.operands[0].shape.element_type != row.name:
        return None
    if row.is_float and root.attributes.get("type") != "TOTALORDER":
        return None  # NaN has no place in the order
    left, right = root.operands
    if not _mirrored(left, right):
        return None
    key = None if left.opcode == "parameter" else left
    if key is not None and not sort.attributes.get("is_stable"):
        return None  # which of two with equal keys comes first is then left open: keep what the sort does
    return _Order(root.attributes["direction"] == "GT", key)


def _counts_along(positions: Instruction, values: Instruction) -> bool:
    return (
        positions.opcode == "iota"
        and positions.shape.element_type == "s32"
        and positions.attributes["iota_dimension"] == values.shape.rank - 1
    )


def _mirrored(left: Instruction, right: Instruction) -> bool:
    """Whether two expressions are the same elementwise operations, of parameter 0 and of parameter 1."""
    if left.opcode != right.opcode:
        return False
    if left.opcode == "parameter":
        return (left.parameter_number, right.parameter_number) == (0, 1)
    if left.opcode == "constant":
        return not left.literal.elided and left.literal.value().tobytes() == right.literal.value().tobytes()
    if not left.has("elementwise") or left.shape != right.shape or left.attributes != right.attributes:
        return False
    return all(map(_mirrored, left.operands, right.operands))


def _readers(sort: Instruction, axis: int) -> list[tuple[Instruction, int]] | None:
    """The slices that read the first elements of the results, with the number of the result; None if others read."""
    found = []
    for user in sort.users:
        element, number = (user, int(user.attributes["index"])) if user.opcode == "get-tuple-element" else (sort, 0)
        if element.is_root or sort.is_root or (element is user) != sort.shape.is_tuple:
            return None
        for reader in element.users if element is user else [user]:
            if reader.opcode != "slice" or (_rows(reader)[axis].start, _rows(reader)[axis].stride) != (0, 1):
                return None
            found.append((reader, number))
    return found


def _rows(reader: Instruction) -> tuple[SliceDimension, ...]:
    rows: tuple[SliceDimension, ...] = reader.attributes["slice"]
    return rows


def _topk(build: Builder, sort: Instruction, order: _Order, count: int) -> list[Instruction]:
    """Values and positions of the first `count`."""
    values = sort.operands[0]
    sizes = values.shape.dimensions
    keys = values if order.key is None else _keys(build, order.key, values)
    few = (*sizes[:-1], count)
    shape = tuple_shape([array(values.shape.element_type, few), array("s32", few)])
    found = build.add("topk", shape, (keys,), {"k": count, "largest": order.largest})
    first, places = build.gte(found, 0), build.gte(found, 1)
    if keys is values:
        return [first, places]
    batch = tuple(range(len(few) - 1))
    attributes = {
        "offset_dims": (),
        "collapsed_slice_dims": (len(few) - 1,),
        "start_index_map": (len(few) - 1,),
        "operand_batching_dims": batch,
        "start_indices_batching_dims": batch,
        "index_vector_dim": len(few),
        "slice_sizes": (1,) * len(few),
    }
    return [build.gather(values, places, attributes), places]


def _keys(build: Builder, key: Instruction, values: Instruction) -> Instruction:
    """What the comparator compares, of all values at once."""
    made: dict[Instruction, Instruction] = {}

    def whole(one: Instruction) -> Instruction:
        if one not in made:
            shape = array(one.shape.element_type, values.shape.dimensions)
            if one.opcode == "parameter":
                made[one] = values
            elif one.opcode == "constant":
                made[one] = build.broadcast(build.constant(one.literal), (), shape)
            else:
                made[one] = build.add(one.opcode, shape, [whole(o) for o in one.operands], one.attributes)
        return made[one]

    return whole(key)
