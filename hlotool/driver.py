"""The compiler driver: from a module to something that runs.

Backends: ``cpu`` makes native code; ``evaluate`` interprets the module as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donate, Donation, donation_of
from hlotool.codegen.machine import Machine, Numerics, default_machine, named
from hlotool.codegen.values import array_leaves
from hlotool.ir import InputError, Module, Shape, UnsupportedError, clone_module
from hlotool.ir.devices import topology_of
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
    replicas: int | None = None,
    partitions: int | None = None,
    timeout: float | None = None,
    excess_precision: bool = False,
    flush_denormals: bool = False,
    donate: Donate = (),
    cpu: str | None = None,
) -> Executable:
    """Compile `module` (which stays as it is).

    It runs on ``replicas x partitions`` devices, as many as the module says where nothing is given.  A run that takes
    longer than `timeout` seconds ends with an ExecutionError: the evaluator looks at the clock before every
    instruction, native code when a loop goes round.  VerificationError when the module is not valid; UnsupportedError,
    naming the instruction or backend, when it cannot be done.

    With `excess_precision` native code need not round f16 and bf16 between elementwise operations; with
    `flush_denormals` arithmetic takes subnormal numbers for zeros (see `hlotool.codegen.machine.Numerics`).

    `donate` gives up the arrays of parameters with these numbers, or of those that ``input_output_alias`` and
    ``buffer_donor`` of the module name (``"declared"``): calls may overwrite them, and results that find place there
    are those very arrays (`Executable.donated`).  A must-alias is always honoured, anything else where it needs no
    copy.  Without `donate` no argument is ever overwritten, whatever the module declares.

    `cpu` names the processor to compile for, as ``--cpu`` does (``"x86-64-v3"``, ``"host,l2=512K"``), where `machine`
    does not describe it; without both it is what ``HLOTOOL_CPU`` names, else this one.  InputError where no processor
    has that name; UnsupportedError where this one cannot run its code.
    """
    check(module)
    machine = _machine(machine, cpu)
    if excess_precision or flush_denormals:
        machine = replace(machine, numerics=Numerics(excess_precision, flush_denormals))
    build = _BACKENDS.get(backend) or _installed_backend(backend)
    log = DecisionLog() if log is None else log
    module = _on_devices(module, replicas, partitions)
    donation = donation_of(module, donate)
    if donation.arguments:
        _check_donation(module, backend)
        return _compile_cpu(module, pipeline, threads, machine, instruments, log, _limit(timeout), donation)
    if timeout is None:
        return build(module, pipeline, threads, machine, instruments, log)
    if backend not in _BACKENDS:
        raise UnsupportedError(f"backend {backend} has no time limit")
    return build(module, pipeline, threads, machine, instruments, log, _limit(timeout))


def _machine(machine: Machine | None, cpu: str | None) -> Machine:
    if machine is not None and cpu is not None:
        raise InputError("a program is compiled for one processor: give machine or cpu, not both")
    try:
        return machine or (default_machine() if cpu is None else named(cpu))
    except ValueError as error:
        raise InputError(str(error)) from None


def _limit(timeout: float | None) -> float | None:
    if timeout is not None and not 0 < timeout < float("inf"):
        raise InputError(f"a time limit is a positive number of seconds, not {timeout}")
    return timeout


def _check_donation(module: Module, backend: str) -> None:
    """UnsupportedError where arguments cannot be overwritten."""
    if backend != "cpu":
        raise UnsupportedError(f"backend {backend} overwrites no arguments: donate is for backend cpu")
    if topology_of(module).devices > 1:
        raise UnsupportedError("donate is for one device: several would share the arguments")
    from hlotool.runtime.border import is_plain

    for shape in (leaf for leaves in _border(module) for leaf in leaves):
        if not is_plain(shape):
            raise UnsupportedError(f"donate is for arrays that the code takes as they come, not for {shape}")


def _on_devices(module: Module, replicas: int | None, partitions: int | None) -> Module:
    """The module itself, or a copy that says how many devices it runs on."""
    asked = {"replica_count": replicas, "num_partitions": partitions}
    given = {name: count for name, count in asked.items() if count is not None}
    if any(count < 1 for count in given.values()):
        raise InputError("a program runs on at least one replica and one partition")
    if all(module.attributes.get(name, 1) == count for name, count in given.items()):
        return module
    copy = clone_module(module)
    copy.attributes.update(given)
    return copy


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
    timeout: float | None = None,
    donation: Donation = NOTHING_DONATED,
) -> Executable:
    from hlotool.codegen.program import build
    from hlotool.runtime.border import at_border
    from hlotool.runtime.executable import link

    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    optimised = optimise(module, Pipeline((steps, parse_pipeline(LOWERING))), log, instruments)
    target = machine or default_machine()
    program = build(optimised, target, donation=donation, log=log)
    executable = link(program, optimised, target, log.decisions, threads, timeout)
    return at_border(executable, *_border(module))


def _evaluate(
    module: Module,
    pipeline: str | Pipeline,
    threads: int | None,
    machine: Machine | None,
    instruments: Sequence[Instrument],
    log: DecisionLog,
    timeout: float | None = None,
) -> Executable:
    from hlotool.evaluate import evaluate
    from hlotool.evaluate.devices import Device, World
    from hlotool.ir.devices import check_devices
    from hlotool.ir.dynamic import check_bounds
    from hlotool.runtime.border import check_arrays

    parameters, outputs = _border(module)
    flush = machine is not None and machine.numerics.flush_denormals
    check_devices(module)
    check_bounds(module)

    def work(device: Device, arrays: Sequence[object]) -> tuple[Any, ...]:
        return evaluate(module, check_arrays(parameters, arrays), device=device, flush_denormals=flush)

    def run(*arrays: object) -> tuple[Any, ...]:
        return work(Device(World(seconds=timeout)), arrays)

    memory = Memory(0, sum(s.byte_size for s in parameters), sum(s.byte_size for s in outputs), 0)
    devices = topology_of(module).devices
    return Executable(module, parameters, outputs, memory, (), run, work=work, devices=devices, timeout=timeout)


def _border(module: Module) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """The array leaves of the entry's parameters, and of its root."""
    return _leaves([p.shape for p in module.entry.parameters]), _leaves([module.entry.root.shape])


def _leaves(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(leaf for shape in shapes for leaf in array_leaves(shape))


_BACKENDS: dict[str, Callable[..., Executable]] = {"cpu": _compile_cpu, "evaluate": _evaluate}
