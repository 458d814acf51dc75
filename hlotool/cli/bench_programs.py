"""What ``hlotool bench`` times: its options, programs, and the contestants that run in this process."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy.typing as npt

import hlotool
from hlotool.analysis.donation import Donate
from hlotool.cli.passes_options import named_pipeline
from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module
from hlotool.harness.bench import Contestant, Native
from hlotool.harness.gate import Gate
from hlotool.harness.op_by_op import op_by_op
from hlotool.ir import Module, Shape
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import compiler_identity
from hlotool.runtime.executable import Executable

__all__ = [
    "Against",
    "BenchOptions",
    "Entrant",
    "Program",
    "build_of",
    "digest_of",
    "native",
    "own_entrants",
    "shapes_of",
]


@dataclass(frozen=True, slots=True)
class Against:
    """Another contestant, and the Python that it is in."""

    name: str
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What the user asks for, by the names of the command line's parameters."""

    files: tuple[str, ...]
    suites: tuple[str, ...]
    cases: re.Pattern[str] | None
    headlines: bool
    small: bool
    quick: bool
    max_seconds: float | None
    emit_to: str | None
    site: str | None
    pipelines: dict[str, str]
    machines: dict[str, Machine | None]
    elided: str | None
    donate: Donate
    replicas: int | None
    partitions: int | None
    backends: tuple[str, ...]
    against: tuple[Against, ...]
    xla_python: str | None
    inputs: str | None
    seed: int
    rounds: int
    seconds: float
    warmup: float
    roof: bool
    baseline: str | None
    baseline_passes: str | None
    gate: Gate | None
    inconclusive: str
    executor: str | None
    job_limit: float
    journal: Path | None
    at_once: bool
    threads: int | None
    form: str
    output: str | None

    @property
    def pythons(self) -> dict[str, str | None]:
        """Peers, with the Python that each has; None where none is named."""
        named = {one.name: one.python for one in self.against}
        return named | {"xla": named.get("xla") or self.xla_python}

    def asks_for(self, name: str) -> bool:
        return any(one.name == name for one in self.against)


@dataclass(frozen=True, slots=True)
class Program:
    """What is timed: a module with the text that it is read from each time, and arguments."""

    file: str
    text: str
    module: Module
    arguments: list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A contestant, and what its code is made of and by: the hash of the module, a pipeline, a processor's name."""

    contestant: Contestant
    module: str
    pipeline: str | None = None
    cpu: str | None = None


def own_entrants(program: Program, options: BenchOptions) -> list[Entrant]:
    """All that run in this process: hlotool's variants, the evaluator and native code op by op."""
    parse = partial(hlotool.parse, program.text)
    pipelines, digest = options.pipelines, digest_of(program.text)
    found: list[Entrant] = []
    machines = options.machines.items() or [("", None)]
    for (chosen, passes), (name, machine), backend in product(pipelines.items(), machines, options.backends):
        label = "hlotool" if len(pipelines) == 1 else f"hlotool {chosen}"
        label += f" --cpu {name}" if name else ""
        label += f" --backend {backend}" if backend != "cpu" else ""
        own = native(label, program, options, passes, machine, backend)
        found.append(Entrant(own, digest, passes, name if backend == "cpu" else None))
    if options.asks_for("evaluate"):
        evaluator = Native("evaluate", parse, partial(compile_module, backend="evaluate"), program.arguments)
        found.append(Entrant(evaluator, digest))
    if options.asks_for("op-by-op"):
        eager = Native("op-by-op", parse, partial(op_by_op, threads=options.threads), program.arguments)
        found.append(Entrant(eager, digest))
    return found


def native(
    label: str, program: Program, options: BenchOptions, passes: str, machine: Machine | None, backend: str
) -> Native:
    compile_ = partial(
        compile_module, backend=backend, pipeline=named_pipeline(passes), threads=options.threads, machine=machine,
        donate=options.donate,
    )  # fmt: skip
    return Native(label, partial(hlotool.parse, program.text), compile_, program.arguments, overwritten)


def build_of() -> str:
    """This hlotool, its files included."""
    return digest_of(json.dumps(compiler_identity(), sort_keys=True))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def shapes_of(module: Module) -> list[Shape]:
    return [leaf for p in module.entry.parameters for leaf in p.shape.leaves() if leaf.is_array]


def overwritten(executable: Executable) -> Sequence[int]:
    """The arguments that a call writes to."""
    return executable.program.assignment.overwritten if executable.program is not None else ()
