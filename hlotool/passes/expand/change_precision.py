"""Change of precision: what is computed in one float type, in a narrower one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Computation, HloError, Instruction, Literal, Module, Shape, dtype_of
from hlotool.ir.builder import Builder
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import erase, has_sizes, replace_with

__all__ = ["SCOPES", "ChangePrecision"]

SCOPES = ("products", "values")

_PRODUCTS = frozenset({"dot", "convolution"})
_MOVING = frozenset({
    "broadcast", "reshape", "transpose", "reverse", "slice", "concatenate", "pad", "dynamic-slice",
    "dynamic-update-slice", "gather", "copy",
})  # fmt: skip
_OF_BITS = frozenset({"bitcast-convert", "reduce-precision", "stochastic-convert"})
"""Elementwise opcodes whose results depend on how a number is stored."""
_VALUES = (frozenset(ELEMENTWISE_OPCODES) - _OF_BITS) | _MOVING
_CONTROL = frozenset({"while", "conditional", "call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePrecision:
    """Computes in the narrower float type `to` what is computed in `type`; parameters and results stay what they are.

    With ``scope=products`` the operands of dots and convolutions are rounded, which are added up, and give their
    result, in `type`.  With ``scope=values`` so are all values between operations that work element by element or only
    move elements.  Reductions, loops and whatever else there is take and give `type`.  Constants are rounded where they
    stand.  A product with an ``algorithm``, or with ``operand_precision`` high or highest, asks for its precision and
    keeps it, and so does every instruction whose name the regular expression `keep` finds.
    """

    name: ClassVar[str] = "change-precision"
    changes_program: ClassVar[bool] = True
    type: str = "f32"
    to: str = "bf16"
    scope: str = "products"
    keep: str = ""

    def __post_init__(self) -> None:
        for name in (self.type, self.to):
            if name not in ELEMENT_TYPES or not ELEMENT_TYPES[name].is_float:
                raise HloError(f"change-precision: {name!r} is no floating-point type")
        if ELEMENT_TYPES[self.to].bits >= ELEMENT_TYPES[self.type].bits:
            raise HloError(f"change-precision: {self.to} is no narrower than {self.type}")
        if self.scope not in SCOPES:
            raise HloError(f"change-precision: scope={self.scope}: expected {' or '.join(SCOPES)}")
        try:
            re.compile(self.keep)
        except re.error as error:
            raise HloError(f"change-precision: keep={self.keep} is no regular expression: {error}") from None

    def run(self, module: Module, log: DecisionLog) -> bool:
        opcodes = _PRODUCTS if self.scope == "products" else _PRODUCTS | _VALUES
        changed = False
        for computation in _in_control(module):
            changed |= _Narrowed(self, computation, log).rewrite(opcodes)
        return changed


def _in_control(module: Module) -> Iterator[Computation]:
    """The computations that run as steps of the program: not those that are applied to elements, nor fusions."""
    seen, work = {module.entry}, [module.entry]
    for computation in work:  # which grows
        yield computation
        for instruction in computation.calls:
            if instruction.opcode in _CONTROL:
                for called in instruction.called:
                    if called not in seen:
                        seen.add(called)
                        work.append(called)


class _Narrowed:
    """A computation whose instructions get narrow twins, one after the other."""

    def __init__(self, options: ChangePrecision, computation: Computation, log: DecisionLog) -> None:
        self.type, self.to, self.log = options.type, options.to, log
        self.both = {options.type, options.to}
        self.keep = re.compile(options.keep) if options.keep else None
        self.computation = computation
        self.twins: dict[Instruction, Instruction] = {}
        self.replaced: list[Instruction] = []

    def rewrite(self, opcodes: frozenset[str]) -> bool:
        changed = False
        for instruction in list(self.computation):
            if instruction.opcode not in opcodes or not self._has_place(instruction) or not self._is_free(instruction):
                continue
            if not self.log.allow():
                break
            self._product(instruction) if instruction.opcode in _PRODUCTS else self._value(instruction)
            changed = True
        for old in reversed(self.replaced):  # readers come before what they read, and are gone
            if old.users or old.is_root:
                after = Builder(self.computation, old, like=old)
                replace_with(old, after.convert(self.twins[old], self.type))
            else:
                erase(old)
        return changed

    def _has_place(self, instruction: Instruction) -> bool:
        """Whether it computes something of the wide type that a narrower one could."""
        if not instruction.shape.is_array or has_sizes(instruction):
            return False
        kinds = [operand.shape.element_type for operand in instruction.operands if operand.shape.is_array]
        if len(kinds) < len(instruction.operands) or any(ELEMENT_TYPES[kind].is_complex for kind in kinds):
            return False
        if instruction.opcode in _PRODUCTS:
            return kinds == [self.type, self.type] and instruction.shape.element_type == self.type
        result = instruction.shape.element_type
        if ELEMENT_TYPES[result].is_complex or (instruction.opcode == "convert" and {*kinds, result} == self.both):
            return False
        return self.type in (*kinds, result)

    def _is_free(self, instruction: Instruction) -> bool:
        reason, rule = "", ""
        if self.keep is not None and self.keep.search(instruction.name):
            rule, reason = "kept", f"keep={self.keep.pattern} finds its name"
        elif instruction.opcode in _PRODUCTS:
            given = instruction.attributes
            precisions = set(map(str, given.get("operand_precision", ()))) & {"high", "highest"}
            if "algorithm" in given or precisions:
                rule, reason = "asked-for", "it asks for a precision of its own"
        if rule:
            self.log.refuse(rule, instruction, reason=reason)
        return not rule

    def _product(self, product: Instruction) -> None:
        build = Builder(self.computation, product, like=product)
        operands = [self._twin(operand, build) for operand in product.operands]
        new = build.add(product.opcode, product.shape, operands, product.attributes)
        self.log.rewrite("product", product, new, f"operands are {self.to}, the sum is {self.type}")
        replace_with(product, new)

    def _value(self, old: Instruction) -> None:
        build = Builder(self.computation, old, like=old)
        operands = [self._twin(o, build) if o.shape.element_type == self.type else o for o in old.operands]
        new = build.add(old.opcode, self._narrow(old.shape), operands, old.attributes)
        self.log.rewrite("value", old, new, f"it is computed in {self.to}")
        if old.shape.element_type == self.type:
            self.twins[old] = new
            self.replaced.append(old)
        else:
            replace_with(old, new)

    def _narrow(self, shape: Shape) -> Shape:
        return shape.with_type(self.to) if shape.element_type == self.type else shape

    def _twin(self, wide: Instruction, build: Builder) -> Instruction:
        """The narrow form of a value, which is there already or made here."""
        found = self.twins.get(wide)
        if found is None:
            if wide.opcode == "constant" and not wide.literal.elided:
                with np.errstate(over="ignore"):  # what is too large becomes infinite, as by a conversion
                    rounded = wide.literal.value().astype(dtype_of(self.to))
                found = build.constant(Literal(self._narrow(wide.shape).without_layout(), rounded))
            elif wide.opcode == "convert" and wide.operands[0].shape.element_type == self.to:
                found = wide.operands[0]
            else:
                found = build.convert(wide, self.to)
            self.twins[wide] = found
        return found
