"""What is known of reducers: those that are one commutative operation, and those that choose between values.

HLO leaves the order of a reduction open.  Here only sums, products, extremes and bit operations (`combiners_of`) are
free of order: they go through NumPy's universal functions, and sums and products of floats are accumulated in double
precision and rounded once (in f32, and rounded once, by compiled code of types narrower than that).  Every other
reducer is called from the first element to the last, beginning with the initial value, as XLA does, each of its
operations rounding to its type.  Where `Choice` says that grouping does not matter it is called pairwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlotool.evaluate.rounding import as_accurate, integer_range, widen
from hlotool.evaluate.values import AnyArray
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, dtype_of
from hlotool.lazy_dataclass import dataclass

__all__ = ["Choice", "Combiner", "choice_of", "combiner_of", "combiners_of", "replaces"]

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass(frozen=True, slots=True)
class Combiner:
    """A reducer that is one associative and commutative opcode on two scalars of one type."""

    opcode: str
    element_type: str

    @property
    def ufunc(self) -> Any:
        return _UFUNCS[self.opcode]

    def prepare(self, array: AnyArray) -> AnyArray:
        """In the type to accumulate in, which may be wider than the array's: sums and products of floats in double
        precision."""
        array = array.astype(dtype_of(self.element_type), copy=False)
        return as_accurate(array) if self.opcode in ("add", "multiply") else widen(array)

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """The element that changes nothing, of the prepared type."""
        if self.opcode in ("maximum", "minimum"):
            return _extreme(dtype, self.element_type, lowest=self.opcode == "maximum")
        if self.opcode == "and":
            return dtype.type(True) if dtype.kind == "b" else np.invert(dtype.type(0))
        return dtype.type(1 if self.opcode == "multiply" else 0)


def _extreme(dtype: np.dtype[Any], element_type: str, lowest: bool) -> Any:
    if dtype.kind == "f":
        return dtype.type(-np.inf if lowest else np.inf)
    if dtype.kind == "b":
        return dtype.type(not lowest)
    low, high = integer_range(ELEMENT_TYPES[element_type])
    return dtype.type(low if lowest else high)


def combiner_of(computation: Computation) -> Combiner | None:
    """What `computation` combines with, if it is one such opcode on its two parameters."""
    found = combiners_of(computation)
    return found[0] if found is not None and len(found) == 1 else None


def combiners_of(computation: Computation) -> list[Combiner] | None:
    """What `computation` combines each pair of parameters with, if every result is one such opcode on its own pair."""
    roots, parameters = _roots(computation), computation.parameters
    if len(parameters) != 2 * len(roots):
        return None
    found = []
    for number, root in enumerate(roots):
        pair = parameters[number], parameters[number + len(roots)]
        if root.opcode not in _UFUNCS or root.shape.dimensions or {id(o) for o in root.operands} != set(map(id, pair)):
            return None
        if any(p.shape.element_type != root.shape.element_type for p in pair):
            return None
        found.append(Combiner(root.opcode, root.shape.element_type))
    return found


def _roots(computation: Computation) -> list[Instruction]:
    root = computation.root
    return list(root.operands) if root.opcode == "tuple" else [root]


def replaces(computation: Computation) -> bool:
    """Whether the computation returns its second half of parameters: new values replace old ones."""
    root = computation.root
    results = root.operands if root.opcode == "tuple" else [root]
    parameters = computation.parameters
    return len(parameters) == 2 * len(results) and results == parameters[len(results) :]


# ---- reducers that choose

Map = Callable[[Computation, Sequence[AnyArray]], Sequence[AnyArray]]
"""Applies a computation on scalars to arrays."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A reducer of which each result is one of its two values, chosen by comparisons (argmax and its like), such that
    grouping does not matter, nor does the initial value entering more than once.

    `commutes`: neither does order.  `places` are those results of which values that differ, and are compared to say
    which side comes first, restore the order: argmax with NaN wants the leftmost, and carries its place along.
    Zeros of either sign count as equal.
    """

    commutes: bool
    places: tuple[int, ...]


def choice_of(computation: Computation, apply: Map) -> Choice | None:
    """What is known of `computation`, if it only chooses.

    What such a computation does depends on nothing but how the values in it compare, so that trying every order that
    three values of a type can have, a NaN among them, proves it for all values.
    """
    roots, parameters = _roots(computation), computation.parameters
    count = len(roots)
    if len(parameters) != 2 * count or count > _MOST_CHOSEN:
        return None
    sides = _sides(computation, count)
    if sides is None or any(sides[root] not in (n, _LOGIC) for n, root in enumerate(roots)):
        return None
    types = [p.shape.element_type for p in parameters]
    if types[:count] != types[count:] or types[:count] != [root.shape.element_type for root in roots]:
        return None
    if any(sides[root] == _LOGIC and types[n] != "pred" for n, root in enumerate(roots)):
        return None

    def join(left: Sequence[AnyArray], right: Sequence[AnyArray]) -> Sequence[AnyArray]:
        return apply(computation, [*left, *right])

    a, b, c = _triples(types[:count])
    if not (_same(join(join(a, b), c), join(a, join(b, c))) and _same(join(a, a), a)):
        return None
    # An initial value that enters twice, in order.
    if not _same(join(join(a, b), join(a, c)), join(a, join(b, c))):
        return None
    places = (n for n, kind in enumerate(types[:count]) if ELEMENT_TYPES[kind].is_integer)
    return Choice(
        _same(join(a, b), join(b, a)), tuple(n for n in places if _is_ordered_by(n, join, (a, b, c)))
    )


_MOST_CHOSEN = 3
_LOGIC = -1
"""Stands for a truth value that comparisons gave, where others have the number of the pair they are chosen from."""


def _sides(computation: Computation, count: int) -> dict[Instruction, int] | None:
    """For every instruction the pair of parameters that its value is one of; None if some do other things."""
    found: dict[Instruction, int] = {}
    for i in computation:
        operands = [found.get(o) for o in i.operands]
        kind = i.shape.element_type
        if i.opcode == "parameter":
            found[i] = i.parameter_number % count
        elif _is_logic(i, operands):
            found[i] = _LOGIC
        elif i.opcode == "select" and (operands[1] == operands[2] or kind == "pred"):
            found[i] = operands[1] if operands[1] == operands[2] and operands[1] is not None else _LOGIC
        elif i.opcode in ("copy", "bitcast", "reshape") and kind == i.operands[0].shape.element_type:
            found[i] = _LOGIC if operands[0] is None else operands[0]
        elif i.opcode != "tuple" or i is not computation.root:
            return None
    return found


def _is_logic(instruction: Instruction, sides: Sequence[int | None]) -> bool:
    """Whether it gives a truth value that depends on nothing but how values of one pair compare."""
    row = ELEMENT_TYPES[instruction.operands[0].shape.element_type] if sides else None
    if instruction.opcode != "compare" or row is None:
        return instruction.opcode in ("and", "or", "xor", "not") and row is not None and row.kind == "pred"
    in_total_order = row.is_float and instruction.attributes.get("type") == "TOTALORDER"
    return sides[0] == sides[1] and not row.is_complex and not in_total_order


def _triples(types: Sequence[str]) -> list[list[AnyArray]]:
    """Three lots of values of `types`: every way that they can compare."""
    columns: list[AnyArray] = []
    for kind in types:
        row = ELEMENT_TYPES[kind]
        inexact = row.is_float or row.is_complex
        values = [1.0, 2.0, 4.0, float("nan")] if inexact else [0, 1, 2] if row.bits > 1 else [0, 1]
        columns += [np.array(values).astype(dtype_of(kind))] * 3
    numbers = np.meshgrid(*(np.arange(len(c)) for c in columns), indexing="ij")
    flat = [column[n.reshape(-1)] for column, n in zip(columns, numbers, strict=True)]
    return [flat[side::3] for side in range(3)]


def _same(left: Sequence[AnyArray], right: Sequence[AnyArray]) -> bool:
    return all(bool(((x == y) | ((x != x) & (y != y))).all()) for x, y in zip(left, right, strict=True))


def _is_ordered_by(
    place: int, join: Callable[[Sequence[AnyArray], Sequence[AnyArray]], Sequence[AnyArray]],
    values: Sequence[Sequence[AnyArray]],
) -> bool:  # fmt: skip
    """Whether elements with different places may be joined in any order, the one with the lower place on the left."""

    def ordered(left: Sequence[AnyArray], right: Sequence[AnyArray]) -> list[AnyArray]:
        swap = right[place] < left[place]
        sides = [(np.where(swap, r, x), np.where(swap, x, r)) for x, r in zip(left, right, strict=True)]
        return list(join([x for x, _ in sides], [y for _, y in sides]))

    first = values[0]
    rising = values[1][place] < values[2][place]
    initial, b, c = ([v[rising] for v in side] for side in values)
    whole = join(initial, join(b, c))
    left, right = join(initial, b), join(initial, c)
    if not (_same(ordered(left, right), whole) and _same(ordered(right, left), whole)):
        return False
    apart = (first[place] < values[1][place]) & rising
    a, b, c = ([v[apart] for v in side] for side in values)
    whole = join(join(a, b), c)
    pairs = (ordered(ordered(a, c), b), ordered(ordered(b, c), a), ordered(ordered(c, a), b))
    return all(_same(pair, whole) for pair in pairs)
