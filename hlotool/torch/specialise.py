"""Graphs with symbols for sizes, for the sizes that a call comes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from hlotool.ir import InputError

__all__ = ["bound_sizes", "is_symbolic", "specialised"]

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbolic(graph_module: fx.GraphModule) -> bool:
    """Whether what enters the graph has sizes that are not known."""
    return any(_unknown(n.meta.get("val")) for n in graph_module.graph.nodes if n.op == "placeholder")


def _unknown(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *_strides(value)))
    return isinstance(value, _SYMBOLS)


def _strides(value: Any) -> Sequence[Any]:
    return tuple(value.stride()) if value.layout == torch.strided else ()


def specialised(graph_module: fx.GraphModule, arguments: Sequence[Any]) -> fx.GraphModule:
    """The graph for the sizes of `arguments`: numbers that follow from them are constants in it."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [
        mode.from_tensor(value.detach(), static_shapes=True) if isinstance(value, torch.Tensor) else value
        for value in arguments
    ]
    return _specialised(graph_module, fakes, mode)


class _Function:
    """A graph that an operation is given, as one of ``torch.cond``: specialised for what it is called with."""

    def __init__(self, graph_module: fx.GraphModule, mode: FakeTensorMode) -> None:
        self.graph_module, self._mode = graph_module, mode

    def __call__(self, *arguments: Any) -> Any:
        self.graph_module = _specialised(self.graph_module, arguments, self._mode)
        output = next(iter(reversed(self.graph_module.graph.nodes)))
        return fx.map_arg(output.args[0], lambda node: node.meta["val"])


def _specialised(graph_module: fx.GraphModule, arguments: Sequence[Any], mode: FakeTensorMode) -> fx.GraphModule:
    """The same for tensors of `mode`."""
    graph = fx.Graph()
    functions: dict[str, _Function] = {}
    values: dict[fx.Node, Any] = {}
    copies: dict[fx.Node, fx.Node] = {}

    def known(argument: fx.Node) -> Any:
        return copies[argument] if argument in copies else values[argument]

    given = iter(arguments)
    for node in graph_module.graph.nodes:
        if node.op == "output":
            graph.output(fx.map_arg(node.args[0], known))
            continue
        if node.op == "placeholder":
            value = next(given)
        elif node.op == "get_attr":
            value = node.meta.get("val")
            own = getattr(graph_module, node.target, None)
            if isinstance(own, fx.GraphModule):
                value = functions[node.target] = _Function(own, mode)
        else:
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            with mode:
                value = node.target(*args, **kwargs)
        values[node] = value
        if node.op in ("placeholder", "get_attr") or not isinstance(value, (int, float, bool)):
            copies[node] = graph.node_copy(node, known)
            copies[node].meta = {**node.meta, "val": value}
            if node.op == "placeholder" and not isinstance(value, torch.Tensor):
                del copies[node]  # who reads it reads the number
    made = fx.GraphModule(graph_module, graph)
    for name, function in functions.items():
        setattr(made, name, function.graph_module)
    return made


def bound_sizes(rows: Sequence[tuple[str, Any, Any]], bounds: Mapping[Any, Any]) -> list[int]:
    """The numbers that the symbols among the arguments stand for; `rows` are names, values with symbols, and arguments.

    InputError where an argument has other sizes than the program allows: `bounds` are those of symbols and formulas.
    """
    found: dict[Any, tuple[int, str]] = {}
    formulas: list[tuple[Any, int, str]] = []
    for name, value, given in rows:
        for place, wanted, size in _pairs(name, value, given):
            if not isinstance(wanted, _SYMBOLS):
                if size != wanted:
                    raise InputError(f"{place} is {size!r}, the program is for {wanted!r}")
                continue
            formula = wanted.node.expr
            if not formula.is_Symbol:
                formulas.append((formula, size, place))
            elif found.setdefault(formula, (size, place))[0] != size:
                other = found[formula]
                raise InputError(f"{place} is {size!r}, and {other[1]} is {other[0]!r}: the program is for equal ones")
    for formula, size, place in formulas:
        if all(symbol in found for symbol in formula.free_symbols):
            due = formula.subs({symbol: found[symbol][0] for symbol in formula.free_symbols})
            if due != size:
                raise InputError(f"{place} is {size!r}, the program is for {due}")
    for formula, size, place in [*((symbol, *own) for symbol, own in found.items()), *formulas]:
        bound = bounds.get(formula)
        if bound is not None and not bound.lower <= size <= bound.upper:
            raise InputError(f"{place} is {size!r}, the program is for {bound.lower} to {bound.upper}")
    return [size for size, _ in found.values()]


def _pairs(name: str, value: Any, given: Any) -> list[tuple[str, Any, Any]]:
    """Sizes of a tensor, or a number: where it stands, what the program has there, and what came."""
    if not isinstance(value, torch.Tensor):
        return [(name, value, given)] if isinstance(value, _SYMBOLS) else []
    if not isinstance(given, torch.Tensor):
        raise InputError(f"{name}: expected a tensor, got a {type(given).__name__}")
    if given.dtype != value.dtype or given.dim() != value.dim():
        raise InputError(
            f"{name}: expected {value.dtype} of {value.dim()} dimensions, got {given.dtype} of {given.dim()}"
        )
    return [(f"{name}: dimension {n}", a, b) for n, (a, b) in enumerate(zip(value.shape, given.shape, strict=True))]
