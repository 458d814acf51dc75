"""Move all-reduces of what a loop adds up behind the loop."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import known_trip_count
from hlotool.ir import Computation, Instruction, Module, element_type
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.collectives.all_reduce_combiner import reduction_key
from hlotool.passes.dynamic.dynamic_values import neutral
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import drop_dead, made_from
from hlotool.passes.loops.while_loops import element_readers, initial_element, is_read_whole, obstacle, prepare
from hlotool.passes.simplify.algebra.contraction import reducer_opcode

__all__ = ["WhileLoopAllReduceCodeMotion"]

_EXACT = frozenset({"maximum", "minimum", "and", "or", "xor"})
_MOVEMENT = frozenset({"bitcast", "copy", "reshape", "reverse", "transpose"})


@dataclass(frozen=True, slots=True)
class WhileLoopAllReduceCodeMotion:
    """Exchanges once, behind the loop, what devices exchange in every iteration only to add it up.

    Of ``acc = op(acc, all-reduce(x))`` in the loop it makes ``acc = op(acc, x)``, which begins with what changes
    nothing, and behind the loop ``op(initial, all-reduce(acc))``; `op` is what the all-reduce reduces with.  Between
    the all-reduce and the sum elements may move, floats become other floats, and constants scale; other terms of the
    sum have to be such all-reduces, too, and nothing else may read it.  The loop has to be known to run at least twice:
    devices that never came to an exchange do not wait for each other.  Sums and products of floats are rounded in
    another order then: with `exact` they stay.
    """

    name: ClassVar[str] = "while-loop-all-reduce-code-motion"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})
    exact: bool = False

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers = module.callers()
        for loop in calls_of(module, "while"):
            if "all-reduce" in loop.attributes["body"].opcodes and obstacle(loop, callers) is None:
                for one in _accumulated(loop):
                    if self._may_move(one, loop, log):
                        _sink(module, loop, one, log)
                        changed = True
        return changed

    def _may_move(self, found: _Accumulated, loop: Instruction, log: DecisionLog) -> bool:
        if not log.allow():
            return False
        trips = known_trip_count(loop)
        if not trips:
            log.refuse("may-not-run", found.reduces[0], f"{loop.name} is not known to run at all")
        elif self.exact and found.opcode not in _EXACT and not element_type(found.sum.shape.element_type).is_integer:
            log.refuse("rounded", found.reduces[0], "the order of roundings would be another one")
        else:
            return trips > 1
        return False


@dataclass(frozen=True, slots=True)
class _Accumulated:
    """Element `index` of a loop's state: to it the body adds `reduces`, by `opcode`, which gives `sum`."""

    index: int
    opcode: str
    sum: Instruction
    reduces: tuple[Instruction, ...]


def _accumulated(loop: Instruction) -> list[_Accumulated]:
    body: Computation = loop.attributes["body"]
    condition: Computation = loop.attributes["condition"]
    parameter = body.parameters[0]
    if is_read_whole(parameter) or is_read_whole(condition.parameters[0]):
        return []
    tested = element_readers(condition.parameters[0])
    readers = element_readers(parameter)
    found = []
    for index, value in enumerate(body.root.operands):
        if index not in tested and len(readers.get(index, ())) == 1:
            one = _terms(value, readers[index][0], index)
            if one is not None:
                found.append(one)
    return found


def _terms(value: Instruction, old: Instruction, index: int) -> _Accumulated | None:
    """What `value` adds to `old`, element `index` of the state, if that are all-reduces of one kind, read once each."""
    opcode = "add" if value.opcode == "subtract" else value.opcode
    if not value.shape.is_array or not value.shape.is_static or neutral(opcode, value.shape.element_type) is None:
        return None
    reduces: list[Instruction] = []
    current = value
    while current is not old:
        if current.opcode != opcode and not (opcode == "add" and current.opcode == "subtract"):
            return None
        if not _is_read_once(current):
            return None
        left, right = current.operands
        reduce, following = _reduced(right, opcode), left
        if reduce is None and current.opcode != "subtract":
            reduce, following = _reduced(left, opcode), right
        if reduce is None:
            return None
        reduces.append(reduce)
        current = following
    keys = {reduction_key(reduce) for reduce in reduces}
    if not _is_read_once(old) or len(keys) != 1 or None in keys:
        return None
    if reducer_opcode(reduces[0].attributes["to_apply"]) != opcode:
        return None
    return _Accumulated(index, opcode, value, tuple(reduces))


def _reduced(term: Instruction, opcode: str) -> Instruction | None:
    """The all-reduce of which `term` is made by what may as well come after it and the sum."""
    while _is_read_once(term) and term.opcode != "all-reduce":
        source = term.operands[0] if term.operands else None
        if opcode == "add" and term.opcode in ("multiply", "divide"):
            scaled = _scaled(term)
            if scaled is None:
                return None
            term = scaled
        elif source is not None and (term.opcode in _MOVEMENT or (opcode == "add" and _is_rounded(term))):
            if term.opcode == "bitcast" and source.shape.element_type != term.shape.element_type:
                return None
            term = source
        else:
            return None
    return term if term.opcode == "all-reduce" and _is_read_once(term) and term.shape.is_array else None


def _scaled(term: Instruction) -> Instruction | None:
    """What `term` multiplies with a constant, or a float that it divides by one."""
    left, right = term.operands
    if _is_constant(right) and (term.opcode == "multiply" or not element_type(term.shape.element_type).is_integer):
        return left
    return right if term.opcode == "multiply" and _is_constant(left) else None


def _is_constant(value: Instruction) -> bool:
    return value.opcode == "constant" or (value.opcode == "broadcast" and value.operands[0].opcode == "constant")


def _is_rounded(term: Instruction) -> bool:
    """Whether it converts floats to floats."""
    types = (term.shape, term.operands[0].shape)
    return term.opcode == "convert" and all(element_type(shape.element_type).is_float for shape in types)


def _is_read_once(value: Instruction) -> bool:
    """By one operand of one instruction, with nothing that has to come before or after it."""
    if value.control_predecessors or value.control_successors or value.is_root or len(value.users) != 1:
        return False
    (user,) = value.users
    return sum(operand is value for operand in user.operands) == 1


def _sink(module: Module, loop: Instruction, found: _Accumulated, log: DecisionLog) -> None:
    """Reduce behind the loop what it accumulates."""
    prepare(loop)
    assert loop.parent is not None
    index, shape, model = found.index, found.sum.shape, found.reduces[0]
    readers = element_readers(loop).get(index, [])
    initial, state = initial_element(loop, index), loop.operands[0]
    build = Builder(loop.parent, loop, like=loop)
    elements = list(state.operands)
    elements[index] = build.splat(neutral(found.opcode, shape.element_type), shape)
    loop.set_operands([build.tuple(elements)])
    drop_dead(state)
    attributes = {name: value for name, value in model.attributes.items() if name != "sharding"}
    if shape.element_type != model.shape.element_type:
        attributes["to_apply"] = module.add(binary_computation(found.opcode, shape.element_type))
    local = made_from(loop, "get-tuple-element", shape, [loop], index=index)
    whole = made_from(model, "all-reduce", shape, [local], **attributes)
    result = made_from(found.sum, found.opcode, shape, [initial, whole])
    place = loop
    for new in (local, whole, result):
        place = loop.parent.add_after(new, place)
    log.rewrite("sink", (*found.reduces, found.sum), whole, f"behind {loop.name}", bytes=shape.byte_size)
    for reader in readers:
        reader.replace_all_uses(result)
        loop.parent.erase(reader)
    for reduce in found.reduces:
        reduce.replace_all_uses(reduce.operands[0])
        assert reduce.parent is not None
        reduce.parent.erase(reduce)
