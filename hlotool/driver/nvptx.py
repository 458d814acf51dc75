"""The backends ``nvptx:sm_90`` and so on: programs of launches for graphics processors; ``nvptx:emulate`` runs here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from hlotool.codegen.launches import LaunchProgram, manifest
from hlotool.codegen.machine import Machine, host
from hlotool.codegen.nvptx.chip import CHIPS, EMULATED, Chip, chip_named
from hlotool.codegen.nvptx.program import build
from hlotool.codegen.nvptx.target import target_for
from hlotool.driver.backend import Backend, Capabilities
from hlotool.driver.optimise import optimised
from hlotool.driver.options import CompileOptions
from hlotool.driver.program_shape import program_shape
from hlotool.evaluate.devices import Device as EvaluatedDevice
from hlotool.ir import Module, UnsupportedError
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.ir.devices import topology_of
from hlotool.passes.framework.manager import Progress
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.runtime.callback import on_device
from hlotool.runtime.cuda.driver import CudaDevice, driver
from hlotool.runtime.cuda.emulator import Emulator
from hlotool.runtime.cuda.execution import Device, executor
from hlotool.runtime.executable import Arrays, Executable, Memory
from hlotool.runtime.marshalling import check_arrays, marshalled
from hlotool.runtime.object_code import assembly
from hlotool.text.printer import print_module

__all__ = ["FAMILY", "nvptx_backend"]

_LOWERING = "lowering"


def nvptx_backend(chip: Chip) -> Backend:
    """The backend that makes programs for `chip`."""
    stages = ("hlo", "llvm", "asm", "launches") if chip.emulated else ("hlo", "llvm", "asm", "ptx", "launches")
    able = Capabilities(dynamic_shapes=True, custom_calls=True, collectives=True, feeds=True, stages=stages)
    return Backend(
        name=f"nvptx:{chip.name}", compile=partial(_compiled, chip), code=partial(_code, chip), capabilities=able
    )


def _lowered(chip: Chip, module: Module, options: CompileOptions) -> Module:
    if options.machine.numerics.flush_denormals or options.machine.numerics.excess_precision:
        raise UnsupportedError("grids neither flush denormals nor keep excess precision")
    return optimised(
        module, options.pipeline, parse_pipeline(_LOWERING), options.log, options.instruments, Progress(),
        options.strict, False, target_for(chip).costs,
    )  # fmt: skip


def _program(chip: Chip, module: Module, options: CompileOptions) -> tuple[Module, LaunchProgram]:
    lowered = _lowered(chip, module, options)
    return lowered, build(lowered, chip, target_for(chip), options.log)


def _compiled(chip: Chip, module: Module, options: CompileOptions) -> Executable:
    """`module` as a program that runs where `chip` is."""
    with room(module), collector_paused():
        lowered, program = _program(chip, module, options)
    memory = Memory(
        program.arena_bytes, sum(shape.byte_size for shape in program.parameters),
        sum(shape.byte_size for shape in program.outputs), program.constants.nbytes,
    )  # fmt: skip
    devices = topology_of(module).devices
    run = _run(chip, program) if options.to_run else _refused

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


def _run(chip: Chip, program: LaunchProgram) -> Callable[..., Arrays]:
    """The function that runs `program`; UnsupportedError where there is no such device."""
    device: Device
    if chip.emulated:
        device = Emulator(program, host())
    else:
        (text,) = program.units
        device = CudaDevice(program, assembly(text, chip.machine), driver())
    execute = executor(program, device)
    return lambda *arrays: execute(check_arrays(program.parameters, arrays))


def _refused(*arrays: object) -> NoReturn:
    raise UnsupportedError("this executable was compiled to be looked at: compile it with to_run")


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


FAMILY = replace(
    nvptx_backend(chip_named("")), name="nvptx", targets=(*CHIPS, EMULATED.name),
    at=lambda name: nvptx_backend(chip_named(name)),
)  # fmt: skip
"""All chips."""
