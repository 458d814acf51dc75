"""The backend ``cpu``: native code, by the target that the machine has; and those of other targets.

Where a part of the compiler fails, the rest goes on without it: an optional pass is left out; a fused kernel becomes
several, and one that is not fused a call of the evaluator; then the pipeline is left out; and in the end the evaluator
runs the module.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlotool.analysis.donation import matched
from hlotool.codegen.program import build, kernel_texts
from hlotool.codegen.target import Target, target_of
from hlotool.driver.backend import Backend, Capabilities
from hlotool.driver.evaluator import evaluated
from hlotool.driver.failures import report
from hlotool.driver.optimise import optimised
from hlotool.driver.options import CompileOptions
from hlotool.driver.program_shape import program_shape
from hlotool.driver.simpler_kernels import with_simpler_kernels
from hlotool.ir import HloError, Instruction, Module
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.passes.framework.manager import PassCrash, Progress
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.executable import Executable, compilation, link
from hlotool.runtime.marshalling import copied_to_donated, marshalled
from hlotool.runtime.object_code import CodeError, assembly, object_of
from hlotool.runtime.tuning import target_key

if TYPE_CHECKING:
    from hlotool.driver.tuned import Tuned

__all__ = ["BACKEND", "LOWERING", "lower", "native_backend"]

LOWERING = "lowering"
"""What code generation needs whatever pipeline the user chose: calls inlined, loops that own their bodies, row-major
layouts, products of matrices.  A pipeline that did this already leaves nothing to do."""


def compiled(module: Module, options: CompileOptions) -> Executable:
    """`module` as native code, or what is left to do when parts of the compiler fail, unless `options` are strict."""
    with room(module), collector_paused():
        return _compiled(module, options)


def _compiled(module: Module, options: CompileOptions) -> Executable:
    log = options.log
    start = len(log), log.rewrites
    unoptimised = replace(options, pipeline=Pipeline(()))
    for chosen, verify in ((options, False), (options, True), (unoptimised, True)):
        try:
            return _native(module, chosen, verify)
        except HloError:
            raise
        except Exception as error:
            if options.strict:
                raise
            log.rewind(*start)
            if not verify:
                continue  # once more: was it a pass that left an invalid module?
            cause = error.__cause__ if isinstance(error, PassCrash) else error
            what = f"pass {error.pass_.name}" if isinstance(error, PassCrash) else "code generation"
            instead = "the evaluator runs the module" if chosen is unoptimised else "compiled without optimisations"
            report(log, what, cause, instead, module, Pipeline((chosen.pipeline, parse_pipeline(LOWERING))))
            start = len(log), log.rewrites
    executable = replace(evaluated(module, options), decisions=tuple(log.decisions))
    if not options.donation.arguments:
        return executable
    return copied_to_donated(executable, matched(options.donation, executable.parameters, executable.outputs))


def lower(module: Module, options: CompileOptions, verify: bool) -> Module:
    """A copy of `module` as code generation gets it; it is verified after each pass if asked for."""
    lowering, progress, costs = parse_pipeline(LOWERING), Progress(), _target(options).costs
    tuned = _tuned(options)
    lowered = optimised(
        module, options.pipeline, lowering, options.log, options.instruments, progress, options.strict, verify,
        costs if tuned is None else tuned.costs(module, costs),
    )  # fmt: skip
    if tuned is not None:
        tuned.choose(lowered)
    return lowered


def _tuned(options: CompileOptions) -> Tuned | None:
    """The choices of databases; None, and nothing imported, where there are none to read or write."""
    tuning = options.tuning
    if tuning is None or not (tuning.mode == "write" or tuning.files(target_key(options.machine))):
        return None
    from hlotool.driver.tuned import tuned_for

    return tuned_for(options.machine, tuning, options.log)


def _target(options: CompileOptions) -> Target:
    return options.target or target_of(options.machine)


def _native(module: Module, options: CompileOptions, verify: bool) -> Executable:
    """Native code for `module`; instructions whose kernels fail are given to others."""
    lowered, machine, log = lower(module, options, verify), options.machine, options.log
    target = _target(options)

    def made() -> Executable:
        with compilation(machine, target.library, options.threads, options.to_run) as units:
            program = build(lowered, machine, options.donation, log, units.begin, target, options.profiled)
            executable = link(
                program, lowered, machine, units, log.decisions, options.threads, options.timeout, options.to_run,
                options.quick_calls,
            )  # fmt: skip
        return marshalled(executable, *program_shape(module))

    return with_simpler_kernels(made, lowered, options, partial(_refused, lowered, options))


def code_of(module: Module, options: CompileOptions, stage: str) -> tuple[str, ...]:
    """What `compiled` makes of `module`: ``hlo`` as code generation gets it, or ``llvm`` or ``asm``, a text a unit."""
    with room(module):
        lowered = lower(module, options, False)
        if stage == "hlo":
            from hlotool.text.printer import print_module

            return (print_module(lowered),)

        def made() -> tuple[str, ...]:
            texts = build(lowered, options.machine, options.donation, target=_target(options)).texts
            return tuple(assembly(text, options.machine) for text in texts) if stage == "asm" else texts

        return with_simpler_kernels(made, lowered, options, partial(_refused, lowered, options))


def _refused(lowered: Module, options: CompileOptions) -> dict[Instruction, Exception]:
    """The instructions whose kernels LLVM does not take."""
    found: dict[Instruction, Exception] = {}
    for text, instructions in kernel_texts(lowered, options.machine, options.donation, _target(options)):
        try:
            object_of(text, options.machine)
        except CodeError as error:
            found |= dict.fromkeys(instructions, error)
    return found


BACKEND = Backend(
    name="cpu",
    compile=compiled,
    code=code_of,
    capabilities=Capabilities(
        donates=True, time_limit=True, dynamic_shapes=True, custom_calls=True, collectives=True, feeds=True,
        stages=("hlo", "llvm", "asm"),
    ),
)  # fmt: skip


def native_backend(target: Target) -> Backend:
    """The backend that makes native code by `target`, whose name it has, whatever the machine."""
    return replace(
        BACKEND,
        name=target.name,
        compile=lambda module, options: compiled(module, replace(options, target=target)),
        code=lambda module, options, stage: code_of(module, replace(options, target=target), stage),
    )
