"""Where the time of a fused kernel goes, inside: estimated from what its instructions cost, or measured by re-runs.

Re-runs are of the fusion alone, on the values that it reads in the program: whole, then without one of its instructions
(whatever reads it reads one of its operands instead), then without a further one, until only loads, stores and loops
are left.  All these programs take turns, and what an instruction takes is by how much quicker a program is without it
than the one before.  So the parts add up to the whole, which is then put in relation to the kernel's own time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.cost import ModuleCost
from hlotool.harness.capture import capture
from hlotool.harness.native_values import is_plain, with_results
from hlotool.harness.profile import shared
from hlotool.harness.statistics import summarise
from hlotool.ir import Computation, HloError, Instruction, Module, clone_module
from hlotool.ir.cut import cut
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable

__all__ = ["Inside", "Part", "estimated", "peeled", "read_values", "remeasured"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

_TRANSCENDENTAL = 12.0
_BYTE = 0.5
"""Operations that a transcendental function, and a byte read or written, is taken for."""

_MOST_PROGRAMS = 24
"""Programs that are made of one fusion; of longer ones several instructions go at a time."""
_FEWEST, _MOST = 5, 1000
"""Rounds in which each runs once."""
_TRIVIAL = frozenset(
    ["parameter", "constant", "iota", "broadcast", "reshape", "bitcast", "tuple", "get-tuple-element"]
)  # fmt: skip
"""What costs next to nothing by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the kernel of a fusion: `instruction` of its computation, or None for the rest; parameters stand for
    their reading.  `share` is of the kernel's time.

    Of ``re-run`` parts `seconds` is what was measured, which may be below zero where it drowns in noise, and `noise`
    half of the 95 % interval of that median; `others` went with the instruction, and count with it.
    """

    instruction: Instruction | None
    share: float
    how: Literal["estimated", "re-run"]
    seconds: float | None = None
    noise: float | None = None
    others: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Inside:
    """The parts of a fusion that were measured: `seconds` is the whole of it in the re-runs, of so many `programs`
    `runs` times each."""

    parts: tuple[Part, ...]
    seconds: float
    programs: int
    runs: int


def estimated(fusion: Instruction, costs: ModuleCost) -> tuple[Part, ...]:
    """The parts of a fusion, those that cost nothing left out; shares add up to 1."""
    body: Computation = fusion.attributes["calls"]
    weights: list[tuple[Instruction, float]] = []
    for instruction in body:
        if instruction.opcode == "parameter":
            weight = _BYTE * (instruction.shape.byte_size if instruction.shape.is_array else 0)
        else:
            cost = costs.own(instruction)
            weight = cost.flops + _TRANSCENDENTAL * cost.transcendentals
            if instruction is body.root:
                weight += _BYTE * sum(leaf.byte_size for leaf in instruction.shape.leaves() if leaf.is_array)
        if weight:
            weights.append((instruction, float(weight)))
    total = sum(weight for _, weight in weights)
    return tuple(Part(instruction=one, share=weight / total, how="estimated") for one, weight in weights)


# ---- re-runs


def read_values(
    module: Module,
    arguments: Sequence[npt.NDArray[Any]],
    fusions: Sequence[Instruction],
    compile_: Callable[[Module], Callable[..., Arrays]],
) -> dict[Instruction, Arrays]:
    """The arrays of all that `fusions` read: native ones of the entry computation, else those of the evaluator in the
    first run of a computation.  `compile_` makes native code without passes."""
    wanted = dict.fromkeys(operand for fusion in fusions for operand in fusion.operands)
    native = [one for one in wanted if one.parent is module.entry and is_plain(one.shape)]
    found: dict[Instruction, Arrays] = {}
    if native:
        variant, counts = with_results(module, native)
        given = iter(compile_(variant)(*arguments)[-sum(counts) :])
        found = {one: tuple(next(given) for _ in range(count)) for one, count in zip(native, counts, strict=True)}
    rest = [one for one in wanted if one not in found]
    return {**found, **(capture(module, arguments, rest) if rest else {})}


def remeasured(
    fusion: Instruction,
    values: dict[Instruction, Arrays],
    compile_: Callable[[Module], Executable],
    seconds: float = 0.5,
) -> Inside | None:
    """The parts of a fusion by re-runs for so many seconds; None where there is nothing to take out.

    `compile_` makes native code with probes and without passes; `values` has what the fusion reads.  HloError where the
    fusion does not run alone.
    """
    made = cut([fusion])
    arguments = [array for source in made.parameters for array in values[source]]
    programs, groups = [compile_(made.module)], list[list[Instruction]]()
    waiting: list[Instruction] = []
    steps = peeled(made.module)
    every = -(-len(steps) // (_MOST_PROGRAMS - 1))
    own = {one.name: one for one in fusion.attributes["calls"]}
    for number, (variant, gone) in enumerate(steps, 1):
        waiting += [own[name] for name in gone]
        if number % every and number < len(steps):
            continue
        with suppress(HloError):  # not every rest of a fusion has code: then more goes at a time
            check(variant)
            programs.append(compile_(variant))
            groups.append(waiting)
            waiting = []
    if not groups:
        return None
    times = _in_turns(programs, arguments, seconds)
    differences = [summarise(list(times[:, n] - times[:, n + 1])) for n in range(len(groups))]
    rest = summarise(list(times[:, -1]))
    rows = [*zip(groups, differences, strict=True), (list[Instruction](), rest)]
    total = sum(max(0.0, row.median) for _, row in rows) or 1.0
    parts = [
        Part(
            instruction=group[0] if group else None, share=max(0.0, row.median) / total, how="re-run",
            seconds=row.median, noise=(row.high - row.low) / 2, others=tuple(group[1:]),
        )
        for group, row in rows
    ]  # fmt: skip
    return Inside(tuple(parts), float(np.median(times[:, 0])), len(programs), len(times))


def _in_turns(
    programs: Sequence[Executable], arguments: Sequence[npt.NDArray[Any]], seconds: float
) -> npt.NDArray[np.float64]:
    """The native seconds of each program, round by round; a round runs all of them, in random order."""
    order, numbers = random.Random(0), list(range(len(programs)))
    for program in programs:
        program(*arguments)
    rounds: list[list[float]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < _FEWEST or (time.perf_counter() < end and len(rounds) < _MOST):
        order.shuffle(numbers)
        row = [0.0] * len(programs)
        for number in numbers:
            row[number] = _native_seconds(programs[number], arguments)
        rounds.append(row)
    return np.array(rounds)


def _native_seconds(executable: Executable, arguments: Sequence[npt.NDArray[Any]]) -> float:
    """What the entry function of one run takes, without Python's call."""
    program, recorder = executable.program, executable.recorder
    assert program is not None
    assert program.probes is not None
    assert recorder is not None
    recorder.reset()
    executable(*arguments)
    own = np.array([recorder.ticks], float)[:, : len(program.probes)] * recorder.nanoseconds_per_tick() * 1e-9
    return float(shared(program.probes, program.entry, own).sum())


def peeled(module: Module) -> list[tuple[Module, list[str]]]:
    """Copies of a module with one fusion in which one instruction is gone, then a further one, and so on; each with the
    names of those that went: the instruction, and what only it needed."""
    found: list[tuple[Module, list[str]]] = []
    while True:
        module = clone_module(module)
        (fusion,) = (one for one in module.entry if one.opcode == "fusion")
        gone = _without_one(fusion.attributes["calls"])
        if not gone:
            return found
        found.append((module, gone))


def _without_one(body: Computation) -> list[str]:
    """Take that instruction out of a body which takes the fewest others with it, the last of several."""
    best: tuple[int, Instruction, Instruction] | None = None
    for one in body:
        if not (one.has("elementwise") or one.opcode == "reverse") or one.opcode in _TRIVIAL:
            continue
        for operand in dict.fromkeys(one.operands):
            if operand.shape == one.shape and not (one.is_root and operand.opcode in _TRIVIAL):
                count = sum(other.opcode not in _TRIVIAL for other in _only_for(one, operand))
                if best is None or count <= best[0]:
                    best = count, one, operand
    if best is None:
        return []
    _, one, operand = best
    others = _only_for(one, operand)
    one.replace_all_uses(operand)
    for gone in (one, *others):
        if gone.opcode != "parameter":  # what calls it goes on giving it a value
            body.erase(gone)
    return [one.name, *(other.name for other in others if other.opcode not in ("constant", "broadcast"))]


def _only_for(one: Instruction, kept: Instruction) -> list[Instruction]:
    """What nobody needs once all that read `one` read `kept`, users ahead of what they read."""
    gone = {one: None}
    pending = [*one.operands]
    while pending:
        operand = pending.pop()
        if operand is kept or operand in gone or operand.is_root or not all(user in gone for user in operand.users):
            continue
        gone[operand] = None
        pending += operand.operands
    return list(gone)[1:]
