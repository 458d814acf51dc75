"""Runs operations of PyTorch as hlotool lowers them: what the tests of `hlotool.torch` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import hlotool
from hlotool.torch.call import function_of
from hlotool.torch.graph import lower
from hlotool.torch.record import clear

__all__ = ["begin_anew", "run_lowered", "traced"]


def begin_anew(seed: int = 0) -> None:
    """Forget what was compiled and recorded, and draw random numbers from `seed` on."""
    torch._dynamo.reset()
    clear()
    torch.manual_seed(seed)


def traced(function: Callable[..., Any], *arguments: Any) -> Any:
    """The FX graph of ATen operations of a function, functional, with the values' metadata."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments]
    return make_fx(torch.func.functionalize(function), tracing_mode="fake")(*fakes)


def run_lowered(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function of tensors (flat tuples of tensors), every operation of it compiled by hlotool."""
    graph_module = traced(function, *arguments)
    lowered = lower(graph_module)
    captured = [getattr(graph_module, name) for name in lowered.captured]
    executable = hlotool.compile(lowered.module)
    found = function_of(lowered, executable, captured, graph_module.forward, lowered.inputs)(*arguments)
    output = next(iter(reversed(graph_module.graph.nodes))).args[0]
    return tuple(found) if isinstance(output, (tuple, list)) else found[0]
