"""Advice: changes to a program that would make it quicker, with what they gain, predicted and measured.

A change is made to a copy of the program where that can be done, and both are predicted by the same model
(`hlotool.driver.predict`): the difference is the gain.  Some changes compute the same (a mended smell, a barrier left
out); some round otherwise (a narrower type); some hold only for inputs that keep a promise (indices that never repeat).
Others are for the author alone, as they change what callers give: of these the gain is that of the kernels which would
go.  Measured are only programs that were made: both run in turns on the same inputs, and their results are compared.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy.typing as npt

from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module
from hlotool.driver.predict import Forecast, predict
from hlotool.harness.compare import compare_all, verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.harness.statistics import Summary, median_interval, summarise
from hlotool.ir import HloError, Instruction, Module, Shape, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.lint import apply_fixes, lint
from hlotool.text.parser import parse
from hlotool.text.printer import PrintOptions, print_module

__all__ = ["Advice", "Effect", "Trial", "advise", "measured"]

Effect = Literal["same", "rounds otherwise", "same if promised", "not tried"]
"""What a change does to results: nothing beyond rounding; other roundings; nothing, if inputs are as it says; or
nobody knows, as the program has not been made."""

_LEAST_SHARE = 0.005
"""Of the time of the program, that a change should gain."""
_MOST_VARIANTS = 40
"""Programs that are made of one: each is optimised and predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Both programs, run in turns: seconds of the one that was given and of the changed one, the 95 % interval of the
    gain, and how results compare: ``ok``, ``UNDECIDED``, ``MISMATCH``, or ``not comparable``, where the change gives
    another type."""

    before: Summary
    after: Summary
    low: float
    high: float
    verdict: str

    @property
    def gain(self) -> float:
        """Seconds that a run is shorter."""
        return self.before.median - self.after.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change: its `kind` (a word, or the code of a rule of lint), the `instruction` of the program that it is about,
    what is wrong and what to do.  `gain` is predicted, in seconds of a run; `variant` the changed program, if it could
    be made.  `trial` is there once it was measured, `failure` says why it could not be."""

    kind: str
    instruction: Instruction | None
    message: str
    hint: str
    effect: Effect
    gain: float
    variant: Module | None = None
    trial: Trial | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change that can be made: `make` gives the changed copy; None where there is nothing to change."""

    kind: str
    instruction: Instruction | None
    message: str
    hint: str
    effect: Effect
    make: Callable[[], Module | None]


def advise(
    module: Module, machine: Machine, threads: int, most: int = 10, tell: Callable[[str], None] = lambda text: None
) -> tuple[Forecast, list[Advice]]:
    """What is predicted of `module`, and the changes that gain most, the best first; none that gains next to nothing.

    UnsupportedError names an instruction of the program without native code.
    """
    before = predict(module, machine=machine, threads=threads)
    found: list[Advice] = list(_of_kernels(before))
    for number, change in enumerate(_changes(module)):
        if number == _MOST_VARIANTS:
            break
        tell(f"{change.kind} ...")
        try:
            variant = change.make()
            if variant is None:
                continue
            check(variant)
            after = predict(variant, machine=machine, threads=threads, performance=before.performance)
        except HloError as error:
            found.append(_advice(change, 0.0, failure=f"the changed program is none: {error}".split("\n", 1)[0]))
            continue
        found.append(_advice(change, before.seconds - after.seconds, variant))
    least = _LEAST_SHARE * before.seconds
    best = sorted((one for one in found if one.gain > least), key=lambda one: (-one.gain, one.kind))
    return before, best[:most]


def _advice(change: _Change, gain: float, variant: Module | None = None, failure: str = "") -> Advice:
    return Advice(
        kind=change.kind, instruction=change.instruction, message=change.message, hint=change.hint,
        effect=change.effect, gain=gain, variant=variant, failure=failure,
    )  # fmt: skip


# ---- changes of the program


def _changes(module: Module) -> Iterator[_Change]:
    yield from _mended(module)
    yield from _barriers(module)
    yield from _narrower(module)
    yield from _promises(module)


def _mended(module: Module) -> Iterator[_Change]:
    """Smells that lint knows how to mend, each alone."""
    found = list(lint(module))
    for number, (rule, finding) in enumerate(found):
        if finding.fix is not None:

            def make(number: int = number) -> Module:
                copy = clone_module(module)
                apply_fixes(copy, [list(lint(copy))[number][1]])
                return copy

            yield _Change(rule.code, finding.instruction, finding.message, finding.hint, "same", make)


def _barriers(module: Module) -> Iterator[_Change]:
    """Barriers between what could be one kernel."""
    barriers = [i for i in module.instructions() if i.opcode == "opt-barrier"]
    if not barriers:
        return

    def make() -> Module:
        copy = clone_module(module)
        for barrier in [i for i in copy.instructions() if i.opcode == "opt-barrier"]:
            barrier.replace_all_uses(barrier.operands[0])
            assert barrier.parent is not None
            barrier.parent.erase(barrier)
        return copy

    count = "a barrier keeps" if len(barriers) == 1 else f"{len(barriers)} barriers keep"
    message = f"{count} what is before and behind apart: it is not computed together"
    hint = "leave it out (optimization_barrier, or a checkpoint that saves little memory)"
    yield _Change("barrier", barriers[0], message, hint, "same", make)


def _narrower(module: Module) -> Iterator[_Change]:
    """All of the program in a narrower type."""
    for wide, narrow, what in (("f64", "f32", "half the bytes"), ("c128", "c64", "half the bytes"),
                               ("f32", "bf16", "half the bytes, and half of the precision")):  # fmt: skip
        first = next((i for i in module.instructions() if _has(i.shape, wide)), None)
        if first is None:
            continue
        hint = f"use {narrow} where its precision is enough ({what})"
        yield _Change(
            f"{wide}-to-{narrow}", first, f"the program computes in {wide}", hint, "rounds otherwise",
            partial(_retyped, module, wide, narrow),
        )  # fmt: skip


def _has(shape: Shape, kind: str) -> bool:
    return any(leaf.is_array and leaf.element_type == kind for leaf in shape.leaves())


def _retyped(module: Module, wide: str, narrow: str) -> Module | None:
    """The module with one type instead of another, which its text is rewritten for; None where bits are looked at."""
    if any(i.opcode in ("bitcast-convert", "custom-call", "rng-bit-generator") for i in module.instructions()):
        return None
    text = print_module(module, PrintOptions(metadata=False))
    return parse(text.replace(f"{wide}[", f"{narrow}["))


def _promises(module: Module) -> Iterator[_Change]:
    """Indices that never repeat, or come in order, which only the author knows of."""
    scatters = [i for i in module.instructions() if i.opcode == "scatter"]
    for scatter in scatters:
        missing = [name for name in ("unique_indices", "indices_are_sorted") if not scatter.attributes.get(name)]
        if missing:

            def make(scatter: Instruction = scatter, missing: Sequence[str] = missing) -> Module:
                copy = clone_module(module)
                assert scatter.parent is not None
                twin = next(i for i in copy.computations[scatter.parent.name] if i.name == scatter.name)
                twin.attributes = {**twin.attributes, **dict.fromkeys(missing, True)}
                return copy

            message = f"nothing says that its indices never repeat or are in order ({', '.join(missing)})"
            yield _Change(
                "scatter", scatter, message, "say so, if they do: updates need not wait for each other",
                "same if promised", make,
            )  # fmt: skip


# ---- what kernels say


_FIXED = ("start", "step", "fork", "latency", "array")
"""How the names of work begin that does not grow with a batch (not those of tile steps)."""
_FIXED_SHARE = 0.2
"""Of all time, from which on that is worth saying."""


def _of_kernels(before: Forecast) -> Iterator[Advice]:
    """What shows in the kernels of the program, and cannot be made from here."""
    performance, kernels = before.performance, before.prediction.kernels
    fixed = [
        sum(time for name, time in performance.parts(k.amounts).items() if name.startswith(_FIXED)) * 1e-9 * k.runs
        for k in kernels
    ]
    total = sum(fixed)
    if kernels and total > _FIXED_SHARE * before.seconds:
        most = kernels[fixed.index(max(fixed))]
        yield Advice(
            kind="batch", instruction=most.instruction, effect="not tried", gain=total / 2,
            message=f"{total / before.seconds:.0%} of the time does not grow with the batch: starts of "
            f"{sum(k.runs for k in kernels)} kernels, and arrays and code that come from afar",
            hint="twice the batch in one run takes less than two runs by so much, for each of them",
        )  # fmt: skip
    for kernel in kernels:
        instruction = kernel.instruction
        moves = instruction.opcode in ("transpose", "copy") and instruction.parent is before.module.entry
        if moves and instruction.operands[0].opcode == "parameter":
            yield Advice(
                kind="layout", instruction=instruction, effect="not tried", gain=kernel.seconds,
                message=f"argument {instruction.operands[0].name} is turned around before it is used",
                hint=f"give it as {instruction.shape}, if callers can",
            )  # fmt: skip
        elif instruction.parent is before.module.entry and not _depends(instruction):
            yield Advice(
                kind="constant", instruction=instruction, effect="not tried", gain=kernel.seconds,
                message="computed again in every run, of nothing that changes",
                hint="give it as an argument that is made once, or as a constant",
            )  # fmt: skip


def _depends(instruction: Instruction) -> bool:
    """Whether something that is computed, or given, goes into an instruction."""
    return any(operand.opcode != "constant" for operand in instruction.operands)


# ---- measurements


def measured(
    module: Module, advice: Advice, machine: Machine, threads: int, seconds: float = 0.5,
    arrays: Sequence[npt.NDArray[Any]] | None = None,
) -> Advice:  # fmt: skip
    """The advice with a trial, or with why there is none."""
    if advice.variant is None:
        return replace(advice, failure=advice.failure or "the changed program cannot be made from here")
    given = random_inputs(module, 0) if arrays is None else list(arrays)
    try:
        programs = [compile_module(one, machine=machine, threads=threads) for one in (module, advice.variant)]
        kinds = [leaf for shape in programs[1].parameters for leaf in shape.leaves() if leaf.is_array]
        changed = [array.astype(dtype_of(leaf.element_type)) for array, leaf in zip(given, kinds, strict=True)]
        sets = [given, changed]
        want, got = ([*program(*each)] for program, each in zip(programs, sets, strict=True))
        same = [w.dtype == g.dtype for w, g in zip(want, got, strict=True)]
        verdict = verdict_of(compare_all(got, want)) if all(same) else "not comparable"
        times: list[list[float]] = [[], []]
        order, end = random.Random(0), time.perf_counter() + seconds
        while len(times[0]) < 5 or time.perf_counter() < end:
            for which in order.sample((0, 1), 2):
                begin = time.perf_counter()
                programs[which](*sets[which])
                times[which].append(time.perf_counter() - begin)
    except (HloError, ValueError) as error:
        return replace(advice, failure=f"it does not run: {error}".split("\n", 1)[0])
    low, high = median_interval(sorted(b - a for b, a in zip(*times, strict=True)))
    trial = Trial(before=summarise(times[0]), after=summarise(times[1]), low=low, high=high, verdict=verdict)
    return replace(advice, trial=trial)
