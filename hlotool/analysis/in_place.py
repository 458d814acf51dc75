"""Which outputs of an instruction may be written over one of its operands.

The pair is an offer: whoever assigns buffers takes it only where the operand is dead afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hlotool.ir import Instruction, Module

__all__ = [
    "computed_elsewhere", "in_place_pairs", "module_in_place_pairs", "reads_what_it_writes", "updates_part",
]  # fmt: skip

_VIEWS = frozenset({"bitcast", "reshape", "copy"})


def in_place_pairs(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """(output leaf, operand number) pairs that may share memory when `instruction` updates in place."""
    match instruction.opcode:
        case "dynamic-update-slice":
            return ((0, 0),)
        case "scatter":
            return tuple((i, i) for i in range(len(instruction.operands) // 2))
        case "fusion":
            return _fusion_pairs(instruction) or _elementwise_pairs(instruction)
        case _ if instruction.has("elementwise"):
            return _same_size_pairs(instruction, [range(len(instruction.operands))])
        case _:
            return ()


def updates_part(instruction: Instruction) -> bool:
    """Whether the instruction writes a part of its result only, when that lies in the storage of its operand."""
    if instruction.opcode == "fusion":
        root = instruction.attributes["calls"].root
        return any(r.opcode == "dynamic-update-slice" for r in (root.operands if root.opcode == "tuple" else [root]))
    return instruction.opcode in ("dynamic-update-slice", "scatter")


def _fusion_pairs(fusion: Instruction) -> tuple[tuple[int, int], ...]:
    """Roots of a fusion that are dynamic-update-slices of a parameter that nothing else in the body reads, but for the
    very elements that are written."""
    root = fusion.attributes["calls"].root
    roots = root.operands if root.opcode == "tuple" else [root]
    if not all(r.shape.is_array for r in roots):
        return ()
    pairs = []
    for leaf, update in enumerate(roots):
        if update.opcode != "dynamic-update-slice":
            continue
        source = update.operands[0]
        while source.opcode in _VIEWS and len(source.users) == 1:
            source = source.operands[0]
        if source.opcode != "parameter":
            continue
        others = {user: times for user, times in source.users.items() if user is not update}
        if update.operands[0] is source:
            moved = computed_elsewhere(reversed(fusion.attributes["calls"]), update)
            if update.operands.count(source) > 1 or not all(reads_what_it_writes(o, update, moved) for o in others):
                continue
        elif sum(others.values()) != 1:
            continue
        number = source.parameter_number
        if fusion.operands.count(fusion.operands[number]) == 1:
            pairs.append((leaf, number))
    return tuple(pairs)


def _elementwise_pairs(fusion: Instruction) -> tuple[tuple[int, int], ...]:
    """Parameters of a loop fusion that are read only at the element that is being written."""
    body = fusion.attributes["calls"]
    roots = body.root.operands if body.root.opcode == "tuple" else [body.root]
    dimensions = roots[0].shape.dimensions
    if any(not root.shape.is_array or root.shape.dimensions != dimensions for root in roots):
        return ()
    moved = computed_elsewhere(reversed(body))
    needs: dict[Instruction, frozenset[int]] = {}
    for instruction in body:
        own = {instruction.parameter_number} if instruction.opcode == "parameter" and instruction not in moved else ()
        needs[instruction] = frozenset(own).union(*(needs[o] for o in instruction.operands))
    return _same_size_pairs(fusion, [needs[root] for root in roots])


def computed_elsewhere(readers_first: Iterable[Instruction], update: Instruction | None = None) -> set[Instruction]:
    """Instructions computed at other places than the element written: whatever feeds one that moves elements, but for
    `update`, whose own elements are meant."""
    moved: set[Instruction] = set()
    for instruction in readers_first:
        moves = not instruction.has("elementwise") and instruction.opcode not in ("tuple", "copy")
        if instruction is not update and (instruction in moved or moves):
            moved.update(instruction.operands)
    return moved


def reads_what_it_writes(reader: Instruction, update: Instruction, moved: Collection[Instruction]) -> bool:
    """Whether a slice of the array that a dynamic-update-slice updates reads just the part that it writes.

    `moved` holds what is not computed element by element as it is written.
    """
    part = update.operands[1].shape.dimensions
    if reader in moved or reader.shape.dimensions != part or reader.operands[0] is not update.operands[0]:
        return False
    starts = update.operands[2:]
    if reader.opcode == "dynamic-slice":
        return len(reader.operands) == len(update.operands) - 1 and all(map(_same, reader.operands[1:], starts))
    if reader.opcode != "slice" or len(starts) != len(part):
        return False
    rows = reader.attributes["slice"]
    return all(row.stride == 1 and _constant(start) == row.start for row, start in zip(rows, starts, strict=True))


def _same(left: Instruction, right: Instruction) -> bool:
    return left is right or (_constant(left) is not None and _constant(left) == _constant(right))


def _constant(instruction: Instruction) -> int | None:
    """The value of a scalar integer constant; None for anything else."""
    if instruction.opcode != "constant" or instruction.shape.dimensions or instruction.literal.elided:
        return None
    return int(instruction.literal.value())


def _same_size_pairs(instruction: Instruction, needs: Sequence[Collection[int]]) -> tuple[tuple[int, int], ...]:
    """Each output leaf with the first operand of its dimensions and bytes that it is computed from.

    That it is computed from the operand matters: the element is then read before it is written over.
    """
    pairs = []
    taken: set[int] = set()
    for leaf, output in enumerate(instruction.shape.leaves()):
        for number in sorted(needs[leaf]):
            shape = instruction.operands[number].shape
            if number not in taken and shape.dimensions == output.dimensions and shape.byte_size == output.byte_size:
                pairs.append((leaf, number))
                taken.add(number)
                break
    return tuple(pairs)


def module_in_place_pairs(module: Module) -> dict[Instruction, tuple[tuple[int, int], ...]]:
    """The offers of every instruction that runs (bodies of fusions and of reducers aside), callees first."""
    found = {}
    running = {module.entry}
    order = module.callees_first()
    for computation in reversed(order):
        if computation in running:
            running.update(c for i in computation if i.opcode in ("while", "conditional", "call") for c in i.called)
    for computation in order:
        if computation not in running:
            continue
        for instruction in computation:
            pairs = in_place_pairs(instruction)
            if pairs:
                found[instruction] = pairs
    return found
