"""The compiler driver: from a module to something that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from time import perf_counter
from typing import ParamSpec

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import Donate, donation_of
from hlotool.analysis.elided import refuse_elided
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.machine import Machine, Numerics, to_link
from hlotool.driver.backend import Backend
from hlotool.driver.backends import find_backend
from hlotool.driver.compiled import compiled_by
from hlotool.driver.failures import is_strict
from hlotool.driver.options import CompileOptions, Devices, checked_count, checked_limit, checked_tuning, chosen_machine
from hlotool.driver.program_shape import program_shape
from hlotool.ir import ExecutionError, InputError, Module, UnsupportedError, clone_module
from hlotool.ir.devices import OVERLAPPED, is_started, topology_of
from hlotool.ir.effects import ENDLESS
from hlotool.ir.given import check_module, kind_of
from hlotool.ir.verifier import check
from hlotool.passes.framework.manager import Instrument
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.executable import Executable
from hlotool.runtime.marshalling import is_plain
from hlotool.runtime.tuning import Tuning

__all__ = ["compile_module", "keep_loops", "keep_overlaps", "on_devices"]

_P = ParamSpec("_P")


def _bounded(compile_: Callable[_P, Executable]) -> Callable[_P, Executable]:
    """Running out of stack or memory is a limit of ours, and said as such."""

    @wraps(compile_)
    def bounded(*arguments: _P.args, **options: _P.kwargs) -> Executable:
        try:
            return compile_(*arguments, **options)
        except RecursionError as error:
            raise UnsupportedError("the module is nested too deeply") from error
        except MemoryError as error:
            raise ExecutionError("out of memory while compiling") from error

    return bounded


@_bounded
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
    strict: bool | None = None,
    to_run: bool = True,
    finite_loops: bool = True,
    profiled: bool = False,
    quick_calls: bool = True,
    tune: str | Tuning | None = None,
    devices: Devices | None = None,
) -> Executable:
    """Compile `module` (which stays as it is).

    It runs on ``replicas x partitions`` devices, as many as the module says where nothing is given.  A run that takes
    longer than `timeout` seconds ends with an ExecutionError: the evaluator looks at the clock before every
    instruction, native code in loops and long kernels.  VerificationError when the module is not valid;
    UnsupportedError, naming the instruction or backend, when it cannot be done.

    With `excess_precision` native code need not round f16 and bf16 between elementwise operations; with
    `flush_denormals` arithmetic takes subnormal numbers for zeros (see `hlotool.codegen.machine.Numerics`).

    `donate` gives up the arrays of parameters with these numbers, or of those that ``input_output_alias`` and
    ``buffer_donor`` of the module name (``"declared"``): calls may overwrite them, and results that find place there
    are those very arrays (`Executable.donated`).  A must-alias is always honoured, anything else where it needs no
    copy.  Without `donate` no argument is ever overwritten, whatever the module declares.

    UnsupportedError where contents of constants were left out of the text (``{...}``);
    `hlotool.harness.elided.filled` makes contents up.

    `cpu` names the processor to compile for, as ``--cpu`` does (``"x86-64-v3"``, ``"host,l2=512K"``), where `machine`
    does not describe it; without both it is what ``HLOTOOL_CPU`` names, else this one.  InputError where no processor
    has that name; UnsupportedError where this one cannot run its code.

    Without `to_run` the executable is to be looked at: its code may be for any processor, nothing of it is loaded,
    contents that were left out are zeros, and calls of it are refused.

    A `profiled` program says how long its steps take (`Executable.recorder`, `hlotool.harness.profile`); that of a
    backend without native code says nothing.

    Without `quick_calls` nothing is made ready for calls from Python, which then take longer: for those who call the
    code by its address (`Executable.entry`).

    Loops are taken to end, as XLA takes them: one whose results nobody reads is removed.  Without `finite_loops` those
    stay of which it is not known that they end.

    `tune` says which choices of tuning databases are taken, as ``HLOTOOL_TUNE`` does where it is None: ``"off"``,
    ``"exact"``, ``"read"`` or ``"write"`` (`hlotool.runtime.tuning`).

    `devices` says where the devices are, ``hlotool.MpiDevices(comm)`` on the ranks of an MPI job: the executable then
    takes and gives arrays of those in this process.  Without it all of them are threads here.

    Where a part of the compiler fails, the rest goes on without it: an optional pass is left out; a fused kernel
    becomes several, and one that is not fused a call of the evaluator; then `pipeline` is left out; and in the end the
    evaluator runs the module.  Each step is a CompilerWarning and a decision.  If `strict` (by default as in
    `optimise`) such a failure is raised.
    """
    start = perf_counter()
    check_module(module, "compile")
    counts = {"threads": threads, "replicas": replicas, "partitions": partitions}
    threads, replicas, partitions = (checked_count(name, count) for name, count in counts.items())
    timeout = checked_limit(timeout)
    _check_kinds(backend, pipeline, machine)
    check(module)
    if to_run:
        refuse_elided(module)
    machine = chosen_machine(machine, cpu)
    if not to_run:
        machine = to_link(machine)
    if excess_precision or flush_denormals:
        machine = replace(machine, numerics=Numerics(excess_precision, flush_denormals))
    found = find_backend(backend)
    module = _prepared(module, replicas, partitions, finite_loops, devices)
    options = CompileOptions(
        pipeline=parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline,
        machine=machine,
        log=DecisionLog() if log is None else log,
        instruments=tuple(instruments),
        threads=threads,
        timeout=timeout,
        donation=donation_of(module, donate),
        strict=is_strict(strict),
        to_run=to_run,
        profiled=profiled,
        quick_calls=quick_calls,
        tuning=checked_tuning(tune),
    )
    if options.donation.arguments:
        _check_donation(module, backend, found)
    if timeout is not None and not found.capabilities.time_limit:
        raise UnsupportedError(f"backend {backend} has no time limit")
    executable = _placed(compiled_by(found, module, options), devices, module, backend, options)
    return replace(executable, compile_seconds=perf_counter() - start)


def _placed(
    executable: Executable, devices: Devices | None, module: Module, backend: str, options: CompileOptions
) -> Executable:
    """The executable on its devices, which are told on what it depends what the program computes."""
    if devices is None:
        return executable
    said = f"{backend} {options.pipeline} {options.machine.numerics} {options.donation} {options.timeout}"
    return devices.attach(executable, module, said)


def _prepared(
    module: Module, replicas: int | None, partitions: int | None, finite_loops: bool, devices: Devices | None
) -> Module:
    """The module as it is compiled, which says what the pipelines have to know."""
    module = on_devices(module, replicas, partitions)
    if not finite_loops:
        module = keep_loops(module)
    return module if devices is None else keep_overlaps(module)


def _check_kinds(backend: object, pipeline: object, machine: object) -> None:
    """InputError for what is no name, pipeline or machine."""
    if not isinstance(backend, str):
        raise InputError(f"backend: expected a name, not {kind_of(backend)}")
    if not isinstance(pipeline, (str, Pipeline)):
        raise InputError(f"pipeline: expected its text or a Pipeline, not {kind_of(pipeline)}")
    if machine is not None and not isinstance(machine, Machine):
        raise InputError(f"machine: expected a Machine (hlotool.codegen.machine.named), not {kind_of(machine)}")


def _check_donation(module: Module, name: str, backend: Backend) -> None:
    """UnsupportedError where arguments cannot be overwritten."""
    if not backend.capabilities.donates:
        raise UnsupportedError(f"backend {name} overwrites no arguments: donate is for others, as cpu")
    if topology_of(module).devices > 1:
        raise UnsupportedError("donate is for one device: several would share the arguments")
    for shape in (leaf for leaves in program_shape(module) for leaf in leaves):
        if not is_plain(shape):
            raise UnsupportedError(f"donate is for arrays that the code takes as they come, not for {shape}")


def on_devices(module: Module, replicas: int | None, partitions: int | None) -> Module:
    """The module itself, or a copy that says how many devices it runs on; InputError for less than one."""
    asked = {"replica_count": replicas, "num_partitions": partitions}
    given = {name: count for name, count in asked.items() if count is not None}
    if all(module.attributes.get(name, 1) == count for name, count in given.items()):
        return module
    copy = clone_module(module)
    copy.attributes.update(given)
    return copy


def keep_loops(module: Module) -> Module:
    """A copy in which the loops that may never end are marked to stay, whether their results are read or not."""
    copy = clone_module(module)
    for loop in copy.instructions():
        if loop.opcode == "while" and known_trip_count(loop) is None:
            attributes = loop.attributes.get("frontend_attributes", {})
            loop.attributes["frontend_attributes"] = {**attributes, **dict([ENDLESS])}
    return copy


def keep_overlaps(module: Module) -> Module:
    """The module itself, or a copy in which asynchronous collectives are marked to stay what they are."""
    if not any(is_started(instruction) for instruction in module.instructions()):
        return module
    copy = clone_module(module)
    for start in copy.instructions():
        if is_started(start):
            attributes = start.attributes.get("frontend_attributes", {})
            start.attributes["frontend_attributes"] = {**attributes, **dict([OVERLAPPED])}
    return copy
