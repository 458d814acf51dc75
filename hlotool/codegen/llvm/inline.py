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
from hlotool.codegen.llvm.math.elements import is_complex
from hlotool.codegen.llvm.math.elementwise import Value, compute_type, constant, emit_elementwise
from hlotool.codegen.llvm.writer import LIBRARY, Function
from hlotool.ir import Computation, Instruction, UnsupportedError

__all__ = ["emit_inline"]

_LARGE: Annotated[int, Threshold("instructions")] = 64
"""Instructions of a called computation, written out, from which on it is a function."""


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
                callee = instruction.attributes["to_apply"]
                emit = emit_inline if _written_out(callee, f.unit.sizes) < _LARGE else _emit_call
                result = emit(f, callee, [o[0] for o in operands], lanes)
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


def _written_out(computation: Computation, known: dict[Computation, int]) -> int:
    """How many instructions there are when all calls are replaced by what they call."""
    if computation not in known:
        known[computation] = len(computation) + sum(_written_out(callee, known) for callee in computation.callees)
    return known[computation]


def _emit_call(f: Function, computation: Computation, arguments: Sequence[Value], lanes: int) -> list[Value]:
    """The same as `emit_inline` by a call of a function, which the unit keeps one of.

    It is one of the library, so its name stands for its text.
    """
    taken = [kind for p in computation.parameters for kind in _kinds(p, lanes)]
    given = [kind for leaf in computation.root.shape.leaves() for kind in _parts(leaf.element_type, lanes)]
    kind = given[0] if len(given) == 1 else f"{{ {', '.join(given)} }}"
    symbol = f.unit.routines.get((computation, lanes))
    if symbol is None:
        inner = Function(f.unit, "")
        names = iter([f"%p{number}" for number in range(len(taken))])
        formal = [_joined([next(names) for _ in _kinds(p, lanes)]) for p in computation.parameters]
        results = _split(emit_inline(inner, computation, formal, lanes))
        value = results[0]
        if len(given) > 1:
            value = "poison"
            for number, (part, result) in enumerate(zip(given, results, strict=True)):
                value = inner.let(f"insertvalue {kind} {value}, {part} {result}, {number}")
        inner.do(f"ret {kind} {value}")
        parameters = ", ".join(f"{part} %p{number}" for number, part in enumerate(taken))
        body = "\n".join(["entry:", *inner.lines, "}"])
        symbol = f"scalars_{sha256(f'{kind}{parameters}{body}'.encode()).hexdigest()[:16]}{LIBRARY}"
        f.unit.library[symbol] = f"define internal {kind} @{symbol}({parameters}) nounwind {{\n{body}"
        f.unit.routines[computation, lanes] = symbol
    passed = ", ".join(f"{part} {value}" for part, value in zip(taken, _split(arguments), strict=True))
    whole = f.let(f"call {kind} @{symbol}({passed})")
    parts = [whole] if len(given) == 1 else [f.let(f"extractvalue {kind} {whole}, {n}") for n in range(len(given))]
    found = iter(parts)
    return [
        _joined([next(found) for _ in _parts(leaf.element_type, lanes)]) for leaf in computation.root.shape.leaves()
    ]


def _parts(element_type: str, lanes: int) -> list[str]:
    """The LLVM types of a value: two of a complex one."""
    return [compute_type(element_type, lanes)] * (2 if is_complex(element_type) else 1)


def _kinds(parameter: Instruction, lanes: int) -> list[str]:
    return _parts(parameter.shape.element_type, lanes)


def _joined(parts: list[str]) -> Value:
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _split(values: Sequence[Value]) -> list[str]:
    return [part for value in values for part in ([value] if isinstance(value, str) else value)]
