"""The backends ``nvptx:sm_90``, ``amdgcn:gfx90a`` and so on: programs of launches for graphics processors.

``nvptx:emulate`` runs here; for AMD's there is code only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.gpu.chip import FAMILIES as CHIPS
from hlotool.codegen.gpu.chip import Chip, chip_named, permutation
from hlotool.codegen.gpu.program import build
from hlotool.codegen.gpu.rounding import mark_rounded
from hlotool.codegen.gpu.target import target_for
from hlotool.codegen.launches import LaunchProgram, manifest, multiplies
from hlotool.codegen.machine import Machine, host
from hlotool.driver.backend import Backend, Capabilities
from hlotool.driver.optimise import optimised
from hlotool.driver.options import CompileOptions
from hlotool.driver.program_shape import program_shape
from hlotool.driver.simpler_kernels import with_simpler_kernels
from hlotool.evaluate.devices import Device as EvaluatedDevice
from hlotool.ir import Diagnostic, Module, UnsupportedError
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.ir.devices import topology_of
from hlotool.passes.framework.manager import Progress
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.runtime.callback import on_device
from hlotool.runtime.cuda.blas import Blas, blas
from hlotool.runtime.cuda.driver import CudaDevice, driver
from hlotool.runtime.cuda.emulator import Emulator
from hlotool.runtime.cuda.execution import Device, executor
from hlotool.runtime.executable import Arrays, Executable, Memory, refuse_call
from hlotool.runtime.marshalling import check_arrays, marshalled
from hlotool.runtime.object_code import assembly
from hlotool.text.printer import print_module

__all__ = ["FAMILIES", "gpu_backend"]

_LOWERING = "lowering"


def gpu_backend(chip: Chip) -> Backend:
    """The backend that makes programs for `chip`."""
    family = "amdgcn" if chip.is_amd else "nvptx"
    stages = ("hlo", "llvm", "asm", "launches", *(() if chip.emulated or chip.is_amd else ("ptx",)))
    able = Capabilities(dynamic_shapes=True, custom_calls=True, collectives=True, feeds=True, stages=stages)
    return Backend(
        name=f"{family}:{chip.name}", compile=partial(_compiled, chip), code=partial(_code, chip), capabilities=able
    )


def _lowered(chip: Chip, module: Module, options: CompileOptions) -> Module:
    if options.machine.numerics.flush_denormals or options.machine.numerics.excess_precision:
        message = "grids neither flush denormals nor keep excess precision"
        hint = "leave out --flush-denormals and --excess-precision"
        raise UnsupportedError(message, [Diagnostic(message, hint=hint, code=UnsupportedError.code)])
    lowered = optimised(
        module, options.pipeline, parse_pipeline(_LOWERING), options.log, options.instruments, Progress(),
        options.strict, False, target_for(chip).costs,
    )  # fmt: skip
    mark_rounded(lowered)
    return lowered


def _program(chip: Chip, module: Module, options: CompileOptions) -> tuple[Module, LaunchProgram]:
    lowered = _lowered(chip, module, options)
    made = partial(build, lowered, chip, target_for(chip), options.log)
    return lowered, with_simpler_kernels(made, lowered, options, dict)


def _compiled(chip: Chip, module: Module, options: CompileOptions) -> Executable:
    """`module` as a program that runs where `chip` is."""
    with room(module), collector_paused():
        lowered, program = _program(chip, module, options)
    memory = Memory(
        program.arena_bytes, sum(shape.byte_size for shape in program.parameters),
        sum(shape.byte_size for shape in program.outputs), program.constants.nbytes,
    )  # fmt: skip
    devices = topology_of(module).devices
    run = _run(chip, program, options.log) if options.to_run else refuse_call

    def work(device: EvaluatedDevice, arrays: Sequence[object]) -> Arrays:
        with on_device(device):
            return run(*arrays)

    executable = Executable(
        module=lowered, parameters=program.parameters, outputs=program.outputs, memory=memory,
        decisions=tuple(options.log.decisions), run=run, work=work,
        devices=devices, launches=program, machine=_machine(chip),
    )  # fmt: skip
    return marshalled(executable, *program_shape(module))


def _machine(chip: Chip) -> Machine:
    """The machine that the text of a program is for."""
    return host() if chip.emulated else chip.machine


def _run(chip: Chip, program: LaunchProgram, log: DecisionLog) -> Callable[..., Arrays]:
    """The function that runs `program`; UnsupportedError where there is no such device."""
    device: Device
    if chip.emulated:
        device = Emulator(program, host(), partial(_blocks, chip))
    elif chip.is_amd:
        message = f"amdgcn:{chip.name} makes code, which nothing here gives to a device: ROCm's runtime is not called"
        hint = "compile with --emit asm or object, or run the same kernels on this processor with nvptx:emulate"
        raise UnsupportedError(message, [Diagnostic(message, hint=hint, code=UnsupportedError.code)])
    else:
        (text,) = program.units
        device = CudaDevice(program, assembly(text, chip.machine), driver(), _library(program, log))
    execute = executor(program, device)
    return lambda *arrays: execute(check_arrays(program.parameters, arrays))


def _library(program: LaunchProgram, log: DecisionLog) -> Blas | None:
    """cuBLAS, if the program has products for it and it is installed; which of both it is goes to the log."""
    if not any(map(multiplies, program.routines.values())):
        return None
    found = blas()
    missing = "cuBLAS is not installed (pip install 'hlotool[cuda]'): grids multiply"
    log.pass_name = "grids"
    log.note("library", program.entry, missing if found is None else "cuBLAS is installed, and multiplies")
    return found


def _blocks(chip: Chip, count: int) -> list[tuple[int, int]]:
    """In which order an emulation runs the blocks of a grid, as ranges."""
    if not chip.order:
        return [(0, count)]
    stride, first = permutation(chip.order, count)
    return [(block, block + 1) for block in ((number * stride + first) % count for number in range(count))]


def _code(chip: Chip, module: Module, options: CompileOptions, stage: str) -> tuple[str, ...]:
    """The texts of `module`."""
    with room(module), collector_paused():
        if stage == "hlo":
            return (print_module(_lowered(chip, module, options)),)
        _, program = _program(chip, module, options)
    if stage == "llvm":
        return program.units
    if stage == "launches":
        return (json.dumps(manifest(program), indent=1) + "\n",)
    return tuple(assembly(text, _machine(chip)) for text in program.units)


def _family(family: str, usual: str) -> Backend:
    """A backend for all chips of a family, which is that of the usual one where none is named."""
    usually = gpu_backend(chip_named(family, usual))
    return replace(
        usually, name=family, targets=tuple(CHIPS[family]), at=lambda name: gpu_backend(chip_named(family, name))
    )


FAMILIES = {"nvptx": _family("nvptx", "sm_90"), "amdgcn": _family("amdgcn", "gfx90a")}
"""NVIDIA's chips, and AMD's."""
