"""Called computations of scalars (reducers, comparators, combiners, map bodies) as inline code.

Each instruction becomes straight-line code over scalars or vectors: with more than one lane the computation is
applied lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.inlining import MOVES
from hlotool.codegen.cpu.math.elementwise import Value, constant, emit_elementwise
from hlotool.codegen.llvm import Function
from hlotool.ir import Computation, Instruction, UnsupportedError

__all__ = ["emit_inline"]


def emit_inline(f: Function, computation: Computation, arguments: Sequence[Value], lanes: int = 1) -> list[Value]:
    """Apply `computation` to `arguments` (compute-type values, one per parameter); return its root leaves."""
    values: dict[Instruction, list[Value]] = {}
    for instruction in computation:
        operands = [values[o] for o in instruction.operands]
        match instruction.opcode:
            case "parameter":
                result = [arguments[instruction.parameter_number]]
            case "constant":
                result = [constant(instruction.shape.element_type, lanes, instruction.literal.value().reshape(-1)[0])]
            case "tuple":
                result = [leaf for operand in operands for leaf in operand]
            case "get-tuple-element":
                elements = instruction.operands[0].shape.elements
                index = instruction.attributes["index"]
                first = sum(1 for e in elements[:index] for _ in e.leaves())
                result = operands[0][first : first + sum(1 for _ in elements[index].leaves())]
            case "call":
                result = emit_inline(f, instruction.attributes["to_apply"], [o[0] for o in operands], lanes)
            case opcode if opcode in MOVES:
                result = operands[0]
            case opcode if instruction.has("elementwise"):
                result = [
                    emit_elementwise(
                        f,
                        opcode,
                        instruction.attributes,
                        [o.shape.element_type for o in instruction.operands],
                        instruction.shape.element_type,
                        lanes,
                        [o[0] for o in operands],
                    )
                ]
            case opcode:
                raise UnsupportedError(f"{instruction.name}: {opcode} inside {computation.name} has no inline code")
        values[instruction] = result
    return values[computation.root]
