"""Dots of older texts with operands of which only two in four elements are stored: ``sparsity=L.1@2:4``.

XLA has no such dots any more.  They are read as dots of dense operands, which are made of the stored elements and the
operands behind the first two: of every four elements along a dimension two are stored, and their places in the four are
two bits each, the first ones the lowest, of u16.
Facts: XLA's ``SparsityDescriptor`` and its test of sparse dots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hlotool.ir import Instruction, Shape, SliceDimension, array, literal
from hlotool.text.operands import anonymous_name
from hlotool.text.state import POISON, Scope, State

__all__ = ["dense_operands"]

_STORED, _OF, _PLACES = 2, 4, 8  # places in one u16


def dense_operands(
    state: State,
    scope: Scope,
    operands: list[Instruction],
    sparsity: Sequence[tuple[int, int]] | None,
    span: tuple[int, int],
) -> list[Instruction]:
    """The two operands of a dot without `sparsity`, which lists the sides (0, 1) and their dimensions (None where it
    could not be read); errors point at the opcode, at `span`."""
    if sparsity is None or any(operand.shape == POISON for operand in operands):
        return operands[:2]
    if len(operands) != 2 + len(sparsity):
        raise state.cursor.fail(f"dot takes {2 + len(sparsity)} operands, {len(operands)} are given", *span)
    sides = operands[:2]
    for (side, dimension), places in zip(sparsity, operands[2:], strict=True):
        shape = sides[side].shape
        stored = shape.dimensions[dimension] if dimension < shape.rank else -1
        sizes = (*shape.dimensions[:dimension], stored // _PLACES, *shape.dimensions[dimension + 1 :])
        fits = stored > 0 and stored % _PLACES == 0 and places.shape.compatible(array("u16", sizes))
        if not fits or not shape.is_static:
            message = f"{places.shape} does not say where the elements of {shape} are along dimension {dimension}"
            raise state.cursor.fail(message, *span, code="HLO0202")
        sides[side] = _Expansion(state, scope, dimension).of(sides[side], places)
    return sides


class _Expansion:
    """The instructions that make one operand dense along a dimension."""

    def __init__(self, state: State, scope: Scope, dimension: int) -> None:
        self.state, self.scope, self.dimension = state, scope, dimension

    def of(self, stored: Instruction, places: Instruction) -> Instruction:
        d, sizes = self.dimension, stored.shape.dimensions
        before, count, behind = sizes[:d], sizes[d], sizes[d + 1 :]
        words = (*before, count // _PLACES, _PLACES, *behind)
        bits = self._binary("multiply", self._iota(words), self._splat(2, "u16", words))
        spread = self._binary("shift-right-logical", self._repeated(places, words), bits)
        place = self._add("reshape", array("u16", sizes), [self._binary("and", spread, self._splat(3, "u16", words))])
        groups = (*before, count // _STORED, _OF, *behind)
        kind, at = stored.shape.element_type, self._iota(groups)
        dense = self._splat(0, kind, groups)
        for number in reversed(range(_STORED)):
            here = self._repeated(self._every_other(place, number), groups)
            value = self._repeated(self._every_other(stored, number), groups)
            chosen = self._add("compare", array("pred", groups), [here, at], direction="EQ")
            dense = self._add("select", array(kind, groups), [chosen, value, dense])
        return self._add("reshape", array(kind, (*before, count // _STORED * _OF, *behind)), [dense])

    def _add(self, opcode: str, shape: Shape, operands: Iterable[Instruction] = (), **attributes: Any) -> Instruction:
        name = anonymous_name(self.state, self.scope, opcode)
        made = self.scope.computation.add(Instruction(opcode, shape, list(operands), attributes, name))
        self.scope.names[name] = made
        return made

    def _binary(self, opcode: str, left: Instruction, right: Instruction) -> Instruction:
        return self._add(opcode, left.shape, [left, right])

    def _splat(self, value: int, kind: str, sizes: Sequence[int]) -> Instruction:
        scalar = self._add("constant", array(kind, ()), literal=literal(value, kind))
        return self._add("broadcast", array(kind, sizes), [scalar], dimensions=())

    def _iota(self, sizes: Sequence[int]) -> Instruction:
        """How far along the dimension that was put in behind `dimension`."""
        return self._add("iota", array("u16", sizes), iota_dimension=self.dimension + 1)

    def _repeated(self, value: Instruction, sizes: Sequence[int]) -> Instruction:
        """The same along that dimension."""
        kept = tuple(n for n in range(len(sizes)) if n != self.dimension + 1)
        return self._add("broadcast", array(value.shape.element_type, sizes), [value], dimensions=kept)

    def _every_other(self, value: Instruction, first: int) -> Instruction:
        sizes = list(value.shape.dimensions)
        cuts = [SliceDimension(0, size) for size in sizes]
        cuts[self.dimension] = SliceDimension(first, sizes[self.dimension], _STORED)
        sizes[self.dimension] //= _STORED
        return self._add("slice", array(value.shape.element_type, sizes), [value], slice=tuple(cuts))
