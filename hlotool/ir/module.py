"""Instructions, computations and modules: the mutable graph.

Users are kept in step by three methods, `Instruction.replace_operand`, `Instruction.replace_all_uses` and
`Computation.erase`; nothing else touches operand lists.  A computation holds its instructions in a
doubly-linked list, so inserting and erasing cost O(1); the order is always topological.

Who wants to know what is edited between two moments calls `Module.watch_edits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from math import inf
from typing import Any

from hlotool.display import Picture, call, shown_by
from hlotool.ir.attributes import Metadata, StackFrames
from hlotool.ir.brief import listed, one_line
from hlotool.ir.errors import BudgetExceeded, Location, Written
from hlotool.ir.literal import Literal, brief_literal
from hlotool.ir.opcodes import CALLING, OPCODES, UNKNOWN, WRITTEN, Opcode
from hlotool.ir.shape import Shape, brief_shape

__all__ = ["Computation", "Instruction", "Module", "clone_computation", "clone_instruction", "clone_module"]


class Instruction:
    """One operation.  `attributes` maps the attribute names of the text to typed values.

    Called computations are attribute values too (``to_apply``, ``calls``, ``body``...).  A parameter has
    ``parameter_number``, a constant ``literal``.  `origins` names the source instructions that this one was
    made from (empty: it is one itself).  Metadata may be given as text (see `Metadata.read`) and the location as
    offsets: both are read when somebody asks for them.
    """

    __slots__ = (
        "_metadata",
        "_next",
        "_place",
        "_previous",
        "attributes",
        "control_predecessors",
        "control_successors",
        "name",
        "opcode",
        "operands",
        "origins",
        "parent",
        "shape",
        "users",
    )

    def __init__(
        self,
        opcode: str,
        shape: Shape,
        operands: Iterable[Instruction] = (),
        attributes: Mapping[str, Any] | None = None,
        name: str = "",
        metadata: Metadata | str | None = None,
        location: Location | Written | None = None,
        origins: tuple[str, ...] = (),
    ) -> None:
        self.opcode = opcode
        self.shape = shape
        self.operands: list[Instruction] = list(operands)
        self.attributes: dict[str, Any] = dict(attributes) if attributes else {}
        self.name = name
        self._metadata = metadata
        self._place = location
        self.origins = origins
        self.control_predecessors: list[Instruction] = []
        self.control_successors: list[Instruction] = []
        self.users: dict[Instruction, int] = {}
        self.parent: Computation | None = None
        self._next: Instruction | None = None
        self._previous: Instruction | None = None
        for operand in self.operands:
            operand.users[self] = operand.users.get(self, 0) + 1

    # ---- what it is

    @property
    def metadata(self) -> Metadata | None:
        """Where it came from, as the framework said."""
        if isinstance(self._metadata, str):
            self._metadata = Metadata.read(self._metadata)
        return self._metadata

    @metadata.setter
    def metadata(self, metadata: Metadata | None) -> None:
        self._metadata = metadata

    @property
    def location(self) -> Location | None:
        """Where it stands in the text."""
        if isinstance(self._place, tuple):
            lines, start, end = self._place
            self._place = lines.location(start, end)
        return self._place

    @location.setter
    def location(self, location: Location | None) -> None:
        self._place = location

    @property
    def info(self) -> Opcode:
        """The row of the opcode table."""
        return OPCODES[self.opcode]

    def has(self, trait: str) -> bool:
        """Whether the opcode has a trait (``elementwise``, ``side_effect``...)."""
        return trait in OPCODES[self.opcode].traits

    @property
    def written(self) -> str:
        """The opcode as it is written, which the table may not have."""
        return str(self.attributes[WRITTEN]) if self.opcode == UNKNOWN else self.opcode

    @property
    def literal(self) -> Literal:
        """The value of a constant."""
        value: Literal = self.attributes["literal"]
        return value

    @property
    def parameter_number(self) -> int:
        number: int = self.attributes["parameter_number"]
        return number

    @property
    def called(self) -> list[Computation]:
        """Computations that this instruction calls, in attribute order."""
        if self.opcode not in CALLING:
            return []
        found: list[Computation] = []
        for value in self.attributes.values():
            if isinstance(value, Computation):
                found.append(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Computation):
                found.extend(value)
        return found

    def replace_called(self, change: Callable[[Computation], Computation]) -> None:
        """Map every called computation through `change`."""
        if self.parent is not None:
            self.parent._forget_calls()
            self.parent._note(self)
        for key, value in self.attributes.items():
            if isinstance(value, Computation):
                self.attributes[key] = change(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Computation):
                self.attributes[key] = tuple(change(c) for c in value)

    @property
    def is_root(self) -> bool:
        return self.parent is not None and self.parent._root is self

    def __repr__(self) -> str:
        reads = listed((one_line(o.name) for o in self.operands), len(self.operands))
        if self.opcode in ("parameter", "constant"):
            held = self.attributes.get("parameter_number", self.attributes.get("literal"))
            reads = brief_literal(held) if isinstance(held, Literal) else str(held)
        opcode = one_line(str(self.attributes.get(WRITTEN, self.opcode)))
        return f"Instruction({one_line(self.name or '?')} = {brief_shape(self.shape)} {opcode}({reads}))"

    _repr_html_ = shown_by("instruction_html")

    # ---- edges

    def _note(self) -> None:
        """This instruction was edited."""
        if self.parent is not None and self.parent._edited is not None:
            self.parent._edited[self] = None

    def replace_operand(self, index: int, new: Instruction) -> None:
        """Make operand `index` read `new`."""
        old = self.operands[index]
        if old is new:
            return
        self.operands[index] = new
        self._note()
        _drop_use(old, self)
        new.users[self] = new.users.get(self, 0) + 1

    def replace_all_uses(self, new: Instruction) -> None:
        """Let every user, and the root if this is it, read `new` instead."""
        for user in list(self.users):
            if user is new:
                continue
            index = -1
            for _ in range(self.users[user]):
                index = user.operands.index(self, index + 1)
                user.replace_operand(index, new)
        for successor in list(self.control_successors):
            successor.remove_control_predecessor(self)
            successor.add_control_predecessor(new)
        if self.parent is not None and self.parent.root is self:
            self.parent.root = new

    def add_control_predecessor(self, before: Instruction) -> None:
        """Order `before` ahead of this instruction (once; never ahead of itself)."""
        if before is not self and before not in self.control_predecessors:
            self.control_predecessors.append(before)
            before.control_successors.append(self)
            self._note()

    def remove_control_predecessor(self, before: Instruction) -> None:
        self.control_predecessors.remove(before)
        before.control_successors.remove(self)
        self._note()

    def set_operands(self, operands: Iterable[Instruction]) -> None:
        """Replace the whole operand list."""
        for old in self.operands:
            _drop_use(old, self)
        self.operands = list(operands)
        self._note()
        for new in self.operands:
            new.users[self] = new.users.get(self, 0) + 1


def _drop_use(operand: Instruction, user: Instruction) -> None:
    left = operand.users[user] - 1
    if left:
        operand.users[user] = left
    else:
        del operand.users[user]


class Computation:
    """A list of instructions in topological order with a root."""

    __slots__ = (
        "_callees",
        "_calls",
        "_count",
        "_edited",
        "_first",
        "_last",
        "_opcodes",
        "_parameters",
        "_root",
        "execution_thread",
        "location",
        "module",
        "name",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Module | None = None
        self.execution_thread: str | None = None
        self.location: Location | None = None
        self._root: Instruction | None = None
        self._first: Instruction | None = None
        self._last: Instruction | None = None
        self._count = 0
        self._opcodes: dict[str, int] = {}  # how often each occurs
        self._parameters: dict[int, Instruction] = {}
        self._calls: tuple[Instruction, ...] | None = None  # None: to be looked up again
        self._callees: tuple[Computation, ...] | None = None
        self._edited: dict[Instruction, None] | None = None  # that of the module

    @property
    def root(self) -> Instruction:
        if self._root is None:
            raise ValueError(f"computation {self.name} has no root")
        return self._root

    @root.setter
    def root(self, instruction: Instruction) -> None:
        if self._root is not None:
            self._note(self._root)
        self._root = instruction
        self._note(instruction)

    @property
    def parameters(self) -> list[Instruction]:
        """Parameters by number."""
        return [self._parameters[n] for n in sorted(self._parameters)]

    @property
    def opcodes(self) -> Set[str]:
        """The opcodes that occur."""
        return self._opcodes.keys()

    @property
    def calls(self) -> tuple[Instruction, ...]:
        """The instructions that may call computations (loops, fusions, reductions...), in order."""
        if self._calls is None:
            self._calls = tuple([i for i in self if i.opcode in CALLING])
        return self._calls

    @property
    def callees(self) -> tuple[Computation, ...]:
        """The computations that the instructions call, in the order of the calls, as often as they are called."""
        if self._callees is None:
            self._callees = tuple([c for i in self.calls for c in i.called])
        return self._callees

    def _forget_calls(self) -> None:
        """Calls come, go, or call something else."""
        self._calls = self._callees = None
        if self.module is not None:
            self.module._order = None

    def _note(self, instruction: Instruction) -> None:
        """An instruction of this computation was edited."""
        if self._edited is not None:
            self._edited[instruction] = None

    def __iter__(self) -> Iterator[Instruction]:
        """Instructions in order; the current one may be erased, and others inserted, while iterating."""
        current = self._first
        while current is not None:
            following = current._next
            yield current
            current = following

    def __reversed__(self) -> Iterator[Instruction]:
        current = self._last
        while current is not None:
            before = current._previous
            yield current
            current = before

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"Computation({self.signature()}, {self._count} instructions)"

    _repr_html_ = shown_by("computation_html")

    def signature(self) -> str:
        """Result, name and parameters in a few words: ``f32[] add(a: f32[], b: f32[])``."""
        given = [self._parameters[number] for number in sorted(self._parameters)]
        inside = listed((f"{one_line(p.name)}: {brief_shape(p.shape)}" for p in given), len(given))
        result = "?" if self._root is None else brief_shape(self._root.shape)
        return f"{result} {one_line(self.name or '?')}({inside})"

    # ---- editing

    def add(self, instruction: Instruction, before: Instruction | None = None) -> Instruction:
        """Insert `instruction` before `before` (at the end when None); it gets a unique name if it has none."""
        module = self.module
        if module is not None:
            module.spend(1)
            if instruction.name:
                module.reserve(instruction.name)
            else:
                instruction.name = module.unique_name(instruction.opcode)
        instruction.parent = self
        previous = self._last if before is None else before._previous
        instruction._next, instruction._previous = before, previous
        if previous is None:
            self._first = instruction
        else:
            previous._next = instruction
        if before is None:
            self._last = instruction
        else:
            before._previous = instruction
        opcode = instruction.opcode
        if self._edited is not None:
            self._edited[instruction] = None
        self._count += 1
        self._opcodes[opcode] = self._opcodes.get(opcode, 0) + 1
        if opcode == "parameter":
            self._parameters[instruction.parameter_number] = instruction
        elif opcode in CALLING:
            self._forget_calls()
        return instruction

    def add_after(self, instruction: Instruction, after: Instruction) -> Instruction:
        return self.add(instruction, before=after._next)

    def move_before(self, instruction: Instruction, before: Instruction) -> None:
        """Move an instruction of this computation to just before another one."""
        if instruction is not before:
            self._unlink(instruction)
            self.add(instruction, before)

    def erase(self, instruction: Instruction) -> None:
        """Remove an instruction that has no users and is not the root."""
        if instruction.users:
            raise ValueError(f"{instruction.name} still has users: {', '.join(u.name for u in instruction.users)}")
        if self._root is instruction:
            raise ValueError(f"{instruction.name} is the root of {self.name}")
        for operand in instruction.operands:
            _drop_use(operand, instruction)
        instruction.operands = []
        for before in list(instruction.control_predecessors):
            instruction.remove_control_predecessor(before)
        for after in list(instruction.control_successors):
            after.remove_control_predecessor(instruction)
        if self._parameters.get(instruction.attributes.get("parameter_number", -1)) is instruction:
            del self._parameters[instruction.parameter_number]
        self._unlink(instruction)
        self._note(instruction)
        instruction.parent = None

    def _unlink(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode in CALLING:
            self._forget_calls()
        previous, following = instruction._previous, instruction._next
        if previous is None:
            self._first = following
        else:
            previous._next = following
        if following is None:
            self._last = previous
        else:
            following._previous = previous
        instruction._next = instruction._previous = None
        self._count -= 1
        self._opcodes[opcode] -= 1
        if not self._opcodes[opcode]:
            del self._opcodes[opcode]

    def renumber_parameters(self) -> None:
        """Number the remaining parameters densely from 0, keeping their order."""
        ordered = self.parameters
        self._parameters = {}
        for number, parameter in enumerate(ordered):
            parameter.attributes["parameter_number"] = number
            self._parameters[number] = parameter
            self._note(parameter)

    def sort_topologically(self) -> None:
        """Restore topological order after edits that broke it: a stable depth-first order.

        ValueError where an instruction needs its own result.
        """
        order: list[Instruction] = []
        done: set[Instruction] = set()
        begun: set[Instruction] = set()
        for start in list(self):
            stack: list[tuple[Instruction, int]] = [(start, 0)] if start not in done else []
            while stack:
                instruction, position = stack.pop()
                if position == 0:
                    if instruction in begun:
                        raise ValueError(f"{instruction.name} in {self.name} needs its own result")
                    begun.add(instruction)
                sources = [*instruction.operands, *instruction.control_predecessors]
                while position < len(sources) and sources[position] in done:
                    position += 1
                if position == len(sources):
                    done.add(instruction)
                    order.append(instruction)
                else:
                    stack.append((instruction, position + 1))
                    stack.append((sources[position], 0))
        self.reorder(order)

    def reorder(self, order: Iterable[Instruction]) -> None:
        """Set the order of all instructions; `order` must be a topological permutation of them."""
        chain = list(order)
        if len(chain) != self._count:
            raise ValueError(f"{len(chain)} instructions given for the {self._count} of {self.name}")
        self._forget_calls()
        previous: Instruction | None = None
        for instruction in chain:
            instruction._previous = previous
            if previous is None:
                self._first = instruction
            else:
                previous._next = instruction
            previous = instruction
        if previous is not None:
            previous._next = None
        self._last = previous


class Module:
    """A program: computations by name, callees before callers, and the entry."""

    __slots__ = (
        "_counters",
        "_edited",
        "_names",
        "_order",
        "allowance",
        "attributes",
        "computations",
        "costs",
        "entry",
        "given_size",
        "name",
        "source",
        "stack_frames",
    )

    def __init__(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.attributes: dict[str, Any] = dict(attributes or {})
        self.computations: dict[str, Computation] = {}
        self.costs: object = None  # the `hlotool.analysis.costs.Costs` that passes go by; None: the usual ones
        self.entry: Computation = Computation("")
        self.stack_frames: StackFrames | None = None
        self.source: str | None = None  # the text it was parsed from, for error messages
        self.allowance: float = inf  # instructions that may be added before somebody asks what is going on
        self.given_size: int | None = None  # instructions before the first pass: what copies of passes are measured by
        self._names: set[str] = set()
        self._counters: dict[str, int] = {}
        self._edited: dict[Instruction, None] | None = None
        self._order: list[Computation] | None = None  # what `callees_first` found; None: to be found again

    def __repr__(self) -> str:
        count = f"{self.instruction_count()} instructions"
        entry = f", entry {self.entry.signature()}" if self.entry.name in self.computations else ", no entry"
        return f"Module('{one_line(self.name)}', {count}{entry})"

    _repr_html_ = shown_by("module_html")

    def graph(
        self,
        computation: str | None = None,
        around: str | None = None,
        radius: int = 3,
        paths: tuple[str, str] | None = None,
        heat: str | None = None,
    ) -> Picture:
        """A drawing to look around in, which notebooks show, and which can be saved (``.save("module.html")``).

        It is of the entry, or of a `computation`; of what is at most `radius` edges `around` an instruction; or of all
        `paths` between two instructions.  `heat` colours by ``bytes`` or ``flops``.  InputError where nothing has
        such a name.
        """
        picture: Picture = call(
            "drawing", self, computation=computation, around=around, radius=radius, paths=paths, heat=heat
        )
        return picture

    def spend(self, count: int) -> None:
        """Note that `count` instructions are being added; BudgetExceeded where that is more than the allowance.

        A computation counts as one more than its instructions."""
        self.allowance -= count
        if self.allowance < 0:
            raise BudgetExceeded(f"more instructions were added to module {self.name} than it allows")

    def add(self, computation: Computation, entry: bool = False) -> Computation:
        """Add a computation after those that it calls."""
        self.spend(1 + len(computation))
        if not computation.name or computation.name in self.computations:
            computation.name = self.unique_name(computation.name or "computation")
        self.computations[computation.name] = computation
        computation.module = self
        if self._edited is not None:
            computation._edited = self._edited
            self._edited.update(dict.fromkeys(computation))
        self.reserve(computation.name)
        unnamed = []
        for instruction in computation:
            if instruction.name:
                self._names.add(instruction.name)
            else:
                unnamed.append(instruction)
        for instruction in unnamed:  # once all names that are taken are known
            instruction.name = self.unique_name(instruction.opcode)
        if entry:
            self.entry = computation
        return computation

    def remove(self, computation: Computation) -> None:
        self._order = None
        del self.computations[computation.name]
        self._leave(computation)

    def _leave(self, computation: Computation) -> None:
        """A computation is no longer of this module."""
        if self._edited is not None:
            self._edited.update(dict.fromkeys(computation))
            computation._edited = None
        computation.module = None

    def watch_edits(self) -> dict[Instruction, None]:
        """A dictionary that from now on gets every instruction that is added or erased, or whose operands, control
        predecessors or called computations change; whoever watches empties it.

        An attribute or a shape that is set directly goes unnoticed, and so does the order of instructions.
        """
        self._edited = {}
        for computation in self.computations.values():
            computation._edited = self._edited
        return self._edited

    def reserve(self, name: str) -> None:
        self._names.add(name)

    def unique_name(self, base: str) -> str:
        """A name not used in the module: `base` with its number suffix replaced by a fresh one."""
        if "." in base:
            stem, _, suffix = base.rpartition(".")
            if suffix.isdigit() and stem:
                base = stem
        number = self._counters.get(base, 0)
        while True:
            number += 1
            name = f"{base}.{number}"
            if name not in self._names:
                self._counters[base] = number
                self._names.add(name)
                return name

    def instructions(self) -> Iterator[Instruction]:
        """All instructions of all computations."""
        for computation in list(self.computations.values()):
            yield from computation

    def opcodes(self) -> frozenset[str]:
        """The opcodes that occur in any computation."""
        return frozenset().union(*(computation.opcodes for computation in self.computations.values()))

    def instruction_count(self) -> int:
        return sum(map(len, self.computations.values()))

    def callees_first(self) -> list[Computation]:
        """Computations reachable from the entry, each after those that it calls."""
        if self._order is None or self._order[-1] is not self.entry:
            order = self._callees_first()
            if any(computation.module is not self for computation in order):
                return order  # of what changes in those that are not in the module yet, it hears nothing
            self._order = order
        return list(self._order)

    def _callees_first(self) -> list[Computation]:
        order: dict[Computation, None] = {}
        stack: list[tuple[Computation, Iterator[Computation]]] = [(self.entry, iter(self.entry.callees))]
        active = {self.entry}
        while stack:
            computation, rest = stack[-1]
            for callee in rest:
                if callee not in order and callee not in active:
                    active.add(callee)
                    stack.append((callee, iter(callee.callees)))
                    break
            else:
                order[computation] = None
                stack.pop()
        return list(order)

    def remove_unreachable(self) -> bool:
        """Drop computations that the entry does not reach, and keep callees before callers."""
        order = self.callees_first()
        changed = len(order) != len(self.computations)
        kept = set(order)
        for computation in self.computations.values():
            if computation not in kept:
                self._leave(computation)
        self.computations = {c.name: c for c in order}
        return changed

    def callers(self) -> dict[Computation, list[Instruction]]:
        """For every computation the instructions that call it."""
        found: dict[Computation, list[Instruction]] = {c: [] for c in self.computations.values()}
        for computation in self.computations.values():
            for instruction in computation.calls:
                for callee in instruction.called:
                    found.setdefault(callee, []).append(instruction)
        return found


def clone_instruction(instruction: Instruction, operands: Iterable[Instruction], name: str = "") -> Instruction:
    """A detached copy that reads `operands`; attributes are shared, called computations too."""
    return Instruction(
        instruction.opcode,
        instruction.shape,
        operands,
        instruction.attributes,
        name,
        instruction._metadata,
        instruction._place,
        instruction.origins or (instruction.name,),
    )


def clone_computation(
    computation: Computation,
    name: str = "",
    called: Mapping[Computation, Computation] | None = None,
    keep_names: bool = False,
) -> Computation:
    """A detached copy; called computations are mapped through `called` (else shared)."""
    copy = Computation(name or computation.name)
    copy.execution_thread = computation.execution_thread
    copy.location = computation.location
    copies: dict[Instruction, Instruction] = {}
    for instruction in computation:
        new = clone_instruction(instruction, map(copies.__getitem__, instruction.operands))
        if keep_names:
            new.name, new.origins = instruction.name, instruction.origins
        for before in instruction.control_predecessors:
            new.add_control_predecessor(copies[before])
        if called and new.opcode in CALLING:
            new.replace_called(_lookup(called))
        copies[instruction] = copy.add(new)
    copy.root = copies[computation.root]
    return copy


def _lookup(called: Mapping[Computation, Computation]) -> Callable[[Computation], Computation]:
    return lambda computation: called.get(computation, computation)


def clone_module(module: Module) -> Module:
    """A deep copy with the same names; literals and attribute values are shared.  Callees must stand before callers."""
    copy = Module(module.name, module.attributes)
    copy.stack_frames, copy.source, copy.given_size = module.stack_frames, module.source, module.given_size
    copy.costs = module.costs
    mapping: dict[Computation, Computation] = {}
    for computation in module.computations.values():
        mapping[computation] = clone_computation(computation, called=mapping, keep_names=True)
    for computation in module.computations.values():
        copy.add(mapping[computation], entry=computation is module.entry)
    return copy
