"""Constants of four-bit elements, two elements in a byte, where all that reads them can read them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import is_movement
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Literal, Module, Shape, SliceDimension, array
from hlotool.ir.opcodes import ELEMENTWISE
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import made_from
from hlotool.passes.fuse.fusion import fusible_computations

__all__ = ["SubBytePacking"]


@dataclass(frozen=True, slots=True)
class SubBytePacking:
    """Stores constants of elements of four bits in half the bytes.

    In memory each element has a byte of its own.  Here such a constant becomes bytes, ``u8[size/2]``, and the fusions
    that read it get ``bitcast-convert`` and ``reshape`` ahead of what they do with its elements: kernels then read two
    elements from a byte, the first one from its low half.  The pass comes after those that make fusions.  A constant
    that anything else reads, such as a product whose operand it is, stays as it is, and so does one with fewer than
    `least` elements, which the nearest cache holds anyway.
    """

    name: ClassVar[str] = "sub-byte-packing"
    least: int = 4096

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        computations = fusible_computations(module)
        constants = [i for c in computations for i in c if i.opcode == "constant" and self._is_worth_it(i)]
        callers = module.callers() if constants else {}
        for constant in constants:
            other = next((user for user in constant.users if not _reads_elements(user, constant, callers)), None)
            if other is not None or constant.is_root:
                reader = "it is a result" if other is None else f"{other.name} reads it"
                why = f"{reader}, which takes elements that have a byte each"
                log.refuse("whole-bytes", constant, why, bytes=constant.shape.byte_size)
            elif log.allow():
                packed = _pack(constant)
                log.rewrite("pack", constant, packed, "two elements share a byte", bytes=packed.shape.byte_size)
                changed = True
        return changed

    def _is_worth_it(self, constant: Instruction) -> bool:
        shape, literal = constant.shape, constant.literal
        narrow = shape.is_array and ELEMENT_TYPES[shape.element_type].bits == 4 and shape.size >= self.least
        in_rows = shape.layout is None or shape.layout.minor_to_major == tuple(range(shape.rank))[::-1]
        return narrow and in_rows and not literal.elided and not literal.is_splat and not constant.control_successors


def _reads_elements(
    user: Instruction, constant: Instruction, callers: Mapping[Computation, Sequence[Instruction]]
) -> bool:
    """Whether a user is a fusion that computes with the elements of the constant, wherever these come from."""
    if user.opcode != "fusion" or "output_to_operand_aliasing" in user.attributes:
        return False
    body: Computation = user.attributes["calls"]
    inside = [body.parameters[number] for number, operand in enumerate(user.operands) if operand is constant]
    takes = all(_takes_any(reader, parameter) for parameter in inside for reader in parameter.users)
    return takes and len(callers[body]) == 1 and body.root not in inside


def _takes_any(reader: Instruction, parameter: Instruction) -> bool:
    if reader.opcode == "gather":
        return parameter is reader.operands[0] and reader.operands.count(parameter) == 1
    return reader.opcode in ELEMENTWISE or is_movement(reader)


def _pack(constant: Instruction) -> Instruction:
    """Put bytes in the place of the constant, and its elements into the bodies of the fusions that read it."""
    elements = constant.literal.value().reshape(-1).view(np.uint8) & 15
    halves = np.append(elements, np.zeros(len(elements) % 2, np.uint8)).reshape(-1, 2)
    data = halves[:, 0] | halves[:, 1] << 4
    shape = array("u8", data.shape)
    packed = made_from(constant, "constant", shape, literal=Literal(shape, data))
    assert constant.parent is not None
    constant.parent.add(packed, before=constant)
    for user in list(constant.users):
        for number, operand in enumerate(user.operands):
            if operand is constant:
                _unpack(user.attributes["calls"].parameters[number], shape)
                user.replace_operand(number, packed)
    constant.parent.erase(constant)
    return packed


def _unpack(parameter: Instruction, packed: Shape) -> None:
    """Let a parameter have the bytes, and all that reads it read the elements in them."""
    body, whole, count = parameter.parent, parameter.shape, 2 * packed.size
    assert body is not None
    readers = list(parameter.users)
    parameter.shape = packed
    halves = array(whole.element_type, (packed.size, 2))
    made: list[tuple[str, Shape, dict[str, Any]]] = [("bitcast-convert", halves, {})]
    if whole.size < count:
        made.append(("reshape", array(whole.element_type, (count,)), {}))
        made.append(("slice", array(whole.element_type, (whole.size,)), {"slice": (SliceDimension(0, whole.size),)}))
    made.append(("reshape", whole, {}))
    value = parameter
    for opcode, shape, attributes in made:
        value = body.add_after(made_from(parameter, opcode, shape, [value], **attributes), value)
    for reader in readers:
        for number, operand in enumerate(reader.operands):
            if operand is parameter:
                reader.replace_operand(number, value)
