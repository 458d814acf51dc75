"""What is said when a part of the compiler fails and the rest goes on without it."""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import suppress

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.passes.framework.pipeline import carry_pipeline
from hlotool.passes.framework.steps import Pipeline

__all__ = ["CompilerWarning", "is_strict", "report"]


class CompilerWarning(UserWarning):
    """A part of the compiler failed, which is a bug in it, and the rest went on without: what failed, how, and where a
    module is that shows it, with the pipeline that does in its header: in the file `reproducer`, if that could be
    written."""

    def __init__(self, message: str, reproducer: str | None = None) -> None:
        super().__init__(message)
        self.reproducer = reproducer


def is_strict(strict: bool | None = None) -> bool:
    """Whether a failure of a part of the compiler is an error: as asked for, else as ``HLOTOOL_STRICT`` says."""
    if strict is not None:
        return strict
    return os.environ.get("HLOTOOL_STRICT", "").strip().lower() not in ("", "0", "no", "false", "off")


def report(
    log: DecisionLog, what: str, cause: BaseException | None, instead: str, module: Module, pipeline: Pipeline
) -> None:
    """Say that something failed, and what is done instead; `pipeline` on `module` shows it."""
    from hlotool.text.printer import print_module

    why = " ".join(f"{type(cause).__name__}: {cause}".split()).removesuffix(":")
    kind, _, name = what.partition(" ")
    log.pass_name = name if kind == "pass" else "compiler"
    log.note(f"{kind}-failed", name if kind == "kernel" else module.entry.name, f"{why}; {instead}")
    where, path = "", None
    with suppress(Exception):  # what has failed may have left something that cannot be printed
        text = f"// {what}: {why}\n" + carry_pipeline(print_module(module), pipeline)
        with tempfile.NamedTemporaryFile("wb", prefix=f"hlotool-repro-{kind}-", suffix=".hlo", delete=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        path = file.name
        where = f"; a module that shows it is in {path}"
    warnings.warn(CompilerWarning(f"{what} failed: {why}: {instead}{where}", path), stacklevel=2)
