"""Memory traffic: opcode -> bytes read and written by one instruction.  Conventions: `analysis.cost`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from hlotool.ir import OPCODES, UNBOUNDED, Computation, Instruction, Opcode, Shape, byte_size

__all__ = ["TRAFFIC", "UnknownSize", "elements", "everything", "shape_bytes"]


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
    """Every operand once, the result once."""
    return _sum(instruction.operands), _bytes(instruction.shape)


def _nothing(instruction: Instruction) -> tuple[int, int]:
    return 0, 0


def _part(instruction: Instruction) -> tuple[int, int]:
    """A slice: as much of the operand as the result has, and the indices."""
    size = _bytes(instruction.shape)
    return size + _sum(instruction.operands[1:]), size


def _update(instruction: Instruction) -> tuple[int, int]:
    """dynamic-update-slice in place: the update is read and written."""
    update = _bytes(instruction.operands[1].shape)
    return update + _sum(instruction.operands[2:]), update


def _scattered(instruction: Instruction) -> tuple[int, int]:
    """scatter in place: the places that the updates hit are read and written."""
    half = len(instruction.operands) // 2
    updates = _sum(instruction.operands[half + 1 :])
    return 2 * updates + _bytes(instruction.operands[half].shape), updates


def _copied(instruction: Instruction) -> tuple[int, int]:
    size = _bytes(instruction.operands[0].shape)
    return size, size


def _produced(instruction: Instruction) -> tuple[int, int]:
    return 0, _bytes(instruction.shape)


def _consumed(instruction: Instruction) -> tuple[int, int]:
    return _sum(instruction.operands[:1]), 0


def _fusion(instruction: Instruction) -> tuple[int, int]:
    """Operands, or the parts of them that the body looks at; results, or the parts of them that it updates."""
    body: Computation = instruction.attributes["calls"]
    root = body.root
    outputs = root.operands if root.opcode == "tuple" else [root]
    read = sum(_looked_at(parameter, outputs) for parameter in body.parameters)
    return read, sum(_bytes(o.operands[1].shape if _is_update(o) else o.shape) for o in outputs)


def _is_update(output: Instruction) -> bool:
    return output.opcode == "dynamic-update-slice" and output.operands[0].opcode == "parameter"


def _looked_at(parameter: Instruction, outputs: list[Instruction]) -> int:
    whole, parts = _bytes(parameter.shape), 0
    for user in parameter.users:
        only_first = user.operands[0] is parameter and parameter.users[user] == 1
        if only_first and user.opcode in _PARTIAL:
            parts += _bytes(user.shape)
        elif not (only_first and _is_update(user) and user in outputs):
            return whole
    return min(whole, parts)


def _moves_nothing(row: Opcode) -> bool:
    """Names of values, control flow, and the ends of asynchronous operations, whose starts count."""
    return bool(row.traits & {"no_code", "control"}) or row.name.endswith("-done") or row.name in _STILL


_STILL = (
    "parameter", "constant", "bitcast", "async-start", "async-update", "partition-id", "replica-id",
    "get-dimension-size",
)  # fmt: skip
_PARTIAL = ("slice", "dynamic-slice", "gather")
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
