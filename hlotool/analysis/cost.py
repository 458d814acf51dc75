"""Cost: arithmetic operations, transcendentals and bytes moved, per instruction, computation and module.

Conventions, after XLA's ``HloCostAnalysis`` unless said otherwise:

* One *flop* is one arithmetic, comparison, selection or conversion of one element, integers included; a multiply-add
  is two.  Functions that a processor has no instruction for (``transcendental`` in the opcode table) are counted
  apart, one per element.  Complex numbers count as what they cost: add 2, multiply 6, multiply-add 8.
* Bytes are those of operands read and results written, each array once, whatever the caches do.  Parameters,
  constants, tuples, bitcasts, reshapes and slices that are views (`analysis.views`) move none; operations that look at
  a part of an array (slice, gather, scatter, dynamic-slice, dynamic-update-slice) count that part, all of it at most.
* A fusion computes what its body computes and moves only its operands and results; where the body looks at a part of
  an operand, only the part counts.
* A loop counts trips times (body + condition), and one condition more; XLA counts one trip.  A trip count that
  `analysis.trip_count` does not know counts as one, and the cost says so (`Cost.loops`).
* Of the branches of a conditional the one with the most work counts.
* What cannot be known (custom calls, unknown opcodes, unbounded dimensions) counts nothing and is counted in
  `Cost.unknown`.

The numbers differ from XLA's where XLA's are coarse: sorts count n log2 n of the sorted dimension instead of all
elements, a reduction to n results combines (inputs - n) times, a dot on complex numbers counts 8 per term, Cholesky,
triangular solves and batch norm have their textbook counts.
"""

from __future__ import annotations

from hlotool.analysis.cost_rules import ANNOTATIONS, APPLYING, RULES, Cost
from hlotool.analysis.traffic import TRAFFIC, UnknownSize, everything
from hlotool.analysis.trip_count import known_trip_count
from hlotool.ir import UNKNOWN, Computation, Instruction, Module

__all__ = ["Cost", "ModuleCost"]


class ModuleCost:
    """The costs of a module that is not changed meanwhile; all are computed at once, in linear time.

    With `trip_counts` False every loop counts one trip, as in XLA.
    """

    def __init__(self, module: Module, trip_counts: bool = True) -> None:
        self.module = module
        self._trip_counts = trip_counts
        self._own: dict[Instruction, Cost] = {}
        self._totals: dict[Computation, Cost] = {}
        for computation in _callees_first(module):
            total = _Sum()
            for instruction in computation:
                self._own[instruction] = own = self._work(instruction)
                total.add(own)
                for callee, count in self.runs(instruction):
                    total.add(self._called(instruction, callee).times(count))
            self._totals[computation] = total.cost()

    @property
    def total(self) -> Cost:
        """One run of the entry computation."""
        return self._totals[self.module.entry]

    def computation(self, computation: Computation) -> Cost:
        """One run of `computation`, everything that it calls included."""
        return self._totals[computation]

    def own(self, instruction: Instruction) -> Cost:
        """What `instruction` does itself: functions that it applies to elements included, bodies that it runs not."""
        return self._own[instruction]

    def of(self, instruction: Instruction) -> Cost:
        """`own` and the bodies that `instruction` runs (loops, calls, branches, fusions), as often as it does."""
        cost = self._own[instruction]
        for callee, count in self.runs(instruction):
            cost = cost + self._called(instruction, callee).times(count)
        return cost

    def trips(self, loop: Instruction) -> int | None:
        """How often a ``while`` runs its body; None where that is not known."""
        return known_trip_count(loop) if self._trip_counts else None

    def runs(self, instruction: Instruction) -> list[tuple[Computation, int]]:
        """The bodies that `instruction` runs, and how often each."""
        opcode, attributes = instruction.opcode, instruction.attributes
        if opcode == "while":
            trips = self.trips(instruction)
            once = 1 if trips is None else trips
            more = once + 1 if self._trip_counts else 1
            return [(attributes["body"], once), (attributes["condition"], more)]
        if opcode in ("call", "fusion", "async-start"):
            return [(callee, 1) for callee in instruction.called[:1]]
        if opcode == "conditional":
            return [(max(instruction.called, key=self._weight), 1)] if instruction.called else []
        return []

    def executions(self) -> dict[Computation, int]:
        """How often each computation runs in one run of the module; 0 for functions that are applied to elements.

        With the costs of `own` this gives sums per opcode that add up to `total`.
        """
        count: dict[Computation, int] = dict.fromkeys(self._totals, 0)
        count[self.module.entry] = 1
        for computation in reversed(self._totals):
            if count[computation]:
                for instruction in computation:
                    for callee, times in self.runs(instruction):
                        count[callee] += count[computation] * times
        return count

    def _weight(self, computation: Computation) -> tuple[int, int]:
        cost = self._totals[computation]
        return cost.flops + cost.transcendentals, cost.bytes

    def _called(self, instruction: Instruction, callee: Computation) -> Cost:
        cost = self._totals[callee]
        return cost.arithmetic() if instruction.opcode == "fusion" else cost

    def _work(self, instruction: Instruction) -> Cost:
        opcode = instruction.opcode
        unknown = loops = flops = transcendentals = read = written = 0
        try:
            flops, transcendentals, missing = self._operations(instruction)
            unknown += missing
        except UnknownSize:
            unknown = 1
        if opcode == "while" and self._trip_counts:
            loops = self.trips(instruction) is None
        try:
            read, written = TRAFFIC.get(opcode, everything)(instruction)
        except UnknownSize:
            read, written, unknown = 0, 0, 1
        return Cost(flops, transcendentals, read, written, unknown, int(loops))

    def _operations(self, instruction: Instruction) -> tuple[int, int, int]:
        """Flops, transcendentals, and how many applied functions are unknown."""
        rule = RULES.get(instruction.opcode)
        if instruction.opcode == UNKNOWN:
            return 0, 0, 1
        if rule is None or instruction.attributes.get("custom_call_target") in ANNOTATIONS:
            return 0, 0, 0
        one = two = Cost()
        applied = [self._totals[c] for c in instruction.called] if instruction.opcode in APPLYING else []
        if applied:
            one, two = applied[0], applied[-1]
        flops, transcendentals = rule(instruction, one, two)
        return flops, transcendentals, sum(c.unknown for c in applied)


class _Sum:
    """Adds costs without making an object for each."""

    __slots__ = ("flops", "loops", "read", "transcendentals", "unknown", "written")

    def __init__(self) -> None:
        self.flops = self.transcendentals = self.read = self.written = self.unknown = self.loops = 0

    def add(self, cost: Cost) -> None:
        self.flops += cost.flops
        self.transcendentals += cost.transcendentals
        self.read += cost.bytes_read
        self.written += cost.bytes_written
        self.unknown += cost.unknown
        self.loops += cost.loops

    def cost(self) -> Cost:
        return Cost(self.flops, self.transcendentals, self.read, self.written, self.unknown, self.loops)


def _callees_first(module: Module) -> list[Computation]:
    """All computations, each after those that it calls."""
    reached = module.callees_first()
    known = set(reached)
    # Those that the entry does not reach may call reached ones and each other: modules keep callees ahead.
    others = [c for c in module.computations.values() if c not in known]
    return [*reached[:-1], *others, module.entry]
