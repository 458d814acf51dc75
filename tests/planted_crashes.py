"""Planted crashes: passes that fail on something rare, as plug-ins, and how far modules that show it are cut down.

    python tests/planted_crashes.py [NAME...]      a table: instructions before, after, seconds, what is left of it

Each pass raises something, leaves an invalid module, never ends or ends the process, where a pattern stands in the
module; the modules, of 500 to 20,000 instructions, have that in one place, far from their borders.  Exit code 1 where
one is not cut down to `MOST` instructions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.passes.framework.steps import Pass

MOST = 12
"""Instructions that may be left."""


def _found(module: Module, opcode: str) -> Iterator[Instruction]:
    for computation in module.computations.values():
        for instruction in computation:
            if instruction.opcode == opcode:
                yield instruction


@dataclass(frozen=True, slots=True)
class MissingKey:
    """KeyError with the name of an instruction: a sine of a cosine."""

    name: ClassVar[str] = "crash-missing-key"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for sine in _found(module, "sine"):
            if sine.operands[0].opcode == "cosine":
                raise KeyError(sine.name)
        return False


@dataclass(frozen=True, slots=True)
class Assertion:
    """AssertionError without a word: a maximum whose operands are a product and a sum of one value."""

    name: ClassVar[str] = "crash-assertion"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for maximum in _found(module, "maximum"):
            left, right = maximum.operands
            assert (left.opcode, right.opcode) != ("multiply", "add") or left.operands[0] is not right.operands[0]
        return False


@dataclass(frozen=True, slots=True)
class WrongShape:
    """An invalid module: a reverse gets the shape of a transpose that reads it."""

    name: ClassVar[str] = "crash-wrong-shape"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for transpose in _found(module, "transpose"):
            if transpose.operands[0].opcode == "reverse" and transpose.shape != transpose.operands[0].shape:
                transpose.operands[0].shape = transpose.shape
                return True
        return False


@dataclass(frozen=True, slots=True)
class Unordered:
    """An invalid module: a clamp is moved ahead of what it reads."""

    name: ClassVar[str] = "crash-unordered"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for clamp in _found(module, "clamp"):
            if clamp.operands[1].opcode == "negate":
                assert clamp.parent is not None
                clamp.parent.move_before(clamp, clamp.operands[1])
                return True
        return False


@dataclass(frozen=True, slots=True)
class Recursive:
    """RecursionError: chains of three tanh."""

    name: ClassVar[str] = "crash-recursion"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for tanh in _found(module, "tanh"):
            if tanh.operands[0].opcode == "tanh" and tanh.operands[0].operands[0].opcode == "tanh":
                self.run(module, log)
        return False


@dataclass(frozen=True, slots=True)
class InLoop:
    """IndexError in a loop only: a floor in its body."""

    name: ClassVar[str] = "crash-in-loop"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for loop in _found(module, "while"):
            body = loop.attributes["body"]
            if any(instruction.opcode == "floor" for instruction in body):
                raise IndexError(f"no row {len(body)}")
        return False


@dataclass(frozen=True, slots=True)
class LargeReduce:
    """ZeroDivisionError by size: reductions of a product along a dimension of 48."""

    name: ClassVar[str] = "crash-large-reduce"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for reduce in _found(module, "reduce"):
            (axis, *_) = reduce.attributes["dimensions"]
            if reduce.operands[0].shape.dimensions[axis] % 48 == 0 and reduce.operands[0].opcode == "multiply":
                return bool(1 // (reduce.operands[0].shape.dimensions[axis] % 48))
        return False


@dataclass(frozen=True, slots=True)
class FarApart:
    """ValueError of two things far apart: an atan2 and an expm1."""

    name: ClassVar[str] = "crash-far-apart"

    def run(self, module: Module, log: DecisionLog) -> bool:
        if {"atan2", "exponential-minus-one"} <= module.opcodes():
            raise ValueError("both")
        return False


@dataclass(frozen=True, slots=True)
class Budget:
    """More instructions than a pass may make: it never stops adding to a cbrt of a sum."""

    name: ClassVar[str] = "crash-budget"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for root in _found(module, "cbrt"):
            while root.operands[0].opcode == "add" and root.parent is not None:
                root.parent.add(Instruction("negate", root.shape, [root.operands[0]]), before=root)
        return False


@dataclass(frozen=True, slots=True)
class Death:
    """The end of the process: a remainder of a broadcast."""

    name: ClassVar[str] = "crash-death"

    def run(self, module: Module, log: DecisionLog) -> bool:
        for remainder in _found(module, "remainder"):
            if remainder.operands[1].opcode == "broadcast":
                os.abort()
        return False


PASSES: tuple[type[Pass], ...] = (
    MissingKey, Assertion, WrongShape, Unordered, Recursive, InLoop, LargeReduce, FarApart, Budget, Death,
)  # fmt: skip

_FILLER = (
    "f32[48,64] add({0}, {1})",
    "f32[48,64] multiply({0}, {1})",
    "f32[48,64] tanh({0})",
    "f32[48,64] subtract({1}, {0})",
    "f32[48,64] maximum({0}, {1})",
    "f32[48,64] negate({0})",
    "f32[48,64] logistic({1})",
    "f32[48,64] abs({1})",
)
_PLANTED: dict[str, tuple[str, ...]] = {
    "crash-missing-key": ("f32[48,64] cosine({0})", "f32[48,64] sine({p})"),
    "crash-assertion": (
        "f32[48,64] multiply({0}, {1})", "f32[48,64] add({0}, {1})", "f32[48,64] maximum({pp}, {p})",
    ),
    "crash-wrong-shape": (
        "f32[48,64] reverse({0}), dimensions={{0}}", "f32[64,48] transpose({p}), dimensions={{1,0}}",
        "f32[48,64] transpose({p}), dimensions={{1,0}}",
    ),
    "crash-unordered": ("f32[48,64] negate({0})", "f32[48,64] clamp({1}, {p}, {0})"),
    "crash-recursion": ("f32[48,64] tanh({0})", "f32[48,64] tanh({p})", "f32[48,64] tanh({p})"),
    "crash-in-loop": (
        "s32[] constant(0)", "(s32[], f32[48,64]) tuple({p}, {0})",
        "(s32[], f32[48,64]) while({p}), condition=limit, body=body", "f32[48,64] get-tuple-element({p}), index=1",
    ),
    "crash-large-reduce": (
        "f32[] constant(0)", "f32[48,64] multiply({0}, {1})",
        "f32[64] reduce({p}, {pp}), dimensions={{0}}, to_apply=sum", "f32[48,64] broadcast({p}), dimensions={{1}}",
    ),
    "crash-far-apart": ("f32[48,64] atan2({0}, {1})",),
    "crash-budget": ("f32[48,64] add({0}, {1})", "f32[48,64] cbrt({p})"),
    "crash-death": (
        "f32[] constant(3)", "f32[48,64] broadcast({p}), dimensions={{}}", "f32[48,64] remainder({0}, {p})",
    ),
}  # fmt: skip
_CALLED = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

limit {
  state = (s32[], f32[48,64]) parameter(0)
  at = s32[] get-tuple-element(state), index=0
  end = s32[] constant(7)
  ROOT less = pred[] compare(at, end), direction=LT
}

body {
  state.1 = (s32[], f32[48,64]) parameter(0)
  at.1 = s32[] get-tuple-element(state.1), index=0
  one = s32[] constant(1)
  next = s32[] add(at.1, one)
  x = f32[48,64] get-tuple-element(state.1), index=1
  half = f32[48,64] floor(x)
  y = f32[48,64] subtract(x, half)
  ROOT all = (s32[], f32[48,64]) tuple(next, y)
}
"""


def module_with(name: str, size: int) -> str:
    """A module of about so many instructions with what the pass `name` fails on, past its middle."""
    lines = [f"v{n} = f32[48,64] parameter({n})" for n in range(4)]
    values = [f"v{n}" for n in range(4)]

    def add(template: str) -> None:
        near = [value for value in values[-9:] if value not in strange]
        operands = near[-1 - len(lines) % 3], near[-1 - len(lines) % 4]
        lines.append(f"v{len(lines)} = " + template.format(*operands, p=values[-1], pp=values[-2]))
        values.append(f"v{len(lines) - 1}")
        if not template.startswith("f32[48,64]"):
            strange.add(values[-1])

    strange: set[str] = set()
    place = size * 5 // 8
    for number in range(size):
        if number == place:
            for template in _PLANTED[name]:
                add(template)
        if name == "crash-far-apart" and number == size // 5:
            add("f32[48,64] exponential-minus-one({0})")
        add(_FILLER[(number * number + number // 7) % len(_FILLER)])
    lines[-1] = "ROOT " + lines[-1]
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule planted\n{_CALLED}\nENTRY main {{\n{body}\n}}\n"


def install(folder: Path) -> dict[str, str]:
    """Make a package of the passes in `folder`; the environment in which it is found."""
    information = folder / "planted_crashes-1.0.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (folder / "planted_crashes.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-crashes\nVersion: 1.0\n")
    rows = "".join(f"{pass_.name} = planted_crashes:{pass_.__name__}\n" for pass_ in PASSES)
    (information / "entry_points.txt").write_text(f"[hlotool.passes]\n{rows}")
    root = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, [str(root), str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def main(names: list[str]) -> int:
    """Each crash in a module of a size of its own."""
    large = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = install(Path(folder) / "packages")
        for number, pass_ in enumerate(PASSES):
            size = _SIZES[number % len(_SIZES)]
            if names and pass_.name not in names:
                continue
            whole, small = Path(folder) / "whole.hlo", Path(folder) / f"{pass_.name}.hlo"
            whole.write_text(module_with(pass_.name, size), encoding="utf-8")
            command = ["reduce", whole, "-o", small, "-p", f"tuple-simplifier,{pass_.name},simplify"]
            begin = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "hlotool", *map(str, command)],
                env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            seconds = time.perf_counter() - begin
            left = small.read_text(encoding="utf-8").count(" = ") if small.exists() else -1
            large += not 0 < left <= MOST
            print(f"{pass_.name:20}{size:8}{left:5}{seconds:8.1f} s  {done.stderr.splitlines()[0]}", flush=True)
    return 1 if large else 0


_SIZES = (500, 1000, 2000, 5000, 20000)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
