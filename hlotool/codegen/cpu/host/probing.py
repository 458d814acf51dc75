"""Writes the probes of functions that are profiled; where nothing is profiled it writes nothing.

A function keeps the time of its last probe.  The next one has all that passed since: one look at the clock for each,
and no time that nobody has.  Arithmetic on single elements takes less than such a look, so it is counted with the step
that follows, unless there is much of it.  Small loops, which are one function otherwise, have steps like all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.kernel import signature
from hlotool.codegen.llvm.control import allocate, ask, call
from hlotool.codegen.llvm.values import Int, Ptr
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.plan.probes import Probe
from hlotool.codegen.plan.steps import HOST, Steps, inside, is_element, is_scalar_code
from hlotool.codegen.plan.values import Copy
from hlotool.ir import Instruction

__all__ = ["Probing"]

_MUCH = 16
"""Operations on single elements that are worth a look at the clock."""

_MUCH_DATA = 4096
"""Copied bytes that are."""

_TRIPS = 1000
"""What a loop is taken for of which nobody knows how often it runs."""


class Probing:
    """The probes of the function of a computation, called `scope`; they go to `probes`, if that is not None."""

    def __init__(self, probes: list[Probe] | None, unit: Unit, steps: Steps, scope: str) -> None:
        self.probes = probes
        self.unit = unit
        self.steps = steps
        self.name = self.scope = scope
        self.last: Ptr | None = None  # when the function that is being written passed a probe; None where it has none
        self.f: Function | None = None
        self.pending = 0  # operations on single elements since then
        self.tasks = 0
        self.quiet: dict[Instruction, bool] = {}

    @property
    def is_on(self) -> bool:
        """Whether the function that is being written has probes."""
        return self.last is not None

    @contextmanager
    def function(self, f: Function, scope: str | None) -> Iterator[None]:
        """Function `f` is written, with probes of its own; without any if `scope` is None."""
        outer = self.f, self.last, self.scope, self.pending
        if self.probes is not None:
            self.f, self.last, self.scope, self.pending = f, None, scope or self.scope, 0
            if scope is not None:
                self.last = allocate(f, "i64")
                self.last.store(self._now(f))
        yield
        self.f, self.last, self.scope, self.pending = outer

    # ---- in the order of the program

    def before(self, instruction: Instruction) -> None:
        """A step, or what holds steps, comes next: if there was much arithmetic before it, that is counted apart."""
        if self.is_on and self.pending >= _MUCH and not self._is_small(instruction):
            self.mark("scalars", instruction, about=False)

    def after(self, instruction: Instruction) -> None:
        """`instruction`, which has no probe of its own, was written."""
        if not self.is_on:
            return
        if instruction.opcode == "while" and self._is_quiet(instruction):
            self.pending += self._work(instruction)
            if self.pending >= _MUCH:
                self.mark("loop", instruction)
        elif is_scalar_code(instruction) or is_element(instruction):
            self.pending += _operations(instruction)

    def copied(self, copies: Sequence[Copy], instruction: Instruction) -> None:
        """`copies` were written, for a loop or conditional, or for the results of the computation of its root."""
        moved = sum(copy.source.size for copy in copies if copy.source.find() is not copy.target.find())
        if self.is_on and moved >= _MUCH_DATA:
            self.mark("copy", instruction)

    def mark(
        self, kind: str, instruction: Instruction, *, about: bool = True, kernel: str = "", opens: str | None = None
    ) -> None:
        """What passed since the last probe belongs to `instruction`, or if it is not `about` it, to where it is."""
        if self.f is None or self.last is None or self.probes is None:
            return
        self.pending = 0
        number = self._probe(kind, self.scope, instruction, about, kernel, opens)
        call(self.f, self.unit.declare("void", "hlo_mark", ["ptr", "i64"]), self.last, number)

    @contextmanager
    def loop(self, instruction: Instruction) -> Iterator[None]:
        """The trips of a loop are written."""
        if self.f is None or self.last is None or self._is_quiet(instruction):
            yield
            return
        f, begin = self.f, self._now(self.f)
        yield
        self.mark("loop", instruction)
        span = self._probe("span", None, instruction, True, "", None)
        call(f, self.unit.declare("void", "hlo_span", ["i64", "i64"]), span, begin)

    # ---- on whichever thread

    def timed(self, function: str, instruction: Instruction, scope: str, opens: str | None = None) -> str:
        """A function of a step that does what `function` does, and says how long it took; or just `function`."""
        if self.probes is None:
            return function
        number = self._probe("tasks", scope, instruction, True, function, opens)
        return self._wrapped(function, number)

    def timed_all(self, functions: Iterable[str], instruction: Instruction, scope: str) -> list[str]:
        """The same for all functions of a kernel, which have one probe."""
        functions = list(functions)
        if self.probes is None or not functions:
            return functions
        number = self._probe("tasks", scope, instruction, True, functions[0], None)
        return [self._wrapped(function, number) for function in functions]

    def _wrapped(self, function: str, number: int) -> str:
        name = f"{self.name}_timed{self.tasks}"
        self.tasks += 1
        f = Function(self.unit, f"internal {signature(name, plumbing=True)}")
        begin = self._now(f)
        call(f, f"@{function}", Ptr(f, "%args"), Int(f, "%begin"), Int(f, "%end"))
        call(f, self.unit.declare("void", "hlo_span", ["i64", "i64"]), number, begin)
        f.finish()
        return name

    def _now(self, f: Function) -> Int:
        return ask(f, self.unit.declare("i64", "hlo_now", []), Int)

    def _probe(
        self, kind: str, scope: str | None, instruction: Instruction, about: bool, kernel: str, opens: str | None
    ) -> int:
        assert self.probes is not None
        computation = instruction.parent.name if instruction.parent is not None else ""
        self.probes.append(
            Probe(
                kind=kind, scope=scope, computation=computation, instruction=instruction if about else None,
                kernel=kernel, opens=opens,
            )
        )  # fmt: skip
        return len(self.probes) - 1

    # ---- what is worth a probe

    def _is_small(self, instruction: Instruction) -> bool:
        """Whether an instruction has no probe, nor anything in it."""
        if instruction in self.steps.kernels or instruction.opcode in HOST:
            return False
        return instruction.opcode != "while" or self._is_quiet(instruction)

    def _is_quiet(self, loop: Instruction) -> bool:
        """Whether a loop is nothing but arithmetic on single elements."""
        found = self.quiet.get(loop)
        if found is None:
            found = self.quiet[loop] = not any(i in self.steps.kernels or i.opcode in HOST for i in inside(loop))
        return found

    def _work(self, loop: Instruction) -> int:
        """Operations of such a loop, about."""
        trip = sum(_operations(i) for i in inside(loop) if self.steps.runs(i))
        return (known_trip_count(loop) or _TRIPS) * max(1, trip)


def _operations(instruction: Instruction) -> int:
    return len(instruction.attributes["calls"]) if instruction.opcode == "fusion" else 1
