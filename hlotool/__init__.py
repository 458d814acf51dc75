"""hlotool: compile, run and inspect HLO, the graph language of the XLA compiler.

    import hlotool

    module = hlotool.load("model.hlo")
    executable = hlotool.compile(module)
    outputs = executable(*arrays)

Names are imported when first used: ``import hlotool`` loads neither NumPy nor llvmlite.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hlotool.version import __version__

if TYPE_CHECKING:
    from hlotool.devices.mpi import MpiDevices
    from hlotool.driver import CompilerWarning
    from hlotool.driver import compile_module as compile
    from hlotool.driver.optimise import optimise
    from hlotool.evaluate.custom_call import CustomCall
    from hlotool.evaluate.custom_calls import register_custom_call
    from hlotool.evaluate.feeds import Feeds
    from hlotool.inspect.module_diff import diff
    from hlotool.ir import (
        ExecutionError,
        HloError,
        InputError,
        Module,
        ParseError,
        UnsupportedError,
        VerificationError,
    )
    from hlotool.ir.verifier import check as verify
    from hlotool.numpy.batching import vmap
    from hlotool.numpy.control import cond, fori_loop, map, scan, switch, while_loop
    from hlotool.numpy.gradients import (
        checkpoint,
        grad,
        hessian,
        jacfwd,
        jacrev,
        jvp,
        stop_gradient,
        value_and_grad,
        vjp,
    )
    from hlotool.numpy.jit import explain_last, jit
    from hlotool.numpy.own_derivatives import custom_jvp, custom_vjp
    from hlotool.runtime.executable import Executable
    from hlotool.text.load import load
    from hlotool.text.parser import parse
    from hlotool.text.printer import print_module

__all__ = [
    "CompilerWarning",
    "CustomCall",
    "Executable",
    "ExecutionError",
    "Feeds",
    "HloError",
    "InputError",
    "Module",
    "MpiDevices",
    "ParseError",
    "UnsupportedError",
    "VerificationError",
    "__version__",
    "checkpoint",
    "compile",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "diff",
    "explain_last",
    "fori_loop",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "load",
    "map",
    "optimise",
    "parse",
    "print_module",
    "register_custom_call",
    "scan",
    "stop_gradient",
    "switch",
    "value_and_grad",
    "verify",
    "vjp",
    "vmap",
    "while_loop",
]

_HOMES = {
    "vjp": ("hlotool.numpy.gradients", "vjp"),
    "value_and_grad": ("hlotool.numpy.gradients", "value_and_grad"),
    "stop_gradient": ("hlotool.numpy.gradients", "stop_gradient"),
    "jvp": ("hlotool.numpy.gradients", "jvp"),
    "hessian": ("hlotool.numpy.gradients", "hessian"),
    "jacfwd": ("hlotool.numpy.gradients", "jacfwd"),
    "jacrev": ("hlotool.numpy.gradients", "jacrev"),
    "grad": ("hlotool.numpy.gradients", "grad"),
    "checkpoint": ("hlotool.numpy.gradients", "checkpoint"),
    "CompilerWarning": ("hlotool.driver", "CompilerWarning"),
    "compile": ("hlotool.driver", "compile_module"),
    "explain_last": ("hlotool.numpy.jit", "explain_last"),
    "cond": ("hlotool.numpy.control", "cond"),
    "fori_loop": ("hlotool.numpy.control", "fori_loop"),
    "map": ("hlotool.numpy.control", "map"),
    "scan": ("hlotool.numpy.control", "scan"),
    "switch": ("hlotool.numpy.control", "switch"),
    "while_loop": ("hlotool.numpy.control", "while_loop"),
    "jit": ("hlotool.numpy.jit", "jit"),
    "custom_jvp": ("hlotool.numpy.own_derivatives", "custom_jvp"),
    "custom_vjp": ("hlotool.numpy.own_derivatives", "custom_vjp"),
    "diff": ("hlotool.inspect.module_diff", "diff"),
    "optimise": ("hlotool.driver", "optimise"),
    "Executable": ("hlotool.runtime.executable", "Executable"),
    "CustomCall": ("hlotool.evaluate.custom_call", "CustomCall"),
    "MpiDevices": ("hlotool.devices.mpi", "MpiDevices"),
    "Feeds": ("hlotool.evaluate.feeds", "Feeds"),
    "register_custom_call": ("hlotool.evaluate.custom_calls", "register_custom_call"),
    "load": ("hlotool.text.load", "load"),
    "parse": ("hlotool.text.parser", "parse"),
    "print_module": ("hlotool.text.printer", "print_module"),
    "verify": ("hlotool.ir.verifier", "check"),
    "vmap": ("hlotool.numpy.batching", "vmap"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hlotool' has no attribute {name!r}")
    home, attribute = _HOMES.get(name, ("hlotool.ir", name))
    value = getattr(import_module(home), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
