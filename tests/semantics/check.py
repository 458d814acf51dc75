"""Native code against the evaluator, on modules drawn from the families."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

import ml_dtypes
import numpy as np

from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.feeds import Feeds
from hlotool.evaluate.truth import truth
from hlotool.harness.compare import compare, compare_with_truth
from hlotool.ir import Layout, Module, Shape, UnsupportedError, dtype_of
from hlotool.ir.builder import Builder
from hlotool.ir.verifier import check as verify
from hlotool.runtime.executable import Executable
from hlotool.text.printer import print_module
from semantics.sample import CLASSES, FAMILIES, Family, Sample
from semantics.units import distance
from semantics.values import Array

__all__ = ["Cell", "Failure", "Setting", "draw", "groups_of", "judge", "run_cell", "run_cells", "run_class"]

Cell: TypeAlias = tuple[Family, str]
"""A way to try an opcode, and an element type."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, with a module and arguments that show it."""

    seed: int
    why: str
    text: str
    arguments: tuple[Array, ...] = ()

    def __str__(self) -> str:
        shown = "\n".join(f"arg{n} = {np.array2string(a, threshold=200)}" for n, a in enumerate(self.arguments))
        return f"seed {self.seed}: {self.why}\n{self.text}\n{shown}"


@dataclass(frozen=True, slots=True)
class Setting:
    """How native code is made: with `laid_out` parameters and results lie in memory in any order of dimensions."""

    machine: Machine | None = None
    backend: str = "cpu"
    flush_denormals: bool = False
    laid_out: bool = False


USUAL = Setting()


def run_cell(
    family: Family, kind: str, seed: int, instructions: int = 5, rounds: int = 10, setting: Setting = USUAL
) -> Failure | None:
    """One module of several instructions, compiled once and run on several rounds of values: instructions x rounds
    examples.  A failure is narrowed down to one instruction where it can be."""
    return run_cells([(family, kind)] * instructions, seed, rounds, setting)


def run_class(opcode: str, name: str, seed: int, examples: int = 200, setting: Setting = USUAL) -> Failure | None:
    """Modules with instructions of one opcode on all of its element types of a class, in all ways to try it."""
    groups = groups_of(opcode, name)
    rounds = -(-examples // sum(map(len, groups)))
    return next(filter(None, (run_cells(cells, seed, rounds, setting) for cells in groups)), None)


def groups_of(opcode: str, name: str) -> list[list[Cell]]:
    """Every family of the opcode with every type of the class that it has, ten or more in all (then some come again),
    by the file that the family is in: what one module has of run-time sizes or devices does not touch the others."""
    cells = [(f, kind) for f in FAMILIES[opcode] for kind in f.types if kind in CLASSES[name]]
    groups: dict[str, list[Cell]] = {}
    for family, kind in cells * -(-10 // len(cells)):
        groups.setdefault(family.draw.__module__, []).append((family, kind))
    return list(groups.values())


def run_cells(cells: Sequence[Cell], seed: int, rounds: int, setting: Setting = USUAL) -> Failure | None:
    """One module with an instruction for each cell; a failure is narrowed down to one where it can be."""
    numbered = list(enumerate(cells))
    found = _attempt(numbered, seed, rounds, setting)
    if found is None or len(cells) == 1:
        return found
    for one in numbered:
        alone = _attempt([one], seed, rounds, setting)
        if alone is not None:
            return alone
    return found


def judge(sample: Sample, cells: Sequence[Cell], arguments: list[Array], results: list[Array]) -> str:
    """What is wrong with results of the code for a sample of these cells, whoever ran it; empty if nothing is."""
    ulps = _limits(sample, cells)
    bounds = _truth(sample.module, [arguments], []) if None in ulps else None
    return _difference(results, list(compile_module(sample.module, "evaluate")(*arguments)), ulps, bounds)


def draw(cells: Sequence[tuple[int, Cell]], seed: int) -> Sample:
    """A sample of the instructions of these cells and numbers: each has random choices of its own."""
    sample = Sample(Random(seed))
    for number, (family, kind) in cells:
        sample.rng = Random(f"{family.opcode} {kind} {seed} {number}")
        sample.results.append(family.draw(sample, family.opcode, kind))
    sample.finish()
    return sample


def _attempt(cells: Sequence[tuple[int, Cell]], seed: int, rounds: int, setting: Setting) -> Failure | None:
    text, values = "", []
    try:
        sample = draw(cells, seed)
        module = sample.module
        if setting.laid_out:
            _lay_out(module, Random(seed))
        text = print_module(module)
        generator = np.random.default_rng([seed, cells[0][0]])
        ulps = _limits(sample, [cell for _, cell in cells])
        verify(module)
        pipeline = ("default", "none")[seed % 2]
        flush = setting.flush_denormals
        executable = compile_module(
            module, setting.backend, pipeline=pipeline, threads=1, machine=setting.machine, flush_denormals=flush
        )
        reference = compile_module(module, "evaluate", flush_denormals=flush)
        for _ in range(rounds):
            rows = [sample.arguments(generator) for _ in range(executable.devices)]
            queue = sample.queued(generator)
            values = [array for row in (*rows, queue) for array in row]
            bounds = _truth(module, rows, queue) if None in ulps and not flush else None
            got, want = _run(executable, rows, queue), _run(reference, rows, queue)
            if flush:
                got, want = list(map(without_tiny, got)), list(map(without_tiny, want))
            why = _difference(got, want, ulps, bounds)
            if why:
                return Failure(seed, why, text, tuple(values))
    except Exception:
        return Failure(seed, traceback.format_exc(limit=-6), text, tuple(values))
    return None


def without_tiny(array: Array) -> Array:
    """Zeros for what is flushed, and for the smallest normal number: whether what rounds to it is flushed is open."""
    if array.dtype.kind == "c":
        made = np.empty_like(array)
        made.real, made.imag = without_tiny(array.real), without_tiny(array.imag)
        return made
    if array.dtype not in (np.float32, np.float64, dtype_of("bf16")):
        return array
    limits = ml_dtypes.finfo(array.dtype)  # type: ignore[no-untyped-call]
    most = array.dtype.type(float(limits.tiny) * (1 + 8 * float(limits.eps)))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.abs(array) <= most, array.dtype.type(0), array))


def _lay_out(module: Module, rng: Random) -> None:
    """Layouts for parameters and results other than row-major ones; nobody but a bitcast sees them."""
    entry = module.entry
    plain = [p for p in entry.parameters if p.shape.is_array and all(u.opcode != "bitcast" for u in p.users)]
    for parameter in plain:
        parameter.shape = parameter.shape.with_layout(any_layout(rng, parameter.shape.rank))
    build = Builder(entry)
    entry.root = build.tuple([
        build.add("copy", r.shape.with_layout(any_layout(rng, r.shape.rank)), (r,)) if r.shape.is_array else r
        for r in entry.root.operands
    ])  # fmt: skip


def any_layout(rng: Random, rank: int) -> Layout:
    return Layout(tuple(rng.sample(range(rank), rank)))


def _limits(sample: Sample, cells: Sequence[Cell]) -> list[float | None]:
    """How many ulps each result may be away."""
    return [f.ulps for (f, _), r in zip(cells, sample.results, strict=True) for _ in leaves_of(r.shape)]


def leaves_of(shape: Shape) -> list[Shape]:
    return [leaf for leaf in shape.leaves() if leaf.is_array]


def _run(executable: Executable, rows: list[list[Array]], queue: list[Array]) -> list[Array]:
    """The results of every device, and then what it put into its outfeed."""
    if len(rows) == 1 and not queue:
        return list(executable(*rows[0]))
    feeds = Feeds(infeed=queue)
    results = executable.run_devices(rows, feeds)
    return [array for device, row in enumerate(results) for array in (*row, *feeds.outfeed(device))]


def _difference(
    got: list[Array], want: list[Array], limits: list[float | None], bounds: tuple[Bounded, ...] | None
) -> str:
    """What is wrong with one of the results: those of the root of each device, and then (with the strictest limit)
    others."""
    known = [*limits] * (len(got) // len(limits) if limits else 0)
    rest = None if None in limits else min((n for n in limits if n is not None), default=0.0)
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        ulps = known[number] if len(known) == len(got) else rest
        if ulps is not None:
            why = _apart(g, w, ulps)
        elif bounds is not None:
            why = _too_far({"native": g, "evaluator": w}, bounds[number])
        else:
            comparison = compare(g, w)
            at = comparison.worst
            why = "" if comparison.ok else f"{comparison}: native {g[at]!r}, evaluator {w[at]!r}"
        if why:
            return f"result {number}: {why}"
    return ""


def _apart(got: Array, want: Array, ulps: float) -> str:
    far = distance(got, want, signed_zeros=ulps == 0)
    if not (far > ulps).any():
        return ""
    at = np.unravel_index(int(np.argmax(far)), far.shape)
    return (
        f"{np.count_nonzero(far > ulps)} of {got.size} elements differ by up to "
        f"{far[at]:g} ulp: at {[int(n) for n in at]} native {got[at]!r}, evaluator {want[at]!r}"
    )


def _truth(module: Module, rows: list[list[Array]], queue: list[Array]) -> tuple[Bounded, ...] | None:
    """The true results with error bounds; None for what truth mode cannot do: several devices, sizes of run time."""
    if len(rows) > 1 or queue:
        return None
    try:
        return truth(module, rows[0])
    except UnsupportedError:
        return None


def _too_far(results: dict[str, Array], bound: Bounded) -> str:
    """Which result is further from the truth than any correct one can be."""
    for who, output in results.items():
        (comparison,) = compare_with_truth([output], [bound], max_undecided=1.0)
        if not comparison.ok:
            at = comparison.worst
            shown = ", ".join(f"{name} {array[at]!r}" for name, array in results.items())
            return f"{who}: {comparison}: {shown}, truth {bound.value[at]!r} within {bound.errors()[at]:.3g}"
    return ""
