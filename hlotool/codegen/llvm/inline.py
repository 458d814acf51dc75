"""Called computations of scalars (reducers, comparators, combiners, map bodies) as inline code.

Each instruction becomes straight-line code over scalars or vectors: with more than one lane the computation is
applied lane by lane.  Calls of calls double that level by level, so what is large, written out, becomes a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

from hlotool.analysis.inlining import MOVES
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elements import Register, compute_element, constant, flattened, grouped, is_complex
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.values import Struct, Vector, operand
from hlotool.codegen.llvm.writer import LIBRARY, Function
from hlotool.ir import Computation, Instruction, UnsupportedError

__all__ = ["emit_inline"]

_LARGE: Annotated[int, Threshold("instructions")] = 64
"""Instructions of a called computation, written out, from which on it is a function."""


def emit_inline(f: Function, computation: Computation, arguments: Sequence[Register], lanes: int = 1) -> list[Register]:
    """Apply `computation` to `arguments`, one per parameter; return its root leaves."""
    values: dict[Instruction, list[Register]] = {}
    for instruction in computation:
        operands = [values[o] for o in instruction.operands]
        match instruction.opcode:
            case "parameter":
                result = [arguments[instruction.parameter_number]]
            case "constant":
                number = instruction.literal.value().reshape(-1)[0]
                result = [constant(f, instruction.shape.element_type, lanes, number)]
            case "tuple":
                result = [leaf for operand in operands for leaf in operand]
            case "get-tuple-element":
                elements = instruction.operands[0].shape.elements
                index = instruction.attributes["index"]
                first = sum(1 for e in elements[:index] for _ in e.leaves())
                result = operands[0][first : first + sum(1 for _ in elements[index].leaves())]
            case "call":
                callee = instruction.attributes["to_apply"]
                emit = emit_inline if _written_out(callee, f.unit.sizes) < _LARGE else _emit_call
                result = emit(f, callee, [o[0] for o in operands], lanes)
            case opcode if opcode in MOVES:
                result = operands[0]
            case opcode if instruction.has("elementwise"):
                types, kind = [o.shape.element_type for o in instruction.operands], instruction.shape.element_type
                result = [emit_elementwise(opcode, instruction.attributes, types, kind, [o[0] for o in operands])]
            case opcode:
                raise UnsupportedError(f"{instruction.name}: {opcode} inside {computation.name} has no inline code")
        values[instruction] = result
    return values[computation.root]


def _written_out(computation: Computation, known: dict[Computation, int]) -> int:
    """How many instructions there are when all calls are replaced by what they call."""
    if computation not in known:
        known[computation] = len(computation) + sum(_written_out(callee, known) for callee in computation.callees)
    return known[computation]


def _emit_call(f: Function, computation: Computation, arguments: Sequence[Register], lanes: int) -> list[Register]:
    """The same as `emit_inline` by a call of a function, which the unit keeps one of.

    It is one of the library, so its name stands for its text.
    """
    given = flattened(arguments)
    leaves = [leaf.element_type for leaf in computation.root.shape.leaves()]
    fields = [Vector(f, compute_element(t), lanes, "") for t in leaves for _ in range(1 + is_complex(t))]
    kind = fields[0].type if len(fields) == 1 else Struct(f, fields, "").type
    symbol = f.unit.routines.get((computation, lanes))
    if symbol is None:
        inner = Function(f.unit, "")
        formal = [part.named(f"%p{number}", inner) for number, part in enumerate(given)]
        registers = grouped([p.shape.element_type for p in computation.parameters], formal)
        results = flattened(emit_inline(inner, computation, registers, lanes))
        inner.leave(operand(results[0] if len(results) == 1 else Struct.of(results)))
        parameters = ", ".join(map(operand, formal))
        body = "\n".join(["entry:", *inner.lines, "}"])
        symbol = f"scalars_{sha256(f'{kind}{parameters}{body}'.encode()).hexdigest()[:16]}{LIBRARY}"
        f.unit.library[symbol] = f"define internal {kind} @{symbol}({parameters}) nounwind {{\n{body}"
        f.unit.routines[computation, lanes] = symbol
    whole = f.let(f"call {kind} @{symbol}({', '.join(map(operand, given))})")
    return grouped(leaves, [fields[0].named(whole)] if len(fields) == 1 else Struct(f, fields, whole).parts())
