"""What is left out because it would change nothing or is known: runs of passes, walks for callees, equal structures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import pytest
from tiny_modules import TINY, tiny_module

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import Structures
from hlotool.driver import optimise
from hlotool.ir import OPCODES, Computation, Instruction, Module, clone_computation, clone_module
from hlotool.ir.opcodes import CALLING
from hlotool.passes import PASSES, Fixpoint, Pass, Pipeline, find_pass, run_pipeline
from hlotool.passes.framework.instruments import ChangeLog
from hlotool.passes.framework.rewriter import Rewriter
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

SELECTIVE = [name for name in PASSES if hasattr(find_pass(name), "opcodes")]
TEXT = """HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] negate(x)
  ROOT r = f32[8] negate(y)
}
"""

REDUCES = """HloModule m

one {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

same {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y), metadata={op_name="z"}
}

turned {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(b, a)
}

other {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}

ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  r = f32[] reduce(x, zero), dimensions={0}, to_apply=one
  s = f32[] reduce(x, zero), dimensions={0}, to_apply=same
  t = f32[] reduce(x, zero), dimensions={0}, to_apply=turned
  u = f32[] reduce(x, zero), dimensions={0}, to_apply=other
  ROOT all = (f32[], f32[], f32[], f32[]) tuple(r, s, t, u)
}
"""

SHARED = """HloModule m

twice {
  a = f32[8] parameter(0)
  ROOT b = f32[8] add(a, a)
}

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] call(x), to_apply=twice
  ROOT r = f32[8] call(y), to_apply=twice
}
"""


@cache
def modules() -> list[Module]:
    """A module for each opcode, and what the default pipeline makes of it."""
    plain = [parse(tiny_module(opcode)) for opcode in TINY]
    return [*plain, *(optimise(module) for module in plain)]


RUNS: list[str] = []


@dataclass(frozen=True, slots=True)
class Looks:
    """Records that it ran, and finds nothing."""

    name: ClassVar[str] = "looks"
    for_whom: str = ""

    def run(self, module: Module, log: DecisionLog) -> bool:
        RUNS.append(f"{self.name} {self.for_whom}".strip())
        return False


@dataclass(frozen=True, slots=True)
class LooksForCosines(Looks):
    """The same, for modules with a cosine or a sine."""

    name: ClassVar[str] = "looks-for-cosines"
    opcodes: ClassVar[frozenset[str]] = frozenset({"cosine", "sine"})


@dataclass(frozen=True, slots=True)
class Turns:
    """Makes the first negate a cosine."""

    name: ClassVar[str] = "turns"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for instruction in module.entry:
            if instruction.opcode == "negate":
                new = Rewriter(instruction).unary("cosine", instruction.operands[0])
                instruction.replace_all_uses(new)
                module.entry.erase(instruction)
                return True
        return False


def ran(*steps: Pass | Fixpoint) -> list[str]:
    RUNS.clear()
    run_pipeline(parse(TEXT), Pipeline(steps))
    return RUNS.copy()


def test_a_pass_runs_where_its_opcodes_are() -> None:
    assert ran(LooksForCosines()) == []
    assert ran(LooksForCosines(), Turns(), LooksForCosines()) == ["looks-for-cosines"]


def test_a_pass_that_found_nothing_rests_until_something_changes() -> None:
    assert ran(Looks(), Looks(), Turns(), Looks(), Looks()) == ["looks", "looks"]
    assert ran(Looks(), Looks("a"), Looks("b"), Looks("a")) == ["looks", "looks a", "looks b"]
    assert ran(Fixpoint((Looks(), Turns())), Looks()) == ["looks"] * 3  # before, between and after two changes


def test_instruments_see_runs_that_were_left_out() -> None:
    watch = ChangeLog()
    run_pipeline(parse(TEXT), Pipeline((LooksForCosines(), Looks(), Looks(), Turns())), None, [watch])
    assert [entry[:2] for entry in watch.entries] == [
        ("looks-for-cosines", False), ("looks", False), ("looks", False), ("turns", True)
    ]  # fmt: skip


@pytest.mark.parametrize("name", SELECTIVE)
def test_opcodes_of_a_pass_are_all_it_works_on(name: str) -> None:
    pass_ = find_pass(name)()
    opcodes: frozenset[str] = pass_.opcodes  # type: ignore[attr-defined]
    assert opcodes <= OPCODES.keys()
    others = [module for module in modules() if opcodes.isdisjoint(module.opcodes())]
    assert others
    for module in others:
        copy = clone_module(module)
        assert not pass_.run(copy, DecisionLog())
        assert print_module(copy) == print_module(module)


@dataclass(slots=True)
class CalleesAreRight:
    """An instrument that looks the calls and callees of every computation up again, and their order in the module."""

    seen: int = 0

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        for computation in module.computations.values():
            found = tuple(c for i in computation for c in i.called)
            assert computation.callees == found, (pass_.name, computation.name)
            assert computation.opcodes == {i.opcode for i in computation}
            assert computation.calls == tuple(i for i in computation if i.opcode in CALLING)
            self.seen += len(found)
        assert module.callees_first() == callees_first(module.entry), pass_.name


def callees_first(computation: Computation) -> list[Computation]:
    found: dict[Computation, None] = {}
    for instruction in computation:
        for callee in instruction.called:
            found.update(dict.fromkeys(callees_first(callee)))
    return [*found, computation]


def test_callees_are_kept_in_step() -> None:
    watch = CalleesAreRight()
    for opcode in TINY:
        if opcode in CALLING:
            optimise(parse(tiny_module(opcode)), "default", None, [watch])
            optimise(parse(tiny_module(opcode)), "lowering", None, [watch])
    optimise(parse(REDUCES), "default", None, [watch])
    optimise(parse(SHARED), "flatten-call-graph{calls=true}", None, [watch])
    assert watch.seen > 100


def test_callees_that_are_not_in_the_module_yet() -> None:
    module = parse(REDUCES)
    caller = next(i for i in module.entry if i.opcode == "reduce")
    assert module.callees_first()[0] is caller.called[0]
    body = clone_computation(caller.called[0], "later")
    caller.replace_called(lambda computation: body)
    assert module.callees_first()[0] is body
    inner = clone_computation(body, "inner")
    parameters = body.parameters
    body.root = body.add(Instruction("call", body.root.shape, parameters, {"to_apply": inner}))
    assert module.callees_first()[:2] == [inner, body]
    module.add(inner)
    module.add(body)
    assert module.callees_first()[:2] == [inner, body]


def test_structures() -> None:
    module = parse(REDUCES)
    structures = Structures()
    named: dict[str, Computation] = module.computations
    numbers = [structures.number(named[name]) for name in ("one", "same", "turned", "other")]
    assert numbers == [0, 0, 1, 2]
    reduces = [i for i in module.entry if i.opcode == "reduce"]
    keys = [structures.instruction(i) for i in reduces]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
