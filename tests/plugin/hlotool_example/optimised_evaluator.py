"""A backend that interprets modules as the passes leave them."""

from __future__ import annotations

from dataclasses import replace

from hlotool.driver import evaluator
from hlotool.driver.optimise import optimise
from hlotool.driver.options import CompileOptions
from hlotool.ir import Module
from hlotool.runtime.executable import Executable
from hlotool.text.printer import print_module

__all__ = ["BACKEND"]


def _compile(module: Module, options: CompileOptions) -> Executable:
    return evaluator.evaluated(optimise(module, options.pipeline), options)


def _code(module: Module, options: CompileOptions, stage: str) -> tuple[str, ...]:
    return (print_module(optimise(module, options.pipeline)),)


BACKEND = replace(
    evaluator.BACKEND,
    name="evaluate-optimised",
    compile=_compile,
    code=_code,
    capabilities=replace(evaluator.BACKEND.capabilities, stages=("hlo",)),
)
