"""The compiler driver: from a module to something that runs.

Backends: ``cpu`` makes native code; ``evaluate`` interprets the module as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.buffers import array_leaves
from hlotool.codegen.machine import Machine, host
from hlotool.ir import Module, Shape, UnsupportedError, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes.manager import Instrument, PassCrash, Pipeline, Progress, run_pipeline
from hlotool.passes.pipeline import parse_pipeline
from hlotool.runtime.executable import Executable, Memory

__all__ = ["backend_names", "compile_module", "optimise"]

LOWERING = "lowering"
"""What code generation needs whatever pipeline the user chose: calls inlined, loops that own their bodies, row-major
layouts, products of matrices.  A pipeline that did this already leaves nothing to do."""


def optimise(
    module: Module,
    pipeline: str | Pipeline = "default",
    log: DecisionLog | None = None,
    instruments: Sequence[Instrument] = (),
    progress: Progress | None = None,
) -> Module:
    """A copy of `module` with `pipeline` applied.  PassCrash where a pass fails, which carries `module`."""
    copy = clone_module(module)
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    try:
        run_pipeline(copy, steps, log, instruments, progress)
    except PassCrash as crash:
        crash.module = module
        raise
    return copy


def compile_module(
    module: Module,
    backend: str = "cpu",
    pipeline: str | Pipeline = "default",
    threads: int | None = None,
    machine: Machine | None = None,
    instruments: Sequence[Instrument] = (),
    log: DecisionLog | None = None,
) -> Executable:
    """Compile `module` (which stays as it is).

    VerificationError when it is not valid; UnsupportedError, naming the instruction or backend, when it cannot be done.
    """
    check(module)
    build = _BACKENDS.get(backend) or _installed_backend(backend)
    log = DecisionLog() if log is None else log
    return build(module, pipeline, threads, machine, instruments, log)


def backend_names() -> list[str]:
    """All backends, built in and installed."""
    return sorted({*_BACKENDS, *(entry.name for entry in entry_points(group="hlotool.backends"))})


def _installed_backend(name: str) -> Callable[..., Executable]:
    found: dict[str, EntryPoint] = {entry.name: entry for entry in entry_points(group="hlotool.backends")}
    if name not in found:
        raise UnsupportedError(f"unknown backend {name!r}; there are {', '.join(backend_names())}")
    loaded: Callable[..., Executable] = found[name].load()
    return loaded


def _compile_cpu(
    module: Module,
    pipeline: str | Pipeline,
    threads: int | None,
    machine: Machine | None,
    instruments: Sequence[Instrument],
    log: DecisionLog,
) -> Executable:
    from hlotool.codegen.program import build
    from hlotool.runtime.executable import link

    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    optimised = optimise(module, Pipeline((steps, parse_pipeline(LOWERING))), log, instruments)
    target = machine or host()
    program = build(optimised, target)
    return link(program, optimised, target, log.decisions, threads)


def _evaluate(
    module: Module,
    pipeline: str | Pipeline,
    threads: int | None,
    machine: Machine | None,
    instruments: Sequence[Instrument],
    log: DecisionLog,
) -> Executable:
    from hlotool.evaluate import evaluate
    from hlotool.runtime.entry import check_inputs

    parameters = _leaves([p.shape for p in module.entry.parameters])
    outputs = _leaves([module.entry.root.shape])

    leaves = [(dtype_of(s.element_type), s.dimensions) for s in parameters]

    def run(*arrays: object) -> tuple[Any, ...]:
        return evaluate(module, check_inputs(leaves, arrays))

    memory = Memory(0, sum(s.byte_size for s in parameters), sum(s.byte_size for s in outputs), 0)
    return Executable(module, parameters, outputs, memory, (), run)


def _leaves(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(leaf for shape in shapes for leaf in array_leaves(shape))


_BACKENDS: dict[str, Callable[..., Executable]] = {"cpu": _compile_cpu, "evaluate": _evaluate}
