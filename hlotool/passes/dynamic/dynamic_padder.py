"""Dynamic padder: arrays of dynamic size become arrays of the bounds and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.xla_annotations import is_annotation
from hlotool.ir import Computation, Instruction, Module, Shape, UnsupportedError, scalar, tuple_shape
from hlotool.ir.dynamic import PAD_TO_STATIC, SLICE_TO_DYNAMIC, check_bounds, is_dynamic, static
from hlotool.ir.shape_checks import flags_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.dynamic.dynamic_values import Maker, Sized
from hlotool.passes.framework.graph import custom_call_target, erase, replace_with

if TYPE_CHECKING:
    from hlotool.passes.dynamic.dynamic_rules import Rule

__all__ = ["DynamicEntry", "DynamicPadder"]

Value: TypeAlias = "Sized | Instruction"
"""An array; or a tuple (or token) in its packed form."""


@dataclass(frozen=True, slots=True)
class DynamicPadder:
    """Rewrites dynamic dimensions into static ones with sizes next to them, and masks where sizes matter.

    What is left of dynamic shapes stands at the border of the program: a parameter of the entry goes through the custom
    call PadToStatic, a result of it comes out of SliceToDynamic, as XLA has them.  Inside, a dynamic array that passes
    through a tuple, loop, branch or call is the tuple of an array of its bounds and an s32[] per dynamic dimension.
    Rules: `hlotool.ir.dynamic`.
    """

    name: ClassVar[str] = "dynamic-padder"

    def run(self, module: Module, log: DecisionLog) -> bool:
        if not is_dynamic(module):
            return False
        check_bounds(module)
        if _is_padded(module) or not log.allow():
            return False
        embedded = _embedded(module)
        for computation in module.callees_first():
            if computation not in embedded:
                _Padder(module, computation).run(log)
        return True


@cache
def _rules() -> Mapping[str, Rule]:
    """How opcodes are padded, by opcode, and those that are ``elementwise``; loaded for a module that is dynamic."""
    from hlotool.passes.dynamic.dynamic_rules import RULES, elementwise

    return {**RULES, "elementwise": elementwise}


def _is_padded(module: Module) -> bool:
    """Whether all that is dynamic stands at the border already."""
    for computation in module.computations.values():
        for i in computation:
            if i.opcode in ("set-dimension-size", "get-dimension-size", "dynamic-reshape"):
                return False
            takes = i.opcode in ("tuple", "get-tuple-element") or custom_call_target(i) == PAD_TO_STATIC
            if not takes and any(not operand.shape.is_static for operand in i.operands):
                return False
            plain = i.opcode in ("parameter", "tuple", "get-tuple-element")
            at_border = plain or custom_call_target(i) == SLICE_TO_DYNAMIC
            if not i.shape.is_static and not (computation is module.entry and at_border):
                return False
    return True


def _embedded(module: Module) -> set[Computation]:
    """Computations that are applied to elements."""
    names = ("reduce", "reduce-window", "select-and-scatter", "scatter", "sort", "map", "all-reduce", "reduce-scatter")
    return {callee for i in module.instructions() if i.opcode in names for callee in i.called}


def packed(shape: Shape) -> Shape:
    """How a value of `shape` passes through tuples, loops and calls."""
    if shape.is_tuple:
        return tuple_shape([packed(element) for element in shape.elements])
    if not any(shape.dynamic):
        return shape
    return tuple_shape([static(shape), *(scalar("s32") for flag in shape.dynamic if flag)])


def _wanted(i: Instruction) -> list[Shape]:
    """The shapes that an opcode that hands values on declares for its operands."""
    match i.opcode:
        case "tuple":
            return list(i.shape.elements)
        case "opt-barrier" | "domain" | "copy" | "while":
            return [i.shape]
        case "add-dependency":
            return [i.shape, i.operands[1].shape]
        case _:
            return [operand.shape for operand in i.operands]


class _Padder:
    """Rewrites one computation; those that it calls are done."""

    def __init__(self, module: Module, computation: Computation) -> None:
        self.module = module
        self.computation = computation
        self.values: dict[Instruction, Value] = {}

    def run(self, log: DecisionLog) -> None:
        old = list(self.computation)
        root = self.computation.root
        gone: list[Instruction] = []
        for instruction, following in zip(old, [*old[1:], None], strict=True):
            if self.touches(instruction):
                stays = instruction.opcode == "parameter" and self.computation is self.module.entry
                make = Maker(self.computation, following if stays else instruction, like=instruction)
                value = self.rewrite(make, instruction)
                self.values[instruction] = value
                if stays:
                    continue
                gone.append(instruction)
                new = value.array if isinstance(value, Sized) else value
                log.rewrite("pad", instruction, new, "its sizes are dynamic")
                if instruction.shape.is_static and not (isinstance(value, Sized) and value.sizes):
                    instruction.replace_all_uses(new)
                    self.values[new] = value
            else:
                self.values[instruction] = Sized(instruction) if instruction.shape.is_array else instruction
        self.finish(root)
        for instruction in reversed(gone):
            erase(instruction)

    def touches(self, instruction: Instruction) -> bool:
        """Whether the instruction, or one of its operands, is not what it was."""
        if not instruction.shape.is_static or (instruction.info.group == "dynamic" and instruction.opcode in _rules()):
            return True
        return any(self.changed(operand) for operand in instruction.operands) or not _gives_what_it_runs(instruction)

    def changed(self, operand: Instruction) -> bool:
        value = self.values[operand]
        return bool(value.sizes) or value.array is not operand if isinstance(value, Sized) else value is not operand

    def finish(self, root: Instruction) -> None:
        value = self.values[root]
        if isinstance(value, Sized) and value.array is root and not value.sizes:
            return
        if value is root:
            return
        make = Maker(self.computation, like=root)
        if self.computation is self.module.entry:
            self.computation.root = self.leave(make, value, root.shape)
        else:
            self.computation.root = self.pack(make, value, root.shape, root)

    # ---- between the forms of a value

    def pack(self, make: Maker, value: Value, shape: Shape, who: Instruction) -> Instruction:
        """The packed form of a value that is declared to be of `shape`."""
        if not isinstance(value, Sized):
            if not value.shape.compatible(packed(shape)):
                raise UnsupportedError(f"{who.name}: a value of another dynamic shape goes where {shape} is declared")
            return value
        flags = flags_of(shape)
        if any(not flags[d] for d in value.sizes):
            raise UnsupportedError(f"{who.name}: a dimension of dynamic size goes where {shape} is declared")
        if not any(flags):
            return value.array
        return make.tuple([value.array, *(make.size(value, d) for d, flag in enumerate(flags) if flag)])

    def unpack(self, make: Maker, whole: Instruction, shape: Shape) -> Value:
        """The value of declared `shape` in its packed form."""
        if not shape.is_array:
            return whole
        if not any(shape.dynamic):
            return Sized(whole)
        dimensions = [d for d, flag in enumerate(shape.dynamic) if flag]
        return Sized(make.gte(whole, 0), {d: make.gte(whole, n) for n, d in enumerate(dimensions, 1)})

    def enter(self, make: Maker, given: Instruction) -> Instruction:
        """The packed form of a parameter of the entry, or of a part of one."""
        shape = given.shape
        if shape.is_static:
            return given
        if shape.is_tuple:
            return make.tuple([self.enter(make, make.gte(given, n)) for n in range(len(shape.elements))])
        inside = tuple_shape([static(shape), *(scalar("s32") for _ in shape.dimensions)])
        both = make.add("custom-call", inside, [given], {"custom_call_target": PAD_TO_STATIC})
        sizes = [make.gte(both, n) for n, flag in enumerate(shape.dynamic, 1) if flag]
        return make.tuple([make.gte(both, 0), *sizes])

    def leave(self, make: Maker, value: Value, shape: Shape) -> Instruction:
        """A result of the entry, of its declared shape."""
        if shape.is_tuple and not isinstance(value, Sized):
            if shape.is_static:
                return value
            parts = [self.unpack(make, make.gte(value, n), one) for n, one in enumerate(shape.elements)]
            return make.tuple([self.leave(make, part, one) for part, one in zip(parts, shape.elements, strict=True)])
        if not isinstance(value, Sized):
            return value
        flags = tuple(d in value.sizes for d in range(shape.rank))
        if any(flag and not declared for flag, declared in zip(flags, flags_of(shape), strict=True)):
            raise UnsupportedError(f"the result has a dimension of dynamic size where {shape} is declared")
        if not any(shape.dynamic):
            return value.array
        target = Shape(shape.element_type, shape.dimensions, value.array.shape.layout, (), shape.dynamic)
        sizes = [make.size(value, d) for d in range(shape.rank)]
        return make.add("custom-call", target, [value.array, *sizes], {"custom_call_target": SLICE_TO_DYNAMIC})

    # ---- instructions

    def rewrite(self, make: Maker, i: Instruction) -> Value:
        opcode = i.opcode
        if opcode == "parameter":
            return self.parameter(make, i)
        if opcode in _STRUCTURE or (opcode == "copy" and i.shape.is_tuple):
            return self.structure(make, i)
        if opcode == "get-tuple-element":
            whole = self.values[i.operands[0]]
            assert isinstance(whole, Instruction)
            return self.unpack(make, make.gte(whole, i.attributes["index"]), i.shape)
        operands = [self.values[operand] for operand in i.operands]
        if opcode == "custom-call":
            return self.custom_call(make, i, operands)
        if opcode.endswith(("-start", "-update", "-done")) and i.info.group != "feed":
            raise UnsupportedError(f"{i.name}: {opcode} of an array of dynamic size: async-to-sync must go first")
        rule = _rules().get("elementwise" if i.has("elementwise") else opcode)
        arrays = [value for value in operands if isinstance(value, Sized)]
        in_place = opcode == "collective-permute" and "slice_sizes" in i.attributes
        if rule is None or in_place or len(arrays) < len(operands):
            return self.bounded_call(make, i, operands)
        result = rule(make, i, arrays, self.module)
        if isinstance(result, Sized):
            return result
        shapes = i.shape.elements
        parts = [self.pack(make, part, shape, i) for part, shape in zip(result, shapes, strict=True)]
        return make.tuple(parts)

    def bounded_call(self, make: Maker, i: Instruction, operands: Sequence[Value]) -> Value:
        """An opcode that knows no sizes: it takes and gives arrays of the bounds."""
        given = [self.bounded(make, value, o.shape) for value, o in zip(operands, i.operands, strict=True)]
        new = make.add(i.opcode, static(i.shape), given, i.attributes)
        return Sized(new) if new.shape.is_array else self.unbounded(make, new, i.shape, i)

    def bounded(self, make: Maker, value: Value, shape: Shape) -> Instruction:
        """A value with zeros up to the bounds of all its arrays."""
        if isinstance(value, Sized):
            return make.filled(value)
        if shape.is_static:
            return value
        parts = [self.unpack(make, make.gte(value, n), one) for n, one in enumerate(shape.elements)]
        return make.tuple([self.bounded(make, part, one) for part, one in zip(parts, shape.elements, strict=True)])

    def unbounded(self, make: Maker, value: Instruction, shape: Shape, who: Instruction) -> Instruction:
        """The packed form of a value of static shape that is declared to be of `shape`."""
        if shape.is_static:
            return value
        if not shape.is_tuple:
            return self.pack(make, Sized(value), shape, who)
        parts = [self.unbounded(make, make.gte(value, n), one, who) for n, one in enumerate(shape.elements)]
        return make.tuple(parts)

    def parameter(self, make: Maker, i: Instruction) -> Value:
        if self.computation is self.module.entry:
            return self.unpack(make, self.enter(make, i), i.shape)
        new = make.parameter(i.parameter_number, packed(i.shape))
        new.name, i.name = i.name, new.name
        return self.unpack(make, new, i.shape)

    def structure(self, make: Maker, i: Instruction) -> Value:
        """Values pass as they are, in packed form."""
        parts = [self.pack(make, self.values[o], shape, i) for o, shape in zip(i.operands, _wanted(i), strict=True)]
        opcode, attributes = i.opcode, dict(i.attributes)
        if opcode == "fusion":
            opcode, attributes = "call", {"to_apply": i.attributes["calls"]}
        if opcode == "copy":  # of a tuple
            return parts[0]
        if not _gives_what_it_runs(i):
            raise UnsupportedError(f"{i.name}: {i.shape} is declared with other dynamic dimensions elsewhere")
        return self.unpack(make, make.add(opcode, packed(i.shape), parts, attributes), i.shape)

    def custom_call(self, make: Maker, i: Instruction, operands: Sequence[Value]) -> Value:
        target = custom_call_target(i)
        values = [value for value in operands if isinstance(value, Sized)]
        if target == PAD_TO_STATIC:
            (value,) = values
            return make.tuple([make.filled(value), *(make.size(value, d) for d in range(value.array.shape.rank))])
        if target == SLICE_TO_DYNAMIC:
            value, *sizes = values
            bounds = i.shape.dimensions
            flags = [d for d, flag in enumerate(i.shape.dynamic) if flag]
            return Sized(value.array, {d: make.limited(sizes[d].array, bounds[d]) for d in flags})
        if is_annotation(i):
            return operands[0]
        return self.bounded_call(make, i, operands)


def _gives_what_it_runs(i: Instruction) -> bool:
    """Whether the computations of a loop, branch or call, which are done, give what it declares."""
    results = [one for one in i.called if one is not i.attributes.get("condition")]
    return i.opcode not in _STRUCTURE or all(one.root.shape.compatible(packed(i.shape)) for one in results)


_STRUCTURE = frozenset(
    {"tuple", "while", "conditional", "call", "fusion", "opt-barrier", "domain", "add-dependency", "after-all"}
)


@dataclass(frozen=True, slots=True)
class DynamicEntry:
    """Gives the entry static parameters and results: for ``f32[<=8,4]`` the tuple (f32[8,4], s32[], s32[]) of an array
    of the bounds and its sizes.

    Of what `dynamic-padder` leaves; code generation knows static shapes only, and `Executable` keeps the border.
    """

    name: ClassVar[str] = "dynamic-entry"

    def run(self, module: Module, log: DecisionLog) -> bool:
        entry = module.entry
        if all(i.shape.is_static for i in (*entry.parameters, entry.root)) or not log.allow():
            return False
        for parameter in entry.parameters:
            if not parameter.shape.is_static:
                parameter.shape = _at_border(parameter.shape)
                parameter.attributes.pop("parameter_replication", None)
                _follow(parameter)
        entry.root = _result(entry.root)
        for name in ("entry_computation_layout", "input_output_alias", "buffer_donor"):
            module.attributes.pop(name, None)  # they speak of the old leaves
        return True


def _at_border(shape: Shape) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_at_border(element) for element in shape.elements])
    if shape.is_static:
        return shape
    return tuple_shape([static(shape), *(scalar("s32") for _ in shape.dimensions)])


def _follow(value: Instruction) -> None:
    """Let those who read a value that now has its sizes with it read those."""
    for user in list(value.users):
        if user.opcode == "get-tuple-element" and not user.shape.is_static:
            user.shape = value.shape.elements[user.attributes["index"]]
            _follow(user)
        elif custom_call_target(user) == PAD_TO_STATIC:
            replace_with(user, value)
        elif user.opcode != "get-tuple-element":
            raise UnsupportedError(f"{user.name}: {user.opcode} of a parameter of dynamic size")


def _result(value: Instruction) -> Instruction:
    if value.shape.is_static:
        return value
    assert value.parent is not None
    make = Maker(value.parent, like=value)
    if custom_call_target(value) == SLICE_TO_DYNAMIC:
        return make.tuple(value.operands)
    if value.opcode != "tuple":
        raise UnsupportedError(f"{value.name}: {value.opcode} as a result of dynamic size")
    return make.tuple([_result(operand) for operand in value.operands])
