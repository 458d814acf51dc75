"""What loops do, counted while they are written: cycles by kind of work (`hlotool.analysis.performance.FIGURES`).

A node counts where it is written, with all the vectors that are written for it, as often as the loops around it run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from hlotool.analysis import cycles
from hlotool.codegen.loops.loops import is_long, register_bits, weight
from hlotool.codegen.loops.nodes import Node
from hlotool.codegen.machine import LINE
from hlotool.codegen.nests.access import is_close
from hlotool.codegen.nests.scope import Scope
from hlotool.ir import Computation, byte_size, element_type
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES

__all__ = ["Count"]

_AHEAD = 256
"""Instructions that a processor looks ahead, about: short reductions do not wait for each other."""

_FAR_BYTES = 1024
"""Bytes from one trip of the innermost loop to the next, from which on each vector is found in another page, or in a
line that nothing asks for ahead of time."""

_PER_CYCLE = 2.0
"""Vector instructions that begin in a cycle meanwhile."""

_FUNCTIONS = {
    "exponential": "exp", "logistic": "exp", "exponential-minus-one": "exp", "log": "log", "log-plus-one": "log",
    "tanh": "tanh", "erf": "tanh", "sqrt": "root", "rsqrt": "root", "cbrt": "root", "sine": "sine", "cosine": "sine",
}  # fmt: skip


class Count:
    """The work of what has been written in `scope`."""

    __slots__ = ("_divider", "_ready", "_work", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._work: defaultdict[str, float] = defaultdict(float)
        self._divider = 0.0
        self._ready: dict[Node, float] = {}  # in which cycle it is there, if nothing else is to do

    @property
    def cycles(self) -> float:
        """All so far."""
        return sum(self._work.values())

    @property
    def work(self) -> dict[str, float]:
        """By kind; of divisions only that for which everything else has to wait; and the longest chain of operations
        that wait for each other."""
        division = max(0.0, self._divider - self.cycles / _PER_CYCLE)
        return {**self._work, "division": division, "latency": max(self._ready.values(), default=0.0)}

    def _add(self, kind: str, amount: float) -> None:
        if amount:
            self._work[kind] += self.scope.runs * amount

    def loop(self, trips: float) -> None:
        """A loop begins here."""
        self._add("trips", 1.0)
        self._add("iteration", trips)

    def node(self, node: Node, is_tiled: bool, is_looked_up: bool) -> None:
        """A node is written: if it is tiled, a load by transposing tiles; or picked from a table in a register."""
        if node.kind in ("load", "store"):
            kind, amount = self._access(node, is_tiled)
        else:
            kind = self._kind(node)
            amount = self._registers(node) * (1.0 if is_looked_up else self._weight(node, kind))
            self._divider += self.scope.runs * self._registers(node) * self._divided(node)
        self._ready[node] = max([self._ready.get(i, 0.0) for i in node.inputs], default=0.0) + self._latency(node)
        self._add(kind, amount)
        if node.guards:
            self._add("guarded", self._registers(node))

    def _registers(self, node: Node) -> float:
        """Vector registers, or single elements, that hold a node, or what it is made of if that is more."""
        scope = self.scope
        lanes = scope.lanes(node)
        bits = max([register_bits(node.type), *[register_bits(o.type) for o in node.operands if scope.lanes(o) > 1]])
        return float(scope.copies(node) * -(-lanes * bits // scope.machine.vector_bits if lanes > 1 else -1))

    def _weight(self, node: Node, kind: str) -> float:
        """Cycles of a register of a node."""
        if node.kind != "elementwise":
            return weight(node)
        if kind == "vector" and node.opcode in ("divide", "remainder") and not element_type(node.type).is_float:
            return cycles.BY_CONSTANT
        if kind == "division of integers":
            lanes = self.scope.machine.vector_bits / 64
            return cycles.WHOLE_DIVISION.get(register_bits(node.type), lanes * cycles.LONG_DIVISION)
        if kind == "complex":
            return float(ELEMENTWISE_OPCODES[node.opcode].complex_flops or 1)
        if kind == "complex function":
            return weight(node) if is_long(node) else cycles.COMPLEX_QUOTIENT
        special = self._special(node)
        if special is not None:
            return special
        own = cycles.FUNCTIONS_F64 if node.type == "f64" else cycles.FUNCTIONS
        return own.get(node.opcode, weight(node)) if element_type(node.type).is_float else weight(node)

    def _special(self, node: Node) -> float | None:
        """The same of operations that take several instructions for some types; None of others."""
        to, opcode = element_type(node.type), node.opcode
        if opcode in ("maximum", "minimum", "clamp") and to.is_float:
            bounds = [operand.kind == "constant" for operand in node.operands]
            if opcode == "clamp":
                return sum(1.0 if known else cycles.OF_TWO for known in bounds[::2])
            return 1.0 if any(bounds) else cycles.OF_TWO
        if opcode in ("popcnt", "count-leading-zeros"):
            by_instruction = opcode == "count-leading-zeros" and self.scope.machine.vector_bits == 512
            return 1.0 if by_instruction else cycles.COUNTED_BITS[min(32, max(8, to.bits))]
        if opcode != "convert":
            return None
        source = element_type(node.operands[0].type)
        if source.is_float and not to.is_float and to.kind != "pred":
            return cycles.SATURATED
        if not to.is_float or to.bits >= 32 or to.is_complex:
            return None
        if not source.is_float and source.bits >= 32:
            return cycles.THROUGH_DOUBLE
        return 1.0 if node.type == "f16" and self.scope.machine.instructions.half else cycles.ROUNDED

    def _latency(self, node: Node) -> float:
        """Cycles until a node is there when all is there that it needs."""
        if node.kind == "load":
            return cycles.LOADED
        if node.kind != "elementwise":
            return 1.0
        if is_long(node):
            return cycles.FUNCTION_WAITS * weight(node)
        return cycles.QUOTIENT if node.opcode in ("divide", "remainder") else cycles.OPERATION

    def _divided(self, node: Node) -> float:
        """Cycles for which a register of a node keeps the divider busy."""
        kind = element_type(node.type) if node.kind == "elementwise" else None
        if kind is None or kind.is_complex or kind.kind == "pred":
            return 0.0
        bits, opcode, machine = kind.bits, node.opcode, self.scope.machine
        width = machine.vector_bits if self.scope.lanes(node) > 1 else 128
        if kind.is_float:
            by_estimate = kind.bits == 32 and machine.vector_bits == 512
            times = 1.0 if opcode in cycles.DIVIDED or opcode == "sqrt" else 2.0 if opcode == "rsqrt" else 0.0
            times = 0.0 if by_estimate and opcode == "rsqrt" else times
        else:  # as many floats take more registers
            divides = opcode in ("divide", "remainder") and node.operands[1].kind != "constant"
            times = max(1.0, 32 / bits) if divides and bits <= 32 else 0.0
            times, bits = (2.0 * times, 64) if bits == 32 else (times, 32)
        return times * cycles.DIVISION.get(bits, cycles.DIVISION[32]) * width / 1024

    def _access(self, node: Node, is_tiled: bool) -> tuple[str, float]:
        scope, kind, size = self.scope, node.kind, byte_size(node.type)
        lane, copies, twice = scope.lane, scope.copies(node), 2.0 if node.kind == "store" else 1.0
        if scope.lanes(node) == 1:
            return "scalar access", float(copies)
        elements = sum(lane.active_in(copy) for copy in range(copies))
        step = scope.step(node.index)
        if step is None:
            return f"indexed {kind}", elements * 2.0 * twice
        if abs(step) <= 1:
            left = elements % scope.lanes(node)  # single lanes of few types are read and written at once
            self._add("masked", float(left > 0) if scope.machine.instructions.has_masks(8 * size) else float(left))
            registers = copies * -(-scope.lanes(node) * size * 8 // scope.machine.vector_bits)
            return self._beside(node), registers * (2.0 if step < 0 else 1.5 if kind == "store" else 1.0)
        if abs(step) * size >= LINE:
            return f"far {kind}", elements * (0.4 if is_tiled else 2.0) * twice
        if is_tiled or (is_close(node.type, step) and not node.guards):
            return f"scattered {kind}", elements * (0.4 if is_tiled else 1.2) * twice
        return f"indexed {kind}", elements * 2.0 * twice

    def _beside(self, node: Node) -> str:
        """The kind of an access whose lanes lie side by side: how far it is from that of the trip before."""
        scope = self.scope
        inner = scope.stack[-1] if scope.stack else 0
        if inner & scope.lane.atom.variables:
            return "access"
        moved = sum(abs(c) for atom, c in node.index.terms if atom.variables & inner)
        return "far access" if moved * byte_size(node.type) >= _FAR_BYTES else "access"

    def _kind(self, node: Node) -> str:
        if node.kind != "elementwise":
            return "other"
        if self.scope.lanes(node) == 1 and not is_long(node):
            return "scalar"
        if any(one.type in ("c64", "c128") for one in (node, *node.operands)):
            return "complex function" if is_long(node) or node.opcode in ("abs", "divide", "sign") else "complex"
        if is_long(node) and node.type == "f64":
            return "function f64"
        if is_long(node):
            return f"function {_FUNCTIONS.get(node.opcode, 'other')}"
        if node.type in ("bf16", "f16"):
            return "half"
        if node.opcode in ("divide", "remainder") and not element_type(node.type).is_float:
            return "vector" if node.operands[1].kind == "constant" else "division of integers"
        return "vector"

    # ---- reductions

    def reduction_step(self, group: Sequence[Node], lanes: int) -> None:
        """Values are taken into the accumulators of reductions, of so many lanes each."""
        scope = self.scope
        for node in group:
            operations, _ = _steps_of(node.computation)
            if lanes == 1:
                self._add("scalar", operations)
                continue
            copies = scope.lane.copies
            registers = copies * -(-lanes * register_bits(node.type) // scope.machine.vector_bits)
            self._add("combined" if operations > 1 else "vector", registers * operations)

    def reductions(
        self, group: Sequence[Node], steps: float, inside: float, own: tuple[int, int] | None, outer: int
    ) -> None:
        """Reductions of a group are written, whose accumulators take `steps` steps in all runs together, with so many
        cycles of work `inside`.  Their `own` lane loop has vectors of so many lanes, so many copies of each; else there
        are `outer` copies of the results."""
        runs = self.scope.runs
        self._add("results", len(group) * outer)
        lanes, copies = own or (1, 1)
        for node in group:
            folds = math.log2(lanes) * (cycles.SHUFFLED + cycles.OPERATION * _steps_of(node.computation)[1]) + copies
            begin = max([self._ready.get(i, 0.0) for i in node.inputs], default=0.0)
            self._ready[node] = begin + cycles.OPERATION + folds
        chain = max(_steps_of(node.computation)[1] for node in group)
        ahead = max(1.0, min(runs, _AHEAD * runs / max(1.0, inside)))
        self._work["waiting"] += max(0.0, steps * cycles.OPERATION * chain / ahead - inside / _PER_CYCLE)
        if own is not None:
            each = sum(_steps_of(node.computation)[0] for node in group)
            self._add("horizontal", each * (2 * math.log2(lanes) + copies - 1))


def _steps_of(computation: Computation | None) -> tuple[int, int]:
    """Operations of what a reduction applies, and how many of them wait for each other; of sums of products one."""
    if computation is None:
        return 1, 1
    longest: dict[object, int] = {}
    operations = 0
    for instruction in computation:
        own = 1 if instruction.has("elementwise") else 0
        operations += own
        longest[instruction] = own + max((longest[o] for o in instruction.operands), default=0)
    return max(1, operations), max(1, *longest.values())
