"""A backend that interprets modules as the passes leave them."""

from __future__ import annotations

from hlotool.driver.backend import Backend
from hlotool.driver.evaluator import evaluated
from hlotool.driver.optimise import optimise
from hlotool.driver.options import CompileOptions
from hlotool.ir import Module
from hlotool.runtime.executable import Executable
from hlotool.text.printer import print_module

__all__ = ["BACKEND"]


def _compile(module: Module, options: CompileOptions) -> Executable:
    return evaluated(optimise(module, options.pipeline), options)


def _code(module: Module, options: CompileOptions, stage: str) -> tuple[str, ...]:
    return (print_module(optimise(module, options.pipeline)),)


BACKEND = Backend(compile=_compile, code=_code)
