"""`hlotool.torch.compile`: a module or a function for given arguments, without guards; `torch.export` records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import torch

from hlotool.ir import InputError
from hlotool.torch.decompositions.table import decompositions
from hlotool.torch.dynamic import DynamicModule
from hlotool.torch.module import CompiledModule
from hlotool.torch.program import compiled_graph
from hlotool.torch.specialise import is_symbolic

__all__ = ["CompiledModule", "DynamicModule", "compile_module"]

_NUMBERS = count()


def compile_module(
    module: Callable[..., Any],
    example_inputs: Sequence[Any] = (),
    example_options: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> CompiledModule | DynamicModule:
    """`module` compiled for arguments like these: a tuple, and a dictionary of those given by name.

    What comes back takes tensors of the same types and sizes and gives tensors, without copies on the way in or out,
    and without gradients.  Arguments that are no tensors are part of the program.  Parameters and buffers are those
    of `module`, as they are at the time of a call; buffers that it changes are changed.  It computes what `module` does
    in the mode that it is in now (``module.eval()``).  Operations that have no lowering run eagerly (`explain`).
    `dynamic_shapes` are those of ``torch.export.export``: sizes that may differ from call to call, and their bounds.
    InputError where PyTorch cannot export it.
    """
    if isinstance(example_inputs, torch.Tensor) or not isinstance(example_inputs, Sequence):
        raise InputError(f"example_inputs: expected a tuple of arguments, not a {type(example_inputs).__name__}")
    if not callable(module):
        raise InputError(f"expected a module or a function of tensors, not a {type(module).__name__}")
    own = module if isinstance(module, torch.nn.Module) else _Function(module)
    if dynamic_shapes is not None and own is not module:
        dynamic_shapes = _for_function(dynamic_shapes)
    options = dict(example_options or {})
    try:
        with torch.no_grad():
            program = torch.export.export(own, tuple(example_inputs), options, dynamic_shapes=dynamic_shapes)
            program = program.run_decompositions(decompositions())
    except Exception as error:
        name = getattr(module, "__name__", type(module).__name__)
        raise InputError(f"PyTorch cannot export {name}: {_first_lines(error)}") from error
    name = f"module {next(_NUMBERS)} ({type(own).__name__})"
    if is_symbolic(program.graph_module):
        return DynamicModule(own, program, name)
    return CompiledModule(own, program, program.graph_module, compiled_graph(program.graph_module, name))


def _for_function(shapes: Any) -> Any:
    """`dynamic_shapes` of a function for `_Function`, whose parameters have other names."""
    if isinstance(shapes, Mapping):
        raise InputError("dynamic_shapes: expected a tuple with an entry for each argument of the function, not a dict")
    return (tuple(shapes),)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


class _Function(torch.nn.Module):  # type: ignore[misc]  # torch's types are not read
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)
