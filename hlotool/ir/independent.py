"""All errors of one instruction that are independent of each other.

A rule stops at its first error.  To see what else is wrong, the part that the error blames is repaired in every way
that is near at hand (the shape of another operand, another number in a list...) and the rule asked again.  Where one
repair is enough, there was one error; otherwise what remains after the best repair is wrong for a reason of its own.
So no error is reported that only follows from another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, permutations, product
from typing import Any

from hlotool.ir.attributes import PaddingDimension, ReplicaGroups, SliceDimension, Window, WindowDimension
from hlotool.ir.damage import POISON
from hlotool.ir.module import Computation
from hlotool.ir.opcodes import OPCODES
from hlotool.ir.shape import Shape, array, scalar, token, tuple_shape
from hlotool.ir.shape_checks import ShapeError
from hlotool.ir.shape_inference import check
from hlotool.lazy_dataclass import dataclass

__all__ = ["Facts", "independent_errors"]

_MOST_REPAIRS = 150  # of one part
_FOLLOWED = 4  # repairs that leave the same other error and are looked into
_DEEPEST = 4  # errors of one instruction
_MOST_CHECKS = 3000  # of one instruction
_RANKS = 6  # that what is unknown may have
_FILLED = 16  # values for words that could not be read


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules of an instruction look at; `attributes` misses those that could not be read."""

    opcode: str
    shape: Shape
    operands: tuple[Shape, ...]
    attributes: Mapping[str, Any]

    def error(self) -> ShapeError | None:
        """The first error of the rules; None also where they ask for an attribute that is unknown."""
        try:
            check(self.opcode, self.shape, self.operands, self.attributes)
        except ShapeError as error:
            return error
        except _Unread:
            return None
        except KeyError as error:
            return ShapeError(f"{self.opcode} needs the attribute '{error.args[0]}'", code="HLO0135")
        return None


class _Unread(Exception):  # noqa: N818 - ends a rule that asks for what could not be read
    """An attribute is asked for whose value is unknown."""


class Readable(dict[str, Any]):
    """Attributes of which some could not be read: asking for these ends the rule."""

    def __init__(self, attributes: Mapping[str, Any], unread: frozenset[str]) -> None:
        super().__init__({name: value for name, value in attributes.items() if name not in unread})
        self.unread = unread

    def __missing__(self, name: str) -> Any:
        if name in self.unread:
            raise _Unread
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        if name in self.unread:
            raise _Unread
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, default) if name in self else default


def independent_errors(facts: Facts, thorough: bool = True) -> list[ShapeError]:
    """The errors of the instruction, the first first (alone, unless `thorough`).

    Shapes that could not be read fit wherever something fits.
    """
    holes = [f"operand:{n}" for n, shape in enumerate(facts.operands) if shape == POISON]
    if facts.shape == POISON:
        holes.append("shape")
    if holes:
        return _with_holes(facts, holes)
    checks = iter(range(_MOST_CHECKS if thorough else 0))
    return min((_found(filled, checks) for filled in _with_unread_filled(facts)), key=len)


def _found(facts: Facts, checks: Iterator[int]) -> list[ShapeError]:
    """The errors of facts without holes: one alone where a single repair is enough."""
    errors = _errors(facts, facts, frozenset(), checks)
    for error in errors[1:]:
        repairs = (one for one in islice(_repairs(facts, error), _MOST_REPAIRS) if next(checks, None) is not None)
        if any(one.error() is None for one in repairs if _is_local(one, facts, error.part)):
            return [error]
    return errors


def _with_unread_filled(facts: Facts) -> Iterator[Facts]:
    """The facts with every value near at hand for a word, or a truth value, that could not be read."""
    unread = facts.attributes.unread if isinstance(facts.attributes, Readable) else frozenset()
    rows = [row for name in sorted(unread) if (row := OPCODES[facts.opcode].attribute(name)) is not None]
    known = {row.name: (False, True) if row.kind == "bool" else row.choices for row in rows}
    for values in islice(product(*([(name, v) for v in values] for name, values in known.items() if values)), _FILLED):
        filled = dict(values)
        yield replace(facts, attributes=Readable({**facts.attributes, **filled}, unread - set(filled)))


def _with_holes(facts: Facts, holes: list[str]) -> list[ShapeError]:
    """The errors that remain whatever stands in the holes: none where something fits."""
    found: list[ShapeError] = []
    for filled in islice(_fillings(facts, holes), _MOST_REPAIRS):
        error = filled.error()
        if error is None:
            return []
        if error.part in holes:
            continue  # not what belongs there
        if found and error.message != found[0].message:
            return []  # it depends on the hole
        found.append(error)
    return found[:1] if len(found) > 1 else []  # one alone may be wrong for what was filled in


def _fillings(facts: Facts, holes: list[str]) -> Iterator[Facts]:
    """Every shape near at hand in all holes, and one of every small rank."""
    for shape in (*_shapes(facts), *(array("f32", (2,) * rank) for rank in range(1, _RANKS))):
        operands = tuple(shape if operand == POISON else operand for operand in facts.operands)
        if "shape" not in holes:
            yield replace(facts, operands=operands)
            continue
        error = replace(facts, operands=operands, shape=scalar("f32")).error()
        declared = error.expected if error is not None and error.expected is not None else shape
        yield replace(facts, operands=operands, shape=declared)


def _errors(facts: Facts, written: Facts, blamed: frozenset[str], checks: Iterator[int]) -> list[ShapeError]:
    """The errors of `facts`, which are those that are `written` with the `blamed` parts repaired.

    Each of `checks` allows for one look at a repair.
    """
    first = facts.error()
    if first is None:
        return []
    if len(blamed) == _DEEPEST:
        return [first]
    now = blamed | {first.part}
    best: list[ShapeError] | None = None
    followed = Counter[str]()
    for repaired in islice(_repairs(facts, first), _MOST_REPAIRS):
        if next(checks, None) is None:
            break
        rest = repaired.error()
        if rest is None:
            return [first]
        if rest.part in now or followed[rest.message] == _FOLLOWED:
            continue
        if _follows(rest, repaired, facts):
            return [first]
        if _changed(rest.part, repaired, written):
            continue  # no repair: it is wrong itself
        if not _is_local(repaired, facts, first.part):
            continue  # what other parts may have been meant to be says nothing of what is written
        if _is_guessed(repaired, facts):
            continue  # what is wrong with sizes that are made up says nothing
        followed[rest.message] += 1
        errors = _errors(repaired, written, now, checks)
        if best is None or len(errors) < len(best):
            best = errors
    return [first, *(best or [])]


def _is_local(repaired: Facts, facts: Facts, part: str) -> bool:
    """Whether a repair leaves all but the blamed `part` as it is; one that leaves an attribute out lets other rules
    hold."""
    kind, _, rest = part.partition(":")
    name = rest.partition(":")[0]
    if kind != "shape" and repaired.shape != facts.shape:
        return False
    if repaired.attributes is not facts.attributes:
        others = [{k: v for k, v in one.attributes.items() if k != name} for one in (repaired, facts)]
        if kind != "attribute" or others[0] != others[1] or len(repaired.attributes) < len(facts.attributes):
            return False
    if len(repaired.operands) != len(facts.operands):
        return all(a == b for a, b in zip(repaired.operands, facts.operands, strict=False))
    changed = [n for n, (a, b) in enumerate(zip(repaired.operands, facts.operands, strict=True)) if a != b]
    return not changed or (kind == "operand" and changed == [int(name)])


def _follows(rest: ShapeError, repaired: Facts, facts: Facts) -> bool:
    """Whether the result has a wrong shape only because an operand was given another one: the shape that the operand
    had is declared, or the repair is of sizes that are made up."""
    if rest.part != "shape" or rest.expected is None:
        return False
    changed = [(a, b) for a, b in zip(facts.operands, repaired.operands, strict=False) if a != b]
    if len(changed) != 1:
        return False
    (before, now), declared = changed[0], facts.shape
    if now not in _shapes(facts):
        return rest.expected.rank == declared.rank and rest.expected.element_type == declared.element_type
    if declared.is_tuple:
        swapped = tuple_shape([now if one.compatible(before) else one for one in declared.elements])
    else:
        swapped = now if declared.compatible(before) else declared
    return swapped.compatible(rest.expected)


def _is_guessed(repaired: Facts, facts: Facts) -> bool:
    """Whether an operand was given another number of dimensions, of sizes that are made up."""
    pairs = [(a, b) for a, b in zip(facts.operands, repaired.operands, strict=False) if a is not b]
    return any(a.rank != b.rank for a, b in pairs) and any(b not in _shapes(facts) for _, b in pairs)


def _changed(part: str, repaired: Facts, written: Facts) -> bool:
    """Whether a part is not as it is written."""
    kind, _, rest = part.partition(":")
    if kind == "operand":
        index = int(rest)
        return repaired.operands[index : index + 1] != written.operands[index : index + 1]
    if kind == "attribute":
        name, _, entry = rest.partition(":")
        now, before = repaired.attributes.get(name), written.attributes.get(name)
        if entry and isinstance(now, tuple) and isinstance(before, tuple):
            return bool(now[int(entry) : int(entry) + 1] != before[int(entry) : int(entry) + 1])
        return bool(now != before)
    return kind == "shape" and repaired.shape != written.shape


# ---- repairs


def _repairs(facts: Facts, error: ShapeError) -> Iterator[Facts]:
    """The facts with the part that `error` blames replaced by what may have been meant, the likeliest first."""
    kind, _, rest = error.part.partition(":")
    if error.expected is not None:
        yield replace(facts, shape=error.expected)
    if kind == "operand":
        yield from _other_operands(facts, int(rest))
    elif kind == "attribute":
        yield from _other_attributes(facts, *rest.partition(":")[::2])
    elif error.code == "HLO0205":
        yield from _other_counts(facts)
    yield from _other_types(facts)
    if kind == "shape":
        yield from (replace(facts, shape=shape) for shape in _shapes(facts))


def _other_operands(facts: Facts, blamed: int) -> Iterator[Facts]:
    if blamed >= len(facts.operands):  # one too many
        yield from _other_counts(facts)
        return
    for index in (blamed, *(n for n in range(min(len(facts.operands), 4)) if n != blamed)):
        for shape in (*_shapes(facts), *_resized(facts, index if index == blamed else None)):
            operands = (*facts.operands[:index], shape, *facts.operands[index + 1 :])
            yield replace(facts, operands=operands)


def _resized(facts: Facts, index: int | None) -> Iterator[Shape]:
    """Shapes near at hand with one dimension of a size that stands elsewhere, with the type of an operand that is an
    array."""
    if index is None:
        return
    written = facts.operands[index]
    near = [shape for shape in (*facts.operands[:4], facts.shape) if shape.is_array]
    sizes = dict.fromkeys(size for shape in near for size in shape.dimensions)
    for model in dict.fromkeys(near):
        for place, size in product(range(model.rank), sizes):
            dimensions = (*model.dimensions[:place], size, *model.dimensions[place + 1 :])
            yield array(written.element_type if written.is_array else model.element_type, dimensions)


def _shapes(facts: Facts) -> Iterator[Shape]:
    """Shapes made of the types and dimensions of an instruction."""
    shapes = [shape for shape in (*facts.operands[:8], facts.shape) if shape != POISON]
    near = dict.fromkeys(leaf for shape in shapes for leaf in islice(shape.leaves(), 4))
    yield from near
    yield from dict.fromkeys(shape for shape in shapes if shape.is_tuple)
    sizes = dict.fromkeys(shape.dimensions for shape in near if shape.is_array)
    types = dict.fromkeys(shape.element_type for shape in near if shape.is_array)
    for element_type in dict.fromkeys((*types, "pred", "s32", "u32", "f32", "c64")):
        for dimensions in dict.fromkeys((*sizes, ())):
            yield array(element_type, dimensions)
    yield token()


def _other_counts(facts: Facts) -> Iterator[Facts]:
    """More or fewer operands."""
    operands = facts.operands
    arity = OPCODES[facts.opcode].arity
    if arity is not None and len(operands) > arity:
        yield replace(facts, operands=operands[:arity])
    for shape in _shapes(facts):
        more = (arity or len(operands) + 1) - len(operands)
        if more > 0:
            yield replace(facts, operands=(*operands, *[shape] * more))
    if operands:
        yield replace(facts, operands=operands[:-1])


def _other_types(facts: Facts) -> Iterator[Facts]:
    """All arrays of the type of the first operand, the result among them, in another type."""
    if not facts.operands:
        return
    first = facts.operands[0].element_type

    def change(shape: Shape, to: str) -> Shape:
        return replace(shape, element_type=to) if shape.element_type == first and shape.is_array else shape

    for to in ("f32", "s32", "u32", "pred", "c64"):
        operands = tuple(change(shape, to) for shape in facts.operands)
        yield replace(facts, operands=operands, shape=change(facts.shape, to))
        yield replace(facts, operands=operands)


def _other_attributes(facts: Facts, name: str, index: str) -> Iterator[Facts]:
    value = facts.attributes.get(name)
    for other in _other_values(facts, name, value, int(index) if index else None):
        attributes = dict(facts.attributes)
        if other is None:
            attributes.pop(name, None)
        else:
            attributes[name] = other
        unread = facts.attributes.unread if isinstance(facts.attributes, Readable) else frozenset()
        yield replace(facts, attributes=Readable(attributes, unread))


def _other_values(facts: Facts, name: str, value: Any, index: int | None) -> Iterator[Any]:
    """Values that an attribute may have been meant to have; None leaves it out."""
    row = OPCODES[facts.opcode].attribute(name)
    if row is None or isinstance(value, Computation):
        return
    ranks = [shape.rank for shape in (*facts.operands[:3], facts.shape) if shape.is_array]
    most = max(ranks, default=1)
    if index is not None and isinstance(value, tuple) and index < len(value):
        for other in _entries(facts, value[index], most):
            yield (*value[:index], other, *value[index + 1 :])
        yield (*value[:index], *value[index + 1 :])
        return  # the other entries have errors of their own
    if row.kind == "ints":
        yield from (order for rank in dict.fromkeys(ranks) for order in islice(permutations(range(rank)), 24))
        yield from ((n,) for n in range(most))
        yield ()
        yield from (shape.dimensions for shape in facts.operands[:1])
        yield from (value[:n] for n in range(1, len(value or ())))
        if isinstance(value, tuple):
            yield tuple(sorted(set(value)))
            yield from ((*value, n) for n in range(most))
    elif row.kind == "int":
        yield from range(max(most, 2))
    elif row.kind == "word":
        yield from row.choices
    elif row.kind == "padding":
        for rank in dict.fromkeys(ranks):
            yield (*value, *[PaddingDimension(0, 0)] * rank)[:rank]
        yield (PaddingDimension(0, 0),) * most
    elif row.kind == "slice":
        for shape in (*facts.operands, facts.shape):
            yield tuple(SliceDimension(0, size) for size in shape.dimensions)
    elif row.kind == "window" and value is not None:
        for rank in dict.fromkeys(ranks):
            yield Window((*value.dimensions, *[WindowDimension(1)] * rank)[:rank])
    elif row.kind == "replica_groups":
        yield ReplicaGroups(())
    elif row.kind in ("pairs", "aliasing"):
        yield ()
    elif row.kind == "bool":
        yield not value
    if not row.required:
        yield None


def _entries(facts: Facts, value: Any, most: int) -> Iterator[Any]:
    if isinstance(value, int):
        yield from range(most)
        yield from dict.fromkeys(size for shape in (*facts.operands, facts.shape) for size in shape.dimensions)
    elif isinstance(value, SliceDimension):
        sizes = dict.fromkeys(size for shape in (*facts.operands, facts.shape) for size in shape.dimensions)
        yield from (replace(value, start=0, limit=size, stride=1) for size in sizes)
