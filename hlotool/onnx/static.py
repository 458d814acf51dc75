"""Values that are known while a model is lowered: constants, what is computed of them, and inputs that were given.

Shapes in ONNX are computed: a reshape takes its shape from a tensor that nodes before it have made.  The trace has
these nodes as instructions.  Where a lowering asks for their value, the evaluator computes it, once; where nobody
asks, nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from hlotool.evaluate import evaluate_instruction
from hlotool.ir import HloError, Instruction
from hlotool.numpy.array import Array
from hlotool.numpy.trace import active

__all__ = ["Statics"]

_NEVER = frozenset({"rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "recv", "custom-call"})


class Statics:
    """The known values of one import.

    `given` are values of the model's inputs, by name; `used` are the names of those that the program depends on.
    """

    __slots__ = ("_constants", "_names", "_values", "given", "used")

    def __init__(self, given: Mapping[str, numpy.ndarray[Any, Any]]) -> None:
        self.given = given
        self.used: dict[str, None] = {}
        self._names: dict[Instruction, str] = {}
        self._values: dict[Instruction, Any] = {}
        self._constants: dict[Instruction, bool] = {}

    def declare(self, parameter: Array, name: str) -> None:
        """`parameter` is an input of the model."""
        self._names[parameter._value] = name

    def constant(self, value: Array) -> numpy.ndarray[Any, Any] | None:
        """The value, if it depends on constants alone."""
        return self._value(value, frozenset())

    def value(self, value: Array) -> numpy.ndarray[Any, Any] | None:
        """The value, if it is known; inputs that it depends on count as used."""
        return self._value(value, self.given)

    def reason(self, value: Array) -> str:
        """What a value that is not known depends on."""
        if value._trace is None:
            return "nothing"
        names = [self._names.get(one) for one in self._leaves(value._value) if one.opcode == "parameter"]
        known = [name for name in names if name is not None]
        if known:
            return f"the input{'s' if len(known) > 1 else ''} {', '.join(known)}"
        return "a value of a loop" if names else "random numbers"

    def _value(self, value: Array, given: Any) -> numpy.ndarray[Any, Any] | None:
        if value._trace is None:
            return numpy.asarray(value._value)
        target: Instruction = value._value
        leaves = self._leaves(target)
        if any(one.opcode != "parameter" or self._names.get(one) not in given for one in leaves):
            return None
        for one in leaves:
            self.used[self._names[one]] = None
            self._values[one] = numpy.asarray(self.given[self._names[one]])
        try:
            return numpy.asarray(self._computed(target))
        except HloError:
            return None

    def _outside(self) -> dict[Instruction, Instruction]:
        """Parameters of the traces that are open, and the values from around them that they stand for."""
        found: dict[Instruction, Instruction] = {}
        trace = active()
        while trace is not None:
            found.update({inner: outer._value for outer, inner in trace.captured.values() if outer._trace is not None})
            trace = trace.parent
        return found

    def _leaves(self, target: Instruction) -> list[Instruction]:
        """What `target` depends on that is neither a constant nor known already."""
        outside = self._outside()
        found: dict[Instruction, None] = {}
        seen: set[Instruction] = set()
        stack = [target]
        while stack:
            one = stack.pop()
            one = outside.get(one, one)
            if one in seen or one in self._constants:
                continue
            seen.add(one)
            if (one.opcode == "parameter") or one.opcode in _NEVER:
                found[one] = None
            stack.extend(outside.get(each, each) for each in one.operands)
        if not found:
            self._constants.update(dict.fromkeys(seen, True))
        return list(found)

    def _computed(self, target: Instruction) -> Any:
        outside = self._outside()
        values = self._values
        stack = [target]
        while stack:
            one = outside.get(stack[-1], stack[-1])
            if one in values:
                stack.pop()
                continue
            operands = [outside.get(each, each) for each in one.operands]
            missing = [each for each in operands if each not in values]
            if missing:
                stack.extend(missing)
                continue
            values[one] = evaluate_instruction(one, [values[each] for each in operands])
            stack.pop()
        return values[outside.get(target, target)]
