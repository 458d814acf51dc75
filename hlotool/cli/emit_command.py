"""``hlotool emit``."""

from __future__ import annotations

import click

from hlotool.cli.common import read_module
from hlotool.cli.options import backend_option, check_backend, cpu_option, file_argument, strict_option, tune_option
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import passes_options
from hlotool.codegen.machine import Machine, default_machine
from hlotool.driver import CompileOptions, find_backend, is_strict
from hlotool.driver.options import checked_tuning
from hlotool.ir import UnsupportedError
from hlotool.passes import parse_pipeline

__all__ = ["command"]


@click.command("emit")
@file_argument
@click.option(
    "--stage",
    type=click.Choice(["hlo", "llvm", "asm", "ptx", "launches"]),
    help="Optimised HLO as code generation gets it, LLVM IR (the default, where there is any), or assembly; for "
    "nvptx:CHIP PTX, or what it launches.",
)
@backend_option("cpu, nvptx:CHIP (sm_70 to sm_100), amdgcn:CHIP (gfx90a, ...), or an installed one.")
@passes_options()
@tune_option
@strict_option
@cpu_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
def command(
    file: str, stage: str | None, backend: str, passes: str, machine: Machine | None, output: str | None
) -> None:
    """Print FILE at a stage of compilation: optimised HLO, LLVM IR or assembly, as `run` executes it.

    --target nvptx:sm_90 --stage ptx is for graphics processors: the kernels, in the order that --stage launches has.
    """
    check_backend(backend)
    found = find_backend(backend)
    code = found.code
    if code is None or not found.capabilities.stages:
        raise UnsupportedError(f"backend {backend} makes no code")
    stages = found.capabilities.stages
    stage = stage or ("llvm" if "llvm" in stages else stages[0])
    if stage not in stages:
        raise UnsupportedError(f"backend {backend} makes no {stage}; it makes {', '.join(stages)}")
    options = CompileOptions(
        pipeline=parse_pipeline(passes), machine=machine or default_machine(), strict=is_strict(),
        tuning=checked_tuning(None),
    )
    texts = code(read_module(file), options, stage)
    if stage in ("hlo", "launches"):
        write_text(output, *texts)
        return
    mark = {"llvm": ";", "ptx": "//"}.get(stage, "#")
    write_text(output, "\n".join(f"{mark} unit {number}\n{text}" for number, text in enumerate(texts)))
