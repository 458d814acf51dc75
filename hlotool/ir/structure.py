"""Whether a module hangs together: what every later step takes for granted, in a fraction of the verifier's time.

The verifier asks whether a program means something; this asks whether a rewrite has left the graph in one piece.
Shapes are looked at where that takes no inference.
"""

from __future__ import annotations

from hlotool.ir.errors import VerificationError
from hlotool.ir.module import Computation, Instruction, Module
from hlotool.ir.opcodes import CALLING, ELEMENTWISE
from hlotool.ir.shape import Shape

__all__ = ["check_structure"]

_SAME_SIZES = ELEMENTWISE - {"bitcast-convert", "clamp", "select"}


def check_structure(module: Module, before: Module) -> None:
    """VerificationError where something is read that is not there before, belongs to nothing, or calls what is not in
    the module; where the users are others than those who read, or elementwise instructions read other sizes than they
    have; and where the entry takes or gives other arrays than it did `before`."""
    for name, computation in module.computations.items():
        if computation.name != name or computation.module is not module:
            raise VerificationError(f"computation {name} is not of this module")
        _check(computation, module)
    if module.computations.get(module.entry.name) is not module.entry:
        raise VerificationError("the entry computation is not in the module")
    found, wanted = _border(module), _border(before)
    static = all(leaf.is_static for shape in wanted for leaf in shape.leaves() if leaf.is_array)
    if static and (len(found) != len(wanted) or not all(map(Shape.compatible, found, wanted))):
        raise VerificationError("the entry takes or gives other arrays than before")


def _border(module: Module) -> list[Shape]:
    return [*(parameter.shape for parameter in module.entry.parameters), module.entry.root.shape]


def _check(computation: Computation, module: Module) -> None:
    known: dict[Instruction, dict[Instruction, int]] = {}
    for instruction in computation:
        if instruction.parent is not computation:
            raise VerificationError(f"{instruction.name} is not of computation {computation.name}")
        for operand in instruction.operands:
            users = known.get(operand)
            if users is None:
                raise VerificationError(f"{instruction.name} reads {operand.name}, which is not there before it")
            users[instruction] = users.get(instruction, 0) + 1
        known[instruction] = {}
        if instruction.opcode in _SAME_SIZES:
            sizes = instruction.shape.dimensions
            for operand in instruction.operands:
                if operand.shape.dimensions != sizes:
                    raise VerificationError(f"{instruction.name} of shape {instruction.shape} reads other sizes")
        elif instruction.opcode in CALLING:
            for called in instruction.called:
                if module.computations.get(called.name) is not called:
                    raise VerificationError(f"{instruction.name} calls {called.name}, which is not in the module")
    if computation.root not in known:
        raise VerificationError(f"the root of {computation.name} is not in it")
    for instruction, users in known.items():
        if instruction.users != users:
            raise VerificationError(f"the users of {instruction.name} are not those that read it")
    numbers = [parameter.parameter_number for parameter in computation.parameters]
    if numbers != list(range(len(numbers))):
        raise VerificationError(f"the parameters of {computation.name} are numbered {numbers}")
