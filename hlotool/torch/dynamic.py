"""A module compiled for arguments of any sizes within bounds: a program for each size that comes."""

from __future__ import annotations

import copy
from threading import Lock
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from hlotool.ir import InputError
from hlotool.torch.module import CompiledModule, flat_arguments, raise_unpicklable, state_of
from hlotool.torch.program import compiled_graph
from hlotool.torch.specialise import bound_sizes, specialised

__all__ = ["DynamicModule"]

_MOST_SIZES = 64
"""For how many different sizes a module stays compiled."""


class DynamicModule:
    """A module whose arguments may have other sizes, within bounds: compiled for those of each call, of which the last
    ones are kept.  InputError names the dimension that is out of its bounds."""

    def __init__(self, module: Any, program: Any, name: str) -> None:
        self.module = module
        self._program, self._name = program, name
        self._known: dict[tuple[Any, ...], CompiledModule] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"DynamicModule({type(self.module).__name__}, compiled for {len(self._known)} sizes)"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the module gives."""
        leaves = arguments if not options else pytree.tree_leaves((arguments, options))
        try:
            key = tuple([leaf.shape if type(leaf) is torch.Tensor else _key(leaf) for leaf in leaves])
            found = self._known.get(key)
        except TypeError as error:
            raise InputError(f"arguments: {error}") from error
        if found is None:
            with self._lock:
                found = self._known.get(key) or self._compiled(arguments, options)
                while len(self._known) >= _MOST_SIZES:
                    del self._known[next(iter(self._known))]
                self._known[key] = found
        return found(*arguments, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> DynamicModule:
        return DynamicModule(copy.deepcopy(self.module, memo), self._program, self._name)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise_unpicklable(self)

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """That of the module."""
        return self.module.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Into the module; calls from now on see it."""
        return self.module.load_state_dict(*arguments, **options)

    def _compiled(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> CompiledModule:
        program = self._program
        given = iter(flat_arguments(program.call_spec.in_spec, arguments, options))
        values: list[Any] = []
        rows = []
        nodes = {node.name: node for node in program.graph_module.graph.nodes if node.op == "placeholder"}
        for spec in program.graph_signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                values.append(next(given))
                rows.append((spec.arg.name, nodes[spec.arg.name].meta.get("val"), values[-1]))
            elif spec.kind.name == "CONSTANT_TENSOR":
                values.append(program.constants[spec.target])
            else:
                values.append(state_of(self.module, spec.target).tensor)
        sizes = bound_sizes(rows, program.range_constraints)
        own = specialised(program.graph_module, values)
        return CompiledModule(self.module, program, own, compiled_graph(own, f"{self._name} for sizes {sizes}"))


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape
    if isinstance(value, (list, tuple, dict)):
        leaves, tree = pytree.tree_flatten(value)
        return tree, tuple(map(_key, leaves))
    return type(value), value
