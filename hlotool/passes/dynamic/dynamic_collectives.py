"""The dynamic padder on collectives: sizes travel next to the arrays, a few s32 numbers for each.

Where devices must know the sizes of others, they learn them from a collective of the same kind and groups, so that the
same devices meet.  Meaning: `hlotool.ir.dynamic`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.ir import Computation, Instruction, Module, array
from hlotool.ir.builder import binary_computation
from hlotool.ir.devices import device_groups, topology_of
from hlotool.ir.dynamic import static
from hlotool.ir.shape_checks import flags_of
from hlotool.passes.dynamic.dynamic_values import Maker, Sized

__all__ = ["RULES"]


def _results(make: Maker, i: Instruction, values: Sequence[Sized]) -> list[Instruction]:
    """The collective on arrays of the bounds, result by result."""
    new = make.add(i.opcode, static(i.shape), [v.array for v in values], i.attributes)
    return [make.gte(new, n) for n in range(len(i.shape.elements))] if i.shape.is_tuple else [new]


def _sized(
    i: Instruction, arrays: Sequence[Instruction], sizes: Sequence[Mapping[int, Instruction]]
) -> Sized | list[Sized]:
    results = [Sized(one, own) for one, own in zip(arrays, sizes, strict=True)]
    return results if i.shape.is_tuple else results[0]


def _minimum(module: Module) -> Computation:
    return module.add(binary_computation("minimum", "s32", module.unique_name("least")))


def _members(module: Module, i: Instruction) -> int:
    return len(device_groups(i, topology_of(module))[0])


def _vector(make: Maker, sizes: Sequence[Instruction]) -> Instruction:
    return make.concatenate([make.reshape(size, (1,)) for size in sizes], 0)


def _element(make: Maker, vector: Instruction, index: int) -> Instruction:
    return make.reshape(make.slice(vector, [index], [index + 1]), ())


def _exchanged(
    make: Maker, i: Instruction, sizes: Sequence[Mapping[int, Instruction]], changed: Mapping[str, Any], opcode: str
) -> list[dict[int, Instruction]]:
    """Sizes after an `opcode` between vectors of as many numbers, with the attributes of `i` but those `changed`."""
    places = [(n, d) for n, own in enumerate(sizes) for d in sorted(own)]
    found: list[dict[int, Instruction]] = [{} for _ in sizes]
    if places:
        given = _vector(make, [sizes[n][d] for n, d in places])
        attributes = {key: value for key, value in i.attributes.items() if key != "dimensions"}
        vector = make.add(opcode, given.shape, [given], {**attributes, **changed})
        for number, (n, d) in enumerate(places):
            found[n][d] = _element(make, vector, number)
    return found


def _least(make: Maker, i: Instruction, values: Sequence[Sized], module: Module) -> list[dict[int, Instruction]]:
    """The sizes that all devices have, by all-reduce."""
    if not any(v.sizes for v in values):
        return [{} for _ in values]
    return _exchanged(make, i, [v.sizes for v in values], {"to_apply": _minimum(module)}, "all-reduce")


def _all_reduce(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    return _sized(i, _results(make, i, values), _least(make, i, values, module))


def _brought(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """A permute or broadcast, of sizes too: who gets nothing has the size 0."""
    flags = [[d for d, flag in enumerate(flags_of(o.shape)) if flag] for o in i.operands]
    sizes = [{d: make.size(v, d) for d in {*own, *v.sizes}} for own, v in zip(flags, values, strict=True)]
    return _sized(i, _results(make, i, values), _exchanged(make, i, sizes, {}, i.opcode))


def _all_gather(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """What the devices have is packed where it is joined."""
    (dimension,) = i.attributes["dimensions"]
    count = _members(module, i)
    results = []
    for value, joined in zip(values, _results(make, i, values), strict=True):
        order = sorted(value.sizes)
        if not order:
            results.append(Sized(joined))
            continue
        given = _vector(make, [value.sizes[d] for d in order])
        attributes = {**i.attributes, "dimensions": (0,)}
        all_sizes = make.add("all-gather", array("s32", (count * len(order),)), [given], attributes)
        columns = {
            d: [_element(make, all_sizes, member * len(order) + n) for member in range(count)]
            for n, d in enumerate(order)
        }
        results.append(_joined(make, joined, dimension, columns))
    return results if i.shape.is_tuple else results[0]


def _joined(make: Maker, parts: Instruction, dimension: int, columns: Mapping[int, Sequence[Instruction]]) -> Sized:
    """An array made of equal parts along a dimension, each with the sizes of its own in `columns`."""
    sizes = make.common({d: size} for d, column in columns.items() if d != dimension for size in column)
    if dimension not in columns:
        return Sized(parts, sizes)
    shape = parts.shape
    counts = columns[dimension]
    part = shape.dimensions[dimension] // len(counts)
    pieces = []
    for member in range(len(counts)):
        starts, limits = [0] * shape.rank, list(shape.dimensions)
        starts[dimension], limits[dimension] = member * part, (member + 1) * part
        pieces.append(make.slice(parts, starts, limits))
    result, end = make.packed(pieces, counts, dimension, shape)
    return Sized(result, {**sizes, dimension: end})


def _parts(make: Maker, size: Instruction, bound: int, count: int) -> Instruction:
    """How many of the first `size` elements lie in each of `count` equal parts of a dimension: a vector."""
    part = bound // count if count else 0
    kind = array("s32", (count,))
    begins = make.binary("multiply", make.iota(kind), make.splat(part, kind))
    rest = make.binary("subtract", make.broadcast(size, (), kind), begins)
    return make.clamp(make.number(0), rest, make.number(part))


def _reduce_scatter(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """Parts by position: each device learns its own size by scattering those of all."""
    (dimension,) = i.attributes["dimensions"]
    count = _members(module, i)
    sizes = _least(make, i, values, module)
    for value, own in zip(values, sizes, strict=True):
        if dimension in own:
            parts = _parts(make, own[dimension], value.array.shape.dimensions[dimension], count)
            attributes = {**i.attributes, "dimensions": (0,), "to_apply": _minimum(module)}
            mine = make.add("reduce-scatter", array("s32", (1,)), [parts], attributes)
            own[dimension] = make.reshape(mine, ())
    return _sized(i, _results(make, i, values), sizes)


def _all_to_all(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    dimensions = i.attributes.get("dimensions")
    results = _results(make, i, values)
    if not dimensions:  # array n comes from member n, and so do its sizes
        sizes: list[dict[int, Instruction]] = [{} for _ in values]
        for d in sorted({d for v in values for d in v.sizes}):
            sent = [make.reshape(make.size(v, d), (1,)) for v in values]
            together = make.tuple(sent).shape
            new = make.add(i.opcode, together, sent, i.attributes)
            for n, own in enumerate(sizes):
                own[d] = make.reshape(make.gte(new, n), ())
        return _sized(i, results, sizes)
    (dimension,) = dimensions
    count = _members(module, i)
    (value,) = values
    columns = {}
    for d, size in sorted(value.sizes.items()):
        kind = array("s32", (count,))
        bound = value.array.shape.dimensions[d]
        sent_sizes = _parts(make, size, bound, count) if d == dimension else make.broadcast(size, (), kind)
        got = make.add(i.opcode, kind, [sent_sizes], {**i.attributes, "dimensions": (0,)})
        columns[d] = [_element(make, got, member) for member in range(count)]
    return _joined(make, results[0], dimension, columns)


RULES = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-broadcast": _brought,
    "collective-permute": _brought,
    "reduce-scatter": _reduce_scatter,
}
