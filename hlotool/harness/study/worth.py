"""What compiling brings to the parts of a module: its instructions, fusions and clusters, predicted and measured.

What a fusion brings is by how much longer the program takes without it, when what is in it has kernels of its own; what
a cluster brings, by how much longer its operations take one by one than compiled together, on the values that they have
in the program.  Predictions are those of `hlotool.analysis.gain`, the rule by which the driver leaves clusters alone
that are not worth it: the study says how often it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.gain import USUAL, Figures, cluster_gain, eager_seconds, fusion_gain
from hlotool.driver import compile_module, optimise
from hlotool.harness.bench import Native, Timing, measure
from hlotool.harness.compare import compare_all
from hlotool.harness.native_values import is_plain, with_results
from hlotool.harness.op_by_op import op_by_op
from hlotool.harness.profile import Measurement
from hlotool.harness.roof import measure_roof
from hlotool.harness.times import best_time, measure_kernels
from hlotool.ir import Computation, HloError, Instruction, Module, UnsupportedError, array, clone_module
from hlotool.ir.builder import Builder
from hlotool.ir.cut import Cut, cut
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.isolation import simplify_kernel

__all__ = [
    "RUNS", "ClusterWorth", "Errors", "FusionWorth", "InstructionWorth", "ModuleWorth", "call_seconds", "study_module",
]  # fmt: skip

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

RUNS = (1, 100, 10_000, 1_000_000)
"""How often a cluster may run: whether it pays depends on that."""

_CHAIN = 64
"""Calls, or kernels, that have next to nothing to do, one after the other."""
_PLUMBING = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionWorth:
    """An instruction of the program as it is written.  `eager_s` is what it takes in a call of its own, `compiled_s`
    its part of the time of the kernels that compute it (by what it takes alone), None where no kernel says that it
    does."""

    name: str
    opcode: str
    eager_s: float
    predicted_s: float
    compiled_s: float | None

    @property
    def gain_s(self) -> float | None:
        return None if self.compiled_s is None else self.eager_s - self.compiled_s


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionWorth:
    """A fusion of the optimised program: the seconds of a run with all fusions, and without this one; `problem` says
    why there are none, or that numbers differ."""

    name: str
    operations: int
    predicted_s: float
    with_s: float | None = None
    without_s: float | None = None
    problem: str = ""

    @property
    def gain_s(self) -> float | None:
        return None if self.with_s is None or self.without_s is None else self.without_s - self.with_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWorth:
    """Operations that follow each other, from `first` to `last`: one by one, compiled, and the time to compile.

    `predicted_s` is the gain of a run as the rule has it, and `predicted_compile_s` the time to compile as it follows
    from the other clusters.
    """

    first: str
    last: str
    operations: int
    predicted_s: float
    predicted_compile_s: float = 0.0
    eager_s: float | None = None
    compiled_s: float | None = None
    compile_s: float | None = None
    problem: str = ""

    @property
    def gain_s(self) -> float | None:
        return None if self.eager_s is None or self.compiled_s is None else self.eager_s - self.compiled_s

    def pays(self, runs: int) -> bool | None:
        """Whether compiling pays over so many runs; None where it was not measured."""
        gain = self.gain_s
        return None if gain is None or self.compile_s is None else gain * runs > self.compile_s

    def predicted_to_pay(self, runs: int) -> bool:
        """What the rule says."""
        return self.predicted_s * runs > self.predicted_compile_s


@dataclass(frozen=True, slots=True)
class Errors:
    """The rule over so many runs of each cluster: how many there are, how many it compiles that do not pay, and how
    many that would pay it leaves."""

    runs: int
    clusters: int
    compiled_in_vain: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleWorth:
    """A module: seconds of a run one by one and compiled, to compile it, and the same of its parts."""

    eager_s: float
    compiled_s: float
    compile_s: float
    figures: Figures
    instructions: tuple[InstructionWorth, ...]
    fusions: tuple[FusionWorth, ...]
    clusters: tuple[ClusterWorth, ...]

    @property
    def errors(self) -> tuple[Errors, ...]:
        """How often the rule is wrong, by the number of runs."""
        found = []
        for runs in RUNS:
            answers = [(one.predicted_to_pay(runs), one.pays(runs)) for one in self.clusters]
            known = [(said, so) for said, so in answers if so is not None]
            found.append(
                Errors(runs, len(known), sum(said and not so for said, so in known),
                       sum(so and not said for said, so in known))
            )  # fmt: skip
        return tuple(found)


def study_module(
    module: Module,
    arguments: Sequence[npt.NDArray[Any]],
    *,
    fusions: int,
    clusters: int,
    seconds: float,
    threads: int | None = None,
    tell: Callable[[str], None] = lambda words: None,
) -> ModuleWorth:
    """Measure at most so many of the largest fusions and of clusters, `seconds` for each way to run each.

    UnsupportedError names an instruction without native code; ExecutionError and the like come from running it.
    """
    tell("measuring the machine ...")
    measured = Figures(
        call_seconds(threads), _start_seconds(threads), measure_roof(threads, min(seconds, 0.2)), USUAL.compile,
        USUAL.compile_operation,
    )  # fmt: skip
    lowered = optimise(module)
    whole = _Study(module, lowered, arguments, measured, seconds, threads)
    tell("the whole program ...")
    eager, ours, compile_s = whole.program()
    instructions = whole.instructions()
    found_fusions = []
    for fusion in whole.fusions(fusions):
        tell(f"without {fusion.name} ...")
        found_fusions.append(whole.without(fusion))
    found_clusters = []
    pieces = _pieces([one for one in module.entry if one.opcode not in ("parameter", "constant")], clusters)
    values = whole.values(pieces)
    for piece in pieces:
        tell(f"{piece[0].name} to {piece[-1].name} ...")
        found_clusters.append(whole.cluster(piece, values))
    costs, figures = _fitted(found_clusters), measured
    if costs is not None:
        figures = Figures(measured.call, measured.start, measured.roof, *costs)
    return ModuleWorth(
        eager_s=eager, compiled_s=ours, compile_s=compile_s, figures=figures, instructions=tuple(instructions),
        fusions=tuple(found_fusions), clusters=tuple(_with_compile_times(found_clusters, figures)),
    )  # fmt: skip


def call_seconds(threads: int | None = None, seconds: float = 0.1) -> float:
    """What a call takes that computes next to nothing, as one of a module that runs op by op."""
    run, number = op_by_op(_negations(), threads), np.ones((), np.float32)
    return best_time(lambda: run(number), seconds) / _CHAIN


def _start_seconds(threads: int | None, seconds: float = 0.1) -> float:
    """What a further kernel takes in a program."""
    line = np.ones(8, np.float32)
    long, short = (
        compile_module(_negations(count, (8,)), pipeline="none", threads=threads).run for count in (_CHAIN, 1)
    )
    times = [best_time(lambda run=run: run(line), seconds) for run in (long, short)]  # type: ignore[misc]
    return max(0.0, times[0] - times[1]) / (_CHAIN - 1)


def _negations(count: int = _CHAIN, dimensions: tuple[int, ...] = ()) -> Module:
    """So many operations, each of the last one's result."""
    module, entry = Module("calls"), Computation("main")
    build = Builder(entry)
    entry.root = build.parameter(0, array("f32", dimensions))
    for _ in range(count):
        entry.root = build.unary("negate", entry.root)
    module.add(entry, entry=True)
    return module


class _Study:
    """A module, the same as passes left it, and what it is run on."""

    def __init__(
        self, module: Module, lowered: Module, arguments: Sequence[npt.NDArray[Any]], figures: Figures, seconds: float,
        threads: int | None,
    ) -> None:
        self.module, self.lowered, self.arguments, self.figures = module, lowered, arguments, figures
        self.seconds, self.threads = seconds, threads
        self.costs, self.lowered_costs = ModuleCost(module), ModuleCost(lowered)

    def compiled(self, module: Module, pipeline: str = "none") -> Callable[..., Arrays]:
        return compile_module(module, pipeline=pipeline, threads=self.threads).run

    def program(self) -> tuple[float, float, float]:
        """Seconds one by one, compiled, and to compile."""
        eager, ours = self._measured(self.module, self.arguments)
        if _apart(eager, ours):
            raise UnsupportedError(
                f"compiled and op by op the module computes different numbers ({_apart(eager, ours)}): "
                "hlotool run --compare evaluate says which are wrong"
            )
        return eager.steady.median, ours.steady.median, ours.started.compile

    def _measured(self, module: Module, arguments: Sequence[npt.NDArray[Any]]) -> tuple[Timing, Timing]:
        """The module one by one and compiled, in turns."""
        ways = [
            Native("op by op", lambda: module, lambda one: op_by_op(one, self.threads), arguments),
            Native("compiled", lambda: module, lambda one: self.compiled(one, "default"), arguments),
        ]
        eager, ours = measure(ways, 5, self.seconds, self.seconds)
        return eager, ours

    def instructions(self) -> list[InstructionWorth]:
        """What each instruction takes alone, and as a part of the compiled program."""
        alone = measure_kernels(self.module, self.arguments, self.seconds, self.threads)
        bare, probed = (
            compile_module(self.lowered, pipeline="none", threads=self.threads, profiled=flag) for flag in (False, True)
        )
        measurement = Measurement(bare, probed, self.arguments, self.threads)
        measurement.run(self.seconds)
        entry = self.module.entry
        taken = {name: seconds for (computation, name), seconds in alone.items() if computation == entry.name}
        parts: dict[str, float] = {}
        for step in measurement.profile().steps:
            sources = [one for one in _sources(step.instruction) if one in taken] if step.instruction else []
            weight = sum(taken[one] for one in sources)
            for one in sources:
                share = taken[one] / weight if weight else 1 / len(sources)
                parts[one] = parts.get(one, 0.0) + step.seconds * share
        return [
            InstructionWorth(
                name=one.name, opcode=one.opcode, eager_s=taken[one.name],
                predicted_s=eager_seconds(one, self.costs, self.figures), compiled_s=parts.get(one.name),
            )
            for one in entry
            if one.name in taken
        ]  # fmt: skip

    def fusions(self, most: int) -> list[Instruction]:
        """The fusions of the entry from which most is to be expected."""
        found = [one for one in self.lowered.entry if one.opcode == "fusion"]
        return sorted(found, key=lambda one: -fusion_gain(one, self.lowered_costs, self.figures))[:most]

    def without(self, fusion: Instruction) -> FusionWorth:
        """The program in which that fusion is not made."""
        row = FusionWorth(
            name=fusion.name, operations=sum(one.opcode not in _PLUMBING for one in fusion.attributes["calls"]),
            predicted_s=fusion_gain(fusion, self.lowered_costs, self.figures),
        )  # fmt: skip
        variant = clone_module(self.lowered)
        simplify_kernel(variant, next(one for one in variant.entry if one.name == fusion.name))
        ways = [
            Native("with", lambda: self.lowered, self.compiled, self.arguments),
            Native("without", lambda: variant, self.compiled, self.arguments),
        ]
        try:
            check(variant)
            made, split = measure(ways, 5, self.seconds, self.seconds)
        except HloError as error:
            return replace(row, problem=str(error))
        apart = _apart(split, made)
        if apart:
            return replace(row, problem=apart)
        return replace(row, with_s=made.steady.median, without_s=split.steady.median)

    def values(self, pieces: Sequence[Sequence[Instruction]]) -> Mapping[Instruction, Arrays]:
        """The arrays of all that a piece reads from outside."""
        wanted: dict[Instruction, None] = {}
        for piece in pieces:
            inside = set(piece)
            wanted.update((o, None) for one in piece for o in one.operands if o not in inside)
        found: dict[Instruction, Arrays] = {}
        at = 0
        for parameter in self.module.entry.parameters:
            count = sum(leaf.is_array for leaf in parameter.shape.leaves())
            found[parameter] = tuple(self.arguments[at : at + count])
            at += count
        made = [one for one in wanted if one not in found and one.opcode != "constant" and is_plain(one.shape)]
        if made:
            variant, counts = with_results(self.module, made)
            given = iter(self.compiled(variant)(*self.arguments)[-sum(counts) :])
            found |= {one: tuple(next(given) for _ in range(count)) for one, count in zip(made, counts, strict=True)}
        return found

    def cluster(self, piece: Sequence[Instruction], values: Mapping[Instruction, Arrays]) -> ClusterWorth:
        """A piece as a program of its own, one by one and compiled."""
        predicted = cluster_gain(piece, self.costs, self.figures)
        count = sum(one.opcode not in _PLUMBING for one in piece)
        row = ClusterWorth(first=piece[0].name, last=piece[-1].name, operations=count, predicted_s=predicted)
        try:
            made: Cut = cut(piece, in_order=True)
            arguments = [one for source in made.parameters for one in values[source]]
            eager, ours = self._measured(made.module, arguments)
        except HloError as error:
            return replace(row, problem=str(error))
        except KeyError as error:
            return replace(row, problem=f"it reads {getattr(error.args[0], 'name', error)}, which is no plain array")
        apart = _apart(ours, eager)
        if apart:
            return replace(row, problem=apart)
        return replace(
            row, eager_s=eager.steady.median, compiled_s=ours.steady.median, compile_s=ours.started.compile
        )  # fmt: skip


def _sources(instruction: Instruction) -> list[str]:
    """The instructions of the program as it was written that a kernel computes, by name."""
    called = instruction.attributes.get("calls")
    inside = called if instruction.opcode == "fusion" and called is not None else (instruction,)
    return list(dict.fromkeys(name for one in inside for name in (one.origins or (one.name,))))


def _apart(one: Timing, other: Timing) -> str:
    """How results differ, in words."""
    wrong = [c for c in compare_all(one.started.outputs, other.started.outputs) if not c.ok]
    return str(wrong[0]) if wrong else ""


def _pieces(instructions: Sequence[Instruction], most: int) -> list[Sequence[Instruction]]:
    """The whole, halves, quarters and so on, as long as there are two operations in each and no more than `most`."""
    found: list[Sequence[Instruction]] = []
    parts = 1
    while parts <= len(instructions) // 2 and len(found) + parts <= most:
        bounds = [round(number * len(instructions) / parts) for number in range(parts + 1)]
        pieces = [instructions[begin:end] for begin, end in pairwise(bounds)]
        found += [piece for piece in pieces if any(one.opcode not in _PLUMBING for one in piece)]
        parts *= 2
    return found


def _fitted(clusters: Sequence[ClusterWorth]) -> tuple[float, float] | None:
    """What compiling a cluster takes, and each of its operations, by least squares of what errors are relative to what
    was measured; None where that cannot be told."""
    known = [(one.operations, one.compile_s) for one in clusters if one.compile_s]
    if len({count for count, _ in known}) < 2:
        return None
    counts = np.array([count for count, _ in known], float)
    times = np.array([seconds for _, seconds in known], float)
    rows = np.stack([1 / times, counts / times], axis=1)
    own, each = (float(value) for value in np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)[0])
    if own < 0:  # nothing takes less than no time
        own, each = 0.0, float(np.median(times / counts))
    if each < 0:
        own, each = float(np.median(times)), 0.0
    return own, each


def _with_compile_times(clusters: Sequence[ClusterWorth], figures: Figures) -> list[ClusterWorth]:
    """Each with the time to compile that the others, without it, lead one to expect."""
    found = []
    for number, one in enumerate(clusters):
        costs = _fitted([*clusters[:number], *clusters[number + 1 :]])
        own, each = costs if costs is not None else (figures.compile, figures.compile_operation)
        found.append(replace(one, predicted_compile_s=own + each * one.operations))
    return found
