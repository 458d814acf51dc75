"""Rewrite rules and the workshop they use: how rules are declared, and how new instructions are made.

A rule is a function from the parts of a pattern (`patterns`) to what may stand in the place of the whole, or None.
Its docstring states the identity.  New instructions are put just before the rewritten one; they inherit its metadata
and location and name its origins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, Shape, SliceDimension, VerificationError, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import drop_dead, is_removable
from hlotool.passes.framework.patterns import KINDS, Apply, first_opcodes, matcher, may_match, opcodes_of, pattern_of

__all__ = ["Attempt", "Rewriter", "Rewritten", "Rule", "RuleTable", "apply_rules", "rewrite", "rule", "rule_table"]

_WITHOUT_SIGN = "f8e8m0fnu"

Rewritten = Instruction | None
"""What may stand in the place of an instruction; None where the rule does not fit after all."""
Attempt = Callable[[Instruction, "Rewriter"], Rewritten]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite of what fits one of `patterns`, where the result has one of the element types `types` (None: any).

    What stands beside a pattern tries it.  Some operand has one of the opcodes `reads`, if there are any; where the
    rule `commutes`, operands of commutative operations come in either order.
    """

    name: str
    patterns: tuple[tuple[Apply, Attempt], ...]
    help: str
    types: frozenset[str] | None = None
    reads: frozenset[str] = frozenset()
    commutes: bool = False

    @property
    def opcodes(self) -> frozenset[str]:
        """The opcodes of instructions that it may fit."""
        return frozenset().union(*[opcodes_of(pattern) for pattern, _ in self.patterns])

    def attempts(self, opcode: str, element_type: str, operands: Sequence[str]) -> Iterator[Attempt]:
        """What may rewrite instructions with this opcode and type, and operands with these opcodes."""
        if (self.types is None or element_type in self.types) and not (self.reads and self.reads.isdisjoint(operands)):
            for pattern, attempt in self.patterns:
                if opcode in opcodes_of(pattern) and may_match(pattern, operands, self.commutes):
                    yield attempt


def rule(*patterns: str, types: str = "", reads: str = "") -> Callable[[Callable[..., Rewritten]], Rule]:
    """Declare a rule for what fits one of `patterns`; it is named after the function.

    The function is given the parts of the pattern that it has parameters for, ``instruction`` (the whole) and
    ``rewriter``, by name, and returns what may replace the instruction, or None.  `types`, a key of
    `patterns.KINDS`, are those of the result; `reads` are opcodes, separated by spaces, of which some operand has one.
    """

    def declare(function: Callable[..., Rewritten]) -> Rule:
        rows = [(pattern, matcher(pattern, function)) for pattern in map(pattern_of, patterns)]
        name, help = function.__name__.replace("_", "-"), (function.__doc__ or "").strip()
        return Rule(name, tuple(rows), help, KINDS[types] if types else None, frozenset(reads.split()))

    return declare


_MOST_OPERANDS = 8
"""Whose opcodes are told apart by their places: patterns have fewer operands."""


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Rules by opcode; and by opcode, element type and the opcodes of operands, once some such instruction was met.

    Instructions that they may fit have one of `opcodes`; `rules` finds them by that and the type of the result, in the
    order in which they are tried.  Each has an operand with one of the opcodes `reads` where it fits (None: some may
    have any).
    """

    opcodes: frozenset[str]
    rules: Callable[[str, str], Sequence[Rule]]
    reads: frozenset[str] | None = None
    fitting: dict[tuple[str | frozenset[str], ...], tuple[tuple[Rule, Attempt], ...]] = field(default_factory=dict)

    def attempts_for(self, instruction: Instruction) -> tuple[tuple[Rule, Attempt], ...]:
        """The rules worth trying on the instruction, in order, each with what tries it."""
        opcode, element_type, operands = instruction.opcode, instruction.shape.element_type, instruction.operands
        key: tuple[str | frozenset[str], ...]
        if len(operands) == 1:
            key = opcode, element_type, operands[0].opcode
        elif len(operands) == 2:
            key = opcode, element_type, operands[0].opcode, operands[1].opcode
        elif len(operands) <= _MOST_OPERANDS:
            key = opcode, element_type, *[operand.opcode for operand in operands]
        else:
            first = [operand.opcode for operand in operands[:_MOST_OPERANDS]]
            key = opcode, element_type, *first, frozenset([operand.opcode for operand in operands])
        found = self.fitting.get(key)
        if found is None:
            opcodes = [operand.opcode for operand in operands]
            rows = self.rules(opcode, element_type)
            found = tuple((row, attempt) for row in rows for attempt in row.attempts(opcode, element_type, opcodes))
            self.fitting[key] = found
        return found


def rule_table(rules: Iterable[Rule]) -> RuleTable:
    """A table of rules, which are tried in the order given."""
    by_opcode: dict[str, list[Rule]] = {}
    reads: frozenset[str] | None = frozenset()
    for row in rules:
        for opcode in row.opcodes:
            by_opcode.setdefault(opcode, []).append(row)
        for pattern, _ in row.patterns:
            read = row.reads or first_opcodes(pattern)
            reads = None if reads is None or read is None else reads | read
    return RuleTable(frozenset(by_opcode), lambda opcode, element_type: by_opcode.get(opcode, ()), reads)


class Rewriter(Builder):
    """Builds just before `at`, notes what it made, and gives operands back where nothing would change.

    Elementwise results keep the layout of the first operand.
    """

    __slots__ = ("created",)

    def __init__(self, at: Instruction) -> None:
        assert at.parent is not None
        self.computation, self.before, self.like = at.parent, at, at  # without a call: rules are tried often
        self.created: list[Instruction] = []

    def put(self, instruction: Instruction) -> Instruction:
        self.created.append(instruction)
        return super().put(instruction)

    def make(self, opcode: str, shape: Shape, *operands: Instruction, **attributes: Any) -> Instruction:
        """As `add`, with operands and attributes one by one."""
        return self.add(opcode, shape, operands, attributes)

    def same(self, instruction: Instruction, *operands: Instruction) -> Instruction:
        """The same operation on other operands of the same shapes."""
        return self.add(instruction.opcode, instruction.shape, operands, instruction.attributes)

    def unary(self, opcode: str, a: Instruction) -> Instruction:
        return self.add(opcode, a.shape, (a,))

    def binary(self, opcode: str, a: Instruction, b: Instruction) -> Instruction:
        return self.add(opcode, a.shape, (a, b))

    def broadcast(self, a: Instruction, dimensions: Sequence[int], shape: Shape | Sequence[int]) -> Instruction:
        wanted = self._shape(a, shape)
        same = a.shape.dimensions == wanted.dimensions and tuple(dimensions) == tuple(range(wanted.rank))
        return a if same else super().broadcast(a, dimensions, wanted)

    def reshape(self, a: Instruction, shape: Shape | Sequence[int]) -> Instruction:
        wanted = self._shape(a, shape)
        return a if a.shape.dimensions == wanted.dimensions else super().reshape(a, wanted)

    def transpose(self, a: Instruction, order: Sequence[int]) -> Instruction:
        return a if list(order) == list(range(len(order))) else super().transpose(a, order)

    def convert(self, a: Instruction, element_type: str) -> Instruction:
        same = a.shape.element_type == element_type
        return a if same else self.add("convert", a.shape.with_type(element_type), (a,))

    def slice_rows(self, a: Instruction, rows: Sequence[SliceDimension]) -> Instruction:
        """The slice of `a` with a row for each dimension."""
        sizes = tuple(max(0, -(-(row.limit - row.start) // row.stride)) for row in rows)
        if sizes == a.shape.dimensions:
            return a
        return self.add("slice", array(a.shape.element_type, sizes), (a,), {"slice": tuple(rows)})


def rewrite(module: Module, table: RuleTable, log: DecisionLog) -> bool:
    """Apply the rules to each computation, callees first; whether any fitted."""
    changed = False
    for computation in module.callees_first():
        changed |= apply_rules(computation, table, log)
    return changed


def apply_rules(computation: Computation, table: RuleTable, log: DecisionLog) -> bool:
    """Rewrite until no rule of `table` fits: a worklist, so the cost follows the number of rewrites.

    Instructions with dynamic shapes or control dependencies are left alone, and those on f8e8m0fnu, which has neither
    zero nor sign: few identities hold there.  What a rewrite leaves unused goes.
    """
    if table.reads is not None and table.reads.isdisjoint(computation.opcodes):
        return False
    opcodes = table.opcodes
    queue = deque([i for i in computation if i.opcode in opcodes])
    queued = set(queue)
    changed = False
    budget = 1000 + 50 * len(computation)  # far above what terminating rules need: rules of others may not terminate

    def push(instruction: Instruction) -> None:
        if instruction.opcode in opcodes and instruction not in queued:
            queued.add(instruction)
            queue.append(instruction)

    while queue and log.allow():
        if budget == 0:
            log.note("rules-loop", computation.name, f"stopped rewriting at {queue[0].name}: rules undo each other")
            break
        instruction = queue.popleft()
        queued.discard(instruction)
        if instruction.parent is not computation:
            continue
        if not instruction.users and is_removable(instruction):
            for operand in drop_dead(instruction):
                push(operand)
            continue
        attempts = table.attempts_for(instruction)
        if not attempts or not _may_rewrite(instruction):
            continue
        rewriter = Rewriter(instruction)
        for row, attempt in attempts:
            found = attempt(instruction, rewriter)
            if found is None:
                while rewriter.created:
                    drop_dead(rewriter.created.pop())
                continue
            users = list(instruction.users)
            _replace(instruction, found, row, log)
            changed = True
            budget -= 1
            for new in (*rewriter.created, *users):
                push(new)
            for operand in drop_dead(instruction):
                push(operand)
                if len(operand.users) == 1:  # rules about single readers may now fit the one that is left
                    push(next(iter(operand.users)))
            break
    return changed


def _may_rewrite(instruction: Instruction) -> bool:
    if instruction.control_predecessors or instruction.control_successors or not _is_plain(instruction.shape):
        return False
    for operand in instruction.operands:
        if operand.shape is not instruction.shape and not _is_plain(operand.shape):
            return False
    return True


def _is_plain(shape: Shape) -> bool:
    return shape.element_type != _WITHOUT_SIGN and shape.is_static


def _replace(instruction: Instruction, found: Instruction, row: Rule, log: DecisionLog) -> None:
    if not found.shape.compatible(instruction.shape):
        raise VerificationError(
            f"rule {row.name} replaces {instruction.name} of shape {instruction.shape} "
            f"by {found.name} of shape {found.shape}"
        )
    log.rewrite(row.name, instruction, found)
    instruction.replace_all_uses(found)
