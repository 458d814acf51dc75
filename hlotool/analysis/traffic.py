"""Memory traffic: opcode -> bytes read and written by one instruction.  Conventions: `analysis.cost`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from hlotool.analysis.views import NAMES, is_view, source_of
from hlotool.ir import OPCODES, UNBOUNDED, Instruction, Opcode, Shape, byte_size

__all__ = ["TRAFFIC", "UnknownSize", "elements", "everything", "operand_bytes", "shape_bytes"]


class UnknownSize(Exception):  # noqa: N818 - a control-flow signal that stays inside the cost model
    """An unbounded dimension: sizes cannot be known."""


def elements(shape: Shape) -> int:
    """Elements of all arrays of a shape; UnknownSize where a dimension has no bound."""
    if shape.elements:
        return sum(elements(e) for e in shape.elements)
    if UNBOUNDED in shape.dimensions:
        raise UnknownSize
    return prod(shape.dimensions) if shape.is_array else 0


def shape_bytes(shape: Shape) -> int | None:
    """Bytes of all arrays of a shape; None where a dimension has no bound."""
    try:
        return _bytes(shape)
    except UnknownSize:
        return None


def _bytes(shape: Shape) -> int:
    if shape.elements:
        return sum(_bytes(e) for e in shape.elements)
    if not shape.is_array:
        return 0
    if UNBOUNDED in shape.dimensions:
        raise UnknownSize
    return prod(shape.dimensions) * byte_size(shape.element_type)


def _sum(instructions: Iterable[Instruction]) -> int:
    return sum(_bytes(one.shape) for one in instructions)


def everything(instruction: Instruction) -> tuple[int, int]:
    """Every operand once, also one that is there twice, the result once."""
    return _sum(dict.fromkeys(instruction.operands)), _bytes(instruction.shape)


def _nothing(instruction: Instruction) -> tuple[int, int]:
    return 0, 0


def _part(instruction: Instruction) -> tuple[int, int]:
    """A slice: as much of the operand as the result has, and the indices; nothing where it is a view."""
    if is_view(instruction):
        return 0, 0
    size = _bytes(instruction.shape)
    return min(size, _bytes(instruction.operands[0].shape)) + _sum(instruction.operands[1:]), size


def _update(instruction: Instruction) -> tuple[int, int]:
    """dynamic-update-slice in place: the update is read and written."""
    update = _bytes(instruction.operands[1].shape)
    return update + _sum(instruction.operands[2:]), update


def _scattered(instruction: Instruction) -> tuple[int, int]:
    """scatter in place: the places that the updates hit are read and written, all of them at most."""
    half = len(instruction.operands) // 2
    hit = _hit(instruction)
    return hit + _sum(instruction.operands[half:]), hit


def _hit(scatter: Instruction) -> int:
    half = len(scatter.operands) // 2
    pairs = zip(scatter.operands[:half], scatter.operands[half + 1 :], strict=True)
    return sum(min(_bytes(whole.shape), _bytes(update.shape)) for whole, update in pairs)


def _copied(instruction: Instruction) -> tuple[int, int]:
    size = _bytes(instruction.operands[0].shape)
    return size, size


def _produced(instruction: Instruction) -> tuple[int, int]:
    return 0, _bytes(instruction.shape)


def _consumed(instruction: Instruction) -> tuple[int, int]:
    return _sum(instruction.operands[:1]), 0


def _fusion(instruction: Instruction) -> tuple[int, int]:
    """Operands, or the parts of them that the body looks at; results, or the parts of them that it updates."""
    return sum(_fused_reads(instruction).values()), sum(map(_written, _outputs(instruction)))


def _outputs(fusion: Instruction) -> list[Instruction]:
    """What a fusion's results are computed by."""
    root = fusion.attributes["calls"].root
    return [source_of(output) for output in (root.operands if root.opcode == "tuple" else [root])]


def _fused_reads(fusion: Instruction) -> dict[Instruction, int]:
    """Bytes that a fusion reads of each of its operands."""
    outputs = _outputs(fusion)
    seen: dict[Instruction, int] = {}
    for parameter, source in zip(fusion.attributes["calls"].parameters, fusion.operands, strict=True):
        seen[source] = max(seen.get(source, 0), _looked_at(parameter, outputs))
    return seen


def operand_bytes(instruction: Instruction) -> tuple[dict[Instruction, int], int]:
    """Bytes read of each operand, and written in all, by the rules of `TRAFFIC`: what these do not say of single
    operands is divided among them by their sizes.  UnknownSize where a dimension has no bound."""
    read, written = TRAFFIC.get(instruction.opcode, everything)(instruction)
    if instruction.opcode == "fusion":
        return _fused_reads(instruction), written
    sizes = {operand: _bytes(operand.shape) for operand in instruction.operands}
    whole = sum(sizes.values())
    return {operand: size * read // whole if whole else 0 for operand, size in sizes.items()}, written


def _written(output: Instruction) -> int:
    if output.opcode in _UPDATES and source_of(output.operands[0]).opcode == "parameter":
        return _bytes(output.operands[1].shape) if output.opcode == "dynamic-update-slice" else _hit(output)
    return _bytes(output.shape)


def _looked_at(value: Instruction, outputs: list[Instruction]) -> int:
    """Bytes that a body reads of a parameter, or of another shape of it."""
    whole, parts = _bytes(value.shape), 0
    for user in value.users:
        only_first = user.operands[0] is value and value.users[user] == 1
        if user.opcode in NAMES:
            parts += _looked_at(user, outputs)
        elif only_first and user.opcode in _PARTIAL:
            parts += _bytes(user.shape)
        elif only_first and user.opcode in _UPDATES and user in outputs:
            parts += _hit(user) if user.opcode == "scatter" else 0
        else:
            return whole
    return min(whole, parts)


def _moves_nothing(row: Opcode) -> bool:
    """Names of values, control flow, and the ends of asynchronous operations, whose starts count."""
    return bool(row.traits & {"no_code", "control"}) or row.name.endswith("-done") or row.name in _STILL


_STILL = (
    "parameter", "constant", "bitcast", "reshape", "async-start", "async-update", "partition-id", "replica-id",
    "get-dimension-size",
)  # fmt: skip
_PARTIAL = ("slice", "dynamic-slice", "gather")
_UPDATES = ("dynamic-update-slice", "scatter")
TRAFFIC: dict[str, Callable[[Instruction], tuple[int, int]]] = {
    **dict.fromkeys((name for name, row in OPCODES.items() if _moves_nothing(row)), _nothing),
    **dict.fromkeys(_PARTIAL, _part),
    "dynamic-update-slice": _update,
    "scatter": _scattered,
    **dict.fromkeys(
        ("copy-start", "all-gather-start", "all-reduce-start", "collective-permute-start", "set-dimension-size"),
        _copied,
    ),
    "infeed": _produced,
    "recv": _produced,
    "outfeed": _consumed,
    "send": _consumed,
    "fusion": _fusion,
}
