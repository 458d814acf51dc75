"""The compiler driver: from a module to something that runs.

Backends: ``cpu`` makes native code; ``evaluate`` interprets the module as it stands.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from importlib.metadata import EntryPoint, entry_points
from operator import index
from typing import Any, ParamSpec, TypeVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donate, Donation, donation_of, matched
from hlotool.analysis.elided import refuse_elided
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.kernel import KernelCrash
from hlotool.codegen.machine import Machine, Numerics, default_machine, named
from hlotool.codegen.values import array_leaves
from hlotool.ir import (
    ExecutionError,
    HloError,
    InputError,
    Instruction,
    Module,
    Shape,
    UnsupportedError,
    VerificationError,
    clone_module,
)
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.ir.devices import topology_of
from hlotool.ir.effects import ENDLESS
from hlotool.ir.structure import check_structure
from hlotool.ir.verifier import check
from hlotool.passes.instruments import VerifyEach
from hlotool.passes.isolation import LeaveOut, alone, simplify_kernel
from hlotool.passes.manager import Instrument, PassCrash, Progress, run_pipeline
from hlotool.passes.pipeline import carry_pipeline, parse_pipeline
from hlotool.passes.steps import Pass, Pipeline
from hlotool.runtime.executable import Executable, Memory

__all__ = [
    "CompilerWarning", "backend_names", "code_of", "compile_module", "is_strict", "keep_loops", "on_devices",
    "optimise",
]  # fmt: skip


class CompilerWarning(UserWarning):
    """A part of the compiler failed, which is a bug in it, and the rest went on without: what failed, how, and where a
    module is that shows it."""

_P = ParamSpec("_P")
_Made = TypeVar("_Made")

LOWERING = "lowering"
"""What code generation needs whatever pipeline the user chose: calls inlined, loops that own their bodies, row-major
layouts, products of matrices.  A pipeline that did this already leaves nothing to do."""


def optimise(
    module: Module,
    pipeline: str | Pipeline = "default",
    log: DecisionLog | None = None,
    instruments: Sequence[Instrument] = (),
    progress: Progress | None = None,
    strict: bool | None = None,
) -> Module:
    """A copy of `module` with `pipeline` applied.

    A pass that fails is left out, from the run on in which it did: that is said by a CompilerWarning and in `log`
    (``pass-failed``).  If `strict` it ends with a PassCrash, which carries `module`; by default that is what the
    variable ``HLOTOOL_STRICT`` of the environment says.
    """
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    log, progress = DecisionLog() if log is None else log, progress or Progress()
    with room(module), collector_paused():
        return _optimised(module, steps, None, log, instruments, progress, is_strict(strict))


def is_strict(strict: bool | None = None) -> bool:
    """Whether a failure of a part of the compiler is an error: as asked for, else as ``HLOTOOL_STRICT`` says."""
    if strict is not None:
        return strict
    return os.environ.get("HLOTOOL_STRICT", "").strip().lower() not in ("", "0", "no", "false", "off")


def _optimised(
    module: Module,
    steps: Pipeline,
    required: Pipeline | None,
    log: DecisionLog,
    instruments: Sequence[Instrument],
    progress: Progress,
    strict: bool,
    verify: bool = False,
) -> Module:
    """A copy of `module` with `steps` and then `required` applied; PassCrash where one fails that cannot be left out.

    The module is verified after each pass if asked for, and once something has failed: it may be an earlier pass that
    did it.
    """
    shown: list[tuple[Pass, Module]] = []

    def keep(pass_: Pass, ahead: Module) -> None:
        shown.append((pass_, clone_module(ahead)))

    def optional() -> bool:
        return required is None or progress.later[0] != ()

    watcher, crashes = LeaveOut(instruments, keep, optional), dict[Pass, PassCrash]()
    verifying: list[Instrument] = [VerifyEach(check)] if verify else []
    start = len(log), log.rewrites
    while True:
        copy = clone_module(module)
        try:
            run_pipeline(copy, steps, log, instruments if strict else [watcher, *verifying], progress, required)
            if not strict:
                check_structure(copy, module)
            break
        except PassCrash as crash:
            crash.module = module
            if strict or (crash.required and verifying):
                raise
            if verifying:
                crashes[crash.pass_] = crash
                watcher.leave_out(crash.pass_)
        except VerificationError:
            if verifying:
                raise
        verifying = verifying or [VerifyEach(check)]
        watcher.count = 0
        shown.clear()
        log.rewind(*start)
        progress.runs = 0
        progress.later.clear()
    for pass_, ahead in shown:
        _report(log, f"pass {pass_.name}", crashes[pass_].__cause__, "left out", ahead, Pipeline((pass_,)))
    return copy


def _report(
    log: DecisionLog, what: str, cause: BaseException | None, instead: str, module: Module, pipeline: Pipeline
) -> None:
    """Say that something failed, and what is done instead; `pipeline` on `module` shows it."""
    why = " ".join(f"{type(cause).__name__}: {cause}".split()).removesuffix(":")
    kind, _, name = what.partition(" ")
    log.pass_name = name if kind == "pass" else "compiler"
    log.note(f"{kind}-failed", name if kind == "kernel" else module.entry.name, f"{why}; {instead}")
    where = ""
    with suppress(Exception):  # what has failed may have left something that cannot be printed
        from hlotool.text.printer import print_module

        text = f"// {what}: {why}\n" + carry_pipeline(print_module(module), pipeline)
        with tempfile.NamedTemporaryFile("wb", prefix=f"hlotool-repro-{kind}-", suffix=".hlo", delete=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        where = f"; a module that shows it is in {file.name}"
    warnings.warn(CompilerWarning(f"{what} failed: {why}: {instead}{where}"), stacklevel=2)


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
    elided_as_zeros: bool = False,
    finite_loops: bool = True,
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

    UnsupportedError where contents of constants were left out of the text (``{...}``), unless they are to be zeros:
    `elided_as_zeros` is for looking at the code, and `hlotool.harness.elided.filled` makes contents up.

    `cpu` names the processor to compile for, as ``--cpu`` does (``"x86-64-v3"``, ``"host,l2=512K"``), where `machine`
    does not describe it; without both it is what ``HLOTOOL_CPU`` names, else this one.  InputError where no processor
    has that name; UnsupportedError where this one cannot run its code.

    Loops are taken to end, as XLA takes them: one whose results nobody reads is removed.  Without `finite_loops` those
    stay of which it is not known that they end.

    Where a part of the compiler fails, the rest goes on without it: an optional pass is left out; a fused kernel
    becomes several, and one that is not fused a call of the evaluator; then `pipeline` is left out; and in the end the
    evaluator runs the module.  Each step is a CompilerWarning and a decision.  If `strict` (by default as in
    `optimise`) such a failure is raised.
    """
    if not isinstance(module, Module):
        raise InputError(f"compile takes a module, as hlotool.load and hlotool.parse give it, not {_kind(module)}")
    counts = {"threads": threads, "replicas": replicas, "partitions": partitions}
    threads, replicas, partitions = (_count(name, count) for name, count in counts.items())
    timeout = _limit(timeout)
    if not isinstance(backend, str):
        raise InputError(f"backend: expected a name, not {_kind(backend)}")
    if not isinstance(pipeline, (str, Pipeline)):
        raise InputError(f"pipeline: expected its text or a Pipeline, not {_kind(pipeline)}")
    if machine is not None and not isinstance(machine, Machine):
        raise InputError(f"machine: expected a Machine (hlotool.codegen.machine.named), not {_kind(machine)}")
    check(module)
    if not elided_as_zeros:
        refuse_elided(module)
    machine = _machine(machine, cpu)
    if excess_precision or flush_denormals:
        machine = replace(machine, numerics=Numerics(excess_precision, flush_denormals))
    build = _BACKENDS.get(backend) or _installed_backend(backend)
    log = DecisionLog() if log is None else log
    module = on_devices(module, replicas, partitions)
    if not finite_loops:
        module = keep_loops(module)
    donation = donation_of(module, donate)
    if donation.arguments:
        _check_donation(module, backend)
    if build is _compile_cpu:
        with room(module), collector_paused():
            return _compile_cpu(
                module, pipeline, threads, machine, instruments, log, timeout, donation, is_strict(strict)
            )  # fmt: skip
    if timeout is None:
        return build(module, pipeline, threads, machine, instruments, log)
    if backend not in _BACKENDS:
        raise UnsupportedError(f"backend {backend} has no time limit")
    return build(module, pipeline, threads, machine, instruments, log, timeout)


_MOST = 1024
"""Threads, replicas, partitions."""


def _count(name: str, count: int | None) -> int | None:
    if count is None:
        return None
    if isinstance(count, bool) or not hasattr(type(count), "__index__") or not 1 <= index(count) <= _MOST:
        raise InputError(f"{name}: expected a whole number from 1 to {_MOST}, not {_kind(count)}")
    return index(count)


def _machine(machine: Machine | None, cpu: str | None) -> Machine:
    if machine is not None and cpu is not None:
        raise InputError("a program is compiled for one processor: give machine or cpu, not both")
    try:
        return machine or (default_machine() if cpu is None else named(cpu))
    except ValueError as error:
        raise InputError(str(error)) from None


def _limit(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    number = not isinstance(timeout, (bool, str, bytes)) and hasattr(type(timeout), "__float__")
    if not number or not 0 < float(timeout) < float("inf"):
        raise InputError(f"a time limit is a positive number of seconds, not {_kind(timeout)}")
    return float(timeout)


def _kind(value: object) -> str:
    """What somebody gave."""
    return repr(value) if isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"


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
    strict: bool = True,
) -> Executable:
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    target = machine or default_machine()
    start = len(log), log.rewrites
    nothing = Pipeline(())
    for chosen, verify in ((steps, False), (steps, True), (nothing, True)):
        last = chosen is nothing
        try:
            return _native(module, chosen, threads, target, instruments, log, timeout, donation, strict, verify)
        except HloError:
            raise
        except Exception as error:
            if strict:
                raise
            log.rewind(*start)
            if not verify:
                continue  # once more: was it a pass that left an invalid module?
            cause = error.__cause__ if isinstance(error, PassCrash) else error
            what = f"pass {error.pass_.name}" if isinstance(error, PassCrash) else "code generation"
            instead = "the evaluator runs the module" if last else "compiled without optimisations"
            _report(log, what, cause, instead, module, Pipeline((chosen, parse_pipeline(LOWERING))))
            start = len(log), log.rewrites
    executable = replace(
        _evaluate(module, steps, threads, machine, instruments, log, timeout), decisions=tuple(log.decisions)
    )
    if not donation.arguments:
        return executable
    from hlotool.runtime.border import copied_to_donated

    return copied_to_donated(executable, matched(donation, executable.parameters, executable.outputs))


def _native(
    module: Module,
    steps: Pipeline,
    threads: int | None,
    machine: Machine,
    instruments: Sequence[Instrument],
    log: DecisionLog,
    timeout: float | None,
    donation: Donation,
    strict: bool,
    verify: bool,
) -> Executable:
    """Native code for `module`; instructions whose kernels fail are given to others, unless `strict`."""
    from hlotool.codegen.program import build
    from hlotool.runtime.border import at_border
    from hlotool.runtime.executable import compilation, link

    lowering = parse_pipeline(LOWERING)
    optimised = _optimised(module, steps, lowering, log, instruments, Progress(), strict, verify)

    def made() -> Executable:
        with compilation(machine, threads) as units:
            program = build(optimised, machine, donation=donation, log=log, begin=units.begin)
            executable = link(program, optimised, machine, units, log.decisions, threads, timeout)
        return at_border(executable, *_border(module))

    return _with_simpler_kernels(made, optimised, machine, log, donation, strict)


def code_of(module: Module, machine: Machine, assembly: bool = False, strict: bool | None = None) -> tuple[str, ...]:
    """The LLVM IR, or assembly, of a lowered module, a text for each unit.

    `module` changes where a kernel fails, as that of `compile_module` does.
    """
    from hlotool.codegen.program import build
    from hlotool.runtime.object_code import assembly as assembled

    def made() -> tuple[str, ...]:
        texts = build(module, machine).texts
        return tuple(assembled(text, machine) for text in texts) if assembly else texts

    with room(module):
        return _with_simpler_kernels(made, module, machine, DecisionLog(), NOTHING_DONATED, is_strict(strict))


def _with_simpler_kernels(
    made: Callable[[], _Made], optimised: Module, machine: Machine, log: DecisionLog, donation: Donation, strict: bool
) -> _Made:
    """What `made` makes of `optimised`, once the instructions whose kernels fail were given to others."""
    from hlotool.runtime.object_code import CodeError

    while True:
        start = len(log), log.rewrites
        try:
            return made()
        except KernelCrash as crash:
            if strict:
                raise next(iter(crash.causes.values())) from None
            causes = crash.causes
        except CodeError:
            causes = {} if strict else _refused(optimised, machine, donation)
            if not causes:
                raise
        log.rewind(*start)
        for instruction, cause in causes.items():
            shown = alone(instruction)
            name, instead = instruction.name, simplify_kernel(optimised, instruction)
            _report(log, f"kernel {name}", cause, instead, shown, Pipeline(()))
        optimised.remove_unreachable()


def _refused(module: Module, machine: Machine, donation: Donation) -> dict[Instruction, Exception]:
    """The instructions whose kernels LLVM does not take."""
    from hlotool.codegen.program import kernel_texts
    from hlotool.runtime.object_code import CodeError, object_of

    found: dict[Instruction, Exception] = {}
    for text, instructions in kernel_texts(module, machine, donation):
        try:
            object_of(text, machine)
        except CodeError as error:
            found |= dict.fromkeys(instructions, error)
    return found


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
