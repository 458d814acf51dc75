"""The trace of rewrites: for every one that passes record, the instructions that it touched, before and after.

`RewriteTrace` is the decision log to run passes with.  Nothing is printed while they run, and the module is looked
through once per pass that changes it: what a rewrite costs follows what it touches.

Rewrites are counted as ``--rewrite-limit`` does, which lets a pass make the N-th one and says no when it asks for the
next.  So what is edited between two such questions belongs to the rewrite that is recorded there.  Some edits belong to
none: what passes tidy up without counting it.  They are steps of the trace, too, without a number, so that the edits of
all steps, one after the other, turn the module that came in into the one that goes out.  Only the order of
instructions is not a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, NamedTuple, cast

from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.ir import Instruction, Module, Shape
from hlotool.ir.effects import is_pure
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import PrintOptions, print_instruction
from hlotool.text.sources import Sources

__all__ = ["Edit", "RewriteTrace", "State", "Step", "step_between"]

_LINE = PrintOptions(metadata=False, elide_above=16, index_comments=False)
_MOST_NEIGHBOURS, _MOST_READERS = 24, 4


@dataclass(slots=True)
class State:
    """What an instruction was at one time; `sources` are the operands, whose names it had as `operands`."""

    computation: str
    name: str
    opcode: str
    shape: Shape
    sources: tuple[Instruction, ...]
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...]
    control_predecessors: tuple[str, ...]
    is_root: bool
    _line: str = field(default="", compare=False)

    @property
    def line(self) -> str:
        """The line of the text, without metadata; long constants are elided."""
        if not self._line:
            self._line = ("ROOT " if self.is_root else "") + print_instruction(self.alone(), _LINE)
        return self._line

    def alone(self) -> Instruction:
        """An instruction that prints as this one did."""
        alone = Instruction(self.opcode, self.shape, (), dict(self.attributes), self.name)
        alone.operands = cast("list[Instruction]", [_Name(name) for name in self.operands])
        alone.control_predecessors = cast("list[Instruction]", [_Name(name) for name in self.control_predecessors])
        return alone


class _Name(NamedTuple):
    """What is left of an operand in a line of text."""

    name: str


class Edit(NamedTuple):
    """An instruction before and after a step: None where it was not there, or is gone."""

    before: State | None
    after: State | None

    @property
    def place(self) -> tuple[str, str]:
        """The names of computation and instruction."""
        state = self.before or self.after
        assert state is not None
        return state.computation, state.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A rewrite, or with `index` None what a pass did without counting it.

    `index` counts all rewrites, as ``--rewrite-limit`` does, and `number` those of this run of the pass, as ``bisect``
    does, both from 1; `run` counts the runs of passes.  With `with_next` the pass makes the next rewrite without asking
    in between, so that no limit comes between the two.

    `unread` are instructions that nothing reads any more after it and that may go later; `around` are some that the
    others read, or that read them.  `source` is the place in the program's own source, `op_name` the framework's name.
    """

    index: int | None
    number: int | None
    run: int
    pass_name: str
    decision: Decision | None
    edits: tuple[Edit, ...]
    unread: tuple[State, ...] = ()
    around: tuple[State, ...] = ()
    source: str = ""
    op_name: str = ""
    with_next: bool = False


@dataclass(slots=True)
class _Open:
    """A rewrite that has been recorded, while its pass may still be at it."""

    decision: Decision
    index: int
    number: int
    subjects: list[Instruction]
    edits: _Edits = field(default_factory=dict)


_Pair = tuple[State | None, State | None]
_Edits = dict[Instruction, _Pair]


class RewriteTrace(DecisionLog):
    """A decision log that also has the trace, in `steps`, once `finish` was called.

    Passes run as ever: ``optimise(module, pipeline, log=trace)``.  One trace is for one module.
    """

    def __init__(self, rewrites: int = 0) -> None:
        super().__init__(rewrites=rewrites)
        self.steps: list[Step] = []
        self._module: Module | None = None
        self._sources: Sources | None = None
        self._edited: dict[Instruction, None] = {}
        self._known: dict[Instruction, State] = {}
        self._open: _Open | None = None
        self._loose: _Edits = {}
        self._unread: set[Instruction] = set()
        self._run = self._before_run = 0
        self._stage = 0  # steps ahead of the first that this module has: it may have to begin anew
        self._rewound = False

    # ---- what passes say

    def start_pass(self, name: str, run: int, module: Module) -> None:
        super().start_pass(name, run, module)
        if module is not self._module:
            self._attach(module, run)
        self._run, self._before_run = run, self.rewrites

    def end_pass(self, changed: bool) -> None:
        self._close()
        if changed and self._module is not None:
            self._edited.update(dict.fromkeys(self._known))
            self._edited.update(dict.fromkeys(self._module.instructions()))
            self._gather(self._loose)
        self._flush()

    def allow(self) -> bool:
        if self._open is not None:
            self._close()
        elif self._edited:
            self._gather(self._loose)
        return super().allow()

    def rewrite(
        self,
        rule: str,
        before: Instruction | str | Sequence[Instruction | str],
        after: Instruction | str | Sequence[str] = (),
        reason: str = "",
        **numbers: float,
    ) -> None:
        if self._open is not None:
            self._close(with_next=True)
        self._flush()
        super().rewrite(rule, before, after, reason, **numbers)
        given = [before, after] if isinstance(before, Instruction | str) else [*before, after]
        subjects = [one for one in given if isinstance(one, Instruction)]
        number = self.rewrites - self._before_run
        self._open = _Open(self.decisions[-1], self.rewrites, number, subjects)
        self._gather(self._open.edits)

    def rewind(self, decisions: int, rewrites: int) -> None:
        super().rewind(decisions, rewrites)
        self._open, self._rewound = None, True
        self._loose.clear()

    def finish(self) -> None:
        """Note what was still going on, as where a pass failed; and forget what came of runs that were thrown away."""
        self._close()
        self._gather(self._loose)
        self._flush()
        if self._rewound:
            self.steps = [step for step in self.steps if step.index is None or step.index <= self.rewrites]

    # ---- what came of it

    def _attach(self, module: Module, run: int) -> None:
        """Watch another module: a copy of the last one, or of the one that came in where passes begin anew."""
        self._close()
        self._flush()
        if self._rewound:
            del self.steps[self._stage :]
        known = {instruction: _state(instruction) for instruction in module.instructions()}
        if self._known and not self._rewound:
            edits = _edits_between(self._known.values(), known.values())
            if edits:
                self.steps.append(Step(index=None, number=None, run=run, pass_name="", decision=None, edits=edits))
        self._module, self._sources = module, Sources(module)
        self._known, self._edited = known, module.watch_edits()
        self._stage, self._rewound = len(self.steps), False

    def _close(self, with_next: bool = False) -> None:
        """The pass goes on to something else: the rewrite that was recorded last is complete."""
        made = self._open
        if made is None:
            return
        self._open = None
        if not with_next:
            self._edited.update(dict.fromkeys(made.subjects))
            self._gather(made.edits)
        earlier = [i for i, (_, after) in made.edits.items() if after is None and i in self._unread]
        self._loose.update((instruction, made.edits.pop(instruction)) for instruction in earlier)
        unread = self._newly_unread(made.edits)
        assert self._sources is not None
        source, op_name = _origin(self._sources, [*made.subjects, *made.edits])
        self.steps.append(Step(
            index=made.index, number=made.number, run=self._run, pass_name=self.pass_name, decision=made.decision,
            edits=_paired(made.edits.values()), unread=tuple([self._known[i] for i in unread]),
            around=self._around(made.edits, unread), source=source, op_name=op_name,
            with_next=with_next,
        ))  # fmt: skip

    def _flush(self) -> None:
        """What was edited without being counted is a step."""
        edits = _paired(self._loose.values())
        if edits:
            self.steps.append(Step(
                index=None, number=None, run=self._run, pass_name=self.pass_name, decision=None, edits=edits,
                around=self._around(self._loose),
            ))  # fmt: skip
        self._loose = {}

    def _gather(self, edits: _Edits) -> None:
        """Add to `edits` what became of the instructions that were edited.  Where one differs, its readers and the
        parameters of what it calls may have been given other shapes or indices."""
        stack = list(self._edited)
        self._edited.clear()
        stack.reverse()
        while stack:
            instruction = stack.pop()
            old, new = self._known.get(instruction), None
            parent = instruction.parent
            if parent is not None and parent.module is self._module:
                new = _state(instruction)
            if old == new:
                continue
            if new is None:
                del self._known[instruction]
            else:
                self._known[instruction] = new
            first = edits[instruction][0] if instruction in edits else old
            if first == new:
                del edits[instruction]
            else:
                edits[instruction] = first, new
            if old is not None and new is not None and (old.shape, old.attributes) != (new.shape, new.attributes):
                stack += instruction.users
                stack += [parameter for callee in instruction.called for parameter in callee.parameters]

    def _newly_unread(self, edits: _Edits) -> list[Instruction]:
        """What was read by something that is gone, or that reads something else now, and is read by nothing more."""
        found: dict[Instruction, None] = {}
        stack = [one for before, _ in edits.values() if before is not None for one in before.sources]
        while stack:
            instruction = stack.pop()
            if instruction in self._unread or instruction not in self._known or instruction.opcode == "parameter":
                continue
            if instruction.is_root or any(user not in self._unread for user in instruction.users):
                continue
            if is_pure(instruction):
                found[instruction] = None
                self._unread.add(instruction)
                stack += instruction.operands
        return list(found)

    def _around(self, edits: _Edits, unread: Sequence[Instruction] = ()) -> tuple[State, ...]:
        """What the edited and unread instructions read, before or after, and some of what reads the edited ones."""
        near = [one for edit in edits.values() for state in edit if state is not None for one in state.sources]
        near += [one for instruction in unread for one in instruction.operands]
        for instruction in edits:
            if len(near) >= _MOST_NEIGHBOURS:
                break
            near += [user for _, user in zip(range(_MOST_READERS), instruction.users, strict=False)]
        shown = {*edits, *unread}
        near = [one for one in dict.fromkeys(near) if one not in shown and one in self._known]
        return tuple(self._known[one] for one in near[:_MOST_NEIGHBOURS])


def _origin(sources: Sources, instructions: Iterable[Instruction]) -> tuple[str, str]:
    """The place in the program's own source that the first of the instructions knows, and its ``op_name``."""
    for instruction in instructions:
        metadata = instruction.metadata
        if metadata is not None:
            place = sources.of(instruction)
            return f"{place.file}:{place.line}" if place is not None else "", metadata.op_name
    return "", ""


def step_between(before: Module, after: Module, pass_name: str, decisions: Sequence[Decision]) -> Step:
    """The step that turned one module into another, whose instructions are found again by name."""
    old, new = ({i: _state(i) for i in module.instructions()} for module in (before, after))
    edits = _edits_between(old.values(), new.values())
    edited = {edit.place for edit in edits}
    around: dict[tuple[str, str], State] = {}
    for edit in edits:
        for state, known in ((edit.before, old), (edit.after, new)):
            for one in () if state is None else state.sources:
                found = known[one]
                if (found.computation, found.name) not in edited and len(around) < _MOST_NEIGHBOURS:
                    around.setdefault((found.computation, found.name), found)
    touched = {edit.before.name for edit in edits if edit.before is not None}
    source, op_name = _origin(Sources(before), (i for i in old if i.name in touched))
    made = decisions[0] if decisions else None
    return Step(
        index=None, number=None, run=0, pass_name=pass_name, decision=made, edits=edits, around=tuple(around.values()),
        source=source, op_name=op_name,
    )  # fmt: skip


def _edits_between(old: Iterable[State], new: Iterable[State]) -> tuple[Edit, ...]:
    """How two modules differ, whose instructions are found again by name."""
    before = {(state.computation, state.name): state for state in old}
    after = {(state.computation, state.name): state for state in new}
    pairs = [Edit(state, after.get(place)) for place, state in before.items()]
    pairs += [Edit(None, state) for place, state in after.items() if place not in before]
    return _in_order(pair for pair in pairs if not _same_line(*pair))


def _in_order(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """What goes, what is new, what changes."""
    return tuple(sorted(edits, key=lambda edit: 2 if None not in edit else int(edit.before is None)))


def _same_line(before: State | None, after: State | None) -> bool:
    """Whether the line is the same; a constant may differ where its elements are elided."""
    if before is None or after is None or before.shape != after.shape or before.operands != after.operands:
        return before is after
    return before.line == after.line and (before.opcode != "constant" or before.attributes == after.attributes)


def _paired(edits: Iterable[_Pair]) -> tuple[Edit, ...]:
    """Edits by name: an instruction that takes over the name of another one is a change of it."""
    before: dict[tuple[str, str], State | None] = {}
    after: dict[tuple[str, str], State | None] = {}
    for old, new in edits:
        for found, state in ((before, old), (after, new)):
            if state is not None:
                found[state.computation, state.name] = state
    pairs = [Edit(before.get(place), after.get(place)) for place in dict.fromkeys([*before, *after])]
    return _in_order(pairs)


def _state(instruction: Instruction) -> State:
    parent = instruction.parent
    assert parent is not None
    operands = instruction.operands
    return State(
        parent.name, instruction.name, instruction.opcode, instruction.shape, tuple(operands),
        tuple([operand.name for operand in operands]), tuple(instruction.attributes.items()),
        tuple([before.name for before in instruction.control_predecessors]), instruction.is_root,
    )  # fmt: skip
