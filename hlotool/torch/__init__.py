"""Modules and functions of PyTorch, compiled by hlotool (extra ``hlotool[torch]``).

    model = torch.compile(model, backend="hlotool")            # inference and training

    fast = hlotool.torch.compile(model.eval(), (example,))     # one call of native code, for the shapes of the example

Graphs of ATen operations enter; functions over tensors leave.  `explain` says what was compiled, and what runs eagerly
and why.  PyTorch is loaded when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlotool.torch.export import CompiledModule, DynamicModule
    from hlotool.torch.record import Explanation

__all__ = ["compile", "explain"]


def _need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError("hlotool.torch needs PyTorch: pip install 'hlotool[torch]'", name="torch") from error


def compile(
    module: Callable[..., Any],
    example_inputs: Sequence[Any] = (),
    example_options: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> CompiledModule | DynamicModule:
    """A module or a function as native code, for arguments like the examples: a tuple, and those given by name.

    It runs without guards, without gradients and without copies: tensors of other types or sizes are refused with an
    InputError.  Parameters and buffers are those of `module`, as they are at the time of a call; buffers that it
    changes are changed.  It computes what `module` does in its present mode (call ``module.eval()`` before).
    Arguments that are no tensors are part of the program.  Results share no memory with arguments, unless they are
    arguments.  `dynamic_shapes`, as ``torch.export.export`` takes them (``({0: torch.export.Dim("batch", max=64)},)``),
    are sizes that may differ from call to call: a program is compiled for each size that comes, and kept.
    ImportError without PyTorch, InputError where PyTorch cannot export the module.
    """
    _need_torch()
    from hlotool.torch.export import compile_module

    return compile_module(module, example_inputs, example_options, dynamic_shapes)


def explain() -> Explanation:
    """What became of every graph that PyTorch handed over in this process: clusters, what runs eagerly, and why."""
    _need_torch()
    from hlotool.torch.record import explain as explained

    return explained()
