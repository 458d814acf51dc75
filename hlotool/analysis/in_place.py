"""Which outputs of an instruction may be written over one of its operands.

The pair is an offer: whoever assigns buffers takes it only where the operand is dead afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, TypeAlias

from hlotool.analysis.contraction import dot_dimensions
from hlotool.analysis.product_epilogue import Reading, fused_product, updates_of
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.opcodes import ELEMENTWISE

__all__ = [
    "computed_elsewhere", "in_place_pairs", "leaves_border", "module_in_place_pairs", "reads_what_it_writes",
    "updates_part",
]  # fmt: skip

_VIEWS = frozenset({"bitcast", "reshape", "copy"})
_AT_ITS_OWN_PLACE = ELEMENTWISE | {"tuple", "copy"}

_LARGE_REGION: Annotated[int, Threshold("times")] = 2
"""A region of at least one in so many elements leaves but a border of an array."""

_MOST_OTHERS: Annotated[int, Threshold("operands")] = 4
"""Operands beside the first that an output is offered, so that the time to look at them stays linear."""

Pairs: TypeAlias = tuple[tuple[int, int], ...]


def in_place_pairs(instruction: Instruction) -> Pairs:
    """(output leaf, operand number) pairs that may share memory when `instruction` updates in place."""
    return _pairs(instruction)[0]


def _pairs(instruction: Instruction) -> tuple[Pairs, Pairs]:
    """The pairs, each output and operand in one of them, and others that would do as well."""
    match instruction.opcode:
        case "dynamic-update-slice":
            return ((0, 0),), ()
        case "copy":
            return ((0, 0),), ()
        case "scatter":
            return tuple((i, i) for i in range(len(instruction.operands) // 2)), ()
        case "fusion":
            product = fused_product(instruction)
            if product is not None:
                return _product_pairs(instruction, *product), ()
            updates = _fusion_pairs(instruction)
            return (updates, ()) if updates else _same_size_pairs(instruction, _element_needs(instruction))
        case _ if instruction.has("elementwise"):
            return _same_size_pairs(instruction, [range(len(instruction.operands))])
        case _:
            return (), ()


def updates_part(instruction: Instruction, leaf: int) -> bool:
    """Whether the instruction writes a part of result `leaf` only, when that lies in the storage of its operand."""
    if instruction.opcode == "fusion":
        root = instruction.attributes["calls"].root
        roots = root.operands if root.opcode == "tuple" else [root]
        return leaf < len(roots) and roots[leaf].opcode == "dynamic-update-slice"
    return instruction.opcode in ("dynamic-update-slice", "scatter")


def leaves_border(update: Instruction) -> bool:
    """Whether a dynamic-update-slice writes most of an array, at a known place: only a border is as it was."""
    whole, part = (operand.shape for operand in update.operands[:2])
    known = all(_constant(start) is not None for start in update.operands[2:])
    return part.size * _LARGE_REGION >= whole.size > 0 and known


def _fusion_pairs(fusion: Instruction) -> Pairs:
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


def _element_needs(fusion: Instruction) -> list[frozenset[int]]:
    """For each output the parameters that it is computed from, and that are read only at the element that is being
    written; nothing where no loop writes all outputs."""
    body = fusion.attributes["calls"]
    roots = body.root.operands if body.root.opcode == "tuple" else [body.root]
    dimensions = roots[0].shape.dimensions
    if any(not root.shape.is_array or root.shape.dimensions != dimensions for root in roots):
        return []
    needs = _needs(body, computed_elsewhere(reversed(body)))
    return [needs[root] for root in roots]


def _product_pairs(fusion: Instruction, product: Instruction, how: Reading) -> Pairs:
    """Arrays of which a product's epilogue writes a part, and parameters that it reads only at the element being
    written.

    Where a task makes whole rows, another one reads none of its rows of the left operand, and it has read them itself
    before it writes a result: so that operand is among these parameters.
    """
    body = fusion.attributes["calls"]
    roots = body.root.operands if body.root.opcode == "tuple" else [body.root]
    updates = updates_of(body)
    pairs = _fusion_pairs(fusion) if updates else ()
    others = [root for root in roots if root not in updates]
    sizes = {*(update.operands[1].shape.size for update in updates), *(root.shape.size for root in others)}
    if len(sizes) > 1 or not all(root.shape.is_array for root in roots):
        return pairs  # there are several loops, and what one writes the next one may read
    in_rows = how.whole_rows and product not in roots and _has_rows_first(product)
    moved: set[Instruction] = set()
    for instruction in reversed(body):
        if instruction is product:
            moved.update(product.operands[1 if in_rows else 0 :])
        elif instruction in updates:
            moved.update((instruction.operands[0], *instruction.operands[2:]))
        elif instruction in moved or not (instruction.has("elementwise") or instruction.opcode in ("tuple", *_VIEWS)):
            moved.update(instruction.operands)
    needs = _needs(body, moved)
    shapes = [operand.shape for operand in fusion.operands]
    return (*pairs, *(
        (leaf, number) for leaf, root in enumerate(roots) if root not in updates for number in sorted(needs[root])
        if shapes[number].dimensions == root.shape.dimensions and shapes[number].byte_size == root.shape.byte_size
    ))  # fmt: skip


def _has_rows_first(product: Instruction) -> bool:
    """Whether the rows of a product lie in its left operand as in its result: whole, and in the same order."""
    if product.opcode != "dot":
        return False
    numbers, rank = dot_dimensions(product), product.operands[0].shape.rank
    batch, free = len(numbers.lhs_batch), len(numbers.lhs_free)
    return (*numbers.lhs_batch, *numbers.lhs_free) == tuple(range(batch + free)) and rank > batch + free


def _needs(body: Computation, moved: Collection[Instruction]) -> dict[Instruction, frozenset[int]]:
    """The numbers of the parameters that each instruction is computed from, but for those in `moved`."""
    needs: dict[Instruction, frozenset[int]] = {}
    for instruction in body:
        operands = instruction.operands
        if len(operands) == 1:
            needs[instruction] = needs[operands[0]]
        elif instruction.opcode == "parameter" and instruction not in moved:
            needs[instruction] = frozenset({instruction.parameter_number})
        else:
            needs[instruction] = frozenset().union(*[needs[o] for o in operands])
    return needs


def computed_elsewhere(readers_first: Iterable[Instruction], update: Instruction | None = None) -> set[Instruction]:
    """Instructions computed at other places than the element written: whatever feeds one that moves elements, but for
    `update`, whose own elements are meant."""
    moved: set[Instruction] = set()
    for instruction in readers_first:
        if instruction is not update and (instruction.opcode not in _AT_ITS_OWN_PLACE or instruction in moved):
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


def _same_size_pairs(instruction: Instruction, needs: Sequence[Collection[int]]) -> tuple[Pairs, Pairs]:
    """Each output leaf with the first operand of its dimensions and bytes that it is computed from, and with others.

    That it is computed from the operand matters: the element is then read before it is written over.
    """
    first: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    taken: set[int] = set()
    for leaf, (output, numbers) in enumerate(zip(instruction.shape.leaves(), needs, strict=False)):
        found = False
        more: list[tuple[int, int]] = []
        for number in sorted(numbers):
            shape = instruction.operands[number].shape
            if shape.dimensions != output.dimensions or shape.byte_size != output.byte_size:
                continue
            if found or number in taken:
                more.append((leaf, number))
            else:
                found = True
                first.append((leaf, number))
                taken.add(number)
        others += more[:_MOST_OTHERS]
    return tuple(first), tuple(others)


def module_in_place_pairs(module: Module) -> dict[Instruction, Pairs]:
    """The offers of every instruction that runs (bodies of fusions and of reducers aside), callees first; of each the
    better ones first."""
    found = {}
    running = {module.entry}
    order = module.callees_first()
    for computation in reversed(order):
        if computation in running:
            for call in computation.calls:
                if call.opcode in ("while", "conditional", "call"):
                    running.update(call.called)
    for computation in order:
        if computation not in running:
            continue
        for instruction in computation:
            pairs, others = _pairs(instruction)
            if pairs:
                found[instruction] = pairs + others
    return found
