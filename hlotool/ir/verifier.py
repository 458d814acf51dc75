"""The verifier: whether a module obeys the rules of HLO.

Every instruction is compared with shape inference and the signatures of the computations that it calls; every
computation and the module are checked for structure.  All errors are collected, in the order of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from hlotool.ir.collector import collector_paused
from hlotool.ir.damage import POISON, Damage
from hlotool.ir.errors import Diagnostic, Location, VerificationError
from hlotool.ir.given import check_module
from hlotool.ir.independent import Facts, Readable, independent_errors
from hlotool.ir.module import Computation, Instruction, Module
from hlotool.ir.opcodes import CALLING, OPCODES
from hlotool.ir.pairs import pair_diagnostics
from hlotool.ir.places import Places
from hlotool.ir.shape import Shape
from hlotool.ir.shape_checks import ShapeError, require_count
from hlotool.ir.shape_inference import check as check_shape
from hlotool.ir.signatures import signature_errors
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["check", "is_valid", "verify"]


def check(module: Module) -> None:
    """Raise VerificationError with all diagnostics unless the module is valid."""
    check_module(module, "verify")
    found = verify(module)
    if found:
        place = found[0].location
        where = f"{place.file}:{place.line}:{place.column}: " if place else ""
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise VerificationError(f"{where}{found[0].message}{more}", found)


def verify(module: Module, damage: Damage | None = None) -> list[Diagnostic]:
    """All violations of the rules, in the order of the text; empty for a valid module.

    Of a text with errors, `damage` says what could not be read: nothing is reported that follows from it.
    """
    with collector_paused():
        return _verify(module, damage or Damage())


def _verify(module: Module, damage: Damage) -> list[Diagnostic]:
    places = Places(module.source, _file(module))
    found: list[Diagnostic] = []
    expected: dict[Instruction, Shape] = {}  # instead of wrong shapes
    right: set[tuple[Any, ...]] = set()  # objects and values of instructions that are right: equal ones are, too
    rooted = all(computation._root is not None for computation in module.computations.values())
    for computation in module.computations.values():
        if computation in damage.computations or not _hangs_together(computation):
            found += _structure(computation, places, damage)
        for instruction in computation if rooted else ():  # signatures need the roots of what is called
            attributes = instruction.attributes
            shapes = [id(operand.shape) for operand in instruction.operands]
            same = (instruction.opcode, id(instruction.shape), *shapes, *attributes, *map(id, attributes.values()))
            if same in right:
                continue
            key = _signature(instruction)
            if key is None or key not in right:
                errors = [*_instruction(instruction, places, damage, expected, len(found) < _THOROUGH)]
                found += errors
                if errors or _doubtful(instruction, expected):
                    continue
                if key is not None:
                    right.add(key)
            right.add(same)
        found += _shardings(module, computation, places, right)
    found += _module(module, places, damage, expected)
    found += pair_diagnostics(module, places, whole=damage == Damage())
    return sorted(found, key=_order)


def _file(module: Module) -> str:
    for computation in module.computations.values():
        place = computation.location or next((i.location for i in computation if i.location is not None), None)
        if place is not None:
            return place.file
    return "<module>"


def _order(diagnostic: Diagnostic) -> tuple[int, int]:
    place = diagnostic.location
    return (place.line, place.column) if place else (0, 0)


_THOROUGH = 200  # errors after which only the first of an instruction is looked for
_SEARCHES = 100  # control edges that are followed to see whether they close a cycle
_FEW = 8  # operands up to which counting one in the list beats counting all in a dictionary


# ---- instructions


def _signature(instruction: Instruction) -> tuple[Any, ...] | None:
    """All that the shape rules look at, as a key: equal keys, equal answers.  None where that has no value.

    Shapes and computations go by identity: parsed modules share equal shapes, and hashing them costs more than it
    saves.  So keys are only good while the module exists unchanged.
    """
    shapes: list[Any] = [id(instruction.shape), *(id(operand.shape) for operand in instruction.operands)]
    attributes = instruction.attributes
    if instruction.opcode in ("parameter", "constant"):  # neither the number nor the value matters, but they are there
        literal = attributes.get("literal")
        shapes.append(None if literal is None else id(literal.shape))
        return (instruction.opcode, tuple(shapes), *attributes)
    key = (instruction.opcode, tuple(shapes), *attributes.items())
    try:
        hash(key)
    except TypeError:
        return None  # a dictionary among the attributes
    return key


def _instruction(
    instruction: Instruction,
    places: Places,
    damage: Damage,
    expected: dict[Instruction, Shape],
    thorough: bool,
) -> Iterator[Diagnostic]:
    """What is wrong with one instruction; all of it where the look is `thorough`."""
    for error in _own_errors(instruction, damage, expected, thorough):
        if error.expected is not None:
            expected[instruction] = error.expected
        hint = None if error.expected is None else f"did you mean '{_with_layout(error.expected)}'?"
        message = f"{instruction.name}: {error.message}"
        related: tuple[tuple[str, Location], ...] = ()
        if error.related is not None and (place := places.of(error.related)) is not None:
            related = (("defined here", place),)
        yield Diagnostic(message, places.of(instruction, error.part), hint, error.code, related=related)


_MOST_SHAPES = 8  # operands, and shapes of each, that are tried
_MOST_DOUBTS = 3  # operands with two shapes of which all pairs are looked at


def _doubtful(instruction: Instruction, expected: dict[Instruction, Shape]) -> list[Instruction]:
    """Operands, and roots of what is called, that have another shape than they should."""
    if not expected:
        return []
    values = (*instruction.operands, *(callee.root for callee in instruction.called))
    return [value for value in dict.fromkeys(values) if value in expected]


def _own_errors(
    instruction: Instruction, damage: Damage, expected: dict[Instruction, Shape], thorough: bool
) -> list[ShapeError]:
    """What is wrong whether a value of wrong shape has the declared or the right one: the rest follows from that."""
    errors = _shape_errors(instruction, damage, thorough)
    doubtful = _doubtful(instruction, expected)[:_MOST_DOUBTS] if errors else []
    declared = [value.shape for value in doubtful]
    for shapes in product(*([expected[value], value.shape] for value in doubtful)):
        if not doubtful or not errors:
            break
        try:
            for value, shape in zip(doubtful, shapes, strict=True):
                value.shape = shape
            errors = min(errors, _shape_errors(instruction, damage, thorough), key=len)
        finally:
            for value, shape in zip(doubtful, declared, strict=True):
                value.shape = shape
    return errors


_REQUIRED = {name: tuple(a.name for a in row.attributes if a.required) for name, row in OPCODES.items()}


def _shape_errors(instruction: Instruction, damage: Damage, thorough: bool) -> list[ShapeError]:
    """Wrong signatures of called computations, and what is wrong with the shapes."""
    opcode, operands = instruction.opcode, [operand.shape for operand in instruction.operands]
    if instruction in damage.attributes:
        return _all_errors(instruction, damage, thorough)
    try:
        arity = OPCODES[opcode].arity
        if arity is not None:
            require_count(opcode, operands, arity, arity)
        for name in _REQUIRED[opcode]:
            instruction.attributes[name]
        if not signature_errors(instruction):
            check_shape(opcode, instruction.shape, operands, instruction.attributes)
            return []
    except (ShapeError, KeyError):
        pass
    return _all_errors(instruction, damage, thorough)


def is_valid(instruction: Instruction) -> bool:
    """Whether operands, attributes and called computations give the shape of the instruction."""
    return not _shape_errors(instruction, Damage(), thorough=False)


def _all_errors(instruction: Instruction, damage: Damage, thorough: bool) -> list[ShapeError]:
    """The same of an instruction that has errors: all that do not follow from each other or from `damage`."""
    opcode, operands = instruction.opcode, tuple(operand.shape for operand in instruction.operands)
    attributes = instruction.attributes
    unread = damage.attributes.get(instruction, frozenset())
    missing = [name for name in _REQUIRED[opcode] if name not in attributes and name not in unread]
    found = [ShapeError(f"{opcode} needs the attribute '{name}'", code="HLO0135") for name in missing]
    holes = unread.union(missing)
    if instruction in damage.operands:
        return found
    wrong: list[ShapeError] = []
    if OPCODES[opcode].arity in (None, len(operands)) and not holes & _CALLS:
        try:
            wrong = [error for error in signature_errors(instruction) if _is_known(instruction, error, damage)]
        except KeyError as error:  # one that only some forms of the operation need
            return [*found, ShapeError(f"{opcode} needs the attribute '{error.args[0]}'", code="HLO0135")]
    sound = all(_is_sound(callee, damage) for callee in instruction.called)
    blamed = any(error.part.startswith("attribute") for error in wrong)
    if (blamed or not sound) and opcode in ("call", "fusion", "conditional", "map", "async-start"):
        return found + wrong  # the shape is that of the callee
    shown = {name: value for name, value in attributes.items() if (sound and not wrong) or name != "to_apply"}
    if opcode not in ("reduce", "reduce-window"):  # whose types are those of the data where the reducer is wrong
        shown = attributes
    facts = Facts(opcode, instruction.shape, operands, Readable(shown, holes))
    errors = found + wrong + independent_errors(facts, thorough)
    if wrong and len(errors) > 1 and thorough and (one := _error_of_operand(instruction, errors, damage)) is not None:
        return [one]
    return errors


def _error_of_operand(instruction: Instruction, errors: list[ShapeError], damage: Damage) -> ShapeError | None:
    """The only error of an instruction that has none where one operand has the shape of the result, or that which a
    called computation takes."""
    taken = (parameter.shape for callee in instruction.called for parameter in callee.parameters)
    shapes = list(dict.fromkeys((instruction.shape, *taken)))[:_MOST_SHAPES]
    for index, operand in enumerate(instruction.operands[:_MOST_SHAPES]):
        declared = operand.shape
        try:
            for operand.shape in shapes:
                if not _shape_errors(instruction, damage, thorough=False):
                    part = f"operand:{index}"
                    own = next((error for error in errors if error.part == part), None)
                    said = next(error for error in errors if error.code == "HLO0204")
                    return own or ShapeError(said.message, part, code=said.code)
        finally:
            operand.shape = declared
    return None


_CALLS = frozenset(a.name for row in OPCODES.values() for a in row.attributes if a.kind.startswith("computation"))


def _is_sound(computation: Computation, damage: Damage) -> bool:
    """Whether the signature of a computation could be read."""
    shapes = [parameter.shape for parameter in computation.parameters]
    return computation not in damage.computations and POISON not in (computation.root.shape, *shapes)


def _is_known(instruction: Instruction, error: ShapeError, damage: Damage) -> bool:
    """Whether a wrong signature is wrong for what could be read."""
    if any(operand.shape == POISON for operand in instruction.operands):
        return False
    name, _, index = error.part.removeprefix("attribute:").partition(":")
    value = instruction.attributes.get(name)
    called = instruction.called
    if isinstance(value, Computation):
        called = [value]
    elif isinstance(value, tuple) and index:
        called = [value[0], value[int(index)]]
    return all(_is_sound(callee, damage) for callee in called)


def _with_layout(shape: Shape) -> str:
    if shape.is_tuple:
        return f"({', '.join(map(_with_layout, shape.elements))})"
    order = shape.layout.minor_to_major if shape.layout is not None else ()
    return f"{shape}{{{','.join(map(str, order))}}}" if order else str(shape)


def _shardings(
    module: Module, computation: Computation, places: Places, right: set[tuple[Any, ...]]
) -> Iterator[Diagnostic]:
    """Shardings that cannot be read or do not fit; those that can are added to what is `right`."""
    partitions = module.attributes.get("num_partitions", 1)
    devices = partitions if isinstance(partitions, int) and partitions > 1 else None
    for instruction in computation:
        written = instruction.attributes.get("sharding")
        if written is None or (key := ("sharding", written.text, id(instruction.shape))) in right:
            continue
        if instruction.shape == POISON:
            continue
        from hlotool.ir.sharding_text import sharding_errors  # few modules have any

        shape = None if instruction.opcode == "outfeed" else instruction.shape  # it is sharded as its operand
        errors = sharding_errors(written.text, shape, devices)
        if not errors and shape is not None:
            right.add(key)
        for error in errors:
            place = places.within(instruction, "attribute:sharding", error.start, error.end)
            message = f"{instruction.name}: {error.message}" if error.misfit else error.message
            yield Diagnostic(message, place, error.hint, "HLO0203" if error.misfit else "HLO0137")


# ---- computations


def _hangs_together(computation: Computation) -> bool:
    """Whether `_structure` has nothing to say, in one pass."""
    known: set[Instruction] = set()
    names: set[str] = set()
    numbers: list[int] = []
    readers = listed = 0
    for instruction in computation:
        operands = instruction.operands
        if operands:
            if len(operands) < _FEW:
                for operand in operands:
                    if operand not in known or operand.users.get(instruction) != operands.count(operand):
                        return False
                readers += len(operands) if len(operands) == 1 else len(set(operands))
            else:
                counts = Counter(operands)
                for operand, count in counts.items():
                    if operand not in known or operand.users.get(instruction) != count:
                        return False
                readers += len(counts)
        elif instruction.opcode == "parameter":
            numbers.append(instruction.parameter_number)
        if instruction.control_predecessors and not known.issuperset(instruction.control_predecessors):
            return False
        listed += len(instruction.users)
        known.add(instruction)
        names.add(instruction.name)
    in_step = readers == listed  # who reads is listed: where nobody else is, the totals agree
    numbered = sorted(numbers) == list(range(len(numbers)))
    return in_step and numbered and len(names) == len(known) and computation._root in known


def _structure(computation: Computation, places: Places, damage: Damage) -> Iterator[Diagnostic]:
    whole = computation not in damage.computations
    if not len(computation) and whole:
        yield Diagnostic(
            f"computation {computation.name} has no instructions, so no root", computation.location, None, "HLO0140"
        )
        return
    order: dict[Instruction, int] = {}
    names: dict[str, Instruction] = {}
    for position, instruction in enumerate(computation):
        order[instruction] = position
        first = names.setdefault(instruction.name, instruction)
        if first is not instruction:
            place = places.of(first)
            related = (("first defined here", place),) if place else ()
            message = f"instruction '{instruction.name}' is defined twice"
            yield Diagnostic(message, places.of(instruction), None, "HLO0143", related=related)
    if whole and (computation._root is None or computation._root not in order):
        yield Diagnostic(
            f"the root of {computation.name} is not one of its instructions", computation.location, None, "HLO0140"
        )
    yield from _parameters(computation, places, whole)
    searches = iter(range(_SEARCHES))
    readers: Counter[Instruction] = Counter()
    for instruction in computation:
        for operand in dict.fromkeys(instruction.operands):
            readers[operand] += 1
    for instruction in computation:
        yield from _edges(instruction, order, readers[instruction], searches, places)


def _parameters(computation: Computation, places: Places, whole: bool) -> Iterator[Diagnostic]:
    """Numbers from 0, each once and, where the computation is `whole`, without gaps."""
    seen: dict[int, Instruction] = {}
    for instruction in computation:
        if instruction.opcode != "parameter":
            continue
        number = instruction.parameter_number
        first = seen.setdefault(number, instruction)
        if first is not instruction:
            place = places.of(first, "operand:0")
            related = (("first used here", place),) if place else ()
            message = f"parameter number {number} is used twice in {computation.name}"
            yield Diagnostic(message, places.of(instruction, "operand:0"), None, "HLO0144", related=related)
    numbers = sorted(seen)
    missing = next((n for n, number in enumerate(numbers) if n != number), None)
    if missing is not None and whole:
        message = f"parameter {missing} of {computation.name} is missing: the numbers go {', '.join(map(str, numbers))}"
        yield Diagnostic(message, places.of(seen[numbers[missing]], "operand:0"), None, "HLO0144")


def _edges(
    instruction: Instruction, order: dict[Instruction, int], readers: int, searches: Iterator[int], places: Places
) -> Iterator[Diagnostic]:
    """Operands and control predecessors stand before; users are in step: `readers` instructions have it as operand.

    Each of `searches` allows for one search of a cycle.
    """
    here = order[instruction]
    count = instruction.operands.count if len(instruction.operands) < _FEW else Counter(instruction.operands).get
    for index, operand in enumerate(instruction.operands):
        if operand not in order and operand.shape == POISON:
            continue  # it could not be read
        if operand not in order:
            message = f"operand '{operand.name}' of {instruction.name} is not an instruction of this computation"
            yield Diagnostic(message, places.of(instruction, f"operand:{index}"), None, "HLO0141")
        elif order[operand] >= here:
            message = f"operand '{operand.name}' of {instruction.name} is used before its definition"
            yield Diagnostic(message, places.of(instruction, f"operand:{index}"), None, "HLO0142")
        if operand.users.get(instruction) != count(operand):
            message = f"'{operand.name}' does not list {instruction.name} among its users"
            yield Diagnostic(message, places.of(instruction), None, "HLO0145")
    for user in instruction.users if len(instruction.users) != readers else ():
        if user not in order or instruction not in user.operands:
            message = f"'{instruction.name}' lists {user.name} as a user, which it is not"
            yield Diagnostic(message, places.of(instruction), None, "HLO0145")
    for index, before in enumerate(instruction.control_predecessors):
        if before in order and order[before] < here:
            continue
        place = places.of(instruction, f"attribute:control-predecessors:{index}")
        if before not in order and before.shape == POISON:
            continue
        if before not in order:
            message = f"control predecessor '{before.name}' is not an instruction of this computation"
            yield Diagnostic(message, place, None, "HLO0141")
        else:
            cycle = next(searches, None) is not None and _reaches(instruction, before)
            message = f"'{instruction.name}' must come after '{before.name}'"
            message += f" and '{before.name}' after '{instruction.name}': a cycle" if cycle else ", which stands below"
            other = places.of(before)
            related = (("the other one is here", other),) if other else ()
            yield Diagnostic(message, place, None, "HLO0146", related=related)


def _reaches(start: Instruction, goal: Instruction) -> bool:
    """Whether `goal` must run after `start`."""
    stack, seen = [start], {start}
    while stack:
        instruction = stack.pop()
        if instruction is goal:
            return True
        for following in (*instruction.users, *instruction.control_successors):
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return False


# ---- the module


def _module(
    module: Module, places: Places, damage: Damage, expected: dict[Instruction, Shape]
) -> Iterator[Diagnostic]:
    if module.computations.get(module.entry.name) is not module.entry:
        if damage.entry:
            return
        yield Diagnostic(f"module {module.name} has no entry computation", None, None, "HLO0147")
        return
    yield from _calls(module, places)
    if len(module.entry) and module.entry._root is not None and not damage.entry:
        whole = module.entry not in damage.computations
        yield from _entry_layout(module, places, whole, expected)
        yield from _aliases(module, places, whole)


def _calls(module: Module, places: Places) -> Iterator[Diagnostic]:
    """Called computations belong to the module and none calls itself, directly or through others."""
    state: dict[Computation, int] = {}  # 1 while its callees are visited, 2 after
    for start in module.computations.values():
        stack: list[tuple[Computation, Iterator[tuple[Instruction, Computation]]]] = []
        if start not in state:
            state[start] = 1
            stack.append((start, _called(start)))
        while stack:
            computation, rest = stack[-1]
            edge = next(rest, None)
            if edge is None:
                state[computation] = 2
                stack.pop()
                continue
            caller, callee = edge
            if module.computations.get(callee.name) is not callee:
                if callee.root.shape == POISON:
                    continue  # it could not be read
                message = f"{caller.name} calls {callee.name}, which is not a computation of the module"
                yield Diagnostic(message, places.of(caller, "opcode"), None, "HLO0141")
            elif state.get(callee) == 1:
                message = f"computation {callee.name} calls itself; HLO has no recursion"
                yield Diagnostic(message, places.of(caller, "opcode"), None, "HLO0142")
            elif callee not in state:
                state[callee] = 1
                stack.append((callee, _called(callee)))


def _called(computation: Computation) -> Iterator[tuple[Instruction, Computation]]:
    return ((caller, callee) for caller in computation if caller.opcode in CALLING for callee in caller.called)


def _entry_layout(
    module: Module, places: Places, whole: bool, expected: dict[Instruction, Shape]
) -> Iterator[Diagnostic]:
    """The layout of the entry repeats its parameters and its result; where it is not `whole`, those that there are."""
    declared = module.attributes.get("entry_computation_layout")
    if declared is None:
        return
    shapes, result = declared
    parameters, root = module.entry.parameters, module.entry.root
    name = "entry_computation_layout"
    if whole and len(shapes) != len(parameters):
        message = f"the entry layout has {len(shapes)} parameters, the entry computation has {len(parameters)}"
        yield Diagnostic(message, places.header(name), None, "HLO0148")
    numbered = {parameter.parameter_number: parameter for parameter in parameters}
    for number, shape in enumerate(shapes):
        parameter = numbered.get(number)
        if parameter is not None and POISON not in (shape, parameter.shape) and not shape.compatible(parameter.shape):
            place = places.of(parameter)
            related = (("the parameter is here", place),) if place else ()
            message = f"the entry layout of parameter {number} is {shape}, the parameter is {parameter.shape}"
            hint = f"did you mean '{_with_layout(parameter.shape)}'?"
            yield Diagnostic(message, places.entry_parameter(number), hint, "HLO0148", related=related)
    meant = expected.get(root, root.shape)  # a wrong shape of the root has been said
    if POISON not in (result, root.shape) and not (result.compatible(root.shape) or result.compatible(meant)):
        place = places.of(root)
        related = (("the root is here", place),) if place else ()
        message = f"the entry layout of the result is {result}, the root is {root.shape}"
        hint = f"did you mean '{_with_layout(root.shape)}'?"
        yield Diagnostic(message, places.entry_result(), hint, "HLO0148", related=related)


def _aliases(module: Module, places: Places, whole: bool) -> Iterator[Diagnostic]:
    """Output and parameter indices of input_output_alias exist, and the aliased shapes agree."""
    parameters = {parameter.parameter_number: parameter.shape for parameter in module.entry.parameters}
    result = module.entry.root.shape
    seen: dict[tuple[int, ...], int] = {}
    for number, alias in enumerate(module.attributes.get("input_output_alias", ())):
        inside = ",".join(map(str, alias.output))
        output = POISON if result == POISON else _subshape(result, alias.output)
        if output is None:
            message = f"output index {{{inside}}} does not exist: the result is {result}"
            yield Diagnostic(message, places.alias(number, 0), None, "HLO0149")
        elif alias.output in seen:
            first = places.alias(seen[alias.output], 0)
            related = (("aliased here first", first),) if first else ()
            message = f"output index {{{inside}}} is aliased twice"
            yield Diagnostic(message, places.alias(number, 0), None, "HLO0149", related=related)
        seen.setdefault(alias.output, number)
        if alias.operand not in parameters:
            if whole:
                message = f"parameter {alias.operand} does not exist: the entry has {len(parameters)} parameters"
                yield Diagnostic(message, places.alias(number, 1), None, "HLO0149")
            continue
        shape = parameters[alias.operand]
        given = POISON if shape == POISON else _subshape(shape, alias.index)
        if given is None:
            path = ",".join(map(str, alias.index))
            message = f"parameter {alias.operand} has no index {{{path}}}: it is {shape}"
            yield Diagnostic(message, places.alias(number, 2), None, "HLO0149")
        elif output is not None and POISON not in (given, output) and not _share_memory(given, output):
            message = f"output {output} cannot share memory with parameter {alias.operand}, {given}"
            yield Diagnostic(message, places.alias(number, 1), None, "HLO0149")


def _share_memory(given: Shape, output: Shape) -> bool:
    """Arrays of equal sizes in bytes may, whatever their dimensions and types."""
    if given.is_array and output.is_array and given.is_static and output.is_static:
        have, want = (shape.size * ELEMENT_TYPES[shape.element_type].bits for shape in (given, output))
        return have == want
    return given.compatible(output)


def _subshape(shape: Shape, index: tuple[int, ...]) -> Shape | None:
    for number in index:
        if not shape.is_tuple or not 0 <= number < len(shape.elements):
            return None
        shape = shape.elements[number]
    return shape
