"""IREE, for this processor, at its highest level: it is given StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import iree.compiler
import iree.runtime
import numpy as np

__all__ = ["arrays", "prepare", "version"]

_OPTIONS = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "--iree-input-demote-f64-to-f32=false"]


def version() -> str:
    return f"IREE {version_of('iree-base-compiler')}"


def prepare(source: str, given: Sequence[Any]) -> Callable[[], Any]:
    try:
        code = iree.compiler.compile_str(
            Path(source).read_bytes(), input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=_OPTIONS
        )
    except iree.compiler.CompilerToolError as error:
        lines = [line for line in str(error).splitlines() if "error:" in line]
        raise RuntimeError(lines[0].strip() if lines else "its compiler failed") from None
    config = iree.runtime.Config("local-task")
    context = iree.runtime.SystemContext(config=config)
    module = iree.runtime.VmModule.copy_buffer(context.instance, code)
    context.add_vm_module(module)
    function = context.modules[module.name]["main"]
    held = [iree.runtime.asdevicearray(config.device, np.ascontiguousarray(one)) for one in given]
    return lambda: function(*held)


def arrays(found: Any) -> list[Any]:
    several = found if isinstance(found, tuple | list) else (found,)
    return [np.asarray(one.to_host()) for one in several]
