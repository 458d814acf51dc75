"""The integers that indices stand for, and conditions on them."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.indexing import Atom, Condition, Index
from hlotool.codegen.llvm.math.elements import Register, constant, vector
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.values import Int, Vector, constants, iota, number, plus
from hlotool.codegen.llvm.vectors import quotient, remainder
from hlotool.codegen.loops.nodes import Guards, Node, fits_in_32_bits, variables_of
from hlotool.codegen.nests.scope import Known, Scope

__all__ = ["Indices", "Terms", "terms_variables"]

Terms = tuple[tuple[Atom, int], ...]


def terms_variables(terms: Terms) -> int:
    """The variables that a sum depends on."""
    return variables_of(atom for atom, _ in terms)


class Indices:
    """The values of indices and guards in `scope`: what is known of a sum in an outer loop is added there."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.f = scope.f
        self._sums: Known[Terms, int | Int] = scope.table(terms_variables)
        self._conditions: Known[tuple[Guards, int], Vector] = scope.table(
            lambda key: variables_of(guard.index for guard in key[0])
        )

    # ---- scalars

    def is_known(self, atom: Atom) -> bool:
        """Whether an atom has one value here."""
        if atom.variables & ~self.scope.open:
            return False
        if atom.inner is None and atom.source is None:
            return True
        inside = (atom, *atom.inner.atoms()) if atom.inner is not None else (atom,)
        return not self.scope.is_vector(atom.variables) and all(
            a.source in self.scope.values for a in inside if a.source
        )

    def scalar(self, index: Index, copy: int = 0) -> int | Int:
        """An index of `copy`, of the first lane where it depends on the lane."""
        value = plus(self.sum(index.terms), index.constant)
        return plus(value, self.scope.shift(index, copy)) if copy else value

    def sum(self, terms: Sequence[tuple[Atom, int]]) -> int | Int:
        """The sum of terms, outer loops first so that the beginning is shared."""
        if len(terms) > 1:
            terms = sorted(terms, key=lambda term: self.scope.depth(term[0].variables))
        return self._sum(tuple(terms))

    def _sum(self, terms: Terms) -> int | Int:
        if not terms:
            return 0
        total = self._sums.get(terms)
        if total is None:
            atom, coefficient = terms[-1]
            own = self._atom(atom)
            own = own * coefficient if isinstance(own, int) else own.times(coefficient)
            total = plus(self._sum(terms[:-1]), own)
            self._sums.keep(terms, total)
        return total

    def _atom(self, atom: Atom) -> int | Int:
        if atom.kind == "variable":
            return self.scope.counters[atom]
        key = ((atom, 1),)
        known = self._sums.get(key)
        if known is not None:
            return known
        value: int | Int
        if atom.inner is None:
            assert isinstance(atom.source, Node)
            value = self._clamped(atom, self.scope.values[atom.source][0], 1, "i64").index()
        else:
            value = self.scalar(atom.inner)
            if isinstance(value, int):
                value = value // atom.divisor if atom.kind == "quotient" else value % atom.divisor
            else:
                value = _divided(atom, value.vector()).index()
        self._sums.keep(key, value)
        return value

    def _clamped(self, atom: Atom, value: Register, lanes: int, kind: str) -> Vector:
        """The integer of a node that is the source of an atom, within its bounds."""
        assert isinstance(atom.source, Node)
        source = atom.source.type
        wide = "u64" if source == "u64" else "s64"
        low, high = (constant(self.f, wide, lanes, limit) for limit in (atom.low, atom.high))
        value = emit_elementwise("convert", {}, [source], wide, [value])
        return vector(emit_elementwise("clamp", {}, [wide] * 3, wide, [low, value, high])).resize(kind, signed=True)

    # ---- vectors

    def lanes(self, index: Index, copy: int, lanes: int) -> Vector:
        """An index for all lanes of `copy`, of 32 bits where it fits and they differ."""
        if lanes == 1 or not self.scope.is_vector(index.variables):
            return number(self.f, self.scalar(index, copy)).vector().spread(lanes)
        lane = self.scope.lane
        kind = "i32" if fits_in_32_bits(index, lane.width * lane.copies) else "i64"
        return self._vector(index, copy, lanes, kind)

    def _vector(self, index: Index, copy: int, lanes: int, kind: str) -> Vector:
        scope, f, lane = self.scope, self.f, self.scope.lane.atom
        step = index.coefficient(lane)
        scalars = [(a, c) for a, c in index.terms if not scope.is_vector(a.variables) or a == lane]
        base = plus(self.sum(scalars), index.constant + scope.shift(index, copy))
        if isinstance(base, int):
            total = Vector(f, kind, 1, str(base)).spread(lanes)
        else:
            total = base.vector().resize(kind, signed=True).spread(lanes)
        if step:
            ramp = constants(f, kind, range(0, lanes * step, step))
            total = ramp if isinstance(base, int) and not base else total + ramp
        for atom, coefficient in index.terms:
            if atom == lane or not scope.is_vector(atom.variables):
                continue
            if atom.inner is not None:
                own = _divided(atom, self._vector(atom.inner, copy, lanes, kind))
            else:
                assert isinstance(atom.source, Node)
                own = self._clamped(atom, scope.value(atom.source, copy, lanes), lanes, kind)
            total = total + (own if coefficient == 1 else own * coefficient)
        return total

    # ---- conditions

    def condition(self, guards: Guards, copy: int) -> Vector:
        """Whether all guards hold: one bit, or one for every lane when they depend on the lane."""
        known = self._conditions.get((guards, copy))
        if known is None:
            known = self._condition(guards, copy)
            self._conditions.keep((guards, copy), known)
        return known

    def mask(self, guards: Guards, copy: int, lanes: int) -> Vector:
        """The same for each of `lanes`."""
        condition = self.condition(guards, copy)
        return condition if condition.lanes == lanes else condition.spread(lanes)

    def _condition(self, guards: Guards, copy: int) -> Vector:
        scalar: Vector | None = None
        mask: Vector | None = None
        for guard in guards:
            own = self._within(guard, copy)
            if own is None:
                continue
            if self.scope.is_vector(guard.index.variables):
                mask = own if mask is None else mask & own
            else:
                scalar = own if scalar is None else scalar & own
        if mask is not None and scalar is not None:
            return mask & scalar.spread(mask.lanes)
        return mask or scalar or Vector(self.f, "i1", 1, "true")

    def _within(self, guard: Condition, copy: int) -> Vector | None:
        """Whether `guard` holds, for each lane where it depends on that; None where it always does."""
        index, scope = guard.index, self.scope
        lanes = scope.lane.width if scope.is_vector(index.variables) else 1
        rises, falls = index.low < guard.low, index.high >= guard.high
        if not rises and not falls:
            return None
        sides = [("sge", guard.low)] * rises + [("slt", guard.high)] * falls
        if lanes * 32 > scope.machine.vector_bits and lanes > 1 and scope.step(index) == 1:
            # Of so many lanes only their numbers fill no more than one vector.
            numbers = iota(self.f, f"i{max(8, scope.machine.vector_bits // lanes)}", lanes)
            first = self.scalar(index, copy)
            ends = [numbers.compare(predicate, self._lane_at(limit, first, numbers)) for predicate, limit in sides]
        else:
            value = self.lanes(index, copy, lanes)
            if rises and falls and guard.low == 0:  # one unsigned comparison tells 0 <= x < n
                return value.compare("ult", guard.high)
            ends = [value.compare(predicate, limit) for predicate, limit in sides]
        return ends[0] if len(ends) == 1 else ends[0] & ends[1]

    def _lane_at(self, place: int, first: int | Int, numbers: Vector) -> Vector:
        """The number of the lane at `place`, if lane 0 is at `first`, for all; 0 or their count if there is none."""
        lane = (place - number(self.f, first)).at_least(0).at_most(numbers.lanes)
        return lane.vector().resize(numbers.element, signed=True).spread(numbers.lanes)


def _divided(atom: Atom, value: Vector) -> Vector:
    """An atom that is a quotient or remainder of `value`."""
    assert atom.inner is not None
    return (quotient if atom.kind == "quotient" else remainder)(value, atom.divisor, atom.inner.low < 0)
