"""The interpreter: computations as lists of steps over numbered slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from hlotool.evaluate.context import Rule
from hlotool.evaluate.devices import Device, ThreadWorld
from hlotool.evaluate.dynamic import fits, for_sizes, has_sizes
from hlotool.evaluate.flushing import computes, flushing
from hlotool.evaluate.rules import RULES, SCALAR_RULES
from hlotool.evaluate.values import AnyArray, Operands, Value, leaves_of, value_from_leaves
from hlotool.ir import (
    ELEMENT_TYPES,
    Computation,
    ExecutionError,
    HloError,
    InputError,
    Instruction,
    Module,
    Shape,
    UnsupportedError,
    dtype_of,
)
from hlotool.ir.depth import room
from hlotool.ir.dynamic import accepts
from hlotool.ir.effects import is_pure
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Interpreter",
    "Observer",
    "check_arguments",
    "evaluate",
    "evaluate_computation",
    "evaluate_instruction",
    "guarded",
    "used_bits",
]

Observer: TypeAlias = Callable[[Instruction, Value], None]
"""Told every instruction and its value, in order; inside loops once per iteration."""

_SEED = 0
_BROKEN_PROGRAM = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, np.linalg.LinAlgError)


def evaluate(
    module: Module,
    arguments: Sequence[AnyArray],
    observe: Observer | None = None,
    loop_limit: int | None = None,
    device: Device | None = None,
    flush_denormals: bool = False,
) -> tuple[AnyArray, ...]:
    """Run the entry computation on one device, alone in its world unless `device` says another.

    `arguments` are the array leaves of the entry's parameters, and the result those of its root, depth first
    (tokens take no part).  Results are new, row-major arrays.  InputError when the arguments do not fit,
    UnsupportedError for what the evaluator cannot do, ExecutionError when a program fails or a ``while`` makes more
    than `loop_limit` iterations.  With `flush_denormals` arithmetic takes subnormal numbers for zeros.
    """
    shapes = [parameter.shape for parameter in module.entry.parameters]
    leaves = [leaf for shape in shapes for leaf in shape.leaves() if leaf.is_array]
    check_arguments(leaves, arguments)
    given = iter([used_bits(leaf, np.asarray(argument)) for leaf, argument in zip(leaves, arguments, strict=True)])
    values = [value_from_leaves(shape, given) for shape in shapes]
    with room(module):
        root = evaluate_computation(module.entry, values, observe, loop_limit, device, flush_denormals)
    return tuple(np.array(leaf, order="C", copy=True) for leaf in leaves_of(root))


def evaluate_computation(
    computation: Computation,
    arguments: Sequence[Value],
    observe: Observer | None = None,
    loop_limit: int | None = None,
    device: Device | None = None,
    flush_denormals: bool = False,
) -> Value:
    """The root value of `computation` on one value per parameter.  It may share memory with the arguments."""
    made = Interpreter(observe, loop_limit, device, flush_denormals)
    return guarded(lambda: made.apply(computation, arguments))


def evaluate_instruction(
    instruction: Instruction,
    operands: Sequence[Value],
    loop_limit: int | None = None,
    device: Device | None = None,
) -> Value:
    """The value of one instruction (no parameter) on the values of its operands.  It may share memory with them."""
    rule = _rule(instruction, RULES)
    return guarded(lambda: Interpreter(None, loop_limit, device).step(instruction, rule, operands))


def guarded(run: Callable[[], Value]) -> Value:
    try:
        with np.errstate(all="ignore"):
            return run()
    except RecursionError:
        raise ExecutionError("the program calls computations too deeply to be evaluated") from None
    except MemoryError:
        raise ExecutionError("there is not enough memory to evaluate the program") from None


def check_arguments(leaves: Sequence[Shape], arguments: Sequence[AnyArray]) -> None:
    if len(leaves) != len(arguments):
        raise InputError(f"the program takes {len(leaves)} arrays, {len(arguments)} were given")
    for number, (leaf, argument) in enumerate(zip(leaves, arguments, strict=True)):
        array = np.asarray(argument)
        if not accepts(leaf, array.shape) or array.dtype != dtype_of(leaf.element_type):
            raise InputError(f"argument {number} is {array.dtype}{list(array.shape)}, the program takes {leaf}")


def used_bits(leaf: Shape, argument: AnyArray) -> AnyArray:
    """A caller may leave anything in the bits of a byte that its element does not use: pred is a byte that is not 0,
    of types below 8 bits the low bits count."""
    row = ELEMENT_TYPES[leaf.element_type]
    if row.bits >= 8:
        return argument
    raw = np.asarray(argument, order="C").view(np.uint8)
    if row.kind == "pred":
        return np.asarray(raw != 0)
    low = np.asarray(raw & np.uint8((1 << row.bits) - 1))
    return (low * 255 if row.name == "s1" else low).astype(np.uint8, copy=False).view(argument.dtype)


def _rule(instruction: Instruction, table: Mapping[str, Rule]) -> Rule:
    found = table.get(instruction.opcode)
    if found is None:
        raise UnsupportedError(f"{instruction.name}: the evaluator does not support {instruction.opcode}")
    return found


@dataclass(frozen=True, slots=True)
class _Operation:
    instruction: Instruction
    rule: Rule
    operands: tuple[int, ...]  # slots
    result: int
    dead: tuple[int, ...]  # slots that nothing reads after this step


@dataclass(frozen=True, slots=True)
class _Schedule:
    slots: int
    parameters: tuple[tuple[int, int], ...]  # (slot, parameter number)
    steps: tuple[_Operation, ...]
    root: int
    sized: bool  # values may be smaller than their shapes say


def _scheduled(computation: Computation, table: Mapping[str, Rule], flushes: bool) -> _Schedule:
    instructions = list(computation)
    slot = {instruction: number for number, instruction in enumerate(instructions)}
    last = {slot[o]: number for number, instruction in enumerate(instructions) for o in instruction.operands}
    root = slot[computation.root]
    dead: dict[int, list[int]] = {}
    for number in range(len(instructions)):
        if number != root:
            dead.setdefault(last.get(number, number), []).append(number)
    parameters, steps = [], []
    sized = has_sizes(computation)
    left_out = _dead_loops(computation)
    for number, instruction in enumerate(instructions):
        if instruction in left_out:
            continue
        if instruction.opcode == "parameter":
            parameters.append((number, instruction.parameter_number))
            continue
        operands = tuple(slot[o] for o in instruction.operands)
        rule = _rule(instruction, table)
        if flushes and computes(instruction):
            rule = flushing(rule)
        if sized:
            rule = for_sizes(rule)
        steps.append(_Operation(instruction, rule, operands, number, tuple(dead.get(number, ()))))
    return _Schedule(len(instructions), tuple(parameters), tuple(steps), root, sized)


def _dead_loops(computation: Computation) -> set[Instruction]:
    """Loops without effect that nothing needs, and what reads them: as in XLA they need not end."""
    if all(instruction.opcode != "while" for instruction in computation):
        return set()
    known: dict[Computation, bool] = {}
    dead: set[Instruction] = set()
    for instruction in reversed(list(computation)):
        needed = instruction.is_root or instruction.opcode == "parameter" or not is_pure(instruction, known)
        if not needed and all(user in dead for user in instruction.users):
            dead.add(instruction)
    found: set[Instruction] = set()
    for instruction in computation:
        if instruction in dead and (instruction.opcode == "while" or not found.isdisjoint(instruction.operands)):
            found.add(instruction)
    return found


class Interpreter:
    """Evaluates computations; schedules are kept for as long as it lives, in which nothing may change the module.

    With `scalars` it applies computations on scalars to arrays, all of one shape: only `map` wants that.
    """

    __slots__ = (
        "_check", "_flushes", "_generator", "_observe", "_on_arrays", "_scalars", "_schedules", "_table", "device",
        "loop_limit", "states",
    )  # fmt: skip

    def __init__(
        self,
        observe: Observer | None,
        loop_limit: int | None,
        device: Device | None = None,
        flushes: bool = False,
        scalars: bool = False,
    ) -> None:
        self._generator: np.random.Generator | None = None
        self.states: dict[Instruction, int] = {}
        self.loop_limit = loop_limit
        self.device = device or Device(ThreadWorld())
        self._check = self.device.world.check if self.device.world.is_timed else None
        self._observe = observe
        self._schedules: dict[Computation, _Schedule] = {}
        self._table = SCALAR_RULES if scalars else RULES
        self._flushes = flushes
        self._scalars: Interpreter | None = None if scalars else Interpreter(None, loop_limit, device, flushes, True)
        self._on_arrays: dict[Computation, bool] = {}

    @property
    def generator(self) -> np.random.Generator:
        """Made on first use: NumPy loads its random numbers then, which takes milliseconds."""
        if self._generator is None:
            self._generator = np.random.default_rng(_SEED)
        return self._generator

    def apply(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The root value of `computation` on `arguments`."""
        schedule = self._schedules.get(computation)
        if schedule is None:
            schedule = self._schedules[computation] = _scheduled(computation, self._table, self._flushes)
        slots: list[Value] = [()] * schedule.slots
        for slot, number in schedule.parameters:
            slots[slot] = arguments[number]
        observe, check = self._observe, self._check
        if check is not None:
            check(computation.name)
        for step in schedule.steps:
            if check is not None:
                check(step.instruction.name)
            value = self.step(step.instruction, step.rule, [slots[slot] for slot in step.operands], schedule.sized)
            slots[step.result] = value
            if observe is not None:
                observe(step.instruction, value)
            for slot in step.dead:
                slots[slot] = ()
        return slots[schedule.root]

    def step(self, instruction: Instruction, rule: Rule, operands: Operands, sized: bool = False) -> Value:
        """The value of one instruction, smaller than its shape says at most where `sized`; failures name it."""
        try:
            value = rule(instruction, operands, self)
        except HloError:
            raise
        except _BROKEN_PROGRAM as error:
            raise ExecutionError(f"{instruction.name}: {instruction.opcode} failed: {error}") from error
        if self._scalars is not None and isinstance(value, np.ndarray):
            shape = instruction.shape
            if value.shape != shape.dimensions and not (sized and fits(value, shape)):
                raise ExecutionError(
                    f"{instruction.name}: {instruction.opcode} gives dimensions {list(value.shape)}, not {shape}"
                )
        return value

    def map(self, computation: Computation, arrays: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
        """A computation on scalars, applied to each element of arrays of one shape; one array per root leaf.

        It may work in wider types than those of the arrays.
        """
        kinds = [dtype_of(parameter.shape.element_type) for parameter in computation.parameters]
        arrays = [array.astype(kind, copy=False) for array, kind in zip(arrays, kinds, strict=True)]
        shape = arrays[0].shape
        if self._scalars is not None and self._acts_on_arrays(computation):
            value = self._scalars.apply(computation, arrays)
            return tuple(np.broadcast_to(leaf, shape) for leaf in leaves_of(value))
        leaves = [leaf for leaf in computation.root.shape.leaves() if leaf.is_array]
        results = [np.zeros(shape, dtype_of(leaf.element_type)) for leaf in leaves]
        for index in np.ndindex(shape):
            value = self.apply(computation, [np.asarray(array[index]) for array in arrays])
            for result, leaf in zip(results, leaves_of(value), strict=True):
                result[index] = leaf
        return tuple(results)

    def _acts_on_arrays(self, computation: Computation) -> bool:
        """Whether all instructions are between scalars and act on arrays of them as on each."""
        known = self._on_arrays.get(computation)
        if known is None:
            known = self._on_arrays[computation] = all(
                (instruction.opcode == "parameter" or instruction.opcode in SCALAR_RULES)
                and all(leaf.is_scalar for leaf in instruction.shape.leaves())
                and all(map(self._acts_on_arrays, instruction.called))
                for instruction in computation
            )
        return known
